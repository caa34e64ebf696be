/*
 * The folder of a run's checkpoints, ckpt/step_XXXXXXXX, and its links ckpt/latest and ckpt/best.
 *
 * A checkpoint is complete or absent: it is written under a temporary name, synced, renamed into
 * place, and only then linked to; it is renamed away before it is deleted. So a directory called
 * step_* is complete at any moment, and leftovers of a killed process have names that
 * smoe_checkpoints_recover knows.
 */
#include "store/checkpoints.h"
#include "base/file.h"
#include "tensors/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_ROOM = 32 };

static const char BUILDING[] = SMOE_FILE_TEMPORARY "new"; /* a checkpoint not yet whole */
static const char DELETING[] = SMOE_FILE_TEMPORARY "old"; /* one that is being deleted */
static const char REPLACED[] = ".replaced-"; /* stands in while its successor is renamed */

static char *ckpt_path(const char *dir, const char *name) {
    return smoe_text_format("%s/ckpt%s%s", dir, *name ? "/" : "", name);
}

/* The path of "PREFIXstep_00001000/FILE", without "/FILE" where file is NULL. */
static char *step_path(const char *dir, const char *prefix, uint64_t step, const char *file) {
    return smoe_text_format("%s/ckpt/%sstep_%08" PRIu64 "%s%s", dir, prefix, step, file ? "/" : "",
                            file ? file : "");
}

char *smoe_checkpoints_file(const char *dir, uint64_t step, const char *file) {
    return step_path(dir, "", step, file);
}

char *smoe_checkpoints_new(const char *dir, uint64_t step, const char *file) {
    return step_path(dir, BUILDING, step, file);
}

static bool step_there(const char *dir, uint64_t step) {
    SMOE_FREED char *path = step_path(dir, "", step, NULL);
    return !access(path, F_OK);
}

/* The step of "step_00001000"; false for any other spelling. */
static bool step_of(const char *name, uint64_t *step) {
    char back[NAME_ROOM];
    if (sscanf(name, "step_%" SCNu64, step) != 1) return false;
    snprintf(back, sizeof back, "step_%08" PRIu64, *step);
    return !strcmp(name, back);
}

bool smoe_checkpoint_named(const char *name) {
    uint64_t step;
    return step_of(name, &step);
}

static int newest_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

int smoe_checkpoints_list(uint64_t **step, size_t *count, const char *dir, smoe_err *err) {
    SMOE_FREED char *ckpt = ckpt_path(dir, "");
    SMOE_FREED char **names = smoe_file_names(ckpt);
    *step = NULL;
    *count = 0;
    if (!names && errno == ENOENT) return 0;
    if (!names) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read the folder", ckpt);
    for (char **name = names; *name; name++) {
        uint64_t found;
        if (step_of(*name, &found)) SMOE_APPEND(*step, *count) = found;
    }
    if (*count) qsort(*step, *count, sizeof **step, newest_first);
    return 0;
}

#define CONTINUES " to continue from the newest checkpoint"

/* The step that a link names. 1: found; 0: no such link; -1: it names something else (SMOE_DATA).
 */
static int link_step(const char *dir, const char *name, uint64_t *step, smoe_err *err) {
    SMOE_FREED char *path = ckpt_path(dir, name);
    char target[256];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return 0;
    if (n < 0 && errno == EINVAL)
        return smoe_fail(err, SMOE_DATA,
                         "%s: not a link to a checkpoint, as in a copy that did not keep links; "
                         "remove it%s",
                         path, strcmp(name, "latest") ? "" : CONTINUES);
    if (n < 0) return smoe_fail_errno(err, SMOE_DATA, "%s: cannot read the link", path);
    while (n > 1 && target[n - 1] == '/') n--;
    target[n] = '\0';
    if (step_of(target, step)) return 1;
    return smoe_fail(err, SMOE_DATA, "%s: links to %s, which is not a checkpoint of the run", path,
                     target);
}

/* As link_step, of a link that is to be followed: what it names must be there. */
static int link_followed(const char *dir, const char *name, uint64_t *step, smoe_err *err) {
    int found = link_step(dir, name, step, err);
    if (found <= 0 || step_there(dir, *step)) return found;
    return smoe_fail(err, SMOE_DATA,
                     "%s/ckpt/%s: links to step_%08" PRIu64
                     ", which is not there; remove the link%s",
                     dir, name, *step, strcmp(name, "latest") ? "" : CONTINUES);
}

/* The checkpoint to continue from. Without the link (killed before the first one) it is the newest,
 * because a directory of that name is complete. */
int smoe_checkpoints_newest(const char *dir, uint64_t *step, smoe_err *err) {
    int found = link_followed(dir, "latest", step, err);
    if (found) return found;
    SMOE_FREED uint64_t *all = NULL;
    size_t count;
    if (smoe_checkpoints_list(&all, &count, dir, err)) return -1;
    if (count) *step = all[0];
    return count > 0;
}

int smoe_checkpoints_check(const char *dir, smoe_err *err) {
    uint64_t step;
    bool wrong = link_followed(dir, "latest", &step, err) < 0;
    return wrong || link_step(dir, "best", &step, err) < 0 ? -1 : 0;
}

int smoe_checkpoints_own(const char *dir, uint64_t step, smoe_err *err) {
    SMOE_FREED char *path = step_path(dir, "", step, NULL);
    return smoe_file_no_link(path, err) ? -1 : smoe_file_no_links(path, err);
}

/* ---- changing what is there ------------------------------------------------------------------ */

int smoe_checkpoints_make(const char *dir, uint64_t step, smoe_err *err) {
    SMOE_FREED char *ckpt = ckpt_path(dir, ""), *building = step_path(dir, BUILDING, step, NULL);
    bool made = !mkdir(ckpt, 0777);
    if (!made && errno != EEXIST)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", ckpt);
    if (made && smoe_file_sync(dir, err)) return -1;
    if (smoe_file_remove(building, err)) return -1;
    if (!mkdir(building, 0777)) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", building);
}

void smoe_checkpoints_discard(const char *dir, uint64_t step) {
    SMOE_FREED char *building = step_path(dir, BUILDING, step, NULL);
    smoe_file_remove(building, NULL);
}

/* Renames a checkpoint away, so that no incomplete one has its name, and deletes it. */
static int step_delete(const char *dir, uint64_t step, smoe_err *err) {
    SMOE_FREED char *from = step_path(dir, "", step, NULL);
    SMOE_FREED char *to = step_path(dir, DELETING, step, NULL);
    if (smoe_file_remove(to, err)) return -1;
    if (rename(from, to)) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot remove", from);
    return smoe_file_remove(to, err);
}

/* Puts the finished folder in place. An older checkpoint of the same step (a resume repeats steps)
 * is exchanged in one operation; if the file system cannot do this, it gets a name that recovery
 * renames back. */
int smoe_checkpoints_install(const char *dir, uint64_t step, smoe_err *err) {
    SMOE_FREED char *ckpt = ckpt_path(dir, ""), *from = step_path(dir, BUILDING, step, NULL);
    SMOE_FREED char *to = step_path(dir, "", step, NULL);
    SMOE_FREED char *aside = step_path(dir, REPLACED, step, NULL);
    if (smoe_file_sync(from, err)) return -1;
    if (!rename(from, to)) return smoe_file_sync(ckpt, err);
    if (errno != ENOTEMPTY && errno != EEXIST)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot put in place", to);
    bool swapped = !renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
    if (!swapped && (rename(to, aside) || rename(from, to)))
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot replace", to);
    return smoe_file_sync(ckpt, err) || smoe_file_remove(swapped ? from : aside, err) ? -1 : 0;
}

int smoe_checkpoints_prune(const char *dir, size_t keep, size_t every, smoe_err *err) {
    uint64_t latest = 0, best = 0;
    int has_latest = link_step(dir, "latest", &latest, err);
    int has_best = link_step(dir, "best", &best, err);
    SMOE_FREED uint64_t *step = NULL;
    size_t count;
    if (has_latest < 0 || has_best < 0 || smoe_checkpoints_list(&step, &count, dir, err)) return -1;
    for (size_t i = keep; i < count; i++) {
        bool linked = (has_latest && step[i] == latest) || (has_best && step[i] == best);
        bool milestone = every && step[i] % every == 0;
        if (!linked && !milestone && step_delete(dir, step[i], err)) return -1;
    }
    return 0;
}

int smoe_checkpoints_link(const char *dir, uint64_t latest, uint64_t best, smoe_err *err) {
    /* best before latest, so that the best checkpoint that latest refers to exists. */
    const char *const names[] = {"best", "latest"};
    const uint64_t wanted[] = {best, latest};
    SMOE_FREED char *ckpt = ckpt_path(dir, "");
    for (size_t i = !best; i < 2; i++) {
        char target[NAME_ROOM];
        uint64_t step;
        int linked = link_step(dir, names[i], &step, err);
        if (linked < 0) return -1;
        if (linked && step == wanted[i]) continue;
        if (!step_there(dir, wanted[i])) continue;
        snprintf(target, sizeof target, "step_%08" PRIu64, wanted[i]);
        SMOE_FREED char *link = ckpt_path(dir, names[i]);
        if (smoe_file_link(target, link, err)) return -1;
    }
    return smoe_file_sync(ckpt, err);
}

int smoe_checkpoints_recover(const char *dir, smoe_err *err) {
    SMOE_FREED char *ckpt = ckpt_path(dir, "");
    SMOE_FREED char **names = smoe_file_names(ckpt);
    if (!names && errno == ENOENT) return 0;
    if (!names) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read the folder", ckpt);
    int status = 0;
    for (char **name = names; !status && *name; name++) {
        uint64_t step;
        if (strncmp(*name, REPLACED, sizeof REPLACED - 1)) continue;
        if (!step_of(*name + sizeof REPLACED - 1, &step)) continue;
        SMOE_FREED char *aside = step_path(dir, REPLACED, step, NULL);
        SMOE_FREED char *proper = step_path(dir, "", step, NULL);
        if (!access(proper, F_OK))
            status = smoe_file_remove(aside, err);
        else if (rename(aside, proper))
            status = smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot move back", proper);
    }
    return status || smoe_file_sweep(ckpt, SMOE_FILE_ALL, err) ? -1 : 0;
}

int smoe_checkpoints_remove(const char *dir, smoe_err *err) {
    SMOE_FREED char *latest = ckpt_path(dir, "latest"), *best = ckpt_path(dir, "best");
    SMOE_FREED uint64_t *step = NULL;
    size_t count;
    if (smoe_checkpoints_recover(dir, err) || smoe_checkpoints_list(&step, &count, dir, err) ||
        smoe_file_remove(latest, err) || smoe_file_remove(best, err))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (step_delete(dir, step[i], err)) return -1;
    return 0;
}

/* ---- finding --------------------------------------------------------------------------------- */

uint64_t smoe_checkpoint_latest(const char *dir) {
    uint64_t step;
    return smoe_checkpoints_newest(dir, &step, NULL) > 0 ? step : 0;
}

/* The step for 500, step_500 or step_00000500, as given by a user. */
static bool step_meant(const char *which, uint64_t *step) {
    const char *digits = strncmp(which, "step_", 5) ? which : which + 5;
    size_t count = strspn(digits, "0123456789");
    return count && count < 20 && !digits[count] && sscanf(digits, "%" SCNu64, step) == 1;
}

char *smoe_checkpoint_find(const char *dir, const char *which, smoe_err *err) {
    uint64_t step = 0;
    int found;
    bool average = which && !strcmp(which, "ema");
    const char *file = average ? SMOE_CHECKPOINT_AVERAGE : "model.safetensors";
    if (!which || !strcmp(which, "latest") || average) {
        found = smoe_checkpoints_newest(dir, &step, err);
        SMOE_FREED char *path = step_path(dir, "", step, file);
        if (found > 0 && average) found = smoe_shards_there(path);
    } else if (!strcmp(which, "best")) {
        found = link_followed(dir, "best", &step, err);
    } else if (step_meant(which, &step)) {
        found = step_there(dir, step);
    } else {
        found = smoe_fail(err, SMOE_USAGE,
                          "checkpoint %s: not best, latest, ema or the number of a step", which);
    }
    if (found > 0 && !smoe_checkpoints_own(dir, step, err)) return step_path(dir, "", step, file);
    if (!found && smoe_checkpoints_newest(dir, &step, NULL) > 0)
        smoe_fail(err, SMOE_DATA, "%s: the run has no checkpoint %s", dir, which);
    else if (!found)
        smoe_fail(err, SMOE_DATA, "%s: the run has no checkpoint yet", dir);
    return NULL;
}

const char *smoe_checkpoint_left(const char *dir) {
    return smoe_checkpoint_latest(dir) ? "the last checkpoint is unchanged"
                                       : "the run has no checkpoint yet";
}
