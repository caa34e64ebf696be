/* Exchanges of bytes with another process, at once or by a thread in the background; see comm.h. */
#include "comm/comm.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

/* What one call of smoe_link's exchange needs. */
typedef struct message {
    int other;
    const void *out;
    void *in;
    size_t out_bytes, in_bytes;
} message;

enum { QUEUE = 8 }; /* messages that may wait */

/* The lock protects all but `known`, which only the caller's thread uses. */
struct smoe_background {
    const smoe_link *link;
    void *self;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    message queue[QUEUE]; /* message i is at i % QUEUE */
    uint64_t begun, ended;
    uint64_t known; /* the caller has waited for that many */
    bool closing;
};

static void *background_run(void *user) {
    smoe_background *b = user;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (b->ended == b->begun && !b->closing) pthread_cond_wait(&b->changed, &b->lock);
        if (b->ended == b->begun) break;
        message m = b->queue[b->ended % QUEUE];
        pthread_mutex_unlock(&b->lock);
        b->link->exchange(b->self, m.other, m.out, m.out_bytes, m.in, m.in_bytes, true);
        pthread_mutex_lock(&b->lock);
        b->ended++;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void background_release(smoe_background *b) {
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int smoe_comm_start(smoe_comm *c, smoe_err *err) {
    if (!c->link || c->one_thread) return 0;
    smoe_background *b = smoe_alloc(1, sizeof *b);
    b->link = c->link;
    b->self = c->self;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    /* Signals are for the caller's thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&b->thread, NULL, background_run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        background_release(b);
        return smoe_fail(err, SMOE_RUNTIME, "no thread for exchanges between processes: %s",
                         strerror(error));
    }
    c->background = b;
    return 0;
}

void smoe_comm_stop(smoe_comm *c) {
    smoe_background *b = c->background;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    background_release(b);
    c->background = NULL;
}

static int exchange_number_of(const smoe_comm *c, int process) {
    return c->all ? c->first + process * c->stride : process;
}

static void sent_count(smoe_comm *c, smoe_traffic kind, size_t bytes) {
    smoe_sent *sent = c->all ? c->all->sent : c->sent;
    if (!bytes) return;
    sent[kind].bytes += bytes;
    sent[kind].messages++;
}

void smoe_comm_exchange(smoe_comm *c, smoe_traffic kind, int other, const void *out,
                        size_t out_bytes, void *in, size_t in_bytes) {
    assert(!c->background || c->background->known == c->background->begun);
    if (c->link)
        c->link->exchange(c->self, exchange_number_of(c, other), out, out_bytes, in, in_bytes,
                          false);
    sent_count(c, kind, out_bytes);
}

uint64_t smoe_comm_begin(smoe_comm *c, int other, const void *out, size_t out_bytes, void *in,
                         size_t in_bytes) {
    smoe_background *b = c->background;
    if (!b) {
        smoe_comm_exchange(c, SMOE_TRAFFIC_SLOTS, other, out, out_bytes, in, in_bytes);
        return 0;
    }
    sent_count(c, SMOE_TRAFFIC_SLOTS, out_bytes);
    pthread_mutex_lock(&b->lock);
    while (b->begun - b->ended == QUEUE) pthread_cond_wait(&b->changed, &b->lock);
    b->queue[b->begun++ % QUEUE] =
        (message){exchange_number_of(c, other), out, in, out_bytes, in_bytes};
    pthread_cond_broadcast(&b->changed);
    uint64_t number = b->begun;
    pthread_mutex_unlock(&b->lock);
    return number;
}

void smoe_comm_end(smoe_comm *c, uint64_t number) {
    smoe_background *b = c->background;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    while (b->ended < number) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    if (b->known < number) b->known = number;
}
