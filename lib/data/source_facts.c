/*
 * `facts`: a generated memory task. There are many entities, each with a code of n bits and a class
 * that follows from nothing but a random table, so that a model must learn it entity by entity.
 *
 * An image is a square of cells. One of them, at a random place, shows the texture of an entity and
 * the marker; its class is the label. Others show unmarked textures of other entities (distractors)
 * or nothing. With code bits b_k of 0 and 1, patterns P_k and marker M of standard normal numbers,
 * one for each sample of a cell, and noise e of a standard normal number for each sample of the
 * image, a sample is
 *   127.5 + AMPLITUDE/sqrt(n) sum_k (2 b_k - 1) P_k + AMPLITUDE/2 M + noise e
 * rounded and cut to 0 .. 255, without the sum and M where there is no texture or no mark: a
 * texture has the standard deviation AMPLITUDE, the marker half of it. Entity r = 1, 2 ... has the
 * probability ~ 1/(r + offset)^exponent.
 *
 * Codes (all different), classes (a random permutation of the entities, dealt round), patterns and
 * marker are keyed by data.seed; images by (seed, split, index), the run's seed for training and
 * data.seed for others. Leaves to others: boxes, augmentation, batches; resolve.c has seen that the
 * keys fit together.
 */
#include "data/dataset_source.h"

/* Part of the data set's definition: changing one changes all results. */
enum { NOMINAL_TRAIN = 150000, NOMINAL_TEST = 10000, MOST_CELLS = 1024, LEVELS = 4096 };
static const float amplitude = 40;
enum { CODES, CLASSES, PATTERNS }; /* tables, the step of their streams */

typedef struct facts {
    size_t edge, side, cell; /* cells along an edge; samples along a row of a cell, in all of it */
    uint64_t *code;          /* [entities] */
    uint32_t *label;         /* [entities] */
    double *up_to;           /* [entities] probability of this one and those before */
    float *pattern;          /* [bits, cell], of standard deviation amplitude/sqrt(bits) */
    float *marker;           /* [cell] */
    float noise[LEVELS];     /* quantiles (k + 1/2)/LEVELS of the noise */
} facts;

/* ---- tables ---------------------------------------------------------------------------------- */

static smoe_rng table_stream(const smoe_dataset *set, uint64_t table) {
    return smoe_rng_at(set->data.seed, SMOE_RNG_FACTS, 0, table, 0);
}

/* Different words of n bits: a word that exists already is drawn again. `seen` is a hash table of
 * codes + 1, twice as large as necessary. */
static void draw_codes(const smoe_dataset *set, facts *f) {
    size_t n = set->data.facts.entities, size = 2;
    while (size < 2 * n) size *= 2;
    SMOE_FREED uint64_t *seen = smoe_alloc(size, sizeof *seen);
    smoe_rng rng = table_stream(set, CODES);
    for (size_t e = 0; e < n;) {
        uint64_t code = smoe_rng_u64(&rng) >> (64 - set->data.facts.bits);
        size_t at = (size_t)(code * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);
        while (seen[at] && seen[at] != code + 1) at = (at + 1) & (size - 1);
        if (seen[at]) continue;
        seen[at] = code + 1;
        f->code[e++] = code;
    }
}

/* Every class has as many entities as any other, or one more. */
static void draw_classes(const smoe_dataset *set, facts *f) {
    smoe_rng rng = table_stream(set, CLASSES);
    smoe_rng_permutation(&rng, f->label, set->data.facts.entities);
    for (size_t e = 0; e < set->data.facts.entities; e++)
        f->label[e] %= (uint32_t)set->data.facts.classes;
}

static void add_up_frequencies(const smoe_dataset *set, facts *f) {
    size_t n = set->data.facts.entities;
    double sum = 0;
    for (size_t e = 0; e < n; e++)
        f->up_to[e] = sum +=
            pow((double)(e + 1) + set->data.facts.offset, -set->data.facts.exponent);
    for (size_t e = 0; e < n; e++) f->up_to[e] /= sum;
}

static void draw_patterns(const smoe_dataset *set, facts *f) {
    size_t bits = set->data.facts.bits;
    float each = amplitude / sqrtf((float)bits);
    smoe_rng rng = table_stream(set, PATTERNS);
    for (size_t k = 0; k < bits * f->cell; k++) f->pattern[k] = each * (float)smoe_rng_normal(&rng);
    for (size_t k = 0; k < f->cell; k++)
        f->marker[k] = amplitude / 2 * (float)smoe_rng_normal(&rng);
}

/* The upper quantiles by halving an interval; the lower ones are their negatives. */
static void tabulate_noise(facts *f, double noise) {
    for (size_t k = LEVELS / 2; k < LEVELS; k++) {
        double above = 1 - ((double)k + .5) / LEVELS, low = 0, high = 8;
        for (int i = 0; i < 40; i++) {
            double middle = (low + high) / 2;
            if (erfc(middle / sqrt(2)) / 2 > above)
                low = middle;
            else
                high = middle;
        }
        f->noise[k] = (float)(noise * low);
        f->noise[LEVELS - 1 - k] = -f->noise[k];
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

/* The entity at u in 0 .. 1 of all probability. */
static size_t entity_at(const smoe_dataset *set, const facts *f, double u) {
    size_t low = 0, high = set->data.facts.entities - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (f->up_to[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static smoe_rng draw_entity(const smoe_dataset *set, uint64_t i, size_t *entity) {
    smoe_rng rng = smoe_rng_at(set->seed, SMOE_RNG_FACTS, smoe_dataset_stream(set), 0, i);
    *entity = entity_at(set, set->store, smoe_rng_uniform(&rng));
    return rng;
}

/* One of the other entities, with their probabilities: u covers the distribution without `entity`.
 * If rounding still selects `entity`, its neighbour is taken. */
static size_t draw_other(const smoe_dataset *set, const facts *f, size_t entity, smoe_rng *rng) {
    double before = entity ? f->up_to[entity - 1] : 0, own = f->up_to[entity] - before;
    double u = smoe_rng_uniform(rng) * (1 - own);
    size_t other = entity_at(set, f, u < before ? u : u + own);
    return other != entity ? other : entity ? entity - 1 : 1;
}

/* cell[0..count) become different cells; all choices and orders have the same probability. */
static void facts_draw_cells(uint16_t *cell, size_t count, size_t cells, smoe_rng *rng) {
    for (size_t k = 0; k < cells; k++) cell[k] = (uint16_t)k;
    for (size_t k = 0; k < count; k++) {
        size_t other = k + smoe_rng_below(rng, cells - k);
        SMOE_SWAP(cell[k], cell[other]);
    }
}

/* Adds to one cell of the canvas; `texture` [cell] is scratch. */
static void paint_cell(const smoe_dataset *set, const facts *f, float *canvas, float *texture,
                       size_t cell, size_t entity, bool marked) {
    for (size_t k = 0; k < f->cell; k++) texture[k] = marked ? f->marker[k] : 0;
    for (size_t b = 0; b < set->data.facts.bits; b++) {
        const float *pattern = f->pattern + b * f->cell;
        float sign = f->code[entity] >> b & 1 ? 1 : -1;
#pragma omp simd
        for (size_t k = 0; k < f->cell; k++) texture[k] += sign * pattern[k];
    }
    size_t rows = set->size / f->edge, width = set->size * set->channels;
    float *corner = canvas + cell / f->edge * rows * width + cell % f->edge * f->side;
    for (size_t y = 0; y < rows; y++)
        memcpy(corner + y * width, texture + y * f->side, f->side * sizeof *texture);
}

/* Grey, noise (16 bits of a random word per sample, of which 12 say which quantile) and
 * rounding. */
static void facts_develop(smoe_image *out, const float *canvas, const facts *f, smoe_rng *rng) {
    size_t samples = out->width * out->height * out->channels;
    uint64_t word = 0;
    for (size_t k = 0; k < samples; k++, word >>= 16) {
        if (k % 4 == 0) word = smoe_rng_u64(rng);
        float v = 127.5f + canvas[k] + f->noise[(word & 0xffff) >> 4] + .5f;
        out->pixel[k] = v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
    }
}

static int facts_paint(const smoe_dataset *set, uint64_t i, smoe_image *out, smoe_image *work,
                       smoe_err *err) {
    const facts *f = set->store;
    size_t size = set->size, samples = size * size * set->channels, entity;
    size_t shown = 1 + set->data.facts.distractors;
    uint16_t cell[MOST_CELLS] = {0};
    /* the canvas and the texture of a cell */
    if (smoe_image_shape(out, size, size, set->channels, err) ||
        smoe_image_shape(work, size, size, 2 * set->channels * sizeof(float), err))
        return -1;
    float *canvas = (float *)(void *)work->pixel; /* malloc's: aligned for anything */
    smoe_rng rng = draw_entity(set, i, &entity);
    facts_draw_cells(cell, shown, f->edge * f->edge, &rng);
    memset(canvas, 0, samples * sizeof *canvas);
    for (size_t k = 0; k < shown; k++)
        paint_cell(set, f, canvas, canvas + samples, cell[k],
                   k ? draw_other(set, f, entity, &rng) : entity, !k);
    facts_develop(out, canvas, f, &rng);
    return 0;
}

smoe_fact smoe_facts_at(const smoe_dataset *set, uint64_t i) {
    const facts *f = set->store;
    uint16_t cell[MOST_CELLS] = {0};
    smoe_fact fact;
    smoe_rng rng = draw_entity(set, i, &fact.entity);
    facts_draw_cells(cell, 1, f->edge * f->edge, &rng);
    fact.cell = cell[0];
    return fact;
}

/* ---- the source ------------------------------------------------------------------------------ */

static size_t facts_label(const smoe_dataset *set, uint64_t i, real *multi) {
    (void)multi; /* the main label is the only one: what is not marked does not count */
    const facts *f = set->store;
    size_t entity;
    (void)draw_entity(set, i, &entity);
    return f->label[entity];
}

static int facts_open(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    (void)err;
    size_t entities = spec->data.facts.entities;
    smoe_alloc_pool *pool = &set->memory;
    facts *f = set->store = smoe_alloc_in(pool, 1, sizeof *f);
    f->edge = 1;
    while (f->edge * f->edge < spec->data.facts.cells) f->edge++;
    f->side = set->size / f->edge * set->channels;
    f->cell = set->size / f->edge * f->side;
    f->code = smoe_alloc_in(pool, entities, sizeof *f->code);
    f->label = smoe_alloc_in(pool, entities, sizeof *f->label);
    f->up_to = smoe_alloc_in(pool, entities, sizeof *f->up_to);
    f->pattern = smoe_alloc_in(pool, spec->data.facts.bits * f->cell, sizeof *f->pattern);
    f->marker = smoe_alloc_in(pool, f->cell, sizeof *f->marker);
    draw_codes(set, f);
    draw_classes(set, f);
    add_up_frequencies(set, f);
    draw_patterns(set, f);
    tabulate_noise(f, spec->data.facts.noise);
    smoe_dataset_generate(set, NOMINAL_TRAIN, NOMINAL_TEST);
    smoe_dataset_name_classes(set, NULL, spec->data.facts.classes);
    return 0;
}

const smoe_source_type smoe_source_facts = {
    .open = facts_open,
    .image = smoe_dataset_painted,
    .paint = facts_paint,
    .label = facts_label,
    .image_name = smoe_dataset_generated_name,
};
