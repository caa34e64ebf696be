/* Checkpoints: their contents, which ones are kept, what is refused, and how models are found. */
#include "run_folder.h"
#include "tensors/safetensors.h"
#include "tensors/params_io.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static void assert_link(const run_folder *r, const char *name, const char *want) {
    char path[SCRATCH_PATH], target[64] = "";
    assert_true(snprintf(path, sizeof path, "%s/ckpt/%s", r->run, name) < (int)sizeof path);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    assert_string_equal(target, want);
}

static void test_checkpoint_round_trip(void **state) {
    run_folder *r = *state;
    r->spec.train.steps = 200000000;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    smoe_checkpoint at = {0};
    assert_int_equal(run_folder_record(run, 0, 1, &r->err), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), 0);
    run_folder_assert_file(r, "metrics.jsonl", ""); /* started again from the beginning */
    assert_int_equal(run_folder_checkpoint(r, run, 12, 0, 2), 0);
    assert_link(r, "latest", "step_00000012");
    assert_false(run_folder_has(r, "ckpt/best"));
    assert_int_equal(run_folder_checkpoint(r, run, 123456789, 123456789, 2), 0);
    assert_link(r, "latest", "step_123456789");
    assert_link(r, "best", "step_123456789");
    run_folder_closed(r, run, "stopped");
    run = run_folder_opened(r, SMOE_RUN_RESUME);
    run_folder_fill(&r->params, 1);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), 1);
    assert_true(run_folder_filled(&r->params, 123456789));
    assert_int_equal(at.step, 123456789);
    assert_int_equal(at.optimizer_steps, 123456788);
    assert_true(at.best == 0.1); /* to the bit */
    assert_int_equal(at.best_step, 123456789);
    run_folder_closed(r, run, "done");
}

/* The format that others rely on: names, types and metadata of both files. */
static void test_checkpoint_files(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 3, 3, 2), 0);
    char path[SCRATCH_PATH + 64];
    smoe_safetensors *file;
    const char *type = sizeof(real) == 4 ? "F32" : "F64";
    snprintf(path, sizeof path, "%s/ckpt/latest/model.safetensors", r->run);
    assert_int_equal(smoe_safetensors_open(&file, path, &r->err), 0);
    assert_int_equal(smoe_safetensors_count(file), 2);
    assert_string_equal(smoe_safetensors_at(file, 0)->name, "big.weight");
    assert_string_equal(smoe_safetensors_at(file, 1)->name, "scale");
    assert_string_equal(smoe_safetensors_at(file, 1)->type, type);
    assert_string_equal(smoe_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.step"), "3");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.version"), SMOE_VERSION);
    char *spec = smoe_spec_json(&r->spec);
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.spec"), spec);
    free(spec);
    smoe_safetensors_free(file);
    snprintf(path, sizeof path, "%s/ckpt/latest/state.safetensors", r->run);
    assert_int_equal(smoe_safetensors_open(&file, path, &r->err), 0);
    static const char *const names[] = {"m.big.weight", "m.scale", "v.big.weight", "v.scale"};
    assert_int_equal(smoe_safetensors_count(file), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(smoe_safetensors_at(file, i)->name, names[i]);
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.step"), "3");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.optimizer_steps"), "2");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.best"), "0.10000000000000001");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.best_step"), "3");
    smoe_safetensors_free(file);
    run_folder_closed(r, run, "done");
}

static void test_momentum_and_no_moments(void **state) {
    run_folder *r = *state;
    for (int slabs = 3; slabs >= 2; slabs--) {
        smoe_params_free(&r->params);
        run_folder_params(&r->params, slabs);
        smoe_run *run = run_folder_opened(r, SMOE_RUN_FORCE);
        assert_int_equal(run_folder_checkpoint(r, run, 5, 0, 1), 0);
        assert_int_equal(run_folder_restored(r, run), 5);
        run_folder_closed(r, run, "done");
    }
    /* the state of one optimiser is not that of another */
    smoe_params_free(&r->params);
    run_folder_params(&r->params, 4);
    smoe_run *run = run_folder_opened(r, SMOE_RUN_RESUME);
    smoe_checkpoint at;
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_non_null(
        strstr(r->err.text, "state.safetensors: tensor m.big.weight [200, 100]: missing"));
    assert_non_null(strstr(r->err.text, "tensor v.scale []: missing"));
    run_folder_closed(r, run, "done");
}

static void test_retention(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    static const struct {
        uint64_t step, best;
        size_t keep;
        const char *kept;
    } rows[] = {
        {1, 1, 2, "1"},     {2, 1, 2, "1 2"},  {3, 1, 2, "1 2 3"}, /* the best stays */
        {4, 1, 2, "1 3 4"}, {5, 5, 2, "4 5"},  {6, 5, 2, "5 6"},
        {7, 5, 1, "5 7"},   {8, 5, 0, "5 8"}, /* keep 0: the latest is kept */
        {9, 0, 3, "5 8 9"}, {10, 10, 1, "10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(run_folder_checkpoint(r, run, rows[i].step, rows[i].best, rows[i].keep),
                         0);
        run_folder_assert_kept(r, rows[i].kept);
        assert_int_equal(run_folder_restored(r, run), rows[i].step);
    }
    char ckpt[SCRATCH_PATH + 8];
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->run);
    assert_int_equal(scratch_entries(ckpt), 3); /* one checkpoint, two links, nothing temporary */
    run_folder_closed(r, run, "done");
}

/* Values that are not finite are not saved, wherever they are; earlier checkpoints stay. */
static void test_nonfinite_is_not_saved(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 1, 0, 1), 0);
    run_folder_fill(&r->params, 2);
    static const char *const names[] = {"tensor scale ", "tensor m.big.weight ", "tensor v.scale "};
    size_t scale = r->params.param[1].offset;
    real *at[] = {r->params.w + scale, r->params.m + RUN_FOLDER_BIG - 1, r->params.v + scale};
    for (int i = 0; i < 3; i++) {
        real kept = *at[i];
        *at[i] = i == 1 ? NAN : -INFINITY;
        smoe_checkpoint next = {.step = 2, .best = 0.5, .best_step = 2};
        assert_int_equal(run_folder_save(r, run, &next, 1), -1);
        assert_int_equal(r->err.code, SMOE_NONFINITE);
        if (!strstr(r->err.text, names[i])) fail_msg("%s", r->err.text);
        *at[i] = kept;
    }
    run_folder_assert_kept(r, "1");
    assert_link(r, "latest", "step_00000001");
    assert_false(run_folder_has(r, "ckpt/best"));
    run_folder_closed(r, run, "failed");
}

static void test_nonfinite_narrow_moments(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    smoe_params_free(&r->params);
    run_folder_params(&r->params, 2);
    assert_int_equal(
        smoe_params_allocate_moments(&r->params, SMOE_MOMENT_BF16, SMOE_MOMENT_BF16, &r->err), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 1, 0, 1), 0);
    r->params.v_bf16[5] = 0xff80; /* minus infinity */
    assert_int_equal(run_folder_checkpoint(r, run, 2, 0, 1), -1);
    assert_non_null(strstr(r->err.text, "step 2: tensor v.big.weight is not finite"));
    run_folder_closed(r, run, "failed");
}

/* Only folders with an exact checkpoint name are checkpoints: similar names that look newer
 * delete none. */
static void test_other_folders_are_not_checkpoints(void **state) {
    run_folder *r = *state;
    static const char *const names[] = {"step_9", "step_00000009.bak", "step_00000008x"};
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 0, 0, 2), 0); /* makes ckpt */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[SCRATCH_PATH + 32];
        snprintf(path, sizeof path, "%s/ckpt/%s", r->run, names[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    for (uint64_t step = 1; step <= 3; step++)
        assert_int_equal(run_folder_checkpoint(r, run, step, 0, 2), 0);
    run_folder_assert_kept(r, "2 3");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[40];
        snprintf(name, sizeof name, "ckpt/%s", names[i]);
        assert_true(run_folder_has(r, name));
    }
    run_folder_closed(r, run, "done");
}

/* A resume from 2 writes 3 again, which already exists; latest may point to it or not. */
static void test_a_step_done_again(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 2, 0, 9), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 3, 0, 9), 0);
    char path[SCRATCH_PATH + 32];
    snprintf(path, sizeof path, "%s/ckpt/step_00000003/stale", r->run);
    scratch_write(path, "", 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(run_folder_checkpoint(r, run, 3, 3, 9), 0);
        run_folder_assert_kept(r, "2 3");
        assert_false(run_folder_has(r, "ckpt/step_00000003/stale"));
        assert_int_equal(run_folder_restored(r, run), 3);
    }
    snprintf(path, sizeof path, "%s/ckpt", r->run);
    assert_int_equal(scratch_entries(path), 4);
    run_folder_closed(r, run, "done");
}

/* States that a kill can leave, made by hand. */
static void test_recovery(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 4, 0, 9), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 6, 0, 9), 0);
    run_folder_closed(r, run, NULL);
    char a[SCRATCH_PATH + 64], b[SCRATCH_PATH + 64];
    snprintf(a, sizeof a, "%s/ckpt/.tmp-newstep_00000008", r->run);
    assert_int_equal(mkdir(a, 0777), 0);
    run_folder_write(r, "ckpt/.tmp-newstep_00000008/model.safetensors", "half");
    run_folder_write(r, "ckpt/latest.tmp-1-0", "");
    /* step 6 was renamed for a successor that was never written */
    snprintf(a, sizeof a, "%s/ckpt/step_00000006", r->run);
    snprintf(b, sizeof b, "%s/ckpt/.replaced-step_00000006", r->run);
    assert_int_equal(rename(a, b), 0);
    run = run_folder_opened(r, SMOE_RUN_RESUME);
    assert_int_equal(run_folder_restored(r, run), 6);
    snprintf(a, sizeof a, "%s/ckpt", r->run);
    assert_int_equal(scratch_entries(a), 3);
    /* ... and for one that was */
    snprintf(b, sizeof b, "%s/ckpt/.replaced-step_00000004", r->run);
    assert_int_equal(mkdir(b, 0777), 0);
    run_folder_closed(r, run, NULL);
    run = run_folder_opened(r, SMOE_RUN_RESUME);
    assert_int_equal(scratch_entries(a), 3);
    /* killed before the first link: the newest is complete, since it has its final name */
    snprintf(a, sizeof a, "%s/ckpt/latest", r->run);
    assert_int_equal(unlink(a), 0);
    assert_int_equal(run_folder_restored(r, run), 6);
    run_folder_closed(r, run, "done");
}

static void test_corrupt_checkpoints(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    smoe_checkpoint at = {.step = 99};
    for (uint64_t step = 1; step <= 3; step++)
        assert_int_equal(run_folder_checkpoint(r, run, step, 0, 9), 0);
    /* 3 is truncated, 2 has the state of 1: the suggestion must be 1 */
    char path[SCRATCH_PATH + 64], from[SCRATCH_PATH + 64];
    snprintf(path, sizeof path, "%s/ckpt/step_00000003/model.safetensors", r->run);
    assert_int_equal(truncate(path, 4000), 0);
    snprintf(from, sizeof from, "%s/ckpt/step_00000001/state.safetensors", r->run);
    snprintf(path, sizeof path, "%s/ckpt/step_00000002/state.safetensors", r->run);
    size_t size;
    char *other = scratch_read(from, &size);
    scratch_write(path, other, size);
    free(other);
    run_folder_fill(&r->params, 50);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_non_null(
        strstr(r->err.text, "/ckpt/step_00000003/model.safetensors: tensor big.weight: offsets"));
    assert_non_null(strstr(r->err.text, "/ckpt/step_00000001: this older checkpoint is intact; to "
                                        "resume from it: ln -sfn step_00000001 "));
    assert_true(run_folder_filled(&r->params, 50) && at.step == 99); /* unchanged */
    /* following the suggestion works; the mixed checkpoint is refused by its step */
    char latest[SCRATCH_PATH + 16];
    snprintf(latest, sizeof latest, "%s/ckpt/latest", r->run);
    assert_int_equal(unlink(latest) | symlink("step_00000001", latest), 0);
    assert_int_equal(run_folder_restored(r, run), 1);
    assert_int_equal(unlink(latest) | symlink("step_00000002", latest), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_non_null(
        strstr(r->err.text, "step_00000002/state.safetensors: is of step 1, not of step 2"));
    assert_int_equal(run_folder_checkpoint(r, run, 4, 0, 9), 0);
    snprintf(from, sizeof from, "%s/ckpt/step_00000001/model.safetensors", r->run);
    snprintf(path, sizeof path, "%s/ckpt/step_00000004/model.safetensors", r->run);
    other = scratch_read(from, &size);
    scratch_write(path, other, size);
    free(other);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_non_null(
        strstr(r->err.text, "step_00000004/model.safetensors: is of step 1, not of step 4"));
    assert_int_equal(unlink(latest) | symlink("../elsewhere", latest), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_non_null(strstr(
        r->err.text, "ckpt/latest: links to ../elsewhere, which is not a checkpoint of the run"));
    assert_int_equal(unlink(latest) | symlink("step_00000009", latest), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_non_null(strstr(
        r->err.text, "ckpt/latest: links to step_00000009, which is not there; remove the link"));
    run_folder_closed(r, run, "failed");
}

static void test_state_metadata_is_checked(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 1, 0, 9), 0);
    smoe_tensor *m, *v, all[4];
    m = smoe_params_tensors(&r->params, &(smoe_slab){.prefix = "m.", .values = r->params.m});
    v = smoe_params_tensors(&r->params, &(smoe_slab){.prefix = "v.", .values = r->params.v});
    memcpy(all, m, 2 * sizeof *m);
    memcpy(all + 2, v, 2 * sizeof *v);
    static const struct {
        const char *step, *optimizer_steps, *best, *best_step, *message;
    } rows[] = {
        {"1", "1", "0.5", "1", NULL},
        {"1 ", "1", "0.5", "1", "smoe.step: 1  is not a whole number"},
        {"1", "-2", "0.5", "1", "smoe.optimizer_steps: -2 is not a whole number"},
        {"1", "1", "nan", "1", "smoe.best: nan is not a number"},
        {"1", "1", "0.5x", "1", "smoe.best: 0.5x is not a number"},
        {"1", "1", "0.5", "", "smoe.best_step:  is not a whole number"},
        {"1", "1", "0.5", NULL, "smoe.best_step: (absent) is not a whole number"},
        {"1", "99999999999999999999999", "0.5", "1",
         "smoe.optimizer_steps: 99999999999999999999999 is not"},
        {"1", "2", "0.5", "1", "smoe.optimizer_steps: 2 is beyond the step, 1"},
        {"1", "1", "0.5", "7", "smoe.best_step: 7 is beyond the step, 1"},
        {"1", "1", "1.5", "1", "smoe.best: 1.5 is neither -1 nor from 0 to 1"},
        {"1", "1", "-0.5", "1", "smoe.best: -0.5 is neither -1 nor from 0 to 1"},
        {"1", "1", "1e999", "1", "smoe.best: 1e999 is not a number"},
    };
    char path[SCRATCH_PATH + 64];
    snprintf(path, sizeof path, "%s/ckpt/step_00000001/state.safetensors", r->run);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        smoe_pair pairs[] = {{"smoe.step", rows[i].step},
                             {"smoe.optimizer_steps", rows[i].optimizer_steps},
                             {"smoe.best", rows[i].best},
                             {"smoe.best_step", rows[i].best_step}};
        smoe_checkpoint at;
        assert_int_equal(
            smoe_safetensors_write(
                path, &(const smoe_content){all, 4, pairs, rows[i].best_step ? 4 : 3}, &r->err),
            0);
        assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), rows[i].message ? -1 : 1);
        if (!rows[i].message) continue;
        assert_int_equal(r->err.code, SMOE_DATA);
        if (!strstr(r->err.text, rows[i].message)) fail_msg("%s", r->err.text);
    }
    free(m);
    free(v);
    run_folder_closed(r, run, "failed");
}

/* Overwrites one byte at a distance from the end of a file. */
static void spoil(const run_folder *r, const char *name, size_t from_end) {
    char path[SCRATCH_PATH + 64];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", r->run, name);
    char *bytes = scratch_read(path, &size);
    bytes[size - from_end] ^= 1;
    scratch_write(path, bytes, size);
    free(bytes);
}

static void not_restored(run_folder *r, smoe_run *run, const char *message) {
    smoe_checkpoint at;
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    if (!strstr(r->err.text, message)) fail_msg("\"%s\" is not in: %s", message, r->err.text);
}

/* A flipped bit is detected, in either file and in each tensor; the older checkpoint is
 * suggested. */
static void test_checksums(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 1, 0, 9), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 2, 0, 9), 0);
    static const struct {
        const char *name, *message;
    } rows[] = {
        {"ckpt/step_00000002/model.safetensors",
         "model.safetensors: changed since it was written: its digest is "},
        {"ckpt/step_00000002/state.safetensors",
         "state.safetensors: changed since it was written: its digest is "},
    };
    for (size_t i = 0; i < 2; i++)
        for (size_t from_end = 1; from_end < 9; from_end += 7) { /* a scalar, and before it */
            spoil(r, rows[i].name, from_end);
            not_restored(r, run, rows[i].message);
            assert_non_null(strstr(r->err.text, "step_00000001: this older checkpoint is intact"));
            spoil(r, rows[i].name, from_end);
            assert_int_equal(run_folder_restored(r, run), 2);
        }
    run_folder_closed(r, run, "done");
}

/* The checksum depends neither on the pieces that are summed in parallel, nor on the order of
 * the tensors. */
static void test_crc_of_large_tensors(void **state) {
    enum { BYTES = (1 << 20) + 77 };
    unsigned char *bytes = malloc(BYTES);
    uLong sum = 0;
    uint32_t crc = 0;
    smoe_err err;
    for (size_t i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * i >> 7);
    sum = crc32(crc32(sum, bytes, BYTES), bytes, 9);
    smoe_tensor tensors[] = {{.name = "b", .dtype = SMOE_DTYPE_U8, .size = 9, .data = bytes},
                             {.name = "a", .dtype = SMOE_DTYPE_U8, .size = BYTES, .data = bytes}};
    assert_int_equal(smoe_tensors_crc32(tensors, 2, &crc, &err), 0);
    assert_int_equal(crc, sum);
    assert_int_equal(smoe_tensors_crc32(NULL, 0, &crc, &err), 0);
    assert_int_equal(crc, 0);
    free(bytes);
}

/* ---- finding ---- */

static void locate(run_folder *r, const char *arg, const char *which, const char *want, bool spec) {
    smoe_safetensors *file;
    if (smoe_run_locate(&file, arg, which, &r->err)) fail_msg("%s", r->err.text);
    const char *text = smoe_safetensors_metadata(file, "smoe.spec");
    assert_string_equal(smoe_safetensors_path(file), want);
    assert_int_equal(text != NULL, spec);
    if (spec) {
        char *json = smoe_spec_json(&r->spec);
        assert_string_equal(text, json);
        free(json);
    }
    smoe_safetensors_free(file);
}

static void not_located(run_folder *r, const char *arg, const char *which, smoe_code code,
                        const char *message) {
    smoe_safetensors *file;
    assert_int_equal(smoe_run_locate(&file, arg, which, &r->err), -1);
    assert_null(file);
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.text, message)) fail_msg("\"%s\" is not in: %s", message, r->err.text);
}

static void test_locate(void **state) {
    run_folder *r = *state;
    char three[SCRATCH_PATH + 128], four[SCRATCH_PATH + 64], folder[SCRATCH_PATH + 64];
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    not_located(r, r->run, NULL, SMOE_DATA, "the run has no checkpoint yet");
    not_located(r, r->run, "best", SMOE_DATA, "the run has no checkpoint yet");
    assert_int_equal(run_folder_checkpoint(r, run, 3, 0, 9), 0);
    not_located(r, r->run, "best", SMOE_DATA, "the run has no checkpoint best");
    assert_int_equal(run_folder_checkpoint(r, run, 3, 3, 9), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 4, 3, 9), 0);
    snprintf(folder, sizeof folder, "%s/ckpt/step_00000003", r->run);
    snprintf(three, sizeof three, "%s/model.safetensors", folder);
    snprintf(four, sizeof four, "%s/ckpt/step_00000004/model.safetensors", r->run);
    locate(r, r->run, NULL, four, true);
    locate(r, r->run, "latest", four, true);
    locate(r, r->run, "best", three, true);
    locate(r, r->run, "step_00000003", three, true);
    locate(r, r->run, "step_3", three, true);
    locate(r, r->run, "3", three, true);
    locate(r, folder, NULL, three, true);
    locate(r, three, NULL, three, true);
    not_located(r, r->run, "step_00000005", SMOE_DATA, "the run has no checkpoint step_00000005");
    not_located(r, r->run, "newest", SMOE_USAGE,
                "checkpoint newest: not best, latest, ema or the number of a step");
    not_located(r, r->scratch.dir, NULL, SMOE_DATA, "neither a run (no spec.yaml in it)");
    not_located(r, "/no/such/place", NULL, SMOE_DATA,
                "/no/such/place: neither a run, a checkpoint nor a file");
    not_located(r, "/dev/null", NULL, SMOE_DATA, "/dev/null: neither");
    run_folder_closed(r, run, "done");
    /* a foreign file has no spec; other files are refused */
    snprintf(folder, sizeof folder, "%s/foreign.safetensors", r->scratch.dir);
    assert_int_equal(smoe_safetensors_write(folder, &(const smoe_content){NULL}, &r->err), 0);
    locate(r, folder, NULL, folder, false);
    scratch_write(folder, "PK\3\4 something else", 19);
    not_located(r, folder, NULL, SMOE_DATA, "damaged: ");
}

#define TEST(name) unit_test_with(name, run_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_checkpoint_round_trip),
        TEST(test_checkpoint_files),
        TEST(test_momentum_and_no_moments),
        TEST(test_retention),
        TEST(test_other_folders_are_not_checkpoints),
        TEST(test_nonfinite_is_not_saved),
        TEST(test_nonfinite_narrow_moments),
        TEST(test_a_step_done_again),
        TEST(test_recovery),
        TEST(test_corrupt_checkpoints),
        TEST(test_state_metadata_is_checked),
        TEST(test_checksums),
        TEST(test_crc_of_large_tensors),
        TEST(test_locate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
