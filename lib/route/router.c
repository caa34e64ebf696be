/* The table of routers and the making of one; see router.h. */
#include "route/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUTER(name, type, summary) extern const smoe_router_type type;
#include "route/routers.def"
#undef ROUTER

static const struct row {
    const char *name, *summary;
    const smoe_router_type *type;
} rows[] = {
#define ROUTER(name, type, summary) {name, summary, &type},
#include "route/routers.def"
#undef ROUTER
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *smoe_router_name(size_t i) {
    return i < ROWS ? rows[i].name : NULL;
}
const char *smoe_router_summary(size_t i) {
    return i < ROWS ? rows[i].summary : NULL;
}

smoe_router *smoe_router_create(const smoe_moe_spec *spec, smoe_params *params, size_t block,
                                size_t image_tokens, size_t d, smoe_err *err) {
    const smoe_router_type *type = NULL;
    for (size_t i = 0; i < ROWS && !type; i++)
        if (!strcmp(rows[i].name, spec->router)) type = rows[i].type;
    if (!type) {
        smoe_fail(err, SMOE_USAGE, "model.moe.router: unknown router '%s'", spec->router);
        return NULL;
    }
    smoe_router *r = calloc(1, type->size);
    if (!r) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for a router");
        return NULL;
    }
    r->type = type;
    r->spec = spec;
    r->params = params;
    r->block = block;
    r->image_tokens = image_tokens;
    r->d = d;
    r->E = spec->experts;
    snprintf(r->prefix, sizeof r->prefix, "blocks.%zu.mlp.router", block);
    if (type->init(r, err)) {
        free(r);
        return NULL;
    }
    return r;
}

void smoe_router_free(smoe_router *router) {
    free(router);
}
