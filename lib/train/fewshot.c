/*
 * Few-shot accuracy; see fewshot.h. For one draw of the shots, with features F of the model:
 *   x = ((F - mean) / (std + 1e-5), 100)      mean and std of the shots; 100 stands for a bias
 *   W = argmin |x W - Y|^2 + l2 |W|^2         Y: +1 for the class, -1 for the others
 *   the class of a query is argmax x W        the lowest index among equals
 * Fewer shots are the first ones of the same draw.
 */
#include "train/fewshot.h"
#include "math/ridge.h"
#include "train/evaluate.h"
#include "store/run.h"
#include "data/loader.h"

static const double bias = 100, std_eps = 1e-5;

struct smoe_fewshot {
    const smoe_spec *spec;
    smoe_spec view; /* the spec with the data of the few-shot evaluation */
    smoe_dataset *train, *queries;
    size_t most;     /* the largest of the shots */
    size_t draws;    /* eval.fewshot.seeds */
    size_t count;    /* images of a draw */
    uint32_t *image; /* [draws,N,most] class by class */
};

/* ---- drawing --------------------------------------------------------------------------------- */

/* Names all classes that have too few images, but not none. */
static int check_counts(const uint32_t *have, const smoe_dataset *set, size_t shots,
                        smoe_err *err) {
    size_t short_of = 0, first = 0, N = smoe_dataset_classes(set);
    for (size_t c = N; c-- > 0;)
        if (have[c] && have[c] < shots) {
            short_of++;
            first = c;
        }
    if (!short_of) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "eval.fewshot.shots: %zu image%s per class needed, but class '%s' has %u in "
                     "the train split (%zu such class%s)",
                     shots, SMOE_S(shots), smoe_dataset_class_name(set, first), have[first],
                     short_of, SMOE_ES(short_of));
}

int smoe_fewshot_draw(uint32_t *image, size_t *count, const smoe_dataset *set, size_t shots,
                      uint64_t seed, size_t draw, smoe_err *err) {
    size_t n = smoe_dataset_images(set), N = smoe_dataset_classes(set), full = 0;
    SMOE_FREED uint32_t *order = smoe_alloc(n + N, sizeof *order);
    uint32_t *have = order + n;
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_FEWSHOT, 0, draw, 0);
    smoe_rng_permutation(&rng, order, n);
    for (size_t i = 0; i < n && full < N; i++) {
        size_t c = smoe_dataset_label(set, order[i]);
        if (have[c] == shots) continue;
        image[c * shots + have[c]++] = order[i];
        full += have[c] == shots;
    }
    *count = 0;
    for (size_t c = 0; c < N; c++)
        for (size_t k = 0; k < have[c]; k++) image[(*count)++] = image[c * shots + k];
    if (check_counts(have, set, shots, err)) return -1;
    if (*count) return 0;
    return smoe_fail(err, SMOE_DATA, "no images to draw few-shot examples from");
}

/* If examples are missing because of data.limit, the error is in the spec and not in the data. */
static void blame_limit(const smoe_spec *view, const smoe_spec *spec, smoe_err *err) {
    bool other = spec->eval.fewshot.data.source >= SMOE_FEWSHOT_SOURCE;
    if (!view->data.limit || !err || err->code != SMOE_DATA) return;
    smoe_fail_more(err, SMOE_USAGE, "%sdata.limit is %zu: raise it, or give eval.fewshot.shots=[]",
                   other ? "eval.fewshot." : "", view->data.limit);
    err->code = SMOE_USAGE;
}

int smoe_fewshot_open(smoe_fewshot **out, const smoe_spec *spec, smoe_scan *scan, smoe_err *err) {
    *out = NULL;
    const smoe_fewshot_spec *wanted = &spec->eval.fewshot;
    if (!wanted->count) return 0;
    SMOE_FREED_BY(smoe_fewshot_freed) smoe_fewshot *f = smoe_alloc(1, sizeof *f);
    f->spec = spec;
    f->most = wanted->shots[wanted->count - 1]; /* they are sorted */
    f->draws = wanted->seeds;
    if (smoe_spec_fewshot_data(spec, &f->view, err) ||
        smoe_dataset_open(&f->train, &f->view, "train", scan, err) ||
        smoe_dataset_open(&f->queries, &f->view, spec->eval.split, scan, err) ||
        smoe_evaluate_check_classes(f->queries, spec->eval.split, f->train, err))
        return -1;
    size_t N = smoe_dataset_classes(f->train);
    f->image = smoe_alloc(f->draws * N * f->most, sizeof *f->image);
    for (size_t i = 0; i < f->draws; i++)
        if (smoe_fewshot_draw(f->image + i * N * f->most, &f->count, f->train, f->most, spec->seed,
                              i, err)) {
            blame_limit(&f->view, spec, err);
            return -1;
        }
    *out = f;
    f = NULL; /* it is the caller's */
    return 0;
}

uint64_t smoe_fewshot_checksum(const smoe_fewshot *f) {
    uint64_t queries = smoe_dataset_checksum(f->queries);
    return (smoe_dataset_checksum(f->train) ^ (queries << 31 | queries >> 33)) & INT64_MAX;
}

char *smoe_fewshot_remark(const smoe_fewshot *f) {
    SMOE_FREED char *untrained = f ? smoe_dataset_untrained(f->queries, f->train) : NULL;
    return untrained ? smoe_text_format("eval.fewshot: %s", untrained) : NULL;
}

void smoe_fewshot_free(smoe_fewshot *f) {
    if (!f) return;
    smoe_dataset_free(f->train);
    smoe_dataset_free(f->queries);
    free(f->view.data.path);
    free(f->view.data.labels);
    free(f->image);
    free(f);
}

/* ---- features -------------------------------------------------------------------------------- */

/* The measurement of a model, by several processes. */
typedef struct measuring {
    const smoe_fewshot *few;
    smoe_model *model;
    size_t batch, d;
    smoe_comm *comm;
    const volatile sig_atomic_t *stop;
} measuring;

static smoe_features features_room(size_t n, size_t d) {
    return (smoe_features){.x = smoe_alloc(n * d, sizeof(real)),
                           .label = smoe_alloc(n, sizeof(int64_t))};
}

static void features_free(smoe_features *f) {
    free(f->x);
    free(f->label);
    *f = (smoe_features){0};
}

/* Those of the images `only` of a set, into the rows `row` by their places in the pass; or of all
 * images, one after another; in both cases of the batches of this process. */
static int features_of(smoe_features *f, const measuring *m, const smoe_dataset *set,
                       const uint32_t *only, const uint32_t *row, smoe_err *err) {
    const smoe_loader_options options = {.batch_size = m->batch,
                                         .seed = m->few->spec->seed,
                                         .only = only,
                                         .images = m->few->count,
                                         .part = (size_t)m->comm->rank,
                                         .parts = (size_t)m->comm->size};
    SMOE_FREED_BY(smoe_loader_freed) smoe_loader *loader = NULL;
    smoe_batch batch;
    int more;
    if (smoe_loader_open(&loader, set, &m->few->view, &options, err)) return -1;
    while ((more = smoe_loader_next(loader, &batch, err)) > 0) {
        smoe_pass pass = {.seed = options.seed, .images = batch.images, .first = batch.first};
        if (m->stop && *m->stop)
            return smoe_fail(err, SMOE_STOPPED, "stopped on request before few-shot accuracy");
        smoe_model_forward(m->model, batch.pixels, &pass);
        const real *x = smoe_model_features(m->model);
        for (size_t b = 0; b < batch.images; b++) {
            size_t to = row ? row[batch.first + b] : f->n++;
            memcpy(f->x + to * m->d, x + b * m->d, m->d * sizeof *x);
            f->label[to] = batch.label[b];
        }
    }
    return more;
}

/* A draw is stored class by class. It passes through the model in the order of an evaluation, like
 * a split, so that the order carries no information about classes. */
static int features_of_draw(smoe_features *f, const measuring *m, size_t draw, smoe_err *err) {
    const smoe_fewshot *few = m->few;
    size_t n = few->count;
    const uint32_t *image = few->image + draw * smoe_dataset_classes(few->train) * few->most;
    SMOE_FREED uint32_t *row = smoe_alloc(2 * n, sizeof *row);
    uint32_t *only = row + n;
    smoe_dataset_order(row, n, few->spec);
    for (size_t i = 0; i < n; i++) only[i] = image[row[i]];
    return features_of(f, m, few->train, only, row, err);
}

/* Gives all processes the features of a draw, each of which one of them has computed. */
static int features_join(smoe_features *f, const measuring *m, int status, smoe_err *err) {
    smoe_model_serve(m->model);
    if (smoe_comm_agree(m->comm, status, NULL, err)) return -1;
    f->n = m->few->count;
    smoe_comm_join(m->comm, f->x, f->n * m->d * sizeof *f->x);
    smoe_comm_join(m->comm, f->label, f->n * sizeof *f->label);
    return 0;
}

/* ---- the regression -------------------------------------------------------------------------- */

/* mean and 1 / (std + eps) of each feature over the shots. */
static void features_mean(double *mean, double *scale, const real *x, size_t n, size_t d) {
    for (size_t j = 0; j < d; j++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) sum += (double)x[i * d + j];
        mean[j] = sum / (double)n;
        for (size_t i = 0; i < n; i++) {
            double off = (double)x[i * d + j] - mean[j];
            squares += off * off;
        }
        scale[j] = 1 / (sqrt(squares / (double)n) + std_eps);
    }
}

static void features_whiten(double *to, const double *mean, const double *scale, const real *x,
                            size_t d) {
    for (size_t j = 0; j < d; j++) to[j] = ((double)x[j] - mean[j]) * scale[j];
    to[d] = bias;
}

/* Classes that are scored at once: many need no more memory than few. */
enum { CLASSES_TILE = 64 };

/* The class of a query, by the classes that were scored so far. */
typedef struct judged {
    double highest;
    int64_t class;
} judged;

/* Scores x W of the n queries x [n,D] for N <= CLASSES_TILE classes from `first` on; W [D,N]. */
static void queries_judge(judged *best, const double *x, size_t n, const double *W, size_t D,
                          size_t N, size_t first) {
    for (size_t i = 0; i < n; i++) {
        double score[CLASSES_TILE] = {0};
        for (size_t j = 0; j < D; j++) {
            double v = x[i * D + j];
#pragma omp simd
            for (size_t c = 0; c < N; c++) score[c] += v * W[j * N + c];
        }
        for (size_t c = 0; c < N; c++)
            if (score[c] > best[i].highest) best[i] = (judged){score[c], (int64_t)(first + c)};
    }
}

int smoe_fewshot_solve(size_t *correct, const smoe_features *shots, const smoe_features *queries,
                       size_t d, size_t N, smoe_err *err) {
    size_t n = shots->n, q = queries->n, D = d + 1;
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool m = {0};
    double *mean = smoe_alloc_in(&m, d, sizeof(double));
    double *scale = smoe_alloc_in(&m, d, sizeof(double));
    double *X = smoe_alloc_in(&m, n * D, sizeof(double)); /* the shots, whitened */
    double *Y = smoe_alloc_in(&m, n * CLASSES_TILE, sizeof(double));
    double *Q = smoe_alloc_in(&m, q * D, sizeof(double)); /* the queries, whitened */
    double *W = smoe_alloc_in(&m, SMOE_FEWSHOT_STRENGTHS * D * CLASSES_TILE, sizeof(double));
    judged *best = smoe_alloc_in(&m, SMOE_FEWSHOT_STRENGTHS * q, sizeof *best);
    SMOE_FREED_BY(smoe_ridge_free) smoe_ridge ridge = {0};
    features_mean(mean, scale, shots->x, n, d);
    for (size_t i = 0; i < n; i++) features_whiten(X + i * D, mean, scale, shots->x + i * d, d);
    for (size_t i = 0; i < q; i++) features_whiten(Q + i * D, mean, scale, queries->x + i * d, d);
    if (smoe_ridge_create(&ridge, X, n, D, err)) return -1;
    for (size_t i = 0; i < SMOE_FEWSHOT_STRENGTHS * q; i++) best[i].highest = -INFINITY;
    for (size_t first = 0; first < N; first += CLASSES_TILE) {
        size_t classes = N - first < CLASSES_TILE ? N - first : CLASSES_TILE;
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < classes; c++)
                Y[i * classes + c] = (int64_t)(first + c) == shots->label[i] ? 1 : -1;
        smoe_ridge_targets(&ridge, Y, classes);
#pragma omp parallel for schedule(dynamic)
        for (size_t l = 0; l < SMOE_FEWSHOT_STRENGTHS; l++) {
            double *w = W + l * D * CLASSES_TILE;
            smoe_ridge_weights(&ridge, ldexp(1, SMOE_FEWSHOT_LOWEST + (int)l), w);
            queries_judge(best + l * q, Q, q, w, D, classes, first);
        }
    }
    for (size_t l = 0; l < SMOE_FEWSHOT_STRENGTHS; l++) {
        correct[l] = 0;
        for (size_t i = 0; i < q; i++) correct[l] += best[l * q + i].class == queries->label[i];
    }
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Of correct [draws, strengths] out of q, the strength with the highest mean. */
static smoe_fewshot_score score_summary(const size_t *correct, size_t draws, size_t q,
                                        size_t shots) {
    size_t best = 0, most = 0;
    for (size_t l = 0; l < SMOE_FEWSHOT_STRENGTHS; l++) {
        size_t sum = 0;
        for (size_t i = 0; i < draws; i++) sum += correct[i * SMOE_FEWSHOT_STRENGTHS + l];
        if (sum <= most) continue;
        most = sum;
        best = l;
    }
    double mean = (double)most / (double)draws / (double)q, squares = 0;
    for (size_t i = 0; i < draws; i++) {
        double off = (double)correct[i * SMOE_FEWSHOT_STRENGTHS + best] / (double)q - mean;
        squares += off * off;
    }
    return (smoe_fewshot_score){.shots = shots,
                                .mean = mean,
                                .sd = draws > 1 ? sqrt(squares / (double)(draws - 1)) : 0,
                                .l2 = ldexp(1, SMOE_FEWSHOT_LOWEST + (int)best)};
}

/* The first `shots` of each class, of a draw with `most` of each: moved to the front of `few`. */
static void take_first(smoe_features *few, const smoe_features *all, size_t most, size_t shots,
                       size_t d) {
    few->n = 0;
    for (size_t i = 0; i < all->n; i++) {
        if (i % most >= shots) continue;
        for (size_t j = 0; j < d; j++) few->x[few->n * d + j] = all->x[i * d + j];
        few->label[few->n++] = all->label[i];
    }
}

/* Counts for every number of shots, draw and strength: correct [shots, draws, strengths] of the
 * queries of this process. */
static int count_correct(size_t *correct, const measuring *m, smoe_err *err) {
    const smoe_fewshot *f = m->few;
    const smoe_fewshot_spec *wanted = &f->spec->eval.fewshot;
    size_t d = m->d, N = smoe_dataset_classes(f->train);
    size_t B = m->batch, R = (size_t)m->comm->size;
    size_t batches = (smoe_dataset_images(f->queries) + B - 1) / B;
    SMOE_FREED_BY(features_free)
    smoe_features queries = features_room((batches + R - 1) / R * B, d); /* of this process */
    SMOE_FREED_BY(features_free) smoe_features all = {0};
    SMOE_FREED_BY(features_free) smoe_features few = features_room(f->count, d);
    int status = features_of(&queries, m, f->queries, NULL, NULL, err);
    for (size_t i = 0; i < f->draws; i++) {
        features_free(&all);
        all = features_room(f->count, d);
        if (!status) status = features_of_draw(&all, m, i, err);
        if (features_join(&all, m, status, err)) return -1;
        for (size_t k = 0; k < wanted->count && !status; k++) {
            size_t *to = correct + (k * f->draws + i) * SMOE_FEWSHOT_STRENGTHS;
            take_first(&few, &all, f->most, wanted->shots[k], d);
            status = smoe_fewshot_solve(to, &few, &queries, d, N, err);
        }
    }
    return status;
}

int smoe_fewshot_measure(const smoe_fewshot *f, smoe_model *model, size_t batch, smoe_comm *comm,
                         const volatile sig_atomic_t *stop, smoe_fewshot_score *score,
                         smoe_err *err) {
    const smoe_fewshot_spec *wanted = &f->spec->eval.fewshot;
    size_t each = f->draws * SMOE_FEWSHOT_STRENGTHS, n = wanted->count * each;
    smoe_comm alone = smoe_comm_alone;
    const measuring m = {f, model, batch, f->spec->model.width, comm ? comm : &alone, stop};
    SMOE_FREED size_t *correct = smoe_alloc(n, sizeof *correct);
    int status = count_correct(correct, &m, err);
    if (smoe_comm_agree(m.comm, status, NULL, err)) status = -1;
    if (!status) smoe_comm_sum_counts(m.comm, correct, n);
    for (size_t k = 0; k < wanted->count && !status; k++)
        score[k] = score_summary(correct + k * each, f->draws, smoe_dataset_images(f->queries),
                                 wanted->shots[k]);
    return status;
}

int smoe_fewshot_record(const smoe_fewshot *f, smoe_model *model, size_t batch, smoe_comm *comm,
                        json_t *record, char **line, smoe_err *err) {
    smoe_fewshot_score score[SMOE_MAX_SHOTS] = {0};
    if (smoe_fewshot_measure(f, model, batch, comm, NULL, score, err)) return -1;
    if (line) *line = smoe_text_format("few-shot accuracy, by images per class:");
    for (size_t k = 0; k < f->spec->eval.fewshot.count; k++) {
        const char *split = f->spec->eval.split;
        size_t shots = score[k].shots;
        smoe_run_metric(record, SMOE_METRIC_FEWSHOT, split, shots, score[k].mean);
        smoe_run_metric(record, SMOE_METRIC_FEWSHOT_SD, split, shots, score[k].sd);
        smoe_run_metric(record, SMOE_METRIC_FEWSHOT_L2, split, shots, score[k].l2);
        if (line) smoe_text_add(line, "%s %zu: %.4f", k ? "," : "", shots, score[k].mean);
    }
    return 0;
}
