/*
 * A link between processes with a latency, for tests: the module of MPI (lib/comm/link_mpi.c), each
 * of whose exchanges begins after SMOE_DELAY_US microseconds. Built as smoe_mpi.so into a folder of
 * its own, which SMOE_MODULES names; the real module is SMOE_DELAYED.
 */
#include "comm/comm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const smoe_link *real_link;
static double seconds;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void delayed(void *self, int other, const void *out, size_t out_bytes, void *in,
                    size_t in_bytes, bool background) {
    /* A sleep may be longer than asked for by more than a latency. It is only right where the
     * processor has other work, and for all but the end. */
    const double rest = 2e-4, begin = now();
    if (background && seconds > rest) usleep((useconds_t)(1e6 * (seconds - rest)));
    while (now() - begin < seconds) {
    }
    real_link->exchange(self, other, out, out_bytes, in, in_bytes, background);
}

static void end(void *self) {
    real_link->close(self);
}

smoe_link_open smoe_link_mpi_open;

int smoe_link_mpi_open(smoe_comm *comm, smoe_err *err) {
    static const smoe_link link = {delayed, end};
    const char *file = getenv("SMOE_DELAYED"), *us = getenv("SMOE_DELAY_US");
    void *module = file ? dlopen(file, RTLD_NOW | RTLD_GLOBAL) : NULL;
    smoe_link_open *entry = NULL;
    if (module) *(void **)&entry = dlsym(module, SMOE_COMM_ENTRY);
    if (!entry) return -1;
    int status = entry(comm, err);
    real_link = comm->link;
    seconds = us ? 1e-6 * strtod(us, NULL) : 0;
    comm->link = &link;
    return status;
}
