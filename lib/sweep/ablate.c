/* Routing ablations; see ablate.h. */
#include "sweep/ablate.h"
#include "base/alloc.h"
#include "spec/routers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char dense[] = "dense"; /* the setting without experts */

static bool is_row(const char *name) {
    return smoe_router_find(name) || !strcmp(name, dense);
}

static int ablate_unknown(const char *name, smoe_err *err) {
    const char *known[SMOE_ROUTERS + 1] = {dense};
    for (size_t i = 0; i < SMOE_ROUTERS; i++) known[i + 1] = smoe_routers[i].name;
    int nearest = smoe_text_nearest(name, known, SMOE_ROUTERS + 1);
    return smoe_fail(err, SMOE_USAGE, "--routers: no router '%s'%s%s%s", name,
                     nearest < 0 ? "" : "; did you mean '", nearest < 0 ? "" : known[nearest],
                     nearest < 0 ? "" : "'?");
}

/* A line of the table as overrides. */
static void add_router(smoe_axis *axis, const smoe_spec *spec, const char *name) {
    const smoe_moe_spec *moe = &spec->model.moe;
    size_t T = smoe_spec_tokens(spec), E = moe->experts, P = smoe_moe_slots_per_expert(moe, 0, T);
    char router[64], slots[64];
    const char *assign[] = {router, slots, "model.moe.total_slots=0"};
    const smoe_router_entry *entry = smoe_router_find(name);
    bool more = entry && entry->family == SMOE_FAMILY_FIXED && E * P < T;
    snprintf(router, sizeof router, entry ? "model.moe.router=%s" : "model.moe.layers=none", name);
    snprintf(slots, sizeof slots, "model.moe.slots_per_expert=%zu", (T + E - 1) / E);
    smoe_axis_add(axis, &name, assign, more ? 3 : 1);
}

static void add_seed(smoe_axis *axis, const char *seed) {
    char text[64];
    const char *assign = text;
    snprintf(text, sizeof text, "seed=%s", seed);
    smoe_axis_add(axis, &seed, &assign, 1);
}

/* Adds a point for each item of the list. */
static int ablate_add_list(smoe_axis *axis, const smoe_spec *spec, const char *list,
                           smoe_err *err) {
    char *copy = smoe_alloc_text(list), *rest = copy, *item;
    int status = 0;
    while (!status && (item = strsep(&rest, ","))) {
        if (spec && !is_row(item)) status = ablate_unknown(item, err);
        if (!spec && (!*item || item[strspn(item, "0123456789")]))
            status =
                smoe_fail(err, SMOE_USAGE,
                          "--seeds: expected whole numbers separated by commas, found '%s'", list);
        for (size_t p = 0; p < axis->points && !status; p++)
            if (!strcmp(axis->point[p].value[0], item))
                status =
                    smoe_fail(err, SMOE_USAGE, "--%ss: '%s' is given twice", axis->column[0], item);
        if (status) break;
        if (spec)
            add_router(axis, spec, item);
        else
            add_seed(axis, item);
    }
    free(copy);
    return status;
}

int smoe_ablate_axes(smoe_axes *axes, const smoe_spec *spec, const char *router_list,
                     const char *seeds, smoe_err *err) {
    static const char *const router = "router", *const seed = "seed";
    if (!spec->model.moe.layer_count)
        return smoe_fail(err, SMOE_USAGE,
                         "model.moe.layers: none: there is no MoE layer whose router could change");
    if (ablate_add_list(smoe_axes_add(axes, &router, 1), spec, router_list, err)) return -1;
    return ablate_add_list(smoe_axes_add(axes, &seed, 1), NULL, seeds, err);
}
