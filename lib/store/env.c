/* The environment of a run, as far as it can change its numbers or its speed. See env.h. */
#include "store/env.h"
#include "base/json.h"
#include "base/process.h"
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
    char text[4096];
    smoe_process_read("/proc/cpuinfo", text, sizeof text);
    const char *name = strstr(text, "\nmodel name"), *value = name ? strchr(name, ':') : NULL;
    if (value) value += 1 + strspn(value + 1, " \t");
    snprintf(buf, size, "%.*s", value ? (int)strcspn(value, "\n") : 7, value ? value : "unknown");
    return buf;
}

static const long long YEAR_9999 = 253402300799; /* its last second */

long long smoe_env_now(void) {
    const char *given = getenv("SOURCE_DATE_EPOCH");
    char *end;
    long long seconds = given ? strtoll(given, &end, 10) : 0;
    bool dated = given && *given && !*end && seconds >= 0 && seconds <= YEAR_9999;
    return dated ? seconds : (long long)time(NULL);
}

const char *smoe_env_date(char buf[SMOE_DATE_TEXT], long long seconds) {
    time_t when = (time_t)seconds;
    struct tm utc;
    buf[0] = '\0';
    if (gmtime_r(&when, &utc)) strftime(buf, SMOE_DATE_TEXT, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return buf;
}

json_t *smoe_env_here(int argc, char *const *argv) {
    char cpu[256], date[SMOE_DATE_TEXT], cwd[4096];
    struct utsname host;
    const smoe_kernels *kernels = smoe_kernels_get();
    if (uname(&host)) host = (struct utsname){.nodename = "unknown"};
    if (!getcwd(cwd, sizeof cwd)) snprintf(cwd, sizeof cwd, "unknown");
    json_t *arguments = json_array();
    for (int i = 0; i < argc; i++) json_array_append_new(arguments, smoe_json_text(argv[i]));
    SMOE_FREED char *blas =
        smoe_text_format("BLIS %s, %s kernels", smoe_blas_version(), smoe_blas_kernel());
    SMOE_FREED char *system =
        smoe_text_format("%s %s %s", host.sysname, host.release, host.machine);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:i, s:o, s:s, s:o, s:o, s:s, s:o, s:o, s:s}",
                     "version", SMOE_VERSION, "compiler", COMPILER, "flags", SMOE_CFLAGS, "real",
                     sizeof(real) == sizeof(float) ? "float" : "double", "cpu",
                     smoe_json_text(cpu_model(cpu, sizeof cpu)), "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "threads", smoe_threads(), "blas",
                     smoe_json_text(blas), "kernel", kernels->isa, "argv", arguments, "cwd",
                     smoe_json_text(cwd), "date", smoe_env_date(date, smoe_env_now()), "host",
                     smoe_json_text(host.nodename), "system", smoe_json_text(system), "matrix",
                     kernels->matrix->unit);
}
