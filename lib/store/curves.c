/* The numbers of runs that may still be training; see curves.h. */
#include "store/curves.h"
#include "base/file.h"
#include "spec/metrics.h"
#include "spec/spec.h"
#include "store/records.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

const smoe_curve *smoe_curves_find(const smoe_curves *c, const char *name) {
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->curve[i].name, name)) return &c->curve[i];
    return NULL;
}

static smoe_curve *curves_named(smoe_curves *c, const char *name) {
    const smoe_curve *found = smoe_curves_find(c, name);
    if (found) return &c->curve[found - c->curve];
    c->curve = smoe_alloc_next(c->curve, c->count, sizeof *c->curve);
    c->curve[c->count] = (smoe_curve){.name = smoe_alloc_text(name)};
    return &c->curve[c->count++];
}

static void curves_add(smoe_curve *c, double step, double value) {
    c->step = smoe_alloc_next(c->step, c->points, sizeof *c->step);
    c->value = smoe_alloc_next(c->value, c->points, sizeof *c->value);
    c->step[c->points] = step;
    c->value[c->points++] = value;
}

int smoe_curves_read(smoe_curves *c, const char *dir, bool progress, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/metrics.jsonl", dir);
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = path};
    int more;
    *c = (smoe_curves){0};
    while ((more = smoe_records_next(&r, err)) > 0) {
        char name[160], prefix[SMOE_RECORD_PREFIX];
        const char *key;
        json_t *value;
        smoe_record_prefix(r.json, prefix);
        c->step = (double)r.step;
        json_object_foreach(r.json, key, value) {
            double number = json_is_null(value) ? (double)NAN : json_number_value(value);
            bool clock = !strcmp(key, smoe_metrics[SMOE_METRIC_WALL_S].name);
            if (clock) c->wall_s = number;
            bool plain = json_is_number(value) || json_is_null(value);
            if (!plain || !strcmp(key, "step")) continue;
            if (!progress && (clock || !strcmp(key, "epoch"))) continue;
            snprintf(name, sizeof name, "%s%s", strncmp(key, "blocks.", 7) ? "" : prefix, key);
            curves_add(curves_named(c, name), c->step, number);
        }
    }
    return more;
}

void smoe_curves_free(smoe_curves *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->curve[i].name);
        free(c->curve[i].step);
        free(c->curve[i].value);
    }
    free(c->curve);
    *c = (smoe_curves){0};
}

/* Adds the runs in a folder, fresh paths by name; `sweeps`: and those in the sweeps that are in it.
 */
static int add_runs(char ***runs, size_t *count, const char *dir, bool sweeps, smoe_err *err) {
    if (smoe_file_holds(dir, "cells.jsonl") && smoe_file_no_links(dir, err)) return -1;
    SMOE_FREED char **names = smoe_file_names(dir);
    if (!names) return smoe_fail_errno(err, SMOE_DATA, "%s", dir);
    for (char **name = names; *name; name++) {
        if (**name == '.' || strstr(*name, SMOE_FILE_TEMPORARY)) continue;
        SMOE_FREED char *path = smoe_text_format("%s/%s", dir, *name);
        if (smoe_file_holds(path, "metrics.jsonl"))
            SMOE_APPEND(*runs, *count) = smoe_alloc_text(path);
        else if (sweeps && smoe_file_holds(path, "cells.jsonl") &&
                 add_runs(runs, count, path, false, err))
            return -1;
    }
    return 0;
}

/* The runs of a folder: itself, or those in it and the cells of sweeps in it. `other`: it is there,
 * and has no place for runs, such as the folder of a report. */
static int curves_runs(char ***runs, size_t *count, const char *dir, bool *other, smoe_err *err) {
    *other = false;
    if (smoe_file_holds(dir, "metrics.jsonl")) {
        SMOE_APPEND(*runs, *count) = smoe_alloc_text(dir);
        return 0;
    }
    if (smoe_file_is_folder(dir) && add_runs(runs, count, dir, true, err)) return -1;
    if (*count || smoe_file_holds(dir, "cells.jsonl")) return 0;
    *other = !access(dir, F_OK);
    if (!*other) return smoe_fail_errno(err, SMOE_DATA, "%s", dir);
    return smoe_fail(err, SMOE_DATA, "%s: neither a run nor a sweep", dir);
}

/* Whether a process has the lock of a run, by the kernel's list of locks: another process may have
 * its number by now. The lock is not tried, because trying means holding it for a moment. */
static bool has_lock(long pid) {
    FILE *in = fopen("/proc/locks", "re");
    char line[256];
    bool found = !in;
    for (long owner; in && !found && fgets(line, sizeof line, in);)
        found = sscanf(line, "%*s %*s %*s %*s %ld", &owner) == 1 && owner == pid;
    if (in) fclose(in);
    return found;
}

/* The STATUS of a running run names its process and its machine. */
static bool curves_gone(long pid, const char *host) {
    char here[256] = "";
    (void)!gethostname(here, sizeof here - 1);
    if (strcmp(here, host)) return false;
    return (kill((pid_t)pid, 0) && errno == ESRCH) || !has_lock(pid);
}

void smoe_curves_status(const char *dir, char buf[16]) {
    SMOE_FREED char *path = smoe_text_format("%s/STATUS", dir), *text = NULL;
    char host[256] = "";
    long pid = 0;
    size_t size;
    bool there =
        !smoe_file_no_link(path, NULL) && !smoe_file_read(path, 1 << 12, &text, &size, NULL);
    int found = there ? sscanf(text, "%15s %ld %255s", buf, &pid, host) : 0;
    if (found < 1) snprintf(buf, 16, "waiting");
    if (found == 3 && !strcmp(buf, "running") && curves_gone(pid, host))
        snprintf(buf, 16, "killed");
}

/* ---- runs that are looked at again ----------------------------------------------------------- */

static smoe_followed *follow_add(smoe_follow *f, const char *dir) {
    f->run = smoe_alloc_next(f->run, f->runs, sizeof *f->run);
    f->run[f->runs] = (smoe_followed){.dir = smoe_alloc_text(dir), .steps = NAN};
    return &f->run[f->runs++];
}

/* A run with its numbers, from `before` if its files have not changed since. */
static int follow_run(smoe_follow *f, const smoe_follow *before, const char *dir, smoe_err *err) {
    static const char *const names[] = {"metrics.jsonl", "spec.yaml"};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    smoe_followed *run = follow_add(f, dir);
    smoe_curves_status(dir, run->status);
    for (size_t i = 0; i < 2; i++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", dir, names[i]);
        struct stat there = {0};
        (void)stat(path, &there);
        run->file[i].inode = there.st_ino;
        run->file[i].size = there.st_size;
        run->file[i].changed = there.st_ctim;
    }
    for (size_t i = 0; i < before->runs; i++) {
        smoe_followed *old = &before->run[i];
        if (old->problem || strcmp(old->dir, dir) ||
            memcmp(old->file, run->file, sizeof run->file) != 0)
            continue;
        run->steps = old->steps;
        run->curves = old->curves;
        old->curves = (smoe_curves){0};
        return 0;
    }
    SMOE_FREED char *path = smoe_text_format("%s/spec.yaml", dir);
    if (!smoe_spec_read(&spec, path, NULL, 0, NULL)) run->steps = (double)spec.train.steps;
    return smoe_curves_read(&run->curves, dir, false, err);
}

static void follow_lose(smoe_followed *run, const smoe_err *why) {
    run->problem = smoe_alloc_text(why->text);
    snprintf(run->status, sizeof run->status, "lost");
}

/* Whether a run of the folder is among those. */
static bool follow_had(const smoe_follow *f, const char *dir) {
    size_t length = strlen(dir);
    for (size_t i = 0; i < f->runs; i++) {
        const char *run = f->run[i].dir;
        if (!strncmp(run, dir, length) && (!run[length] || run[length] == '/')) return true;
    }
    return false;
}

int smoe_follow_read(smoe_follow *f, char *const *dir, size_t dirs, bool strict, smoe_err *err) {
    SMOE_FREED_BY(smoe_follow_free) smoe_follow before = *f;
    smoe_err left_out = {0};
    *f = (smoe_follow){0};
    for (size_t i = 0; i < dirs; i++) {
        char **runs = NULL;
        size_t count = 0;
        bool other;
        smoe_err why = {0};
        int lost = curves_runs(&runs, &count, dir[i], &other, &why);
        if (other && dirs > 1 && !follow_had(&before, dir[i])) {
            left_out = why;
            continue;
        }
        if (lost) follow_lose(follow_add(f, dir[i]), &why);
        for (size_t k = 0; k < count && !(lost && strict); k++) {
            lost = follow_run(f, &before, runs[k], &why);
            if (lost) follow_lose(&f->run[f->runs - 1], &why);
        }
        smoe_texts_free(runs, count);
        if (lost && strict) return *err = why, -1;
    }
    return strict && !f->runs && left_out.code ? (*err = left_out, -1) : 0;
}

void smoe_follow_free(smoe_follow *f) {
    for (size_t i = 0; i < f->runs; i++) {
        smoe_curves_free(&f->run[i].curves);
        free(f->run[i].dir);
        free(f->run[i].problem);
    }
    free(f->run);
    *f = (smoe_follow){0};
}
