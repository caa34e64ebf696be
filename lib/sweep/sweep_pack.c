/* Packing a sweep; see sweep.h. libarchive writes the tar.gz, which any tool unpacks. */
#include "sweep/sweep.h"
#include "sweep/evaluations.h"
#include "compare/outcomes.h"
#include "tensors/npy.h"
#include "sweep/trial.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>

enum { FILE_MOST = 1 << 30, BLOCK = 1 << 14 };

#define FIRST "cells.jsonl" /* the first file of a pack */

typedef struct pack {
    struct archive *archive;
    smoe_err *err;
    const char *path, *dir;
    bool losses; /* of each image; without them a contrast of losses would have another p-value */
} pack;

/* Of a file that cannot be written, libarchive's text does not say why. */
static int failed(const pack *p) {
    errno = archive_errno(p->archive);
    if (errno > 0) return smoe_fail_errno(p->err, SMOE_RUNTIME, "%s: cannot write", p->path);
    return smoe_fail(p->err, SMOE_RUNTIME, "%s: %s", p->path, archive_error_string(p->archive));
}

/* Owner, time and mode are left out, so that the same sweep gives the same bytes. */
static int sweep_pack_add(pack *p, const char *name, const void *bytes, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    if (!entry) smoe_alloc_end();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)size);
    int status = archive_write_header(p->archive, entry) == ARCHIVE_OK &&
                         archive_write_data(p->archive, bytes, size) == (la_ssize_t)size
                     ? 0
                     : failed(p);
    archive_entry_free(entry);
    return status;
}

static int add_file(pack *p, const char *name) {
    SMOE_FREED char *from = smoe_text_format("%s/%s", p->dir, name), *text = NULL;
    size_t size = 0;
    if (smoe_file_is_absent(from)) return 0;
    if (smoe_file_read(from, FILE_MOST, &text, &size, p->err)) return -1;
    return sweep_pack_add(p, name, text, size);
}

/* Adds which images a trial got right, or also their losses, if its outcomes exist. */
static int add_outcomes(pack *p, const smoe_sweep *sweep, size_t i) {
    SMOE_FREED char *path = smoe_trial_outcomes(sweep, i);
    SMOE_FREED float *outcome = NULL;
    size_t images = 0, size = 0;
    if (smoe_outcomes_read(&outcome, &images, path, 0, NAN, p->err)) return -1;
    if (!outcome) return 0;
    if (p->losses) return add_file(p, path + strlen(p->dir) + 1);
    SMOE_FREED uint8_t *right = smoe_alloc(images, 1);
    for (size_t k = 0; k < images; k++) right[k] = outcome[k] > 0;
    SMOE_FREED void *npy = smoe_npy_make(&size, "|b1", right, 1, &images);
    return sweep_pack_add(p, path + strlen(p->dir) + 1, npy, size);
}

static int pack_evaluations(pack *p, const smoe_sweep *sweep) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep table = {0};
    if (smoe_evaluations_table(&table, sweep, p->err)) return -1;
    for (size_t i = 0; i < sweep->trials; i++) {
        SMOE_FREED char *name =
            smoe_text_format("claims/%s.evaluations.json", sweep->trial[i].name);
        if (add_file(p, name)) return -1;
    }
    for (size_t i = 0; i < table.trials; i++)
        if (add_outcomes(p, &table, i)) return -1;
    return 0;
}

static int add_all(pack *p, const smoe_sweep *sweep, int fd) {
    if (archive_write_set_format_pax_restricted(p->archive) != ARCHIVE_OK ||
        archive_write_add_filter_gzip(p->archive) != ARCHIVE_OK ||
        archive_write_set_filter_option(p->archive, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
        archive_write_set_filter_option(p->archive, "gzip", "compression-level", "9") !=
            ARCHIVE_OK ||
        /* 0: whole blocks, also where the file is no tape, so that the bytes are always the same */
        archive_write_set_bytes_in_last_block(p->archive, 0) != ARCHIVE_OK ||
        archive_write_open_fd(p->archive, fd) != ARCHIVE_OK)
        return failed(p);
    if (add_file(p, FIRST)) return -1;
    for (size_t i = 0; i < sweep->trials; i++) {
        SMOE_FREED char *name = smoe_text_format("claims/%s.json", sweep->trial[i].name);
        if (sweep->trial[i].state == SMOE_TRIAL_DONE &&
            (add_file(p, name) || add_outcomes(p, sweep, i)))
            return -1;
    }
    if (sweep->evaluate.points && pack_evaluations(p, sweep)) return -1;
    return archive_write_close(p->archive) == ARCHIVE_OK ? 0 : failed(p);
}

int smoe_sweep_pack(const smoe_sweep *sweep, const char *path, smoe_err *err) {
    pack p = {.path = path, .dir = sweep->dir, .err = err};
    for (size_t i = 0; i < sweep->plan.primaries; i++)
        p.losses |= smoe_outcomes_column(sweep->plan.primary[i].measure) == 1;
    smoe_file file;
    if (smoe_trial_check_all(sweep, err) || smoe_file_create(&file, path, err)) return -1;
    p.archive = archive_write_new();
    if (!p.archive) smoe_alloc_end();
    int status = add_all(&p, sweep, file.fd);
    if (status) archive_write_fail(p.archive); /* nothing more is written */
    archive_write_free(p.archive);
    if (status)
        smoe_file_abandon(&file);
    else
        status = smoe_file_commit(&file, err);
    return status;
}

bool smoe_sweep_is_packed(const char *path) {
    struct archive *archive = archive_read_new();
    struct archive_entry *entry;
    const char *name = NULL; /* also of a name that cannot be converted */
    if (!archive) smoe_alloc_end();
    bool packed = archive_read_support_filter_gzip(archive) == ARCHIVE_OK &&
                  archive_read_support_format_tar(archive) == ARCHIVE_OK &&
                  archive_read_open_filename(archive, path, BLOCK) == ARCHIVE_OK &&
                  archive_read_next_header(archive, &entry) == ARCHIVE_OK &&
                  (name = archive_entry_pathname(entry)) && !strcmp(name, FIRST);
    archive_read_free(archive);
    return packed;
}
