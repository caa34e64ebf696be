/*
 * Adafactor (Shazeer and Stern, 2018) as large Vision Transformers use it (V B.3): with a first
 * moment, without scaling by the norm of weights, the decay of second moments not above beta2.
 *
 * A tensor is E matrices [rows, columns]: stacked kernels one per entry, others one, with the first
 * axis as rows. Where both sizes are at least LEAST, the second moment V of a matrix is kept as the
 * means of its rows, R, and of its columns, C: V_ij = R_i C_j / mean(R). Other tensors keep theirs
 * whole. At update t, with g the clipped gradient:
 *   b = min(1 - t^-0.8, beta2),  V = b V + (1 - b)(g^2 + 1e-30)  (likewise R and C, of their means)
 *   m = beta1 m + (1 - beta1) g / sqrt(V),  w = w - rate (m + decay w)
 * b is 0 at the first update, so V needs no correction; m has none, as in the papers' code.
 */
#include "math/kernels.h"
#include "spec/parts.h"
#include "train/optim.h"
#include "train/schedule.h"

enum { LEAST = 32, COLUMNS = 256, ROWS = 16, PIECE = 1024 };
static const double TINY = 1e-30;

typedef struct matrices {
    size_t count, rows, columns;
} matrices;

static matrices matrices_of(const smoe_param *p) {
    matrices m = {p->stacked ? p->size / (p->whole / p->dim[0]) : 1, 1, 1};
    if (p->ndim > p->stacked) m.rows = p->dim[p->stacked];
    if (p->size) m.columns = p->size / (m.count * m.rows);
    return m;
}

static bool is_factored(matrices m) {
    return m.rows >= LEAST && m.columns >= LEAST;
}

double smoe_adafactor_numbers(const smoe_params *params) {
    double sum = 0;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        matrices m = matrices_of(p);
        if (p->frozen) continue;
        sum += (double)(is_factored(m) ? m.count * (m.rows + m.columns) : p->size);
    }
    return sum;
}

/* Adds moments to the table, divided as their parameter is. */
static void add_moments(smoe_params *second, const smoe_param *p, int ndim, const size_t *dim,
                        const char *ending) {
    size_t i = smoe_params_add(second, smoe_param_constant(0), ndim, dim, "%s%s", p->name, ending);
    if (!smoe_param_sharded(p)) return;
    size_t each = second->param[i].whole / p->dim[0], one = p->whole / p->dim[0];
    smoe_params_shard(second, i, p->from / one * each, p->size / one * each);
}

int smoe_adafactor_allocate(smoe_params *params, smoe_err *err) {
    smoe_params *second = params->second = smoe_alloc(1, sizeof *second);
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        matrices m = matrices_of(p);
        size_t count = p->stacked ? p->dim[0] : 1;
        const size_t rows[] = {count, m.rows}, columns[] = {count, m.columns};
        if (p->frozen) continue;
        if (!is_factored(m)) {
            add_moments(second, p, p->ndim, p->dim, "");
            continue;
        }
        add_moments(second, p, 2, rows, ".rows");
        add_moments(second, p, 2, columns, ".columns");
    }
    smoe_params_place(second);
    second->reader = params->reader;
    return smoe_params_allocate(second, 1, err);
}

/* The values that all elements of a tensor share in an update. */
typedef struct update {
    smoe_params *params;
    const smoe_param *param;
    double clip, beta2;
    real beta1, rate, decay;
} update;

static real mean_after(real mean, double b, double square) {
    return (real)(b * (double)mean + (1 - b) * (square + TINY));
}

/* m and w of n <= PIECE elements from element `at` of the slabs on, with u = g / sqrt(V). */
static void update_apply(const update *x, size_t at, const real *u, size_t n) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    smoe_params *params = x->params;
    real wide[PIECE], *m = params->m_bf16 ? wide : params->m + at, *w = params->w + at;
    if (params->m_bf16) kern->widen(wide, params->m_bf16 + at, n);
    for (size_t i = 0; i < n; i++) {
        m[i] = x->beta1 * m[i] + (1 - x->beta1) * u[i];
        w[i] -= x->rate * (m[i] + x->decay * w[i]);
    }
    if (params->m_bf16) kern->narrow(params->m_bf16 + at, wide, n);
    for (size_t i = 0; i < n && !smoe_param_streams(x->param); i++) params->g[at + i] = 0;
}

/* A tensor whose second moment v is not factored. */
static void step_whole(const update *x, real *v) {
    size_t size = x->param->size, pieces = (size + PIECE - 1) / PIECE;
    const real *g = x->params->g + x->param->offset;
    SMOE_SHARED(optimizer, size)
    for (size_t p = 0; p < pieces; p++) {
        size_t at = p * PIECE, n = size - at < PIECE ? size - at : PIECE;
        real u[PIECE];
        for (size_t i = 0; i < n; i++) {
            double clipped = x->clip * (double)g[at + i];
            real *mean = &v[at + i];
            *mean = mean_after(*mean, x->beta2, clipped * clipped);
            u[i] = (real)(clipped / sqrt((double)*mean));
        }
        update_apply(x, x->param->offset + at, u, n);
    }
}

/* The means of the squares of a tensor over rows and over columns, computed block by block. */
static void update_measure(const update *x, matrices m, real *rows, real *columns) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const real *g = x->params->g + x->param->offset;
    size_t blocks = (m.columns + COLUMNS - 1) / COLUMNS;
    double square = x->clip * x->clip;
    SMOE_SHARED(optimizer, x->param->size)
    for (size_t i = 0; i < m.count * m.rows; i++) {
        const real *at = g + i * m.columns;
        double sum = kern->dot_double(at, at, m.columns);
        rows[i] = mean_after(rows[i], x->beta2, square * sum / (double)m.columns);
    }
    SMOE_SHARED(optimizer, x->param->size)
    for (size_t b = 0; b < m.count * blocks; b++) {
        size_t first = b % blocks * COLUMNS, left = m.columns - first;
        size_t n = left < COLUMNS ? left : COLUMNS;
        const real *at = g + b / blocks * m.rows * m.columns + first;
        real *mean = columns + b / blocks * m.columns + first;
        double sum[COLUMNS] = {0};
        kern->column_dot_double(sum, at, at, m.rows, n, m.columns);
        for (size_t j = 0; j < n; j++)
            mean[j] = mean_after(mean[j], x->beta2, square * sum[j] / (double)m.rows);
    }
}

/* Row i of matrix e, whose mean of R is `mean`. */
static void step_row(const update *x, matrices m, size_t e, size_t i, real own, const real *columns,
                     double mean) {
    size_t start = x->param->offset + (e * m.rows + i) * m.columns;
    for (size_t j = 0; j < m.columns; j += PIECE) {
        size_t n = m.columns - j < PIECE ? m.columns - j : PIECE;
        real u[PIECE];
        for (size_t k = 0; k < n; k++) {
            double clipped = x->clip * (double)x->params->g[start + j + k];
            u[k] = (real)(clipped / sqrt((double)own / mean * (double)columns[j + k]));
        }
        update_apply(x, start + j, u, n);
    }
}

static void step_factored(const update *x, matrices m, real *rows, real *columns) {
    size_t blocks = (m.rows + ROWS - 1) / ROWS;
    update_measure(x, m, rows, columns);
    SMOE_SHARED(optimizer, x->param->size)
    for (size_t b = 0; b < m.count * blocks; b++) {
        size_t e = b / blocks, first = b % blocks * ROWS;
        size_t end = first + ROWS < m.rows ? first + ROWS : m.rows;
        const real *means = rows + e * m.rows;
        double mean = 0;
        for (size_t i = 0; i < m.rows; i++) mean += (double)means[i] / (double)m.rows;
        for (size_t i = first; i < end; i++)
            step_row(x, m, e, i, means[i], columns + e * m.columns, mean);
    }
}

void smoe_adafactor_step(smoe_params *params, const smoe_train_spec *spec, size_t step,
                         double clip) {
    const smoe_params *second = params->second;
    double beta2 = fmin(1 - pow((double)(step + params->carried) + 1, -0.8), spec->optimizer.beta2);
    for (size_t i = 0, at = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        matrices m = matrices_of(p);
        if (p->frozen) continue;
        update x = {.params = params,
                    .param = p,
                    .clip = clip,
                    .beta2 = beta2,
                    .beta1 = (real)spec->optimizer.beta1,
                    .rate = (real)smoe_schedule_rate_of(spec, p, step),
                    .decay = (real)smoe_schedule_decay(spec, p)};
        real *first = second->w + second->param[at++].offset;
        if (is_factored(m))
            step_factored(&x, m, first, second->w + second->param[at++].offset);
        else
            step_whole(&x, first);
    }
}
