/* Whole files, links and folders: see file.h. Every return value of the system is checked here, so
 * that a full disk is reported where it happens. */
#include "base/file.h"
#include "base/digest.h"
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <regex.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TRIES = 100, /* temporary names tried before giving up */
    /* Bytes written at a time, each block at a multiple of its size. A system that caches files in
     * large pages can then use them for these files, and mapped files are faster to read. Not by
     * stdio, which would write its buffer even when an abandoned file is closed. */
    BLOCK = 2 << 20
};

/* ---- temporary names ------------------------------------------------------------------------- */

/* The place of processes as a number; 0: unknown, as are their beginnings. */
static uint32_t file_place_here(void) {
    char place[SMOE_PROCESS_PLACE];
    smoe_process_place(place);
    return smoe_process_began(getpid()) ? (uint32_t)smoe_digest_number(place, strlen(place)) : 0;
}

char *smoe_file_temporary(const char *path, int try) {
    enum { NAME_MOST = 180 }; /* of its bytes; of 255 that names may have */
    const char *name = basename(path);
    size_t length = strnlen(name, NAME_MOST);
    return smoe_text_format("%.*s" SMOE_FILE_TEMPORARY "%08" PRIx32 "-%ld-%" PRIx64 "-%d",
                            (int)(name + length - path), path, file_place_here(), (long)getpid(),
                            smoe_process_began(getpid()), try);
}

/* Whether the file with that name is a temporary one of a process that is gone. Of one on another
 * machine only the age of the file is known. */
static bool is_gone(const char *path, const char *name, smoe_file_which which) {
    enum { SECONDS = 60 };
    struct stat there;
    uint32_t place;
    uint64_t began;
    long pid;
    int end = 0;
    const char *mark = strstr(name, SMOE_FILE_TEMPORARY) + strlen(SMOE_FILE_TEMPORARY);
    int found = sscanf(mark, "%8" SCNx32 "-%ld-%" SCNx64 "-%*d%n", &place, &pid, &began, &end);
    if (found != 3 || !end || mark[end] || lstat(path, &there) || there.st_uid != geteuid())
        return false;
    if (place && place == file_place_here()) return smoe_process_began((pid_t)pid) != began;
    return which == SMOE_FILE_GONE_OR_OLD && time(NULL) - there.st_mtime > SECONDS;
}

bool smoe_file_is_left(const char *path, smoe_file_which which) {
    const char *name = basename(path);
    return strstr(name, SMOE_FILE_TEMPORARY) &&
           (which == SMOE_FILE_ALL || is_gone(path, name, which));
}

int smoe_file_sweep(const char *folder, smoe_file_which which, smoe_err *err) {
    SMOE_FREED char **names = smoe_file_names(folder);
    if (!names) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read the folder", folder);
    for (char **name = names; *name; name++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", folder, *name);
        if (smoe_file_is_left(path, which) && smoe_file_remove(path, err)) return -1;
    }
    return 0;
}

/* Removes what processes that are gone left in the folder of path, if that can be done; once, as
 * far as folders that were seen are remembered. */
static void file_tidy(const char *path) {
    static _Atomic uint64_t seen[16];
    struct stat there;
    SMOE_FREED char *folder = smoe_file_folder(path);
    if (!stat(folder, &there)) {
        const uint64_t key = (uint64_t)there.st_ino ^ (uint64_t)there.st_dev << 40;
        if (atomic_exchange(&seen[key % 16], key) != key)
            (void)!smoe_file_sweep(folder, SMOE_FILE_GONE, NULL);
    }
}

/* ---- files that are not whole yet ------------------------------------------------------------ */

/* Their temporary names, for smoe_file_drop. The names are copied, since a handler of signals may
 * read them while another thread frees its own. Files for which there is no entry are left to the
 * next process. */
static struct {
    atomic_bool taken;
    char path[PATH_MAX];
} unfinished[8];

/* The number of the entry that has the path now, from 1; 0: none is free. */
static size_t file_begin(const char *path) {
    for (size_t i = 0; i < SMOE_COUNT(unfinished); i++) {
        bool free_entry = false;
        if (!atomic_compare_exchange_strong(&unfinished[i].taken, &free_entry, true)) continue;
        snprintf(unfinished[i].path, PATH_MAX, "%s", path);
        return i + 1;
    }
    return 0;
}

/* Whole, removed, or not made at all. */
static void file_end(smoe_file *file) {
    if (file->entry) {
        *unfinished[file->entry - 1].path = '\0';
        atomic_store(&unfinished[file->entry - 1].taken, false);
    }
    free(file->temporary);
    file->temporary = NULL;
    file->entry = 0;
}

void smoe_file_drop(void) {
    for (size_t i = 0; i < SMOE_COUNT(unfinished); i++)
        if (*unfinished[i].path) unlink(unfinished[i].path);
    for (size_t i = 0; i < SMOE_COUNT(unfinished); i++)
        if (*unfinished[i].path) rmdir(unfinished[i].path);
}

void smoe_file_drop_empty(const char *folder) {
    (void)file_begin(folder);
}

/* ---- files ----------------------------------------------------------------------------------- */

int smoe_file_create(smoe_file *file, const char *path, smoe_err *err) {
    *file = (smoe_file){.fd = -1, .path = smoe_alloc_text(path)};
    struct stat there;
    if (!stat(path, &there) && !S_ISREG(there.st_mode)) {
        file->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        file_tidy(path);
        for (int try = 0; try < TRIES; try++) {
            file_end(file);
            file->temporary = smoe_file_temporary(path, try);
            file->entry = file_begin(file->temporary);
            file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (file->fd >= 0 || errno != EEXIST) break;
        }
    }
    if (file->fd >= 0) return 0;
    smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", path);
    file_end(file); /* not ours: it was never made */
    smoe_file_abandon(file);
    return -1;
}

int smoe_file_write_fd(int fd, const void *bytes, size_t size) {
    const char *next = bytes;
    while (size) {
        ssize_t n = write(fd, next, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        next += n;
        size -= (size_t)n;
    }
    return 0;
}

static int file_refused(smoe_file *file, smoe_err *err) {
    smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", file->path);
    smoe_file_abandon(file);
    return -1;
}

static int write_held(smoe_file *file) {
    size_t size = file->holds;
    file->holds = 0;
    return smoe_file_write_fd(file->fd, file->held, size);
}

int smoe_file_put(smoe_file *file, const void *bytes, size_t size, smoe_err *err) {
    const char *next = bytes;
    if (!file->held) file->held = smoe_alloc(BLOCK, 1);
    for (size_t n; size; next += n, size -= n) {
        n = size < BLOCK - file->holds ? size : BLOCK - file->holds;
        memcpy(file->held + file->holds, next, n);
        file->holds += n;
        if (file->holds == BLOCK && write_held(file)) return file_refused(file, err);
    }
    return 0;
}

int smoe_file_patch(smoe_file *file, size_t at, const void *bytes, size_t size, smoe_err *err) {
    const char *next = bytes;
    if (write_held(file)) return file_refused(file, err);
    for (ssize_t n; size; next += n, at += (size_t)n, size -= (size_t)n) {
        n = pwrite(file->fd, next, size, (off_t)at);
        if (n < 0 && errno == EINTR) n = 0;
        if (n < 0) return file_refused(file, err);
    }
    return 0;
}

int smoe_file_sync_parent(const char *path, smoe_err *err) {
    SMOE_FREED char *folder = smoe_file_folder(path);
    return smoe_file_sync(folder, err);
}

/* Writes what is held, syncs and closes. */
static bool file_settle(smoe_file *file) {
    bool failed = write_held(file);
    /* A pipe or a device has nothing to sync and returns EINVAL. */
    if (!failed)
        failed = TEMP_FAILURE_RETRY(fsync(file->fd)) && (file->temporary || errno != EINVAL);
    if (failed) return false;
    failed = close(file->fd);
    file->fd = -1;
    return !failed;
}

int smoe_file_commit(smoe_file *file, smoe_err *err) {
    if (!file_settle(file) || (file->temporary && rename(file->temporary, file->path)))
        return file_refused(file, err);
    int status = file->temporary ? smoe_file_sync_parent(file->path, err) : 0;
    file_end(file); /* renamed: nothing for abandon to remove */
    smoe_file_abandon(file);
    return status;
}

void smoe_file_abandon(smoe_file *file) {
    if (file->fd >= 0) close(file->fd);
    if (file->temporary) unlink(file->temporary);
    file_end(file);
    free(file->path);
    free(file->held);
    *file = (smoe_file){.fd = -1};
}

int smoe_file_write(const char *path, const void *bytes, size_t size, smoe_err *err) {
    smoe_file file;
    if (smoe_file_create(&file, path, err)) return -1;
    if (smoe_file_put(&file, bytes, size, err)) return -1;
    return smoe_file_commit(&file, err);
}

/* Creates a file where hard links cannot be made: for a moment it is there without its bytes. */
static int create_alone(const char *path, const void *bytes, size_t size, smoe_err *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) return 0;
    int bad = fd < 0 || smoe_file_write_fd(fd, bytes, size);
    if (!bad) bad = TEMP_FAILURE_RETRY(fsync(fd));
    if (bad) smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", path);
    if (fd >= 0) close(fd);
    if (bad && fd >= 0) unlink(path);
    return bad ? -1 : 1;
}

static bool no_links(int code) {
    return code == EPERM || code == EOPNOTSUPP || code == ENOSYS || code == EMLINK;
}

int smoe_file_write_new(const char *path, const void *bytes, size_t size, smoe_err *err) {
    struct stat there;
    smoe_file file;
    if (!lstat(path, &there)) return 0;
    if (smoe_file_create(&file, path, err) || smoe_file_put(&file, bytes, size, err)) return -1;
    if (!file_settle(&file)) return file_refused(&file, err);
    int made = file.temporary && !link(file.temporary, path), code = errno;
    /* Over a network, a link that was made may be reported as one that exists. */
    if (!made && file.temporary && !stat(file.temporary, &there)) made = there.st_nlink == 2;
    if (!made && file.temporary && no_links(code)) {
        made = create_alone(path, bytes, size, err);
    } else if (!made && file.temporary && code != EEXIST) {
        errno = code;
        return file_refused(&file, err);
    }
    smoe_file_abandon(&file);
    return made;
}

int smoe_file_print(const char *path, smoe_file_printer *print, const void *context,
                    smoe_err *err) {
    SMOE_FREED char *text = NULL;
    size_t size = 0;
    FILE *out = smoe_alloc_stream(&text, &size);
    int status = print(out, context, err);
    smoe_alloc_stream_close(out, &text);
    return status ? -1 : smoe_file_write(path, text, size, err);
}

int smoe_file_open(const char *path, int flags, smoe_err *err) {
    struct stat there;
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    bool pipe = fd < 0 && errno == ENXIO; /* to be written to, and without a reader */
    if (fd < 0 && errno == ELOOP && flags & O_NOFOLLOW) {
        smoe_fail(err, SMOE_DATA, "%s: a symbolic link, which is not followed here", path);
    } else if (!pipe && (fd < 0 || fstat(fd, &there))) {
        bool writes = (flags & O_ACCMODE) != O_RDONLY;
        bool theirs = errno == ENOENT || (errno == EACCES && !writes);
        smoe_fail_errno(err, theirs ? SMOE_DATA : SMOE_RUNTIME, "%s: cannot %s", path,
                        writes && errno != ENOENT ? "write" : "open");
    } else if (pipe || !S_ISREG(there.st_mode)) {
        smoe_fail(err, SMOE_DATA, "%s: not a regular file%s", path,
                  !pipe && S_ISDIR(there.st_mode) ? ", but a folder" : "");
    } else {
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

int smoe_file_lock(int fd) {
    if (!TEMP_FAILURE_RETRY(flock(fd, LOCK_EX | LOCK_NB))) return 0;
    return errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -1;
}

static void stream_close(FILE **in) {
    if (*in) fclose(*in);
}

int smoe_file_read(const char *path, size_t most, char **text, size_t *size, smoe_err *err) {
    struct stat there;
    int fd = smoe_file_open(path, O_RDONLY, err);
    if (fd < 0) return -1;
    SMOE_FREED_BY(stream_close) FILE *in = fdopen(fd, "rb");
    if (!in || fstat(fd, &there)) {
        smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", path);
        if (!in) close(fd);
        return -1;
    }
    size_t bytes = (size_t)there.st_size;
    if ((uintmax_t)there.st_size > most)
        return smoe_fail(err, SMOE_DATA, "%s: %jd bytes, at most %zu are accepted", path,
                         (intmax_t)there.st_size, most);
    SMOE_FREED char *read = malloc(bytes + 1);
    if (!read) return smoe_fail(err, SMOE_RUNTIME, "%s: no memory for %zu bytes", path, bytes);
    *size = fread(read, 1, bytes, in);
    if (ferror(in)) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: at byte %zu", path, *size);
    read[*size] = '\0';
    *text = read;
    read = NULL; /* it is the caller's */
    return 0;
}

bool smoe_file_is_pointer(const void *bytes, size_t size) {
    static const char start[] = "version https://git-lfs.github.com/spec/";
    return size >= sizeof start - 1 && !memcmp(bytes, start, sizeof start - 1);
}

char *smoe_file_folder(const char *path) {
    size_t length = (size_t)(basename(path) - path);
    if (!length) return smoe_alloc_text(".");
    return smoe_alloc_part(path, length > 1 ? length - 1 : length);
}

char *smoe_file_beside(const char *path, const char *name) {
    return smoe_text_format("%.*s%s", (int)(basename(path) - path), path, name);
}

bool smoe_file_is_folder(const char *path) {
    struct stat there;
    return !stat(path, &there) && S_ISDIR(there.st_mode);
}

bool smoe_file_holds(const char *folder, const char *name) {
    SMOE_FREED char *path = smoe_text_format("%s/%s", folder, name);
    return !access(path, F_OK);
}

static int is_name(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

char **smoe_file_names(const char *folder) {
    SMOE_FREED struct dirent **list = NULL;
    int count = scandir(folder, &list, is_name, alphasort);
    if (count < 0) return NULL;
    size_t bytes = (size_t)(count + 1) * sizeof(char *);
    for (int i = 0; i < count; i++) bytes += strlen(list[i]->d_name) + 1;
    char **name = smoe_alloc(bytes, 1), *to = (char *)(name + count + 1);
    for (int i = 0; i < count; i++) {
        name[i] = to;
        to = stpcpy(to, list[i]->d_name) + 1;
        free(list[i]);
    }
    return name;
}

bool smoe_file_is_absent(const char *path) {
    return access(path, F_OK) && errno == ENOENT;
}

int smoe_file_sync(const char *path, smoe_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot open", path);
    /* Some file systems cannot sync a folder and return EINVAL: nothing more can be done there.
     */
    int failed = TEMP_FAILURE_RETRY(fsync(fd)) && errno != EINVAL;
    if (failed) smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot sync", path);
    close(fd);
    return failed ? -1 : 0;
}

/* A folder, or a link to one: 1: made; 0: it is there, or something else is; -1. */
static int make_one(const char *path, smoe_err *err) {
    if (!mkdir(path, 0777)) return 1;
    if (errno != EEXIST)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create the folder", path);
    return access(path, F_OK)
               ? smoe_fail(err, SMOE_RUNTIME, "%s: a symbolic link that leads nowhere", path)
               : 0;
}

/* Whether some name in the path, or all of it, is longer than file systems take. */
static bool is_too_long(const char *path) {
    bool too_long = strlen(path) >= PATH_MAX;
    for (size_t length; *path; path += length + (path[length] == '/')) {
        length = strcspn(path, "/");
        too_long |= length > NAME_MAX;
    }
    return too_long;
}

int smoe_file_make_parents(const char *path, smoe_err *err) {
    SMOE_FREED char *work = smoe_alloc_text(path);
    if (is_too_long(path)) { /* its parents are not made in vain */
        errno = ENAMETOOLONG;
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create the folder", path);
    }
    size_t end = strlen(work);
    while (end > 1 && work[end - 1] == '/')
        work[--end] = '\0'; /* the last name stays the caller's */
    for (char *slash = work + 1; end && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int made = make_one(work, err);
        if (made < 0 || (made && smoe_file_sync_parent(work, err))) return -1;
        *slash = '/';
    }
    return 0;
}

int smoe_file_make_folder(const char *path, smoe_err *err) {
    if (smoe_file_make_parents(path, err)) return -1;
    int made = make_one(path, err);
    return made > 0 ? smoe_file_sync_parent(path, err) : made;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st, (void)type, (void)where;
    return remove(path) && errno != ENOENT ? -1 : 0;
}

int smoe_file_remove(const char *path, smoe_err *err) {
    enum { OPEN_FOLDERS = 8 };
    if (!nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS)) return 0;
    if (errno == ENOENT) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot remove", path);
}

int smoe_file_remove_named(const char *folder, const char *pattern, smoe_err *err) {
    SMOE_FREED char **names = smoe_file_names(folder);
    if (!names && errno != ENOENT)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot be read", folder);
    regex_t expression;
    int status = 0;
    if (regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB)) smoe_alloc_end();
    for (char **name = names; name && *name && !status; name++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", folder, *name);
        if (!regexec(&expression, *name, 0, NULL, 0)) status = smoe_file_remove(path, err);
    }
    regfree(&expression);
    return status;
}

int smoe_file_no_link(const char *path, smoe_err *err) {
    struct stat there;
    if (lstat(path, &there) || !S_ISLNK(there.st_mode)) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: a symbolic link; within runs and sweeps only ckpt/latest and ckpt/best "
                     "may be links",
                     path);
}

int smoe_file_no_links(const char *folder, smoe_err *err) {
    SMOE_FREED char **names = smoe_file_names(folder);
    for (char **name = names; name && *name; name++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", folder, *name);
        if (smoe_file_no_link(path, err)) return -1;
    }
    return 0;
}

int smoe_file_link(const char *target, const char *path, smoe_err *err) {
    SMOE_FREED char *temporary = smoe_file_temporary(path, 0);
    bool failed = unlink(temporary) && errno != ENOENT;
    failed = failed || symlink(target, temporary) || rename(temporary, path);
    if (failed) {
        smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot link to %s", path, target);
        unlink(temporary);
    }
    return failed ? -1 : 0;
}
