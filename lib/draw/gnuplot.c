/* Pictures by gnuplot; see gnuplot.h. Only its script language is used, version 5 and up. */
#include "draw/gnuplot.h"
#include "base/clock.h"
#include "draw/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A single-quoted string of gnuplot, with what is special there doubled. What it draws must be
 * UTF-8. */
static void gnuplot_quote(FILE *out, const char *bytes, const char *special) {
    SMOE_FREED char *text = smoe_text_utf8(bytes ? bytes : "");
    fputc('\'', out);
    for (const char *c = text; *c; c++) {
        if (strchr(special, *c)) fputc(*c, out);
        fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    }
    fputc('\'', out);
}

void smoe_gnuplot_text(FILE *out, const char *bytes) {
    gnuplot_quote(out, bytes, "'");
}

void smoe_gnuplot_tick(FILE *out, const char *bytes, double at) {
    gnuplot_quote(out, bytes, "'%");
    fprintf(out, " %.10g", at);
}

void smoe_gnuplot_terminal(FILE *out, const char *name, double width, double height, int font,
                           bool pictures) {
    fprintf(out,
            "if (exists('pdf')) {\n"
            "    set terminal pdfcairo size %.3fin,%.3fin font 'sans,%.4g' fontscale 1 noenhanced\n"
            "    set output '%s.pdf'\n"
            "} else {\n"
            "    set terminal svg size %.0f,%.0f font 'sans,%d' noenhanced %sbackground '#ffffff'\n"
            "    set output '%s.svg'\n"
            "}\n",
            width / SMOE_PLOT_INCH, height / SMOE_PLOT_INCH, font * 72.0 / SMOE_PLOT_INCH, name,
            width, height, font, pictures ? "standalone " : "", name);
}

void smoe_gnuplot_canvas(FILE *out, size_t width, size_t height, double below) {
    fprintf(out,
            "unset border\nunset tics\nunset key\n"
            "set lmargin at screen 0\nset rmargin at screen 1\n"
            "set bmargin at screen %.4f\nset tmargin at screen 1\n"
            "set xrange [0:%zu]\nset yrange [0:%zu]\n",
            below, width, height);
}

void smoe_gnuplot_label(FILE *out, const char *text, double x, double y, const char *how) {
    fputs("set label ", out);
    smoe_gnuplot_text(out, text);
    fprintf(out, " at first %.10g,%.10g %s front\n", x, y, how);
}

/* A gnuplot that had to be killed would hang at the next figure too: it is not started again. */
static atomic_bool hangs;

bool smoe_gnuplot_hung(void) {
    return atomic_load(&hangs);
}

/* The status of a child, which is killed if it takes far longer than any figure needs. */
static int gnuplot_wait_for(pid_t child) {
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

/* gnuplot NAME.gp in the folder, silently. Whether it succeeded. It has a process group of its own:
 * a signal to that of the command, such as Ctrl-C, does not end it in the middle of a picture. */
static bool gnuplot_run(const char *folder, const char *script, bool pdf) {
    /* -d: without the user's own ~/.gnuplot, which could change or do anything. */
    char *svg[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char *)script, NULL};
    char *with_pdf[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-e"},
                        (char[]){"pdf=1"},   (char *)script, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t own;
    pid_t child;
    int status = -1;
    if (atomic_load(&hangs) || posix_spawn_file_actions_init(&actions)) return false;
    posix_spawnattr_init(&own); /* its group is 0, a new one */
    bool ready = !posix_spawnattr_setflags(&own, POSIX_SPAWN_SETPGROUP) &&
                 !posix_spawn_file_actions_addchdir_np(&actions, folder) &&
                 !posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0) &&
                 !posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0) &&
                 !posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
    if (ready && !posix_spawnp(&child, "gnuplot", &actions, &own, pdf ? with_pdf : svg, environ))
        status = gnuplot_wait_for(child);
    posix_spawnattr_destroy(&own);
    posix_spawn_file_actions_destroy(&actions);
    return !status;
}

int smoe_gnuplot_remove(const char *folder, const char *name, smoe_err *err) {
    static const char *const endings[] = {"gp", "svg", "pdf"};
    for (size_t i = 0; i < 3; i++) {
        SMOE_FREED char *path = smoe_text_format("%s/%s.%s", folder, name, endings[i]);
        if (smoe_file_remove(path, err)) return -1;
    }
    return 0;
}

/* gnuplot does not notice a full disk: a picture that it could not write whole is removed. */
int smoe_gnuplot_check(const char *path, smoe_err *err) {
    static const struct {
        const char *ending, *last;
    } kinds[] = {{".svg", "</svg>"}, {".pdf", "%%EOF"}, {".png", "IEND\xae\x42\x60\x82"}};
    char end[16];
    struct stat there;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    off_t size = fstat(fd, &there) ? 0 : there.st_size, from = size - (off_t)sizeof end;
    ssize_t n = pread(fd, end, sizeof end, from > 0 ? from : 0);
    int failed = n < 0 ? smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", path) : 0;
    close(fd);
    for (size_t i = 0; i < SMOE_COUNT(kinds) && !failed; i++)
        if (smoe_text_ends(path, kinds[i].ending) &&
            !memmem(end, (size_t)n, kinds[i].last, strlen(kinds[i].last))) {
            unlink(path);
            return smoe_fail(err, SMOE_RUNTIME,
                             "%s: gnuplot could not write all of it; the disk may be full", path);
        }
    return failed;
}

/* Runs the script. *made: whether FOLDER/NAME.ENDING, which it writes, is there. */
static int gnuplot_make(const char *folder, const char *name, const char *ending, bool *made,
                        smoe_err *err) {
    SMOE_FREED char *script = smoe_text_format("%s.gp", name);
    SMOE_FREED char *picture = smoe_text_format("%s/%s.%s", folder, name, ending);
    *made = false;
    if (!gnuplot_run(folder, script, !strcmp(ending, "pdf"))) {
        unlink(picture); /* which may be there in part */
        return 0;
    }
    if (smoe_gnuplot_check(picture, err)) return -1;
    *made = !access(picture, F_OK);
    return 0;
}

int smoe_gnuplot_draw(const char *folder, const char *name, smoe_file_printer *print,
                      const void *context, bool pdf, bool *drawn, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/%s.gp", folder, name);
    *drawn = false;
    if (smoe_gnuplot_remove(folder, name, err) || smoe_file_print(path, print, context, err))
        return -1;
    if (gnuplot_make(folder, name, "svg", drawn, err)) return -1;
    return *drawn && pdf ? gnuplot_make(folder, name, "pdf", drawn, err) : 0;
}
