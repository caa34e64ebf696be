/* Run directories: their contents, who may write to them, what a resume refuses, and the
 * records. */
#include "run_folder.h"
#include "specs.h"
#include "base/file.h"
#include "math/kernels.h"
#include "spec/schema.h"
#include "store/env.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opening fails with this code and a message that contains this text. */
static void refused(run_folder *r, smoe_run_mode mode, smoe_code code, const char *message) {
    smoe_run *run;
    assert_int_equal(smoe_run_open(&run, r->run, mode, &r->spec, json_object(), &r->err), -1);
    assert_null(run);
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.text, message)) fail_msg("\"%s\" is not in: %s", message, r->err.text);
    assert_non_null(strstr(r->err.text, r->run));
}

/* ---- the directory ---- */

static void test_new_run(void **state) {
    run_folder *r = *state;
    smoe_run *run;
    char *argv[] = {"smoe", "train", "\xff"};
    json_t *env = smoe_env_here(3, argv);
    assert_int_equal(smoe_run_open(&run, r->run, SMOE_RUN_NEW, &r->spec, env, &r->err), 0);
    char status[200], host[100];
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(status, sizeof status, "running %ld %s\n", (long)getpid(), host);
    run_folder_assert_file(r, "STATUS", status);
    run_folder_assert_file(r, "metrics.jsonl", "");
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
    char *text = run_folder_read(r, "env.json");
    json_t *read = json_loads(text, 0, NULL);
    free(text);
    assert_string_equal(json_string_value(json_object_get(read, "version")), SMOE_VERSION);
    assert_memory_equal(json_string_value(json_object_get(read, "blas")), "BLIS ", 5);
    assert_string_equal(json_string_value(json_object_get(read, "kernel")),
                        smoe_kernels_get()->isa);
    assert_string_equal(json_string_value(json_object_get(read, "host")), host);
    assert_string_equal(json_string_value(json_array_get(json_object_get(read, "argv"), 1)),
                        "train");
    assert_string_equal(json_string_value(json_array_get(json_object_get(read, "argv"), 2)),
                        "\xEF\xBF\xBD");
    assert_int_equal(json_integer_value(json_object_get(read, "threads")), smoe_threads());
    assert_true(json_integer_value(json_object_get(read, "cores")) >= 1);
    static const char *const words[] = {"compiler", "flags",  "cpu", "cwd",
                                        "date",     "system", "real"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_true(json_string_length(json_object_get(read, words[i])) > 0);
    json_decref(read);
    run_folder_closed(r, run, "done");
    snprintf(status, sizeof status, "done %ld %s\n", (long)getpid(), host);
    run_folder_assert_file(r, "STATUS", status);
    assert_int_equal(scratch_entries(r->run),
                     6); /* spec env metrics log STATUS MANIFEST, no ckpt and no temporary file */
}

static void test_new_is_exclusive(void **state) {
    run_folder *r = *state;
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_NEW), "done");
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
    run_folder *r = *state;
    char path[SCRATCH_PATH];
    scratch_write(scratch_path(&r->scratch, path, "a"), "",
                  0); /* a file in the place of a folder */
    refused(r, SMOE_RUN_NEW, SMOE_RUNTIME, "Not a directory");
}

static void test_one_process_at_a_time(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    refused(r, SMOE_RUN_RESUME, SMOE_RUNTIME,
            "another process is writing this run (STATUS: running ");
    refused(r, SMOE_RUN_FORCE, SMOE_RUNTIME, "another process is writing this run");
    run_folder_closed(r, run, "stopped");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), NULL);
    char *status = run_folder_read(r, "STATUS");
    assert_int_equal(strncmp(status, "running ", 8), 0); /* closed without a status: as if killed */
    free(status);
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME),
                      "failed"); /* the lock counts, not STATUS */
}

static void test_force(void **state) {
    run_folder *r = *state;
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "no such run directory, nothing to resume");
    smoe_run *run = run_folder_opened(r, SMOE_RUN_FORCE); /* nothing there yet: as new */
    assert_int_equal(smoe_run_metrics(run, json_pack("{s:i}", "step", 1), &r->err), 0);
    smoe_checkpoint at = {.step = 1, .best = -1};
    assert_int_equal(run_folder_save(r, run, &at, 1), 0);
    smoe_run_log(run, "%s", "the old log");
    run_folder_closed(r, run, "done");
    run_folder_write(r, "notes.txt", "mine");
    run_folder_write(r, "ckpt/step_1_kept.txt", "mine too");
    run_folder_write(r, "spec.yaml.tmp-12-0", "left over");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_FORCE), "done");
    run_folder_assert_file(r, "ckpt/step_1_kept.txt", "mine too");
    run_folder_assert_file(r, "notes.txt", "mine");
    run_folder_assert_file(r, "metrics.jsonl", "");
    assert_false(run_folder_has(r, "ckpt/step_00000001"));
    assert_false(run_folder_has(r, "ckpt/latest"));
    assert_false(run_folder_has(r, "spec.yaml.tmp-12-0"));
    char *log = run_folder_read(r, "log.txt");
    assert_null(strstr(log, "the old log"));
    free(log);
    /* a folder that is not a run is left alone */
    char path[SCRATCH_PATH + 16];
    snprintf(path, sizeof path, "%s/STATUS", r->run);
    assert_int_equal(unlink(path), 0);
    refused(r, SMOE_RUN_FORCE, SMOE_USAGE, "not a run directory (no spec.yaml and STATUS in it)");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "not a run directory");
    run_folder_assert_file(r, "notes.txt", "mine");
}

/* Fewer steps than are done: there is nothing to resume, and spec.yaml would be that of another
 * run. */
static void test_fewer_steps(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    smoe_checkpoint at = {.step = 5, .best = -1};
    assert_int_equal(run_folder_save(r, run, &at, 1), 0);
    run_folder_closed(r, run, "stopped");
    char *spec = run_folder_read(r, "spec.yaml");
    r->spec.train.steps = 4;
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "cannot resume: train.steps is 4, and 5 are done");
    run_folder_assert_file(r, "spec.yaml", spec);
    free(spec);
    r->spec.train.steps = 5;
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), "done");
}

/* Killed between mkdir and STATUS. */
static void test_half_made(void **state) {
    run_folder *r = *state;
    smoe_run_mode modes[] = {SMOE_RUN_RESUME, SMOE_RUN_FORCE};
    for (int i = 0; i < 2; i++) {
        char path[SCRATCH_PATH], name[16];
        snprintf(name, sizeof name, "half%d", i);
        strcpy(r->run, scratch_path(&r->scratch, path, name));
        assert_int_equal(mkdir(r->run, 0777), 0);
        if (i) run_folder_write(r, "metrics.jsonl", "");
        run_folder_write(r, "spec.yaml.tmp-1-0", "nam");
        run_folder_closed(r, run_folder_opened(r, modes[i]), "done");
        assert_true(run_folder_has(r, "spec.yaml") && run_folder_has(r, "env.json") &&
                    run_folder_has(r, "STATUS"));
        assert_false(run_folder_has(r, "spec.yaml.tmp-1-0"));
    }
}

static void loses(run_folder *r, const char *name) {
    char path[SCRATCH_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", r->run, name);
    assert_int_equal(unlink(path), 0);
}

/* A run that has lost its STATUS is not half-made: it can be resumed, and is not replaced. */
static void test_without_status(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_record(run, 3, 1, &r->err), 0);
    assert_int_equal(run_folder_checkpoint(r, run, 3, 0, 1), 0);
    run_folder_closed(r, run, "done");
    loses(r, "STATUS");
    refused(r, SMOE_RUN_FORCE, SMOE_USAGE, "a run without STATUS; --resume continues it");
    run = run_folder_opened(r, SMOE_RUN_RESUME);
    assert_int_equal(run_folder_restored(r, run), 3);
    run_folder_assert_file(r, "metrics.jsonl", "{\"step\":3,\"train/loss\":1.0}\n");
    run_folder_closed(r, run, "done");
    /* checkpoints, records, a log or a spec alone do not make a run directory */
    loses(r, "STATUS");
    loses(r, "spec.yaml");
    for (int mode = SMOE_RUN_RESUME; mode <= SMOE_RUN_FORCE; mode++)
        refused(r, (smoe_run_mode)mode, SMOE_USAGE, "not a run directory");
    assert_true(run_folder_has(r, "ckpt/step_00000003/model.safetensors"));
}

/* Folders with file names of a run that are not runs: nothing in them is changed. */
static void test_folders_of_others(void **state) {
    run_folder *r = *state;
    static const char *const names[] = {"log.txt",  "metrics.jsonl", "spec.yaml",
                                        "env.json", "STATUS",        "ckpt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[SCRATCH_PATH], name[16];
        snprintf(name, sizeof name, "other%zu", i);
        strcpy(r->run, scratch_path(&r->scratch, path, name));
        assert_int_equal(mkdir(r->run, 0777), 0);
        run_folder_write(r, names[i], "mine\n"); /* also where ckpt is not a folder */
        for (int mode = SMOE_RUN_RESUME; mode <= SMOE_RUN_FORCE; mode++)
            refused(r, (smoe_run_mode)mode, SMOE_USAGE, "not a run directory");
        assert_int_equal(scratch_entries(r->run), 1);
        run_folder_assert_file(r, names[i], "mine\n");
    }
}

/* ---- resuming ---- */

static void respecify(run_folder *r, const char *text) {
    smoe_spec_free(&r->spec);
    r->spec = specs_good(text, NULL, NULL, NULL);
}

static void test_resume_names_what_differs(void **state) {
    run_folder *r = *state;
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_NEW), "stopped");
    char *before = run_folder_read(r, "spec.yaml"), *log = run_folder_read(r, "log.txt");
    respecify(r, "name: one\nseed: 5\ndata: {source: shapes}\n"
                 "train: {steps: 2000, optimizer: {lr: 0.3}}\n");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "cannot resume: seed was 0, now it is 5");
    assert_int_equal(r->err.lines, 2); /* both, but not train.steps */
    assert_non_null(
        strstr(r->err.text, "cannot resume: train.optimizer.lr was 0.001, now it is 0.3"));
    assert_null(strstr(r->err.text, "train.steps"));
    run_folder_assert_file(r, "spec.yaml", before);
    run_folder_assert_file(r, "log.txt", log);
    free(before);
    free(log);
}

static void test_resume_lets_some_keys_differ(void **state) {
    run_folder *r = *state;
    respecify(r, "name: one\ndata: {source: cifar10, path: /old/place/cifar.tar}\n");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_NEW), "stopped");
    respecify(r, "name: two\ndata: {source: cifar10, path: /new/cifar.tar}\n"
                 "train: {steps: 2000, eval_every: 3, checkpoint_every: 4, keep: 9}\n"
                 "eval: {batch_size: 17}\n");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), "stopped");
    char *log = run_folder_read(r, "log.txt"), *spec = run_folder_read(r, "spec.yaml");
    assert_non_null(strstr(log, "train.steps was 1000, from now on it is 2000"));
    assert_non_null(strstr(log, "eval.batch_size was 256, from now on it is 17"));
    assert_non_null(strstr(log, "name was \"one\", from now on it is \"two\""));
    assert_non_null(strstr(spec, "two"));
    assert_non_null(strstr(spec, "/new/cifar.tar"));
    free(log);
    free(spec);
    respecify(r, "name: two\ndata: {source: cifar10, path: /new/other.tar}\n");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE,
            "cannot resume: data.path was \"/new/cifar.tar\", now it is");
    assert_int_equal(r->err.lines, 1);
}

/* ---- every key ---- */

/* Specs chosen so that every key has an effect in at least one of them. */
static const char *const plains[] = {
    "data: {image_size: 12, classes: 9, augment: {randaugment: {n: 1}}}\n"
    "model: {qk_norm: true, moe: {experts: 2, slots_per_expert: 0}}\n"
    "train: {steps: 20, schedule: {warmup: 1, cooldown: 1}}\n"
    "eval: {fewshot: {shots: [2], data: {source: facts}}}\n",
    "data: {source: facts, image_size: 12, facts: {classes: 2}}\n"
    "model: {moe: {router: tokens-choice, experts: 4, universal_experts: 2, universal_mlp: 8, "
    "balance: bias}}\n"
    "train: {steps: 20, optimizer: {name: sgd}, schedule: {warmup: 1, cooldown: 1}}\n",
    "data: {source: idx, path: nowhere, image_size: 12, classes: 9}\n"
    "model: {moe: {router: remoe}}\n"
    "train: {steps: 20, schedule: {warmup: 1, cooldown: 1}}\n"
    "eval: {fewshot: {shots: [2], data: {source: idx, path: there}}}\n",
    "data: {source: image-folder, path: nowhere, labels: a.csv, image_size: 12, classes: 9}\n"
    "model: {moe: {router: experts-choice-sinkhorn}}\n"
    "train: {steps: 20, schedule: {warmup: 1, cooldown: 1}}\n",
    "data: {source: shapes, image_size: 12}\n"
    "model: {moe: {router: tokens-choice}}\n"
    "text: {padding: attended}\n"
    "train: {loss: contrastive, steps: 20, schedule: {warmup: 1, cooldown: 1}}\n",
    "data: {source: shapes, image_size: 12}\n"
    "model: {moe: {router: images-choice, experts: 2, balance: superclass}}\n"
    "train: {steps: 20, schedule: {warmup: 1, cooldown: 1}}\n",
    "data: {source: webdataset, path: nowhere.tar, image_size: 12, classes: 9, holdout: 1}\n"
    "model: {moe: {router: soft-temperatures}}\n"
    "eval: {split: val}\n"
    "train: {loss: contrastive, steps: 20, schedule: {warmup: 1, cooldown: 1}}\n"};
enum { PLAINS = sizeof plains / sizeof *plains };
static const char *plain; /* one of them */
static bool tried[200];   /* keys that had an effect in one of them */
static size_t key_number;

/* The first value of a key, from its choices or a few others, with which the spec is valid and
 * resolves differently; false if there is none. */
static bool changed(smoe_spec *spec, const char *key, const char *type) {
    char choices[400], *rest = choices;
    snprintf(choices, sizeof choices,
             "%s | 12 | 0 | 1 | 3 | 4 | 0.5 | true | [1] | [3] | "
             "[{\"match\":\"*\"}] | [\"{}\"] | json.x | other",
             type);
    smoe_spec base = specs_good(plain, NULL, NULL, NULL);
    char *was = smoe_spec_json(&base);
    bool found = false;
    for (char *word; !found && (word = strsep(&rest, "|"));) {
        char text[500], *assign = text;
        smoe_err err;
        word += strspn(word, " ");
        word[strcspn(word, " ")] = '\0';
        snprintf(text, sizeof text, "%s=%s", key, word);
        if (!smoe_spec_parse(spec, &(smoe_spec_text){.text = plain, .label = "t"}, &assign, 1,
                             &err)) {
            char *is = smoe_spec_json(spec);
            found = strcmp(was, is) != 0;
            free(is);
        }
        if (!found) smoe_spec_free(spec);
    }
    free(was);
    smoe_spec_free(&base);
    return found;
}

/* Whether the list contains the word. */
static bool listed(const char *key, const char *list) {
    char words[300], *rest = words;
    snprintf(words, sizeof words, "%s", list);
    for (char *word; (word = strsep(&rest, " "));)
        if (!strcmp(word, key)) return true;
    return false;
}

/* Keys that do not change the weights of a step may differ; any other key may not. */
static void resume_with(run_folder *r, const char *key, const char *type) {
    static const char may[] =
        "name data.cache_mb train.steps train.log_every train.eval_every train.patience "
        "train.experts_over train.checkpoint_every train.checkpoint_minutes "
        "train.keep train.shard_bytes "
        "train.keep_every train.tensorboard";
    smoe_run *run;
    smoe_spec_free(&r->spec);
    size_t number = key_number++;
    assert_true(number < sizeof tried / sizeof *tried);
    if (!changed(&r->spec, key, type)) {
        r->spec = specs_good(plain, NULL, NULL, NULL);
        return;
    }
    tried[number] = true;
    if (listed(key, may) || !strncmp(key, "eval.", 5)) {
        if (smoe_run_open(&run, r->run, SMOE_RUN_RESUME, &r->spec, NULL, &r->err) ||
            smoe_run_begin(run, &r->spec, &r->err))
            fail_msg("%s: %s", key, r->err.text);
        run_folder_closed(r, run, "stopped");
    } else {
        char message[140];
        snprintf(message, sizeof message, "cannot resume: %s was ", key);
        refused(r, SMOE_RUN_RESUME, SMOE_USAGE, message);
    }
    smoe_spec_free(&r->spec);
    r->spec = specs_good(plain, NULL, NULL, NULL);
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), "stopped");
}

static void test_every_key_is_free_or_not(void **state) {
    run_folder *r = *state;
    for (size_t i = 0; i < PLAINS; i++) {
        plain = plains[i];
        key_number = 0;
        respecify(r, plain);
        run_folder_closed(r, run_folder_opened(r, i ? SMOE_RUN_FORCE : SMOE_RUN_NEW), "stopped");
        for (size_t n = 0; n < SMOE_SCHEMA_COUNT; n++) {
            char type[256];
            smoe_schema_type(&smoe_schema[n], type, sizeof type);
            resume_with(r, smoe_schema[n].key, type);
        }
    }
    for (size_t i = 0; i < key_number; i++)
        if (!tried[i]) fail_msg("key number %zu of the table was not tried", i);
}

/* A key without effect in either spec may differ, e.g. a warm-up that was fitted to the steps,
 * if the schedule has none. If it has an effect in one of them, it may not. */
static void test_idle_keys_may_differ(void **state) {
    run_folder *r = *state;
    respecify(r, "train: {steps: 40, schedule: {name: constant}}\n");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_NEW), "stopped");
    respecify(r, "train: {steps: 80, schedule: {name: constant}}\n");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), "stopped");
    respecify(r, "train: {steps: 80, schedule: {name: linear, warmup: 4}}\n");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "cannot resume: train.schedule.name was ");
}

static void test_resume_keeps_the_earlier_env(void **state) {
    run_folder *r = *state;
    smoe_run *run;
    for (int i = 0; i < 3; i++) {
        smoe_run_mode mode = i ? SMOE_RUN_RESUME : SMOE_RUN_NEW;
        json_t *env = json_pack("{s:i}", "threads", i);
        assert_int_equal(smoe_run_open(&run, r->run, mode, &r->spec, env, &r->err), 0);
        assert_int_equal(smoe_run_begin(run, &r->spec, &r->err), 0);
        run_folder_closed(r, run, "stopped");
    }
    char *text = run_folder_read(r, "env.json");
    json_t *env = json_loads(text, 0, NULL);
    json_t *want =
        json_pack("{s:i, s:[{s:i}, {s:i}]}", "threads", 2, "previous", "threads", 0, "threads", 1);
    assert_true(json_equal(env, want));
    json_decref(env);
    json_decref(want);
    free(text);
}

/* The settings that were used are in the checkpoint: editing spec.yaml does not change them. */
static void test_resume_knows_the_checkpoints_spec(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_checkpoint(r, run, 1, 0, 1), 0);
    run_folder_closed(r, run, "stopped");
    char *original = run_folder_read(r, "spec.yaml");
    run_folder_write(r, "spec.yaml", "name: one\nseed: 7\ndata: {source: shapes}\n");
    respecify(r, "name: one\nseed: 7\ndata: {source: shapes}\n");
    refused(r, SMOE_RUN_RESUME, SMOE_USAGE, "cannot resume: seed was 0, now it is 7");
    respecify(r, "name: one\ndata: {source: shapes}\n");
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), "stopped");
    run_folder_assert_file(r, "spec.yaml", original); /* as it was */
    free(original);
}

/* A run that was moved, and another one with its old name: neither gets files of the other. */
static void test_moved_while_written(void **state) {
    run_folder *r = *state;
    char away[SCRATCH_PATH + 8];
    snprintf(away, sizeof away, "%s.away", r->run);
    for (int taken = 0; taken < 2; taken++) {
        smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW), *other = NULL;
        assert_int_equal(run_folder_checkpoint(r, run, 1, 0, 9), 0);
        assert_int_equal(rename(r->run, away), 0);
        if (taken) other = run_folder_opened(r, SMOE_RUN_NEW);
        assert_int_equal(run_folder_record(run, 2, 1, &r->err), 0); /* follows the move */
        assert_int_equal(run_folder_checkpoint(r, run, 2, 0, 9), -1);
        assert_int_equal(r->err.code, SMOE_RUNTIME);
        assert_non_null(strstr(r->err.text, "the directory was moved or removed during the run"));
        assert_int_equal(smoe_run_close(run, "failed", &r->err), -1);
        assert_int_equal(r->err.code, SMOE_RUNTIME);
        assert_int_equal(run_folder_has(r, ""), taken);
        if (taken) run_folder_assert_file(r, "metrics.jsonl", "");
        if (taken) assert_false(run_folder_has(r, "ckpt/latest"));
        if (taken) run_folder_closed(r, other, "done");
        strcat(r->run, ".away"); /* in its new place, it can be resumed */
        run = run_folder_opened(r, SMOE_RUN_RESUME);
        assert_int_equal(run_folder_restored(r, run), 1);
        run_folder_closed(r, run, "done");
        assert_int_equal(smoe_file_remove(r->run, &r->err), 0);
        r->run[strlen(r->run) - strlen(".away")] = '\0';
    }
}

/* A pipe in place of a file is refused; the program does not wait for it. */
static void test_pipes(void **state) {
    run_folder *r = *state;
    static const char *const names[] = {"log.txt", "metrics.jsonl", "spec.yaml", "env.json",
                                        "STATUS"};
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_NEW), "done");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[SCRATCH_PATH + 32], aside[SCRATCH_PATH + 40], text[64];
        snprintf(path, sizeof path, "%s/%s", r->run, names[i]);
        snprintf(aside, sizeof aside, "%s.aside", path);
        assert_int_equal(rename(path, aside) | mkfifo(path, 0666), 0);
        snprintf(text, sizeof text, "%s: not a regular file", names[i]);
        for (int mode = SMOE_RUN_RESUME; mode <= SMOE_RUN_FORCE; mode++)
            refused(r, (smoe_run_mode)mode, SMOE_DATA, text);
        assert_int_equal(rename(aside, path), 0);
    }
    run_folder_closed(r, run_folder_opened(r, SMOE_RUN_RESUME), "done");
}

/* ---- metrics.jsonl ---- */

static int truncated(run_folder *r, smoe_run *run, uint64_t step, uint64_t recorded) {
    double wall_s;
    const smoe_checkpoint at = {.step = step, .recorded = recorded};
    return smoe_run_truncate(run, &at, &wall_s, &r->err);
}

static void test_metrics_lines(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    assert_int_equal(run_folder_record(run, 1, 0.1, &r->err), 0);
    assert_int_equal(run_folder_record(run, 2, NAN, &r->err), 0);
    assert_int_equal(run_folder_record(run, 3, -INFINITY, &r->err), 0);
    assert_int_equal(run_folder_record(run, 3, 2, &r->err), 0);
    /* 17 digits restore every double; a real stays one */
    static const char *const want = "{\"step\":1,\"train/loss\":0.1}\n"
                                    "{\"step\":2,\"train/loss\":null}\n"
                                    "{\"step\":3,\"train/loss\":null}\n"
                                    "{\"step\":3,\"train/loss\":2.0}\n";
    run_folder_assert_file(r, "metrics.jsonl", want);
    assert_int_equal(truncated(r, run, 3, 0), 0);
    run_folder_assert_file(r, "metrics.jsonl", want);
    assert_int_equal(truncated(r, run, 1, 0), 0);
    run_folder_assert_file(r, "metrics.jsonl", "{\"step\":1,\"train/loss\":0.1}\n");
    assert_int_equal(run_folder_record(run, 4, 1, &r->err),
                     0); /* appended at the present end of the file */
    run_folder_assert_file(r, "metrics.jsonl",
                           "{\"step\":1,\"train/loss\":0.1}\n"
                           "{\"step\":4,\"train/loss\":1.0}\n");
    run_folder_closed(r, run, "done");
}

static void test_metrics_half_and_bad_lines(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    run_folder_write(r, "metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"tra");
    assert_int_equal(truncated(r, run, 9, 0), 0);
    run_folder_assert_file(r, "metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n");
    static const char *const bad[] = {"{\"step\":1}\nhello\n{\"step\":3}\n",
                                      "{\"step\":1}\n{\"steps\":2}\n",
                                      "{\"step\":1}\n{\"step\":\"2\"}\n", "{\"step\":1}\n\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run_folder_write(r, "metrics.jsonl", bad[i]);
        assert_int_equal(truncated(r, run, 9, 0), -1);
        assert_int_equal(r->err.code, SMOE_DATA);
        assert_non_null(strstr(r->err.text, "metrics.jsonl:2: not a record with a step"));
        run_folder_assert_file(r, "metrics.jsonl", bad[i]);
    }
    run_folder_write(r, "metrics.jsonl", "");
    run_folder_closed(r, run, "done");
}

/* The time is that of the last record that is kept and has one. */
static void test_metrics_time(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    double wall_s = 0;
    run_folder_write(r, "metrics.jsonl",
                     "{\"step\":1,\"wall_s\":2.5}\n{\"step\":2,\"wall_s\":4}\n{\"step\":2}\n"
                     "{\"step\":3,\"wall_s\":8}\n");
    assert_int_equal(smoe_run_truncate(run, &(smoe_checkpoint){.step = 2}, &wall_s, &r->err), 0);
    assert_true(wall_s == 4);
    assert_int_equal(smoe_run_truncate(run, &(smoe_checkpoint){.step = 1}, &wall_s, &r->err), 0);
    assert_true(wall_s == 2.5);
    run_folder_closed(r, run, "done");
}

/* Records that existed when the checkpoint was written must still exist. */
static void test_metrics_missing(void **state) {
    run_folder *r = *state;
    smoe_run *run = run_folder_opened(r, SMOE_RUN_NEW);
    static const char two[] = "{\"step\":1}\n{\"step\":2}\n", *const bad[] = {"", "{\"step\":1}\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run_folder_write(r, "metrics.jsonl", bad[i]);
        assert_int_equal(truncated(r, run, 3, 2), -1);
        assert_int_equal(r->err.code, SMOE_DATA);
        assert_non_null(strstr(r->err.text, i ? "they end at step 1, and there was one of step 2"
                                              : "they end at step 0, and there was one of step 2"));
        run_folder_assert_file(r, "metrics.jsonl", bad[i]);
    }
    run_folder_write(r, "metrics.jsonl", two);
    assert_int_equal(truncated(r, run, 3, 2), 0);
    run_folder_assert_file(r, "metrics.jsonl", two);
    run_folder_closed(r, run, "done");
}

#define TEST(name) unit_test_with(name, run_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_new_run),
        TEST(test_new_is_exclusive),
        TEST(test_unwritable),
        TEST(test_one_process_at_a_time),
        TEST(test_force),
        TEST(test_fewer_steps),
        TEST(test_half_made),
        TEST(test_without_status),
        TEST(test_folders_of_others),
        TEST(test_resume_names_what_differs),
        TEST(test_resume_lets_some_keys_differ),
        TEST(test_idle_keys_may_differ),
        TEST(test_every_key_is_free_or_not),
        TEST(test_resume_keeps_the_earlier_env),
        TEST(test_metrics_lines),
        TEST(test_metrics_half_and_bad_lines),
        TEST(test_metrics_time),
        TEST(test_metrics_missing),
        TEST(test_moved_while_written),
        TEST(test_pipes),
        TEST(test_resume_knows_the_checkpoints_spec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
