/* BLIS behind two functions; see blas.h. */
#include "math/blas.h"

#include <blis.h>

/* BLIS reads BLIS_ARCH_TYPE when it starts: the number of an architecture up to 0.9, a name later.
 */
static void prefer(arch_t arch, const char *name) {
#if defined BLIS_VERSION_MAJOR
    (void)arch;
    setenv("BLIS_ARCH_TYPE", name, 0);
#else
    (void)name;
    char number[12];
    snprintf(number, sizeof number, "%d", (int)arch);
    setenv("BLIS_ARCH_TYPE", number, 0);
#endif
}

int smoe_blas_check(smoe_err *err) {
#if !defined BLIS_VERSION_MAJOR
    const char *given = getenv("BLIS_ARCH_TYPE");
    char *rest = NULL;
    long number = given ? strtol(given, &rest, 10) : 0;
    if (given && (rest == given || *rest || number < 0 || number >= BLIS_NUM_ARCHS))
        return smoe_fail(err, SMOE_USAGE,
                         "BLIS_ARCH_TYPE=%.40s: BLIS %s has the architectures 0 to %d", given,
                         bli_info_get_version_str(), BLIS_NUM_ARCHS - 1);
#endif
    return 0;
}

void smoe_blas_start(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        prefer(BLIS_ARCH_SKX, "skx");
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             !__builtin_cpu_is("amd"))
        prefer(BLIS_ARCH_HASWELL, "haswell");
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        prefer(BLIS_ARCH_ZEN2, "zen2");
#else
    (void)prefer;
#endif
    bli_init();
}

const char *smoe_blas_version(void) {
    return bli_info_get_version_str();
}

const char *smoe_blas_kernel(void) {
    return bli_arch_string(bli_arch_query_id());
}

void smoe_blas_product(real *c, const real *a, const real *b, size_t side, int threads) {
    real one = 1, zero = 0;
    rntm_t runtime;
    bli_rntm_init(&runtime);
    bli_rntm_set_num_threads(threads, &runtime);
    dim_t n = (dim_t)side;
#ifdef SMOE_F64
    bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, n, n, n, &one, (double *)a, n, 1,
                 (double *)b, n, 1, &zero, c, n, 1, NULL, &runtime);
#else
    bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, n, n, n, &one, (float *)a, n, 1, (float *)b,
                 n, 1, &zero, c, n, 1, NULL, &runtime);
#endif
}
