/* Opening one file of weights, of this program or another one; see safetensors.h. The format itself
 * is in safetensors.c, those of other programs in foreign.c. */
#include "tensors/safetensors.h"
#include "base/file.h"
#include "tensors/foreign.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int smoe_safetensors_rename(smoe_safetensors **result, const char *weights, smoe_err *err) {
    smoe_safetensors *file = *result;
    int renamed = smoe_foreign_rename(result, file, weights, err);
    if (!renamed) *result = file;
    if (!renamed) return 0;
    /* A changed byte in a name must not make a file of another program of it. */
    int status = smoe_safetensors_verify(file, err);
    smoe_safetensors_free(file);
    if (!status && renamed > 0) return 0;
    smoe_safetensors_free(*result);
    *result = NULL;
    return -1;
}

/* Maps a file; one that is empty is not mapped. */
static int map_file(void **map, size_t *size, const char *path, smoe_err *err) {
    struct stat there;
    int status = -1, fd = smoe_file_open(path, O_RDONLY, err);
    if (fd < 0) return -1;
    if (fstat(fd, &there)) {
        smoe_fail_errno(err, SMOE_DATA, "%s: cannot open", path);
    } else {
        *size = (size_t)there.st_size;
        if (*size) *map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
        status = *size && *map == MAP_FAILED
                     ? smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot map %zu bytes", path, *size)
                     : 0;
    }
    close(fd);
    return status;
}

/* Opens a file as it is; *foreign if it is none of safetensors, but was made into one; `part`: of
 * several, whose names are not those of a model. */
static int open_file(smoe_safetensors **result, bool *foreign, const char *path,
                     const char *weights, bool part, smoe_err *err) {
    void *map;
    size_t size;
    int status = -1;
    *result = NULL;
    if (map_file(&map, &size, path, err)) return -1;
    if (!size) return smoe_safetensors_parse(result, "", 0, path, err);
    *foreign = smoe_foreign_begins(map, size);
    if (smoe_file_is_pointer(map, size))
        smoe_fail(err, SMOE_DATA, "%s: " SMOE_FILE_POINTER, path);
    else if (*foreign)
        status = smoe_foreign_open(result, map, size, path, weights, part, err);
    else
        status = smoe_safetensors_parse(result, map, size, path, err);
    if (!status && !*foreign)
        smoe_safetensors_own(*result, map, size);
    else
        munmap(map, size);
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
