/* smoe ablate: a spec with its router replaced, over seeds, and the rows compared seed by seed. It is a
 * sweep over study/ablate.h's axes; cells.h runs it. */
#include "cells.h"
#include "cmd.h"
#include "table.h"
#include "study/ablate.h"
#include "train/run.h"

#include <math.h>
#include <stdlib.h>

static int expand(smoe_sweep *sweep, const char *file, const smoe_options *options, smoe_err *err) {
    smoe_spec_text text;
    smoe_spec spec = {0};
    smoe_axes axes = {0};
    size_t skipped;
    int status = smoe_spec_text_read(&text, file, err);
    if (!status)
        status = smoe_spec_parse(&spec, text.text, text.length, text.label, text.folder,
                                 options->override, options->overrides, err);
    if (!status) status = smoe_ablate_axes(&axes, &spec, options->routers, options->seeds, err);
    if (!status)
        status = smoe_sweep_expand(sweep, &text, options->override, options->overrides, &axes,
                                   false, &skipped, err);
    smoe_axes_free(&axes);
    smoe_spec_free(&spec);
    smoe_spec_text_free(&text);
    return status;
}

static const char *router_of(const smoe_results *r, size_t group) {
    return r->sweep->cell[r->first[group]].value[0];
}

static json_t *differences_json(const smoe_results *r, size_t reference) {
    json_t *list = json_array();
    for (size_t g = 0; g < r->groups; g++)
        for (size_t m = 0; m < r->metrics; m++) {
            if (g == reference || !smoe_ablate_metric(r->metric[m])) continue;
            smoe_paired p = smoe_ablate_compare(r, g, reference, m);
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:b}", "router",
                                router_of(r, g), "reference", router_of(r, reference), "metric",
                                r->metric[m], "difference", smoe_run_number(p.mean), "low",
                                smoe_run_number(p.mean - p.half), "high",
                                smoe_run_number(p.mean + p.half), "n", (json_int_t)p.n,
                                "distinguishable", p.distinguishable));
        }
    return list;
}

static void add_difference(smoe_table *table, const smoe_results *r, size_t g, size_t reference,
                           size_t m) {
    smoe_paired p = smoe_ablate_compare(r, g, reference, m);
    smoe_table_add(table, "%s", router_of(r, g));
    smoe_table_add(table, "%s", r->metric[m]);
    if (isfinite(p.mean))
        smoe_table_add(table, "%+.4g", p.mean);
    else
        smoe_table_add(table, "-");
    if (isfinite(p.half))
        smoe_table_add(table, "[%+.4g, %+.4g]", p.mean - p.half, p.mean + p.half);
    else
        smoe_table_add(table, "-");
    smoe_table_add(table, "%zu", p.n);
    smoe_table_add(table, "%s", p.distinguishable ? "distinguishable" : "not distinguishable");
}

static int report(const smoe_results *r, const smoe_options *options, smoe_err *err) {
    size_t reference = smoe_ablate_reference(r);
    if (smoe_ablate_write(r, err)) return -1;
    if (options->json) {
        json_t *value = smoe_cells_json(r);
        if (value) json_object_set_new(value, "differences", differences_json(r, reference));
        return smoe_cmd_json(value, err);
    }
    if (smoe_cells_summary(r, options, err)) return -1;
    static const char *const heading[] = {"router",       "metric", "difference",
                                          "95% interval", "n",      ""};
    smoe_table table = {.columns = 6};
    for (size_t c = 0; c < 6; c++) smoe_table_add(&table, "%s", heading[c]);
    for (size_t m = 0; m < r->metrics; m++)
        for (size_t g = 0; g < r->groups; g++)
            if (g != reference && smoe_ablate_metric(r->metric[m]))
                add_difference(&table, r, g, reference, m);
    printf("\nDifferences from %s, seed by seed (differences.csv):\n", router_of(r, reference));
    int status = smoe_table_print(&table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(&table);
    return status;
}

/* A folder that is there must hold an ablation, not any sweep. */
static int check(const smoe_sweep *sweep, smoe_err *err) {
    if (sweep->columns == 2 && sweep->seed == 1) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s: a sweep, but no ablation; it is for smoe sweep",
                     sweep->dir);
}

int cmd_ablate(const smoe_options *options, smoe_err *err) {
    static const smoe_cells_kind ablation = {
        .suffix = "ablate", .expand = expand, .check = check, .report = report};
    return smoe_cells_command(&ablation, options, err);
}
