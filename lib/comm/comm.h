/*
 * The processes of a run: their number and rank, sums over them, and agreement among them. Bytes
 * are moved by a smoe_link: one process needs none, several use MPI (link_mpi.c, a separate module
 * that is loaded only under a launcher). Everything else is built on the exchange of bytes between
 * two processes, so that this code determines the order of every sum: with R processes, a power of
 * two, process r has the r-th of R neighbouring subtrees, and sums follow the binary tree over r.
 *
 * Failures: a process that fails reports it in smoe_comm_agree, which all processes call. So each
 * function below must be called by all processes or by none, after smoe_comm_agree if one of them
 * may have failed. If a link breaks, the process ends, and its launcher ends the others.
 */
#pragma once

#include "base/base.h"
#include "base/exact.h"

/* Kinds of data that are sent, for the counts. */
typedef enum smoe_traffic {
    SMOE_TRAFFIC_GRADIENTS, /* scattered and summed */
    SMOE_TRAFFIC_WEIGHTS,   /* gathered */
    SMOE_TRAFFIC_SLOTS,     /* from all to all: what experts of other processes work on */
    SMOE_TRAFFIC_OTHER,     /* losses, agreement, evaluation, checkpoints */
    SMOE_TRAFFICS
} smoe_traffic;

typedef struct smoe_sent {
    uint64_t bytes, messages;
} smoe_sent;

typedef struct smoe_link {
    /* Sends `out` to `other` and receives `in` from it at the same time; either may have 0 bytes,
     * which are not sent. `background`: the process computes meanwhile, in another thread. */
    void (*exchange)(void *self, int other, const void *out, size_t out_bytes, void *in,
                     size_t in_bytes, bool background);
    void (*close)(void *self);
} smoe_link;

typedef struct smoe_background smoe_background;
typedef struct smoe_comm smoe_comm;
struct smoe_comm {
    const smoe_link *link; /* NULL: one process; or, with a size, one of several that are not there:
                              what it would send is only counted, and its memory may be NULL */
    void *self;            /* of the link */
    int rank, size;        /* this process; R */
    char host[64];
    bool one_thread;               /* the link cannot be used by one thread after another */
    smoe_background *background;   /* NULL: no exchange goes on while the process computes */
    bool agreed;                   /* all know of the current failure, and one process reports it */
    smoe_sent sent[SMOE_TRAFFICS]; /* by this process */
    /* Some of the processes (smoe_comm_part): process i of them is first + i * stride of `all`,
     * which counts what is sent; NULL: these are all. */
    smoe_comm *all;
    int first, stride;
};

/* Whether a launcher started several processes, of which this is one. It ends all if one fails. */
bool smoe_comm_launched(void);

/* The processes that a launcher started together with this one, or this one alone. SMOE_USAGE if
 * processes that belong together cannot be connected: no MPI module in this build, or srun without
 * PMIx. Close at the end of the program. */
int smoe_comm_open(smoe_comm *comm, smoe_err *err) SMOE_MUST_CHECK;
void smoe_comm_close(smoe_comm *comm);

/* One process alone. */
extern const smoe_comm smoe_comm_alone;

/* The name and type of the only function that the module exports. */
#define SMOE_COMM_ENTRY "smoe_link_mpi_open"
typedef int smoe_link_open(smoe_comm *comm, smoe_err *err);

/* The processes first, first + stride .. of `all`, `size` of them, this one included. Not to be
 * closed; borrows `all`. */
smoe_comm smoe_comm_part(smoe_comm *all, int first, int stride, int size);

/* Sends to one process and receives from it at the same time; either may have 0 bytes. */
void smoe_comm_exchange(smoe_comm *comm, smoe_traffic kind, int other, const void *out,
                        size_t out_bytes, void *in, size_t in_bytes);

/* The same for SMOE_TRAFFIC_SLOTS while the caller computes: a thread makes the exchanges that were
 * begun, one after the other. The result is a number for smoe_comm_end, which returns when that
 * exchange and those before it have ended. Until then `out` must not change and `in` must not be
 * used. The other functions may be called when all have ended. Two processes must begin the
 * exchanges that they have with each other in the same order, and in an order that all can agree
 * on: if each waits for another one, none ends. Without a thread smoe_comm_begin itself makes the
 * exchange. */
uint64_t smoe_comm_begin(smoe_comm *comm, int other, const void *out, size_t out_bytes, void *in,
                         size_t in_bytes);
void smoe_comm_end(smoe_comm *comm, uint64_t number);

/* Starts and stops this thread; smoe_comm_open and smoe_comm_close do. */
int smoe_comm_start(smoe_comm *comm, smoe_err *err) SMOE_MUST_CHECK;
void smoe_comm_stop(smoe_comm *comm);

/* Whether R processes can have R neighbouring subtrees each. */
static inline bool smoe_comm_divides(const smoe_comm *comm, size_t pieces) {
    return pieces % (size_t)comm->size == 0;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* x [n] of all processes becomes their sum in the tree, the same bits on each. R is a power of
 * two. */
void smoe_comm_sum(smoe_comm *comm, double *x, size_t n);

/* The same for integers, where no order matters. */
void smoe_comm_sum_counts(smoe_comm *comm, uint64_t *x, size_t n);
void smoe_comm_sum_exact(smoe_comm *comm, smoe_exact *x, size_t n);

/* x [n] becomes the largest of all processes. */
void smoe_comm_largest(smoe_comm *comm, double *x, size_t n);

/* For bytes that are zero in all processes except one, or the same in several: all processes get
 * those. */
void smoe_comm_join(smoe_comm *comm, void *x, size_t bytes);

/* The part of n units that belongs to this process: [*first, *end). */
void smoe_comm_range(const smoe_comm *comm, size_t n, size_t *first, size_t *end);

/* x [size] in units of `unit` elements, the last one shorter, of which only the elements of `part`
 * are summed: of those in the units of its range each process gets the sum in the tree; the others
 * of the part are left as rubbish. `block` [SMOE_COMM_BLOCK] is scratch, not looked at with one
 * process. */
typedef struct smoe_stretch {
    size_t first, end; /* elements first .. end */
} smoe_stretch;
enum { SMOE_COMM_BLOCK = 1 << 20 };
void smoe_comm_scatter_sum(smoe_comm *comm, real *x, size_t size, size_t unit, smoe_stretch part,
                           real *block);

/* x of `bytes` in units of `unit` bytes: each process gets the ranges of the others from them. */
void smoe_comm_gather(smoe_comm *comm, void *x, size_t bytes, size_t unit, smoe_traffic kind);

/* x has a part of `part` bytes of gradients for each process, in their order: each gets those of
 * the others from them. */
void smoe_comm_collect(smoe_comm *comm, void *x, size_t part);

/* ---- agreement ------------------------------------------------------------------------------- */

/* Whether all have succeeded: status of each is 0 or -1, with err. Else all return -1 with the err
 * of the first process that failed, which names it where others did not. Flags are joined by or. */
int smoe_comm_agree(smoe_comm *comm, int status, unsigned *flags, smoe_err *err);

/* Sends x of process 0 to all. */
void smoe_comm_broadcast(smoe_comm *comm, void *x, size_t bytes);

/* Fails if a process has other bytes than process 0, naming the process and `what`. */
int smoe_comm_same(smoe_comm *comm, const char *what, const void *bytes, size_t size,
                   smoe_err *err) SMOE_MUST_CHECK;

/* The same for a text of at most SMOE_COMM_TEXT bytes; the message has both, and a remedy. */
enum { SMOE_COMM_TEXT = 64 };
int smoe_comm_alike(smoe_comm *comm, const char *what, const char *text, const char *remedy,
                    smoe_err *err) SMOE_MUST_CHECK;
