/*
 * Tuning parameters of products and kernels, fixed when they are compiled; see tuning.h.
 */
#pragma once

#include "math/tuning.h"

/* ---- the same for every instruction set ------------------------------------------------------ */

enum {
    /* blocks of a product (gemm*.c, fused_mlp.c) */
    KC = 384,             /* rows of a block of B at most: a panel of nr columns fills the L1 */
    BLOCK = KC * 512,     /* elements of a block of B: it stays in the L2 */
    PANELS = 8,           /* panels of A in a block */
    SKINNY = 128,         /* rows of A up to which packing B costs more than it gains */
    PLACED_COLUMNS = 256, /* columns of B up to which rows of A, */
    PLACED_ROWS = 64,     /* or columns of A, are not packed */
    PLACED_STEPS = 128,   /* rows of B up to which they are not packed */
    SCANT_COLUMNS =
        1 << 16,          /* elements of B up to which they are packed all the same, if columns */
    SCANT_ROWS = 1 << 18, /* are consecutive in memory, or if rows are */
    THIN = 32,            /* rows up to which weights stored by rows are read in their order */
    /* k from which weights stored by columns are not packed: results are transposed */
    DEEP_K = 128,
    STREAMED_RUN = 64,  /* columns collected before they are stored past the caches */
    PREFETCH_PACE = 64, /* most steps of k between two prefetches */
    /* how work is cut for threads */
    HANDS = 16, /* times a thread gets pieces, which are neighbours: prefetches help the next */
    TASKS = 1,  /* pieces per thread, at least, where A and B are packed for each, */
    TASKS_AS_IS = 8, /* and where A need not be packed: then columns are cut rather than rows, */
    COLUMNS = 4,     /* until a piece has this many times more rows */
    SMALL = 1 << 18, /* multiply-adds of a piece below which cutting costs more than it gains */
    FUSED_PIECES = 4 /* blocks of a fused MLP per thread, at least: they are not cut further */
};

/* ---- one column per instruction set, for kern_*.c -------------------------------------------- */

#if defined __AVX512F__
#define SMOE_TUNED(avx512, avx2, neon, plain) (avx512)
#elif defined __AVX2__
#define SMOE_TUNED(avx512, avx2, neon, plain) (avx2)
#elif defined __ARM_NEON
#define SMOE_TUNED(avx512, avx2, neon, plain) (neon)
#else
#define SMOE_TUNED(avx512, avx2, neon, plain) (plain)
#endif

enum {
    /* the register tile: MR x 2 vectors of sums, 2 vectors of B, broadcasts of A */
    MR = SMOE_TUNED(14, 6, 6, 6),
    TALLEST = SMOE_TUNED(16, 6, 6, 6), /* with one vector, MR or more */
    HALF = SMOE_TUNED(8, 4, 4, 4),     /* rows of a low panel */
    PITCH = SMOE_TUNED(16, 6, 6, 6),   /* of a panel; on AVX-512 each step begins a cache line */
    /* Zen 3: stores whose addresses agree in the lowest bits wait for each other */
    ALIASING = SMOE_TUNED(0, 1024, 0, 0),
    /* A may be read unpacked: there are enough address registers */
    AS_IS = SMOE_TUNED(false, true, true, true),
    OPERANDS = SMOE_TUNED(true, false, false, false), /* a multiply-add can broadcast from memory */
    /* the next rows of A are prefetched, and those of C one by one; Zen 3 finds rows of A by
     * itself, and those of C are prefetched all at once */
    PREFETCH_ROWS = SMOE_TUNED(true, false, false, false),
    /* skinny products */
    ACROSS2 = SMOE_TUNED(8, 6, 6, 6),    /* columns of B across two vectors of rows of A, */
    ACROSS3 = SMOE_TUNED(8, 4, 4, 4),    /* across three, and */
    ACROSS = SMOE_TUNED(48, 24, 24, 24), /* in a block of them: whole vectors and whole tiles */
    /* rows up to which columns are transposed in registers */
    TRANSPOSED_ROWS = SMOE_TUNED(32 / sizeof(real), 2, 2, 2),
    DEEP = SMOE_TUNED(16, 8, 8, 8), /* rows of B in registers, */
    GROUP = SMOE_TUNED(8, 4, 4, 4), /* with sums of so many rows of C */
    /* prefetch once more near the use: Zen 5 dropped some of the early ones */
    PREFETCH_AGAIN = SMOE_TUNED(true, false, false, false),
    HEAD_ROWS = SMOE_TUNED(8, 6, 4, 4), /* of a tile of a head of attention */
    /* rows */
    ABREAST = SMOE_TUNED(4, 4, 4, 4),      /* rows of softmax and norms worked on side by side */
    OUTER_VECTORS = SMOE_TUNED(4, 2, 2, 2) /* vectors of a row of an outer-product gradient */
};
