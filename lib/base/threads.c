/* Threads through OpenMP; see threads.h. */
#include "base/threads.h"

#include <omp.h>

void smoe_threads_set(int n) {
    omp_set_dynamic(0); /* the number asked for is the number used: scratch is laid out by it */
    omp_set_num_threads(n > 0 ? n : omp_get_num_procs());
}

int smoe_threads(void) {
    return omp_get_max_threads();
}

size_t smoe_thread(void) {
    return (size_t)omp_get_thread_num();
}
