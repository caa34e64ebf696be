/* The option and command tables, and the parser that walks them; see opt.h. Leaves to help.c what
 * is printed of them. */
#include "opt.h"
#include "cmd.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const smoe_option smoe_option_rows[] = {
#define OPTION(type, field, ...) \
    {.kind = SMOE_OPT_##type, .at = offsetof(smoe_options, field), __VA_ARGS__},
#include "options.def"
#undef OPTION
};
const size_t smoe_option_count = sizeof smoe_option_rows / sizeof *smoe_option_rows;

const smoe_command smoe_commands[] = {
#define COMMAND(name, arguments, fewest, most, summary, examples) \
    {#name, arguments, fewest, most, summary, examples, cmd_##name},
#include "commands.def"
#undef COMMAND
};
const size_t smoe_command_count = sizeof smoe_commands / sizeof *smoe_commands;

/* NAMES: bytes of a list of commands or choices */
enum { OPTIONS = sizeof smoe_option_rows / sizeof *smoe_option_rows, CODE = 256, NAMES = 128 };

const smoe_command *smoe_command_find(const char *name, smoe_err *err) {
    const char *names[sizeof smoe_commands / sizeof *smoe_commands];
    for (size_t i = 0; i < smoe_command_count; i++) {
        if (!strcmp(smoe_commands[i].name, name)) return &smoe_commands[i];
        names[i] = smoe_commands[i].name;
    }
    int nearest = smoe_text_nearest(name, names, smoe_command_count);
    if (nearest >= 0)
        smoe_fail(err, SMOE_USAGE, "unknown command '%s'; did you mean '%s'?", name,
                  names[nearest]);
    else
        smoe_fail(err, SMOE_USAGE, "unknown command '%s'", name);
    smoe_fail_more(err, SMOE_USAGE, "`smoe --help` lists the commands");
    return NULL;
}

/* help and version do nothing with a spec or a model: most options would mean nothing to them. */
static bool speaks_of_itself(const smoe_command *command) {
    return command->run == cmd_help || command->run == cmd_version;
}

bool smoe_option_applies(const smoe_option *option, const smoe_command *command) {
    if (option->scope == SMOE_OPT_ALL) return true;
    if (!command) return option->scope == SMOE_OPT_PROGRAM;
    if (option->scope == SMOE_OPT_COMMANDS && !speaks_of_itself(command)) return true;
    for (const char *const *name = option->commands; *name; name++)
        if (!strcmp(*name, command->name)) return true;
    return false;
}

/* The words of a list with `between` between them; returns buf. */
static const char *join(const char *const *word, char between, char *buf, size_t size) {
    size_t used = 0;
    *buf = '\0';
    for (size_t i = 0; word[i] && used < size; i++) {
        if (i) used += (size_t)snprintf(buf + used, size - used, "%c", between);
        if (used < size) used += (size_t)snprintf(buf + used, size - used, "%s", word[i]);
    }
    return buf;
}

const char *smoe_option_argument(const smoe_option *option, char *buf, size_t size) {
    return *option->choices ? join(option->choices, '|', buf, size) : option->argument;
}

/* What to type to see the options of `command`. */
static int hint(const smoe_command *command, smoe_err *err) {
    return smoe_fail_more(err, SMOE_USAGE, "`smoe %s%s--help` lists the options",
                          command ? command->name : "", command ? " " : "");
}

/* `text` starts with dashes and getopt_long did not know it: of another command, ambiguous, or a
 * slip. */
static int unknown(const smoe_command *command, const char *text, smoe_err *err) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    const char *names[OPTIONS];
    size_t count = 0, prefixed = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        const smoe_option *row = &smoe_option_rows[i];
        if (!smoe_option_applies(row, command)) {
            if (strcmp(row->name, name)) continue;
            char listed[NAMES];
            smoe_fail(err, SMOE_USAGE, "option '--%s' is not possible here; it is for smoe %s",
                      name,
                      row->scope == SMOE_OPT_COMMANDS  ? "COMMAND, after the command"
                      : row->scope == SMOE_OPT_PROGRAM ? "itself"
                                                       : join(row->commands, ' ', listed, NAMES));
            return hint(command, err);
        }
        names[count++] = row->name;
        prefixed += !strncmp(row->name, name, strlen(name));
    }
    int nearest = smoe_text_nearest(name, names, count);
    if (prefixed > 1)
        smoe_fail(err, SMOE_USAGE, "option '--%s' is ambiguous; write it out", name);
    else if (nearest >= 0)
        smoe_fail(err, SMOE_USAGE, "unknown option '--%s'; did you mean '--%s'?", name,
                  names[nearest]);
    else
        smoe_fail(err, SMOE_USAGE, "unknown option '--%s'", name);
    return hint(command, err);
}

static int set_count(long *value, const smoe_option *row, const char *text, smoe_err *err) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > INT_MAX || !isdigit((unsigned char)*text))
        return smoe_fail(err, SMOE_USAGE, "--%s: '%s' is not a whole number of at least 1",
                         row->name, text);
    *value = n;
    return 0;
}

/* Stores an option's value; arguments that list alternatives accept only those. */
static int set(smoe_options *options, const smoe_option *row, const char *text, smoe_err *err) {
    void *at = (char *)options + row->at;
    if (row->kind == SMOE_OPT_FLAG) *(bool *)at = true;
    if (row->kind == SMOE_OPT_COUNT) return set_count(at, row, text, err);
    if (row->kind != SMOE_OPT_TEXT) return 0;
    const char *const *choice = row->choices;
    char names[NAMES];
    if (!text) text = ""; /* the argument may be left out, and is */
    while (*choice && strcmp(*choice, text)) choice++;
    if (*row->choices && !*choice)
        return smoe_fail(err, SMOE_USAGE, "--%s: '%s' is not one of %s", row->name, text,
                         join(row->choices, '|', names, NAMES));
    if (!*text && !row->optional)
        return smoe_fail(err, SMOE_USAGE, "--%s: empty %s", row->name, row->argument);
    *(const char **)at = text;
    return 0;
}

/* key=value, where the key is made of the letters of spec keys; anything else is a path. */
static bool is_override(const char *text) {
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return n && text[n] == '=' && isalpha((unsigned char)*text);
}

static int sort_arguments(smoe_options *options, int argc, char **argv, smoe_err *err) {
    options->override = calloc((size_t)argc + 1, sizeof(char *));
    options->arg = calloc((size_t)argc + 1, sizeof(char *));
    if (!options->override || !options->arg) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    for (int i = 0; i < argc; i++) {
        if (!*argv[i]) return smoe_fail(err, SMOE_USAGE, "argument %d is empty", i + 1);
        if (is_override(argv[i]))
            options->override[options->overrides++] = argv[i];
        else
            options->arg[options->args++] = argv[i];
    }
    return 0;
}

/* getopt_long's two tables out of the rows that apply. The value of a long option is CODE + its
 * row. */
static void prepare(const smoe_command *command, struct option *longs, char *shorts) {
    *shorts++ = ':'; /* tells a missing argument from an unknown option */
    for (size_t i = 0; i < OPTIONS; i++) {
        const smoe_option *row = &smoe_option_rows[i];
        if (!smoe_option_applies(row, command)) continue;
        int argument = row->kind == SMOE_OPT_FLAG ? no_argument
                       : row->optional            ? optional_argument
                                                  : required_argument;
        *longs++ = (struct option){row->name, argument, NULL, CODE + (int)i};
        if (!row->letter) continue;
        *shorts++ = row->letter;
        if (row->kind != SMOE_OPT_FLAG) *shorts++ = ':';
    }
    *longs = (struct option){0};
    *shorts = '\0';
}

static const smoe_option *row_of(int code) {
    if (code >= CODE) return &smoe_option_rows[code - CODE];
    for (size_t i = 0; i < OPTIONS; i++)
        if (smoe_option_rows[i].letter == code) return &smoe_option_rows[i];
    return NULL;
}

/* What getopt_long refused, in words. */
static int refused(const smoe_command *command, int code, char **argv, smoe_err *err) {
    const smoe_option *row = optopt ? row_of(optopt) : NULL;
    if (code == ':' && row) {
        char argument[NAMES];
        smoe_fail(err, SMOE_USAGE, "option '--%s' needs %s", row->name,
                  smoe_option_argument(row, argument, NAMES));
        return hint(command, err);
    }
    if (!optopt) return unknown(command, argv[optind - 1], err);
    if (row && optopt >= CODE)
        smoe_fail(err, SMOE_USAGE, "option '--%s' takes no argument", row->name);
    else
        smoe_fail(err, SMOE_USAGE, "unknown option '-%c'", optopt);
    return hint(command, err);
}

int smoe_options_parse(smoe_options *options, const smoe_command *command, int argc, char **argv,
                       smoe_err *err) {
    struct option longs[OPTIONS + 1];
    char shorts[2 * OPTIONS + 2];
    *options = (smoe_options){0};
    for (size_t i = 0; i < OPTIONS; i++)
        if (smoe_option_rows[i].preset &&
            set(options, &smoe_option_rows[i], smoe_option_rows[i].preset, err))
            return -1;
    prepare(command, longs, shorts);
    opterr = 0;
    optind = 0; /* glibc: start afresh */
    for (int code; (code = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        if (code == '?' || code == ':') return refused(command, code, argv, err);
        if (set(options, row_of(code), optarg, err)) return hint(command, err);
    }
    return sort_arguments(options, argc - optind, argv + optind, err);
}

void smoe_options_free(smoe_options *options) {
    free(options->override);
    free(options->arg);
    options->override = options->arg = NULL;
}
