/*
 * The instructions of AVX-512, AVX512-BF16 and AMX that kernels use, in C, for processors without
 * them. `make FLAVOUR=modelled` compiles the kernels of v4, v4-bf16 and amx with this header, which
 * is included before everything else; they run wherever v3 does, slowly. What an instruction does
 * is said by the processor manuals of Intel, and the bits are theirs: the golden table holds those
 * of real processors.
 *
 * Vectors of 64 bytes are the compiler's, by halves. What is missing here is an error when a kernel
 * is compiled. MODELLED_BF16 and MODELLED_AMX say which unit the kernels are compiled for.
 */
#pragma once

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Kernels ask these macros; the headers of the compiler have been read without them. */
#define SMOE_MODELLED 1
#define __AVX512F__ 1
#ifdef MODELLED_BF16
#define __AVX512BF16__ 1
#endif
#ifdef MODELLED_AMX
#define __AMX_BF16__ 1
#endif

#define MODELLED static inline __attribute__((always_inline))
/* Not inlined, where the compiler would take minutes for the loops that unroll it. */
#define MODELLED_CALL static __attribute__((noinline, unused))

enum { MODELLED_LANES = 16, MODELLED_LINE = 64 };
typedef uint32_t modelled_words __attribute__((vector_size(64)));
typedef uint64_t modelled_longs __attribute__((vector_size(64)));
typedef uint16_t modelled_shorts __attribute__((vector_size(32)));

/* Instructions for aligned data fail where it is not. */
MODELLED const void *modelled_aligned(const void *p) {
    if ((uintptr_t)p % MODELLED_LINE) __builtin_trap();
    return p;
}

/* All ones in the lanes of a mask, as comparisons of vectors give them; and back. */
MODELLED __m512i modelled_lanes(__mmask16 mask) {
    const modelled_words bit = {1,       1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                1 << 12, 1 << 13, 1 << 14, 1 << 15};
    return (__m512i)((bit & (uint32_t)mask) != 0);
}
MODELLED __mmask16 modelled_mask(__m512i lanes) {
    __m256 half[2];
    memcpy(half, &lanes, sizeof half);
    return (__mmask16)(_mm256_movemask_ps(half[0]) | _mm256_movemask_ps(half[1]) << 8);
}
MODELLED_CALL __m512i modelled_select(__mmask16 mask, __m512i yes, __m512i no) {
    __m512i lanes = modelled_lanes(mask);
    return (yes & lanes) | (no & ~lanes);
}

/* An instruction of AVX by halves: f of x, or of x and y, or of all three. */
#define MODELLED_HALVES(f, z, ...)              \
    __m256 part[4][2];                          \
    const __m512 given[3] = {__VA_ARGS__};      \
    memcpy(part, given, sizeof given);          \
    for (int h = 0; h < 2; h++) part[3][h] = f; \
    __m512 z;                                   \
    memcpy(&z, part[3], sizeof z)

/* ---- loads and stores ------------------------------------------------------------------------ */

MODELLED __m512 modelled_loadu_ps(const void *p) {
    __m512 x;
    memcpy(&x, p, sizeof x);
    return x;
}
MODELLED __m512i modelled_loadu_si512(const void *p) {
    return (__m512i)modelled_loadu_ps(p);
}
MODELLED __m512 modelled_load_ps(const void *p) {
    return modelled_loadu_ps(modelled_aligned(p));
}
MODELLED void modelled_storeu_ps(void *p, __m512 x) {
    memcpy(p, &x, sizeof x);
}
MODELLED void modelled_storeu_si512(void *p, __m512i x) {
    memcpy(p, &x, sizeof x);
}
MODELLED void modelled_stream_ps(void *p, __m512 x) {
    modelled_aligned(p);
    memcpy(p, &x, sizeof x);
}

/* Under a mask memory is touched only where its bit is set. */
MODELLED_CALL __m512 modelled_mask_loadu_ps(__m512 x, __mmask16 mask, const void *p) {
    for (int i = 0; i < MODELLED_LANES; i++)
        if (mask >> i & 1) x[i] = ((const float *)p)[i];
    return x;
}
MODELLED_CALL void modelled_mask_storeu_ps(void *p, __mmask16 mask, __m512 x) {
    for (int i = 0; i < MODELLED_LANES; i++)
        if (mask >> i & 1) ((float *)p)[i] = x[i];
}
MODELLED_CALL __m512i modelled_maskz_loadu_epi16(__mmask32 mask, const void *p) {
    uint16_t x[32];
    for (int i = 0; i < 32; i++) x[i] = mask >> i & 1 ? ((const uint16_t *)p)[i] : 0;
    return modelled_loadu_si512(x);
}
MODELLED_CALL __m256i modelled_maskz_loadu_epi16_256(__mmask16 mask, const void *p) {
    modelled_shorts x;
    for (int i = 0; i < MODELLED_LANES; i++) x[i] = mask >> i & 1 ? ((const uint16_t *)p)[i] : 0;
    return (__m256i)x;
}
MODELLED_CALL void modelled_mask_storeu_epi16_256(void *p, __mmask16 mask, __m256i x) {
    for (int i = 0; i < MODELLED_LANES; i++)
        if (mask >> i & 1) ((uint16_t *)p)[i] = ((modelled_shorts)x)[i];
}

/* ---- numbers --------------------------------------------------------------------------------- */

MODELLED __m512 modelled_set1_ps(float x) {
    return x - (__m512){0};
}
MODELLED __m512i modelled_set1_epi32(int x) {
    return (__m512i)((uint32_t)x + (modelled_words){0});
}
MODELLED __m512 modelled_max_ps(__m512 x, __m512 y) {
    MODELLED_HALVES(_mm256_max_ps(part[0][h], part[1][h]), z, x, y);
    return z;
}
MODELLED __m512 modelled_min_ps(__m512 x, __m512 y) {
    MODELLED_HALVES(_mm256_min_ps(part[0][h], part[1][h]), z, x, y);
    return z;
}
MODELLED __m512 modelled_sqrt_ps(__m512 x) {
    MODELLED_HALVES(_mm256_sqrt_ps(part[0][h]), z, x);
    return z;
}
MODELLED __m512 modelled_fmadd_ps(__m512 x, __m512 y, __m512 sum) {
    MODELLED_HALVES(_mm256_fmadd_ps(part[0][h], part[1][h], part[2][h]), z, x, y, sum);
    return z;
}
MODELLED_CALL __mmask16 modelled_unordered(__m512 x, __m512 y) {
    return modelled_mask((__m512i)((x != x) | (y != y)));
}
MODELLED_CALL __mmask16 modelled_equal(__m512 x, __m512 y) {
    return modelled_mask((__m512i)(x == y));
}
MODELLED_CALL __mmask16 modelled_testn_epi32_mask(__m512i x, __m512i y) {
    return modelled_mask((__m512i)((modelled_words)(x & y) == 0));
}

/* ---- between widths -------------------------------------------------------------------------- */

MODELLED_CALL __m256i modelled_half(__m512i x, int h) {
    __m256i half[2];
    memcpy(half, &x, sizeof half);
    return half[h];
}
MODELLED_CALL __m512i modelled_insert(__m512i x, __m256i y, int h) {
    __m256i half[2];
    memcpy(half, &x, sizeof half);
    half[h] = y;
    memcpy(&x, half, sizeof x);
    return x;
}
MODELLED_CALL __m512i modelled_cvtepu16_epi32(__m256i x) {
    return (__m512i) __builtin_convertvector((modelled_shorts)x, modelled_words);
}
MODELLED_CALL __m256i modelled_cvtepi32_epi16(__m512i x) {
    return (__m256i) __builtin_convertvector((modelled_words)x, modelled_shorts);
}

/* ---- permutations ---------------------------------------------------------------------------- */

MODELLED_CALL __m512 modelled_permutex2var_ps(__m512 x, __m512i at, __m512 y) {
    float both[2 * MODELLED_LANES];
    modelled_storeu_ps(both, x);
    modelled_storeu_ps(both + MODELLED_LANES, y);
    __m512 z;
    for (int i = 0; i < MODELLED_LANES; i++) z[i] = both[((modelled_words)at)[i] & 31];
    return z;
}
MODELLED_CALL __m512i modelled_shuffle_i32x4(__m512i x, __m512i y, int by) {
    __m128i from[2][4], to[4];
    memcpy(from[0], &x, sizeof x);
    memcpy(from[1], &y, sizeof y);
    for (int i = 0; i < 4; i++) to[i] = from[i / 2][by >> 2 * i & 3];
    return modelled_loadu_si512(to);
}
/* The lower (first = 0) or upper (first = 2) two words of each four, of x and y in turn. */
MODELLED_CALL __m512i modelled_unpack_words(__m512i x, __m512i y, int first) {
    modelled_words z;
    for (int i = 0; i < MODELLED_LANES; i++)
        z[i] = ((modelled_words)(i % 2 ? y : x))[i / 4 * 4 + first + i % 4 / 2];
    return (__m512i)z;
}
MODELLED_CALL __m512i modelled_unpack_longs(__m512i x, __m512i y, int first) {
    modelled_longs z;
    for (int i = 0; i < MODELLED_LANES / 2; i++)
        z[i] = ((modelled_longs)(i % 2 ? y : x))[i / 2 * 2 + first];
    return (__m512i)z;
}

/* ---- BF16 ------------------------------------------------------------------------------------ */

/* To nearest even, whatever the rounding mode; denormals become 0, NaN quiet. */
MODELLED_CALL __m256i modelled_cvtneps_pbh(__m512 x) {
    modelled_words bits = (modelled_words)x, upper = bits >> 16;
    modelled_words up = (bits + 0x7fff + (upper & 1)) >> 16;
    modelled_words small = (modelled_words)((bits & 0x7f800000) == 0);
    modelled_words nan = (modelled_words)(x != x);
    up = (upper & 0x8000 & small) | (up & ~small);
    up = ((upper | 0x40) & nan) | (up & ~nan);
    return modelled_cvtepi32_epi16((__m512i)up);
}
MODELLED_CALL __m512i modelled_cvtne2ps_pbh(__m512 upper, __m512 lower) {
    __m512i z = {0};
    z = modelled_insert(z, modelled_cvtneps_pbh(lower), 0);
    return modelled_insert(z, modelled_cvtneps_pbh(upper), 1);
}

/* Runs an instruction of a unit: denormal operands and results are 0, and rounding is to nearest
 * even. Its arithmetic stays between the two changes of the mode because `step` is not inlined. */
enum { MODELLED_ZEROS = 0x8040, MODELLED_ROUNDING = 0x6000 };
#define MODELLED_BY_UNIT(step)                                              \
    do {                                                                    \
        unsigned mode = _mm_getcsr();                                       \
        _mm_setcsr((mode & ~(unsigned)MODELLED_ROUNDING) | MODELLED_ZEROS); \
        step;                                                               \
        _mm_setcsr(mode);                                                   \
    } while (0)

#ifdef MODELLED_BF16
/* Of 16 pairs, the first or the second terms. */
MODELLED __m512 modelled_first(__m512i pairs) {
    return (__m512)((modelled_words)pairs << 16);
}
MODELLED __m512 modelled_second(__m512i pairs) {
    return (__m512)((modelled_words)pairs & 0xffff0000);
}

#ifndef MODELLED_AMX
static __attribute__((noinline, unused)) void modelled_pairs(__m512 *sum, const __m512i *x,
                                                             const __m512i *y) {
    __m512 z = modelled_fmadd_ps(modelled_second(*x), modelled_second(*y), *sum);
    *sum = modelled_fmadd_ps(modelled_first(*x), modelled_first(*y), z);
}
MODELLED __m512 modelled_dpbf16_ps(__m512 sum, __m512bh x, __m512bh y) {
    __m512i left = (__m512i)x, right = (__m512i)y;
    MODELLED_BY_UNIT(modelled_pairs(&sum, &left, &right));
    return sum;
}
#endif
#endif

/* ---- AMX ------------------------------------------------------------------------------------- */

#ifdef MODELLED_AMX
typedef struct modelled_tile {
    __m512i row[MODELLED_LANES];
} modelled_tile;

/* The state of a thread. Without a configuration every use of a tile fails. */
static _Thread_local modelled_tile modelled_tiles[8];
static _Thread_local bool modelled_configured;

MODELLED modelled_tile *modelled_tile_at(int t) {
    if (!modelled_configured) __builtin_trap();
    return &modelled_tiles[t];
}

/* Only complete tiles of palette 1 are modelled: 16 rows of 64 bytes. */
static inline void modelled_loadconfig(const void *config) {
    const uint8_t *bytes = config;
    if (bytes[0] != 1 || bytes[1]) __builtin_trap();
    for (int t = 0; t < 8; t++) {
        uint16_t width;
        memcpy(&width, bytes + 16 + 2 * t, sizeof width);
        if (width != MODELLED_LINE || bytes[48 + t] != MODELLED_LANES) __builtin_trap();
    }
    memset(modelled_tiles, 0, sizeof modelled_tiles);
    modelled_configured = true;
}
MODELLED void modelled_tile_loadd(int t, const void *from, size_t stride) {
    modelled_tile *to = modelled_tile_at(t);
    for (size_t i = 0; i < MODELLED_LANES; i++)
        to->row[i] = modelled_loadu_si512((const char *)from + i * stride);
}
MODELLED void modelled_tile_stored(int t, void *to, size_t stride) {
    const modelled_tile *from = modelled_tile_at(t);
    for (size_t i = 0; i < MODELLED_LANES; i++)
        modelled_storeu_si512((char *)to + i * stride, from->row[i]);
}
MODELLED void modelled_tile_zero(int t) {
    memset(modelled_tile_at(t), 0, sizeof(modelled_tile));
}

static __attribute__((noinline)) void modelled_tile_pairs(modelled_tile *c, const modelled_tile *a,
                                                          const modelled_tile *b) {
    for (int i = 0; i < MODELLED_LANES; i++) {
        __m512 even = {0}, odd = {0};
        for (int p = 0; p < MODELLED_LANES; p++) {
            __m512i pair = modelled_set1_epi32((int)((modelled_words)a->row[i])[p]);
            even = modelled_fmadd_ps(modelled_first(pair), modelled_first(b->row[p]), even);
            odd = modelled_fmadd_ps(modelled_second(pair), modelled_second(b->row[p]), odd);
        }
        c->row[i] = (__m512i)((__m512)c->row[i] + (even + odd));
    }
}
static inline void modelled_tile_dpbf16ps(int c, int a, int b) {
    modelled_tile *sums = modelled_tile_at(c);
    MODELLED_BY_UNIT(modelled_tile_pairs(sums, &modelled_tiles[a], &modelled_tiles[b]));
}
#endif

/* ---- by their names -------------------------------------------------------------------------- */

#undef _mm512_cmp_ps_mask
#undef _mm512_extractf32x8_ps
#undef _mm512_extracti64x4_epi64
#undef _mm512_insertf32x8
#undef _mm512_inserti64x4
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_i32x4
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _tile_dpbf16ps
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero

#define _mm512_abs_ps(x) ((__m512)((__m512i)(x)&modelled_set1_epi32(0x7fffffff)))
#define _mm512_add_epi32(x, y) ((__m512i)((modelled_words)(x) + (modelled_words)(y)))
#define _mm512_and_si512(x, y) ((__m512i)(x) & (__m512i)(y))
#define _mm512_castps256_ps512(x) ((__m512)modelled_insert((__m512i){0}, (__m256i)(x), 0))
#define _mm512_castps512_ps256(x) ((__m256)modelled_half((__m512i)(x), 0))
#define _mm512_castps_si512(x) ((__m512i)(x))
#define _mm512_castsi256_si512(x) modelled_insert((__m512i){0}, x, 0)
#define _mm512_castsi512_ps(x) ((__m512)(x))
#define _mm512_castsi512_si256(x) modelled_half(x, 0)
#define _mm512_cmp_ps_mask(x, y, how) modelled_##how(x, y)
#define modelled__CMP_EQ_OQ modelled_equal
#define modelled__CMP_UNORD_Q modelled_unordered
#define _mm512_cvtepi32_epi16 modelled_cvtepi32_epi16
#define _mm512_cvtepu16_epi32 modelled_cvtepu16_epi32
#define _mm512_cvtne2ps_pbh(upper, lower) ((__m512bh)modelled_cvtne2ps_pbh(upper, lower))
#define _mm512_cvtneps_pbh(x) ((__m256bh)modelled_cvtneps_pbh(x))
#define _mm512_dpbf16_ps modelled_dpbf16_ps
#define _mm512_extractf32x8_ps(x, h) ((__m256)modelled_half((__m512i)(x), h))
#define _mm512_extracti64x4_epi64 modelled_half
#define _mm512_fmadd_ps modelled_fmadd_ps
#define _mm512_insertf32x8(x, y, h) ((__m512)modelled_insert((__m512i)(x), (__m256i)(y), h))
#define _mm512_inserti64x4 modelled_insert
#define _mm512_load_ps modelled_load_ps
#define _mm512_loadu_ps modelled_loadu_ps
#define _mm512_loadu_si512 modelled_loadu_si512
#define _mm512_mask_and_epi32(z, mask, x, y) modelled_select(mask, _mm512_and_si512(x, y), z)
#define _mm512_mask_loadu_ps modelled_mask_loadu_ps
#define _mm512_mask_or_epi32(z, mask, x, y) modelled_select(mask, _mm512_or_si512(x, y), z)
#define _mm512_mask_storeu_ps modelled_mask_storeu_ps
#define _mm512_mask_sub_ps(z, mask, x, y) \
    ((__m512)modelled_select(mask, (__m512i)((x) - (y)), (__m512i)(z)))
#define _mm512_maskz_loadu_epi16 modelled_maskz_loadu_epi16
#define _mm512_maskz_loadu_ps(mask, p) modelled_mask_loadu_ps((__m512){0}, mask, p)
#define _mm512_maskz_mov_ps(mask, x) ((__m512)((__m512i)(x)&modelled_lanes(mask)))
#define _mm512_max_ps modelled_max_ps
#define _mm512_min_ps modelled_min_ps
#define _mm512_movepi32_mask modelled_mask
#define _mm512_or_si512(x, y) ((__m512i)(x) | (__m512i)(y))
#define _mm512_permutex2var_ps modelled_permutex2var_ps
#define _mm512_set1_epi32 modelled_set1_epi32
#define _mm512_set1_ps modelled_set1_ps
#define _mm512_setzero_ps() ((__m512){0})
#define _mm512_shuffle_f32x4(x, y, by) \
    ((__m512)modelled_shuffle_i32x4((__m512i)(x), (__m512i)(y), by))
#define _mm512_shuffle_i32x4 modelled_shuffle_i32x4
#define _mm512_slli_epi32(x, n) ((__m512i)((modelled_words)(x) << (n)))
#define _mm512_sqrt_ps modelled_sqrt_ps
#define _mm512_srli_epi32(x, n) ((__m512i)((modelled_words)(x) >> (n)))
#define _mm512_storeu_ps modelled_storeu_ps
#define _mm512_storeu_si512 modelled_storeu_si512
#define _mm512_stream_ps modelled_stream_ps
#define _mm512_sub_ps(x, y) ((__m512)(x) - (__m512)(y))
#define _mm512_testn_epi32_mask modelled_testn_epi32_mask
#define _mm512_unpackhi_epi32(x, y) modelled_unpack_words(x, y, 2)
#define _mm512_unpackhi_epi64(x, y) modelled_unpack_longs(x, y, 1)
#define _mm512_unpacklo_epi32(x, y) modelled_unpack_words(x, y, 0)
#define _mm512_unpacklo_epi64(x, y) modelled_unpack_longs(x, y, 0)
#define _mm256_mask_storeu_epi16 modelled_mask_storeu_epi16_256
#define _mm256_maskz_loadu_epi16 modelled_maskz_loadu_epi16_256
#define _tile_dpbf16ps modelled_tile_dpbf16ps
#define _tile_loadconfig modelled_loadconfig
#define _tile_loadd modelled_tile_loadd
#define _tile_release() (void)(modelled_configured = false)
#define _tile_stored modelled_tile_stored
#define _tile_zero modelled_tile_zero
