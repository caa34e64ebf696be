/*
 * Files in a directory, or in a .tar, .tar.gz, .tgz or .zip archive (libarchive), visited one by
 * one through the same call. Nothing is unpacked to disk. Not here: the meaning of the files.
 *
 * Archives are not trusted: absolute names, "..", control characters, links, devices and members
 * larger than allowed are errors (SMOE_DATA) naming archive and member; so is a truncated or
 * damaged archive, with the byte of the archive where reading stopped. The checksums of gzip and
 * zip are checked; a plain tar has none for the contents of its members.
 */
#pragma once

#include "data/scan.h"

typedef enum smoe_place_kind {
    SMOE_PLACE_FOLDER,
    SMOE_PLACE_ARCHIVE,
    SMOE_PLACE_FILE
} smoe_place_kind;

/* The kind of a path: a directory, an archive (by the ending of its name), or a plain file. */
int smoe_place_kind_of(smoe_place_kind *kind, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* One file or folder of a walk; valid during the visit only. */
typedef struct smoe_member {
    const char *path; /* of the directory or archive */
    /* Inside it, "train/cat/0001.jpg"; in archives as UTF-8 where it is marked so; components "."
     * are gone, folders have no final '/'. */
    const char *name;
    bool folder;
    bool loop;               /* the folder is a link to one above it, and is not entered */
    const smoe_err *problem; /* why it cannot be used, with its path: a link to nothing, a folder
                                that cannot be read; NULL: it can */
    uint64_t size;           /* of files: the size in the header */
    uint64_t at;      /* of members of a plain tar: where their bytes are in the file; else 0 */
    uint64_t ordinal; /* position on the walk; the same on every walk of an unchanged archive */
    void *handle;
} smoe_member;

/* The visitor. It returns 0: go on; 1: go on, but do not enter this folder (directories only); -1:
 * stop, err is filled. */
typedef struct smoe_visitor {
    int (*visit)(void *user, const smoe_member *member, smoe_err *err);
    void *user;
    smoe_scan *scan;  /* of which the walk is a part, or NULL */
    size_t *unclosed; /* counts plain tars that end without empty blocks; NULL: nobody asks */
} smoe_visitor;

/*
 * Visits everything in a directory or archive; a plain file is visited as itself.
 * The order is that of the archive or the file system. Hidden names (a component beginning with
 * '.', and what systems and network storage leave among files, as __MACOSX, Thumbs.db and @eaDir)
 * are passed over. A name that cannot be used is visited with its problem.
 */
int smoe_walk(const char *path, const smoe_visitor *visitor, smoe_err *err) SMOE_MUST_CHECK;

/* Visits the files in a plain tar: `size` bytes of a file from `at` on (a tar may lie within a
 * tar), or all bytes from there on. Reads only headers, so that a large archive can be used in any
 * order without unpacking it. Names are as the tar has them; links, devices and folders are passed
 * over. Damage is SMOE_DATA with the offset. */
int smoe_walk_tar(const char *path, uint64_t at, uint64_t size, const smoe_visitor *visitor,
                  smoe_err *err) SMOE_MUST_CHECK;

/* Opens a file for reading at many places, besides `others` that are open; -1: it cannot be opened,
 * or too many are open. */
int smoe_place_open(const char *path, size_t others);

/* A fresh copy of `size` bytes of a file from `at` on, and a zero behind them. fd is the open file,
 * or -1. */
int smoe_place_read(uint8_t **bytes, int fd, const char *path, uint64_t at, size_t size,
                    smoe_err *err) SMOE_MUST_CHECK;

/* A name as a walk reports it, "a/b" for "./a/./b/"; fresh. And whether a walk skips it. */
char *smoe_member_plain(const char *name);
bool smoe_member_hidden(const char *name);

/* The bytes of the member being visited, at most `most`; the caller frees *bytes (never NULL on
 * success). Whatever its header claims, the memory is at most twice what was read, and 64 KiB. */
int smoe_member_read(const smoe_member *member, size_t most, uint8_t **bytes, size_t *size,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Reads the member being visited to its end without keeping it. */
int smoe_member_skim(const smoe_member *member, smoe_err *err) SMOE_MUST_CHECK;

/* Puts "PATH: NAME: " (archives) or "PATH/NAME: " (directories) before err. Returns -1. */
int smoe_place_prefix(smoe_place_kind kind, const char *path, const char *name, smoe_err *err);
