/* Files that appear whole or not at all: output written in pieces of any size, full disks, and
 * files that are abandoned. */
#include "base/file.h"
#include "base/stop.h"
#include "scratch.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The size of the blocks that file.c writes: pieces are shorter, equally long, and longer. */
enum { BLOCK = 2 << 20 };

static void put_in_pieces(void **state) {
    static const size_t sizes[] = {1, BLOCK - 2, 1,         1, BLOCK, 7, 3 * BLOCK + 5,
                                   0, BLOCK - 8, 2 * BLOCK, 3};
    enum { PIECES = sizeof sizes / sizeof *sizes };
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    size_t total = 0, at = 0, read;
    for (size_t i = 0; i < PIECES; i++) total += sizes[i];
    unsigned char *bytes = malloc(total);
    assert_non_null(bytes);
    for (size_t i = 0; i < total; i++) bytes[i] = (unsigned char)((uint32_t)i * 2654435761u >> 24);
    smoe_file file;
    smoe_err err = {0};
    assert_int_equal(smoe_file_create(&file, scratch_path(s, path, "pieces"), &err), 0);
    for (size_t i = 0; i < PIECES; at += sizes[i++])
        assert_int_equal(smoe_file_put(&file, bytes + at, sizes[i], &err), 0);
    assert_int_equal(smoe_file_commit(&file, &err), 0);
    char *whole = scratch_read(path, &read);
    assert_int_equal(read, total);
    assert_memory_equal(whole, bytes, total);
    free(whole);

    assert_int_equal(smoe_file_write(scratch_path(s, path, "empty"), NULL, 0, &err), 0);
    free(scratch_read(path, &read));
    assert_int_equal(read, 0);
    assert_int_equal(scratch_entries(s->dir), 2);
    free(bytes);
}

/* A full disk is reported by the put that fills it or, if little was put, by commit. */
static void full_disks(void **state) {
    const size_t sizes[] = {10, BLOCK, BLOCK + 10};
    char *bytes = calloc(BLOCK + 10, 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < 3; i++) {
        smoe_file file;
        smoe_err err = {0};
        assert_int_equal(smoe_file_create(&file, "/dev/full", &err), 0);
        int put = smoe_file_put(&file, bytes, sizes[i], &err);
        assert_int_equal(put, i ? -1 : 0);
        if (!put) assert_int_equal(smoe_file_commit(&file, &err), -1);
        assert_int_equal(err.code, SMOE_RUNTIME);
        assert_string_equal(err.text, "/dev/full: cannot write: No space left on device");
        assert_int_equal(file.fd, -1);
    }
    free(bytes);
}

static void abandoned_files_leave_nothing(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    smoe_file file;
    smoe_err err = {0};
    assert_int_equal(smoe_file_write(scratch_path(s, path, "old"), "old", 3, &err), 0);
    assert_int_equal(smoe_file_create(&file, path, &err), 0);
    assert_int_equal(smoe_file_put(&file, "new", 3, &err), 0);
    assert_int_equal(scratch_entries(s->dir), 2);
    smoe_file_abandon(&file);
    assert_int_equal(scratch_entries(s->dir), 1);
    char *text = scratch_read(path, NULL);
    assert_string_equal(text, "old");
    free(text);
}

/* The library's link(2), which can be made to fail, as on a file system without hard links. */
static int link_fails;
int link(const char *from, const char *to) {
    errno = link_fails;
    return link_fails ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* A signal that ends the process lets it remove what is temporary, of more files than one; a file
 * that was committed, and one that another file took the entry of, stay. */
static void ended_by_a_signal(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    int status;
    pid_t child = fork();
    if (!child) {
        smoe_file whole, one, two;
        smoe_err err = {0};
        smoe_stop_clean();
        if (smoe_file_create(&whole, scratch_path(s, path, "whole"), &err) ||
            smoe_file_create(&one, scratch_path(s, path, "one"), &err) ||
            smoe_file_commit(&whole, &err) ||
            smoe_file_create(&two, scratch_path(s, path, "two"), &err) ||
            smoe_file_put(&two, "1", 1, &err))
            _exit(1);
        raise(SIGTERM);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(scratch_entries(s->dir), 1);
    assert_int_equal(access(scratch_path(s, path, "whole"), F_OK), 0);
}

/* A new file does not replace what has its name, even a link to nothing, and leaves no other. */
static void new_files_replace_nothing(void **state) {
    static const int codes[] = {0, EPERM, EOPNOTSUPP};
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        link_fails = codes[i];
        scratch_path(s, path, "new");
        assert_int_equal(smoe_file_write_new(path, "first", 5, &err), 1);
        assert_int_equal(smoe_file_write_new(path, "second", 6, &err), 0);
        char *text = scratch_read(path, NULL);
        assert_string_equal(text, "first");
        free(text);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink("nothing", path), 0);
        assert_int_equal(smoe_file_write_new(path, "third", 5, &err), 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(scratch_entries(s->dir), 0);
    }
    link_fails = EIO;
    assert_int_equal(smoe_file_write_new(path, "first", 5, &err), -1);
    assert_non_null(strstr(err.text, "Input/output error"));
    assert_int_equal(scratch_entries(s->dir), 0);
    link_fails = 0;
}

/* Whoever finds a new file finds its bytes in it. */
static void never_empty(void **state) {
    enum { TURNS = 200 };
    char path[SCRATCH_PATH], text[8];
    smoe_err err = {0};
    scratch_path(*state, path, "new");
    pid_t pid = fork();
    if (!pid) {
        for (int i = 0; i < TURNS; i++)
            if (smoe_file_write_new(path, "bytes", 5, &err) != 1 || unlink(path)) _exit(1);
        _exit(0);
    }
    int status, empty = 0;
    while (!waitpid(pid, &status, WNOHANG)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        empty += fd >= 0 && read(fd, text, sizeof text) != 5;
        if (fd >= 0) close(fd);
    }
    assert_int_equal(status, 0);
    assert_int_equal(empty, 0);
}

/* What a process left is removed by the next one that writes into the folder, but only when the
 * process is gone, and only names that the program makes. */
static void leftovers(void **state) {
    static const char *const others[] = {"folder/a.tmp-", "folder/b.tmp-2026-11-26",
                                         "folder/c.tmp-0000000a-7-1f-0", "folder/d.tmp-7-0",
                                         "folder/e.tmp-00000000-7-0-0"};
    enum { OTHERS = sizeof others / sizeof *others };
    char path[SCRATCH_PATH], folder[SCRATCH_PATH];
    smoe_err err = {0};
    int status, ready[2];
    char byte;
    scratch_path(*state, folder, "folder");
    for (int killed = 0; killed < 2; killed++) {
        assert_int_equal(mkdir(folder, 0777), 0);
        for (size_t i = 0; i < OTHERS; i++)
            scratch_write(scratch_path(*state, path, others[i]), "mine", 4);
        scratch_path(*state, path, "folder/out");
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork();
        if (!pid) {
            smoe_file file;
            if (smoe_file_create(&file, path, &err)) _exit(1);
            if (smoe_file_put(&file, "half", 4, &err) || write(ready[1], "x", 1) != 1) _exit(2);
            for (;;) pause();
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_int_equal(scratch_entries(folder), OTHERS + 1);
        if (killed) kill(pid, SIGKILL);
        if (killed) assert_int_equal(waitpid(pid, &status, 0), pid);
        pid_t next = fork(); /* which has seen no folder yet */
        if (!next) _exit(smoe_file_write(path, "whole", 5, &err) ? 1 : 0);
        assert_int_equal(waitpid(next, &status, 0), next);
        assert_int_equal(status, 0);
        assert_int_equal(scratch_entries(folder), OTHERS + 1 + (killed ? 0 : 1));
        if (!killed) kill(pid, SIGKILL);
        if (!killed) assert_int_equal(waitpid(pid, &status, 0), pid);
        close(ready[0]);
        close(ready[1]);
        assert_int_equal(smoe_file_remove(folder, &err), 0);
    }
}

/* A name may have 255 bytes, which leaves no room for the ending of a temporary one. */
static void long_names(void **state) {
    char name[256], path[SCRATCH_PATH];
    smoe_err err = {0};
    memset(name, 'n', 255);
    name[255] = '\0';
    scratch_path(*state, path, name);
    assert_int_equal(smoe_file_write(path, "text", 4, &err), 0);
    assert_int_equal(smoe_file_link("target", path, &err), 0);
    assert_int_equal(scratch_entries(((const scratch *)*state)->dir), 1);
}

/* What cannot be looked at may be there: here a link to itself, and a path through a file. */
static void absent_files(void **state) {
    char path[SCRATCH_PATH], through[SCRATCH_PATH + 8];
    smoe_err err = {0};
    assert_true(smoe_file_is_absent(scratch_path(*state, path, "file")));
    assert_int_equal(smoe_file_write(path, "text", 4, &err), 0);
    assert_false(smoe_file_is_absent(path));
    snprintf(through, sizeof through, "%s/file", path);
    assert_false(smoe_file_is_absent(through));
    scratch_path(*state, path, "link");
    assert_int_equal(symlink("nowhere", path), 0);
    assert_true(smoe_file_is_absent(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("link", path), 0);
    assert_false(smoe_file_is_absent(path));
}

static void folders_of_paths(void **state) {
    static const char *const cases[][3] = {
        {"a/b/c", "a/b", "a/b/x"}, {"c", ".", "x"}, {"./c", ".", "./x"}, {"/c", "/", "/x"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SMOE_FREED char *folder = smoe_file_folder(cases[i][0]);
        SMOE_FREED char *beside = smoe_file_beside(cases[i][0], "x");
        assert_string_equal(folder, cases[i][1]);
        assert_string_equal(beside, cases[i][2]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* first, since the processes that it starts know the folders that this one has seen */
        unit_test_with(leftovers, scratch),
        unit_test_with(put_in_pieces, scratch),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(folders_of_paths),
        unit_test_with(abandoned_files_leave_nothing, scratch),
        unit_test_with(new_files_replace_nothing, scratch),
        unit_test_with(absent_files, scratch),
        unit_test_with(long_names, scratch),
        unit_test_with(never_empty, scratch),
        unit_test_with(ended_by_a_signal, scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
