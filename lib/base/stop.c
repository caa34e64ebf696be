/* Signal handlers; see stop.h. */
#include "base/stop.h"

#include "base/clock.h"
#include "base/file.h"

#include <unistd.h>

/* The only state that a signal handler can reach. */
static volatile sig_atomic_t stop, save;
static volatile double asked; /* smoe_now() at the first request */
static const char *volatile words;

/* Whether a further signal is the first request again: a terminal that is closed sends several
 * SIGHUP, and Slurm at a time limit several SIGTERM, itself and by srun. */
static bool repeats(int number) {
    enum { WINDOW = 3 };
    return number == SIGHUP || (number == SIGTERM && smoe_now() - asked < WINDOW);
}

static void end_by(int number) {
    const char *text = words;
    if (text) (void)!write(STDERR_FILENO, text, strlen(text));
    smoe_file_drop();
    signal(number, SIG_DFL);
    raise(number);
}

/* The first signal: finish the step and write a checkpoint. The second: end at once. */
static void stop_on_signal(int number) {
    if (!stop) {
        asked = smoe_now();
        stop = 1;
    } else if (!repeats(number)) {
        end_by(number);
    }
}

static void on_save(int number) {
    (void)number;
    save = 1;
}

/* Handles the signals of a list that ends with 0, but none that is ignored. 0, or -1 with errno. */
static int stop_handle(const int *number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    for (; *number; number++) {
        if (sigaction(*number, NULL, &before)) return -1;
        if (before.sa_handler != SIG_IGN && sigaction(*number, &action, NULL)) return -1;
    }
    return 0;
}

void smoe_stop_clean(void) {
    stop_handle((const int[]){SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, 0}, end_by);
}

void smoe_stop_words(const char *text) {
    words = text;
}

const volatile sig_atomic_t *smoe_stop_catch(void) {
    const struct sigaction action = {.sa_handler = on_save, .sa_flags = SA_RESTART};
    stop = save = 0;
    words = NULL;
    if (stop_handle((const int[]){SIGINT, SIGTERM, SIGHUP, 0}, stop_on_signal)) return NULL;
    return sigaction(SIGUSR1, &action, NULL) ? NULL : &stop;
}

volatile sig_atomic_t *smoe_save_request(void) {
    return &save;
}
