/* Pictures in memory, see image.h. Sums of the resizing filter are in float over at most a few
 * hundred non-negative weights that sum to 1: far below half a grey level of error. */
#include "data/image.h"
#include "base/threads.h"

#include <assert.h>

int smoe_image_shape(smoe_image *image, size_t width, size_t height, size_t channels,
                     smoe_err *err) {
    size_t bytes = width * height * channels;
    if (bytes > image->room) {
        uint8_t *pixel = realloc(image->pixel, bytes);
        if (!pixel)
            return smoe_fail(err, SMOE_RUNTIME, "out of memory for an image of %zu x %zu", width,
                             height);
        image->pixel = pixel;
        image->room = bytes;
    }
    image->width = width;
    image->height = height;
    image->channels = channels;
    return 0;
}

void smoe_image_free(smoe_image *image) {
    free(image->pixel);
    *image = (smoe_image){0};
}

int smoe_image_each(size_t n, smoe_image_task *each, void *context, smoe_scan *scan,
                    const char *what, smoe_err *err) {
    size_t failed = n;
    smoe_scan_begin(scan);
#pragma omp parallel
    {
        SMOE_FREED_BY(smoe_image_free) smoe_image image = {0}, work = {0};
#pragma omp for schedule(dynamic, 16)
        for (size_t i = 0; i < n; i++) {
            smoe_err mine = {0};
            int stopped = smoe_thread() ? smoe_scan_asked(scan, &mine)
                                        : smoe_scan_at(scan, i + 1, n, what, &mine);
            if (!stopped && !each(context, i, &image, &work, &mine)) continue;
#pragma omp critical(smoe_image_failure)
            if (i < failed) {
                failed = i;
                if (err) *err = mine;
            }
        }
    }
    return smoe_scan_end(scan, failed < n ? -1 : 0);
}

uint8_t smoe_image_luma(uint8_t red, uint8_t green, uint8_t blue) {
    return (uint8_t)((19595u * red + 38470u * green + 7471u * blue + 32768u) >> 16);
}

void smoe_image_over_black(smoe_image *image) {
    size_t pixels = image->width * image->height, kept = image->channels - 1;
    for (size_t i = 0; i < pixels; i++) {
        const uint8_t *from = image->pixel + i * (kept + 1);
        unsigned alpha = from[kept];
        for (size_t c = 0; c < kept; c++)
            image->pixel[i * kept + c] = (uint8_t)((from[c] * alpha + 127) / 255);
    }
    image->channels = kept;
}

int smoe_image_border(smoe_image *image, smoe_err *err) {
    size_t width = image->width, height = image->height, side = width > height ? width : height;
    smoe_image square = {0};
    if (width == height) return 0;
    if (smoe_image_shape(&square, side, side, image->channels, err)) return -1;
    size_t row = width * image->channels, wide = side * image->channels;
    if (!square.pixel) return 0; /* no channels */
    uint8_t *to = square.pixel + (side - height) / 2 * wide + (side - width) / 2 * image->channels;
    memset(square.pixel, 0, side * wide);
    for (size_t y = 0; y < height; y++) memcpy(to + y * wide, image->pixel + y * row, row);
    smoe_image_free(image);
    *image = square;
    return 0;
}

int smoe_image_convert(smoe_image *image, size_t channels, smoe_err *err) {
    size_t pixels = image->width * image->height;
    if (channels == image->channels) return 0;
    if (channels == 1) {
        uint8_t *p = image->pixel;
        for (size_t i = 0; i < pixels; i++)
            p[i] = smoe_image_luma(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
        image->channels = 1;
        return 0;
    }
    if (smoe_image_shape(image, image->width, image->height, 3, err)) return -1;
    uint8_t *p = image->pixel;
    for (size_t i = pixels; i-- > 0;) { /* from the end: the grey samples lie where pixels go */
        uint8_t grey = p[i];
        p[3 * i] = p[3 * i + 1] = p[3 * i + 2] = grey;
    }
    return 0;
}

smoe_box smoe_box_centre(size_t width, size_t height) {
    size_t side = width < height ? width : height;
    return (smoe_box){(double)((width - side) / 2), (double)((height - side) / 2), (double)side,
                      (double)side};
}

smoe_box smoe_box_share(size_t width, size_t height, size_t side, double share, bool squash) {
    if (share >= 1 && squash) return (smoe_box){0, 0, (double)width, (double)height};
    if (share >= 1) return smoe_box_centre(width, height);
    bool wide = width > height;
    size_t least = wide ? height : width, most = wide ? width : height;
    double small = floor((double)side / share);
    double large = squash ? small : floor(small * (double)most / (double)least);
    double w = (double)width / (wide ? large : small), h = (double)height / (wide ? small : large);
    double x = nearbyint(((wide ? large : small) - (double)side) / 2);
    double y = nearbyint(((wide ? small : large) - (double)side) / 2);
    return (smoe_box){x * w, y * h, (double)side * w, (double)side * h};
}

smoe_box smoe_box_inception(smoe_rng *rng, size_t width, size_t height) {
    const double least = 0.05, log_ratio = log(4.0 / 3.0);
    for (int attempt = 0; attempt < 10; attempt++) {
        double area = (least + (1 - least) * smoe_rng_uniform(rng)) * (double)(width * height);
        double ratio = exp(log_ratio * (2 * smoe_rng_uniform(rng) - 1));
        size_t w = (size_t)lround(sqrt(area * ratio)), h = (size_t)lround(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        size_t x = smoe_rng_below(rng, width - w + 1), y = smoe_rng_below(rng, height - h + 1);
        return (smoe_box){(double)x, (double)y, (double)w, (double)h};
    }
    return smoe_box_centre(width, height);
}

/* The filter of one axis: output o is the sum of weight[o*taps + k] * input[first[o] + k]. */
typedef struct axis {
    size_t taps, *first;
    float *weight;
} axis;

/* The filter at distance x: 1 at 0, and 0 from 1 on, or from 2 on. */
static double filter_at(smoe_resize filter, double x) {
    x = fabs(x);
    if (filter == SMOE_RESIZE_BILINEAR) return x < 1 ? 1 - x : 0;
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static axis axis_make(size_t out, size_t in, double start, double length, smoe_resize filter) {
    double scale = length / (double)out, wide = scale > 1 ? scale : 1;
    double support = filter == SMOE_RESIZE_BILINEAR ? wide : 2 * wide;
    size_t taps = (size_t)ceil(2 * support) + 1;
    if (taps > in) taps = in;
    axis a = {taps, smoe_alloc(out, sizeof *a.first), smoe_alloc(out * taps, sizeof *a.weight)};
    for (size_t o = 0; o < out; o++) {
        double centre = start + ((double)o + 0.5) * scale - 0.5, low = ceil(centre - support);
        double last = (double)(in - taps), first = low < 0 ? 0 : low > last ? last : low;
        double sum = 0;
        a.first[o] = (size_t)first;
        for (size_t k = 0; k < taps; k++) {
            sum += filter_at(filter, (first + (double)k - centre) / wide);
        }
        for (size_t k = 0; k < taps; k++) {
            double w = filter_at(filter, (first + (double)k - centre) / wide);
            a.weight[o * taps + k] = (float)(w / sum);
        }
    }
    return a;
}

static void axis_free(axis *a) {
    free(a->first);
    free(a->weight);
}

/* Rows of `in` that the vertical filter needs, each resized to `size` pixels: line [rows, size*c].
 * `bytes`: rounded and cut to the range of bytes, as in Pillow, which matters if a filter
 * overshoots. */
static void resize_across(float *line, const smoe_image *in, size_t first_row, size_t rows,
                          size_t size, const axis *x, bool bytes) {
    size_t c = in->channels;
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *row = in->pixel + (first_row + r) * in->width * c;
        float *to = line + r * size * c;
        for (size_t o = 0; o < size; o++) {
            const float *w = x->weight + o * x->taps;
            const uint8_t *from = row + x->first[o] * c;
            for (size_t ch = 0; ch < c; ch++) {
                float sum = 0;
                for (size_t k = 0; k < x->taps; k++) sum += w[k] * from[k * c + ch];
                to[o * c + ch] = bytes ? rintf(fminf(fmaxf(sum, 0), 255)) : sum;
            }
        }
    }
}

static void resize_down(uint8_t *pixel, const float *line, size_t first_row, size_t size,
                        size_t width, const axis *y, float *sum) {
    for (size_t o = 0; o < size; o++) {
        const float *from = line + (y->first[o] - first_row) * width;
        for (size_t i = 0; i < width; i++) sum[i] = 0.5f; /* rounds to nearest below */
        for (size_t k = 0; k < y->taps; k++) {
            float w = y->weight[o * y->taps + k];
            for (size_t i = 0; i < width; i++) sum[i] += w * from[k * width + i];
        }
        for (size_t i = 0; i < width; i++)
            pixel[o * width + i] = sum[i] >= 255 ? 255 : sum[i] > 0 ? (uint8_t)sum[i] : 0;
    }
}

static bool image_whole(double a) {
    return a == floor(a);
}

int smoe_image_resize(smoe_image *out, size_t size, const smoe_image *in, smoe_box box,
                      smoe_resize filter, smoe_err *err) {
    size_t c = in->channels, width = size * c;
    if (smoe_image_shape(out, size, size, c, err)) return -1;
    if (box.width == (double)size && box.height == (double)size && image_whole(box.x) &&
        image_whole(box.y)) {
        for (size_t r = 0; r < size; r++)
            memcpy(out->pixel + r * width,
                   in->pixel + (((size_t)box.y + r) * in->width + (size_t)box.x) * c, width);
        return 0;
    }
    SMOE_FREED_BY(axis_free) axis x = axis_make(size, in->width, box.x, box.width, filter);
    SMOE_FREED_BY(axis_free) axis y = axis_make(size, in->height, box.y, box.height, filter);
    size_t first = y.first[0], rows = y.first[size - 1] + y.taps - first;
    SMOE_FREED float *line = smoe_alloc_more(NULL, (rows + 1) * width, sizeof *line);
    resize_across(line, in, first, rows, size, &x, filter == SMOE_RESIZE_BICUBIC);
    resize_down(out->pixel, line, first, size, width, &y, line + rows * width);
    return 0;
}

int smoe_image_fit(smoe_image *out, size_t size, const smoe_image *in, smoe_rng *crop,
                   smoe_resize filter, smoe_err *err) {
    smoe_box box = crop ? smoe_box_inception(crop, in->width, in->height)
                        : smoe_box_centre(in->width, in->height);
    return smoe_image_resize(out, size, in, box, filter, err);
}

void smoe_image_scale_make(smoe_image_scale *scale, const smoe_data_spec *data) {
    for (size_t ch = 0; ch < data->channels; ch++) {
        double mean = smoe_series_at(&data->mean, ch), std = smoe_series_at(&data->std, ch);
        real unit = (real)(255 * std), shift = (real)(mean / std); /* 127.5 and 1 by default */
        for (size_t x = 0; x < 256; x++) scale->of[ch][x] = (real)x / unit - shift;
    }
}

void smoe_image_pixels(real *pixels, const smoe_image *image, const smoe_image_scale *scale) {
    size_t c = image->channels, plane = image->width * image->height;
    for (size_t ch = 0; ch < c; ch++)
        for (size_t i = 0; i < plane; i++)
            pixels[ch * plane + i] = scale->of[ch][image->pixel[i * c + ch]];
}

real smoe_image_shown(const smoe_data_spec *data, size_t channel, real x) {
    double mean = smoe_series_at(&data->mean, channel), std = smoe_series_at(&data->std, channel);
    return (real)(2 * ((double)x * std + mean) - 1);
}

/* ---- orientation ----------------------------------------------------------------------------- */

/* Upright (x, y) is stored at (a, b): with rows and columns exchanged, a = y and b = x, and then a
 * or b counted from the other end. */
enum { EXCHANGED = 1, COLUMNS = 2, ROWS = 4 };
static const uint8_t lies[] = {[2] = COLUMNS,
                               [3] = COLUMNS | ROWS,
                               [4] = ROWS,
                               [5] = EXCHANGED,
                               [6] = EXCHANGED | ROWS,
                               [7] = EXCHANGED | COLUMNS | ROWS,
                               [8] = EXCHANGED | COLUMNS};

void smoe_image_turned_size(unsigned orientation, size_t *width, size_t *height) {
    size_t stored = *width;
    if (!(lies[orientation] & EXCHANGED)) return;
    *width = *height;
    *height = stored;
}

smoe_box smoe_box_stored(smoe_box seen, unsigned orientation, size_t width, size_t height) {
    smoe_box box = seen;
    if (lies[orientation] & EXCHANGED) box = (smoe_box){seen.y, seen.x, seen.height, seen.width};
    if (lies[orientation] & COLUMNS) box.x = (double)width - box.x - box.width;
    if (lies[orientation] & ROWS) box.y = (double)height - box.y - box.height;
    return box;
}

/* Exchanges the bytes of pixels p and q. */
static void swap_pixels(smoe_image *image, size_t p, size_t q) {
    for (size_t c = 0; c < image->channels; c++) {
        uint8_t *a = image->pixel + p * image->channels + c;
        uint8_t *b = image->pixel + q * image->channels + c, t = *a;
        *a = *b;
        *b = t;
    }
}

void smoe_image_mirror(smoe_image *image) {
    size_t w = image->width;
    for (size_t y = 0; y < image->height; y++)
        for (size_t x = 0; x < w / 2; x++) swap_pixels(image, y * w + x, y * w + w - 1 - x);
}

int smoe_image_roll(smoe_image *image, smoe_image *work, size_t right, size_t down, smoe_err *err) {
    size_t w = image->width, h = image->height, c = image->channels, row = w * c;
    if (smoe_image_shape(work, w, h, c, err)) return -1;
    memcpy(work->pixel, image->pixel, h * row);
    for (size_t y = 0; y < h; y++) {
        uint8_t *to = image->pixel + (y + down) % h * row;
        memcpy(to + right * c, work->pixel + y * row, row - right * c);
        memcpy(to, work->pixel + (y + 1) * row - right * c, right * c);
    }
    return 0;
}

static void mirror_rows(smoe_image *image) {
    size_t w = image->width, h = image->height;
    for (size_t y = 0; y < h / 2; y++)
        for (size_t x = 0; x < w; x++) swap_pixels(image, y * w + x, (h - 1 - y) * w + x);
}

static void image_transpose(smoe_image *image) {
    size_t n = image->width;
    for (size_t y = 0; y < n; y++)
        for (size_t x = 0; x < y; x++) swap_pixels(image, y * n + x, x * n + y);
}

void smoe_image_turn(smoe_image *image, unsigned orientation) {
    assert(image->width == image->height);
    if (lies[orientation] & COLUMNS) smoe_image_mirror(image);
    if (lies[orientation] & ROWS) mirror_rows(image);
    if (lies[orientation] & EXCHANGED) image_transpose(image);
}
