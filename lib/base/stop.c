/* The signal handler of everything that trains; see stop.h. */
#include "base/stop.h"

/* The one piece of state a signal handler can reach. */
static volatile sig_atomic_t stop;

/* First: finish the step, write a checkpoint. Second: die of it at once. */
static void on_signal(int number) {
    if (stop) {
        signal(number, SIG_DFL);
        raise(number);
    }
    stop = 1;
}

const volatile sig_atomic_t *smoe_stop_catch(void) {
    stop = 0;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (sigaction(SIGINT, &action, NULL) || sigaction(SIGTERM, &action, NULL)) return NULL;
    return &stop;
}
