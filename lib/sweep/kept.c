/* The checkpoint that a sweep of a run evaluates; see sweep.h. */
#include "sweep/sweep.h"
#include "store/run.h"
#include "tensors/shards.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 20 }; /* for a run that writes checkpoints faster than they are kept */

int smoe_kept_find(smoe_sweep *sweep, smoe_err *err) {
    char *found = NULL;
    for (int try = 0; try < TRIES && !found; try++) {
        SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
        if (smoe_run_locate(&file, sweep->run, "latest", err)) return -1;
        const char *model = smoe_safetensors_path(file);
        SMOE_FREED char *folder = smoe_file_folder(model), *whole = realpath(folder, NULL);
        if (whole) found = smoe_text_format("%s/%s", whole, basename(model));
    }
    if (!found)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: its latest checkpoint has no path",
                               sweep->run);
    free(sweep->checkpoint);
    sweep->checkpoint = found;
    return 0;
}

/* ---- keeping --------------------------------------------------------------------------------- */

static int copy(const char *from, const char *to, smoe_err *err) {
    struct stat st;
    int fd = smoe_file_open(from, O_RDONLY, err);
    if (fd < 0) return -1;
    size_t size = fstat(fd, &st) ? 0 : (size_t)st.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", from);
    int status = smoe_file_write(to, bytes, size, err);
    munmap(bytes, size);
    return status;
}

/* The files of the model, whose names begin so. Opening the copy shows whether it is complete. */
static int keep_files(const char *checkpoint, const char *to, smoe_err *err) {
    SMOE_FREED char *folder = smoe_file_folder(checkpoint), *kept = NULL;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    SMOE_FREED char **names = smoe_file_names(folder);
    if (!names) return smoe_fail_errno(err, SMOE_DATA, "%s", folder);
    for (char **name = names; *name; name++) {
        if (strncmp(*name, "model", 5) || strstr(*name, SMOE_FILE_TEMPORARY)) continue;
        SMOE_FREED char *from = smoe_text_format("%s/%s", folder, *name);
        SMOE_FREED char *own = smoe_text_format("%s/%s", to, *name);
        /* A file that has disappeared is reported when it is copied. */
        if (link(from, own) && copy(from, own, err)) return -1;
    }
    kept = smoe_text_format("%s/%s", to, basename(checkpoint));
    return smoe_safetensors_peek(&file, kept, NULL, err);
}

/* As keep_files, with the latest checkpoint instead of one that was deleted meanwhile. */
static int keep_latest(smoe_sweep *sweep, const char *to, smoe_err *err) {
    for (int try = 1;; try++) {
        if (smoe_file_remove(to, err) || smoe_file_make_folder(to, err)) return -1;
        if (!keep_files(sweep->checkpoint, to, err)) return 0;
        if (smoe_shards_there(sweep->checkpoint) || try == TRIES) return -1;
        if (smoe_kept_find(sweep, err)) return -1;
    }
}

int smoe_kept_make(smoe_sweep *sweep, const char *claims, smoe_err *err) {
    SMOE_FREED char *kept = smoe_text_format("%s/" SMOE_KEPT, claims);
    SMOE_FREED char *building = smoe_file_temporary(kept, 0);
    if (!smoe_file_remove(kept, err) && /* of a sweep that did not begin */
        !keep_latest(sweep, building, err) && !smoe_file_sync(building, err)) {
        if (!rename(building, kept)) return smoe_file_sync(claims, err);
        smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", kept);
    }
    smoe_file_remove(building, NULL);
    return -1;
}

char *smoe_kept_model(const smoe_sweep *sweep) {
    SMOE_FREED char *kept =
        smoe_text_format("%s/claims/" SMOE_KEPT "/%s", sweep->dir, basename(sweep->checkpoint));
    return smoe_alloc_text(smoe_shards_there(kept) ? kept : sweep->checkpoint);
}
