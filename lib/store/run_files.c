/* Files that a run has beside its records; see run_files.h. */
#include "store/run_files.h"
#include "base/file.h"
#include "store/records.h"
#include "base/json.h"

#include <errno.h>
#include <fts.h>
#include <sha256.h>

int smoe_run_own(const char *dir, smoe_err *err) {
    static const char *const names[] = {
        "metrics.jsonl", "ckpt",       "spec.yaml",       "env.json",        "log.txt",
        "STATUS",        SMOE_RUN_CSV, SMOE_RUN_OUTCOMES, SMOE_RUN_MANIFEST, SMOE_RUN_EVENTS};
    for (size_t i = 0; i < SMOE_COUNT(names); i++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", dir, names[i]);
        if (smoe_file_no_link(path, err)) return -1;
    }
    return 0;
}

/* ---- metrics.csv ----------------------------------------------------------------------------- */

typedef struct sheet {
    const char *path; /* of the records */
    json_t *columns;  /* {name: ...}, in order */
} sheet;

static void put_cell(FILE *out, const json_t *value, const char *before) {
    SMOE_FREED char *text = json_is_number(value) ? smoe_json_dump(value, 0) : NULL;
    fprintf(out, "%s%s", before, text ? text : "");
}

static int print_sheet(FILE *out, const void *context, smoe_err *err) {
    const sheet *s = context;
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = s->path};
    const char *key, *comma = "";
    json_t *unused;
    int more;
    json_object_foreach(s->columns, key, unused) {
        fprintf(out, "%s%s", comma, key);
        comma = ",";
    }
    fputc('\n', out);
    while ((more = smoe_records_next(&r, err)) > 0) {
        comma = "";
        json_object_foreach(s->columns, key, unused) {
            const json_t *value = json_object_get(r.json, key);
            size_t n = json_array_size(value);
            if (!n) put_cell(out, value, comma);
            for (size_t i = 0; i < n; i++) put_cell(out, json_array_get(value, i), i ? ";" : comma);
            comma = ",";
        }
        fputc('\n', out);
    }
    return more;
}

int smoe_run_csv(const char *dir, smoe_err *err) {
    SMOE_FREED char *from = smoe_text_format("%s/metrics.jsonl", dir);
    SMOE_FREED char *to = smoe_text_format("%s/" SMOE_RUN_CSV, dir);
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = from};
    json_auto_t *columns = json_object();
    int more;
    while ((more = smoe_records_next(&r, err)) > 0) json_object_update_missing(columns, r.json);
    if (more || !json_object_size(columns)) return more;
    return smoe_file_print(to, print_sheet, &(sheet){from, columns}, err);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void run_files_add_list(smoe_tfevents *events, const char *tag, const json_t *list) {
    size_t n = json_array_size(list);
    SMOE_FREED double *value = smoe_alloc((n + 1), sizeof *value);
    for (size_t i = 0; i < n; i++) value[i] = json_number_value(json_array_get(list, i));
    if (n) smoe_tfevents_histogram(events, tag, value, n);
}

int smoe_run_event(smoe_tfevents *events, const json_t *record, double seconds, smoe_err *err) {
    const char *key;
    json_t *value;
    char prefix[SMOE_RECORD_PREFIX];
    smoe_record_prefix(record, prefix);
    json_object_foreach((json_t *)record, key, value) {
        SMOE_FREED char *tag =
            smoe_text_format("%s%s", strncmp(key, "blocks.", 7) ? "" : prefix, key);
        if (json_is_array(value))
            run_files_add_list(events, tag, value);
        else if (json_is_number(value) && strcmp(key, "step"))
            smoe_tfevents_scalar(events, tag, json_number_value(value));
    }
    uint64_t step = (uint64_t)json_integer_value(json_object_get(record, "step"));
    return smoe_tfevents_put(events, seconds, step, err);
}

/* ---- MANIFEST.sha256 ------------------------------------------------------------------------- */

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Syncs the file first: after a power cut the list must not name more than is on the disk. */
static int manifest_add(FILE *out, const char *path, const char *name, smoe_err *err) {
    char hex[SMOE_SUM_SIZE];
    if (smoe_file_sync(path, err)) return -1;
    if (!SHA256File(path, hex)) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", path);
    fprintf(out, "%s  %s\n", hex, name);
    return 0;
}

int smoe_run_manifest(const char *dir, smoe_err *err) {
    SMOE_FREED char *to = smoe_text_format("%s/" SMOE_RUN_MANIFEST, dir);
    SMOE_FREED char *text = NULL;
    size_t size, above = strlen(dir) + 1;
    char *const roots[] = {(char *)dir, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    FILE *out = smoe_alloc_stream(&text, &size);
    int status = tree ? 0 : smoe_fail_errno(err, SMOE_RUNTIME, "%s", dir);
    while (!status) {
        errno = 0;
        FTSENT *e = fts_read(tree);
        if (!e && errno) status = smoe_fail_errno(err, SMOE_RUNTIME, "%s", dir);
        if (!e) break;
        bool skip = *e->fts_name == '.' || strstr(e->fts_name, SMOE_FILE_TEMPORARY);
        if (e->fts_level > 0 && skip) {
            fts_set(tree, e, FTS_SKIP);
        } else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS) {
            errno = e->fts_errno;
            status = smoe_fail_errno(err, SMOE_RUNTIME, "%s", e->fts_path);
        } else if (e->fts_info == FTS_F && strcmp(e->fts_path + above, SMOE_RUN_MANIFEST)) {
            status = manifest_add(out, e->fts_path, e->fts_path + above, err);
        }
    }
    if (tree) fts_close(tree);
    smoe_alloc_stream_close(out, &text);
    return status ? -1 : smoe_file_write(to, text, size, err);
}
