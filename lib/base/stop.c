/* The signal handlers of everything that trains; see stop.h. */
#include "base/stop.h"

#include <time.h>

/* The only state that a signal handler can reach. */
static volatile sig_atomic_t stop, save;
static volatile time_t asked; /* seconds of the clock at the first request */

static time_t seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Whether a further signal is the first request again: a terminal that is closed sends several
 * SIGHUP, and Slurm at a time limit several SIGTERM, itself and by srun. */
static bool repeats(int number) {
    enum { WINDOW = 3 };
    return number == SIGHUP || (number == SIGTERM && seconds() - asked < WINDOW);
}

/* The first signal: finish the step and write a checkpoint. The second: end at once. */
static void stop_on_signal(int number) {
    if (!stop) {
        asked = seconds();
        stop = 1;
    } else if (!repeats(number)) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void on_save(int number) {
    (void)number;
    save = 1;
}

const volatile sig_atomic_t *smoe_stop_catch(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    stop = save = 0;
    struct sigaction action = {.sa_handler = stop_on_signal, .sa_flags = SA_RESTART}, before;
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
