/* What a split of a data set is like; see survey.h. */
#include "data/survey.h"
#include "base/clock.h"
#include "data/dataset_source.h"
#include "math/stats.h"

int smoe_survey_open(smoe_dataset **set, const smoe_spec *spec, const char *split, smoe_scan *scan,
                     smoe_err *err) {
    smoe_spec view = *spec;
    view.data.on_error = SMOE_ON_ERROR_SKIP;
    return smoe_dataset_open_as(set, &view, split, SMOE_OPEN_SURVEY, scan, err);
}

/* ---- one image after another ----------------------------------------------------------------- */

static size_t thumb_bytes(const smoe_survey *s) {
    return (size_t)SMOE_SURVEY_THUMB * SMOE_SURVEY_THUMB * s->channels;
}

typedef struct looks {
    smoe_survey *survey;
    const smoe_dataset *set;
    double *sum, *squares; /* [looked, channels] of pixels on the scale to 1 */
    double *seconds;       /* [looked] */
    double *width, *height, *shorter;
    smoe_image_header *header;
} looks;

static void survey_measure(const smoe_image *image, double *sum, double *squares) {
    size_t pixels = image->width * image->height, C = image->channels;
    for (size_t c = 0; c < C; c++) {
        uint64_t total = 0, square = 0;
        for (size_t p = 0; p < pixels; p++) {
            unsigned x = image->pixel[p * C + c];
            total += x;
            square += (uint64_t)x * x;
        }
        sum[c] = (double)total / 255;
        squares[c] = (double)square / (255.0 * 255);
    }
}

static int survey_look(void *context, size_t k, smoe_image *image, smoe_image *work,
                       smoe_err *err) {
    const looks *to = context;
    const smoe_dataset *set = to->set;
    smoe_survey *s = to->survey;
    size_t C = s->channels, i = s->number[k], bytes = thumb_bytes(s);
    double start = smoe_now();
    if (set->type->image(set, smoe_dataset_place(set, i), NULL, image, work, &to->header[k], err))
        return -1;
    to->seconds[k] = smoe_since(start);
    survey_measure(image, to->sum + k * C, to->squares + k * C);
    smoe_box box = {0, 0, (double)image->width, (double)image->height};
    if (smoe_image_resize(work, SMOE_SURVEY_THUMB, image, box, SMOE_RESIZE_BILINEAR, err))
        return -1;
    memcpy(s->thumb + k * bytes, work->pixel, bytes);
    return 0;
}

static void range(double out[3], double *value, size_t n) {
    out[1] = smoe_stats_median(value, n); /* sorts them */
    out[0] = value[0];
    out[2] = value[n - 1];
}

static void sum_up(smoe_survey *s, const looks *from, const smoe_dataset *set) {
    double pixels = (double)(s->looked * set->size * set->size);
    for (size_t c = 0; c < s->channels; c++) {
        double sum = 0, squares = 0;
        for (size_t k = 0; k < s->looked; k++) {
            sum += from->sum[k * s->channels + c];
            squares += from->squares[k * s->channels + c];
        }
        s->mean[c] = sum / pixels;
        s->std[c] = sqrt(fmax(0, squares / pixels - s->mean[c] * s->mean[c]));
    }
    s->seconds = smoe_stats_median(from->seconds, s->looked);
    for (size_t k = 0; s->files && k < s->looked; k++) {
        const smoe_image_header *h = &from->header[k];
        s->kind[h->kind]++;
        s->mode[h->mode]++;
        s->deep += h->deep;
        s->turned += h->orientation > 1;
        size_t width = h->width, height = h->height;
        if (set->data.orientation == SMOE_ORIENTATION_APPLY)
            smoe_image_turned_size(h->orientation, &width, &height);
        from->width[k] = (double)width;
        from->height[k] = (double)height;
        from->shorter[k] = fmin(from->width[k], from->height[k]);
        double beside = 1 - from->shorter[k] / fmax(from->width[k], from->height[k]);
        s->cropped[0] += beside / (double)s->looked;
        s->cropped[1] = fmax(s->cropped[1], beside);
    }
    if (!s->files) return;
    range(s->width, from->width, s->looked);
    range(s->height, from->height, s->looked);
    s->shorter = smoe_stats_median(from->shorter, s->looked);
}

int smoe_survey_of(smoe_survey *s, const smoe_dataset *set, smoe_scan *scan, smoe_err *err) {
    *s = (smoe_survey){.images = set->images, .channels = set->channels};
    s->looked = s->images < SMOE_SURVEY_MOST ? s->images : SMOE_SURVEY_MOST;
    s->files = set->type->files;
    size_t n = s->looked, C = s->channels;
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool m = {0};
    looks to = {.survey = s,
                .set = set,
                .sum = smoe_alloc_in(&m, n * C, sizeof *to.sum),
                .squares = smoe_alloc_in(&m, n * C, sizeof *to.squares),
                .seconds = smoe_alloc_in(&m, n, sizeof *to.seconds),
                .width = smoe_alloc_in(&m, n, sizeof *to.width),
                .height = smoe_alloc_in(&m, n, sizeof *to.height),
                .shorter = smoe_alloc_in(&m, n, sizeof *to.shorter),
                .header = smoe_alloc_in(&m, n, sizeof *to.header)};
    s->number = smoe_alloc_in(&s->memory, n, sizeof *s->number);
    s->thumb = smoe_alloc_in(&s->memory, n, thumb_bytes(s));
    for (size_t k = 0; k < n; k++) s->number[k] = (uint32_t)((uint64_t)k * s->images / n);
    if (smoe_image_each(n, survey_look, &to, scan, "images measured", err)) return -1;
    sum_up(s, &to, set);
    return 0;
}

void smoe_survey_free(smoe_survey *s) {
    smoe_alloc_pool_free(&s->memory);
    *s = (smoe_survey){0};
}

/* ---- near duplicates ------------------------------------------------------------------------- */

/* A thumbnail with what is known of it: the mean over its samples, and how far they are from it. */
typedef struct sample {
    const uint8_t *thumb;
    double mean, contrast;
    uint32_t number;
} sample;

static int compare_means(const void *x, const void *y) {
    const sample *a = x, *b = y;
    if (a->mean != b->mean) return a->mean < b->mean ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static sample *by_mean(const smoe_survey *s) {
    size_t n = thumb_bytes(s);
    sample *list = smoe_alloc(s->looked, sizeof *list);
    for (size_t k = 0; k < s->looked; k++) {
        const uint8_t *t = s->thumb + k * n;
        double sum = 0, away = 0;
        for (size_t i = 0; i < n; i++) sum += t[i];
        for (size_t i = 0; i < n; i++) away += fabs(t[i] - sum / (double)n);
        list[k] = (sample){t, sum / (double)n, away / (double)n, s->number[k]};
    }
    qsort(list, s->looked, sizeof *list, compare_means);
    return list;
}

/* The mean difference of samples; it stops where it is more than `most`. */
static double survey_difference(const uint8_t *a, const uint8_t *b, size_t n, double most) {
    unsigned sum = 0;
    for (size_t i = 0; i < n;) {
        size_t end = i + 64 < n ? i + 64 : n;
        for (; i < end; i++) sum += (unsigned)abs(a[i] - b[i]);
        if ((double)sum > most * (double)n) break;
    }
    return (double)sum / (double)n;
}

/* The nearest of list to x, whose mean cannot be further away than the difference itself. */
static bool nearest(smoe_near *found, const sample *list, size_t count, const sample *x, size_t n) {
    const double most = 2;
    double limit = fmin(most, x->contrast / 10);
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (list[mid].mean < x->mean - limit - 1e-9)
            low = mid + 1;
        else
            high = mid;
    }
    bool any = false;
    for (; low < count && list[low].mean <= x->mean + limit + 1e-9; low++) {
        double d = survey_difference(list[low].thumb, x->thumb, n, limit);
        if (d > limit || (any && (d > found->difference ||
                                  (d == found->difference && list[low].number > found->a))))
            continue;
        any = true;
        *found = (smoe_near){list[low].number, x->number, d};
    }
    return any;
}

static int compare_pairs(const void *x, const void *y) {
    const smoe_near *a = x, *b = y;
    return (a->b > b->b) - (a->b < b->b);
}

smoe_near *smoe_survey_near(size_t *count, const smoe_survey *a, const smoe_survey *b) {
    SMOE_FREED sample *x = by_mean(a);
    SMOE_FREED sample *y = by_mean(b);
    SMOE_FREED bool *near = smoe_alloc(b->looked, sizeof *near);
    smoe_near *pair = smoe_alloc(b->looked, sizeof *pair);
    size_t n = thumb_bytes(a);
    *count = 0;
#pragma omp parallel for schedule(dynamic, 16)
    for (size_t k = 0; k < b->looked; k++) near[k] = nearest(&pair[k], x, a->looked, &y[k], n);
    for (size_t k = 0; k < b->looked; k++)
        if (near[k]) pair[(*count)++] = pair[k];
    qsort(pair, *count, sizeof *pair, compare_pairs);
    return pair;
}
