/*
 * The folder of a sweep: making, extending and removing it; see sweep.h. The manifest is written
 * once, completely, and replaced only by one that has more trials after the old ones, another
 * reference or figure, or more seeds that were seen before.
 */
#include "base/file.h"
#include "compare/settings.h"
#include "store/run_files.h"
#include "sweep/trial.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

/* What the manifest is called between the removal of a sweep and the one that replaces it: if the
 * process is killed in between, a folder with other files is still recognised as that of a
 * sweep. */
#define REMOVED "cells.jsonl" SMOE_FILE_TEMPORARY "removed"

/* It is renamed first: no part of it stays under its name if the process is killed. */
static int remove_in(const char *dir, const char *name, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/%s", dir, name);
    SMOE_FREED char *aside =
        smoe_text_format("%s/%s" SMOE_FILE_TEMPORARY "%ld-0", dir, name, (long)getpid());
    if (rename(path, aside) && errno != ENOENT)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot remove", path);
    return smoe_file_remove(aside, err);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Fails with SMOE_DATA for a link in the folder of a sweep, among its claims and outcomes, or in
 * the checkpoint that it keeps. It would lead to files of others, which would be read or
 * replaced. */
static int own(const char *dir, smoe_err *err) {
    static const char kept[] = "/claims/" SMOE_KEPT;
    static const char *const folders[] = {"", "/claims", kept};
    for (size_t i = 0; i < SMOE_COUNT(folders); i++) {
        SMOE_FREED char *folder = smoe_text_format("%s%s", dir, folders[i]);
        if (smoe_file_no_links(folder, err)) return -1;
    }
    return 0;
}

/* ---- making the folder ----------------------------------------------------------------------- */

/* Held, or left by a process that was killed, while a manifest or tables are written. */
#define MANIFEST_CLAIM "manifest.claim"

/* That claim and the checkpoint of a sweep of a run are there before the manifest. */
static bool is_entry(const char *name) {
    return strncmp(name, MANIFEST_CLAIM, sizeof MANIFEST_CLAIM - 1) &&
           strncmp(name, SMOE_KEPT, sizeof SMOE_KEPT - 1);
}

/* Files that exist only after the first manifest is complete. */
static bool is_foreign(const char *name) {
    static const char temporary[] = "cells.jsonl" SMOE_FILE_TEMPORARY;
    return is_entry(name) && strcmp(name, "claims") &&
           strncmp(name, temporary, sizeof temporary - 1);
}

/* Whether it is a folder without entries of the kind. */
static bool holds_none(const char *folder, bool (*kind)(const char *name)) {
    SMOE_FREED char **names = smoe_file_names(folder);
    char **name = names;
    while (name && *name && !kind(*name)) name++;
    return name && !*name;
}

/* A folder that has only remains of a sweep that ended before its manifest was complete is treated
 * as if it did not exist. */
static bool not_begun(const char *dir) {
    SMOE_FREED char *claims = smoe_text_format("%s/claims", dir);
    return holds_none(dir, is_foreign) && (access(claims, F_OK) || holds_none(claims, is_entry));
}

/* Fails if the folder has files of somebody else, and neither is a sweep nor was one: its tables
 * would be replaced. What a process makes that begins or replaces a sweep meanwhile is looked for
 * in the order in which it comes and goes. */
static int check_ours(const char *dir, smoe_err *err) {
    if (access(dir, F_OK) || not_begun(dir) || smoe_file_holds(dir, "claims") ||
        smoe_file_holds(dir, REMOVED) || smoe_file_holds(dir, "cells.jsonl"))
        return 0;
    if (access(dir, R_OK | X_OK)) return smoe_fail_errno(err, SMOE_DATA, "%s: cannot be read", dir);
    return smoe_fail(err, SMOE_USAGE,
                     "%s: has other files, and no sweep (no cells.jsonl); -o DIR chooses another "
                     "folder",
                     dir);
}

static int fail_there(const char *dir, smoe_err *err) {
    return smoe_fail(err, SMOE_USAGE,
                     "%s: exists already; --resume continues a sweep, --extend adds cells to one, "
                     "--force replaces it",
                     dir);
}

int smoe_sweep_turn(smoe_claim *turn, const char *dir, smoe_err *err) {
    const struct timespec nap = {.tv_nsec = 20000000};
    smoe_claim_seen seen = {0};
    SMOE_FREED char *claims = smoe_text_format("%s/claims", dir);
    SMOE_FREED char *path = smoe_text_format("%s/" MANIFEST_CLAIM, claims);
    int got = smoe_file_make_folder(claims, err);
    while (!got && !(got = smoe_claim_take(turn, path, SMOE_CLAIM_LEASE, &seen, err)))
        nanosleep(&nap, NULL);
    return got < 0 ? -1 : 0;
}

/* Replaces this sweep by the one in the folder, if they are the same. The reference and the figure
 * concern no trial: the folder takes over those that this sweep states. */
static int take_over(smoe_sweep *sweep, const char *dir, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep old = {0};
    char **const from[] = {&sweep->reference, &sweep->figure.x, &sweep->figure.y,
                           &sweep->figure.line, &sweep->figure.title};
    char **const to[] = {&old.reference, &old.figure.x, &old.figure.y, &old.figure.line,
                         &old.figure.title};
    if (smoe_sweep_open(&old, dir, err) || smoe_manifest_compare(&old, sweep, err)) return -1;
    bool changed = smoe_sweep_see(&old.plan, sweep->plan.seen);
    for (size_t i = 0; i < SMOE_COUNT(to); i++) {
        if (!*from[i] || (*to[i] && !strcmp(*to[i], *from[i]))) continue;
        smoe_text_set(to[i], *from[i]);
        changed = true;
    }
    if (changed && smoe_manifest_write(&old, dir, err)) return -1;
    SMOE_SWAP(*sweep, old);
    return 0;
}

/* The first manifest of a folder. */
static int sweep_folder_begin(smoe_sweep *sweep, const char *dir, const char *claims,
                              smoe_err *err) {
    int status = not_begun(dir) ? smoe_file_sweep(dir, SMOE_FILE_ALL, err) : 0;
    if (!status && sweep->run) status = smoe_kept_make(sweep, claims, err);
    if (!status) sweep->dir = smoe_alloc_text(dir);
    if (!status) status = smoe_manifest_write(sweep, dir, err);
    if (status && sweep->run) remove_in(claims, SMOE_KEPT, NULL);
    if (!status) status = remove_in(dir, REMOVED, err);
    return status;
}

int smoe_sweep_create(smoe_sweep *sweep, const char *dir, bool join, smoe_err *err) {
    SMOE_FREED char *claims = smoe_text_format("%s/claims", dir);
    smoe_claim claim = {0};
    int status = -1;
    if (check_ours(dir, err)) return -1;
    if (!join && !access(dir, F_OK) && !not_begun(dir)) {
        fail_there(dir, err);
    } else if (!own(dir, err) && !smoe_sweep_turn(&claim, dir, err)) {
        if (!smoe_file_holds(dir, "cells.jsonl"))
            status = sweep_folder_begin(sweep, dir, claims, err);
        else /* another process may have been faster */
            status = join ? take_over(sweep, dir, err) : fail_there(dir, err);
    }
    smoe_claim_release(&claim);
    /* Without a manifest, an otherwise empty folder goes as well. */
    if (status && !smoe_file_holds(dir, "cells.jsonl") && !rmdir(claims)) rmdir(dir);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

int smoe_sweep_read(smoe_sweep *sweep, const char *dir, smoe_err *err) {
    *sweep = (smoe_sweep){.dir = smoe_alloc_text(dir), .seed = SIZE_MAX};
    SMOE_FREED char *path = smoe_text_format("%s/cells.jsonl", dir);
    int status = -1;
    if (access(path, F_OK) && not_begun(dir)) {
        smoe_fail(err, SMOE_USAGE,
                  "%s: no sweep there; SPEC.yaml and its overrides with -o %s start one", dir, dir);
    } else if (access(path, F_OK)) {
        smoe_fail(err, SMOE_USAGE, "%s: no sweep there (no cells.jsonl)", dir);
    } else if (!own(dir, err)) {
        status = smoe_manifest_read(sweep, path, err);
        for (size_t i = 0; i < sweep->trials && !sweep->run && !status; i++) {
            SMOE_FREED char *trial = smoe_trial_dir(sweep, i);
            status = smoe_run_own(trial, err);
        }
    }
    if (status) smoe_sweep_free(sweep);
    return status;
}

int smoe_sweep_open(smoe_sweep *sweep, const char *dir, smoe_err *err) {
    int status = smoe_sweep_read(sweep, dir, err);
    for (size_t i = 0; i < sweep->trials && !status; i++) status = smoe_trial_look(sweep, i, err);
    if (status) smoe_sweep_free(sweep);
    return status;
}

/* ---- extending ------------------------------------------------------------------------------- */

static bool same_values(const smoe_sweep *sweep, const smoe_trial *a, const smoe_trial *b) {
    for (size_t c = 0; c < sweep->columns; c++)
        if (!smoe_settings_same(sweep->column[c], a->value[c], b->value[c])) return false;
    return true;
}

/* Finds the trial that equals `was` among those from `from` on, moves it to place `from` and gives
 * it its old name. */
static int keep_trial(smoe_sweep *sweep, size_t from, const smoe_sweep *old, const smoe_trial *was,
                      smoe_err *err) {
    size_t i = from;
    while (i < sweep->trials && !same_values(sweep, &sweep->trial[i], was)) i++;
    if (i == sweep->trials)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: cell %s is not among the cells of the spec; --extend needs all "
                         "existing cells and new ones",
                         old->dir, was->name);
    if (!smoe_trial_same(was, &sweep->trial[i]))
        return smoe_fail(
            err, SMOE_USAGE,
            "%s: cell %s (%016" PRIx64 ") would now be a different one (%016" PRIx64
            "): the spec or its overrides are different; -o DIR chooses another folder",
            old->dir, was->name, was->hash, sweep->trial[i].hash);
    smoe_trial trial = sweep->trial[i];
    smoe_text_set(&trial.name, was->name);
    memmove(&sweep->trial[from + 1], &sweep->trial[from], (i - from) * sizeof trial);
    sweep->trial[from] = trial;
    return 0;
}

/* If the new trials have seeds of their own, the seeds of the old ones whose results are there were
 * seen before. */
static void mark_seen(smoe_sweep *sweep, const smoe_sweep *old) {
    bool more = false;
    smoe_sweep_see(&sweep->plan, old->plan.seen);
    for (size_t i = old->trials; i < sweep->trials && sweep->seed != SIZE_MAX && !more; i++) {
        more = true;
        for (size_t k = 0; k < old->trials && more; k++)
            more = strcmp(sweep->trial[i].value[sweep->seed], old->trial[k].value[old->seed]) != 0;
    }
    for (size_t k = 0; k < old->trials && more; k++)
        if (old->trial[k].state == SMOE_TRIAL_DONE)
            smoe_sweep_see(&sweep->plan, old->trial[k].value[old->seed]);
}

/* The unchanged trials of the old sweep first, then the new ones, with numbers that continue. */
static int merge(smoe_sweep *sweep, const smoe_sweep *old, smoe_err *err) {
    size_t next = 0;
    if (smoe_manifest_compare_settings(old, sweep, err)) return -1;
    for (size_t k = 0; k < old->trials; k++) {
        if (keep_trial(sweep, k, old, &old->trial[k], err)) return -1;
        if (smoe_trial_number(&old->trial[k]) >= next) next = smoe_trial_number(&old->trial[k]) + 1;
    }
    for (size_t i = old->trials; i < sweep->trials; i++) {
        smoe_trial *trial = &sweep->trial[i];
        SMOE_FREED char *name =
            smoe_text_format("%03zu%s", next++, trial->name + strspn(trial->name, "0123456789"));
        smoe_text_set(&trial->name, name);
    }
    mark_seen(sweep, old);
    return 0;
}

int smoe_sweep_match(smoe_sweep *sweep, const char *dir, bool extend, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep old = {0};
    bool there = smoe_file_holds(dir, "cells.jsonl");
    if (check_ours(dir, err)) return -1;
    if (!there && (!extend || not_begun(dir))) return 0; /* a new one is made */
    if (smoe_sweep_open(&old, dir, err)) return -1;
    if (!extend && smoe_manifest_compare(&old, sweep, err)) return -1;
    return merge(sweep, &old, err);
}

int smoe_sweep_extend(smoe_sweep *sweep, const char *dir, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep old = {0};
    if (not_begun(dir)) return smoe_sweep_create(sweep, dir, false, err);
    if (smoe_sweep_open(&old, dir, err)) return -1;
    smoe_claim claim = {0};
    int status = smoe_sweep_turn(&claim, dir, err);
    if (!status) { /* as it is now that nobody else changes it */
        smoe_sweep_free(&old);
        status = smoe_sweep_open(&old, dir, err);
    }
    if (!status) status = merge(sweep, &old, err);
    if (!status) sweep->dir = smoe_alloc_text(dir);
    if (!status && (sweep->trials > old.trials || sweep->plan.seen))
        status = smoe_manifest_write(sweep, dir, err);
    smoe_claim_release(&claim);
    for (size_t i = 0; i < sweep->trials && !status; i++) status = smoe_trial_look(sweep, i, err);
    return status;
}

/* ---- removing -------------------------------------------------------------------------------- */

static int check_idle(const smoe_sweep *sweep, smoe_err *err) {
    for (size_t i = 0; i < sweep->trials; i++) {
        SMOE_FREED_BY(smoe_claim_release) smoe_claim claim = {0};
        int got = smoe_trial_claim(sweep, i, &claim, SMOE_CLAIM_LEASE, NULL, err);
        if (got < 0) return -1;
        if (!got) {
            SMOE_FREED char *holder = smoe_trial_holder(sweep, i);
            smoe_fail(err, SMOE_RUNTIME, "%s: another process runs cell %s (%s)", sweep->dir,
                      sweep->trial[i].name,
                      holder ? holder : "its machine may be gone; --resume takes it over");
            return -1;
        }
    }
    return 0;
}

int smoe_sweep_remove(const char *dir, smoe_err *err) {
    /* The outcomes of cells are removed first: a sweep whose removal was interrupted runs them
     * again. */
    static const char written[] =
        "results.csv summary.csv summary.md differences.csv trends.csv primary.csv curves.csv "
        "evaluations.csv evaluations_summary.csv evaluations_differences.csv "
        "evaluations_trends.csv "
        "sweep.gp sweep.svg sweep.pdf sweep_cells.csv "
        "evaluations.gp evaluations.svg evaluations.pdf evaluations_cells.csv";
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep sweep = {0};
    if (access(dir, F_OK) || not_begun(dir)) return 0;
    bool removed = !smoe_file_holds(dir, "cells.jsonl") && smoe_file_holds(dir, REMOVED);
    if (removed) return smoe_file_sweep(dir, SMOE_FILE_GONE_OR_OLD, err);
    SMOE_FREED char *claims = smoe_text_format("%s/claims", dir);
    SMOE_FREED char *manifest = smoe_text_format("%s/cells.jsonl", dir);
    SMOE_FREED char *hidden = smoe_text_format("%s/" REMOVED, dir);
    /* A process that was killed in this function may have removed the claims. */
    if (smoe_sweep_read(&sweep, dir, err) || smoe_file_make_folder(claims, err) ||
        check_idle(&sweep, err) || remove_in(dir, "claims", err))
        return -1;
    for (size_t i = 0; i < sweep.trials && !sweep.run; i++)
        if (remove_in(dir, sweep.trial[i].name, err)) return -1;
    SMOE_FREED char *names = smoe_alloc_text(written);
    for (char *rest = names, *name; (name = strsep(&rest, " "));)
        if (remove_in(dir, name, err)) return -1;
    if (smoe_file_sweep(dir, SMOE_FILE_GONE_OR_OLD, err)) return -1;
    return rename(manifest, hidden)
               ? smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot remove", manifest)
               : 0;
}
