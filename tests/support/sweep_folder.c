/* See sweep_folder.h. */
#include "sweep_folder.h"
#include "sweep/evaluations.h"
#include "sweep/trial.h"
#include "unit.h"

#include <stdlib.h>

int sweep_folder_setup(void **state) {
    sweep_folder *w = calloc(1, sizeof *w);
    if (!w) return -1;
    scratch_make(&w->folder);
    scratch_path(&w->folder, w->dir, "sweep");
    *state = w;
    return 0;
}

int sweep_folder_teardown(void **state) {
    sweep_folder *w = *state;
    scratch_remove(&w->folder);
    free(w);
    return 0;
}

int sweep_folder_plan_text(smoe_sweep *sweep, const smoe_spec_text *from, smoe_err *err) {
    smoe_spec spec;
    smoe_sweep_keys axes = {0}, points = {0};
    char *plain[1];
    size_t n;
    if (smoe_spec_parse(&spec,
                        &(smoe_spec_text){.text = from->text,
                                          .length = from->length,
                                          .label = from->label,
                                          .folder = from->folder},
                        NULL, 0, err))
        fail_msg("%s", err->text);
    assert_int_equal(smoe_axes_of(&axes, &spec.sweep.train, NULL, 0, plain, &n, err), 0);
    assert_int_equal(smoe_axes_of(&points, &spec.sweep.evaluate, NULL, 0, plain, &n, err), 0);
    if (smoe_sweep_expand(sweep, from, NULL, 0, &axes, false, err))
        fail_msg("%s: %s", from->label, err->text);
    int code = 0;
    if (points.count && smoe_evaluations_plan(sweep, &points, err)) code = (int)err->code;
    if (!code && smoe_sweep_set_plan(sweep, &spec.sweep.plan, err)) code = (int)err->code;
    if (!code && spec.sweep.reference &&
        smoe_sweep_refer(sweep, spec.sweep.reference, spec.sweep.reference_from, err))
        code = (int)err->code;
    smoe_spec_keys_clear(&axes);
    smoe_spec_keys_clear(&points);
    smoe_spec_free(&spec);
    return code;
}

int sweep_folder_plan(smoe_sweep *sweep, const char *text, smoe_err *err) {
    smoe_spec_text from = specs_text(text);
    return sweep_folder_plan_text(sweep, &from, err);
}

smoe_sweep sweep_folder_trials(const char *text) {
    smoe_sweep sweep;
    smoe_err err;
    if (sweep_folder_plan(&sweep, text, &err)) fail_msg("%s", err.text);
    return sweep;
}

void sweep_folder_done(const smoe_sweep *sweep, size_t i, double precision, const char *metric,
                       double value) {
    smoe_err err;
    json_t *result = json_pack("{s:f, s:f}", "precision_at_1", precision, metric, value);
    assert_int_equal(smoe_trial_finish(sweep, i,
                                       json_pack("{s:s, s:o}", "status", "done", "result", result),
                                       &err),
                     0);
}

smoe_results sweep_folder_results(smoe_sweep *sweep) {
    smoe_results r;
    smoe_err err;
    for (size_t i = 0; i < sweep->trials; i++) assert_int_equal(smoe_trial_look(sweep, i, &err), 0);
    if (smoe_results_make(&r, sweep, &err)) fail_msg("%s", err.text);
    return r;
}
