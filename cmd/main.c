/* The program: finds the command, runs it, and turns its failure into messages and an exit status.
 * Nothing else exits. */
#include "cmd.h"
#include "opt.h"
#include "base/threads.h"
#include "math/blas.h"
#include "math/kernels.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Every line of err on stderr, after "smoe COMMAND: ". */
static void complain(const smoe_command *command, const smoe_err *err) {
    fflush(stdout);
    for (const char *line = err->text; *line;) {
        size_t length = strcspn(line, "\n");
        fprintf(stderr, "smoe%s%s: %.*s\n", command ? " " : "", command ? command->name : "",
                (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static int check_arguments(const smoe_options *options, const smoe_command *command,
                           smoe_err *err) {
    if (options->args < command->fewest) {
        const char *word = command->arguments; /* of the first that is missing */
        for (size_t i = 0; i < options->args; i++) word += strcspn(word, " ") + 1;
        smoe_fail(err, SMOE_USAGE, "%.*s is missing", (int)strcspn(word, " "), word);
    } else if (options->args > command->most)
        smoe_fail(err, SMOE_USAGE, "unexpected argument '%s'", options->arg[command->most]);
    else if (options->overrides && !strstr(command->arguments, "key="))
        smoe_fail(err, SMOE_USAGE, "'%s': %s takes no spec keys", options->override[0],
                  command->name);
    else
        return 0;
    return smoe_fail_more(err, SMOE_USAGE, "usage: smoe %s [options]%s%s", command->name,
                          *command->arguments ? " " : "", command->arguments);
}

/* The library takes the widest kernels where it is told of none that it has; who asks should know.
 */
static int check_isa(smoe_err *err) {
    const char *isa = getenv("SMOE_ISA");
    if (!isa || smoe_kernels_of(isa)) return 0;
    return smoe_fail(
        err, SMOE_USAGE,
        "SMOE_ISA=%s: expected base, v3 (AVX2), v4 (AVX-512), v4-bf16 or amx, and only what this "
        "processor supports",
        isa);
}

/* --threads, else what OpenMP was told or found. */
static int set_threads(const smoe_options *options, smoe_err *err) {
    long threads = options->threads ? options->threads : smoe_threads();
    if (threads > SMOE_MOST_THREADS)
        return smoe_fail(err, SMOE_USAGE, "%s: %ld threads; at most %d are possible",
                         options->threads ? "--threads" : "OMP_NUM_THREADS", threads,
                         SMOE_MOST_THREADS);
    smoe_threads_set((int)threads);
    smoe_blas_start();
    return check_isa(err);
}

static int run_command(const smoe_command *command, int argc, char **argv, smoe_err *err) {
    smoe_options options = {0};
    char **words =
        calloc((size_t)argc, sizeof *words); /* parsing permutes; env.json wants the order given */
    if (!words) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    memcpy(words, argv + 1, (size_t)(argc - 1) * sizeof *words);
    int status = smoe_options_parse(&options, command, argc - 1, words, err);
    options.argc = argc;
    options.argv = argv;
    if (!status && options.help) {
        smoe_options_help(command, stdout);
    } else if (!status && options.version) {
        puts("smoe " SMOE_VERSION);
    } else if (!status) {
        status = set_threads(&options, err);
        if (!status) status = check_arguments(&options, command, err);
        if (!status) status = command->run(&options, err);
    }
    smoe_options_free(&options);
    free(words);
    return status;
}

/* Without a command: --help, --version, --completion SHELL. */
static int run_bare(int argc, char **argv, smoe_err *err) {
    smoe_options options;
    int status = smoe_options_parse(&options, NULL, argc, argv, err);
    if (status)
        ;
    else if (options.help)
        smoe_options_help(NULL, stdout);
    else if (options.version)
        puts("smoe " SMOE_VERSION);
    else if (options.completion)
        smoe_options_completion(options.completion, stdout);
    else {
        smoe_options_help(NULL, stderr);
        smoe_fail(err, SMOE_USAGE, "no command given");
        status = smoe_fail_more(err, SMOE_USAGE, "`smoe --help` lists the commands");
    }
    smoe_options_free(&options);
    return status;
}

/* Bytes that a setting like 64M means to OpenMP: B, K, M or G, and K where there is none. */
static double stack_size(const char *text) {
    static const char units[] = "bkmg";
    char *rest;
    double size = strtod(text, &rest);
    rest += strspn(rest, " ");
    const char *unit = *rest ? strchr(units, tolower((unsigned char)*rest)) : units + 1;
    return ldexp(size, unit ? 10 * (int)(unit - units) : 0);
}

/*
 * Products pack their sides on the stack, a megabyte of it and a little more, so a limit that
 * someone set for other programs would end in a crash. Whether anything changed, from the next
 * start of the program on. Where the limit cannot be raised that far, the program ends.
 */
static bool widen_stack(void) {
    enum { NEEDED = 5 << 18, ENOUGH = 4 << 20 };
    struct rlimit limit;
    bool changed = false;
    if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < ENOUGH) {
        if (limit.rlim_max < NEEDED) {
            fprintf(stderr,
                    "smoe: the stack is limited to %ju KiB (ulimit -s), but %d KiB are needed\n",
                    (uintmax_t)limit.rlim_max >> 10, NEEDED >> 10);
            exit(SMOE_RUNTIME);
        }
        rlim_t most = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
        changed = limit.rlim_cur < most;
        limit.rlim_cur = most;
        changed = changed && !setrlimit(RLIMIT_STACK, &limit);
    }
    const char *own = getenv("OMP_STACKSIZE");
    if (!own) own = getenv("GOMP_STACKSIZE");
    if (own && stack_size(own) < ENOUGH) changed = !setenv("OMP_STACKSIZE", "4M", 1) || changed;
    return changed;
}

/*
 * By default OpenMP's threads wait for each other by spinning for milliseconds. Where other
 * programs want the same processors, a thread that spins keeps the one it waits for from running:
 * training a small model became ten times slower (experiments/notes/). A user's own settings
 * stand.
 */
static bool wait_briefly(void) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return false;
    return !setenv("GOMP_SPINCOUNT", "10000", 1);
}

/* OpenMP's runtime reads its settings while it is loaded, before main, so they need a new start. */
static void settle_threads(char **argv) {
    bool wider = widen_stack(), briefer = wait_briefly();
    if (wider || briefer) execv("/proc/self/exe", argv);
}

/* A caller may close standard output or error. The next file opened would get its number, and what
 * is printed would go into that file: metrics, a checkpoint. What stands in instead can be read
 * only, so that printing still fails. */
static void hold_standard_files(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) _exit(1);
}

/* Weights are used where they lie in their file. When that is cut short meanwhile, or its disk
 * fails, there is nothing to go on with. */
static void on_lost_page(int number) {
    static const char text[] = "smoe: a mapped file was truncated, or its disk failed\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(SMOE_DATA);
}

static void settle_signals(void) {
    signal(SIGCHLD, SIG_DFL); /* a parent that ignores it would have our children end unseen */
    /* A limit on file sizes is then a write error like a full disk, reported with the file's name.
     */
    signal(SIGXFSZ, SIG_IGN);
    /* Nobody reading what is said on standard error is no reason to stop a training. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGBUS, on_lost_page);
}

/* Has standard output lost its reader, as before `head`? Then the program ends as other programs do
 * there, at the end of its work and without a word. */
static void end_unread(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    bool unread = poll(&out, 1, 0) > 0 && out.revents & POLLERR;
    if (!unread || !(ferror(stdout) || fflush(stdout))) return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

int main(int argc, char **argv) {
    hold_standard_files();
    settle_threads(argv);
    settle_signals();
    smoe_err err = {0};
    const smoe_command *command = NULL;
    int status;
    if (argc < 2 || argv[1][0] == '-')
        status = run_bare(argc, argv, &err);
    else if ((command = smoe_command_find(argv[1], &err)))
        status = run_command(command, argc, argv, &err);
    else
        status = -1;
    end_unread();
    if (status) complain(command, &err);
    int code = status ? (int)err.code : 0;
    /* Results that did not reach their file are a failure, however well the command went. */
    bool lost = ferror(stdout);
    errno = 0;
    if ((fclose(stdout) || lost) && !code) {
        fprintf(stderr, "smoe%s%s: standard output: %s\n", command ? " " : "",
                command ? command->name : "", errno ? strerror(errno) : "write error");
        code = SMOE_RUNTIME;
    }
    return code;
}
