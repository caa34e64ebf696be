/* Routing ablations; see ablate.h. */
#include "study/ablate.h"
#include "base/file.h"
#include "spec/routers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char dense[] = "dense"; /* the row without experts */

static bool is_row(const char *name) {
    return smoe_router_find(name) || !strcmp(name, dense);
}

static int unknown(const char *name, smoe_err *err) {
    const char *known[SMOE_ROUTERS + 1] = {dense};
    for (size_t i = 0; i < SMOE_ROUTERS; i++) known[i + 1] = smoe_routers[i].name;
    int nearest = smoe_text_nearest(name, known, SMOE_ROUTERS + 1);
    return smoe_fail(err, SMOE_USAGE, "--routers: no router '%s'%s%s%s", name,
                     nearest < 0 ? "" : "; did you mean '", nearest < 0 ? "" : known[nearest],
                     nearest < 0 ? "" : "'?");
}

/* ---- axes ------------------------------------------------------------------------------------- */

/* A row of the table as overrides. */
static int add_router(smoe_axis *axis, const smoe_spec *spec, const char *name) {
    const smoe_moe_spec *moe = &spec->model.moe;
    size_t T = smoe_spec_tokens(spec), E = moe->experts, P = smoe_moe_slots_per_expert(moe, T);
    char router[64], slots[64];
    const char *override[] = {router, slots, "model.moe.total_slots=0"};
    const smoe_router_row *row = smoe_router_find(name);
    bool more = row && row->family == SMOE_FAMILY_FIXED && E * P < T;
    snprintf(router, sizeof router, row ? "model.moe.router=%s" : "model.moe.layers=none", name);
    snprintf(slots, sizeof slots, "model.moe.slots_per_expert=%zu", (T + E - 1) / E);
    return smoe_axis_add(axis, &name, override, more ? 3 : 1);
}

static int add_seed(smoe_axis *axis, const char *seed) {
    char text[64];
    const char *override = text;
    snprintf(text, sizeof text, "seed=%s", seed);
    return smoe_axis_add(axis, &seed, &override, 1);
}

/* Adds a point for each item of the list. */
static int add_list(smoe_axis *axis, const smoe_spec *spec, const char *list, smoe_err *err) {
    char *copy = strdup(list), *rest = copy, *item;
    int status = 0;
    if (!axis || !copy) {
        free(copy);
        return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    while (!status && (item = strsep(&rest, ","))) {
        if (spec && !is_row(item)) status = unknown(item, err);
        for (size_t p = 0; p < axis->points && !status; p++)
            if (!strcmp(axis->point[p].value[0], item))
                status =
                    smoe_fail(err, SMOE_USAGE, "--%ss: '%s' is there twice", axis->column[0], item);
        if (!status && (spec ? add_router(axis, spec, item) : add_seed(axis, item)))
            status = smoe_fail(err, SMOE_RUNTIME, "out of memory");
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
    if (add_list(smoe_axes_add(axes, &router, 1), spec, router_list, err)) return -1;
    return add_list(smoe_axes_add(axes, &seed, 1), NULL, seeds, err);
}

/* ---- comparing -------------------------------------------------------------------------------- */

static const char *router_of(const smoe_results *r, size_t group) {
    return r->sweep->cell[r->first[group]].value[0];
}

size_t smoe_ablate_reference(const smoe_results *r) {
    for (size_t g = 0; g < r->groups; g++)
        if (!strcmp(router_of(r, g), "soft")) return g;
    return 0;
}

smoe_paired smoe_ablate_compare(const smoe_results *r, size_t group, size_t reference,
                                size_t metric) {
    const smoe_sweep *sweep = r->sweep;
    size_t n = 0;
    double *a = calloc(2 * sweep->cells, sizeof *a), *b = a + sweep->cells;
    smoe_paired paired = {.mean = NAN, .half = NAN};
    if (!a) return paired;
    for (size_t i = 0; i < sweep->cells; i++)
        for (size_t k = 0; k < sweep->cells && r->group[i] == group; k++)
            if (r->group[k] == reference &&
                !strcmp(sweep->cell[i].value[sweep->seed], sweep->cell[k].value[sweep->seed])) {
                a[n] = r->value[i * r->metrics + metric];
                b[n++] = r->value[k * r->metrics + metric];
            }
    paired = smoe_stats_paired(a, b, n, 0.95);
    free(a);
    return paired;
}

bool smoe_ablate_metric(const char *metric) {
    return !strcmp(metric, "precision_at_1") || !strcmp(metric, "test_loss") ||
           !strcmp(metric, "step_s") || !strncmp(metric, "fewshot_", 8);
}

static void put_number(FILE *out, double x) {
    fputc(',', out);
    if (isfinite(x)) fprintf(out, "%.17g", x);
}

static void put_differences(FILE *out, const smoe_results *r) {
    size_t reference = smoe_ablate_reference(r);
    fputs("router,reference,metric,difference,low,high,n,distinguishable\n", out);
    for (size_t g = 0; g < r->groups; g++)
        for (size_t m = 0; m < r->metrics; m++) {
            if (g == reference || !smoe_ablate_metric(r->metric[m])) continue;
            smoe_paired p = smoe_ablate_compare(r, g, reference, m);
            fprintf(out, "%s,%s,%s", router_of(r, g), router_of(r, reference), r->metric[m]);
            put_number(out, p.mean);
            put_number(out, p.mean - p.half);
            put_number(out, p.mean + p.half);
            fprintf(out, ",%zu,%s\n", p.n, p.distinguishable ? "true" : "false");
        }
}

int smoe_ablate_write(const smoe_results *r, smoe_err *err) {
    char *text = NULL, *path = smoe_text_format("%s/differences.csv", r->sweep->dir);
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) put_differences(out, r);
    bool bad = !out || !path || ferror(out);
    if (out) bad |= fclose(out) != 0;
    int status = bad ? smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", r->sweep->dir)
                     : smoe_file_write(path, text, size, err);
    free(text);
    free(path);
    return status;
}
