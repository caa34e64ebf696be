/*
 * Files that are either complete or absent: written under a temporary name beside the target,
 * synced, then renamed. Files left by a killed process are recognised by their name and removed
 * later.
 */
#pragma once

#include "base/base.h"

/* Every temporary file and directory has this in its name. */
#define SMOE_FILE_TEMPORARY ".tmp-"

/* A new temporary name beside path, which names this process; `try` distinguishes several. Files of
 * processes that are gone are removed by the next one that writes a file into the folder. */
char *smoe_file_temporary(const char *path, int try);

/* A file being written. An existing target that is not a regular file (a pipe, /dev/null) is
 * written directly. */
typedef struct smoe_file {
    int fd;          /* -1: closed */
    char *path;      /* the final name */
    char *temporary; /* the name until commit; NULL: written directly */
    size_t entry;    /* of what smoe_file_drop would remove; 0: none */
    char *held;      /* bytes that were put and are not written yet, less than a block: */
    size_t holds;    /* so many */
} smoe_file;

/* Create, put any number of times, then commit or abandon; a put or commit that fails abandons the
 * file. Errors are SMOE_RUNTIME, naming path; the old content of path survives them. */
int smoe_file_create(smoe_file *file, const char *path, smoe_err *err) SMOE_MUST_CHECK;
int smoe_file_put(smoe_file *file, const void *bytes, size_t size, smoe_err *err) SMOE_MUST_CHECK;
int smoe_file_commit(smoe_file *file, smoe_err *err) SMOE_MUST_CHECK;
/* Replaces bytes that were put, `at` bytes from the beginning; a pipe cannot (see `temporary`). */
int smoe_file_patch(smoe_file *file, size_t at, const void *bytes, size_t size,
                    smoe_err *err) SMOE_MUST_CHECK;
void smoe_file_abandon(smoe_file *file);

/* Removes the files that this process has not committed yet. For a handler of a signal that ends
 * the process: only calls that are safe there. */
void smoe_file_drop(void);

/* smoe_file_drop removes this folder too, if it is empty then. */
void smoe_file_drop_empty(const char *folder);

/* All three steps in one. */
int smoe_file_write(const char *path, const void *bytes, size_t size,
                    smoe_err *err) SMOE_MUST_CHECK;

/* So, but only where nothing has that name: 1: written; 0: something is there; -1: failed. It is
 * made by a hard link, so that it is never there without its bytes; only file systems without hard
 * links show it empty for a moment. */
int smoe_file_write_new(const char *path, const void *bytes, size_t size,
                        smoe_err *err) SMOE_MUST_CHECK;

/* As smoe_file_write for the output of a function, with a decimal point in numbers whatever the
 * caller's locale. The function returns 0, or fails with err filled; path is then unchanged. */
typedef int smoe_file_printer(FILE *out, const void *context, smoe_err *err);
int smoe_file_print(const char *path, smoe_file_printer *print, const void *context,
                    smoe_err *err) SMOE_MUST_CHECK;

/* Writes all bytes to fd, in spite of interruptions and short writes; 0, or -1 with errno. */
int smoe_file_write_fd(int fd, const void *bytes, size_t size) SMOE_MUST_CHECK;

/* Opens a regular file without blocking, as a pipe without a writer would. flags are those of
 * open(2); files are created with mode 0666. Returns the descriptor, or -1: SMOE_DATA if it does
 * not exist, may not be read, is not a regular file or, with O_NOFOLLOW, is a link, else
 * SMOE_RUNTIME. */
int smoe_file_open(const char *path, int flags, smoe_err *err) SMOE_MUST_CHECK;

/* Locks an open file or folder for this process without waiting, until it is closed. 0, also where
 * the file system has no locks, as some shared ones; -1: another process has it (EWOULDBLOCK in
 * errno), or the lock fails. */
int smoe_file_lock(int fd) SMOE_MUST_CHECK;

/* The whole of a regular file of at most `most` bytes in fresh memory with a NUL after it. A file
 * that does not exist, is not a regular file or is too large is SMOE_DATA; one that cannot be read
 * is SMOE_RUNTIME. */
int smoe_file_read(const char *path, size_t most, char **text, size_t *size,
                   smoe_err *err) SMOE_MUST_CHECK;

/* Whether the beginning of a file is that of a Git LFS pointer: text that stands for the file where
 * that was not fetched. SMOE_FILE_POINTER says so. */
#define SMOE_FILE_POINTER "a Git LFS pointer, not the file: `git lfs pull` fetches it"
bool smoe_file_is_pointer(const void *bytes, size_t size);

/* The folder of a path, "." if it names none; and the path of something called name beside it.
 * Fresh. */
char *smoe_file_folder(const char *path);
char *smoe_file_beside(const char *path, const char *name);

/* Whether path is a folder; whether something called name is in the folder. */
bool smoe_file_is_folder(const char *path);
bool smoe_file_holds(const char *folder, const char *name);

/* The names in a folder, sorted; fresh, in one piece, ending with NULL. NULL, with errno, where it
 * cannot be read. */
char **smoe_file_names(const char *folder);

/* Whether there is nothing of that name; false also where that cannot be found out, so that reading
 * it fails and says why. */
bool smoe_file_is_absent(const char *path);

/* Syncs a file, or a folder, so that a renamed or removed name in it survives a power cut. */
int smoe_file_sync(const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Syncs the folder of path. */
int smoe_file_sync_parent(const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Creates the missing folders above path, and syncs each into its own. */
int smoe_file_make_parents(const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* So, and the folder itself, which may be there. */
int smoe_file_make_folder(const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Removes a file or a whole tree, without following links; if it does not exist, that is success.
 * The result may be ignored when cleaning up after another failure. */
int smoe_file_remove(const char *path, smoe_err *err);

/* Removes what has a name of this extended regular expression in a folder, which may not exist. */
int smoe_file_remove_named(const char *folder, const char *pattern, smoe_err *err) SMOE_MUST_CHECK;

/* Points the symbolic link path at target, replacing an older link at once. */
int smoe_file_link(const char *target, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Fails with SMOE_DATA if path is a symbolic link; and if one is directly in the folder, whatever
 * its name. In a run or a sweep it would lead to files of others. What is not there is none. */
int smoe_file_no_link(const char *path, smoe_err *err) SMOE_MUST_CHECK;
int smoe_file_no_links(const char *folder, smoe_err *err) SMOE_MUST_CHECK;

/* What is temporary and left over: everything; or, where several processes write into a folder,
 * files and links of processes that are gone, and with GONE_OR_OLD those of other machines if
 * nothing was written to them for a minute. */
typedef enum smoe_file_which {
    SMOE_FILE_ALL,
    SMOE_FILE_GONE_OR_OLD,
    SMOE_FILE_GONE
} smoe_file_which;
bool smoe_file_is_left(const char *path, smoe_file_which which);
/* Removes what is left over directly in folder. */
int smoe_file_sweep(const char *folder, smoe_file_which which, smoe_err *err) SMOE_MUST_CHECK;
