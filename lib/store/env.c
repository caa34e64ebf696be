/* The environment of a run, as far as it can change its numbers or its speed. See env.h. */
#include "store/env.h"
#include "base/json.h"
#include "math/blas.h"
#include "math/kernels.h"

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifndef SMOE_CFLAGS /* the build passes the flags it compiles with */
#define SMOE_CFLAGS "unknown"
#endif

/* The first "model name" of /proc/cpuinfo. */
static const char *cpu_model(char *buf, size_t size) {
    snprintf(buf, size, "unknown");
    FILE *in = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (in && fgets(line, sizeof line, in)) {
        if (strncmp(line, "model name", 10)) continue;
        char *value = strchr(line, ':');
        if (!value) continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(buf, size, "%s", value);
        break;
    }
    if (in) fclose(in);
    return buf;
}

long long smoe_env_now(void) {
    const char *given = getenv("SOURCE_DATE_EPOCH");
    char *end;
    long long seconds = given ? strtoll(given, &end, 10) : 0;
    return given && *given && !*end && seconds >= 0 ? seconds : (long long)time(NULL);
}

const char *smoe_env_date(char buf[SMOE_DATE_TEXT], long long seconds) {
    time_t when = (time_t)seconds;
    struct tm utc;
    buf[0] = '\0';
    if (gmtime_r(&when, &utc)) strftime(buf, SMOE_DATE_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return buf;
}

json_t *smoe_env_json(int argc, char *const *argv, const char *blas, const char *kernel,
                      int threads) {
    char cpu[256], date[SMOE_DATE_TEXT], cwd[4096];
    struct utsname host;
    if (uname(&host)) host = (struct utsname){.nodename = "unknown"};
    if (!getcwd(cwd, sizeof cwd)) snprintf(cwd, sizeof cwd, "unknown");
    json_t *env = json_object(), *arguments = json_array();
    for (int i = 0; i < argc; i++) json_array_append_new(arguments, smoe_json_text(argv[i]));
    json_object_set_new(env, "version", smoe_json_text(SMOE_VERSION));
    json_object_set_new(env, "compiler", smoe_json_text(COMPILER));
    json_object_set_new(env, "flags", smoe_json_text(SMOE_CFLAGS));
    json_object_set_new(env, "real",
                        smoe_json_text(sizeof(real) == sizeof(float) ? "float" : "double"));
    json_object_set_new(env, "cpu", smoe_json_text(cpu_model(cpu, sizeof cpu)));
    json_object_set_new(env, "cores", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(env, "threads", json_integer(threads));
    json_object_set_new(env, "blas", smoe_json_text(blas ? blas : "unknown"));
    json_object_set_new(env, "kernel", smoe_json_text(kernel ? kernel : "unknown"));
    json_object_set_new(env, "argv", arguments);
    json_object_set_new(env, "cwd", smoe_json_text(cwd));
    json_object_set_new(env, "date", smoe_json_text(smoe_env_date(date, smoe_env_now())));
    json_object_set_new(env, "host", smoe_json_text(host.nodename));
    char system[sizeof host.sysname + sizeof host.release + sizeof host.machine + 2];
    snprintf(system, sizeof system, "%s %s %s", host.sysname, host.release, host.machine);
    json_object_set_new(env, "system", smoe_json_text(system));
    return env;
}

json_t *smoe_env_here(int argc, char *const *argv) {
    char blas[64];
    snprintf(blas, sizeof blas, "BLIS %s, %s kernels", smoe_blas_version(), smoe_blas_kernel());
    const smoe_kernels *kernels = smoe_kernels_get();
    json_t *env = smoe_env_json(argc, argv, blas, kernels->isa, smoe_threads());
    json_object_set_new(env, "matrix", json_string(kernels->matrix->unit));
    return env;
}
