/* image-folder in directories and archives: what is refused, and how. */
#include "folders.h"
#include "data/loader.h"
#include "unit.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_no_data(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH];
    smoe_spec spec =
        datafiles_spec(SMOE_SOURCE_FOLDER, scratch_path(&f->dir, path, "none"), FOLDERS_SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
    spec.data.path = NULL;
    datafiles_refused(&spec, "train", SMOE_USAGE, "data.path", NULL);
    spec.data.path = path;
    assert_int_equal(mkdir(path, 0777), 0);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "no SPLIT/CLASS/ folders", "found nothing",
                      "smoe-spec(5) says how to make image files of arrays", NULL);
    datafiles_tree(path, &f->file[3], 1); /* train only */
    datafiles_refused(&spec, "test", SMOE_DATA, path, "no images in test/ or val/; it has train/",
                      NULL);
    scratch_write(scratch_path(&f->dir, path, "plain.txt"), "x", 1);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "neither a directory nor an archive",
                      "smoe-spec(5) says how to make image files of arrays", NULL);
    scratch_write(scratch_path(&f->dir, path, "empty.tar"), "", 0);
    datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
    scratch_write(scratch_path(&f->dir, path, "text.zip"), "this is no archive", 18);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte", NULL);
}

/* A zip that lost its end, and one with nothing in it. */
static void test_zip_without_end(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH];
    size_t size;
    folders_lay_out(f, path, "whole.zip", "");
    char *bytes = scratch_read(path, &size);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    scratch_write(scratch_path(&f->dir, path, "cut.zip"), bytes, size - 10);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "list of files", "is cut off", NULL);
    scratch_write(path, bytes, size / 2);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "list of files", "is cut off", NULL);
    scratch_write(path, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "a zip archive without files", NULL);
    free(bytes);
}

/* One more file makes the sample invalid, as a directory and as an archive. */
static void refused_with(folders *f, datafile extra, const char *word, const char *more) {
    static int number;
    char path[SCRATCH_PATH], name[32];
    f->file[f->count++] = extra;
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, k ? "bad%d.zip" : "bad%d", number++);
        folders_lay_out(f, path, name, "");
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
        datafiles_refused(&spec, "train", SMOE_DATA, path, word, more, NULL);
    }
    f->count--;
}

static void test_foreign_files(void **state) {
    folders *f = *state;
    f->count = FOLDERS_FILES; /* room for one more; ignored files have been tested */
    for (size_t i = FOLDERS_FILES; i < FOLDERS_FILES + 4; i++) free((void *)f->file[i].bytes);
    refused_with(f, (datafile){"train/a/notes.txt", "x", 1}, "train/a/notes.txt",
                 "unexpected file");
    refused_with(f, (datafile){"train/labels.png", "x", 1}, "train/labels.png", "unexpected file");
    refused_with(f, (datafile){"test/a/deep/x.png", "x", 1}, "the class a/deep is in test/",
                 "but not in train/");
    refused_with(f, (datafile){"train/a/z.gif.jpg", "GIF89a..", 8}, "train/a/z.gif.jpg",
                 "GIF image, but only JPEG, PNG and WebP are read");
    refused_with(f, (datafile){"train/a/z.txt.jpg", "text", 4}, "train/a/z.txt.jpg",
                 "unknown format: neither a JPEG, a PNG nor a WebP");
    refused_with(f, (datafile){"train/a/zero.jpg", "", 0}, "train/a/zero.jpg", "an empty file");
    refused_with(f, (datafile){"train/a/cut.jpg", f->file[0].bytes, f->file[0].size - 40},
                 "train/a/cut.jpg", "damaged JPEG");
    refused_with(f, (datafile){"train/a/cut.png", f->file[3].bytes, f->file[3].size - 20},
                 "train/a/cut.png", "damaged PNG");
    refused_with(f, (datafile){"train/empty/", NULL, 0}, "train/empty/", "empty class");
    refused_with(f, (datafile){"test/zebra/z.png", f->file[3].bytes, f->file[3].size},
                 "the class zebra is in test/", "but not in train/");
    refused_with(f, (datafile){"more/train/a/x.png", f->file[3].bytes, f->file[3].size}, "more/",
                 "a second set of splits, beside ");
}

/* A folder that is nearly right: the message lists what is there, in order, and the remedy. */
static void test_layouts_that_are_nearly_right(void **state) {
    folders *f = *state;
    datafile names[] = {{"Train/b/x.png", f->file[3].bytes, f->file[3].size},
                        {"Aside/y.png", f->file[3].bytes, f->file[3].size},
                        {"test/1.png", f->file[3].bytes, f->file[3].size}};
    char path[SCRATCH_PATH];
    smoe_spec spec =
        datafiles_spec(SMOE_SOURCE_FOLDER, scratch_path(&f->dir, path, "nearly"), FOLDERS_SIDE, 3);
    assert_int_equal(mkdir(path, 0777), 0);
    datafiles_tree(path, names, 2);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "found Aside/, Train/",
                      "names of splits are in lower case: if Train/ is one", NULL);
    datafiles_tree(path, &names[2], 1);
    datafiles_refused(&spec, "train", SMOE_DATA, path,
                      "found test/ without classes, Aside/, Train/", "if Train/ is one, rename it",
                      NULL);
    (void)scratch_path(&f->dir, path, "wrapped"); /* the spec has the buffer */
    assert_int_equal(mkdir(path, 0777), 0);
    names[0].name = "photos/Train/b/x.png";
    datafiles_tree(path, names, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "found photos/",
                      "if Train/ is one, rename it", NULL);
}

/* Of several bad files the first in file order is named, whatever the number of threads. */
static void test_first_failure_is_reported(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH];
    folders_lay_out(f, path, "dir", "");
    const datafile bad[] = {
        {"train/a-b/0.png", "x", 1}, {"train/a-b/9.png", "x", 1}, {"train/a/zz.png", "x", 1}};
    datafiles_tree(path, bad, 3);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    for (int trial = 0; trial < 20; trial++)
        datafiles_refused(&spec, "train", SMOE_DATA, "train/a/zz.png", NULL);
}

typedef struct trick {
    const char *name;
    unsigned type;
    const char *link; /* target of the hard or symbolic link */
    const char *word;
} trick;

/* A plain archive that is read by its headers is no different: links in a shard would be lost. */
static void test_tricks_in_archives(void **state) {
    static const trick tricks[] = {
        {"../train/a/x.png", AE_IFREG, NULL, "'..' in the name"},
        {"train/../../x.png", AE_IFREG, NULL, "'..' in the name"},
        {"/train/a/x.png", AE_IFREG, NULL, "an absolute name"},
        {"train/a/x\n.png", AE_IFREG, NULL, "a control character in the name"},
        {"train//x.png", AE_IFREG, NULL, "an empty folder name"},
        {"train/a/x.png", AE_IFLNK, "/etc/passwd", "a symbolic link"},
        {"train/a/x.png", AE_IFIFO, NULL, "a device or pipe"},
        {"train/a/x.png", AE_IFREG, "train/a/y.png", "a hard link"},
    };
    folders *f = *state;
    char path[SCRATCH_PATH], twice[SCRATCH_PATH];
    scratch_path(&f->dir, path, "t.tar");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_spec shards = datafiles_spec(SMOE_SOURCE_WEBDATASET,
                                      scratch_path(&f->dir, twice, "{t,t}.tar"), FOLDERS_SIDE, 3);
    shards.data.holdout = 1;
    for (size_t k = 0; k < sizeof tricks / sizeof *tricks; k++) {
        const trick *t = &tricks[k];
        struct archive *a = archive_write_new();
        struct archive_entry *entry = archive_entry_new();
        archive_write_set_format_ustar(a);
        assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
        archive_entry_set_pathname(entry, t->name);
        archive_entry_set_filetype(entry, t->type);
        archive_entry_set_size(entry, 0);
        if (t->link && t->type == AE_IFLNK) archive_entry_set_symlink(entry, t->link);
        if (t->link && t->type == AE_IFREG) archive_entry_set_hardlink(entry, t->link);
        assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
        archive_entry_free(entry);
        archive_write_close(a);
        archive_write_free(a);
        datafiles_refused(&spec, "train", SMOE_DATA, path, t->word, NULL);
        if (t->link || t->type != AE_IFREG)
            datafiles_refused(&shards, "train", SMOE_DATA, path, t->name, t->word, NULL);
    }
}

/* A tar header written by hand that claims 64 MiB and a byte, with no data after it; and the same
 * in gzip, where it is not known how much follows. */
static void test_huge_member(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH], header[1536] = "train/a/x.png";
    unsigned sum = 0;
    memcpy(header + 100, "0000644", 8);
    memcpy(header + 108, "0000000\0000000000", 16);
    snprintf(header + 124, 12, "%011o", (64u << 20) + 1);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    scratch_write(scratch_path(&f->dir, path, "huge.tar"), header, sizeof header);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    spec.data.cache_mb = 1024;
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte 0: the archive ends in a member",
                      NULL);
    size_t size;
    uint8_t *gzip = datafiles_gzip(header, sizeof header, &size);
    scratch_write(path, gzip, size);
    free(gzip);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "train/a/x.png",
                      "claims 67108865 bytes, at most 67108864", NULL);
}

static void test_twice_in_the_archive(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH];
    const datafile twice[] = {f->file[3], f->file[4], f->file[3]};
    datafiles_archive(scratch_path(&f->dir, path, "twice.tar"), twice, 3);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "train/a/x.png: twice", NULL);
}

/* An archive truncated anywhere is refused by name. A plain tar truncated between two members
 * looks complete to every reader: it may be accepted, but only with fewer images. */
static void test_cut_archives(void **state) {
    static const char *const name[] = {"a.tar", "a.tar.gz", "a.zip"};
    folders *f = *state;
    for (size_t k = 0; k < 3; k++) {
        char path[SCRATCH_PATH];
        size_t size, accepted = 0;
        folders_lay_out(f, path, name[k], "");
        char *whole = scratch_read(path, &size);
        size_t end = k ? size - 1 : size - 10240; /* the end of a tar is padded with zeros */
        for (size_t n = 1; n < end; n += 97) {
            scratch_write(path, whole, n);
            smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
            smoe_dataset *set;
            smoe_err err = {0};
            if (!smoe_dataset_open(&set, &spec, "train", NULL, &err)) {
                assert_int_equal(k, 0);
                assert_int_equal(n % 512, 0);
                accepted++;
            } else {
                assert_int_equal(err.code, SMOE_DATA);
                assert_non_null(strstr(err.text, path));
            }
            smoe_dataset_free(set);
        }
        assert_in_range(accepted, 0, 8);
        free(whole);
    }
}

/* One flipped bit anywhere in the data of a .tar.gz, its checksum or length: refused, although
 * most such bits leave a readable tar with other images or fewer. The gzip header before it may
 * hold a name and a time, which do not matter. */
static void test_flipped_gzip(void **state) {
    enum { GZIP_HEADER = 10 };
    folders *f = *state;
    char path[SCRATCH_PATH];
    size_t size;
    folders_lay_out(f, path, "a.tar.gz", "");
    char *bytes = scratch_read(path, &size);
    for (size_t n = GZIP_HEADER; n < size; n += n < size - 8 ? 31 : 1) {
        bytes[n] ^= (char)(1 << n % 8);
        scratch_write(path, bytes, size);
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
        datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
        bytes[n] ^= (char)(1 << n % 8);
    }
    bytes[size - 8] ^= 1;
    scratch_write(path, bytes, size);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "damaged gzip data near byte",
                      "incorrect data check", NULL);
    free(bytes);
}

/* Errors that opening cannot detect reach the caller of the loader, with the file's name, at
 * each call. */
static void test_damage_found_late(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH];
    folders_lay_out(f, path, "dir", "");
    const datafile cut = {"train/a/cut.png", f->file[3].bytes, f->file[3].size - 20};
    datafiles_tree(path, &cut, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    spec.data.cache_mb = 0; /* headers are checked, pixels are not */
    smoe_dataset *set = folders_open(&spec, "train");
    for (int train = 0; train < 2; train++) {
        smoe_loader_options options = {.batch_size = 2, .train = train};
        smoe_loader *loader;
        smoe_batch batch;
        smoe_err err = {0};
        int status = 1;
        assert_int_equal(smoe_loader_open(&loader, set, &spec, &options, &err), 0);
        for (int i = 0; i < 20 && status == 1; i++) status = smoe_loader_next(loader, &batch, &err);
        assert_int_equal(status, -1);
        assert_int_equal(err.code, SMOE_DATA);
        assert_non_null(strstr(err.text, "dir/train/a/cut.png: damaged PNG image"));
        memset(&err, 0, sizeof err);
        assert_int_equal(smoe_loader_next(loader, &batch, &err), -1);
        assert_non_null(strstr(err.text, "train/a/cut.png"));
        smoe_loader_free(loader);
    }
    smoe_dataset_free(set);
}

/* A folder that cannot be opened for want of a descriptor is not one to be left out. */
static void test_no_descriptor(void **state) {
    enum { LIMIT = 64 };
    folders *f = *state;
    char path[SCRATCH_PATH];
    struct rlimit before;
    int held[LIMIT], count = 0;
    folders_lay_out(f, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    spec.data.on_error = SMOE_ON_ERROR_SKIP;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){LIMIT, before.rlim_max}), 0);
    while (count < LIMIT && (held[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) count++;
    datafiles_refused(&spec, "train", SMOE_RUNTIME, "dir", "Too many open files", NULL);
    while (count > 0) close(held[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void) {
#define CASE(f) unit_test_with(f, folders)
    const struct CMUnitTest tests[] = {
        CASE(test_no_data),
        CASE(test_foreign_files),
        CASE(test_layouts_that_are_nearly_right),
        CASE(test_first_failure_is_reported),
        CASE(test_tricks_in_archives),
        CASE(test_huge_member),
        CASE(test_twice_in_the_archive),
        CASE(test_cut_archives),
        CASE(test_flipped_gzip),
        CASE(test_zip_without_end),
        CASE(test_damage_found_late),
        CASE(test_no_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
