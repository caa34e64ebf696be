/*
 * Augmentation, see augment.h. RandAugment (Cubuk et al. 2020): n operations drawn with replacement
 * from the fourteen of the paper, all with the one magnitude m of 10. Ranges at m = 10: rotation 30
 * degrees, shears 0.3, translations 0.45 of the side, enhancement factors 1 +- 0.9, 4 bits lost to
 * posterize, solarize from 0; each is proportional to m, so m = 0 changes nothing except through
 * autocontrast and equalize, which have no magnitude. Geometry samples bilinearly and fills with
 * grey.
 */
#include "data/augment.h"

/* ---- geometry -------------------------------------------------------------------------------- */

/* Output (x, y) shows the input at a*x + b*y + c, d*x + e*y + f, measured from the centre. */
typedef struct affine {
    double a, b, c, d, e, f;
} affine;

static float sample_at(const smoe_image *image, long x, long y, size_t channel) {
    if (x < 0 || y < 0 || x >= (long)image->width || y >= (long)image->height) return SMOE_FILL;
    return image->pixel[((size_t)y * image->width + (size_t)x) * image->channels + channel];
}

static int warp(smoe_image *image, smoe_image *work, affine t, smoe_err *err) {
    size_t w = image->width, h = image->height, c = image->channels;
    if (smoe_image_shape(work, w, h, c, err)) return -1;
    double mx = ((double)w - 1) / 2, my = ((double)h - 1) / 2;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) {
            double u = (double)x - mx, v = (double)y - my;
            double sx = t.a * u + t.b * v + t.c + mx, sy = t.d * u + t.e * v + t.f + my;
            double left = floor(sx), top = floor(sy);
            float fx = (float)(sx - left), fy = (float)(sy - top);
            for (size_t k = 0; k < c; k++) {
                long i = (long)left, j = (long)top;
                float upper =
                    sample_at(image, i, j, k) * (1 - fx) + sample_at(image, i + 1, j, k) * fx;
                float lower = sample_at(image, i, j + 1, k) * (1 - fx) +
                              sample_at(image, i + 1, j + 1, k) * fx;
                work->pixel[(y * w + x) * c + k] = (uint8_t)(upper * (1 - fy) + lower * fy + .5f);
            }
        }
    memcpy(image->pixel, work->pixel, w * h * c);
    return 0;
}

typedef enum geometry { NONE, ROTATE, SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y } geometry;

static affine affine_of(geometry g, double m, const smoe_image *image) {
    double turn = m * 30 / 180 * 3.14159265358979323846;
    switch (g) {
    case ROTATE: return (affine){cos(turn), -sin(turn), 0, sin(turn), cos(turn), 0};
    case SHEAR_X: return (affine){1, .3 * m, 0, 0, 1, 0};
    case SHEAR_Y: return (affine){1, 0, 0, .3 * m, 1, 0};
    case TRANSLATE_X: return (affine){1, 0, round(.45 * m * (double)image->width), 0, 1, 0};
    case TRANSLATE_Y: return (affine){1, 0, 0, 0, 1, round(.45 * m * (double)image->height)};
    case NONE: break;
    }
    return (affine){1, 0, 0, 0, 1, 0};
}

/* ---- tables of 256: every sample of a channel goes through the same curve -------------------- */

static uint8_t byte_of(double v) {
    double above = v + .5; /* half rounds up */
    return above < 1 ? 0 : above >= 255 ? 255 : (uint8_t)above;
}

static void count_channel(const smoe_image *image, size_t channel, size_t *count) {
    size_t pixels = image->width * image->height, c = image->channels;
    memset(count, 0, 256 * sizeof *count);
    for (size_t i = 0; i < pixels; i++) count[image->pixel[i * c + channel]]++;
}

/* The curve of a channel at magnitude m; false: the channel stays. */
typedef bool curve_of(uint8_t curve[256], double m, const smoe_image *image, size_t channel);

static bool curve_autocontrast(uint8_t *curve, double m, const smoe_image *image, size_t channel) {
    size_t count[256];
    int low = 0, high = 255;
    (void)m;
    count_channel(image, channel, count);
    while (low < 255 && !count[low]) low++;
    while (high > 0 && !count[high]) high--;
    for (int v = 0; v < 256 && low < high; v++)
        curve[v] = byte_of(255.0 * (v - low) / (high - low));
    return low < high; /* not one value only */
}

/* The cumulative histogram becomes a line: the lowest value present goes to 0, the highest to 255.
 */
static bool curve_equalize(uint8_t *curve, double m, const smoe_image *image, size_t channel) {
    size_t count[256], below = 0;
    int low = 0;
    (void)m;
    count_channel(image, channel, count);
    while (low < 255 && !count[low]) low++;
    size_t rest = image->width * image->height - count[low];
    for (int v = 0; v < 256 && rest; v++) {
        below += count[v];
        size_t above_low = below > count[low] ? below - count[low] : 0;
        curve[v] = byte_of(255.0 * (double)above_low / (double)rest);
    }
    return rest > 0;
}

static bool curve_solarize(uint8_t *curve, double m, const smoe_image *image, size_t channel) {
    double threshold = 256 * (1 - m);
    (void)image, (void)channel;
    for (int v = 0; v < 256; v++) curve[v] = (uint8_t)(v >= threshold ? 255 - v : v);
    return true;
}

static bool curve_posterize(uint8_t *curve, double m, const smoe_image *image, size_t channel) {
    int lost = (int)lround(4 * m), mask = lost >= 8 ? 0 : 0xff << lost;
    (void)image, (void)channel;
    for (int v = 0; v < 256; v++) curve[v] = (uint8_t)(v & mask);
    return true;
}

static bool curve_brightness(uint8_t *curve, double m, const smoe_image *image, size_t channel) {
    (void)image, (void)channel;
    for (int v = 0; v < 256; v++) curve[v] = byte_of(v * (1 + .9 * m));
    return true;
}

static uint8_t grey_of(const smoe_image *image, size_t i) {
    const uint8_t *p = image->pixel + i * image->channels;
    return image->channels == 3 ? smoe_image_luma(p[0], p[1], p[2]) : p[0];
}

static int op_contrast(double m, smoe_image *image, smoe_image *work, smoe_err *err) {
    (void)work, (void)err;
    size_t pixels = image->width * image->height, sum = 0;
    uint8_t curve[256];
    for (size_t i = 0; i < pixels; i++) sum += grey_of(image, i);
    double mean = (double)sum / (double)pixels;
    for (int v = 0; v < 256; v++) curve[v] = byte_of(mean + (v - mean) * (1 + .9 * m));
    for (size_t i = 0; i < pixels * image->channels; i++) image->pixel[i] = curve[image->pixel[i]];
    return 0;
}

/* ---- mixing with another version of the image ------------------------------------------------ */

/* Towards grey (negative m) or away from it. */
static int op_colour(double m, smoe_image *image, smoe_image *work, smoe_err *err) {
    (void)work, (void)err;
    size_t pixels = image->width * image->height;
    for (size_t i = 0; image->channels == 3 && i < pixels; i++) {
        double grey = grey_of(image, i);
        for (size_t k = 0; k < 3; k++) {
            uint8_t *p = image->pixel + 3 * i + k;
            *p = byte_of(grey + (*p - grey) * (1 + .9 * m));
        }
    }
    return 0;
}

/* Towards or away from a blurred version (3 x 3, centre 5, others 1, of 13); the border stays. */
static int op_sharpness(double m, smoe_image *image, smoe_image *work, smoe_err *err) {
    size_t w = image->width, h = image->height, c = image->channels;
    if (smoe_image_shape(work, w, h, c, err)) return -1;
    memcpy(work->pixel, image->pixel, w * h * c);
    for (size_t y = 1; y + 1 < h; y++)
        for (size_t x = 1; x + 1 < w; x++)
            for (size_t k = 0; k < c; k++) {
                const uint8_t *p = work->pixel + (y * w + x) * c + k;
                int sum = 4 * *p;
                for (size_t j = 0; j < 3; j++)
                    for (size_t i = 0; i < 3; i++) sum += p[0 - (w + 1) * c + (j * w + i) * c];
                double blurred = sum / 13.0;
                image->pixel[(y * w + x) * c + k] =
                    byte_of(blurred + (*p - blurred) * (1 + .9 * m));
            }
    return 0;
}

static const struct operation {
    const char *name;
    bool sign;         /* the magnitude has a random sign */
    geometry geometry; /* what the operation is: this, or */
    curve_of *curve;   /* this, or */
    int (*apply)(double m, smoe_image *image, smoe_image *work, smoe_err *err); /* m: 1 is full */
} operations[] = {
    {"identity", false, NONE, NULL, NULL},
    {"autocontrast", false, NONE, curve_autocontrast, NULL},
    {"equalize", false, NONE, curve_equalize, NULL},
    {"rotate", true, ROTATE, NULL, NULL},
    {"solarize", false, NONE, curve_solarize, NULL},
    {"color", true, NONE, NULL, op_colour},
    {"posterize", false, NONE, curve_posterize, NULL},
    {"contrast", true, NONE, NULL, op_contrast},
    {"brightness", true, NONE, curve_brightness, NULL},
    {"sharpness", true, NONE, NULL, op_sharpness},
    {"shear-x", true, SHEAR_X, NULL, NULL},
    {"shear-y", true, SHEAR_Y, NULL, NULL},
    {"translate-x", true, TRANSLATE_X, NULL, NULL},
    {"translate-y", true, TRANSLATE_Y, NULL, NULL},
};

const char *smoe_randaugment_name(size_t op) {
    return op < SMOE_COUNT(operations) ? operations[op].name : NULL;
}

int smoe_randaugment_apply(size_t op, double m, smoe_image *image, smoe_image *work, smoe_rng *rng,
                           smoe_err *err) {
    const struct operation *o = &operations[op];
    size_t all = image->width * image->height * image->channels;
    uint8_t curve[256];
    if (o->sign && smoe_rng_below(rng, 2)) m = -m;
    m /= 10;
    if (o->apply) return o->apply(m, image, work, err);
    if (o->geometry) return warp(image, work, affine_of(o->geometry, m, image), err);
    for (size_t k = 0; o->curve && k < image->channels; k++)
        if (o->curve(curve, m, image, k))
            for (size_t i = k; i < all; i += image->channels)
                image->pixel[i] = curve[image->pixel[i]];
    return 0;
}

/* ---- crop, flip, all together ---------------------------------------------------------------- */

static int pad_crop(smoe_image *image, smoe_image *work, smoe_rng *rng, smoe_err *err) {
    size_t w = image->width, h = image->height, c = image->channels, pad = w / 8;
    if (smoe_image_shape(work, w, h, c, err)) return -1;
    long dx = (long)smoe_rng_below(rng, 2 * pad + 1) - (long)pad;
    long dy = (long)smoe_rng_below(rng, 2 * pad + 1) - (long)pad;
    size_t from = dx > 0 ? (size_t)dx : 0, to = dx < 0 ? (size_t)-dx : 0;
    size_t copy = (w - (from > to ? from : to)) * c;
    memset(work->pixel, SMOE_FILL, w * h * c);
    for (size_t y = 0; y < h; y++) {
        long sy = (long)y + dy;
        if (sy < 0 || sy >= (long)h) continue;
        memcpy(work->pixel + (y * w + to) * c, image->pixel + ((size_t)sy * w + from) * c, copy);
    }
    memcpy(image->pixel, work->pixel, w * h * c);
    return 0;
}

int smoe_augment(const smoe_data_spec *data, smoe_image *image, smoe_image *work, smoe_rng *rng,
                 smoe_err *err) {
    if (data->augment.crop == SMOE_CROP_PAD && pad_crop(image, work, rng, err)) return -1;
    if (data->augment.flip && smoe_rng_below(rng, 2)) smoe_image_mirror(image);
    for (size_t k = 0; k < data->augment.randaugment.n; k++) {
        size_t op = smoe_rng_below(rng, SMOE_COUNT(operations));
        double m = (double)data->augment.randaugment.m;
        if (smoe_randaugment_apply(op, m, image, work, rng, err)) return -1;
    }
    return 0;
}

/* Gamma(shape, 1) by Marsaglia and Tsang (2000); a shape below 1 through shape + 1 and a power. */
static double gamma_draw(smoe_rng *rng, double shape) {
    double boost = 1;
    if (shape < 1) {
        boost = pow(1 - smoe_rng_uniform(rng), 1 / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = smoe_rng_normal(rng), v = 1 + c * x, u = 1 - smoe_rng_uniform(rng);
        if (v <= 0) continue;
        v = v * v * v;
        if (log(u) < .5 * x * x + d - d * v + d * log(v)) return boost * d * v;
    }
}

static double beta_draw(smoe_rng *rng, double alpha) {
    double a = gamma_draw(rng, alpha), b = gamma_draw(rng, alpha);
    if (a + b > 0) return a / (a + b);
    return (double)smoe_rng_below(rng, 2); /* both underflowed: alpha is tiny, and either larger */
}

double smoe_mixup_lambda(smoe_rng *rng, double alpha) {
    double lambda = beta_draw(rng, alpha);
    return lambda < .5 ? 1 - lambda : lambda;
}

/* The first pixel, and the one after the last, of `side` pixels around `middle`, cut to 0 ..
 * size. */
static void clip(size_t *from, size_t *to, size_t middle, size_t side, size_t size) {
    size_t before = side / 2, after = side - before;
    *from = middle > before ? middle - before : 0;
    *to = middle + after < size ? middle + after : size;
}

smoe_cut smoe_cutmix_cut(smoe_rng *rng, double alpha, size_t size) {
    smoe_cut box;
    size_t side = (size_t)((double)size * sqrt(1 - beta_draw(rng, alpha)));
    size_t x = smoe_rng_below(rng, size), y = smoe_rng_below(rng, size);
    clip(&box.left, &box.right, x, side, size);
    clip(&box.top, &box.bottom, y, side, size);
    return box;
}
