/* Running a command with several processes; see cmd.h. */
#include "cmd.h"
#include "math/blas.h"
#include "math/kernels.h"

#include <sched.h>
#include <zlib.h>

/* Processes on one machine that may use the same cores have equal shares of them; where the
 * launcher gave each its own, those are its share. */
static void divide_threads(smoe_comm *comm) {
    cpu_set_t cores;
    size_t R = (size_t)comm->size, rank = (size_t)comm->rank;
    int here = 1;
    double *place = smoe_alloc(2 * R, sizeof *place); /* of each process: its machine, its cores */
    CPU_ZERO(&cores);
    (void)sched_getaffinity(0, sizeof cores, &cores);
    place[2 * rank] = (double)crc32_z(0, (const Bytef *)comm->host, strlen(comm->host));
    place[2 * rank + 1] = (double)crc32_z(0, (const Bytef *)&cores, sizeof cores);
    smoe_comm_sum(comm, place, 2 * R);
    for (size_t r = 0; r < R; r++)
        here +=
            r != rank && place[2 * r] == place[2 * rank] && place[2 * r + 1] == place[2 * rank + 1];
    int threads = CPU_COUNT(&cores) / here;
    smoe_threads_set(threads > 0 ? threads : 1);
    free(place);
}

/* The command with its options and settings, without values of options, number of threads, and
 * where things are: these may differ. */
static uint32_t command_sum(const smoe_options *options) {
    const char *name = options->command->name;
    uLong sum = crc32_z(0, (const Bytef *)name, strlen(name) + 1);
    for (int i = 1; i < options->argc; i++) {
        const char *word = options->argv[i], *equals = strchr(word, '=');
        bool option = word[0] == '-' && strncmp(word, "-j", 2) && strncmp(word, "--threads", 9);
        bool place = equals && (strstr(word, "path=") || strstr(word, "labels="));
        if (option)
            sum = crc32_z(sum, (const Bytef *)word, strcspn(word, "="));
        else if (equals && word[0] != '-' && !place)
            sum = crc32_z(sum, (const Bytef *)word, strlen(word));
    }
    return (uint32_t)sum;
}

/* Processes that do not compute alike, or run other commands, would mix bits or wait for each other
 * without an end. Every command begins with this exchange. They are refused rather than narrowed to
 * what all have: then the nodes that a scheduler happens to give would decide the bits of a run. */
static int be_alike(smoe_comm *comm, const smoe_options *options, smoe_err *err) {
    const smoe_kernels *kernels = smoe_kernels_get();
    const uint32_t command = command_sum(options);
    if (smoe_comm_alike(comm, "version", SMOE_VERSION, "install the same one everywhere", err) ||
        smoe_comm_alike(comm, "instruction set", kernels->isa,
                        "SMOE_ISA, the same for all and one that each has, makes them alike",
                        err) ||
        smoe_comm_alike(comm, "number type", sizeof(real) == sizeof(float) ? "float" : "double",
                        "install the same program everywhere", err) ||
        smoe_comm_alike(comm, "BLIS", smoe_blas_version(), "install the same one everywhere",
                        err) ||
        smoe_comm_alike(comm, "command", options->command->name, "all run the same one", err))
        return -1;
    return smoe_comm_same(comm, "set of options and settings", &command, sizeof command, err);
}

static int be_one(smoe_comm *comm, smoe_options *options, smoe_err *err) {
    if (comm->size & (comm->size - 1))
        return smoe_fail(err, SMOE_USAGE, "%d processes: their number must be a power of two",
                         comm->size);
    if (be_alike(comm, options, err)) return -1;
    if (!options->threads && !getenv("OMP_NUM_THREADS")) divide_threads(comm);
    if (!comm->rank) return 0;
    options->quiet = true;
    options->scan = NULL;
    if (freopen("/dev/null", "w", stdout)) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "/dev/null");
}

/* Only process 0 reports a failure, before any process ends: a launcher kills the others as soon as
 * one has ended with a status other than 0. */
static void complain_once(const smoe_comm *comm, int status, const smoe_options *options,
                          smoe_err *err) {
    if (comm->size == 1) return;
    if (status && !comm->rank) smoe_cmd_complain(options->command, err);
    fflush(stdout);
    err->text[0] = '\0';
}

/* Processes that cannot be connected are refused alike. */
int smoe_alone(const smoe_options *options, smoe_err *err) {
    smoe_comm comm;
    bool cells = options->command->processes == SMOE_CELLS;
    if (options->command->processes == SMOE_SEVERAL || (cells && options->resume)) return 0;
    int status = smoe_comm_open(&comm, err);
    if (!status && comm.size == 1) return 0;
    smoe_fail(err, SMOE_USAGE,
              "several processes were started together, but one does this command%s",
              cells ? "; with --resume they share the cells" : "");
    if (status) return -1;
    status = smoe_comm_agree(&comm, -1, NULL, err);
    complain_once(&comm, status, options, err);
    smoe_comm_close(&comm);
    return status;
}

int smoe_together(const smoe_options *options, smoe_command_run *command, smoe_err *err) {
    smoe_comm comm;
    smoe_options own = *options;
    if (smoe_comm_open(&comm, err)) return -1;
    own.comm = &comm;
    int status = comm.size > 1 ? be_one(&comm, &own, err) : 0;
    if (!status) status = command(&own, err);
    if (!comm.agreed) status = smoe_comm_agree(&comm, status, NULL, err);
    complain_once(&comm, status, options, err);
    smoe_comm_close(&comm);
    return status;
}
