/*
 * The link between processes by MPI: point-to-point messages alone, from one thread. A module that
 * comm/open.c loads; the only file that uses MPI. MPI handles its own errors: it ends the program,
 * and the launcher ends the other processes.
 */
#include "comm/comm.h"

#include <mpi.h>
#include <unistd.h>

/* Counts of MPI are int. */
enum { MOST = 1 << 30, TAG = 0 };

static int part(size_t bytes) {
    return bytes < MOST ? (int)bytes : MOST;
}

/* MPI itself would poll without a pause. On shared processors this would slow down the very process
 * that is waited for. So after a short time of polling, the process sleeps between polls. */
static void wait_for(int n, MPI_Request *request) {
    enum { POLLS = 2000, NAP = 50 };
    int done = 0;
    for (int i = 0; !done; i++) {
        MPI_Testall(n, request, &done, MPI_STATUSES_IGNORE);
        if (!done && i >= POLLS) usleep(NAP);
    }
}

static void mpi_exchange(void *self, int other, const void *out, size_t out_bytes, void *in,
                         size_t in_bytes) {
    (void)self;
    const char *from = out;
    char *to = in;
    while (out_bytes || in_bytes) {
        MPI_Request request[2];
        int n = 0, sends = part(out_bytes), receives = part(in_bytes);
        if (receives) MPI_Irecv(to, receives, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request[n++]);
        if (sends) MPI_Isend(from, sends, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &request[n++]);
        wait_for(n, request);
        from += sends;
        to += receives;
        out_bytes -= (size_t)sends;
        in_bytes -= (size_t)receives;
    }
}

static void mpi_close(void *self) {
    (void)self;
    MPI_Finalize();
}

static const smoe_link mpi = {mpi_exchange, mpi_close};

smoe_link_open smoe_link_mpi_open;

__attribute__((visibility("default"))) int smoe_link_mpi_open(smoe_comm *comm, smoe_err *err) {
    int provided;
    (void)err;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm->size);
    comm->link = &mpi;
    return 0;
}
