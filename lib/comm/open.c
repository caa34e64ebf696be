/* Which processes were started together; see comm.h. MPI is touched only where a launcher says that
 * there is more than one: then a module is loaded. */
#include "base/module.h"
#include "comm/comm.h"

#include <unistd.h>

static long variable_number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

/* The number of processes that the launcher started, 0 without a launcher. */
static long launched_processes(void) {
    if (getenv("OMPI_COMM_WORLD_SIZE")) return variable_number("OMPI_COMM_WORLD_SIZE");
    if (getenv("PMIX_RANK"))
        return getenv("SLURM_STEP_NUM_TASKS") ? variable_number("SLURM_STEP_NUM_TASKS") : 2;
    return 0;
}

/* Whether srun started several processes without a way to find each other. */
static bool is_separated(void) {
    return !getenv("PMIX_RANK") && getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID") &&
           variable_number("SLURM_STEP_NUM_TASKS") > 1;
}

bool smoe_comm_launched(void) {
    return launched_processes() > 1;
}

int smoe_comm_open(smoe_comm *comm, smoe_err *err) {
    *comm = smoe_comm_alone;
    if (is_separated())
        return smoe_fail(err, SMOE_USAGE,
                         "srun started %ld processes that do not know each other: use srun "
                         "--mpi=pmix (or mpirun)",
                         variable_number("SLURM_STEP_NUM_TASKS"));
    if (!smoe_comm_launched()) return 0;
    void (*entry)(void);
    /* Open MPI's own plug-ins look for its symbols globally. */
    switch (smoe_module_load("mpi", SMOE_COMM_ENTRY, true, &entry, err)) {
    case SMOE_MODULE_BROKEN: return -1;
    case SMOE_MODULE_MISSING:
        return smoe_fail(err, SMOE_USAGE,
                         "started as one of %ld processes, but this build has no MPI (smoe_mpi.so "
                         "is not there): install libopenmpi-dev and build again",
                         launched_processes());
    case SMOE_MODULE_HERE: break;
    }
    smoe_link_open *open = (smoe_link_open *)entry;
    if (gethostname(comm->host, sizeof comm->host - 1))
        snprintf(comm->host, sizeof comm->host, "?");
    return open(comm, err) ? -1 : smoe_comm_start(comm, err);
}

void smoe_comm_close(smoe_comm *comm) {
    smoe_comm_stop(comm);
    if (comm->link) comm->link->close(comm->self);
    *comm = smoe_comm_alone;
}
