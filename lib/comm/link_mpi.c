/*
 * The link between processes by MPI: point-to-point messages alone, from one thread at a time. A
 * module that comm/open.c loads; the only file that uses MPI. MPI handles its own errors: it ends
 * the program, and the launcher ends the other processes.
 */
#include "comm/comm.h"

#include <mpi.h>
#include <unistd.h>

/* A message is cut into parts, and a few parts are under way at a time in each direction. MPI sends
 * a part of this size at once. A longer one it would send only when the receiver has asked for it,
 * and over TCP that request would wait behind the data of the other direction: the two directions
 * of an exchange would take turns instead of going at the same time. */
enum { PART = 60 << 10, WINDOW = 16, DATA = 0, READY = 1 };

/* One direction of an exchange. */
typedef struct way {
    char *at;
    size_t left; /* bytes that MPI does not have yet */
    bool sends;
    int other;
} way;

static void start_part(way *w, MPI_Request *request) {
    int bytes = w->left < PART ? (int)w->left : PART;
    if (w->sends)
        MPI_Isend(w->at, bytes, MPI_BYTE, w->other, DATA, MPI_COMM_WORLD, request);
    else
        MPI_Irecv(w->at, bytes, MPI_BYTE, w->other, DATA, MPI_COMM_WORLD, request);
    w->at += bytes;
    w->left -= (size_t)bytes;
}

/* The first parts; returns their number. */
static int link_mpi_start(way *w, MPI_Request request[WINDOW]) {
    int n = 0;
    while (n < WINDOW && w->left) start_part(w, &request[n++]);
    return n;
}

/* MPI itself would poll without a pause. On shared processors this would slow down the very process
 * that is waited for. So after a short time of polling, the process sleeps between polls. In the
 * background each poll takes time from computing, and nobody waits yet: it sleeps longer, though
 * not so long that the buffers of a fast link would be empty. */
static void pause_between(int polls, bool background) {
    enum { POLLS = 2000, NAP = 50, LONG_NAP = 200 };
    if (background)
        usleep(LONG_NAP);
    else if (polls >= POLLS)
        usleep(NAP);
}

static void wait_for(int n, MPI_Request *request, bool background) {
    int done = 0;
    for (int polls = 0; !done; polls++) {
        MPI_Testall(n, request, &done, MPI_STATUSES_IGNORE);
        if (!done) pause_between(polls, background);
    }
}

/* Several parts are sent only when the receiver is there too: MPI would have to store what comes
 * too early, up to the whole message. */
static void link_mpi_meet(int other, bool receives, bool sends, bool background) {
    MPI_Request request[2];
    int n = 0;
    if (sends) MPI_Irecv(NULL, 0, MPI_BYTE, other, READY, MPI_COMM_WORLD, &request[n++]);
    if (receives) MPI_Isend(NULL, 0, MPI_BYTE, other, READY, MPI_COMM_WORLD, &request[n++]);
    wait_for(n, request, background);
}

static void mpi_exchange(void *self, int other, const void *out, size_t out_bytes, void *in,
                         size_t in_bytes, bool background) {
    (void)self;
    way receiving = {.at = in, .left = in_bytes, .other = other};
    way sending = {.at = (char *)out, .left = out_bytes, .other = other, .sends = true};
    MPI_Request request[2 * WINDOW];
    int ended[2 * WINDOW], n;
    for (int i = 0; i < 2 * WINDOW; i++) request[i] = MPI_REQUEST_NULL;
    int under_way = link_mpi_start(&receiving, request);
    link_mpi_meet(other, in_bytes > PART, out_bytes > PART, background);
    under_way += link_mpi_start(&sending, request + WINDOW);
    for (int polls = 0; under_way; polls++) {
        MPI_Testsome(2 * WINDOW, request, &n, ended, MPI_STATUSES_IGNORE);
        if (!n) pause_between(polls, background);
        for (int i = 0; i < n; i++) {
            way *w = ended[i] < WINDOW ? &receiving : &sending;
            polls = 0;
            under_way--;
            if (!w->left) continue;
            start_part(w, &request[ended[i]]);
            under_way++;
        }
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
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &comm->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm->size);
    comm->link = &mpi;
    comm->one_thread = provided < MPI_THREAD_SERIALIZED;
    return 0;
}
