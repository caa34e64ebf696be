/*
 * Run directories and checkpoints: what is in them, who may have them, what a resume refuses, and
 * that neither SIGKILL nor a full disk costs a checkpoint.
 */
#include "scratch.h"
#include "train/env.h"
#include "train/run.h"
#include "train/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { BIG = 20000 }; /* elements of the large tensor: a checkpoint takes several writes */

typedef struct room {
    scratch scratch;
    char run[SCRATCH_PATH]; /* SCRATCH/a/run, which is not there */
    smoe_spec spec;
    smoe_params params;
    smoe_err err;
} room;

static void parse(smoe_spec *spec, const char *text) {
    smoe_err err = {0};
    if (smoe_spec_parse(spec, text, strlen(text), "test", NULL, NULL, 0, &err))
        fail_msg("%s", err.text);
}

static void table(smoe_params *p, int slabs) {
    smoe_err err = {0};
    smoe_params_add(p, SMOE_PARAM_KERNEL, 0, 0, 2, (size_t[]){BIG / 100, 100}, "big.weight");
    smoe_params_add(p, SMOE_PARAM_PLAIN, 0, 0, 0, NULL, "scale");
    assert_int_equal(smoe_params_allocate(p, slabs, &err), 0);
}

static int setup(void **state) {
    room *r = *state = calloc(1, sizeof *r);
    scratch_make(&r->scratch);
    scratch_path(&r->scratch, r->run, "a/run");
    parse(&r->spec, "name: one\ndata: {source: shapes}\n");
    table(&r->params, 4);
    return 0;
}

static int teardown(void **state) {
    room *r = *state;
    smoe_params_free(&r->params);
    smoe_spec_free(&r->spec);
    scratch_remove(&r->scratch);
    free(r);
    return 0;
}

/* A file of the run as text, in a static buffer's stead: freed by the caller. */
static char *slurp(const room *r, const char *name) {
    char path[SCRATCH_PATH];
    assert_true(snprintf(path, sizeof path, "%s/%s", r->run, name) < (int)sizeof path);
    return scratch_read(path, NULL);
}

static void spill(const room *r, const char *name, const char *text) {
    char path[SCRATCH_PATH];
    assert_true(snprintf(path, sizeof path, "%s/%s", r->run, name) < (int)sizeof path);
    scratch_write(path, text, strlen(text));
}

static bool there(const room *r, const char *name) {
    char path[SCRATCH_PATH];
    assert_true(snprintf(path, sizeof path, "%s/%s", r->run, name) < (int)sizeof path);
    struct stat st;
    return !lstat(path, &st);
}

static void assert_file(const room *r, const char *name, const char *want) {
    char *text = slurp(r, name);
    assert_string_equal(text, want);
    free(text);
}

static void assert_link(const room *r, const char *name, const char *want) {
    char path[SCRATCH_PATH], target[64] = "";
    assert_true(snprintf(path, sizeof path, "%s/ckpt/%s", r->run, name) < (int)sizeof path);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    assert_string_equal(target, want);
}

static smoe_run *opened(room *r, smoe_run_mode mode) {
    smoe_run *run;
    if (smoe_run_open(&run, r->run, mode, &r->spec, NULL, &r->err)) fail_msg("%s", r->err.text);
    return run;
}

static void closed(room *r, smoe_run *run, const char *status) {
    assert_int_equal(smoe_run_close(run, status, &r->err), 0);
}

/* Opening fails with this code and a message that has this in it. */
static void refused(room *r, smoe_run_mode mode, smoe_code code, const char *message) {
    smoe_run *run;
    assert_int_equal(smoe_run_open(&run, r->run, mode, &r->spec, json_object(), &r->err), -1);
    assert_null(run);
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.text, message)) fail_msg("\"%s\" is not in: %s", message, r->err.text);
    assert_non_null(strstr(r->err.text, r->run));
}

/* ---- the directory ---- */

static void test_new_run(void **state) {
    room *r = *state;
    smoe_run *run;
    char *argv[] = {"smoe", "train", "\xff"};
    json_t *env = smoe_env_json(3, argv, "BLIS", NULL, 2);
    assert_int_equal(smoe_run_open(&run, r->run, SMOE_RUN_NEW, &r->spec, env, &r->err), 0);
    char status[200], host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(status, sizeof status, "running %ld %s\n", (long)getpid(), host);
    assert_file(r, "STATUS", status);
    assert_file(r, "metrics.jsonl", "");
    /* spec.yaml is input again, with the same meaning */
    smoe_spec again = {0};
    char path[SCRATCH_PATH + 16];
    snprintf(path, sizeof path, "%s/spec.yaml", r->run);
    assert_int_equal(smoe_spec_read(&again, path, NULL, 0, &r->err), 0);
    char *a = smoe_spec_json(&r->spec), *b = smoe_spec_json(&again);
    assert_string_equal(a, b);
    free(a);
    free(b);
    smoe_spec_free(&again);
    char *text = slurp(r, "env.json");
    json_t *read = json_loads(text, 0, NULL);
    free(text);
    assert_string_equal(json_string_value(json_object_get(read, "version")), SMOE_VERSION);
    assert_string_equal(json_string_value(json_object_get(read, "blas")), "BLIS");
    assert_string_equal(json_string_value(json_object_get(read, "kernel")), "unknown");
    assert_string_equal(json_string_value(json_object_get(read, "host")), host);
    assert_string_equal(json_string_value(json_array_get(json_object_get(read, "argv"), 1)),
                        "train");
    assert_string_equal(json_string_value(json_array_get(json_object_get(read, "argv"), 2)), "?");
    assert_int_equal(json_integer_value(json_object_get(read, "threads")), 2);
    assert_true(json_integer_value(json_object_get(read, "cores")) >= 1);
    static const char *const words[] = {"compiler", "flags",  "cpu", "cwd",
                                        "date",     "system", "real"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_true(json_string_length(json_object_get(read, words[i])) > 0);
    json_decref(read);
    closed(r, run, "done");
    snprintf(status, sizeof status, "done %ld %s\n", (long)getpid(), host);
    assert_file(r, "STATUS", status);
    assert_int_equal(scratch_entries(r->run),
                     6); /* spec env metrics log STATUS ckpt, nothing temporary */
}

static void test_new_is_exclusive(void **state) {
    room *r = *state;
    closed(r, opened(r, SMOE_RUN_NEW), "done");
    refused(r, SMOE_RUN_NEW, SMOE_USAGE,
            "exists already; --resume continues a run, --force replaces it");
    assert_int_equal(mkdir(r->run, 0777), -1); /* and was not removed by the refusal */
    strcat(r->run, "///");                     /* the same directory */
    smoe_run *run;
    assert_int_equal(smoe_run_open(&run, r->run, SMOE_RUN_NEW, &r->spec, NULL, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_USAGE);
    assert_int_equal(smoe_run_open(&run, "", SMOE_RUN_NEW, &r->spec, NULL, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_USAGE);
}

static void test_unwritable(void **state) {
    room *r = *state;
    char path[SCRATCH_PATH];
    scratch_write(scratch_path(&r->scratch, path, "a"), "",
                  0); /* a file where a folder should be */
    refused(r, SMOE_RUN_NEW, SMOE_RUNTIME, "Not a directory");
}

static void test_one_process_at_a_time(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    refused(r, SMOE_RUN_RESUME, SMOE_RUNTIME,
            "another process is writing this run (STATUS: running ");
    refused(r, SMOE_RUN_FORCE, SMOE_RUNTIME, "another process is writing this run");
    closed(r, run, "stopped");
    closed(r, opened(r, SMOE_RUN_RESUME), NULL);
    char *status = slurp(r, "STATUS");
    assert_int_equal(strncmp(status, "running ", 8), 0); /* closed without a word: as if killed */
    free(status);
    closed(r, opened(r, SMOE_RUN_RESUME), "failed"); /* the lock counts, not the word */
}

static void test_force(void **state) {
    room *r = *state;
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "no such run directory, nothing to resume");
    smoe_run *run = opened(r, SMOE_RUN_FORCE); /* nothing there yet: as new */
    assert_int_equal(smoe_run_metrics(run, json_pack("{s:i}", "step", 1), &r->err), 0);
    smoe_checkpoint at = {.step = 1, .best = -1};
    assert_int_equal(smoe_run_checkpoint(run, &r->params, &r->spec, &at, 1, &r->err), 0);
    smoe_run_log(run, "%s", "the old log");
    closed(r, run, "done");
    spill(r, "notes.txt", "mine");
    spill(r, "spec.yaml.tmp-12-0", "left over");
    closed(r, opened(r, SMOE_RUN_FORCE), "done");
    assert_file(r, "notes.txt", "mine");
    assert_file(r, "metrics.jsonl", "");
    assert_false(there(r, "ckpt/step_00000001"));
    assert_false(there(r, "ckpt/latest"));
    assert_false(there(r, "spec.yaml.tmp-12-0"));
    char *log = slurp(r, "log.txt");
    assert_null(strstr(log, "the old log"));
    free(log);
    /* what is no run is left alone */
    char path[SCRATCH_PATH + 16];
    snprintf(path, sizeof path, "%s/STATUS", r->run);
    assert_int_equal(unlink(path), 0);
    refused(r, SMOE_RUN_FORCE, SMOE_USAGE, "not a run directory (no spec.yaml and STATUS in it)");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "not a run directory");
    assert_file(r, "notes.txt", "mine");
}

/* Killed between mkdir and STATUS. */
static void test_half_made(void **state) {
    room *r = *state;
    smoe_run_mode modes[] = {SMOE_RUN_RESUME, SMOE_RUN_FORCE};
    for (int i = 0; i < 2; i++) {
        char path[SCRATCH_PATH], name[16];
        snprintf(name, sizeof name, "half%d", i);
        strcpy(r->run, scratch_path(&r->scratch, path, name));
        assert_int_equal(mkdir(r->run, 0777), 0);
        if (i) spill(r, "metrics.jsonl", "");
        spill(r, "spec.yaml.tmp-1-0", "nam");
        closed(r, opened(r, modes[i]), "done");
        assert_true(there(r, "spec.yaml") && there(r, "env.json") && there(r, "STATUS"));
        assert_false(there(r, "spec.yaml.tmp-1-0"));
    }
}

/* ---- resuming ---- */

static void test_resume_names_what_differs(void **state) {
    room *r = *state;
    closed(r, opened(r, SMOE_RUN_NEW), "stopped");
    char *before = slurp(r, "spec.yaml");
    smoe_spec_free(&r->spec);
    parse(&r->spec, "name: one\nseed: 5\ndata: {source: shapes}\n"
                    "train: {steps: 2000, optimizer: {lr: 0.25}}\n");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "cannot resume: seed was 0, now it is 5");
    assert_int_equal(r->err.lines, 2); /* both, and not train.steps */
    assert_non_null(strstr(r->err.text, "cannot resume: train.optimizer.lr was 0.001"));
    assert_null(strstr(r->err.text, "train.steps"));
    assert_file(r, "spec.yaml", before);
    free(before);
}

static void test_resume_lets_some_keys_differ(void **state) {
    room *r = *state;
    smoe_spec_free(&r->spec);
    parse(&r->spec, "name: one\ndata: {source: cifar10, path: /old/place/cifar.tar}\n");
    closed(r, opened(r, SMOE_RUN_NEW), "stopped");
    smoe_spec_free(&r->spec);
    parse(&r->spec, "name: two\ndata: {source: cifar10, path: /new/cifar.tar}\n"
                    "train: {steps: 2000, eval_every: 3, checkpoint_every: 4, keep: 9}\n"
                    "eval: {batch_size: 17}\n");
    closed(r, opened(r, SMOE_RUN_RESUME), "stopped");
    char *log = slurp(r, "log.txt"), *spec = slurp(r, "spec.yaml");
    assert_non_null(strstr(log, "train.steps was 1000, from here it is 2000"));
    assert_non_null(strstr(log, "eval.batch_size was 256, from here it is 17"));
    assert_non_null(strstr(log, "name was \"one\", from here it is \"two\""));
    assert_non_null(strstr(spec, "two"));
    assert_non_null(strstr(spec, "/new/cifar.tar"));
    free(log);
    free(spec);
    smoe_spec_free(&r->spec);
    parse(&r->spec, "name: two\ndata: {source: cifar10, path: /new/other.tar}\n");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE,
            "cannot resume: data.path was \"/new/cifar.tar\", now it is");
    assert_int_equal(r->err.lines, 1);
}

static void test_resume_keeps_the_earlier_env(void **state) {
    room *r = *state;
    smoe_run *run;
    for (int i = 0; i < 3; i++) {
        smoe_run_mode mode = i ? SMOE_RUN_RESUME : SMOE_RUN_NEW;
        json_t *env = json_pack("{s:i}", "threads", i);
        assert_int_equal(smoe_run_open(&run, r->run, mode, &r->spec, env, &r->err), 0);
        closed(r, run, "stopped");
    }
    char *text = slurp(r, "env.json");
    json_t *env = json_loads(text, 0, NULL);
    json_t *want =
        json_pack("{s:i, s:[{s:i}, {s:i}]}", "threads", 2, "previous", "threads", 0, "threads", 1);
    assert_true(json_equal(env, want));
    json_decref(env);
    json_decref(want);
    free(text);
}

/* ---- metrics.jsonl ---- */

static int record(smoe_run *run, int step, double loss, smoe_err *err) {
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(step));
    json_object_set_new(o, "train/loss", smoe_run_number(loss));
    return smoe_run_metrics(run, o, err);
}

static void test_metrics_lines(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    assert_int_equal(record(run, 1, 0.1, &r->err), 0);
    assert_int_equal(record(run, 2, NAN, &r->err), 0);
    assert_int_equal(record(run, 3, -INFINITY, &r->err), 0);
    assert_int_equal(record(run, 3, 2, &r->err), 0);
    /* 17 digits bring every double back; a real stays one */
    static const char *const want = "{\"step\":1,\"train/loss\":0.10000000000000001}\n"
                                    "{\"step\":2,\"train/loss\":null}\n"
                                    "{\"step\":3,\"train/loss\":null}\n"
                                    "{\"step\":3,\"train/loss\":2.0}\n";
    assert_file(r, "metrics.jsonl", want);
    assert_int_equal(smoe_run_truncate(run, 3, &r->err), 0);
    assert_file(r, "metrics.jsonl", want);
    assert_int_equal(smoe_run_truncate(run, 1, &r->err), 0);
    assert_file(r, "metrics.jsonl", "{\"step\":1,\"train/loss\":0.10000000000000001}\n");
    assert_int_equal(record(run, 4, 1, &r->err), 0); /* appended where the file now ends */
    assert_file(r, "metrics.jsonl",
                "{\"step\":1,\"train/loss\":0.10000000000000001}\n"
                "{\"step\":4,\"train/loss\":1.0}\n");
    closed(r, run, "done");
}

static void test_metrics_half_and_bad_lines(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    spill(r, "metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"tra");
    assert_int_equal(smoe_run_truncate(run, 9, &r->err), 0);
    assert_file(r, "metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n");
    static const char *const bad[] = {"{\"step\":1}\nhello\n{\"step\":3}\n",
                                      "{\"step\":1}\n{\"steps\":2}\n",
                                      "{\"step\":1}\n{\"step\":\"2\"}\n", "{\"step\":1}\n\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        spill(r, "metrics.jsonl", bad[i]);
        assert_int_equal(smoe_run_truncate(run, 9, &r->err), -1);
        assert_int_equal(r->err.code, SMOE_DATA);
        assert_non_null(strstr(r->err.text, "metrics.jsonl:2: not a record with a step"));
        assert_file(r, "metrics.jsonl", bad[i]);
    }
    closed(r, run, "done");
}

/* ---- checkpoints ---- */

/* Every element of every slab a function of (slab, place, step). */
static real element(int slab, size_t i, uint64_t step) {
    return (real)((double)((i * 31 + (size_t)slab * 7 + step * 1009) % 4099) / 4096);
}

static real *slab_of(const smoe_params *p, int i) {
    return i == 0 ? p->w : i == 1 ? p->m : p->v;
}

static void fill(const smoe_params *p, uint64_t step) {
    for (int s = 0; s < 3; s++)
        for (size_t i = 0; slab_of(p, s) && i < p->size; i++)
            slab_of(p, s)[i] = element(s, i, step);
}

static bool filled(const smoe_params *p, uint64_t step) {
    for (int s = 0; s < 3; s++)
        for (size_t r = 0; slab_of(p, s) && r < p->count; r++)
            for (size_t i = p->row[r].offset; i < p->row[r].offset + p->row[r].size; i++)
                if (slab_of(p, s)[i] != element(s, i, step)) return false;
    return true;
}

static int checkpoint(room *r, smoe_run *run, uint64_t step, uint64_t best_step, size_t keep) {
    smoe_checkpoint at = {.step = step,
                          .optimizer_steps = step + 1,
                          .best = best_step ? 0.1 : -1,
                          .best_step = best_step};
    fill(&r->params, step);
    return smoe_run_checkpoint(run, &r->params, &r->spec, &at, keep, &r->err);
}

/* Clears the table, restores, and says which step it was; the values must be that step's. */
static uint64_t restored(room *r, smoe_run *run) {
    smoe_checkpoint at;
    fill(&r->params, 77);
    int found = smoe_run_restore(run, &r->params, &at, &r->err);
    if (found != 1) fail_msg("restore %d: %s", found, r->err.text);
    assert_true(filled(&r->params, at.step));
    assert_int_equal(at.optimizer_steps, at.step + 1);
    return at.step;
}

static void test_checkpoint_round_trip(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    smoe_checkpoint at = {0};
    assert_int_equal(record(run, 0, 1, &r->err), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), 0);
    assert_file(r, "metrics.jsonl", ""); /* from the start again */
    assert_int_equal(checkpoint(r, run, 12, 0, 2), 0);
    assert_link(r, "latest", "step_00000012");
    assert_false(there(r, "ckpt/best"));
    assert_int_equal(checkpoint(r, run, 123456789, 123456789, 2), 0);
    assert_link(r, "latest", "step_123456789");
    assert_link(r, "best", "step_123456789");
    closed(r, run, "stopped");
    run = opened(r, SMOE_RUN_RESUME);
    fill(&r->params, 1);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), 1);
    assert_true(filled(&r->params, 123456789));
    assert_int_equal(at.step, 123456789);
    assert_int_equal(at.optimizer_steps, 123456790);
    assert_true(at.best == 0.1); /* to the bit */
    assert_int_equal(at.best_step, 123456789);
    closed(r, run, "done");
}

/* What others rely on: names, types and metadata of both files. */
static void test_checkpoint_files(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    assert_int_equal(checkpoint(r, run, 3, 3, 2), 0);
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
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.optimizer_steps"), "4");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.best"), "0.10000000000000001");
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.best_step"), "3");
    smoe_safetensors_free(file);
    closed(r, run, "done");
}

static void test_momentum_and_no_moments(void **state) {
    room *r = *state;
    for (int slabs = 3; slabs >= 2; slabs--) {
        smoe_params_free(&r->params);
        table(&r->params, slabs);
        smoe_run *run = opened(r, SMOE_RUN_FORCE);
        assert_int_equal(checkpoint(r, run, 5, 0, 1), 0);
        assert_int_equal(restored(r, run), 5);
        closed(r, run, "done");
    }
    /* the state of one optimiser is not that of another */
    smoe_params_free(&r->params);
    table(&r->params, 4);
    smoe_run *run = opened(r, SMOE_RUN_RESUME);
    smoe_checkpoint at;
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_non_null(
        strstr(r->err.text, "state.safetensors: tensor m.big.weight [200, 100]: missing"));
    assert_non_null(strstr(r->err.text, "tensor v.scale []: missing"));
    closed(r, run, "done");
}

/* Lists the steps of the folder as "1 3 4". */
static void assert_kept(const room *r, const char *want) {
    char text[256] = "", name[64];
    for (uint64_t step = 0; step < 20; step++) {
        snprintf(name, sizeof name, "ckpt/step_%08" PRIu64, step);
        if (there(r, name)) sprintf(text + strlen(text), "%s%" PRIu64, *text ? " " : "", step);
    }
    assert_string_equal(text, want);
}

static void test_retention(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    static const struct {
        uint64_t step, best;
        size_t keep;
        const char *kept;
    } rows[] = {
        {1, 1, 2, "1"},     {2, 1, 2, "1 2"},  {3, 1, 2, "1 2 3"}, /* the best stays */
        {4, 1, 2, "1 3 4"}, {5, 5, 2, "4 5"},  {6, 5, 2, "5 6"},
        {7, 5, 1, "5 7"},   {8, 5, 0, "5 8"}, /* keep 0: the latest stays all the same */
        {9, 0, 3, "5 8 9"}, {10, 10, 1, "10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(checkpoint(r, run, rows[i].step, rows[i].best, rows[i].keep), 0);
        assert_kept(r, rows[i].kept);
        assert_int_equal(restored(r, run), rows[i].step);
    }
    char ckpt[SCRATCH_PATH + 8];
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->run);
    assert_int_equal(scratch_entries(ckpt), 3); /* one checkpoint, two links, nothing temporary */
    closed(r, run, "done");
}

/* A resume from 2 does 3 again, which is there, and latest points at it or not. */
static void test_a_step_done_again(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    assert_int_equal(checkpoint(r, run, 2, 0, 9), 0);
    assert_int_equal(checkpoint(r, run, 3, 0, 9), 0);
    char path[SCRATCH_PATH + 32];
    snprintf(path, sizeof path, "%s/ckpt/step_00000003/stale", r->run);
    scratch_write(path, "", 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(checkpoint(r, run, 3, 3, 9), 0);
        assert_kept(r, "2 3");
        assert_false(there(r, "ckpt/step_00000003/stale"));
        assert_int_equal(restored(r, run), 3);
    }
    snprintf(path, sizeof path, "%s/ckpt", r->run);
    assert_int_equal(scratch_entries(path), 4);
    closed(r, run, "done");
}

/* The states that a kill can leave, made by hand. */
static void test_recovery(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    assert_int_equal(checkpoint(r, run, 4, 0, 9), 0);
    assert_int_equal(checkpoint(r, run, 6, 0, 9), 0);
    closed(r, run, NULL);
    char a[SCRATCH_PATH + 64], b[SCRATCH_PATH + 64];
    snprintf(a, sizeof a, "%s/ckpt/.tmp-newstep_00000008", r->run);
    assert_int_equal(mkdir(a, 0777), 0);
    spill(r, "ckpt/.tmp-newstep_00000008/model.safetensors", "half");
    spill(r, "ckpt/latest.tmp-1-0", "");
    /* step 6 stepped aside for a successor that never came */
    snprintf(a, sizeof a, "%s/ckpt/step_00000006", r->run);
    snprintf(b, sizeof b, "%s/ckpt/.replaced-step_00000006", r->run);
    assert_int_equal(rename(a, b), 0);
    run = opened(r, SMOE_RUN_RESUME);
    assert_int_equal(restored(r, run), 6);
    snprintf(a, sizeof a, "%s/ckpt", r->run);
    assert_int_equal(scratch_entries(a), 3);
    /* ... and for one that did */
    snprintf(b, sizeof b, "%s/ckpt/.replaced-step_00000004", r->run);
    assert_int_equal(mkdir(b, 0777), 0);
    closed(r, run, NULL);
    run = opened(r, SMOE_RUN_RESUME);
    assert_int_equal(scratch_entries(a), 3);
    /* killed before the first link: the newest is whole, for it has its name */
    snprintf(a, sizeof a, "%s/ckpt/latest", r->run);
    assert_int_equal(unlink(a), 0);
    assert_int_equal(restored(r, run), 6);
    closed(r, run, "done");
}

static void test_corrupt_checkpoints(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    smoe_checkpoint at = {.step = 99};
    for (uint64_t step = 1; step <= 3; step++) assert_int_equal(checkpoint(r, run, step, 0, 9), 0);
    /* 3 is cut short, 2 has the state of 1: the suggestion must be 1 */
    char path[SCRATCH_PATH + 64], from[SCRATCH_PATH + 64];
    snprintf(path, sizeof path, "%s/ckpt/step_00000003/model.safetensors", r->run);
    assert_int_equal(truncate(path, 4000), 0);
    snprintf(from, sizeof from, "%s/ckpt/step_00000001/state.safetensors", r->run);
    snprintf(path, sizeof path, "%s/ckpt/step_00000002/state.safetensors", r->run);
    size_t size;
    char *other = scratch_read(from, &size);
    scratch_write(path, other, size);
    free(other);
    fill(&r->params, 50);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_non_null(
        strstr(r->err.text, "/ckpt/step_00000003/model.safetensors: tensor big.weight: offsets"));
    assert_non_null(strstr(r->err.text,
                           "/ckpt/step_00000001: an older checkpoint, is whole; to resume from it: "
                           "ln -sfn step_00000001 "));
    assert_true(filled(&r->params, 50) && at.step == 99); /* untouched */
    /* doing so works; the mixed one is refused by its step */
    char latest[SCRATCH_PATH + 16];
    snprintf(latest, sizeof latest, "%s/ckpt/latest", r->run);
    assert_int_equal(unlink(latest) | symlink("step_00000001", latest), 0);
    assert_int_equal(restored(r, run), 1);
    assert_int_equal(unlink(latest) | symlink("step_00000002", latest), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_non_null(
        strstr(r->err.text, "step_00000002/state.safetensors: is of step 1, not of step 2"));
    assert_int_equal(unlink(latest) | symlink("../elsewhere", latest), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_non_null(strstr(
        r->err.text, "ckpt/latest: links to ../elsewhere, which is no checkpoint of the run"));
    assert_int_equal(unlink(latest) | symlink("step_00000009", latest), 0);
    assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_non_null(strstr(r->err.text, "step_00000009/model.safetensors: cannot open"));
    closed(r, run, "failed");
}

static void test_state_metadata_is_checked(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    assert_int_equal(checkpoint(r, run, 1, 0, 9), 0);
    smoe_tensor *m, *v, all[4];
    assert_int_equal(
        smoe_params_tensors(&r->params, &(smoe_slab){"m.", r->params.m, NULL}, &m, &r->err), 0);
    assert_int_equal(
        smoe_params_tensors(&r->params, &(smoe_slab){"v.", r->params.v, NULL}, &v, &r->err), 0);
    memcpy(all, m, 2 * sizeof *m);
    memcpy(all + 2, v, 2 * sizeof *v);
    static const struct {
        const char *step, *optimizer_steps, *best, *best_step, *message;
    } rows[] = {
        {"1", "2", "0.5", "1", NULL},
        {"1 ", "2", "0.5", "1", "smoe.step: 1  is not a whole number"},
        {"1", "-2", "0.5", "1", "smoe.optimizer_steps: -2 is not a whole number"},
        {"1", "2", "nan", "1", "smoe.best: nan is not a number"},
        {"1", "2", "0.5x", "1", "smoe.best: 0.5x is not a number"},
        {"1", "2", "0.5", "", "smoe.best_step:  is not a whole number"},
        {"1", "2", "0.5", NULL, "smoe.best_step: (absent) is not a whole number"},
        {"1", "99999999999999999999999", "0.5", "1",
         "smoe.optimizer_steps: 99999999999999999999999 is not"},
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
            smoe_safetensors_write(path, all, 4, pairs, rows[i].best_step ? 4 : 3, &r->err), 0);
        assert_int_equal(smoe_run_restore(run, &r->params, &at, &r->err), rows[i].message ? -1 : 1);
        if (!rows[i].message) continue;
        assert_int_equal(r->err.code, SMOE_DATA);
        if (!strstr(r->err.text, rows[i].message)) fail_msg("%s", r->err.text);
    }
    free(m);
    free(v);
    closed(r, run, "failed");
}

/* ---- finding ---- */

static void locate(room *r, const char *arg, const char *which, const char *want, bool spec) {
    char *model, *text;
    if (smoe_run_locate(arg, which, &model, &text, &r->err)) fail_msg("%s", r->err.text);
    assert_string_equal(model, want);
    assert_int_equal(text != NULL, spec);
    if (spec) {
        char *json = smoe_spec_json(&r->spec);
        assert_string_equal(text, json);
        free(json);
    }
    free(model);
    free(text);
}

static void not_located(room *r, const char *arg, const char *which, smoe_code code,
                        const char *message) {
    char *model, *text;
    assert_int_equal(smoe_run_locate(arg, which, &model, &text, &r->err), -1);
    assert_null(model);
    assert_null(text);
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.text, message)) fail_msg("\"%s\" is not in: %s", message, r->err.text);
}

static void test_locate(void **state) {
    room *r = *state;
    char three[SCRATCH_PATH + 128], four[SCRATCH_PATH + 64], folder[SCRATCH_PATH + 64];
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    not_located(r, r->run, NULL, SMOE_DATA, "the run has no checkpoint yet");
    not_located(r, r->run, "best", SMOE_DATA, "the run has no checkpoint yet");
    assert_int_equal(checkpoint(r, run, 3, 0, 9), 0);
    not_located(r, r->run, "best", SMOE_DATA, "the run has no checkpoint best");
    assert_int_equal(checkpoint(r, run, 3, 3, 9), 0);
    assert_int_equal(checkpoint(r, run, 4, 3, 9), 0);
    snprintf(folder, sizeof folder, "%s/ckpt/step_00000003", r->run);
    snprintf(three, sizeof three, "%s/model.safetensors", folder);
    snprintf(four, sizeof four, "%s/ckpt/step_00000004/model.safetensors", r->run);
    locate(r, r->run, NULL, four, true);
    locate(r, r->run, "latest", four, true);
    locate(r, r->run, "best", three, true);
    locate(r, r->run, "step_00000003", three, true);
    locate(r, folder, NULL, three, true);
    locate(r, three, NULL, three, true);
    not_located(r, r->run, "step_00000005", SMOE_DATA, "the run has no checkpoint step_00000005");
    not_located(r, r->run, "newest", SMOE_USAGE, "checkpoint newest: not best, latest or step_");
    not_located(r, r->scratch.dir, NULL, SMOE_USAGE, "neither a run (no spec.yaml in it)");
    not_located(r, "/no/such/place", NULL, SMOE_USAGE,
                "/no/such/place: neither a run, a checkpoint nor a file");
    not_located(r, "/dev/null", NULL, SMOE_USAGE, "/dev/null: neither");
    closed(r, run, "done");
    /* a foreign file has no spec; one that is none is refused */
    snprintf(folder, sizeof folder, "%s/foreign.safetensors", r->scratch.dir);
    assert_int_equal(smoe_safetensors_write(folder, NULL, 0, NULL, 0, &r->err), 0);
    locate(r, folder, NULL, folder, false);
    scratch_write(folder, "PK\3\4 something else", 19);
    not_located(r, folder, NULL, SMOE_DATA, "not a safetensors file?");
}

/* ---- disasters ---- */

/* A write that fails in the middle of a checkpoint. */
static void test_file_limit(void **state) {
    room *r = *state;
    smoe_run *run = opened(r, SMOE_RUN_NEW);
    assert_int_equal(record(run, 1, 1, &r->err), 0);
    assert_int_equal(checkpoint(r, run, 1, 1, 1), 0);
    struct rlimit limit, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    low = limit;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    /* within the model; within the state, which is twice as large; within a line of the metrics */
    size_t model = BIG * sizeof(real);
    rlim_t limits[] = {4096, model / 2, model + 8192, 40};
    for (int i = 0; i < 4; i++) {
        low.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        int status = i < 3 ? checkpoint(r, run, 2, 2, 1) : record(run, 2, 0.123456789, &r->err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(status, -1);
        assert_int_equal(r->err.code, SMOE_RUNTIME);
        assert_non_null(strstr(r->err.text, "File too large"));
        assert_non_null(strstr(r->err.text, i < 2   ? "model.safetensors"
                                            : i < 3 ? "state.safetensors"
                                                    : "metrics.jsonl"));
        assert_file(r, "metrics.jsonl", "{\"step\":1,\"train/loss\":1.0}\n"); /* no half line */
        char ckpt[SCRATCH_PATH + 8];
        snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->run);
        assert_int_equal(scratch_entries(ckpt), 3);
        assert_int_equal(restored(r, run), 1);
    }
    signal(SIGXFSZ, before);
    assert_int_equal(checkpoint(r, run, 2, 2, 1), 0); /* space again: it goes on */
    assert_kept(r, "2");
    closed(r, run, "done");
}

/* In a child with a 1 MB file system of its own; its exit status is the line that failed, 77 where
 * it may not mount. */
#define NEED(condition) \
    if (!(condition)) _exit(__LINE__ % 200 + 1)

static bool write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    if (!out) return false;
    bool good = fputs(text, out) >= 0;
    return !fclose(out) && good;
}

/* A mount that nobody else sees, as root of a user namespace, which any user may be where the
 * system lets them. */
static bool small_disk(const char *where) {
    char users[64], groups[64];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
    return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups) &&
           !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", where, "tmpfs", 0, "size=1m");
}

static void child_fills_disk(room *r) {
    if (!small_disk(r->scratch.dir)) _exit(255);
    smoe_run *run;
    NEED(!smoe_run_open(&run, r->run, SMOE_RUN_NEW, &r->spec, NULL, &r->err));
    NEED(!checkpoint(r, run, 1, 1, 99));
    uint64_t step = 1;
    while (step < 20 && !checkpoint(r, run, step + 1, 1, 99)) step++;
    NEED(step > 1 && step < 20);
    NEED(r->err.code == SMOE_RUNTIME && strstr(r->err.text, "No space left on device"));
    smoe_run_close(run, "failed", NULL);
    NEED(!smoe_run_open(&run, r->run, SMOE_RUN_RESUME, &r->spec, NULL, &r->err));
    smoe_checkpoint at;
    NEED(smoe_run_restore(run, &r->params, &at, &r->err) == 1);
    NEED(at.step == step && filled(&r->params, step));
    _exit(0);
}

static void test_full_disk(void **state) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) child_fills_disk(*state);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 255) {
        print_message(
            "no file system may be mounted here: the full disk is left to the file limit\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Checkpoints and records without end, until killed. */
static void child_writes(room *r, smoe_run_mode mode, uint64_t step) {
    smoe_run *run;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the test fail first */
    if (smoe_run_open(&run, r->run, mode, &r->spec, NULL, &r->err)) _exit(1);
    for (step++;; step++) {
        if (record(run, (int)step, 0.5, &r->err)) _exit(2);
        if (checkpoint(r, run, step, step % 3 ? step : 0, 2)) _exit(3);
    }
}

/* The records must be those of steps 1 .. step, each once. */
static void assert_records(room *r, uint64_t step) {
    char *text = slurp(r, "metrics.jsonl"), *rest = text;
    for (uint64_t i = 1; i <= step; i++) {
        char want[64], *line = strsep(&rest, "\n");
        snprintf(want, sizeof want, "{\"step\":%" PRIu64 ",\"train/loss\":0.5}", i);
        assert_string_equal(line, want);
    }
    assert_string_equal(rest, "");
    free(text);
}

/* After a kill: the run opens, and goes on from a whole checkpoint. Returns its step, 0 for none.
 */
static uint64_t survivor(room *r) {
    smoe_run *run = opened(r, SMOE_RUN_RESUME);
    smoe_checkpoint at = {0};
    fill(&r->params, 4000);
    int found = smoe_run_restore(run, &r->params, &at, &r->err);
    if (found < 0) fail_msg("%s", r->err.text);
    if (found) {
        assert_true(filled(&r->params, at.step));
        assert_int_equal(smoe_run_truncate(run, at.step, &r->err), 0);
    }
    assert_records(r, at.step);
    closed(r, run, NULL);
    return at.step;
}

/* A kill may leave checkpoints that were to be deleted; the next one that is undisturbed takes all
 * of them away: the two links, the two kept and the best remain. */
static void assert_tidied(room *r, uint64_t step) {
    char ckpt[SCRATCH_PATH + 8];
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", r->run);
    smoe_run *run = opened(r, SMOE_RUN_RESUME);
    assert_int_equal(record(run, (int)step + 1, 0.5, &r->err), 0);
    assert_int_equal(checkpoint(r, run, step + 1, 0, 2), 0);
    closed(r, run, NULL);
    assert_true(scratch_entries(ckpt) <= 2 + 2 + 1);
}

/* Waits until a checkpoint beyond `step` is linked; a minute is for the busiest machine. */
static void await_progress(const room *r, uint64_t step) {
    char path[SCRATCH_PATH + 16], target[64] = "";
    snprintf(path, sizeof path, "%s/ckpt/latest", r->run);
    for (int tries = 0; tries < 60000; tries++) {
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 5 && strtoull(target + 5, NULL, 10) > step) return;
        usleep(1000);
    }
    fail_msg("no checkpoint in a minute");
}

static void test_killed_at_any_moment(void **state) {
    room *r = *state;
    uint64_t random = 88172645463325252u, step = 0;
    enum { KILLS = 60 };
    for (int kills = 0; kills < KILLS; kills++) {
        smoe_run_mode mode = there(r, "") ? SMOE_RUN_RESUME : SMOE_RUN_NEW;
        bool late = kills % 2; /* every other one before it has got anywhere */
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) child_writes(r, mode, step);
        random ^= random << 13; /* xorshift */
        random ^= random >> 7;
        random ^= random << 17;
        if (late) await_progress(r, step);
        usleep((useconds_t)(random % (late ? 20000 : 3000)));
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) fail_msg("the writer failed at place %d", WEXITSTATUS(status));
        if (!there(r, "")) continue; /* killed before mkdir */
        uint64_t now = survivor(r);
        assert_true(late ? now > step : now >= step);
        step = now;
    }
    assert_true(step >= KILLS / 2);
    assert_tidied(r, step);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First those that fork: OpenMP's threads do not come along. */
        TEST(test_full_disk),
        TEST(test_killed_at_any_moment),
        TEST(test_new_run),
        TEST(test_new_is_exclusive),
        TEST(test_unwritable),
        TEST(test_one_process_at_a_time),
        TEST(test_force),
        TEST(test_half_made),
        TEST(test_resume_names_what_differs),
        TEST(test_resume_lets_some_keys_differ),
        TEST(test_resume_keeps_the_earlier_env),
        TEST(test_metrics_lines),
        TEST(test_metrics_half_and_bad_lines),
        TEST(test_checkpoint_round_trip),
        TEST(test_checkpoint_files),
        TEST(test_momentum_and_no_moments),
        TEST(test_retention),
        TEST(test_a_step_done_again),
        TEST(test_recovery),
        TEST(test_corrupt_checkpoints),
        TEST(test_state_metadata_is_checked),
        TEST(test_locate),
        TEST(test_file_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
