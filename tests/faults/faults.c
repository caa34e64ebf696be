/*
 * Preloaded into the program under test (LD_PRELOAD): makes one call fail. FAULT_KIND=memory counts
 * malloc, calloc and realloc. FAULT_KIND=disk counts calls that change a file: open for writing,
 * write, pwrite, fsync, rename, renameat2, mkdir, link, symlink, unlink, ftruncate.
 * FAULT_KIND=broken counts the same calls, but all from the N-th fail. FAULT_KIND=kill counts them,
 * too, but kills the process before the N-th, by FAULT_SIGNAL or else SIGKILL. FAULT_KIND=interrupt
 * counts write, pwrite and fsync, of which the N-th fails with EINTR. FAULT_KIND=read
 * counts open for reading, read, pread, fread, getline and mmap of files. FAULT_AT=N makes the N-th
 * of them fail, with ENOMEM or EIO; 0 makes none fail. FAULT_COUNT=FILE receives the total number
 * of calls. FAULT_CLOCK=N makes the monotonic clock run N times as fast, so that leases of claims
 * end soon.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

enum kind { NONE, MEMORY, DISK, READ, INTERRUPT };
static enum kind counted;
static bool deadly, lasting;
static int deadly_signal = SIGKILL;
static long at;
static atomic_long calls;
static long haste = 1;

__attribute__((constructor)) static void begin(void) {
    const char *kind = getenv("FAULT_KIND"), *number = getenv("FAULT_AT");
    at = number ? atol(number) : 0;
    const char *clock = getenv("FAULT_CLOCK");
    if (clock) haste = atol(clock);
    const char *signal = getenv("FAULT_SIGNAL");
    if (signal) deadly_signal = atoi(signal);
    atomic_store(&calls, 0);
    deadly = kind && !strcmp(kind, "kill");
    lasting = kind && !strcmp(kind, "broken");
    counted = !kind                                        ? NONE
              : !strcmp(kind, "memory")                    ? MEMORY
              : !strcmp(kind, "read")                      ? READ
              : !strcmp(kind, "interrupt")                 ? INTERRUPT
              : deadly || lasting || !strcmp(kind, "disk") ? DISK
                                                           : NONE;
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
    if (counted != kind) return false;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (lasting ? !at || n < at : n != at) return false;
    if (deadly) kill(getpid(), deadly_signal);
    return true;
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

#define INTERRUPTED()                 \
    do {                              \
        if (!fails(INTERRUPT)) break; \
        errno = EINTR;                \
        return -1;                    \
    } while (0)

/* The system's own files do not count. */
static bool of_user(const char *path) {
    return strncmp(path, "/proc/", 6) && strncmp(path, "/sys/", 5) && strncmp(path, "/dev/", 5) &&
           strncmp(path, "/usr/", 5) && strncmp(path, "/etc/", 5);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_ACCMODE) != O_RDONLY && strncmp(path, "/dev/", 5)) FAULT(-1);
    if ((flags & O_ACCMODE) == O_RDONLY && of_user(path) && fails(READ)) {
        errno = EIO;
        return -1;
    }
    return REAL(open)(path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    if (fd > STDERR_FILENO) FAULT(-1);
    if (fd > STDERR_FILENO) INTERRUPTED();
    return REAL(write)(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    FAULT(-1);
    INTERRUPTED();
    return REAL(pwrite)(fd, bytes, size, offset);
}

int fsync(int fd) {
    FAULT(-1);
    INTERRUPTED();
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

int link(const char *from, const char *to) {
    FAULT(-1);
    return REAL(link)(from, to);
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

/* ---- the clock ------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = REAL(clock_gettime)(clock, now);
    if (status || clock != CLOCK_MONOTONIC || haste == 1) return status;
    long fine = now->tv_nsec * haste;
    now->tv_sec = now->tv_sec * haste + fine / 1000000000;
    now->tv_nsec = fine % 1000000000;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static FILE *broken; /* the stream whose read failed */

static bool read_fails(void) {
    if (!fails(READ)) return false;
    errno = EIO;
    return true;
}

ssize_t read(int fd, void *bytes, size_t size) {
    return fd > STDERR_FILENO && read_fails() ? -1 : REAL(read)(fd, bytes, size);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
    return read_fails() ? -1 : REAL(pread)(fd, bytes, size, offset);
}

size_t fread(void *bytes, size_t size, size_t count, FILE *from) {
    if (!read_fails()) return REAL(fread)(bytes, size, count, from);
    broken = from;
    return 0;
}

ssize_t getline(char **line, size_t *room, FILE *from) {
    if (!read_fails()) return REAL(getline)(line, room, from);
    broken = from;
    return -1;
}

int ferror(FILE *from) {
    return from && from == broken ? 1 : REAL(ferror)(from);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    return fd >= 0 && read_fails() ? MAP_FAILED
                                   : REAL(mmap)(at, size, protection, flags, fd, offset);
}
