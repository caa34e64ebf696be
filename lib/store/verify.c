/* Verifying the files of runs; see verify.h. The checks are those of the readers of the files. */
#include "store/verify.h"
#include "store/shards.h"
#include "base/file.h"
#include "store/run.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void smoe_verify_say(smoe_verifier *v, const char *path, const char *found, bool good) {
    v->looked++;
    v->bad += !good;
    v->line(v->user, path, found, good);
}

/* The first line of a message, without the path it may begin with. */
static void say_error(smoe_verifier *v, const char *path, const smoe_err *err) {
    char text[sizeof err->text];
    size_t length = strlen(path);
    const char *from = err->text;
    if (!strncmp(from, path, length) && from[length] == ':')
        from += length + 1 + (from[length + 1] == ' ');
    snprintf(text, sizeof text, "%.*s", (int)strcspn(from, "\n"), from);
    smoe_verify_say(v, path, text, false);
}

/* PARENT/NAME, fresh; without memory the path is a line of its own. */
static char *below(smoe_verifier *v, const char *parent, const char *name) {
    char *path = smoe_text_format("%s/%s", parent, name);
    if (!path) smoe_verify_say(v, parent, "out of memory", false);
    return path;
}

void smoe_verify_file(smoe_verifier *v, const char *path) {
    smoe_safetensors *file;
    smoe_err err = {0};
    if (smoe_safetensors_open(&file, path, &err)) {
        say_error(v, path, &err);
        return;
    }
    smoe_verify_say(v, path,
                    smoe_safetensors_has_digest(file)
                        ? "unchanged"
                        : "well formed, not verified: it has no digest",
                    true);
    smoe_safetensors_free(file);
}

void smoe_verify_checkpoint(smoe_verifier *v, const char *dir) {
    static const char *const names[] = {"model.safetensors", "state.safetensors",
                                        "ema.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = below(v, dir, names[i]);
        if (path && (i == 0 || smoe_shards_there(path))) smoe_verify_file(v, path);
        free(path);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct counts {
    size_t records, chained;
} counts;

static int count_record(void *user, const smoe_run_record *record, smoe_err *err) {
    counts *c = user;
    (void)err;
    c->records++;
    c->chained += record->chained;
    return 0;
}

static void verify_records(smoe_verifier *v, const char *dir) {
    char *path = below(v, dir, "metrics.jsonl"), found[120];
    counts c = {0};
    smoe_err err = {0};
    if (!path) return;
    if (smoe_run_each_record(path, 0, count_record, &c, &err)) {
        say_error(v, path, &err);
    } else {
        snprintf(found, sizeof found, "%zu records%s", c.records,
                 c.chained == c.records ? ", unchanged"
                 : c.chained            ? ", the first of them without checksums"
                                        : ", not verified: they have no checksums");
        smoe_verify_say(v, path, found, true);
    }
    free(path);
}

static int put_spec(FILE *out, const void *context, smoe_err *err) {
    return smoe_spec_write_yaml(context, out, false) ? smoe_fail(err, SMOE_RUNTIME, "out of memory")
                                                     : 0;
}

/* Writes the spec of the latest checkpoint to the file of that path. */
static int restore_spec(const char *dir, const char *path, smoe_err *err) {
    char *model = smoe_checkpoint_find(dir, "latest", err);
    smoe_safetensors *file = NULL;
    smoe_spec spec = {0};
    int status = model ? smoe_safetensors_open(&file, model, err) : -1;
    const char *text = status ? NULL : smoe_safetensors_metadata(file, "smoe.spec");
    if (!status && !text) status = smoe_fail(err, SMOE_DATA, "%s: has no spec", model);
    if (!status && text)
        status = smoe_spec_parse(&spec, text, strlen(text), model, dir, NULL, 0, err);
    if (!status) status = smoe_file_print(path, put_spec, &spec, err);
    smoe_spec_free(&spec);
    smoe_safetensors_free(file);
    free(model);
    return status;
}

static void verify_spec(smoe_verifier *v, const char *dir) {
    char *path = below(v, dir, "spec.yaml");
    smoe_spec spec = {0};
    smoe_err err = {0}, again = {0};
    if (!path) return;
    bool good = !smoe_spec_read(&spec, path, NULL, 0, &err);
    if (good)
        smoe_verify_say(v, path, "a valid spec", true);
    else if (v->repair && !restore_spec(dir, path, &again))
        smoe_verify_say(v, path, "restored from the latest checkpoint", true);
    else
        say_error(v, path, &err);
    smoe_spec_free(&spec);
    free(path);
}

/* The links and the checkpoints of DIR/ckpt. */
static void verify_checkpoints(smoe_verifier *v, const char *dir) {
    static const char *const links[] = {"latest", "best"};
    char *ckpt = below(v, dir, "ckpt");
    DIR *open = ckpt ? opendir(ckpt) : NULL;
    for (size_t i = 0; open && i < 2; i++) {
        char *link = below(v, ckpt, links[i]), target[8], *model;
        smoe_err err = {0};
        if (link && readlink(link, target, sizeof target) >= 0) {
            model = smoe_checkpoint_find(dir, links[i], &err);
            if (!model)
                say_error(v, link, &err);
            else if (!smoe_shards_there(model))
                smoe_verify_say(v, link, "points to no checkpoint", false);
            free(model);
        }
        free(link);
    }
    for (struct dirent *entry; open && (entry = readdir(open));) {
        if (!smoe_checkpoint_named(entry->d_name)) continue;
        char *step = below(v, ckpt, entry->d_name);
        if (step) smoe_verify_checkpoint(v, step);
        free(step);
    }
    if (open) closedir(open);
    free(ckpt);
}

void smoe_verify_run(smoe_verifier *v, const char *dir) {
    smoe_err err = {0};
    if (v->repair && smoe_file_sweep(dir, &err)) say_error(v, dir, &err);
    verify_spec(v, dir);
    verify_records(v, dir);
    verify_checkpoints(v, dir);
}
