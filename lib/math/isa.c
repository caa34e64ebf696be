/* Which kernels this processor runs; see kernels.h. */
#include "math/kernels.h"
#include "math/tuning.h"

#include <pthread.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define DECLARE(isa)                                         \
    extern const smoe_gemm_kernels smoe_gemm_kern_##isa;     \
    extern const smoe_skinny_kernels smoe_skinny_kern_##isa; \
    extern const smoe_row_kernels smoe_row_kern_##isa;       \
    extern const smoe_matrix_kernels smoe_matrix_kern_##isa; \
    extern const smoe_few_kernels smoe_few_kern_##isa;       \
    extern const smoe_attention_kernels smoe_attention_kern_##isa;
/* The kernels `wide` with the matrix unit `unit`. */
#define KERNELS(name, wide, unit)                                                        \
    {                                                                                    \
        name, &smoe_gemm_kern_##wide, &smoe_skinny_kern_##wide, &smoe_row_kern_##wide,   \
            &smoe_matrix_kern_##unit, &smoe_few_kern_##wide, &smoe_attention_kern_##wide \
    }

DECLARE(base)
#ifdef __x86_64__
DECLARE(v3)
DECLARE(v4)
extern const smoe_matrix_kernels smoe_matrix_kern_bf16, smoe_matrix_kern_amx;

static bool has_v3(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}

#ifdef SMOE_MODELLED
/* Wider vectors and units are modelled in C (tests/modelled/). */
#define has_v4 has_v3
#define has_bf16 has_v3
#define has_amx has_v3
#else
static bool has_v4(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* Bit `bit` of a register, eax 0 to edx 3, of leaf 7 of CPUID. */
static bool cpuid7(unsigned sub, size_t word, int bit) {
    unsigned r[4];
    return __get_cpuid_count(7, sub, &r[0], &r[1], &r[2], &r[3]) && r[word] >> bit & 1;
}

static bool has_bf16(void) {
    return has_v4() && cpuid7(1, 0, 5);
}

/* The state of the tiles takes 8 KB per thread. Linux (5.16 or later) allows them only in processes
 * that have requested them; requesting them again succeeds again. */
static bool has_amx(void) {
    enum { ASK = 0x1023, TILE_DATA = 18, AMX_BF16 = 22, AMX_TILE = 24 };
    return has_bf16() && cpuid7(0, 3, AMX_TILE) && cpuid7(0, 3, AMX_BF16) &&
           !syscall(SYS_arch_prctl, ASK, TILE_DATA);
}
#endif

/* Dot products of pairs in BF16 are worth having: Intel's take as long as four multiply-adds (83
 * against 170 GFLOP/s per thread on Emerald Rapids), so that rounding and multiply-adds are faster
 * there. */
static bool dot_products_pay(void) {
    __builtin_cpu_init();
    return !__builtin_cpu_is("intel");
}
#endif
static bool isa_always(void) {
    return true;
}

/* From the widest to the narrowest. */
static const struct {
    bool (*here)(void);
    bool (*chosen)(void); /* unless SMOE_ISA forces it */
    smoe_kernels kernels;
} all[] = {
#ifdef __x86_64__
    {has_amx, isa_always, KERNELS("amx", v4, amx)},
    {has_bf16, dot_products_pay, KERNELS("v4-bf16", v4, bf16)},
    {has_v4, isa_always, KERNELS("v4", v4, v4)},
    {has_v3, isa_always, KERNELS("v3", v3, v3)},
#endif
    {isa_always, isa_always, KERNELS("base", base, base)},
};

const smoe_kernels *smoe_kernels_of(const char *isa) {
    for (size_t i = 0; i < SMOE_COUNT(all); i++)
        if (!strcmp(isa, all[i].kernels.isa)) return all[i].here() ? &all[i].kernels : NULL;
    return NULL;
}

static const smoe_kernels *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void isa_choose(void) {
    const char *forced = getenv("SMOE_ISA");
    if (forced) chosen = smoe_kernels_of(forced);
    for (size_t i = 0; !chosen; i++)
        if (all[i].chosen()) chosen = smoe_kernels_of(all[i].kernels.isa);
}

const smoe_kernels *smoe_kernels_get(void) {
    pthread_once(&once, isa_choose);
    return chosen;
}

bool smoe_kernels_sum_alike(const char *isa, smoe_precision precision) {
    const smoe_kernels *here = smoe_kernels_get();
    for (size_t i = 0; i < SMOE_COUNT(all); i++)
        if (!strcmp(isa, all[i].kernels.isa))
            return all[i].kernels.gemm == here->gemm &&
                   (precision == SMOE_PRECISION_F32 || all[i].kernels.matrix == here->matrix);
    return false; /* of another architecture */
}

size_t smoe_tuning_streams(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel")) return SMOE_STREAMS;
#endif
    return 1;
}
