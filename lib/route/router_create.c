/* The table of routers and the making of one; see router.h. */
#include "route/router.h"
#include "spec/routers.h"

#define ROUTER(name, type, ...) extern const smoe_router_type type;
#include "spec/routers.def"

static const smoe_router_type *const types[SMOE_ROUTERS] = {
#define ROUTER(name, type, ...) &type,
#include "spec/routers.def"
};

smoe_router *smoe_router_create(const smoe_moe_spec *spec, smoe_params *params,
                                const smoe_router_place *place, size_t image_tokens, size_t d) {
    const smoe_router_type *type = types[smoe_router_find(spec->router) - smoe_routers];
    smoe_router *r = smoe_alloc(1, type->size);
    r->type = type;
    r->spec = spec;
    r->params = params;
    r->block = place->block;
    r->site = place->site;
    r->image_tokens = image_tokens;
    r->d = d;
    smoe_moe_shape shape = smoe_moe_shape_of(spec, r->block, image_tokens);
    r->T = shape.T;
    r->E = shape.E;
    r->P = shape.P;
    r->K = shape.K;
    r->plan = (smoe_plan){.T = shape.T,
                          .E = shape.E,
                          .P = shape.P,
                          .S = shape.S,
                          .rounded = spec->mix_precision == SMOE_MIX_BF16};
    snprintf(r->prefix, sizeof r->prefix, "%s", place->name);
    type->init(r);
    return r;
}
