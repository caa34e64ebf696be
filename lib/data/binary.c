/* Binary files and images of one size, see binary.h. */
#include "data/binary.h"
#include "base/digest.h"
#include "base/limits.h"

#include <fnmatch.h>
#include <zlib.h>

/* The largest known file is cifar100's train.bin, 154 MB. */
enum { MOST_BYTES = 1 << 30 };

/* ---- gzip ------------------------------------------------------------------------------------ */

/* Zeros that fill up the last block of a tape or a disk are not a gzip member. */
static bool only_zeros(const z_stream *z) {
    for (size_t i = 0; i < z->avail_in; i++)
        if (z->next_in[i]) return false;
    return true;
}

static void inflate_end(z_stream *z) {
    (void)inflateEnd(z);
}

int smoe_binary_inflate(uint8_t **bytes, size_t *size, size_t most, smoe_scan *scan,
                        smoe_err *err) {
    enum { FIRST_GUESS = 1 << 16 };
    if (*size < 2 || (*bytes)[0] != 0x1f || (*bytes)[1] != 0x8b) return 0;
    if (*size > UINT32_MAX)
        return smoe_fail(err, SMOE_DATA, "%zu bytes of gzip are more than is accepted", *size);
    size_t used = 0, room = FIRST_GUESS < most ? FIRST_GUESS : most;
    SMOE_FREED uint8_t *to = smoe_alloc(room + 1, 1);
    SMOE_FREED_BY(inflate_end) z_stream z = {.next_in = *bytes, .avail_in = (uInt)*size};
    if (inflateInit2(&z, 15 + 16) != Z_OK) smoe_alloc_end();
    for (bool more = true; more;) {
        if (used == room) {
            if (room >= most)
                return smoe_fail(err, SMOE_DATA, "inflates to more than the %zu bytes accepted",
                                 most);
            room = room * 2 < most ? room * 2 : most;
            uint8_t *larger = realloc(to, room + 1);
            if (!larger) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu bytes", room);
            to = larger;
        }
        z.next_out = to + used;
        z.avail_out = room - used < UINT32_MAX ? (uInt)(room - used) : UINT32_MAX;
        int code = inflate(&z, Z_NO_FLUSH);
        size_t at = *size - z.avail_in;
        used = (size_t)(z.next_out - to);
        if (code == Z_MEM_ERROR) return smoe_fail(err, SMOE_RUNTIME, "out of memory inflating");
        if (code != Z_OK && code != Z_BUF_ERROR && code != Z_STREAM_END)
            return smoe_fail(err, SMOE_DATA, "damaged gzip data near byte %zu: %s", at,
                             z.msg ? z.msg : "no message");
        if (code == Z_STREAM_END) /* a .gz may be several members one after another */
            more = !only_zeros(&z) && inflateReset(&z) == Z_OK;
        else if (!z.avail_in && z.avail_out)
            return smoe_fail(err, SMOE_DATA, "gzip data is truncated at byte %zu", at);
        else if (smoe_scan_asked(scan, err))
            return -1;
    }
    free(*bytes);
    *bytes = to;
    *size = used;
    to = NULL; /* it is the caller's */
    return 0;
}

/* ---- finding and reading --------------------------------------------------------------------- */

typedef struct search {
    smoe_binaries *files;
    const smoe_dataset *set;
    const char *pattern;
} search;

static int search_visit(void *user, const smoe_member *member, smoe_err *err) {
    search *s = user;
    smoe_binaries *f = s->files;
    const char *slash = strchr(member->name, '/'), *base = slash ? slash + 1 : member->name;
    if (strchr(base, '/')) return 1;
    if (member->folder) return slash || member->loop;
    smoe_binary found = {
        .base = smoe_alloc_part(base, strlen(base) - (smoe_text_ends(base, ".gz") ? 3 : 0))};
    if (fnmatch(s->pattern, found.base, FNM_EXTMATCH)) {
        free(found.base);
        return 0;
    }
    found.name = smoe_alloc_text(member->name);
    smoe_binary *file = &SMOE_APPEND(f->file, f->count);
    *file = found;
    if (member->problem && err) *err = *member->problem;
    if (member->problem || smoe_member_read(member, MOST_BYTES, &file->bytes, &file->size, err))
        return -1;
    size_t most = smoe_most_inflated(file->size);
    if (most > MOST_BYTES) most = MOST_BYTES;
    if (!smoe_binary_inflate(&file->bytes, &file->size, most, s->set->scan, err)) return 0;
    return smoe_place_prefix(f->kind, s->set->path, file->name, err);
}

static int compare_files(const void *a, const void *b) {
    const smoe_binary *x = a, *y = b;
    int order = strcmp(x->base, y->base);
    return order ? order : strcmp(x->name, y->name);
}

/* Refuses "data.bin" beside "data.bin.gz", or the same file in two folders, as ambiguous. */
static int check_twins(const smoe_binaries *f, const smoe_dataset *set, smoe_err *err) {
    for (size_t i = 1; i < f->count; i++) {
        if (strcmp(f->file[i - 1].base, f->file[i].base) != 0) continue;
        return smoe_fail(err, SMOE_DATA, "%s: has both %s and %s; only one of them is allowed",
                         set->path, f->file[i - 1].name, f->file[i].name);
    }
    return 0;
}

int smoe_binaries_read(smoe_binaries *files, smoe_dataset *set, const char *pattern,
                       smoe_err *err) {
    search s = {files, set, pattern};
    *files = (smoe_binaries){0};
    if (!strcmp(set->split, "val"))
        return smoe_fail(err, SMOE_DATA, "%s: %s has no split val; it has train and test",
                         set->path, set->name);
    if (smoe_place_kind_of(&files->kind, set->path, err) ||
        smoe_walk(set->path, &(smoe_visitor){search_visit, &s, set->scan}, err))
        return -1;
    if (files->count) qsort(files->file, files->count, sizeof *files->file, compare_files);
    return check_twins(files, set, err);
}

void smoe_binaries_free(smoe_binaries *files) {
    for (size_t i = 0; i < files->count; i++) {
        free(files->file[i].name);
        free(files->file[i].base);
        free(files->file[i].bytes);
    }
    free(files->file);
    *files = (smoe_binaries){0};
}

int smoe_binary_prefix(const smoe_binaries *files, const smoe_dataset *set, const smoe_binary *file,
                       size_t offset, smoe_err *err) {
    smoe_fail_prefix(err, "at byte %zu", offset);
    return smoe_place_prefix(files->kind, set->path, file->name, err);
}

/* ---- images of one size ---------------------------------------------------------------------- */

int smoe_binary_grid_make(smoe_dataset *set, const uint32_t *label, size_t n, size_t width,
                          size_t height, size_t channels, smoe_err *err) {
    size_t image = width * height * channels, to = 0;
    SMOE_FREED bool *keep = smoe_alloc(n, sizeof *keep);
    smoe_binary_grid *grid = set->store = smoe_alloc_in(&set->memory, 1, sizeof *grid);
    smoe_dataset_select(keep, label, n, set->named, set->data.limit);
    grid->place = smoe_alloc_in(&set->memory, n, sizeof *grid->place);
    set->label = smoe_alloc_in(&set->memory, n, sizeof *set->label);
    for (size_t i = 0; i < n; i++) {
        if (!keep[i]) continue;
        set->label[to] = label[i];
        grid->place[to++] = i;
    }
    set->images = to;
    grid->width = width;
    grid->height = height;
    grid->channels = channels;
    if (set->images > set->cache_bytes / image)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: %zu images of %zu bytes are more than data.cache_mb (%zu): raise it",
                         set->path, set->images, image, set->cache_bytes >> 20);
    smoe_arena_take(&set->pixels, set->images, image);
    if (smoe_arena_bind(&set->pixels, err))
        return smoe_fail_prefix(err, "%s: %zu images", set->path, set->images);
    grid->pixel = smoe_arena_take(&set->pixels, set->images, image);
    return 0;
}

int smoe_binary_grid_image(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                           smoe_image *work, smoe_image_header *header, smoe_err *err) {
    const smoe_binary_grid *grid = set->store;
    (void)work, (void)header;
    size_t image = grid->width * grid->height * grid->channels;
    smoe_image kept = {grid->width, grid->height, grid->channels, grid->pixel + i * image, 0};
    if (smoe_image_fit(out, set->size, &kept, crop, set->data.resize, err)) return -1;
    return smoe_image_convert(out, set->channels, err);
}

uint64_t smoe_binary_grid_contents(const smoe_dataset *set, uint64_t i) {
    const smoe_binary_grid *grid = set->store;
    size_t image = grid->width * grid->height * grid->channels;
    return smoe_digest_number(grid->pixel + i * image, image);
}

void smoe_binary_grid_image_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    const smoe_binary_grid *grid = set->store;
    snprintf(buf, size, "%s/%llu", set->split, (unsigned long long)grid->place[i]);
}
