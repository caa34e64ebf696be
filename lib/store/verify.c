/* Verifying the files of runs; see verify.h. The checks are those of the readers of the files. */
#include "store/verify.h"
#include "tensors/shards.h"
#include "tensors/npy.h"
#include "store/run.h"
#include "store/run_files.h"

#include <errno.h>
#include <sha256.h>
#include <sys/stat.h>
#include <unistd.h>

void smoe_verify_add(smoe_verifier *v, const char *path, bool good, char *fresh) {
    SMOE_FREED char *found = fresh;
    v->looked++;
    v->bad += !good;
    v->line(v->user, path, found, good);
}

void smoe_verify_blame(smoe_verifier *v, const char *path, const smoe_err *err) {
    char name[sizeof err->text];
    size_t length = strlen(smoe_text_shown(path, name, sizeof name)); /* as messages have it */
    const char *from = err->text;
    if (!strncmp(from, name, length) && from[length] == ':')
        from += length + 1 + (from[length + 1] == ' ');
    v->failed += err->code == SMOE_RUNTIME;
    smoe_verify_say(v, path, false, "%.*s", (int)strcspn(from, "\n"), from);
}

void smoe_verify_left(smoe_verifier *v, const char *folder, smoe_file_which which) {
    SMOE_FREED char **names = smoe_file_names(folder);
    smoe_err err = {0};
    if (names && v->repair && smoe_file_sweep(folder, which, &err))
        smoe_verify_blame(v, folder, &err);
    for (char **name = names; name && *name && !v->repair; name++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", folder, *name);
        if (smoe_file_is_left(path, which))
            smoe_verify_say(v, path, true, "left over by a killed process; --repair removes it");
    }
}

/* An array, as .npy. */
static void verify_array(smoe_verifier *v, const char *path) {
    bool sealed;
    smoe_err err = {0};
    if (smoe_npy_verify(path, &sealed, &err))
        smoe_verify_blame(v, path, &err);
    else
        smoe_verify_say(v, path, true, "%s",
                        sealed ? "unchanged" : "without a digest; contents not checked");
}

void smoe_verify_file(smoe_verifier *v, const char *path) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    smoe_err err = {0};
    if (smoe_safetensors_open(&file, path, &err) || smoe_checkpoint_check(file, &err)) {
        smoe_verify_blame(v, path, &err);
        return;
    }
    smoe_verify_say(
        v, path, true, "%s",
        smoe_safetensors_has_digest(file) ? "unchanged"
        : smoe_safetensors_metadata(file, "smoe.version")
            ? "well formed, without a digest; contents not checked"
            : "well formed, from another program, without a digest; contents not checked");
}

void smoe_verify_checkpoint(smoe_verifier *v, const char *dir) {
    static const char *const names[] = {"model.safetensors", "state.safetensors",
                                        "ema.safetensors"};
    for (size_t i = 0; i < SMOE_COUNT(names); i++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", dir, names[i]);
        bool there = smoe_shards_there(path);
        /* A run that still trains may have deleted the whole checkpoint meanwhile. */
        if (there || (i == 0 && !access(dir, F_OK))) smoe_verify_file(v, path);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* How many records there were when the latest checkpoint was written, 0 where it does not say. */
static size_t records_then(const char *dir, uint64_t *step) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    *step = smoe_checkpoint_latest(dir);
    SMOE_FREED char *path = smoe_checkpoints_file(dir, *step, "state.safetensors");
    const char *text = !smoe_safetensors_peek(&file, path, NULL, NULL)
                           ? smoe_safetensors_metadata(file, "smoe.records")
                           : NULL;
    return text ? (size_t)strtoull(text, NULL, 10) : 0;
}

static void verify_records(smoe_verifier *v, const char *dir) {
    SMOE_FREED char *path = smoe_text_format("%s/metrics.jsonl", dir);
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = path};
    uint64_t latest; /* checkpoint */
    size_t records = 0, chained = 0, before = 0, then = records_then(dir, &latest);
    smoe_err err = {0};
    int more;
    for (; (more = smoe_records_next(&r, &err)) > 0; records++) {
        chained += r.chained;
        before += r.step <= latest;
    }
    if (more) {
        smoe_verify_blame(v, path, &err);
        return;
    }
    if (before < then)
        smoe_verify_say(v, path, false, "records are missing at the end: %zu, and there were %zu",
                        before, then);
    else
        smoe_verify_say(v, path, true, "%zu record%s%s", records, SMOE_S(records),
                        chained == records ? ", unchanged"
                        : chained          ? ", the first of them without checksums"
                                           : ", not verified: they have no checksums");
}

/* Writes the spec of the latest checkpoint to the file of that path. */
static int restore_spec(const char *dir, const char *path, smoe_err *err) {
    SMOE_FREED char *model = smoe_checkpoint_find(dir, "latest", err);
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    if (!model || smoe_safetensors_open(&file, model, err)) return -1;
    const char *text = smoe_safetensors_metadata(file, "smoe.spec");
    if (!text) return smoe_fail(err, SMOE_DATA, "%s: has no spec to restore spec.yaml from", model);
    if (smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .label = model, .folder = dir}, NULL,
                        0, err))
        return -1;
    return smoe_run_spec_write(path, &spec, err);
}

/* Valid, and the same as in the latest checkpoint, but for keys that may change at a resume. */
static int check_spec(const char *dir, const char *path, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec trained = {0};
    if (smoe_spec_read(&spec, path, NULL, 0, err)) return -1;
    if (smoe_run_latest_spec(&trained, dir, NULL)) return 0;
    return smoe_run_spec_check(dir, &trained, &spec, NULL, NULL, err);
}

static void verify_spec(smoe_verifier *v, const char *dir) {
    SMOE_FREED char *path = smoe_text_format("%s/spec.yaml", dir);
    smoe_err err = {0}, again = {0};
    if (!check_spec(dir, path, &err))
        smoe_verify_say(v, path, true, "a valid spec");
    else if (v->repair && !restore_spec(dir, path, &again))
        smoe_verify_say(v, path, true, "restored from the latest checkpoint");
    else
        smoe_verify_blame(v, path, &err);
}

/* The links and the checkpoints of DIR/ckpt. */
static void verify_checkpoints(smoe_verifier *v, const char *dir) {
    static const char *const links[] = {"latest", "best"};
    SMOE_FREED char *ckpt = smoe_text_format("%s/ckpt", dir);
    SMOE_FREED char **names = smoe_file_names(ckpt);
    if (!names && errno != ENOENT) smoe_verify_say(v, ckpt, false, "%s", strerror(errno));
    for (size_t i = 0; names && i < 2; i++) {
        SMOE_FREED char *link = smoe_text_format("%s/%s", ckpt, links[i]), *model = NULL;
        char target[8];
        smoe_err err = {0};
        if (readlink(link, target, sizeof target) < 0) continue;
        if (!(model = smoe_checkpoint_find(dir, links[i], &err)))
            smoe_verify_blame(v, link, &err);
        else if (!smoe_shards_there(model))
            smoe_verify_say(v, link, false, "points to no checkpoint");
    }
    for (char **name = names; name && *name; name++) {
        if (!smoe_checkpoint_named(*name)) continue;
        SMOE_FREED char *step = smoe_text_format("%s/%s", ckpt, *name);
        smoe_verify_checkpoint(v, step);
        if (!smoe_shards_held(step, "state.safetensors") && !access(step, F_OK))
            smoe_verify_say(v, step, false, "has no state.safetensors: it cannot be resumed from");
    }
}

/* Files with checks of their own have a line already, unless they differ from the list. */
static bool checked_elsewhere(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && smoe_text_has_word(".safetensors .jsonl .npy", ' ', dot);
}

/* A file of MANIFEST.sha256: what is wrong with it, or NULL. */
static const char *compare_sum(const char *path, const char *sum) {
    char hex[SMOE_SUM_SIZE];
    struct stat there;
    if (lstat(path, &there))
        return errno == ENOENT ? "is in " SMOE_RUN_MANIFEST ", and no longer there"
                               : strerror(errno);
    if (!S_ISREG(there.st_mode)) return "is not a regular file";
    if (!SHA256File(path, hex)) return strerror(errno);
    return strncmp(hex, sum, SMOE_SUM_SIZE - 1) ? "changed since the run ended" : NULL;
}

/* A line of it: the sum, two spaces, the name. */
static void verify_listed(smoe_verifier *v, const char *dir, const char *list, const char *line) {
    size_t digits = SMOE_SUM_SIZE - 1;
    if (strspn(line, "0123456789abcdef") != digits || strncmp(line + digits, "  ", 2) ||
        line[digits + 2] == '/' || strstr(line, "..")) {
        smoe_verify_say(v, list, false, "a line is damaged");
        return;
    }
    const char *name = line + digits + 2;
    SMOE_FREED char *path = smoe_text_format("%s/%s", dir, name);
    smoe_err err;
    const char *wrong = compare_sum(path, line);
    if (wrong && v->repair && !strcmp(name, SMOE_RUN_CSV) && !smoe_run_csv(dir, &err) &&
        !compare_sum(path, line))
        smoe_verify_say(v, path, true, "computed again");
    else if (wrong || !checked_elsewhere(name))
        smoe_verify_say(v, path, !wrong, "%s", wrong ? wrong : "unchanged");
}

/* The files that a finished run lists. */
static void verify_manifest(smoe_verifier *v, const char *dir) {
    SMOE_FREED char *list = smoe_text_format("%s/" SMOE_RUN_MANIFEST, dir), *text = NULL;
    smoe_err err = {0};
    size_t size;
    enum { MOST = 1 << 24 };
    if (access(list, F_OK)) return;
    if (smoe_file_read(list, MOST, &text, &size, &err)) smoe_verify_blame(v, list, &err);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (*line) verify_listed(v, dir, list, line);
}

void smoe_verify_run(smoe_verifier *v, const char *dir) {
    smoe_err err = {0};
    if (smoe_run_own(dir, &err)) { /* what it leads to is not part of the run */
        smoe_verify_blame(v, dir, &err);
        return;
    }
    /* those of a process that writes the run are not left over */
    smoe_file_which which = smoe_run_is_written(dir) ? SMOE_FILE_GONE : SMOE_FILE_ALL;
    SMOE_FREED char *ckpt = smoe_text_format("%s/ckpt", dir);
    smoe_verify_left(v, dir, which);
    smoe_verify_left(v, ckpt, which);
    verify_spec(v, dir);
    verify_records(v, dir);
    SMOE_FREED char *outcomes = smoe_text_format("%s/" SMOE_RUN_OUTCOMES, dir);
    if (!access(outcomes, F_OK)) verify_array(v, outcomes);
    verify_checkpoints(v, dir);
    verify_manifest(v, dir);
}
