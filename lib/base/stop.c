/* The signal handlers of everything that trains; see stop.h. */
#include "base/stop.h"

/* The only state that a signal handler can reach. */
static volatile sig_atomic_t stop, save;

/* The first signal: finish the step and write a checkpoint. The second: end at once. SIGHUP does
 * not count as a second one, because a terminal that is closed may send several. */
static void on_signal(int number) {
    if (stop && number != SIGHUP) {
        signal(number, SIG_DFL);
        raise(number);
    }
    stop = 1;
}

static void on_save(int number) {
    (void)number;
    save = 1;
}

const volatile sig_atomic_t *smoe_stop_catch(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    stop = save = 0;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (sigaction(numbers[i], NULL, &before)) return NULL;
        if (before.sa_handler != SIG_IGN && sigaction(numbers[i], &action, NULL)) return NULL;
    }
    action.sa_handler = on_save;
    return sigaction(SIGUSR1, &action, NULL) ? NULL : &stop;
}

volatile sig_atomic_t *smoe_save_request(void) {
    return &save;
}
