/* Which processes were started together; see comm.h. MPI is touched only where a launcher says that
 * there is more than one: then the module beside the program, or in its library folder, is loaded.
 * */
#include "comm/comm.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

/* The number of processes that the launcher started, 0 without a launcher. */
static long launched(void) {
    if (getenv("OMPI_COMM_WORLD_SIZE")) return number("OMPI_COMM_WORLD_SIZE");
    if (getenv("PMIX_RANK"))
        return getenv("SLURM_STEP_NUM_TASKS") ? number("SLURM_STEP_NUM_TASKS") : 2;
    return 0;
}

/* Whether srun started several processes without a way to find each other. */
static bool is_separated(void) {
    return !getenv("PMIX_RANK") && getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID") &&
           number("SLURM_STEP_NUM_TASKS") > 1;
}

static void *load(char path[PATH_MAX]) {
    static const char *const places[] = {"%s/smoe_mpi.so", "%s/../lib/smoe/smoe_mpi.so"};
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n < 0 ? 0 : n] = '\0';
    const char *folder = dirname(program);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, PATH_MAX, places[i], folder);
        /* Open MPI's own plug-ins look for its symbols globally. */
        if (!access(path, F_OK)) return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    *path = '\0';
    return NULL;
}

int smoe_comm_open(smoe_comm *comm, smoe_err *err) {
    char path[PATH_MAX];
    *comm = smoe_comm_alone;
    if (is_separated())
        return smoe_fail(err, SMOE_USAGE,
                         "srun started %ld processes that do not know each other: use srun "
                         "--mpi=pmix (or mpirun)",
                         number("SLURM_STEP_NUM_TASKS"));
    if (launched() < 2) return 0;
    void *module = load(path);
    if (!module && !*path)
        return smoe_fail(err, SMOE_USAGE,
                         "started as one of %ld processes, but this build has no MPI (smoe_mpi.so "
                         "is not there): install libopenmpi-dev and build again",
                         launched());
    if (!module) return smoe_fail(err, SMOE_RUNTIME, "%s", dlerror());
    smoe_link_open *open;
    *(void **)&open = dlsym(module, SMOE_COMM_ENTRY);
    if (!open) return smoe_fail(err, SMOE_RUNTIME, "%s: not a module of smoe", path);
    if (gethostname(comm->host, sizeof comm->host - 1))
        snprintf(comm->host, sizeof comm->host, "?");
    return open(comm, err);
}

void smoe_comm_close(smoe_comm *comm) {
    if (comm->link) comm->link->close(comm->self);
    *comm = smoe_comm_alone;
}
