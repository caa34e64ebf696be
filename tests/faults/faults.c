/*
 * Preloaded into the program under test (LD_PRELOAD): lets one call fail. FAULT_KIND=memory counts
 * malloc, calloc and realloc; FAULT_KIND=disk counts what changes a file: open for writing, write,
 * pwrite, fsync, rename, renameat2, mkdir, symlink, unlink, ftruncate. FAULT_AT=N fails the N-th of
 * them, with ENOMEM or EIO; 0 fails none. FAULT_COUNT=FILE gets how many there were in all.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

enum kind { NONE, MEMORY, DISK };
static enum kind counted;
static long at;
static atomic_long calls;

__attribute__((constructor)) static void begin(void) {
    const char *kind = getenv("FAULT_KIND"), *number = getenv("FAULT_AT");
    at = number ? atol(number) : 0;
    atomic_store(&calls, 0);
    counted = !kind ? NONE : !strcmp(kind, "memory") ? MEMORY : !strcmp(kind, "disk") ? DISK : NONE;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    long all = atomic_load(&calls);
    counted = NONE;
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) return;
    fprintf(out, "%ld\n", all);
    fclose(out);
}

static bool fails(enum kind kind) {
    return counted == kind && atomic_fetch_add(&calls, 1) + 1 == at;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *malloc(size_t size) {
    if (!fails(MEMORY)) return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t count, size_t size) {
    if (!fails(MEMORY)) return __libc_calloc(count, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *old, size_t size) {
    if (!fails(MEMORY)) return __libc_realloc(old, size);
    errno = ENOMEM;
    return NULL;
}

/* ---- the disk -------------------------------------------------------------------------------- */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAULT(value)             \
    do {                         \
        if (!fails(DISK)) break; \
        errno = EIO;             \
        return value;            \
    } while (0)

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_ACCMODE) != O_RDONLY && strncmp(path, "/dev/", 5)) FAULT(-1);
    return REAL(open)(path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    if (fd > STDERR_FILENO) FAULT(-1);
    return REAL(write)(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    FAULT(-1);
    return REAL(pwrite)(fd, bytes, size, offset);
}

int fsync(int fd) {
    FAULT(-1);
    return REAL(fsync)(fd);
}

int rename(const char *from, const char *to) {
    FAULT(-1);
    return REAL(rename)(from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    FAULT(-1);
    return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    FAULT(-1);
    return REAL(mkdir)(path, mode);
}

int symlink(const char *target, const char *path) {
    FAULT(-1);
    return REAL(symlink)(target, path);
}

int unlink(const char *path) {
    FAULT(-1);
    return REAL(unlink)(path);
}

int ftruncate(int fd, off_t size) {
    FAULT(-1);
    return REAL(ftruncate)(fd, size);
}
