/*
 * `image-folder`: images in folders that are their classes, or with a table of labels, in a
 * directory or an archive. folder.c lists the images; here they are read.
 *
 * Three ways to keep the images, decided at opening:
 *   pixels  decoded at image_size, when they fit in data.cache_mb and random boxes of larger
 *           originals are not wanted
 *   bytes   the files as they are, decoded when asked for; compressed archives always end here
 *           otherwise, and are refused when even that does not fit: they must be unpacked
 *   disk    a directory or a plain tar whose images are read again each time
 * Every header is checked at opening; images that fit in data.cache_mb are also decoded once then,
 * so that damage is found before training starts. With data.on_error skip every image is decoded
 * once, and left out if it cannot be.
 */
#include "data/folder.h"

#include <assert.h>
#include <unistd.h>

typedef smoe_folder folder;
typedef smoe_folder_image item;

static int compare_ordinals(const void *x, const void *y) {
    uint64_t a = (*(item *const *)x)->ordinal, b = (*(item *const *)y)->ordinal;
    return (a > b) - (a < b);
}

/* ---- the bytes of an archive ----------------------------------------------------------------- */

typedef struct fetching {
    item **missing; /* in the order of the archive */
    size_t next, count;
} fetching;

static int fetch_member(void *user, const smoe_member *member, smoe_err *err) {
    fetching *f = user;
    if (f->next == f->count || f->missing[f->next]->ordinal != member->ordinal) return 0;
    item *a = f->missing[f->next++];
    if (strcmp(a->name, member->name))
        return smoe_fail(err, SMOE_RUNTIME, "%s: changed while it was read", member->path);
    return smoe_member_read(member, SMOE_MOST_IMAGE_BYTES, &a->bytes, &a->size, err);
}

static int fetch_bytes(const smoe_dataset *set, const folder *of, smoe_err *err) {
    fetching f = {.missing = smoe_alloc(of->images, sizeof(item *))};
    size_t total = 0;
    for (item *a = of->image; a < of->image + of->images; a++) {
        if (a->tar) continue;
        total += a->size;
        if (!a->bytes) f.missing[f.count++] = a;
    }
    int status = 0;
    if (total > set->cache_bytes)
        status = smoe_fail(err, SMOE_USAGE,
                           "%s: the images of %s take %zu MiB, more than data.cache_mb (%zu): "
                           "unpack the archive, uncompress it to a .tar, or raise data.cache_mb",
                           set->path, set->split, (total >> 20) + 1, set->cache_bytes >> 20);
    else if (f.count && !set->listed) {
        qsort(f.missing, f.count, sizeof(item *), compare_ordinals);
        status = smoe_walk(set->path, &(smoe_visitor){fetch_member, &f, set->scan}, err);
        if (!status && f.next < f.count)
            status = smoe_fail(err, SMOE_RUNTIME, "%s: changed while it was read", set->path);
    }
    free(f.missing);
    return status;
}

/* ---- checking and decoding, image by image, in parallel -------------------------------------- */

/* The bytes of an image, `most` at most: those kept in memory are borrowed, and are all, others are
 * read into *own, which the caller frees. */
static const uint8_t *borrow_bytes(const smoe_dataset *set, const item *a, size_t most,
                                   uint8_t **own, size_t *size, smoe_err *err) {
    const folder *f = set->store;
    *own = NULL;
    *size = a->bytes || a->size < most ? a->size : most;
    if (a->bytes) return a->bytes;
    if (a->size > SMOE_MOST_IMAGE_BYTES) {
        smoe_fail(err, SMOE_DATA, "%zu bytes, at most %d are accepted", a->size,
                  SMOE_MOST_IMAGE_BYTES);
        return smoe_folder_prefix(set, a->name, err), NULL;
    }
    int fd = a->tar ? f->tar_fd[a->tar - 1] : -1;
    SMOE_FREED char *path = a->tar ? NULL : smoe_text_format("%s/%s", set->path, a->name);
    const char *where = a->tar ? f->tar[a->tar - 1] : path;
    return smoe_place_read(own, fd, where, a->at, *size, err) ? NULL : *own;
}

/* From the first bytes if they are enough: opening a folder should not read whole files. */
static int folder_header(const smoe_dataset *set, uint64_t i, smoe_image_header *header,
                         smoe_err *err) {
    enum { START = 1 << 16 };
    const item *a = &((const folder *)set->store)->image[i];
    for (size_t most = START;; most = SIZE_MAX) {
        SMOE_FREED uint8_t *own = NULL;
        size_t size;
        const uint8_t *bytes = borrow_bytes(set, a, most, &own, &size, err);
        if (!bytes) return -1;
        int status = smoe_decode_header(header, bytes, size, size < a->size ? NULL : err);
        if (!status) return 0;
        if (size == a->size) return smoe_folder_prefix(set, a->name, err);
    }
}

static int folder_image(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *image,
                        smoe_image *work, smoe_image_header *header, smoe_err *err) {
    const item *a = &((const folder *)set->store)->image[i];
    SMOE_FREED uint8_t *own = NULL;
    size_t size;
    const uint8_t *bytes = borrow_bytes(set, a, SIZE_MAX, &own, &size, err);
    if (!bytes) return -1;
    int status = smoe_decode_fit(image, &set->data, bytes, size, crop, work, header, err);
    return status ? smoe_folder_prefix(set, a->name, err) : 0;
}

/* What is done with all images on all threads. */
typedef struct work_on_images {
    smoe_dataset *set;
    smoe_image_header *header; /* [images] to fill */
} work_on_images;

/* An image that is to be kept is decoded when its header is read, so that its file is read once. */
static int look_at(void *context, size_t k, smoe_image *image, smoe_image *work, smoe_err *err) {
    const work_on_images *w = context;
    uint64_t i = smoe_dataset_place(w->set, k);
    if (!w->set->decoded.pixels || smoe_dataset_decoded(w->set, i))
        return folder_header(w->set, i, &w->header[k], err);
    if (folder_image(w->set, i, NULL, image, work, &w->header[k], err)) return -1;
    smoe_dataset_keep_decoded(w->set, i, image);
    return 0;
}

static int decode_once(void *context, size_t k, smoe_image *image, smoe_image *work,
                       smoe_err *err) {
    const smoe_dataset *set = ((const work_on_images *)context)->set;
    return smoe_dataset_decode(set, smoe_dataset_place(set, k), NULL, image, work, err);
}

/* Decides how the images are stored, and stores them. */
static int keep_images(smoe_dataset *set, folder *f, smoe_err *err) {
    const size_t n = set->images;
    assert(n); /* the list was checked */
    SMOE_FREED smoe_image_header *header = smoe_alloc(n, sizeof *header);
    work_on_images all = {.set = set, .header = header};
    const char *what = set->decoded.pixels ? "images read" : "image headers read";
    if (smoe_image_each(n, look_at, &all, set->scan, what, err)) return -1;
    bool whole = set->decoded.pixels, fits_as_is = true;
    double originals = 0;
    for (size_t i = 0; i < n; i++) {
        set->report.turned += header[i].orientation > 1;
        fits_as_is = fits_as_is && header[i].width == set->size && header[i].height == set->size;
        originals += (double)header[i].width * (double)header[i].height * (double)set->channels;
    }
    if (whole) return 0;
    if (fits_as_is && smoe_dataset_room(set, f->images, false, err)) return -1;
    bool decodes = set->decoded.pixels || originals <= (double)set->cache_bytes;
    if (!decodes || set->tolerant) return 0;
    return smoe_image_each(n, decode_once, &all, set->scan, "images read", err);
}

/* ---- the source ------------------------------------------------------------------------------ */

static int folder_open(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    folder *f = set->store = smoe_alloc_in(&set->memory, 1, sizeof *f);
    if (smoe_spec_path(spec, "data.path", &set->path, err) ||
        smoe_place_kind_of(&f->kind, set->path, err))
        return -1;
    if (f->kind == SMOE_PLACE_FILE) {
        smoe_fail(err, SMOE_DATA,
                  "%s: neither a directory nor an archive (.tar, .tar.gz, .tgz, .zip)", set->path);
        return smoe_fail_more(err, SMOE_DATA, SMOE_FOLDER_ARRAYS);
    }
    if (smoe_labels_open(&f->labels, spec, err)) return -1;
    if (smoe_folder_list(set, spec, err)) return -1;
    if (f->kind == SMOE_PLACE_ARCHIVE && fetch_bytes(set, f, err)) return -1;
    if (smoe_dataset_exclude(set, spec, err)) return -1; /* damaged images among them */
    if (set->listed) return 0;
    if (!set->native && smoe_dataset_room(set, f->images, false, err)) return -1;
    if (spec->data.on_error == SMOE_ON_ERROR_SKIP && smoe_dataset_sift(set, err)) return -1;
    int status = keep_images(set, f, err);
    for (size_t i = 0; set->decoded.pixels && i < f->images; i++) {
        free(f->image[i].bytes);
        f->image[i].bytes = NULL;
    }
    if (!status) return 0;
    if (err && err->code == SMOE_DATA && spec->data.on_error == SMOE_ON_ERROR_STOP)
        smoe_fail_more(err, SMOE_DATA, "data.on_error=skip leaves out images that cannot be used");
    return -1;
}

static uint64_t folder_contents(const smoe_dataset *set, uint64_t i) {
    return ((const folder *)set->store)->image[i].size;
}

static void folder_image_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    smoe_text_shown(((const folder *)set->store)->image[i].name, buf, size);
}

static void folder_close(smoe_dataset *set) {
    folder *f = set->store;
    if (!f) return;
    for (size_t i = 0; i < f->images; i++) smoe_folder_image_free(&f->image[i]);
    free(f->image);
    smoe_labels_free(f->labels);
    for (size_t i = 0; i < f->tars; i++)
        if (f->tar_fd[i] >= 0) close(f->tar_fd[i]);
    free(f->tar_fd);
    smoe_texts_free(f->tar, f->tars);
}

const smoe_source_type smoe_source_folder = {
    .open = folder_open,
    .image = folder_image,
    .contents = folder_contents,
    .image_name = folder_image_name,
    .close = folder_close,
    .files = true,
};
