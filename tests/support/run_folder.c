/* See run_folder.h. */
#include "run_folder.h"
#include "specs.h"
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void run_folder_params(smoe_params *p, int slabs) {
    smoe_err err = {0};
    smoe_params_add(p, smoe_param_normal(SMOE_PARAM_KERNEL, 0), 2,
                    (size_t[]){RUN_FOLDER_BIG / 100, 100}, "big.weight");
    smoe_params_add(p, smoe_param_constant(0), 0, NULL, "scale");
    assert_int_equal(smoe_params_allocate(p, slabs, &err), 0);
}

int run_folder_setup(void **state) {
    run_folder *r = *state = calloc(1, sizeof *r);
    scratch_make(&r->scratch);
    scratch_path(&r->scratch, r->run, "a/run");
    r->spec = specs_good("name: one\ndata: {source: shapes}\n", NULL, NULL, NULL);
    run_folder_params(&r->params, 4);
    return 0;
}

int run_folder_teardown(void **state) {
    run_folder *r = *state;
    smoe_params_free(&r->params);
    smoe_spec_free(&r->spec);
    scratch_remove(&r->scratch);
    free(r);
    return 0;
}

static const char *in_run(char path[SCRATCH_PATH], const run_folder *r, const char *name) {
    assert_true(snprintf(path, SCRATCH_PATH, "%s/%s", r->run, name) < SCRATCH_PATH);
    return path;
}

/* Records without their running checksums, which are tested separately. */
static void drop_chains(char *text) {
    static const char key[] = ",\"chain\":\"";
    for (char *at = text; (at = strstr(at, key));) {
        char *end = strchr(at + sizeof key - 1, '"');
        assert_non_null(end);
        memmove(at, end + 1, strlen(end + 1) + 1);
    }
}

char *run_folder_read(const run_folder *r, const char *name) {
    char path[SCRATCH_PATH], *text = scratch_read(in_run(path, r, name), NULL);
    if (!strcmp(name, "metrics.jsonl")) drop_chains(text);
    return text;
}

void run_folder_write(const run_folder *r, const char *name, const char *text) {
    char path[SCRATCH_PATH];
    scratch_write(in_run(path, r, name), text, strlen(text));
}

bool run_folder_has(const run_folder *r, const char *name) {
    char path[SCRATCH_PATH];
    struct stat st;
    return !lstat(in_run(path, r, name), &st);
}

void run_folder_assert_file(const run_folder *r, const char *name, const char *want) {
    char *text = run_folder_read(r, name);
    assert_string_equal(text, want);
    free(text);
}

smoe_run *run_folder_opened(run_folder *r, smoe_run_mode mode) {
    smoe_run *run;
    if (smoe_run_open(&run, r->run, mode, &r->spec, NULL, &r->err) ||
        smoe_run_begin(run, &r->spec, &r->err))
        fail_msg("%s", r->err.text);
    return run;
}

void run_folder_closed(run_folder *r, smoe_run *run, const char *status) {
    assert_int_equal(smoe_run_close(run, status, &r->err), 0);
}

int run_folder_record(smoe_run *run, int step, double loss, smoe_err *err) {
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(step));
    json_object_set_new(o, "train/loss", smoe_run_number(loss));
    return smoe_run_metrics(run, o, err);
}

/* Every element of every slab is a function of (slab, place, step). */
static real element(int slab, size_t i, uint64_t step) {
    return (real)((double)((i * 31 + (size_t)slab * 7 + step * 1009) % 4099) / 4096);
}

static real *slab_of(const smoe_params *p, int i) {
    return i == 0 ? p->w : i == 1 ? p->m : p->v;
}

void run_folder_fill(const smoe_params *p, uint64_t step) {
    for (int s = 0; s < 3; s++)
        for (size_t i = 0; slab_of(p, s) && i < p->size; i++)
            slab_of(p, s)[i] = element(s, i, step);
}

bool run_folder_filled(const smoe_params *p, uint64_t step) {
    for (int s = 0; s < 3; s++)
        for (size_t r = 0; slab_of(p, s) && r < p->count; r++)
            for (size_t i = p->param[r].offset; i < p->param[r].offset + p->param[r].size; i++)
                if (slab_of(p, s)[i] != element(s, i, step)) return false;
    return true;
}

int run_folder_save(run_folder *r, smoe_run *run, const smoe_checkpoint *at, size_t keep) {
    smoe_comm alone = smoe_comm_alone;
    const smoe_checkpoint_to to = {r->run, keep, &alone};
    return smoe_run_checkpoint(run, &to, &r->params, &r->spec, at, &r->err);
}

int run_folder_checkpoint(run_folder *r, smoe_run *run, uint64_t step, uint64_t best_step,
                          size_t keep) {
    smoe_checkpoint at = {.step = step,
                          .optimizer_steps = step - 1,
                          .best = best_step ? 0.1 : -1,
                          .best_step = best_step};
    run_folder_fill(&r->params, step);
    return run_folder_save(r, run, &at, keep);
}

uint64_t run_folder_restored(run_folder *r, smoe_run *run) {
    smoe_checkpoint at;
    run_folder_fill(&r->params, 77);
    int found = smoe_run_restore(run, &r->params, &at, &r->err);
    if (found != 1) fail_msg("restore %d: %s", found, r->err.text);
    assert_true(run_folder_filled(&r->params, at.step));
    assert_int_equal(at.optimizer_steps, at.step - 1);
    return at.step;
}

void run_folder_assert_kept(const run_folder *r, const char *want) {
    char text[256] = "", name[64];
    for (uint64_t step = 0; step < 20; step++) {
        snprintf(name, sizeof name, "ckpt/step_%08" PRIu64, step);
        if (run_folder_has(r, name))
            sprintf(text + strlen(text), "%s%" PRIu64, *text ? " " : "", step);
    }
    assert_string_equal(text, want);
}
