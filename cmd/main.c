/* The program: finds the command, runs it, and turns its failure into messages and an exit status.
 * Nothing else exits. */
#include "cmd.h"
#include "progress.h"
#include "base/stop.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "spec/schema.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* "train.steps 500" or "train.steps = 500" for "train.steps=500", unless it is a file that has the
 * name. */
static int check_keys(const smoe_options *options, const smoe_command *command, smoe_err *err) {
    for (size_t i = 0; i < options->args && strstr(command->arguments, "key="); i++) {
        const char *word = options->arg[i], *key = smoe_spec_key_called(word);
        bool whole = key && (strchr(word, '.') || options->args > command->most);
        if (!whole || !access(word, F_OK)) continue;
        const char *next = i + 1 < options->args ? options->arg[i + 1] : "VALUE";
        return smoe_fail(err, SMOE_USAGE, "%s is a key of the spec: write %s=%s, without blanks",
                         word, key, *next == '=' ? "VALUE" : next);
    }
    return 0;
}

static int check_arguments(const smoe_options *options, const smoe_command *command,
                           smoe_err *err) {
    if (check_keys(options, command, err)) return -1;
    if (options->args < command->fewest) {
        const char *word = command->arguments; /* of the first that is missing */
        for (size_t i = 0; i < options->args; i++) word += strcspn(word, " ") + 1;
        smoe_fail(err, SMOE_USAGE, "%.*s is missing", (int)strcspn(word, " "), word);
        smoe_cmd_taken(options, err);
    } else if (options->args > command->most)
        smoe_fail(err, SMOE_USAGE, "unexpected argument '%s'", options->arg[command->most]);
    else if (options->overrides && !strstr(command->arguments, "key="))
        smoe_fail(err, SMOE_USAGE, "'%s': %s takes no spec keys", options->assign[0],
                  command->name);
    else
        return 0;
    return smoe_fail_more(err, SMOE_USAGE, "usage: smoe %s [options]%s%s", command->name,
                          *command->arguments ? " " : "", command->arguments);
}

/* Another checkpoint than the latest can be chosen only where one of the arguments is a run. If the
 * first one is not there, the command says so; others may be files to be written. */
static int check_which(const smoe_options *options, smoe_err *err) {
    if (!options->which || !strcmp(options->which, "latest")) return 0;
    for (size_t i = 0; i < options->args; i++)
        if ((!i && access(options->arg[i], F_OK)) || smoe_file_holds(options->arg[i], "spec.yaml"))
            return 0;
    return smoe_fail(err, SMOE_USAGE, "--which %s: has no effect: %s is not a run", options->which,
                     options->args ? options->arg[0] : "nothing");
}

/* What is in a folder that cannot be searched looks as if it were not there. */
static int check_folders(const smoe_options *options, smoe_err *err) {
    for (size_t i = 0; i < options->args; i++)
        if (smoe_file_is_folder(options->arg[i]) && access(options->arg[i], X_OK))
            return smoe_fail_errno(err, SMOE_DATA, "%s: cannot be searched", options->arg[i]);
    return 0;
}

/* With half of that, threads end the program by a signal. */
static int check_thread_stacks(smoe_err *err) {
    enum { NEEDED = 1 << 17 };
    static const char *const settings[] = {"OMP_STACKSIZE", "GOMP_STACKSIZE"};
    if (smoe_threads_stack() >= NEEDED) return 0;
    for (size_t i = 0; i < SMOE_COUNT(settings); i++)
        if (getenv(settings[i]))
            return smoe_fail(err, SMOE_USAGE,
                             "%s=%s: threads need stacks of at least 128 kB: `unset %s`",
                             settings[i], getenv(settings[i]), settings[i]);
    return 0;
}

/* --threads, else OpenMP's own setting or default. */
static int set_threads(const smoe_options *options, smoe_err *err) {
    long threads = options->threads ? options->threads : smoe_threads();
    const char *given = getenv("OMP_NUM_THREADS");
    if (options->threads && threads > SMOE_MOST_THREADS)
        return smoe_fail(err, SMOE_USAGE, "--threads: %ld threads; at most %d are possible",
                         threads, SMOE_MOST_THREADS);
    /* OpenMP ignores a number that it cannot represent, or uses its largest one. */
    if (!options->threads &&
        (threads > SMOE_MOST_THREADS || (given && strtod(given, NULL) > SMOE_MOST_THREADS)))
        return smoe_fail(err, SMOE_USAGE, "OMP_NUM_THREADS=%s: at most %d threads are possible",
                         given ? given : "", SMOE_MOST_THREADS);
    smoe_threads_set((int)threads);
    if (check_thread_stacks(err) || smoe_blas_check(err)) return -1;
    smoe_blas_start();
    const char *isa = getenv("SMOE_ISA");
    if (!isa || smoe_kernels_of(isa)) return 0;
    /* the library would fall back to the widest kernels without a word */
    return smoe_fail(err, SMOE_USAGE,
                     "SMOE_ISA=%s: expected base, v3 (AVX2), v4 (AVX-512), v4-bf16 or amx, if this "
                     "processor supports it",
                     isa);
}

/* Whether a variable, "TRAIN_STEPS=..." without SMOE_, has the name of a key. */
static bool names_key(const char *variable, const char *key) {
    for (; *key; variable++, key++)
        if (*variable != (*key == '.' ? '_' : (char)toupper((unsigned char)*key))) return false;
    return *variable == '=';
}

/* Specs are not read from the environment. A variable with the name of a key is an error, since its
 * user would expect an effect. Other variables are ignored. */
static int check_environment(smoe_err *err) {
    for (char **entry = environ; *entry; entry++)
        for (size_t i = 0; !strncmp(*entry, "SMOE_", 5) && i < SMOE_SCHEMA_COUNT; i++)
            if (names_key(*entry + 5, smoe_schema[i].key))
                return smoe_fail(err, SMOE_USAGE,
                                 "%.*s: keys are not read from the environment; give %s=VALUE as "
                                 "an argument",
                                 (int)strcspn(*entry, "="), *entry, smoe_schema[i].key);
    return 0;
}

/* The functions of the entries of smoe_commands, in the same order. The table itself has no
 * functions, since commands such as help read it. */
static smoe_command_run *const runs[] = {
#define COMMAND(id, ...) cmd_##id,
#include "commands.def"
};

/* A signal that ends the command before it has printed its result is not silent. Of several
 * processes the launcher says which one ended, and it ends the others by a signal. */
static void say_if_ended(const smoe_command *command) {
    static char words[160];
    if (smoe_comm_launched()) return;
    snprintf(words, sizeof words,
             "%ssmoe %s: ended by a signal: it printed no result, and left no file incomplete\n",
             smoe_cmd_screen(stderr).redraws ? "\r\033[K" : "", command->name);
    smoe_stop_words(words);
}

/* `command` NULL: --help, --version, --completion SHELL of `smoe` itself. */
static int run_command(const smoe_command *command, int argc, char **argv, smoe_err *err) {
    SMOE_FREED_BY(smoe_options_free) smoe_options options = {0};
    smoe_progress scans;
    const int own = command ? 1 : 0; /* the command's name stands in place of the program's */
    /* parsing permutes; env.json wants the order given */
    SMOE_FREED char **words = smoe_alloc((size_t)argc + 1, sizeof *words);
    memcpy(words, argv + own, (size_t)(argc - own) * sizeof *words);
    if (smoe_options_parse(&options, command, argc - own, words, err)) return -1;
    options.argc = argc;
    options.argv = argv;
    if (options.help)
        smoe_options_help(command, stdout);
    else if (options.version)
        puts("smoe " SMOE_VERSION);
    else if (options.completion)
        smoe_options_completion(options.completion);
    if (options.help || options.version || options.completion) return 0;
    if (!command) {
        smoe_options_help(NULL, stderr);
        smoe_fail(err, SMOE_USAGE, "no command given");
        return smoe_fail_more(err, SMOE_USAGE, "`smoe --help` lists the commands");
    }
    if (set_threads(&options, err) || check_environment(err) ||
        check_arguments(&options, command, err) || check_which(&options, err) ||
        check_folders(&options, err) ||
        smoe_options_check(&options, options.args > 1 ? "several" : NULL, err) ||
        smoe_alone(&options, err))
        return -1;
    smoe_progress_open(&scans, &options, NULL, NULL);
    options.scan = &scans.scan;
    say_if_ended(command);
    return runs[command - smoe_commands](&options, err);
}

/*
 * By default OpenMP's threads wait for each other by spinning for milliseconds. Where other
 * programs use the same processors, a spinning thread keeps the thread that it waits for from
 * running: two trainings of small models at once were thirty times slower (experiments/notes/083).
 * Settings of the user are not changed.
 */
static void settle_threads(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    /* the runtime reads its settings while it is loaded, before main */
    if (!setenv("GOMP_SPINCOUNT", "1000", 1)) execv("/proc/self/exe", argv);
}

/* Specs lie on the stack: below this limit a command would end by a signal. */
static int check_stack(smoe_err *err) {
    enum { NEEDED = 1 << 18 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= NEEDED) return 0;
    limit.rlim_cur = NEEDED;
    if (limit.rlim_max >= NEEDED && !setrlimit(RLIMIT_STACK, &limit)) {
        /* threads have the soft limit at the start of the program as their default */
        pthread_attr_t attributes;
        if (pthread_attr_init(&attributes)) return 0;
        if (!pthread_attr_setstacksize(&attributes, NEEDED))
            pthread_setattr_default_np(&attributes);
        (void)pthread_attr_destroy(&attributes);
        return 0;
    }
    return smoe_fail(err, SMOE_RUNTIME,
                     "the stack is limited to %lu kB, which is too small: `ulimit -s 4096`",
                     (unsigned long)(limit.rlim_max >> 10));
}

/* A caller may close standard output or error. The next file opened would get its number, and what
 * is printed would go into that file: metrics, a checkpoint. The substitute can only be read, so
 * that printing still fails. */
static void hold_standard_files(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) _exit(1);
}

/* Weights are used directly from their file. If the file is truncated meanwhile, or its disk fails,
 * the program cannot continue. And a library that gets no memory may call abort(), as BLIS does
 * when it starts. */
static void on_lost(int number) {
    static const char page[] = "smoe: a mapped file was truncated, or its disk failed\n";
    static const char other[] =
        "smoe: a library ended the program: not enough memory, or a bug in the library\n";
    bool lost = number == SIGBUS;
    (void)!write(STDERR_FILENO, lost ? page : other, (lost ? sizeof page : sizeof other) - 1);
    _exit(lost ? SMOE_DATA : SMOE_RUNTIME);
}

static void settle_signals(void) {
    signal(SIGCHLD, SIG_DFL); /* where a parent ignores it, ends of children are not reported */
    /* a limit on file sizes is then a write error, reported with the file's name */
    signal(SIGXFSZ, SIG_IGN);
    /* A closed standard error does not stop a training. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGBUS, on_lost);
    signal(SIGABRT, on_lost);
    smoe_stop_clean();
    signal(SIGUSR1, SIG_IGN); /* a request for a checkpoint, where there is nothing to save */
}

/* If standard output has lost its reader, as before `head`, the program ends like other programs in
 * a pipe, at the end of its work and without a message. */
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
    if (check_stack(&err))
        status = -1;
    else if (argc < 2 || argv[1][0] == '-' || (command = smoe_command_find(argv[1], &err)))
        status = run_command(command, argc, argv, &err);
    else
        status = -1;
    end_unread();
    /* No failure may look like a success, not even one whose error was lost. */
    if (status && !err.code) smoe_fail(&err, SMOE_RUNTIME, "failed without a message");
    if (status) smoe_cmd_complain(command, &err);
    int code = status ? (int)err.code : 0;
    /* Results that did not reach their file are a failure, even if the command succeeded. */
    bool lost = ferror(stdout);
    errno = 0;
    if ((fclose(stdout) || lost) && !code) {
        fprintf(stderr, "smoe%s%s: standard output: %s\n", command ? " " : "",
                command ? command->name : "", errno ? strerror(errno) : "write error");
        code = SMOE_RUNTIME;
    }
    return code;
}
