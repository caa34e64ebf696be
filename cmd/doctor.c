/* smoe doctor: what this machine has, what makes smoe slow on it, and what would help. It changes
 * nothing; the speed of a model is measured by smoe bench. */
#include "cmd.h"
#include "base/module.h"
#include "base/process.h"
#include "bench/bench.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "store/env.h"
#include "text/sentencepiece.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* What was found: a line each, with an advice below it, and a row in JSON. */
typedef struct findings {
    smoe_result *result;
    smoe_frame *list;
    size_t advised;
} findings;

/* A finding, and what would help; NULL: nothing is to be done. */
#define doctor_find(f, name, advice, ...) doctor_add(f, name, advice, smoe_text_format(__VA_ARGS__))
static void doctor_add(findings *f, const char *name, const char *advice, char *fresh) {
    SMOE_FREED char *value = fresh;
    smoe_frame_put(f->list, {"name", .text = name}, {"value", .text = value},
                   {"advice", SMOE_TEXT_OF(advice)});
    smoe_result_line(f->result, name, "%s", value);
    if (advice) smoe_result_line(f->result, "", "> %s", advice);
    f->advised += advice != NULL;
}

/* The first line of a small file, "" where there is none. */
static void doctor_line_of(const char *path, char *buf, size_t size) {
    smoe_process_read(path, buf, size);
    buf[strcspn(buf, "\n")] = '\0';
}

/* ---- processor ------------------------------------------------------------------------------- */

static void look_at_processor(findings *f) {
    char line[128];
    json_auto_t *env = smoe_env_here(0, NULL);
    cpu_set_t allowed;
    int here = sched_getaffinity(0, sizeof allowed, &allowed) ? 0 : CPU_COUNT(&allowed);
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    double limit = 0, load = 0, part, period;
    const char *model = json_string_value(json_object_get(env, "cpu"));
    SMOE_FREED char *threads = NULL;
    doctor_find(f, "processor", NULL, "%s", model ? model : "unknown");
    /* the processors' time that a container may use */
    doctor_line_of("/sys/fs/cgroup/cpu.max", line, sizeof line);
    if (sscanf(line, "%lf %lf", &part, &period) == 2 && period > 0) limit = part / period;
    if (limit > 0 && limit < smoe_threads())
        smoe_text_add(&threads, "a limit of %.3g processors is set (cpu.max): use -j %d", limit,
                      limit < 1 ? 1 : (int)limit);
    else if (smoe_threads() > here)
        smoe_text_add(&threads, "more threads than processors: use -j %d", here);
    doctor_find(f, "processors", threads, "%d of %ld, %d thread%s", here, all, smoe_threads(),
                SMOE_S(smoe_threads()));
    if (getloadavg(&load, 1) == 1)
        doctor_find(f, "load",
                    load > 0.5 * (double)all
                        ? "other programs use the processors; timings vary, and training is slower"
                        : NULL,
                    "%.1f", load);
    doctor_line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof line);
    if (*line)
        doctor_find(f, "governor",
                    strcmp(line, "powersave")
                        ? NULL
                        : "the clock may stay low: `cpupower frequency-set -g performance`",
                    "%s", line);
}

static void look_at_kernels(findings *f) {
    const smoe_kernels *kernels = smoe_kernels_get();
    const char *asked = getenv("SMOE_ISA");
    SMOE_FREED char *isa = NULL;
    if (asked)
        smoe_text_add(&isa, "SMOE_ISA=%s is set; without it the widest are used", asked);
    else if (!strcmp(kernels->isa, "base"))
        smoe_text_add(&isa, "this processor has no AVX2: expect a tenth of the speed");
    doctor_find(f, "instructions", isa, "%s", kernels->isa);
    doctor_find(f, "matrix unit",
                strcmp(kernels->matrix->unit, "multiply-adds")
                    ? NULL
                    : "none: train.precision=bf16 and bf16x3 save no time here",
                "%s", kernels->matrix->unit);
    doctor_find(f, "blas", NULL, "BLIS %s, %s kernels", smoe_blas_version(), smoe_blas_kernel());
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
    doctor_find(f, "products",
                best.gemm_gflops < 0.5 * best.fma_gflops
                    ? "less than half of the peak: other programs, too many threads, or "
                      "BLIS_ARCH_TYPE"
                    : NULL,
                "%s of %s", smoe_text_si(a, sizeof a, 1e9 * best.gemm_gflops, "FLOP/s"),
                smoe_text_si(b, sizeof b, 1e9 * best.fma_gflops, "FLOP/s possible"));
    doctor_find(f, "bandwidth", NULL, "%s read and written, %s read",
                smoe_text_si(a, sizeof a, best.memory_bandwidth, "B/s"),
                smoe_text_si(b, sizeof b, best.read_bandwidth, "B/s"));
    return 0;
}

/* ---- memory, limits, programs ---------------------------------------------------------------- */

static void look_at_memory(findings *f) {
    char a[32], line[128];
    doctor_find(f, "memory", NULL, "%s", smoe_text_si(a, sizeof a, smoe_estimate_memory(), "B"));
    doctor_line_of("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    if (*line)
        doctor_find(f, "large pages",
                    strstr(line, "[never]")
                        ? "weights and optimiser are read faster from large pages: write madvise "
                          "to /sys/kernel/mm/transparent_hugepage/enabled"
                        : NULL,
                    "%s", line);
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
    for (size_t i = 0; i < SMOE_COUNT(limits); i++) {
        struct rlimit limit;
        char text[32] = "unlimited";
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit)) continue;
        if (limit.rlim_cur != RLIM_INFINITY)
            smoe_text_si(text, sizeof text, (double)limit.rlim_cur, limits[i].unit);
        doctor_find(f, limits[i].name, limit.rlim_cur < limits[i].least ? limits[i].advice : NULL,
                    "%s", text);
    }
}

/* A program that is looked for by PATH. */
static void find_program(findings *f, const char *name, const char *advice) {
    const char *path = getenv("PATH");
    bool found = false;
    while (path && *path && !found) {
        size_t n = strcspn(path, ":");
        SMOE_FREED char *file = smoe_text_format("%.*s/%s", (int)n, path, name);
        found = !access(file, X_OK);
        path += n + (path[n] == ':');
    }
    doctor_find(f, name, found ? NULL : advice, "%s", found ? "there" : "not found");
}

/* Modules are loaded, since one that is there may miss a library. */
static void look_at_programs(findings *f) {
#ifdef SMOE_HTTP
    doctor_find(f, "smoe serve", NULL, "there");
#else
    doctor_find(f, "smoe serve", "install libmicrohttpd-dev and build again, if you need it",
                "not in this build");
#endif
    find_program(f, "gnuplot", "figures are left as scripts: install gnuplot-nox");
    static const struct {
        const char *name, *module, *entry, *package;
        bool global;
    } modules[] = {
        {"MPI", "mpi", SMOE_COMM_ENTRY, "libopenmpi-dev", true},
        {"SentencePiece", "sentencepiece", SMOE_SENTENCEPIECE_ENTRY, "libsentencepiece-dev", false},
    };
    for (size_t i = 0; i < SMOE_COUNT(modules); i++) {
        void (*function)(void);
        smoe_err err = {0};
        smoe_module_found found = smoe_module_load(modules[i].module, modules[i].entry,
                                                   modules[i].global, &function, &err);
        SMOE_FREED char *advice = NULL;
        if (found == SMOE_MODULE_BROKEN) advice = smoe_alloc_text(err.text);
        if (found == SMOE_MODULE_MISSING)
            advice =
                smoe_text_format("install %s and build again, if you need it", modules[i].package);
        doctor_find(f, modules[i].name, advice, "%s",
                    found == SMOE_MODULE_HERE     ? "there"
                    : found == SMOE_MODULE_BROKEN ? "cannot be loaded"
                                                  : "not in this build");
    }
    find_program(f, "mpirun", "starts several processes: install openmpi-bin");
}

int cmd_doctor(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    findings f = {.result = &result, .list = smoe_result_records(&result, "findings")};
    look_at_processor(&f);
    look_at_kernels(&f);
    if (doctor_measure(&f, err)) return -1;
    look_at_memory(&f);
    look_at_limits(&f);
    struct statvfs here;
    char text[32];
    double left = statvfs(".", &here) ? NAN : (double)here.f_bavail * (double)here.f_frsize;
    if (!isnan(left))
        doctor_find(&f, "disk here",
                    left < 1e9 ? "checkpoints may not fit; -o DIR chooses another place" : NULL,
                    "%s free", smoe_text_si(text, sizeof text, left, "B"));
    look_at_programs(&f);
    if (f.advised)
        smoe_result_line(&result, NULL, "%zu remark%s, marked by >", f.advised, SMOE_S(f.advised));
    else
        smoe_result_line(&result, NULL, "no problems found");
    return smoe_cmd_emit(&result, options, err);
}
