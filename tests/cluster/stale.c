/*
 * A file system as of a cluster, for tests: each mount shows the same folder, and keeps what it
 * knows of names, sizes and missing files for STALE seconds, so that changes by another mount are
 * seen late. Locks are refused (ENOLCK), and so are hard links and exchanges of names. Opening a
 * file looks at its current content, as NFS does (close to open).
 *
 *     stale FOLDER MOUNTPOINT     both absolute; in the foreground until it is unmounted
 */
#define FUSE_USE_VERSION 31
#include <fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const double STALE = 3;
static const char *folder;

typedef struct place {
    char path[PATH_MAX];
} place;

static const char *under(place *at, const char *path) {
    int n = snprintf(at->path, sizeof at->path, "%s%s", folder, path);
    if (n < 0 || (size_t)n >= sizeof at->path) at->path[0] = '\0'; /* which is not found */
    return at->path;
}

/* The result of a system call in the form that FUSE expects. */
static int done(int result) {
    return result < 0 ? -errno : 0;
}

static void *stale_init(struct fuse_conn_info *conn, struct fuse_config *config) {
    (void)conn;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = STALE;
    config->auto_cache = config->use_ino = config->hard_remove = 1;
    return NULL;
}

static int stale_getattr(const char *path, struct stat *st, struct fuse_file_info *file) {
    place at;
    return done(file ? fstat((int)file->fh, st) : lstat(under(&at, path), st));
}

static int stale_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                         struct fuse_file_info *file, enum fuse_readdir_flags flags) {
    (void)offset, (void)file, (void)flags;
    place at;
    DIR *dir = opendir(under(&at, path));
    if (!dir) return -errno;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st = {.st_ino = entry->d_ino, .st_mode = (mode_t)DTTOIF(entry->d_type)};
        if (fill(buffer, entry->d_name, &st, 0, 0)) break;
    }
    closedir(dir);
    return 0;
}

static int stale_readlink(const char *path, char *target, size_t size) {
    place at;
    ssize_t n = readlink(under(&at, path), target, size - 1);
    if (n < 0) return -errno;
    target[n] = '\0';
    return 0;
}

static int keep(struct fuse_file_info *file, int fd) {
    if (fd < 0) return -errno;
    file->fh = (uint64_t)fd;
    return 0;
}

/* Without O_APPEND: the kernel computes the offset of appended data itself, from the size that it
 * knows. */
static int stale_open(const char *path, struct fuse_file_info *file) {
    place at;
    return keep(file, open(under(&at, path), file->flags & ~O_APPEND));
}

static int stale_create(const char *path, mode_t mode, struct fuse_file_info *file) {
    place at;
    return keep(file, open(under(&at, path), file->flags & ~O_APPEND, mode));
}

static int stale_read(const char *path, char *out, size_t size, off_t offset,
                      struct fuse_file_info *file) {
    (void)path;
    ssize_t n = pread((int)file->fh, out, size, offset);
    return n < 0 ? -errno : (int)n;
}

static int stale_write(const char *path, const char *in, size_t size, off_t offset,
                       struct fuse_file_info *file) {
    (void)path;
    ssize_t n = pwrite((int)file->fh, in, size, offset);
    return n < 0 ? -errno : (int)n;
}

static int stale_release(const char *path, struct fuse_file_info *file) {
    (void)path;
    return done(close((int)file->fh));
}

static int stale_fsync(const char *path, int data, struct fuse_file_info *file) {
    (void)path;
    return done(data ? fdatasync((int)file->fh) : fsync((int)file->fh));
}

static int stale_truncate(const char *path, off_t size, struct fuse_file_info *file) {
    place at;
    return done(file ? ftruncate((int)file->fh, size) : truncate(under(&at, path), size));
}

static int stale_mkdir(const char *path, mode_t mode) {
    place at;
    return done(mkdir(under(&at, path), mode));
}

static int stale_unlink(const char *path) {
    place at;
    return done(unlink(under(&at, path)));
}

static int stale_rmdir(const char *path) {
    place at;
    return done(rmdir(under(&at, path)));
}

static int stale_symlink(const char *target, const char *path) {
    place at;
    return done(symlink(target, under(&at, path)));
}

static int stale_rename(const char *path, const char *to, unsigned flags) {
    place at, other;
    if (flags) return -EINVAL;
    return done(rename(under(&at, path), under(&other, to)));
}

static int stale_link(const char *path, const char *to) {
    (void)path, (void)to;
    return -EPERM;
}

static int stale_chmod(const char *path, mode_t mode, struct fuse_file_info *file) {
    (void)file;
    place at;
    return done(chmod(under(&at, path), mode));
}

static int stale_utimens(const char *path, const struct timespec times[2],
                         struct fuse_file_info *file) {
    (void)file;
    place at;
    return done(utimensat(AT_FDCWD, under(&at, path), times, AT_SYMLINK_NOFOLLOW));
}

static int stale_statfs(const char *path, struct statvfs *st) {
    place at;
    return done(statvfs(under(&at, path), st));
}

static int stale_flock(const char *path, struct fuse_file_info *file, int operation) {
    (void)path, (void)file, (void)operation;
    return -ENOLCK;
}

static int stale_lock(const char *path, struct fuse_file_info *file, int command,
                      struct flock *lock) {
    (void)path, (void)file, (void)command, (void)lock;
    return -ENOLCK;
}

static const struct fuse_operations operations = {
    .init = stale_init,
    .getattr = stale_getattr,
    .readdir = stale_readdir,
    .readlink = stale_readlink,
    .open = stale_open,
    .create = stale_create,
    .read = stale_read,
    .write = stale_write,
    .release = stale_release,
    .fsync = stale_fsync,
    .truncate = stale_truncate,
    .mkdir = stale_mkdir,
    .unlink = stale_unlink,
    .rmdir = stale_rmdir,
    .symlink = stale_symlink,
    .rename = stale_rename,
    .link = stale_link,
    .chmod = stale_chmod,
    .utimens = stale_utimens,
    .statfs = stale_statfs,
    .flock = stale_flock,
    .lock = stale_lock,
};

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    folder = argv[1];
    char *own[] = {argv[0], "-f", argv[2], NULL};
    return fuse_main(3, own, &operations, NULL);
}
