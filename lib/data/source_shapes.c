/*
 * `shapes`: generated images, endless, from no files. Image i of a split is a pure function of
 * (seed, split, i), where the seed is the run's for training images and data.seed for others:
 * runs with several seeds differ in what they learn from and are judged by the same images.
 * Train, test and val are disjoint streams.
 *
 * A scene: one LARGE object (radius 0.26 to 0.35 of the side) and 1 to 3 small ones (0.08 to
 * 0.13), each of ten shapes, eight hues, any place and tilt, over a texture (gradient, stripes,
 * checks or blotches) with grain. The label is the shape of the large object, wherever it is;
 * the small ones distract. The keys data.shapes change sizes, places and numbers, and make
 * classes of shapes, hues and textures together. Backgrounds are dark with light objects or the
 * reverse, at random, so that the mean image of a class says nothing and a linear classifier on
 * pixels stays poor (tests/data/test_shapes.c measures it). The multi-labels are the classes of
 * all objects; the caption tells the scene: the large object, the background, the place of the
 * large one, and the small ones with the side of it that they are on.
 *
 * Objects are drawn by signed distance: coverage = clamp(1/2 - distance in pixels), which is the
 * antialiasing. Leaves to others: boxes, augmentation, batches.
 */
#include "data/dataset_source.h"

enum { SHAPES = 10, HUES = 8, TEXTURES = 4, MOST = 9, NOMINAL_TRAIN = 50000, NOMINAL_TEST = 2000 };

/* Part of the data set's definition, like every constant below: changing one changes all results.
 */
#define SHAPES_SEED UINT64_C(0x736d6f6573686170)

static const char *const shape_name[SHAPES] = {"circle", "ring",  "square", "frame",    "triangle",
                                               "star",   "cross", "bar",    "crescent", "bowtie"};
static const char *const hue_name[HUES] = {"red",  "orange", "yellow", "green",
                                           "cyan", "blue",   "purple", "pink"};
static const float hue_rgb[HUES][3] = {{1, .1f, .1f},   {1, .5f, 0},   {1, .9f, 0},
                                       {.1f, .8f, .1f}, {0, .8f, .8f}, {.1f, .2f, 1},
                                       {.6f, .1f, .8f}, {1, .4f, .7f}};
static const char *const texture_name[TEXTURES] = {"graded", "striped", "checked", "blotched"};

typedef struct object {
    size_t shape, hue;
    float x, y, r;      /* centre and radius, the side being 1 */
    float cosine, sine; /* of the tilt */
    float colour[3];    /* 0 .. 1 */
} object;

typedef struct scene {
    object object[MOST]; /* [0]: the large one, drawn last */
    size_t objects;
    bool dark;
    size_t texture;
    float base[3], step[3]; /* colour = base + t*step, t in 0 .. 1 the texture's value */
    float across, down, phase, grain;
    float blotch[5][5];
} scene;

/* ---- drawing lots ---------------------------------------------------------------------------- */

static float between(smoe_rng *rng, float low, float high) {
    return low + (high - low) * (float)smoe_rng_uniform(rng);
}

static float luma(const float *rgb) {
    return .299f * rgb[0] + .587f * rgb[1] + .114f * rgb[2];
}

/* Darkens a colour or mixes it with white so that it has this luma; so grey images keep the
 * contrast. */
static void set_luma(float *out, const float *rgb, float wanted) {
    float have = luma(rgb);
    for (int c = 0; c < 3; c++)
        out[c] = wanted < have ? rgb[c] * wanted / have
                               : rgb[c] + (1 - rgb[c]) * (wanted - have) / (1 - have);
}

/* Classes: every combination of the chosen factors; the other factors are independent of the
 * class. */
typedef struct factors {
    size_t hues, textures; /* that classes tell apart, or 1 */
} factors;

static factors factors_of(const smoe_dataset *set) {
    smoe_shape_classes f = set->data.shapes.classes;
    bool hue = f == SMOE_CLASSES_SHAPE_HUE || f == SMOE_CLASSES_SHAPE_HUE_BACKGROUND;
    bool texture = f == SMOE_CLASSES_SHAPE_BACKGROUND || f == SMOE_CLASSES_SHAPE_HUE_BACKGROUND;
    return (factors){hue ? HUES : 1, texture ? TEXTURES : 1};
}

static size_t class_of(factors f, size_t shape, size_t hue, size_t texture) {
    return (shape * f.hues + hue % f.hues) * f.textures + texture % f.textures;
}

/* The value of a factor in an image of class `label`: given by the class, or else `drawn`. */
static size_t shape_of(factors f, size_t label) {
    return label / f.textures / f.hues;
}
static size_t hue_of(factors f, size_t label, size_t drawn) {
    return f.hues > 1 ? label / f.textures % f.hues : drawn;
}
static size_t texture_of(factors f, size_t label, size_t drawn) {
    return f.textures > 1 ? label % f.textures : drawn;
}

static void draw_background(scene *s, factors f, size_t label, smoe_rng *rng) {
    s->dark = smoe_rng_below(rng, 2);
    s->texture = texture_of(f, label, smoe_rng_below(rng, TEXTURES));
    float tint[2][3], end[3];
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++) tint[k][c] = between(rng, .35f, .65f);
    set_luma(s->base, tint[0], s->dark ? between(rng, .08f, .28f) : between(rng, .72f, .92f));
    set_luma(end, tint[1], s->dark ? between(rng, .08f, .28f) : between(rng, .72f, .92f));
    for (int c = 0; c < 3; c++) s->step[c] = end[c] - s->base[c];
    float turn = between(rng, 0, 6.2831853f);
    float waves = s->texture == 0 ? .5f : between(rng, 2, 5);
    s->across = waves * cosf(turn);
    s->down = waves * sinf(turn);
    s->phase = 16 + between(rng, 0, 1); /* keeps phase + across*x + down*y above 0 */
    s->grain = between(rng, .01f, .06f);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) s->blotch[i][j] = between(rng, 0, 1);
}

static void draw_looks(object *o, const scene *s, smoe_rng *rng) {
    float tilt = between(rng, -.5f, .5f);
    o->cosine = cosf(tilt);
    o->sine = sinf(tilt);
    set_luma(o->colour, hue_rgb[o->hue],
             s->dark ? between(rng, .5f, .8f) : between(rng, .15f, .4f));
}

static void draw_centre(object *o, bool anywhere, smoe_rng *rng) {
    float margin = anywhere ? 0 : o->r;
    o->x = between(rng, margin, 1 - margin);
    o->y = between(rng, margin, 1 - margin);
}

/* A place where the small object hides nothing and is not hidden; false after a few tries. */
static bool draw_place(object *o, const scene *s, bool anywhere, smoe_rng *rng) {
    for (int attempt = 0; attempt < 12; attempt++) {
        bool clear = true;
        draw_centre(o, anywhere, rng);
        for (size_t k = 0; k < s->objects; k++) {
            float dx = o->x - s->object[k].x, dy = o->y - s->object[k].y;
            if (anywhere) { /* what leaves the image on one side comes back on the other */
                dx -= roundf(dx);
                dy -= roundf(dy);
            }
            float apart = o->r + .9f * s->object[k].r;
            clear = clear && dx * dx + dy * dy > apart * apart;
        }
        if (clear) return true;
    }
    return false;
}

/* The label has its own stream, so that the stream of the scene does not depend on it. */
static size_t main_class(const smoe_dataset *set, uint64_t i) {
    factors f = factors_of(set);
    return smoe_dataset_draw_label(set, i, SHAPES * f.hues * f.textures);
}

static smoe_rng draw_scene(scene *s, const smoe_dataset *set, uint64_t i) {
    smoe_rng rng =
        smoe_rng_at(SHAPES_SEED + set->seed, SMOE_RNG_SHAPES, smoe_dataset_stream(set), 0, i);
    factors f = factors_of(set);
    size_t label = main_class(set, i), most = set->data.shapes.distractors;
    bool anywhere = set->data.shapes.positions == SMOE_POSITIONS_UNIFORM;
    float size = (float)set->data.shapes.size;
    memset(s, 0, sizeof *s);
    draw_background(s, f, label, &rng);
    object *large = &s->object[0];
    large->r = size * between(&rng, .26f, .35f);
    draw_centre(large, anywhere, &rng);
    large->shape = shape_of(f, label);
    large->hue = hue_of(f, label, smoe_rng_below(&rng, HUES));
    draw_looks(large, s, &rng);
    s->objects = 1;
    size_t small = most ? 1 + smoe_rng_below(&rng, most) : 0;
    for (size_t k = 0; k < small; k++) {
        object *o = &s->object[s->objects];
        o->r = size * between(&rng, .08f, .13f);
        o->shape = smoe_rng_below(&rng, SHAPES);
        o->hue = smoe_rng_below(&rng, HUES);
        draw_looks(o, s, &rng);
        if (draw_place(o, s, anywhere, &rng)) s->objects++;
    }
    return rng;
}

/* ---- painting -------------------------------------------------------------------------------- */

static float largest(float a, float b) {
    return a > b ? a : b;
}

/* Distance of (u, v) to a box of half sides a, b: exact outside edges, a bound at corners. */
static float to_box(float u, float v, float a, float b) {
    return largest(fabsf(u) - a, fabsf(v) - b);
}

/* A pentagram is where at most one of the five half planes of its lines is left: the second largest
 * of the five distances. Lines lie cos 72 degrees from the centre when the points lie at 1. */
static float to_star(float u, float v) {
    static const float normal[5][2] = {{0, 1},
                                       {.95105652f, .30901699f},
                                       {.58778525f, -.80901699f},
                                       {-.58778525f, -.80901699f},
                                       {-.95105652f, .30901699f}};
    float first = -2, second = -2;
    for (int k = 0; k < 5; k++) {
        float d = normal[k][0] * u + normal[k][1] * v;
        if (d > first) {
            second = first;
            first = d;
        } else if (d > second) {
            second = d;
        }
    }
    return second - .36f; /* a little fatter than a true pentagram: visible at 32 pixels */
}

/* Signed distance (negative inside) in units of the object's radius. */
static float distance_to(size_t shape, float u, float v) {
    switch (shape) {
    case 0: return sqrtf(u * u + v * v) - .88f;
    case 1: return fabsf(sqrtf(u * u + v * v) - .7f) - .22f;
    case 2: return to_box(u, v, .76f, .76f);
    case 3: return fabsf(to_box(u, v, .62f, .62f)) - .18f;
    case 4: return largest(v - .5f, .8660254f * fabsf(u) - .5f * v - .5f);
    case 5: return to_star(u, v);
    case 6: return -largest(-to_box(u, v, .27f, .95f), -to_box(u, v, .95f, .27f));
    case 7: return to_box(u, v, .97f, .27f);
    case 8: {
        float w = u - .5f;
        return largest(sqrtf(u * u + v * v) - .92f, .72f - sqrtf(w * w + v * v));
    }
    default: return largest(fabsf(u) - .85f, (fabsf(v) - .85f * fabsf(u)) * .762f);
    }
}

/* Paints the object with its centre moved by whole sides; parts outside the image are not
 * painted. */
static void paint_object(float *rgb, size_t size, const object *o, int right_by, int down_by) {
    float side = (float)size, pixels = o->r * side, scale = 1 / pixels;
    float reach = 1.05f * pixels + 1;
    float cx = (o->x + (float)right_by) * side, cy = (o->y + (float)down_by) * side;
    if (cx + reach < 0 || cy + reach < 0 || cx - reach > side || cy - reach > side) return;
    size_t left = cx > reach ? (size_t)(cx - reach) : 0,
           top = cy > reach ? (size_t)(cy - reach) : 0;
    size_t right = cx + reach + 1 < side ? (size_t)(cx + reach + 1) : size;
    size_t bottom = cy + reach + 1 < side ? (size_t)(cy + reach + 1) : size;
    for (size_t y = top; y < bottom; y++)
        for (size_t x = left; x < right; x++) {
            float dx = ((float)x + .5f - cx) * scale, dy = ((float)y + .5f - cy) * scale;
            float u = o->cosine * dx + o->sine * dy, v = o->cosine * dy - o->sine * dx;
            float cover = .5f - pixels * distance_to(o->shape, u, v);
            if (cover <= 0) continue;
            if (cover > 1) cover = 1;
            float *p = rgb + 3 * (y * size + x);
            for (int c = 0; c < 3; c++) p[c] += cover * (o->colour[c] - p[c]);
        }
}

/* 0 .. 1 .. 0 along a wave; the argument is above 0. */
static float wave(float x) {
    float f = x - (float)(int)x;
    return fabsf(2 * f - 1);
}

static float texture_at(const scene *s, float x, float y) {
    switch (s->texture) {
    case 2: { /* two crossed waves, sharpened */
        float a = wave(s->phase + s->across * x + s->down * y) - .5f;
        float b = wave(s->phase - s->down * x + s->across * y) - .5f;
        return a * b > 0 ? 1 : 0;
    }
    case 3: {
        int i = (int)(4 * y), j = (int)(4 * x);
        float fy = 4 * y - (float)i, fx = 4 * x - (float)j;
        const float *a = &s->blotch[i][j], *b = &s->blotch[i + 1][j];
        return (1 - fy) * (a[0] + fx * (a[1] - a[0])) + fy * (b[0] + fx * (b[1] - b[0]));
    }
    default: return wave(s->phase + s->across * x + s->down * y);
    }
}

static void paint_background(float *rgb, size_t size, const scene *s) {
    float pixel = 1 / (float)size;
    for (size_t y = 0; y < size; y++)
        for (size_t x = 0; x < size; x++) {
            float t = texture_at(s, ((float)x + .5f) * pixel, ((float)y + .5f) * pixel);
            float *p = rgb + 3 * (y * size + x);
            for (int c = 0; c < 3; c++) p[c] = s->base[c] + t * s->step[c];
        }
}

/* Grain (one byte of a random word per pixel) and rounding to the bytes of the image. */
static void shapes_develop(smoe_image *out, const float *rgb, float grain, smoe_rng *rng) {
    size_t pixels = out->width * out->height, channels = out->channels;
    uint64_t word = 0;
    for (size_t i = 0; i < pixels; i++, word >>= 8) {
        if (i % 8 == 0) word = smoe_rng_u64(rng);
        float noise = grain * ((float)(word & 255) / 127.5f - 1);
        uint8_t sample[3];
        for (int c = 0; c < 3; c++) {
            float v = 255 * (rgb[3 * i + (size_t)c] + noise) + .5f;
            sample[c] = v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
        }
        if (channels == 3)
            memcpy(out->pixel + 3 * i, sample, 3);
        else
            out->pixel[i] = smoe_image_luma(sample[0], sample[1], sample[2]);
    }
}

/* ---- the source ------------------------------------------------------------------------------ */

static int shapes_paint(const smoe_dataset *set, uint64_t i, smoe_image *out, smoe_image *work,
                        smoe_err *err) {
    size_t size = set->size;
    scene s;
    smoe_rng rng = draw_scene(&s, set, i);
    if (smoe_image_shape(out, size, size, set->channels, err) ||
        smoe_image_shape(work, size, size, 3 * sizeof(float), err))
        return -1;
    float *rgb = (float *)(void *)work->pixel; /* malloc's: aligned for anything */
    paint_background(rgb, size, &s);
    int sides = set->data.shapes.positions == SMOE_POSITIONS_UNIFORM;
    for (size_t k = s.objects; k-- > 0;)
        for (int y = -sides; y <= sides; y++)
            for (int x = -sides; x <= sides; x++) paint_object(rgb, size, &s.object[k], x, y);
    shapes_develop(out, rgb, s.grain, &rng);
    return 0;
}

static size_t shapes_label(const smoe_dataset *set, uint64_t i, real *multi) {
    if (multi) {
        scene s;
        draw_scene(&s, set, i);
        for (size_t k = 0; k < s.objects; k++)
            multi[class_of(factors_of(set), s.object[k].shape, s.object[k].hue, s.texture)] = 1;
    }
    return main_class(set, i);
}

/* "ring", "red-ring", "ring-striped", "red-ring-striped". */
static void name_classes(smoe_dataset *set) {
    factors f = factors_of(set);
    char text[SHAPES * HUES * TEXTURES][40];
    const char *name[SHAPES * HUES * TEXTURES];
    size_t count = SHAPES * f.hues * f.textures;
    for (size_t c = 0; c < count; c++) {
        size_t hue = hue_of(f, c, 0), texture = texture_of(f, c, 0);
        snprintf(text[c], sizeof text[c], "%s%s%s%s%s", f.hues > 1 ? hue_name[hue] : "",
                 f.hues > 1 ? "-" : "", shape_name[shape_of(f, c)], f.textures > 1 ? "-" : "",
                 f.textures > 1 ? texture_name[texture] : "");
        name[c] = text[c];
    }
    smoe_dataset_name_classes(set, name, count);
}

static int shapes_open(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    if (spec->data.image_size < 8)
        return smoe_fail(err, SMOE_USAGE, "data.image_size: %zu, shapes needs at least 8",
                         spec->data.image_size);
    smoe_dataset_generate(set, NOMINAL_TRAIN, NOMINAL_TEST);
    name_classes(set);
    return 0;
}

/* ---- in words -------------------------------------------------------------------------------- */

/* Where the large object is: thirds of the range that its centre has. */
static const char *shapes_place_of(const object *o) {
    static const char *const place[3][3] = {
        {"at the top left", "at the top", "at the top right"},
        {"at the left", "in the middle", "at the right"},
        {"at the bottom left", "at the bottom", "at the bottom right"}};
    const float low = .43f, high = .57f;
    return place[(o->y > low) + (o->y > high)][(o->x > low) + (o->x > high)];
}

/* The direction of a small object from the large one: that of the larger of its two distances. */
static const char *side_of(const object *o, const object *large, bool wraps) {
    float dx = o->x - large->x, dy = o->y - large->y;
    if (wraps) {
        dx -= roundf(dx);
        dy -= roundf(dy);
    }
    if (fabsf(dx) > fabsf(dy)) return dx < 0 ? "left" : "right";
    return dy < 0 ? "above" : "below";
}

static int shapes_caption(const smoe_dataset *set, uint64_t i, smoe_caption_choice *choice,
                          char *buf, size_t size, smoe_err *err) {
    (void)err;
    choice->which = 0;
    choice->count = 1;
    scene s;
    draw_scene(&s, set, i);
    const object *large = s.object;
    bool wraps = set->data.shapes.positions == SMOE_POSITIONS_UNIFORM;
    int used = snprintf(buf, size, "a large %s %s on a %s %s background %s", hue_name[large->hue],
                        shape_name[large->shape], s.dark ? "dark" : "light",
                        texture_name[s.texture], shapes_place_of(large));
    for (size_t k = 1; k < s.objects && used >= 0 && (size_t)used < size; k++)
        used += snprintf(buf + used, size - (size_t)used, "%s a small %s %s %s",
                         k == 1              ? " with"
                         : k + 1 < s.objects ? ","
                                             : " and",
                         hue_name[s.object[k].hue], shape_name[s.object[k].shape],
                         side_of(&s.object[k], large, wraps));
    return 0;
}

const smoe_source_type smoe_source_shapes = {
    .open = shapes_open,
    .image = smoe_dataset_painted,
    .paint = shapes_paint,
    .label = shapes_label,
    .caption = shapes_caption,
    .image_name = smoe_dataset_generated_name,
};
