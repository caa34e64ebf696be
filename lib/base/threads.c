/* Threads through OpenMP; see threads.h. */
#include "base/threads.h"

#include <omp.h>
#include <pthread.h>

void smoe_threads_set(int n) {
    omp_set_dynamic(0); /* the number asked for is the number used: scratch is laid out by it */
    if (n <= 0) n = omp_get_num_procs();
    omp_set_num_threads(n < SMOE_MOST_THREADS ? n : SMOE_MOST_THREADS);
}

int smoe_threads(void) {
    return omp_get_max_threads();
}

size_t smoe_threads_stack(void) {
    size_t least = SIZE_MAX;
#pragma omp parallel num_threads(2) reduction(min : least) if (smoe_threads() > 1)
    if (omp_get_thread_num()) {
        pthread_attr_t own_attributes;
        if (!pthread_getattr_np(pthread_self(), &own_attributes)) {
            (void)pthread_attr_getstacksize(&own_attributes, &least);
            (void)pthread_attr_destroy(&own_attributes);
        }
    }
    return least;
}

typedef struct rooms {
    void *at[SMOE_ROOMS];
    size_t bytes[SMOE_ROOMS];
} rooms;

static _Thread_local rooms own;
static pthread_key_t ends; /* its destructor runs at the end of a thread */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_rooms(void *of) {
    rooms *r = of;
    for (size_t i = 0; i < SMOE_ROOMS; i++) free(r->at[i]);
}

static void make_key(void) {
    if (pthread_key_create(&ends, free_rooms)) smoe_alloc_end();
}

void *smoe_thread_room(smoe_room use, size_t bytes) {
    enum { LINE = 64 };
    if (own.bytes[use] >= bytes) return own.at[use];
    pthread_once(&once, make_key);
    free(own.at[use]);
    own.bytes[use] = (bytes + LINE - 1) / LINE * LINE;
    own.at[use] = aligned_alloc(LINE, own.bytes[use]);
    if (!own.at[use] || pthread_setspecific(ends, &own)) smoe_alloc_end();
    return own.at[use];
}

size_t smoe_thread(void) {
    return (size_t)omp_get_thread_num();
}
