/* Reading from data sets that are open, and the order of their images; see dataset.h. Batches are
 * made in loader.c. */
#include "data/augment.h"
#include "data/dataset_source.h"

#include <sys/mman.h>
#include <zlib.h>

size_t smoe_dataset_images(const smoe_dataset *set) {
    return set->images;
}

bool smoe_dataset_endless(const smoe_dataset *set) {
    return set->endless;
}

size_t smoe_dataset_classes(const smoe_dataset *set) {
    return set->classes;
}

size_t smoe_dataset_named(const smoe_dataset *set) {
    return set->named;
}

const char smoe_dataset_unnamed[] = "(unnamed)";

const char *smoe_dataset_class_name(const smoe_dataset *set, size_t label) {
    return label < set->named ? set->class_name[label] : smoe_dataset_unnamed;
}

const char *smoe_dataset_image_name(const smoe_dataset *set, size_t i, char *buf, size_t size) {
    set->type->image_name(set, smoe_dataset_place(set, i), buf, size);
    return buf;
}

static size_t dataset_label_of(const smoe_dataset *set, uint64_t i, real *multi) {
    uint64_t place = smoe_dataset_place(set, i);
    if (!set->label) return set->type->label(set, place, multi);
    bool several = multi && set->more;
    for (size_t k = several ? set->more_at[place] : 0; several && k < set->more_at[place + 1]; k++)
        multi[set->more[k]] = 1;
    return set->label[place];
}

size_t smoe_dataset_label(const smoe_dataset *set, size_t i) {
    return dataset_label_of(set, i, NULL);
}

uint64_t smoe_dataset_contents(const smoe_dataset *set, size_t i) {
    return set->type->contents ? set->type->contents(set, smoe_dataset_place(set, i)) : 0;
}

uint32_t smoe_dataset_checksum(const smoe_dataset *set) {
    char name[SMOE_IMAGE_NAME];
    uLong crc = 0;
    for (size_t i = 0; set->type->contents && i < set->images; i++) {
        const uint64_t own[] = {smoe_dataset_label(set, i), smoe_dataset_contents(set, i)};
        smoe_dataset_image_name(set, i, name, sizeof name);
        crc = crc32(crc, (const Bytef *)name, (uInt)strlen(name) + 1);
        crc = crc32(crc, (const Bytef *)own, sizeof own);
    }
    return (uint32_t)crc;
}

const smoe_dataset_report *smoe_dataset_found(const smoe_dataset *set) {
    return &set->report;
}

bool smoe_dataset_remarked(const smoe_dataset *set, const char *remark) {
    size_t i = 0;
    while (i < set->report.remarks && strcmp(set->report.remark[i], remark)) i++;
    return i < set->report.remarks;
}

size_t smoe_dataset_all_labels(const smoe_dataset *set, size_t i, size_t *class, size_t most) {
    size_t place = (size_t)smoe_dataset_place(set, i);
    size_t count = set->more ? set->more_at[place + 1] - set->more_at[place] : 0;
    for (size_t k = 0; k < count && k < most; k++) class[k] = set->more[set->more_at[place] + k];
    if (count) return count;
    if (most) *class = smoe_dataset_label(set, i);
    return 1;
}

bool smoe_dataset_multi(const smoe_dataset *set) {
    size_t i = set->more ? 0 : set->images;
    while (i < set->images && smoe_dataset_all_labels(set, i, NULL, 0) == 1) i++;
    return i < set->images;
}

int smoe_dataset_caption(const smoe_dataset *set, size_t i, smoe_caption_choice *choice, char *buf,
                         size_t size, smoe_err *err) {
    smoe_caption_choice first = {0};
    if (!choice) choice = &first;
    return set->type->caption(set, smoe_dataset_place(set, i), choice, buf, size, err);
}

/* ---- images that are kept decoded ------------------------------------------------------------ */

enum { MISSING, WRITTEN, READY }; /* WRITTEN: some thread or process writes it */

static size_t image_bytes(const smoe_dataset *set) {
    return set->size * set->size * set->channels;
}

int smoe_dataset_room(smoe_dataset *set, size_t count, bool later, smoe_err *err) {
    size_t each = image_bytes(set), bytes = count * (each + 1);
    int kind = MAP_ANONYMOUS | (later ? MAP_SHARED : MAP_PRIVATE);
    if (!count || set->tolerant || set->images > set->cache_bytes / each) return 0;
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (room == MAP_FAILED)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: %zu images", set->path, set->images);
    (void)madvise(room, bytes, MADV_HUGEPAGE);
    set->decoded.pixels = room;
    set->decoded.state = (uint8_t *)room + count * each;
    set->decoded.count = count;
    return 0;
}

void smoe_dataset_room_free(smoe_dataset *set) {
    if (set->decoded.pixels)
        munmap(set->decoded.pixels, set->decoded.count * (image_bytes(set) + 1));
}

bool smoe_dataset_decoded(const smoe_dataset *set, uint64_t i) {
    return set->decoded.pixels &&
           __atomic_load_n(&set->decoded.state[i], __ATOMIC_ACQUIRE) == READY;
}

void smoe_dataset_keep_decoded(const smoe_dataset *set, uint64_t i, const smoe_image *image) {
    uint8_t missing = MISSING, *state = &set->decoded.state[i];
    if (!__atomic_compare_exchange_n(state, &missing, WRITTEN, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    memcpy(set->decoded.pixels + i * image_bytes(set), image->pixel, image_bytes(set));
    __atomic_store_n(state, READY, __ATOMIC_RELEASE);
}

static int decode_in_place(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                           smoe_image *work, smoe_err *err) {
    if (smoe_dataset_decoded(set, i)) {
        smoe_image kept = {.width = set->size,
                           .height = set->size,
                           .channels = set->channels,
                           .pixel = set->decoded.pixels + i * image_bytes(set)};
        return smoe_image_fit(out, set->size, &kept, crop, set->data.resize, err);
    }
    if (set->type->image(set, i, crop, out, work, NULL, err)) return -1;
    if (set->decoded.pixels && !crop) smoe_dataset_keep_decoded(set, i, out);
    return 0;
}

int smoe_dataset_decode(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                        smoe_image *work, smoe_err *err) {
    if (decode_in_place(set, i, crop, out, work, err)) return -1;
    if (!set->data.shift) return 0;
    smoe_rng rng = smoe_rng_at(set->data.seed, SMOE_RNG_SHIFT, smoe_dataset_stream(set), 0, i);
    size_t right = smoe_rng_below(&rng, set->size), down = smoe_rng_below(&rng, set->size);
    return smoe_image_roll(out, work, right, down, err);
}

/* ---- one image ------------------------------------------------------------------------------- */

int smoe_dataset_image(const smoe_dataset *set, size_t i, bool multi, real *pixels, real *target,
                       int64_t *label, smoe_err *err) {
    SMOE_FREED_BY(smoe_image_free) smoe_image image = {0};
    SMOE_FREED_BY(smoe_image_free) smoe_image work = {0};
    smoe_image_scale scale;
    if (smoe_dataset_decode(set, smoe_dataset_place(set, i), NULL, &image, &work, err)) return -1;
    smoe_image_scale_make(&scale, &set->data);
    smoe_image_pixels(pixels, &image, &scale);
    if (target) *label = smoe_dataset_target(set, i, multi, target);
    return 0;
}

int smoe_dataset_picture(const smoe_dataset *set, size_t i, const smoe_data_spec *data,
                         const smoe_rng *augmentation, smoe_image *out, smoe_image *work,
                         smoe_err *err) {
    smoe_rng rng = augmentation ? *augmentation : (smoe_rng){0};
    bool box = augmentation && data->augment.crop == SMOE_CROP_INCEPTION;
    if (smoe_dataset_decode(set, smoe_dataset_place(set, i), box ? &rng : NULL, out, work, err))
        return -1;
    return augmentation ? smoe_augment(data, out, work, &rng, err) : 0;
}

int64_t smoe_dataset_target(const smoe_dataset *set, uint64_t i, bool multi, real *target) {
    for (size_t k = 0; k < set->classes; k++) target[k] = 0;
    size_t label = dataset_label_of(set, i, multi ? target : NULL);
    target[label] = 1;
    return (int64_t)label;
}

/* ---- order ----------------------------------------------------------------------------------- */

void smoe_dataset_shuffle(const smoe_dataset *set, smoe_rng *rng, uint32_t *order) {
    size_t n = set->images, buffer = set->data.shuffle_buffer;
    if (!set->parts || !buffer || buffer >= n) {
        smoe_rng_permutation(rng, order, n);
        return;
    }
    SMOE_FREED uint32_t *part = smoe_alloc(set->parts, sizeof *part);
    smoe_rng_permutation(rng, part, set->parts);
    size_t filled = 0;
    for (size_t p = 0; p < set->parts; p++)
        for (size_t i = set->part_at[part[p]]; i < set->part_at[part[p] + 1]; i++)
            order[filled++] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) { /* the buffer is order[i .. i + buffer) */
        size_t j = i + smoe_rng_below(rng, buffer < n - i ? buffer : n - i);
        SMOE_SWAP(order[i], order[j]);
    }
}

void smoe_dataset_order(uint32_t *order, size_t n, const smoe_spec *spec) {
    smoe_rng rng = smoe_rng_at(spec->data.seed, SMOE_RNG_ORDER, 0, 0, 0);
    if (spec->eval.order == SMOE_ORDER_SHUFFLED)
        smoe_rng_permutation(&rng, order, n);
    else
        for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
}
