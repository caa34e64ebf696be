/*
 * The kernels of one instruction set, as tables of functions; which table is in force is decided
 * once by what the processor can do. The environment variable SMOE_ISA (base, v3, v4, v4-bf16, amx)
 * forces one, for tests and comparisons. Kernels neither allocate nor thread.
 */
#pragma once

#include "base/param.h"
#include "math/matrix.h"
#include "math/precision.h"

/* What a tile prefetches while it computes: every `every` steps of k (a power of 2, or 0: nothing)
 * two cache lines (of 64 bytes) at `at`, then `step` bytes farther; `left` times until it moves on
 * by `skip` bytes more, then `run` times. Addresses past the end of an array are harmless.
 */
typedef struct smoe_prefetch {
    const char *at;
    size_t left, run, every;
    ptrdiff_t step, skip;
} smoe_prefetch;

/* The largest values of all kernels of products, which determine the memory for panels. */
enum {
    SMOE_TILE_ROWS = 14,    /* mr */
    SMOE_PANEL_PITCH = 16,  /* pitch */
    SMOE_TILE_ACROSS = 8,   /* columns of a tile of tile_across */
    SMOE_BLOCK_ACROSS = 48, /* across: columns of a block of these tiles */
    SMOE_PANEL_SPILL = 16   /* elements that packing may write past a panel: less than a vector */
};

/* One tile: c [m,n] = add [m,n] + bias [n] + alpha * A B; add and bias may be NULL. */
typedef struct smoe_tile {
    size_t m, n, k;
    real *c;
    size_t ldc;
    const real *a, *b; /* layout: see each kernel */
    const smoe_bf16 *b_bf16;
    size_t a_row, a_col, a_next, ldb;
    const real *add;
    size_t ldadd;
    const real *bias;
    real alpha;
    bool stream;            /* C bypasses the caches; call `settle` before others read it */
    smoe_prefetch prefetch; /* the kernel advances it */
    real *sums;             /* of tile_down: [n/lanes][m][lanes], the sums so far */
    bool begun, later;      /* continue from them; leave the result in them instead of C */
} smoe_tile;

/* Pieces of a matrix product, which gemm_blocked.c puts together. Packings leave zeros below the
 * last row or right of the last column, and need room for a vector behind. */
typedef struct smoe_gemm_kernels {
    size_t mr, half, nr; /* rows of a tile, of a low one, and columns */
    /* dst: panels of `height` rows (mr or half), [ceil(m/height)][k][pitch], low ones
     * [k][half]; a(i,p) = a[i*rs + p*cs]. The elements between mr and pitch are undefined. */
    size_t pitch;
    void (*pack_a)(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k,
                   size_t height);
    /* dst: one panel of nr columns, [k][nr]; b(p,j) = b[p*rs + j*cs]. */
    void (*pack_b)(real *dst, const real *b, size_t rs, size_t cs, size_t k, size_t n);
    /* The same from BF16, widened, which is exact. */
    void (*pack_b_bf16)(real *dst, const smoe_bf16 *b, size_t rs, size_t cs, size_t k, size_t n);
    /* Tiles of m rows, mr at a time, and n <= nr columns. A is in place, one of a_row and a_col
     * being 1 and a_next = mr a_row, or in panels of mr rows, a_row = 1, a_col their pitch and
     * a_next the size of one; B is a panel or, where n is nr or nr/2, B itself: [k][ldb]. Advances
     * a, c and add. */
    bool as_is;         /* rows of A are as fast in place as in panels, in large products too */
    bool prefetch_rows; /* the next rows of A are worth prefetching */
    void (*tiles)(smoe_tile *t);
    /* Copies n numbers past the caches. */
    void (*stream)(real *to, const real *from, size_t n);
    void (*settle)(void);
    /* If rows of C are a multiple of this many bytes apart, it is faster to collect them and to
     * write them one by one; 0: never. */
    size_t aliasing;
    /* Multiply-adds on registers only, n rounds; returns how many FLOPs that was: the processor's
     * limit. */
    double (*peak)(size_t n);
    /* Reads `bytes`, a multiple of 64, of each of SMOE_STREAMS streams, `stride` bytes apart: the
     * limit of memory. The result depends on every bit, so that the compiler omits no read. */
    uint32_t (*read_streams)(const char *from, size_t stride, size_t bytes);
} smoe_gemm_kernels;

/* Pieces of a product where A has few rows, without packing B; see gemm_skinny.c and
 * fused_mlp.c. */
typedef struct smoe_skinny_kernels {
    size_t lanes; /* elements of a vector */
    /* The numbers of smoe_gemm_kernels.tile: n <= across; A is a panel of pack_across, [k][width],
     * m <= a_col = width, one, two or three times lanes; the columns of B lie at b + j*ldb. */
    size_t across;
    void (*pack_across)(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k,
                        size_t width);
    void (*tile_across)(smoe_tile *t);
    /* The same with C and `add` as such panels too, [n][width] from c on; alpha is 1. */
    void (*tile_panel)(smoe_tile *t);
    /* Copies rows of C from such a panel, m <= width. Its last columns are read by whole vectors,
     * so it must have room for a multiple of lanes. */
    void (*unpack_across)(real *c, size_t ldc, const real *panel, size_t m, size_t n, size_t width);
    /* The same numbers for at most `transposed` rows of A, a low panel, and at most `lanes` columns
     * of B, in `real` at b + j*ldb or in BF16 at b_bf16 + j*ldb. */
    size_t transposed;
    void (*tile_transposed)(smoe_tile *t);
    /* The same numbers for all columns of few rows, n a multiple of lanes, with k = deep rows of B,
     * ldb apart (or fewer, once begun): continues the chains of `tile` in t->sums. A is a block of
     * pack_deep, whose dst is [ceil(k/deep)][m][deep]. */
    size_t deep;
    void (*pack_deep)(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k);
    void (*tile_down)(smoe_tile *t);
} smoe_skinny_kernels;

/* Memory that is needed next: this many bytes at each of these addresses. */
enum { SMOE_REACHES = 3 };
typedef struct smoe_prefetch_ranges {
    const char *at[SMOE_REACHES];
    size_t bytes[SMOE_REACHES];
} smoe_prefetch_ranges;

/* w -= rate * (m' * correct1 / (sqrt(v' * correct2) + eps) + decay * w), g' = clip * g,
 * m' = beta1 m + (1 - beta1) g', v' = beta2 v + (1 - beta2) g'^2. */
typedef struct smoe_adam_constants {
    bool leave;   /* leaves g unchanged, instead of setting it to 0 */
    size_t early; /* elements after SMOE_ADAM_PREFETCH that have already been prefetched */
    real clip, beta1, beta2, correct1, correct2, eps, rate, decay;
} smoe_adam_constants;

/* A LayerNorm over n numbers: y = (x - mean)/sqrt(var + eps) * w + b; w and b [n]. */
typedef struct smoe_norm_weights {
    const real *w, *b; /* b is not looked at by backward */
    size_t n;
    real eps;
} smoe_norm_weights;

/* Rows x [R,n] and their stats [R,2], mean and 1/sqrt(var + eps): forward fills them. */
typedef struct smoe_norm_rows {
    const real *x;
    real *stats;
    size_t R;
} smoe_norm_rows;

/* Element-wise and row-wise work. R rows of n elements, row-major without gaps unless a stride ld
 * is given. What happens to a row does not depend on which row it is or how many there are. */
typedef struct smoe_row_kernels {
    /* y = gelu(x), n elements. */
    void (*gelu)(real *y, const real *x, size_t n, smoe_gelu kind);
    /* a = gelu(x) and dx = da * gelu'(x): the activation need not have been kept. dx may be da. */
    void (*gelu_backward)(real *dx, real *a, const real *da, const real *x, size_t n,
                          smoe_gelu kind);
    /* y = gelu(x) and slopes = gelu'(x); slopes may be x. */
    void (*gelu_slopes)(real *y, real *slopes, const real *x, size_t n, smoe_gelu kind);
    /* y = the norm of each row. */
    void (*norm)(smoe_outputs y, const smoe_norm_rows *rows, const smoe_norm_weights *norm);
    /* dx, dw, db: += the gradients through the norm over these rows. */
    void (*norm_backward)(real *dx, real *dw, real *db, const real *dy, const smoe_norm_rows *rows,
                          const smoe_norm_weights *norm);
    /* Softmax of each row, in place. */
    void (*softmax)(real *x, size_t R, size_t n, size_t ld);
    /* dp becomes p * (dp - sum(p * dp)), by rows. */
    void (*softmax_backward)(real *dp, const real *p, size_t R, size_t n, size_t ld);
    /* The same by columns: y = softmax over the R rows of x, for each of n columns; and
     * dx += y * (dy - sum over rows of y * dy). */
    void (*column_softmax)(real *y, const real *x, size_t R, size_t n);
    void (*column_softmax_backward)(real *dx, const real *y, const real *dy, size_t R, size_t n);
    /* y += x; y *= x; y = a * x; y += a * x; sum of x * y; out [n] += sum over rows of x [R,n]. */
    void (*add)(real *y, const real *x, size_t n);
    void (*multiply)(real *y, const real *x, size_t n);
    void (*scale)(real *y, real a, const real *x, size_t n);
    void (*axpy)(real *y, real a, const real *x, size_t n);
    real (*dot)(const real *x, const real *y, size_t n);
    void (*column_sum)(real *out, const real *x, size_t R, size_t n);
    /* Sum of x * y, in double; sum [n] += the same over R rows, ld apart, for each of n columns. */
    double (*dot_double)(const real *x, const real *y, size_t n);
    void (*column_dot_double)(double *sum, const real *x, const real *y, size_t R, size_t n,
                              size_t ld);
    /* out [R,R]: the same for all pairs of R rows of n elements; elements right of the diagonal are
     * undefined. */
    void (*gram)(double *out, const real *x, size_t R, size_t n);
    /* y = x from BF16; y = x to BF16, to nearest. */
    void (*widen)(real *y, const smoe_bf16 *x, size_t n);
    void (*narrow)(smoe_bf16 *y, const real *x, size_t n);
    /* y = x to one of the two BF16 numbers around it, so that its expectation is x: up when 16 bits
     * of a hash of (key, first + i) added to the bits that go carry. x finite. */
    void (*narrow_random)(smoe_bf16 *y, const real *x, size_t n, uint32_t key, size_t first);
    /* One Adam step, and g becomes 0 unless it is left; see smoe_adam_constants. */
    void (*adam)(real *w, real *g, real *m, real *v, size_t n, const smoe_adam_constants *k);
    /* g [SMOE_OUTER_ROWS,n] = sum of dy_r x_r^T over R <= SMOE_OUTER_TERMS rows r of dy, as wide,
     * and of x [R,n], without packing either; those in BF16 are widened. Meanwhile `next` is
     * prefetched. n is a multiple of 16. */
    void (*outer)(real *g, const smoe_rows *dy, const smoe_rows *x, size_t R, size_t n,
                  const smoe_prefetch_ranges *next);
} smoe_row_kernels;

/* One head of attention, of T <= SMOE_HEAD_TOKENS tokens and width d <= SMOE_HEAD_WIDTH, a
 * multiple of `lanes`: out [T,d] = W V with the weights W [T,T] = softmax(scale Q K^T), by rows.
 * Rows of Q and K are ldq numbers apart, those of V ldv, those of out ldo; those of gradients are
 * as far apart. */
enum { SMOE_HEAD_TOKENS = 64, SMOE_HEAD_WIDTH = 64 };
typedef struct smoe_attention_head {
    size_t T, d;
    const real *q, *k, *v;
    size_t ldq, ldv, ldo;
    real scale;
    real *weights, *out;
    const real *dout; /* the others are for the backward pass */
    real *dq, *dk, *dv;
} smoe_attention_head;
typedef struct smoe_attention_kernels {
    size_t lanes; /* elements of a vector */
    /* Meanwhile the rows of another head are prefetched, which may be the same. */
    void (*forward)(const smoe_attention_head *x, const smoe_attention_head *next);
    /* dV = W^T dO, dW = dO V^T, dZ [T,T] = softmax backwards of dW, dQ = scale dZ K, dK = scale
     * dZ^T Q, all overwritten. */
    void (*backward)(const smoe_attention_head *x, const smoe_attention_head *next, real *dz);
} smoe_attention_kernels;

/* Panels of BF16 operands, the same for every unit: SIDE rows of A or columns of B, in steps of
 * DEEP terms: [steps][parts][2][TILE]. A tile is, of A, [16 rows][32 terms]; of B, [16 pairs of
 * terms][16 columns][2 terms]. What is not there is 0. An operand has one part, or, split, two: the
 * number rounded, and its remainder rounded. */
enum {
    SMOE_MATRIX_SIDE = 32,
    SMOE_MATRIX_DEEP = 32,
    SMOE_MATRIX_TILE = 512,
    SMOE_MATRIX_PARTS = 2 /* at most */
};

/* Where the sums of a block go: C [m,n], m and n <= SIDE. C bypasses the caches if it shall, is a
 * complete block, nothing is added and its rows begin cache lines; call `settle` before other
 * threads read it. */
typedef struct smoe_block_end {
    size_t m, n;
    smoe_epilogue to;
} smoe_block_end;

/* A block of sums: A B of m rows and n columns, over `steps` steps of panels that were packed. */
typedef struct smoe_matrix_block {
    real *sums; /* [parts][SIDE][SIDE]: with one part, A B; with two, the product of the rounded
                   numbers, then the products of rounded numbers with remainders */
    const smoe_bf16 *a, *b;
    size_t m, n, steps, parts;
    /* Another block, not NULL, which is finished meanwhile: units and vectors work at the same
     * time. */
    const smoe_block_end *before;
    const real *their_sums;
    smoe_prefetch prefetch; /* what is packed next, */
    size_t prefetches;      /* this many times, spread evenly over the steps */
} smoe_matrix_block;

/*
 * Products of BF16 operands with sums in F32. By which rule a unit sums, and what it does with
 * small numbers (tests/support/tiles.h has it in C, test_matrix compares):
 *   AMX            DEEP terms at a time: one chain of multiply-adds of the terms 0, 2, 4 ... and
 *                  one of the others, from 0; the two are added, and then added to the sum so far
 *   AVX512-BF16    a chain of multiply-adds: term 1, term 0, term 3, term 2 ...
 *   multiply-adds  a chain of multiply-adds in the order of the terms; without FMA (base), of
 *                  products, each rounded, and sums
 * The first two treat denormal operands as 0, and replace denormal results by 0. All round to
 * nearest even. NaN and infinity follow the usual rules.
 */
typedef enum smoe_sum_order { SMOE_ORDER_TILES, SMOE_ORDER_PAIRS, SMOE_ORDER_TERMS } smoe_sum_order;
typedef struct smoe_matrix_kernels {
    const char *unit;     /* "AMX", "AVX512-BF16", "multiply-adds" */
    smoe_sum_order order; /* the same three */
    size_t few;           /* rows of A up to which smoe_few_kernels are used instead */
    /* Before the first block and after the last one, in the same thread. */
    void (*begin)(void);
    void (*end)(void);
    /* m <= SIDE rows of A, or columns of B as rows. Rounds to nearest even; denormals of `real`
     * become 0. A remainder of what is not finite is 0. */
    void (*pack_a)(smoe_bf16 *dst, const smoe_matrix *from, size_t parts);
    void (*pack_b)(smoe_bf16 *dst, const smoe_matrix *from, size_t parts);
    void (*block)(const smoe_matrix_block *block);
    /* c = add + bias + alpha * sum, the sum of two parts where the first is finite. */
    void (*finish)(const smoe_block_end *to, const real *sums, size_t parts);
    /* Products of the unit without waiting for memory, n rounds; returns its FLOPs. */
    double (*peak)(size_t n);
} smoe_matrix_kernels;

/* Sums of SIDE columns of few rows, by vectors: the bits of the blocks of a unit, without a panel
 * of B. */
enum {
    SMOE_FEW_UNIT = 4,  /* rows are padded to a multiple of this: */
    SMOE_FEW_MOST = 64, /* up to this number */
};
typedef struct smoe_few_block {
    real *sums;    /* [m,SIDE], m a multiple of SMOE_FEW_UNIT */
    bool begun;    /* continues from them */
    const real *a; /* a panel of `pack`, from the first term of b on */
    size_t pitch, m;
    smoe_matrix b; /* m <= SIDE columns, as rows of n terms: a multiple of DEEP unless they are
                      the last */
    smoe_sum_order order;
    size_t ahead; /* bytes from each number of B to one that is prefetched meanwhile */
} smoe_few_block;
typedef struct smoe_few_kernels {
    bool orders; /* all orders; otherwise only that of multiply-adds */
    /* dst [k,pitch], k as a multiple of DEEP: from->m <= pitch rows of A, rounded as by pack_a and
     * in `real`; 0 where there is none. */
    void (*pack)(real *dst, const smoe_matrix *from, size_t pitch);
    void (*block)(const smoe_few_block *block);
} smoe_few_kernels;

typedef struct smoe_kernels {
    const char *isa; /* "base", "v3" (AVX2, FMA), "v4" (AVX-512), "v4-bf16", "amx" */
    const smoe_gemm_kernels *gemm;
    const smoe_skinny_kernels *skinny;
    const smoe_row_kernels *row;
    const smoe_matrix_kernels *matrix;
    const smoe_few_kernels *few;
    const smoe_attention_kernels *attention;
} smoe_kernels;

/* The kernels that are used. */
const smoe_kernels *smoe_kernels_get(void);

/* For work in `real` on operands of either type. Elements first .. first + n to read: where they
 * are, or widened to room [n]. Where such elements are computed before they are written: their own
 * place, or room. Writes what was computed there: rounds it to BF16, or does nothing. */
static inline const real *smoe_values_read(smoe_values x, size_t first, size_t n, real *room) {
    if (x.at) return x.at + first;
    smoe_kernels_get()->row->widen(room, x.bf16 + first, n);
    return room;
}
static inline real *smoe_outputs_room(smoe_outputs y, size_t first, real *room) {
    return y.at ? y.at + first : room;
}
static inline void smoe_outputs_write(smoe_outputs y, size_t first, size_t n, const real *from) {
    if (y.bf16) smoe_kernels_get()->row->narrow(y.bf16 + first, from, n);
}
/* Whether kernels for the instruction set of that name make the same bits as those that are used:
 * in F32, amx, v4-bf16 and v4 are the same. */
bool smoe_kernels_sum_alike(const char *isa, smoe_precision precision);
/* Those of one instruction set, NULL when this build or this processor lacks it: for tests. */
const smoe_kernels *smoe_kernels_of(const char *isa);
