/* Opening one file of weights, of this program or another one; see safetensors.h. The format itself
 * is in safetensors.c, those of other programs in foreign.c. */
#include "tensors/safetensors.h"
#include "tensors/foreign.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file out of memory that becomes its own, with its note. */
static int own(smoe_safetensors **result, smoe_foreign_made *made, const char *path,
               smoe_err *err) {
    if (smoe_safetensors_parse(result, made->bytes, made->size, path, err)) {
        smoe_foreign_free(made->bytes, made->size);
        free(made->note);
        return -1;
    }
    smoe_safetensors_own(*result, made->bytes, made->size, made->note);
    return 0;
}

int smoe_safetensors_rename(smoe_safetensors **result, const char *weights, smoe_err *err) {
    smoe_foreign_made made;
    smoe_safetensors *file = *result;
    int renamed = smoe_foreign_rename(&made, file, weights, err);
    if (!renamed) return 0;
    *result = NULL;
    /* A changed byte in a name must not make a file of another program of it. */
    int status = smoe_safetensors_verify(file, err);
    if (status && renamed > 0) {
        smoe_foreign_free(made.bytes, made.size);
        free(made.note);
    }
    if (!status) status = renamed < 0 ? -1 : own(result, &made, smoe_safetensors_path(file), err);
    smoe_safetensors_free(file);
    return status;
}

/* A pointer of Git LFS stands where a file was not fetched. */
static bool is_pointer(const char *bytes, size_t size) {
    static const char begins[] = "version https://git-lfs.github.com/spec/";
    return size > sizeof begins && !memcmp(bytes, begins, sizeof begins - 1);
}

/* Opens a file as it is; *foreign if it is none of safetensors, but was made into one; `part`: of
 * several, whose names are not those of a model. */
static int open_file(smoe_safetensors **result, bool *foreign, const char *path,
                     const char *weights, bool part, smoe_err *err) {
    *result = NULL;
    /* Without blocking, so that a pipe is refused. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status = -1;
    struct stat there;
    void *map = MAP_FAILED;
    size_t size = 0;
    if (fd < 0 || fstat(fd, &there)) {
        smoe_fail_errno(err, SMOE_DATA, "%s: cannot open", path);
        goto out;
    }
    if (!S_ISREG(there.st_mode)) {
        smoe_fail(err, SMOE_DATA, "%s: not a regular file", path);
        goto out;
    }
    size = (size_t)there.st_size;
    if (!size) { /* which mmap refuses */
        status = smoe_safetensors_parse(result, "", 0, path, err);
        goto out;
    }
    map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot map %zu bytes", path, size);
        goto out;
    }
    if (is_pointer(map, size)) {
        smoe_fail(
            err, SMOE_DATA,
            "%s: a Git LFS pointer, not the file; `git lfs pull` in its repository fetches it",
            path);
        goto out;
    }
    *foreign = smoe_foreign_begins(map, size);
    if (*foreign) {
        smoe_foreign_made made;
        if (part ? smoe_foreign_unpack(&made, map, size, path, err)
                 : smoe_foreign_convert(&made, map, size, path, weights, err))
            goto out;
        status = own(result, &made, path, err);
        goto out;
    }
    if (smoe_safetensors_parse(result, map, size, path, err)) goto out;
    smoe_safetensors_own(*result, map, size, NULL);
    map = MAP_FAILED; /* the result's now */
    status = 0;
out:
    if (map != MAP_FAILED) munmap(map, size);
    if (fd >= 0) close(fd);
    return status;
}

int smoe_safetensors_peek_file(smoe_safetensors **result, const char *path, const char *weights,
                               smoe_err *err) {
    bool foreign = false;
    if (open_file(result, &foreign, path, weights, false, err)) return -1;
    return foreign ? 0 : smoe_safetensors_rename(result, weights, err);
}

int smoe_safetensors_peek_part(smoe_safetensors **result, const char *path, smoe_err *err) {
    bool foreign = false;
    return open_file(result, &foreign, path, NULL, true, err);
}
