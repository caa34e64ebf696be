/* smoe doctor: what this machine has, what makes smoe slow on it, and what would help. It changes
 * nothing; the speed of a model is measured by smoe bench. */
#include "cmd.h"
#include "base/module.h"
#include "bench/peaks.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "store/env.h"
#include "text/sentencepiece.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* One finding; advice "" where nothing is to be done. */
typedef struct finding {
    const char *name;
    char value[256], advice[256];
} finding;

enum { MOST = 32 };
typedef struct findings {
    finding list[MOST];
    size_t count;
} findings;

static finding *doctor_find(findings *f, const char *name, const char *fmt, ...) SMOE_PRINTF(3, 4);
static finding *doctor_find(findings *f, const char *name, const char *fmt, ...) {
    finding *x = &f->list[f->count < MOST ? f->count++ : MOST - 1];
    va_list args;
    va_start(args, fmt);
    vsnprintf(x->value, sizeof x->value, fmt, args);
    va_end(args);
    x->name = name;
    *x->advice = '\0';
    return x;
}

static void advise(finding *x, const char *fmt, ...) SMOE_PRINTF(2, 3);
static void advise(finding *x, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(x->advice, sizeof x->advice, fmt, args);
    va_end(args);
}

/* The first line of a small file, "" where there is none. */
static const char *line_of(const char *path, char *buf, size_t size) {
    FILE *in = fopen(path, "re");
    buf[0] = '\0';
    if (in && !fgets(buf, (int)size, in)) buf[0] = '\0';
    if (in) fclose(in);
    buf[strcspn(buf, "\n")] = '\0';
    return buf;
}

/* ---- processor ------------------------------------------------------------------------------- */

/* Processors' time that a container may use; 0: no limit. */
static double quota(void) {
    char line[128];
    double part, period;
    line_of("/sys/fs/cgroup/cpu.max", line, sizeof line);
    return sscanf(line, "%lf %lf", &part, &period) == 2 && period > 0 ? part / period : 0;
}

static void look_at_processor(findings *f) {
    char line[128];
    json_auto_t *env = smoe_env_here(0, NULL);
    cpu_set_t allowed;
    int here = sched_getaffinity(0, sizeof allowed, &allowed) ? 0 : CPU_COUNT(&allowed);
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    double limit = quota(), load = 0;
    const char *model = json_string_value(json_object_get(env, "cpu"));
    doctor_find(f, "processor", "%s", model ? model : "unknown");
    finding *x = doctor_find(f, "processors", "%d of %ld, %d threads", here, all, smoe_threads());
    if (limit > 0 && limit < smoe_threads())
        advise(x, "a limit of %.3g processors is set (cpu.max): use -j %d", limit,
               limit < 1 ? 1 : (int)limit);
    else if (smoe_threads() > here)
        advise(x, "more threads than processors: use -j %d", here);
    if (getloadavg(&load, 1) == 1) {
        x = doctor_find(f, "load", "%.1f", load);
        if (load > 0.5 * (double)all)
            advise(x, "other programs use the processors; timings vary, and training is slower");
    }
    line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof line);
    if (!*line) return;
    x = doctor_find(f, "governor", "%s", line);
    if (!strcmp(line, "powersave"))
        advise(x, "the clock may stay low: `cpupower frequency-set -g performance`");
}

static void look_at_kernels(findings *f) {
    const smoe_kernels *kernels = smoe_kernels_get();
    const char *asked = getenv("SMOE_ISA");
    finding *x = doctor_find(f, "instructions", "%s", kernels->isa);
    if (asked)
        advise(x, "SMOE_ISA=%s is set; without it the widest are used", asked);
    else if (!strcmp(kernels->isa, "base"))
        advise(x, "this processor has no AVX2: expect a tenth of the speed");
    x = doctor_find(f, "matrix unit", "%s", kernels->matrix->unit);
    if (!strcmp(kernels->matrix->unit, "multiply-adds"))
        advise(x, "none: train.precision=bf16 and bf16x3 save no time here");
    doctor_find(f, "blas", "BLIS %s, %s kernels", smoe_blas_version(), smoe_blas_kernel());
}

static int doctor_measure(findings *f, smoe_err *err) {
    enum { ROUNDS = 3 };
    SMOE_FREED_BY(smoe_peaks_free) smoe_peaks peaks = {0};
    smoe_machine best = {0};
    char a[32], b[32];
    if (smoe_peaks_open(&peaks, err)) return -1;
    for (int i = 0; i < ROUNDS; i++) {
        smoe_machine m = smoe_peaks_measure(&peaks);
        if (m.gemm_gflops > best.gemm_gflops) best.gemm_gflops = m.gemm_gflops;
        if (m.fma_gflops > best.fma_gflops) best.fma_gflops = m.fma_gflops;
        if (m.memory_bandwidth > best.memory_bandwidth) best.memory_bandwidth = m.memory_bandwidth;
        if (m.read_bandwidth > best.read_bandwidth) best.read_bandwidth = m.read_bandwidth;
    }
    finding *x = doctor_find(f, "products", "%s of %s",
                             smoe_text_si(a, sizeof a, 1e9 * best.gemm_gflops, "FLOP/s"),
                             smoe_text_si(b, sizeof b, 1e9 * best.fma_gflops, "FLOP/s possible"));
    if (best.gemm_gflops < 0.5 * best.fma_gflops)
        advise(x,
               "less than half of the peak: other programs, too many threads, or BLIS_ARCH_TYPE");
    doctor_find(f, "bandwidth", "%s read and written, %s read",
                smoe_text_si(a, sizeof a, best.memory_bandwidth, "B/s"),
                smoe_text_si(b, sizeof b, best.read_bandwidth, "B/s"));
    return 0;
}

/* ---- memory, limits, programs ---------------------------------------------------------------- */

static void look_at_memory(findings *f) {
    char a[32], line[128];
    doctor_find(f, "memory", "%s", smoe_text_si(a, sizeof a, smoe_estimate_memory(), "B"));
    line_of("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    if (!*line) return;
    finding *x = doctor_find(f, "large pages", "%s", line);
    if (strstr(line, "[never]"))
        advise(x, "weights and optimiser are read faster from large pages: write madvise to "
                  "/sys/kernel/mm/transparent_hugepage/enabled");
}

static const char *limit_text(rlim_t limit, const char *unit, char *buf, size_t size) {
    if (limit == RLIM_INFINITY)
        snprintf(buf, size, "unlimited");
    else
        smoe_text_si(buf, size, (double)limit, unit);
    return buf;
}

static void look_at_limits(findings *f) {
    static const struct {
        const char *name;
        int resource;
        const char *unit;
        rlim_t least;
        const char *advice;
    } limits[] = {
        {"stack", RLIMIT_STACK, "B", 1 << 18, "small: `ulimit -s 4096`"},
        {"open files", RLIMIT_NOFILE, "", 256, "few for large sweeps: `ulimit -n 1024`"},
        {"locked memory", RLIMIT_MEMLOCK, "B", 0, ""},
        {"file size", RLIMIT_FSIZE, "B", (rlim_t)1 << 30, "checkpoints may not fit: `ulimit -f`"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        char text[32];
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit)) continue;
        finding *x = doctor_find(f, limits[i].name, "%s",
                                 limit_text(limit.rlim_cur, limits[i].unit, text, sizeof text));
        if (limit.rlim_cur < limits[i].least) advise(x, "%s", limits[i].advice);
    }
}

static void look_at_disk(findings *f) {
    struct statvfs here;
    char a[32];
    if (statvfs(".", &here)) return;
    double left = (double)here.f_bavail * (double)here.f_frsize;
    finding *x = doctor_find(f, "disk here", "%s free", smoe_text_si(a, sizeof a, left, "B"));
    if (left < 1e9) advise(x, "checkpoints may not fit; -o DIR chooses another place");
}

/* Whether a program is found by PATH. */
static bool has_program(const char *name) {
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        SMOE_FREED char *file = smoe_text_format("%.*s/%s", (int)n, path, name);
        bool found = !access(file, X_OK);
        if (found) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

/* Modules are loaded, since one that is there may miss a library. */
static void look_at_modules(findings *f) {
    static const struct {
        const char *name, *module, *entry, *package;
        bool global;
    } modules[] = {
        {"MPI", "mpi", SMOE_COMM_ENTRY, "libopenmpi-dev", true},
        {"SentencePiece", "sentencepiece", SMOE_SENTENCEPIECE_ENTRY, "libsentencepiece-dev", false},
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        void (*function)(void);
        smoe_err err = {0};
        smoe_module_found found = smoe_module_load(modules[i].module, modules[i].entry,
                                                   modules[i].global, &function, &err);
        finding *x = doctor_find(f, modules[i].name, "%s",
                                 found == SMOE_MODULE_HERE     ? "there"
                                 : found == SMOE_MODULE_BROKEN ? "cannot be loaded"
                                                               : "not in this build");
        if (found == SMOE_MODULE_BROKEN) advise(x, "%s", err.text);
        if (found == SMOE_MODULE_MISSING)
            advise(x, "install %s and build again, if you need it", modules[i].package);
    }
    finding *x = doctor_find(f, "mpirun", "%s", has_program("mpirun") ? "there" : "not found");
    if (!has_program("mpirun")) advise(x, "starts several processes: install openmpi-bin");
}

static void look_at_programs(findings *f) {
#ifdef SMOE_HTTP
    doctor_find(f, "smoe serve", "there");
#else
    advise(doctor_find(f, "smoe serve", "not in this build"),
           "install libmicrohttpd-dev and build again, if you need it");
#endif
    bool there = has_program("gnuplot");
    finding *x = doctor_find(f, "gnuplot", "%s", there ? "there" : "not found");
    if (!there) advise(x, "figures are left as scripts: install gnuplot-nox");
}

/* ---- the command ----------------------------------------------------------------------------- */

static int doctor_show(const findings *f, const smoe_options *options, smoe_err *err) {
    smoe_result result = {0};
    smoe_frame *list = smoe_result_records(&result, "findings");
    size_t advised = 0;
    for (size_t i = 0; i < f->count; i++) {
        const finding *x = &f->list[i];
        advised += *x->advice != '\0';
        smoe_cell_text(list, "name", x->name);
        smoe_cell_text(list, "value", x->value);
        smoe_cell_text(list, "advice", *x->advice ? x->advice : NULL);
        smoe_frame_end(list);
        smoe_result_line(&result, x->name, "%s", x->value);
        if (*x->advice) smoe_result_line(&result, "", "> %s", x->advice);
    }
    if (advised)
        smoe_result_line(&result, NULL, "%zu remark%s, marked by >", advised, SMOE_S(advised));
    else
        smoe_result_line(&result, NULL, "no problems found");
    return smoe_cmd_emit(&result, options, err);
}

int cmd_doctor(const smoe_options *options, smoe_err *err) {
    findings f = {.count = 0};
    look_at_processor(&f);
    look_at_kernels(&f);
    if (doctor_measure(&f, err)) return -1;
    look_at_memory(&f);
    look_at_limits(&f);
    look_at_disk(&f);
    look_at_programs(&f);
    look_at_modules(&f);
    return doctor_show(&f, options, err);
}
