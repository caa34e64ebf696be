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

/* A file out of memory that becomes its own. */
static int own(smoe_safetensors **result, void *made, size_t size, const char *path,
               smoe_err *err) {
    if (smoe_safetensors_parse(result, made, size, path, err)) {
        smoe_foreign_free(made, size);
        return -1;
    }
    smoe_safetensors_own(*result, made, size);
    return 0;
}

int smoe_safetensors_rename(smoe_safetensors **result, smoe_err *err) {
    void *made = NULL;
    size_t size = 0;
    smoe_safetensors *file = *result;
    int renamed = smoe_foreign_rename(&made, &size, file, err);
    if (!renamed) return 0;
    *result = NULL;
    int status = renamed < 0 ? -1 : own(result, made, size, smoe_safetensors_path(file), err);
    smoe_safetensors_free(file);
    return status;
}

int smoe_safetensors_peek_file(smoe_safetensors **result, const char *path, smoe_err *err) {
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
    if (smoe_foreign_begins(map, size)) {
        void *made = NULL;
        size_t made_size = 0;
        if (smoe_foreign_convert(&made, &made_size, map, size, path, err)) goto out;
        status = own(result, made, made_size, path, err);
        goto out;
    }
    if (smoe_safetensors_parse(result, map, size, path, err)) goto out;
    smoe_safetensors_own(*result, map, size);
    map = MAP_FAILED; /* the result's now */
    status = smoe_safetensors_rename(result, err);
out:
    if (map != MAP_FAILED) munmap(map, size);
    if (fd >= 0) close(fd);
    return status;
}
