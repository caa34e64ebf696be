/* Which kernels this processor runs; see kernels.h. */
#include "math/kernels.h"
#include "math/tuning.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(isa)                                                        \
    extern const smoe_gemm_kernels smoe_gemm_kern_##isa;                    \
    extern const smoe_skinny_kernels smoe_skinny_kern_##isa;                \
    extern const smoe_row_kernels smoe_row_kern_##isa;                      \
    static const smoe_kernels kernels_##isa = {#isa, &smoe_gemm_kern_##isa, \
                                               &smoe_skinny_kern_##isa, &smoe_row_kern_##isa};

DECLARE(base)
#ifdef __x86_64__
DECLARE(v3)
DECLARE(v4)
#endif

const smoe_kernels *smoe_kernels_of(const char *isa) {
    if (!strcmp(isa, "base")) return &kernels_base;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!strcmp(isa, "v3") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return &kernels_v3;
    if (!strcmp(isa, "v4") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &kernels_v4;
#endif
    return NULL;
}

static const smoe_kernels *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void) {
    static const char *const widest_first[] = {"v4", "v3", "base"};
    const char *forced = getenv("SMOE_ISA");
    if (forced) chosen = smoe_kernels_of(forced);
    for (size_t i = 0; !chosen; i++) chosen = smoe_kernels_of(widest_first[i]);
}

const smoe_kernels *smoe_kernels_get(void) {
    pthread_once(&once, choose);
    return chosen;
}

static const smoe_tuning *family(void) {
    static const smoe_tuning unknown = {.family = "unknown", .streams = 1};
#if defined __x86_64__
    static const smoe_tuning intel = {.family = "intel", .streams = SMOE_STREAMS};
    static const smoe_tuning amd = {.family = "amd", .streams = 1};
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel")) return &intel;
    if (__builtin_cpu_is("amd")) return &amd;
#elif defined __aarch64__
    static const smoe_tuning arm = {.family = "arm", .streams = 1};
    return &arm;
#endif
    return &unknown;
}

static const smoe_tuning *tuning;
static pthread_once_t tuned = PTHREAD_ONCE_INIT;

static void tune(void) {
    tuning = family();
}

const smoe_tuning *smoe_tuning_get(void) {
    pthread_once(&tuned, tune);
    return tuning;
}
