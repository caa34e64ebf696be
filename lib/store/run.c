/*
 * The run directory, from mkdir to STATUS, and its records, which records.c reads. Its checkpoints
 * are made by checkpoint.c. Every file except the two that grow (metrics.jsonl and log.txt) is
 * replaced as a whole. The lock is on metrics.jsonl because that file keeps its inode.
 */
#include "store/run.h"
#include "store/env.h"
#include "tensors/npy.h"
#include "store/run_files.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_MOST = 3840, TEXT_MOST = 1 << 24, SHORT = 1 << 24 };

struct smoe_run {
    char dir[PATH_MOST + 1]; /* without slashes at the end; the names below it fit into PATH_MAX */
    char *records;           /* the path of metrics.jsonl, whose last line may be partial; */
    int fd;                  /* the file, locked; -1: not open */
    uint64_t count;          /* records in it, as far as this process has written or kept them */
    smoe_digest *chain;      /* of its first `chained` bytes */
    off_t chained;
    FILE *log;   /* before smoe_run_begin in memory: */
    char *noted; /* these lines, */
    size_t noted_size;
    json_t *env; /* and what is to be written then */
    bool begun;
    int unlogged;         /* errno of the first line that could not be written; -1: it was told */
    bool events, resumed; /* train.tensorboard; and its file goes on behind another one, */
    uint64_t from;        /* from this step on */
    smoe_tfevents *file;  /* opened with the first record */
};

static char *in_run(const smoe_run *run, const char *name) {
    return smoe_text_format("%s/%s", run->dir, name);
}

/* ---- what a directory is --------------------------------------------------------------------- */

typedef enum kind { STRANGE, ABSENT, HALF_MADE, NO_STATUS, A_RUN } kind;

/* Whether a folder of checkpoints has only leftovers, or also checkpoints. */
typedef enum content { NOTHING, CHECKPOINTS, OTHER } content;

static content checkpoints_content(const smoe_run *run) {
    SMOE_FREED char *path = in_run(run, "ckpt");
    SMOE_FREED char **names = smoe_file_names(path);
    if (!names) return OTHER;
    content found = NOTHING;
    for (char **name = names; *name && found != CHECKPOINTS; name++)
        if (smoe_checkpoint_named(*name))
            found = CHECKPOINTS;
        else if (!strstr(*name, SMOE_FILE_TEMPORARY))
            found = OTHER;
    return found;
}

static bool is_empty_file(const smoe_run *run, const char *name) {
    SMOE_FREED char *path = in_run(run, name);
    struct stat there;
    return !stat(path, &there) && S_ISREG(there.st_mode) && !there.st_size;
}

/* The names of a run directory, in the order in which they are made. */
enum { RECORDS, CKPT, SPEC, ENV, LOG, STATUS, NAMES };
static const char *const names[NAMES] = {"metrics.jsonl", "ckpt",    "spec.yaml",
                                         "env.json",      "log.txt", "STATUS"};

/* A directory whose process was killed while creating it has metrics.jsonl, which comes first, or
 * nothing; it has no STATUS, which comes last, and no record, no checkpoint and an empty log. So
 * nothing in it can be lost. */
static kind dir_kind(const smoe_run *run) {
    SMOE_FREED char **entries = smoe_file_names(run->dir);
    if (!entries) return errno == ENOENT ? ABSENT : STRANGE;
    bool there[NAMES] = {false}, strange = false;
    for (char **name = entries; *name; name++) {
        int i = 0;
        while (i < NAMES && strcmp(names[i], *name)) i++;
        if (i < NAMES)
            there[i] = true;
        else
            strange |= !strstr(*name, SMOE_FILE_TEMPORARY);
    }
    if (there[SPEC] && there[STATUS]) return A_RUN;
    content checkpoints = there[CKPT] ? checkpoints_content(run) : NOTHING;
    if (there[SPEC] && checkpoints == CHECKPOINTS) return NO_STATUS;
    if (strange || there[STATUS] || checkpoints != NOTHING) return STRANGE;
    for (int i = 0; i < NAMES; i++)
        if (there[i] && !there[RECORDS]) return STRANGE;
    if (there[RECORDS] && !is_empty_file(run, names[RECORDS])) return STRANGE;
    if (there[LOG] && !is_empty_file(run, names[LOG])) return STRANGE;
    return HALF_MADE;
}

static int dir_make(const smoe_run *run, smoe_err *err) {
    if (smoe_file_make_parents(run->dir, err)) return -1;
    if (!mkdir(run->dir, 0777)) return smoe_file_sync_parent(run->dir, err);
    if (errno == EEXIST && access(run->dir, F_OK))
        return smoe_fail(err, SMOE_RUNTIME, "%s: a symbolic link that leads nowhere", run->dir);
    if (errno == EEXIST)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: exists already; --resume continues a run, --force replaces it",
                         run->dir);
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create the run directory", run->dir);
}

/* Whether the directory may be used in this mode; creates it (*made) if it should be new. *fresh:
 * nothing of an older run counts. */
static int dir_claim(const smoe_run *run, smoe_run_mode mode, bool *fresh, bool *made,
                     smoe_err *err) {
    kind found = mode == SMOE_RUN_NEW ? ABSENT : dir_kind(run);
    *made = found == ABSENT && mode != SMOE_RUN_RESUME;
    *fresh = mode != SMOE_RUN_RESUME || found == HALF_MADE;
    if (found == A_RUN || found == HALF_MADE) return 0;
    if (found == NO_STATUS && mode == SMOE_RUN_RESUME) return 0;
    if (found == NO_STATUS)
        return smoe_fail(
            err, SMOE_USAGE,
            "%s: a run without STATUS; --resume continues it, --force does not replace it",
            run->dir);
    if (found == STRANGE && smoe_file_is_folder(run->dir) && access(run->dir, R_OK | X_OK))
        return smoe_fail_errno(err, SMOE_DATA, "%s: cannot be read", run->dir);
    if (found == STRANGE)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: not a run directory (no spec.yaml and STATUS in it)%s", run->dir,
                         mode == SMOE_RUN_FORCE ? "; --force replaces only run directories" : "");
    if (mode == SMOE_RUN_RESUME)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: no such run directory, nothing to resume; without --resume a run "
                         "begins there, and `smoe train --resume RUN` continues another one",
                         run->dir);
    return dir_make(run, err);
}

/* The process that has the lock of the records writes the run. Some shared file systems have no
 * locks; the cells of a sweep have claims of their own. */
static int lock(smoe_run *run, smoe_err *err) {
    run->records = in_run(run, names[RECORDS]);
    run->fd = smoe_file_open(run->records, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, err);
    if (run->fd < 0) return -1;
    if (!smoe_file_lock(run->fd)) return 0;
    if (errno != EWOULDBLOCK)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot lock", run->records);
    SMOE_FREED char *path = in_run(run, "STATUS"), *status = NULL;
    size_t size = 0;
    if (smoe_file_read(path, TEXT_MOST, &status, &size, NULL)) status = NULL;
    return smoe_fail(err, SMOE_RUNTIME, "%s: another process is writing this run (STATUS: %.*s)",
                     run->dir, status ? (int)strcspn(status, "\n") : 1, status ? status : "?");
}

bool smoe_run_is_written(const char *dir) {
    SMOE_FREED char *path = smoe_text_format("%s/metrics.jsonl", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool written = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return written;
}

/* ---- the files ------------------------------------------------------------------------------- */

/* What exists must be a regular file, as opening a pipe would block, or the run's own folder. */
static int kind_check(const smoe_run *run, const char *name, bool folder, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, name);
    struct stat there;
    if (lstat(path, &there) || (folder ? S_ISDIR(there.st_mode) : S_ISREG(there.st_mode))) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: %s", path,
                     folder ? "not a folder" : "not a regular file");
}

static int files_check(const smoe_run *run, smoe_err *err) {
    if (smoe_run_own(run->dir, err)) return -1;
    for (int i = 0; i < NAMES; i++)
        if (kind_check(run, names[i], i == CKPT, err)) return -1;
    return kind_check(run, SMOE_RUN_EVENTS, true, err);
}

/* A directory that was moved away is not created again, and a new one of the same name is not
 * written to. */
static int still_there(const smoe_run *run, smoe_err *err) {
    struct stat mine, there;
    if (!fstat(run->fd, &mine) && !stat(run->records, &there) && mine.st_dev == there.st_dev &&
        mine.st_ino == there.st_ino)
        return 0;
    return smoe_fail(err, SMOE_RUNTIME,
                     "%s: its metrics.jsonl is no longer the one of this run: the directory was "
                     "moved or removed during the run; nothing more is written here",
                     run->dir);
}

static int status_write(const smoe_run *run, const char *word, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, "STATUS");
    char text[512], host[256] = "";
    if (still_there(run, err)) return -1;
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "unknown");
    int n = snprintf(text, sizeof text, "%s %ld %s\n", word, (long)getpid(), host);
    return smoe_file_write(path, text, (size_t)n, err);
}

static int spec_write(const smoe_run *run, const smoe_spec *spec, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, "spec.yaml");
    return smoe_run_spec_write(path, spec, err);
}

/* env, with what an earlier process of the run said under "previous", oldest first. */
static int env_write(const smoe_run *run, json_t *env, bool fresh, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, "env.json");
    json_auto_t *old = fresh ? NULL : smoe_json_read(path, NULL);
    if (json_is_object(old)) {
        json_t *previous = json_object_get(old, "previous");
        previous = json_is_array(previous) ? json_incref(previous) : json_array();
        json_object_del(old, "previous");
        json_array_append(previous, old);
        json_object_set_new(env, "previous", previous);
    }
    return smoe_json_write(path, env, err);
}

char *smoe_run_previous(const smoe_run *run, const char *key) {
    SMOE_FREED char *path = in_run(run, "env.json");
    json_auto_t *env = smoe_json_read(path, NULL);
    const json_t *all = json_object_get(env, "previous");
    const json_t *last = json_array_get(all, json_array_size(all) - 1);
    return smoe_alloc_text(json_string_value(json_object_get(last, key)));
}

static int records_empty(smoe_run *run, smoe_err *err) {
    run->count = 0;
    if (!ftruncate(run->fd, 0)) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot empty", run->records);
}

/* Writes all files of a new run except STATUS, over those of an older one. */
static int populate(smoe_run *run, const smoe_spec *spec, json_t *env, smoe_err *err) {
    static const char *const old[] = {"log.txt", SMOE_RUN_CSV, SMOE_RUN_EVENTS, SMOE_RUN_OUTCOMES};
    if (smoe_checkpoints_remove(run->dir, err) || smoe_file_sync(run->dir, err) ||
        records_empty(run, err))
        return -1;
    for (size_t i = 0; i < SMOE_COUNT(old); i++) {
        SMOE_FREED char *path = in_run(run, old[i]);
        if (smoe_file_remove(path, err)) return -1;
    }
    return spec_write(run, spec, err) || env_write(run, env, true, err) ? -1 : 0;
}

/* ---- resuming -------------------------------------------------------------------------------- */

static void note_change(void *user, const char *text) {
    smoe_run_log(user, "%s", text);
}

/* The spec with which the run was computed, against the one given. It is the one in its latest
 * checkpoint, even if spec.yaml has changed since; spec.yaml if no checkpoint can be read. */
static int spec_check(const smoe_run *run, const smoe_spec *spec, smoe_run_spec_note *note,
                      void *user, smoe_err *err) {
    uint64_t done = smoe_checkpoint_latest(run->dir);
    if (spec->train.steps < done)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: cannot resume: train.steps is %zu, and %" PRIu64 " are done",
                         run->dir, spec->train.steps, done);
    SMOE_FREED char *path = in_run(run, names[SPEC]);
    SMOE_FREED_BY(smoe_spec_free) smoe_spec old = {0};
    int latest = smoe_run_latest_spec(&old, run->dir, err);
    if (latest < 0) return -1;
    if (latest) {
        if (smoe_spec_read(&old, path, NULL, 0, err)) return -1;
        smoe_spec_continue(&old);
    }
    return smoe_run_spec_check(run->dir, &old, spec, note, user, err);
}

static int resume(smoe_run *run, const smoe_spec *spec, smoe_err *err) {
    if (smoe_file_sweep(run->dir, SMOE_FILE_ALL, err)) return -1;
    if (smoe_checkpoints_recover(run->dir, err) || smoe_checkpoints_check(run->dir, err)) return -1;
    return spec_check(run, spec, note_change, run, err);
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_log(smoe_run *run, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, "log.txt");
    int fd = smoe_file_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, err);
    if (fd < 0) return -1;
    run->log = fdopen(fd, "a");
    if (run->log) return 0;
    smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot open", path);
    close(fd);
    return -1;
}

/* From here on the run is no longer what it was. */
static int run_begin(smoe_run *run, smoe_err *err) {
    SMOE_FREED char *manifest = in_run(run, SMOE_RUN_MANIFEST);
    if (smoe_file_remove(manifest, err) || status_write(run, "running", err)) return -1;
    run->begun = true;
    return 0;
}

/* Claims the directory and makes the run in it, or looks whether it can be continued; *mine: it is
 * new. */
static int run_start(smoe_run *run, smoe_run_mode mode, const smoe_spec *spec, json_t *env,
                     bool *mine, smoe_err *err) {
    bool fresh, made;
    if (dir_claim(run, mode, &fresh, &made, err) || lock(run, err)) return -1;
    *mine = made;
    if (files_check(run, err)) return -1;
    if (fresh && (smoe_file_sweep(run->dir, SMOE_FILE_ALL, err) || populate(run, spec, env, err)))
        return -1;
    run->events = spec->train.tensorboard;
    if (!fresh) {
        run->log = smoe_alloc_stream(&run->noted, &run->noted_size);
        run->env = json_incref(env);
        if (resume(run, spec, err)) return -1;
    } else if (open_log(run, err) || run_begin(run, err)) {
        return -1;
    }
    smoe_run_log(run, "%s by smoe " SMOE_VERSION, fresh ? "started" : "resumed");
    return 0;
}

int smoe_run_check_mode(smoe_run_mode mode, const char *dir, smoe_err *err) {
    if (!dir) return smoe_fail(err, SMOE_USAGE, "the name of the directory is NULL");
    if ((unsigned)mode <= SMOE_RUN_FORCE) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "%s: mode %d is not one of smoe_run_mode; set all members of the settings, "
                     "as in {0}",
                     dir, (int)mode);
}

/* Sets the path of the directory, without slashes at its end. */
static int dir_set(smoe_run *run, const char *dir, smoe_err *err) {
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/') length--;
    if (!length) return smoe_fail(err, SMOE_USAGE, "the name of the run directory is empty");
    if (length > PATH_MOST)
        return smoe_fail(err, SMOE_USAGE,
                         "the name of the run directory has %zu bytes, at most %d are possible",
                         length, PATH_MOST);
    memcpy(run->dir, dir, length);
    return 0;
}

int smoe_run_check_resume(const char *dir, const smoe_spec *spec, smoe_err *err) {
    smoe_run run = {.fd = -1};
    bool fresh, made;
    if (dir_set(&run, dir, err) || dir_claim(&run, SMOE_RUN_RESUME, &fresh, &made, err)) return -1;
    return fresh ? 0 : spec_check(&run, spec, NULL, NULL, err);
}

int smoe_run_begin(smoe_run *run, const smoe_spec *spec, smoe_err *err) {
    if (run->begun) return 0;
    fclose(run->log);
    run->log = NULL;
    if (run_begin(run, err) || spec_write(run, spec, err) ||
        smoe_checkpoints_prune(run->dir, spec->train.keep, spec->train.keep_every, err) ||
        env_write(run, run->env, false, err) || open_log(run, err))
        return -1;
    if (fputs(run->noted, run->log) < 0 || fflush(run->log)) run->unlogged = errno;
    return 0;
}

int smoe_run_open(smoe_run **result, const char *dir, smoe_run_mode mode, const smoe_spec *spec,
                  json_t *given, smoe_err *err) {
    json_auto_t *env = given ? given : json_object();
    smoe_run *run = *result = smoe_alloc(1, sizeof *run);
    bool mine = false;
    run->fd = -1;
    if (!dir_set(run, dir, err) && !run_start(run, mode, spec, env, &mine, err)) return 0;
    if (mine) smoe_file_remove(run->dir, NULL); /* ours alone, and nothing in it yet */
    (void)!smoe_run_close(run, NULL, NULL);
    *result = NULL;
    return -1;
}

int smoe_run_close(smoe_run *run, const char *status, smoe_err *err) {
    if (!run) return 0;
    if (!run->begun) status = NULL;
    int failed = status ? status_write(run, status, err) : 0;
    if (status && run->log) smoe_run_log(run, "%s", status);
    if (run->log) fclose(run->log);
    smoe_tfevents_close(run->file);
    if (status && !failed) failed = smoe_run_csv(run->dir, err);
    if (status && !failed && !strcmp(status, "done")) failed = smoe_run_manifest(run->dir, err);
    if (run->fd >= 0) close(run->fd);
    smoe_digest_free(run->chain);
    json_decref(run->env);
    free(run->noted);
    free(run->records);
    free(run);
    return failed;
}

void smoe_run_log_line(smoe_run *run, char *fresh) {
    SMOE_FREED char *line = fresh;
    if (!run->log) return;
    char date[SMOE_DATE_TEXT];
    fprintf(run->log, "%s %s\n", smoe_env_date(date, smoe_env_now()), line);
    if (fflush(run->log) && !run->unlogged) run->unlogged = errno;
}

bool smoe_run_log_lost(smoe_run *run, smoe_err *err) {
    errno = run->unlogged;
    if (run->unlogged > 0) smoe_fail_errno(err, SMOE_RUNTIME, "%s/log.txt: cannot write", run->dir);
    run->unlogged = run->unlogged ? -1 : 0;
    return errno > 0;
}

/* ---- records and events ---------------------------------------------------------------------- */

json_t *smoe_run_number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

void smoe_run_metric(json_t *record, smoe_metric metric, const char *split, size_t number,
                     double value) {
    char key[SMOE_METRIC_KEY];
    json_object_set_new(record, smoe_metric_key(key, metric, split, number),
                        smoe_run_number(value));
}

bool smoe_run_events(const smoe_run *run) {
    return run->events;
}

static int open_events(smoe_run *run, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, SMOE_RUN_EVENTS);
    if (run->file) return 0;
    return smoe_tfevents_open(&run->file, path, run->resumed, run->from, err);
}

int smoe_run_picture(smoe_run *run, const char *tag, size_t width, size_t height, const void *png,
                     size_t size, smoe_err *err) {
    if (open_events(run, err)) return -1;
    smoe_tfevents_picture(run->file, tag, width, height, png, size);
    return 0;
}

/* Sets the digest to that of the first `size` bytes of the records, which are read if necessary.
 * Returns 0, or -1 with errno. */
static int chain_reach(smoe_run *run, off_t size) {
    char bytes[1 << 14];
    if (run->chain && run->chained == size) return 0;
    smoe_digest_free(run->chain);
    run->chain = smoe_digest_new();
    run->chained = 0;
    while (run->chained < size) {
        off_t left = size - run->chained;
        size_t most = left < (off_t)sizeof bytes ? (size_t)left : sizeof bytes;
        ssize_t n = pread(run->fd, bytes, most, run->chained);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return -1;
        smoe_digest_add(run->chain, bytes, (size_t)n);
        run->chained += n;
    }
    return 0;
}

/* An object as a line, {...,"chain":"0123456789abcdef"} and a newline. */
static char *chain_line(smoe_run *run, const json_t *record, size_t *size) {
    char digits[SMOE_DIGEST_DIGITS + 1], *text = smoe_json_dump(record, 0);
    size_t length = strlen(text) - 1; /* without the brace */
    char *line = smoe_alloc_more(text, length + SMOE_CHAIN_SIZE + 1, 1);
    smoe_digest_add(run->chain, line, length);
    smoe_digest_text(run->chain, digits);
    snprintf(line + length, SMOE_CHAIN_SIZE + 1, SMOE_CHAIN "%s\"}\n", digits);
    smoe_digest_add(run->chain, line + length, SMOE_CHAIN_SIZE);
    *size = length + SMOE_CHAIN_SIZE;
    run->chained += (off_t)*size;
    return line;
}

/* Appends an object in one piece; if that fails, nothing of it is left. */
static int append_record(smoe_run *run, const json_t *record, smoe_err *err) {
    size_t size;
    off_t before = lseek(run->fd, 0, SEEK_END);
    bool known = before >= 0 && !chain_reach(run, before);
    SMOE_FREED char *line = known ? chain_line(run, record, &size) : NULL;
    if (line && !smoe_file_write_fd(run->fd, line, size)) {
        run->count++;
        return 0;
    }
    smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", run->records);
    run->chained = -1;
    /* If this fails as well, a partial line is left, which a resume removes. */
    if (before >= 0) (void)!ftruncate(run->fd, before);
    return -1;
}

int smoe_run_metrics(smoe_run *run, json_t *record, smoe_err *err) {
    int status = append_record(run, record, err);
    if (!status && run->events) status = open_events(run, err);
    if (!status && run->events) status = smoe_run_event(run->file, record, (double)time(NULL), err);
    json_decref(record);
    return status;
}

static int records_sync(const smoe_run *run, smoe_err *err) {
    if (!TEMP_FAILURE_RETRY(fsync(run->fd))) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", run->records);
}

int smoe_run_truncate(smoe_run *run, const smoe_checkpoint *at, double *wall_s, smoe_err *err) {
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = run->records};
    uint64_t last = 0, count = 0;
    off_t end = 0;
    int more;
    run->resumed = true;
    run->from = at->step + 1;
    for (; (more = smoe_records_next(&r, err)) > 0 && r.step <= at->step; count++) {
        const json_t *wall = json_object_get(r.json, smoe_metrics[SMOE_METRIC_WALL_S].name);
        if (json_is_number(wall)) *wall_s = json_number_value(wall);
        end = r.end;
        last = r.step;
    }
    if (more < 0) return -1;
    if (last < at->recorded)
        return smoe_fail(err, SMOE_DATA,
                         "%s: records are missing: up to the checkpoint of step %" PRIu64
                         " they end at step %" PRIu64 ", and there was one of step %" PRIu64,
                         run->records, at->step, last, at->recorded);
    if (count < at->records) /* of the last step, as each is tied to those before it */
        return smoe_fail(err, SMOE_DATA,
                         "%s: records are missing at the end: up to the checkpoint of step %" PRIu64
                         " there are %" PRIu64 ", and there were %" PRIu64,
                         run->records, at->step, count, at->records);
    if (ftruncate(run->fd, end))
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot truncate", run->records);
    run->count = count;
    return records_sync(run, err);
}

int smoe_run_outcomes(smoe_run *run, const float *outcome, size_t images, smoe_err *err) {
    SMOE_FREED char *path = in_run(run, SMOE_RUN_OUTCOMES);
    if (!images) return smoe_file_remove(path, err);
    return smoe_npy_write(path, "<f4", outcome, 2, (const size_t[]){images, 2}, err);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

int smoe_run_checkpoint(smoe_run *run, const smoe_checkpoint_to *to, const smoe_params *params,
                        const smoe_spec *spec, const smoe_checkpoint *state, smoe_err *err) {
    smoe_checkpoint whole = *state;
    /* the records of a checkpoint are there when it is */
    int status = run && (still_there(run, err) || records_sync(run, err)) ? -1 : 0;
    if (smoe_comm_agree(to->comm, status, NULL, err)) return -1;
    if (run) whole.records = run->count;
    smoe_comm_broadcast(to->comm, &whole, sizeof whole);
    whole.names = state->names;
    if (smoe_checkpoint_write(to, params, spec, &whole, err)) return -1;
    /* the table of a long run is written only at its end */
    if (run && lseek(run->fd, 0, SEEK_END) < SHORT) status = smoe_run_csv(run->dir, err);
    return smoe_comm_agree(to->comm, status, NULL, err);
}

int smoe_run_restore(smoe_run *run, smoe_params *params, smoe_checkpoint *state, smoe_err *err) {
    int found = smoe_checkpoint_restore(run->dir, params, state, err);
    if (found > 0 && smoe_checkpoints_link(run->dir, state->step, state->best_step, err)) return -1;
    return found ? found : records_empty(run, err);
}
