/* Pictures by gnuplot; see gnuplot.h. Only its script language is used, version 5 and up. */
#include "draw/gnuplot.h"
#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A single-quoted string of gnuplot: nothing is special but the quote, which is doubled. */
void smoe_gnuplot_text(FILE *out, const char *text) {
    fputc('\'', out);
    for (const char *c = text ? text : ""; *c; c++) {
        if (*c == '\'') fputc('\'', out);
        fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    }
    fputc('\'', out);
}

/* A gnuplot that had to be killed would hang at the next figure too: it is not started again. */
static atomic_bool hangs;

bool smoe_gnuplot_hung(void) {
    return atomic_load(&hangs);
}

/* The status of a child, which is killed if it takes far longer than any figure needs. */
static int wait_for(pid_t child) {
    const struct timespec moment = {.tv_nsec = 5000000};
    double start = smoe_now();
    int status = -1;
    for (;;) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        if (ended < 0 && errno != EINTR) return -1;
        if (smoe_now() - start > SMOE_GNUPLOT_MOST) break;
        nanosleep(&moment, NULL);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    atomic_store(&hangs, true);
    return -1;
}

/* gnuplot NAME.gp in the folder, silently. Whether it succeeded. */
static bool gnuplot_run(const char *folder, const char *script, bool pdf) {
    /* -d: without the user's own ~/.gnuplot, which could change or do anything. */
    char *svg[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char *)script, NULL};
    char *with_pdf[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-e"},
                        (char[]){"pdf=1"},   (char *)script, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (atomic_load(&hangs) || posix_spawn_file_actions_init(&actions)) return false;
    bool ready = !posix_spawn_file_actions_addchdir_np(&actions, folder) &&
                 !posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0) &&
                 !posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0) &&
                 !posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
    if (ready && !posix_spawnp(&child, "gnuplot", &actions, NULL, pdf ? with_pdf : svg, environ))
        status = wait_for(child);
    posix_spawn_file_actions_destroy(&actions);
    return !status;
}

/* Removes FOLDER/NAME.ENDING. */
static int remove_file(const char *folder, const char *name, const char *ending, smoe_err *err) {
    char *path = smoe_text_format("%s/%s.%s", folder, name, ending);
    int status = smoe_file_remove(path, err);
    free(path);
    return status;
}

static bool is_there(const char *folder, const char *name, const char *ending) {
    char *path = smoe_text_format("%s/%s.%s", folder, name, ending);
    bool there = !access(path, F_OK);
    free(path);
    return there;
}

int smoe_gnuplot_remove(const char *folder, const char *name, smoe_err *err) {
    if (remove_file(folder, name, "gp", err) || remove_file(folder, name, "svg", err)) return -1;
    return remove_file(folder, name, "pdf", err);
}

int smoe_gnuplot_draw(const char *folder, const char *name, smoe_file_printer *print,
                      const void *context, bool pdf, bool *drawn, smoe_err *err) {
    *drawn = false;
    if (smoe_gnuplot_remove(folder, name, err)) return -1;
    char *path = smoe_text_format("%s/%s.gp", folder, name);
    int status = smoe_file_print(path, print, context, err);
    if (!status) {
        const char *script = strrchr(path, '/') + 1;
        *drawn = gnuplot_run(folder, script, false) && is_there(folder, name, "svg");
        if (pdf)
            *drawn = *drawn && gnuplot_run(folder, script, true) && is_there(folder, name, "pdf");
    }
    free(path);
    return status;
}
