/* The option and command tables, and the parser that uses them; see opt.h. help.c prints them. */
#include "opt.h"
#include "spec/schema.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <unistd.h>

const smoe_option smoe_option_table[] = {
#define OPTION(type, field, ...) \
    {.kind = SMOE_OPT_##type, .at = offsetof(smoe_options, field), __VA_ARGS__},
#include "options.def"
};
const size_t smoe_option_count = SMOE_COUNT(smoe_option_table);

const smoe_command smoe_commands[] = {
#define COMMAND(id, ...) {__VA_ARGS__},
#include "commands.def"
};
const size_t smoe_command_count = SMOE_COUNT(smoe_commands);

enum { OPTIONS = SMOE_OPTIONS, CODE = 256 };

bool smoe_option_applies(const smoe_option *option, const smoe_command *command) {
    if (option->scope == SMOE_OPT_ALL) return true;
    if (!command) return option->scope == SMOE_OPT_PROGRAM;
    if (smoe_text_has_word(option->except, ' ', command->name)) return false;
    /* help and version use neither a spec nor a model, so most options would have no meaning for
     * them */
    bool itself = !strcmp(command->name, "help") || !strcmp(command->name, "version");
    if (option->scope == SMOE_OPT_COMMANDS && !itself) return true;
    return smoe_text_has_word(option->commands, ' ', command->name);
}

const char *smoe_option_argument(const smoe_option *option) {
    return option->choices ? option->choices : option->argument;
}

/* The command that lists the options of `command`. */
static int hint(const smoe_command *command, smoe_err *err) {
    return smoe_fail_more(err, SMOE_USAGE, "`smoe %s%s--help` lists the options",
                          command ? command->name : "", command ? " " : "");
}

/* Those of an option that is for some commands only: "train, sweep". Returns buf. */
static const char *commands_of(const smoe_option *option, char *buf, size_t size) {
    const char *rest = option->commands;
    char name[32];
    for (*buf = '\0'; smoe_text_next(&rest, ' ', name, sizeof name);)
        smoe_text_list(buf, size, "%s", name);
    return buf;
}

/* Reports an option that getopt_long did not recognise: it is ambiguous, belongs to another
 * command, or is misspelt. */
static int opt_unknown(const smoe_command *command, const char *text, const char *next,
                       smoe_err *err) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    const char *names[OPTIONS];
    size_t count = 0, prefixed = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        const smoe_option *entry = &smoe_option_table[i];
        if (!smoe_option_applies(entry, command)) {
            char list[256];
            if (strcmp(entry->name, name)) continue;
            smoe_fail(err, SMOE_USAGE, "option '--%s' is not possible here; it is for smoe %s",
                      name,
                      command && smoe_text_has_word(entry->except, ' ', command->name)
                          ? "COMMAND, with most other commands"
                      : entry->scope == SMOE_OPT_COMMANDS ? "COMMAND, after the command"
                      : entry->scope == SMOE_OPT_PROGRAM  ? "itself"
                                                          : commands_of(entry, list, sizeof list));
            return hint(command, err);
        }
        names[count++] = entry->name;
        prefixed += !strncmp(entry->name, name, strlen(name));
    }
    const char *key = smoe_spec_key_called(name), *here = smoe_spec_elsewhere(name);
    const char *near = smoe_spec_key_near(name);
    const char *value = text[2 + strlen(name)] ? strchr(text, '=') + 1 : next;
    bool takes_keys = command && strstr(command->arguments, "key=");
    if (!value || *value == '-' || strstr(value, ".yaml")) value = "VALUE";
    int nearest = smoe_text_nearest(name, names, count);
    if (takes_keys && prefixed < 2 && key)
        return smoe_fail(err, SMOE_USAGE, "--%s: this is a key of the spec: write %s=%s", name, key,
                         value);
    if (takes_keys && prefixed < 2 && here)
        return smoe_fail(err, SMOE_USAGE, "--%s: %s", name, here);
    if (prefixed > 1)
        smoe_fail(err, SMOE_USAGE, "option '--%s' is ambiguous; write it out", name);
    else if (nearest >= 0)
        smoe_fail(err, SMOE_USAGE, "unknown option '--%s'; did you mean '--%s'?", name,
                  names[nearest]);
    else if (takes_keys && near)
        smoe_fail(err, SMOE_USAGE, "unknown option '--%s'; did you mean %s=%s?", name, near, value);
    else
        smoe_fail(err, SMOE_USAGE, "unknown option '--%s'", name);
    return hint(command, err);
}

int smoe_option_numbers(double *number, size_t most, size_t *count, const char *option,
                        const char *text, const smoe_option_range *range, smoe_err *err) {
    SMOE_FREED char *copy = smoe_alloc_text(text);
    size_t n = 0;
    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        double x = 0;
        if (n == most || !smoe_value_number(item, range->whole, &x) || !(x >= range->least) ||
            x > range->most)
            return smoe_fail(err, SMOE_USAGE, "--%s %s: expected %s", option, text,
                             range->expected);
        number[n++] = x;
    }
    if (count) *count = n;
    return 0;
}

/* No folder is called -, and a file is what its name says: FILE.tar.gz is not named x.zip. A name
 * without an ending is one of a device or a pipe, such as /dev/null. */
static int opt_check_path(const smoe_option *entry, const char *text, smoe_err *err) {
    const char *ending = entry->argument && !strncmp(entry->argument, "FILE.", 5)
                             ? entry->argument + sizeof "FILE" - 1
                             : "";
    if (!strcmp(text, "-") && entry->argument && !strcmp(entry->argument, "DIR"))
        return smoe_fail(err, SMOE_USAGE,
                         "--%s -: give the name of a folder; ./- is a folder of this name",
                         entry->name);
    const char *slash = strrchr(text, '/'), *dot = strrchr(slash ? slash : text, '.');
    if (!dot || smoe_text_ends(text, ending)) return 0;
    return smoe_fail(err, SMOE_USAGE, "--%s: only %s files are written, not %s; name it %.*s%s",
                     entry->name, ending, dot, (int)(dot - text), text, ending);
}

/* Stores an option's value; arguments that list alternatives accept only those. */
static int opt_set(smoe_options *options, const smoe_option *entry, const char *text,
                   smoe_err *err) {
    void *at = (char *)options + entry->at;
    if (entry->kind == SMOE_OPT_FLAG) *(bool *)at = true;
    if (entry->kind == SMOE_OPT_COUNT) {
        static const smoe_option_range counts = {1, INT_MAX, .whole = true,
                                                 .expected = "a whole number of at least 1"};
        double count = 0;
        if (smoe_option_numbers(&count, 1, NULL, entry->name, text, &counts, err)) return -1;
        *(long *)at = (long)count;
    }
    if (entry->kind != SMOE_OPT_TEXT) return 0;
    if (!text) text = ""; /* the argument is optional and was left out */
    if (entry->choices && !smoe_text_has_word(entry->choices, '|', text))
        return smoe_fail(err, SMOE_USAGE, "--%s: '%s' is not one of %s", entry->name, text,
                         entry->choices);
    if (!*text && !entry->optional)
        return smoe_fail(err, SMOE_USAGE, "--%s: empty %s", entry->name, entry->argument);
    if (opt_check_path(entry, text, err)) return -1;
    *(const char **)at = text;
    return 0;
}

/* key=value, where the key is made of the letters of spec keys; anything else is a path, and so is
 * what could be either but is there, if it begins with no key or the command takes none. */
static bool is_override(const smoe_command *command, const char *text) {
    char word[128];
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    if (!n || text[n] != '=' || !isalpha((unsigned char)*text)) return false;
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    const char *called = smoe_spec_key_called(word);
    bool key = called && !strcmp(called, word), there = !access(text, F_OK);
    return strstr(command->arguments, "key=") ? key || !there : key && !there;
}

/* The last `files` arguments stand behind "--": they are files, if there are such. */
static int sort_arguments(smoe_options *options, int argc, char **argv, int files, smoe_err *err) {
    options->assign = smoe_alloc((size_t)argc + 1, sizeof(char *));
    options->arg = smoe_alloc((size_t)argc + 1, sizeof(char *));
    for (int i = 0; i < argc; i++) {
        if (!*argv[i]) return smoe_fail(err, SMOE_USAGE, "argument %d is empty", i + 1);
        bool file = i >= argc - files && !access(argv[i], F_OK);
        if (!file && is_override(options->command, argv[i]))
            options->assign[options->overrides++] = argv[i];
        else
            options->arg[options->args++] = argv[i];
    }
    return 0;
}

/* getopt_long's two tables out of the entries that apply. The value of a long option is CODE + its
 * entry. */
static void prepare(const smoe_command *command, struct option *longs, char *shorts) {
    *shorts++ = ':'; /* tells a missing argument from an unknown option */
    for (size_t i = 0; i < OPTIONS; i++) {
        const smoe_option *entry = &smoe_option_table[i];
        if (!smoe_option_applies(entry, command)) continue;
        int argument = entry->kind == SMOE_OPT_FLAG ? no_argument
                       : entry->optional            ? optional_argument
                                                    : required_argument;
        *longs++ = (struct option){entry->name, argument, NULL, CODE + (int)i};
        if (!entry->letter) continue;
        *shorts++ = entry->letter;
        if (entry->kind != SMOE_OPT_FLAG) *shorts++ = ':';
    }
    *longs = (struct option){0};
    *shorts = '\0';
}

static const smoe_option *opt_entry_of(int code) {
    if (code >= CODE) return &smoe_option_table[code - CODE];
    for (size_t i = 0; i < OPTIONS; i++)
        if (smoe_option_table[i].letter == code) return &smoe_option_table[i];
    return NULL;
}

/* The message for an option that getopt_long refused. */
static int opt_refused(const smoe_command *command, int code, int argc, char **argv,
                       smoe_err *err) {
    const smoe_option *entry = optopt ? opt_entry_of(optopt) : NULL;
    if (code == ':' && entry) {
        smoe_fail(err, SMOE_USAGE, "option '--%s' needs %s", entry->name,
                  smoe_option_argument(entry));
        return hint(command, err);
    }
    if (!optopt)
        return opt_unknown(command, argv[optind - 1], optind < argc ? argv[optind] : NULL, err);
    if (entry && optopt >= CODE)
        smoe_fail(err, SMOE_USAGE, "option '--%s' takes no argument", entry->name);
    else
        smoe_fail(err, SMOE_USAGE, "unknown option '-%c'", optopt);
    return hint(command, err);
}

int smoe_options_parse(smoe_options *options, const smoe_command *command, int argc, char **argv,
                       smoe_err *err) {
    struct option longs[OPTIONS + 1];
    char shorts[2 * OPTIONS + 2];
    *options = (smoe_options){.command = command};
    for (size_t i = 0; i < OPTIONS; i++)
        if (smoe_option_table[i].preset &&
            opt_set(options, &smoe_option_table[i], smoe_option_table[i].preset, err))
            return -1;
    prepare(command, longs, shorts);
    int files = 0;
    for (int i = 1; i < argc && !files; i++)
        if (!strcmp(argv[i], "--")) files = argc - 1 - i;
    opterr = 0;
    optind = 0; /* glibc: start afresh */
    for (int code; (code = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        if (code == '?' || code == ':') return opt_refused(command, code, argc, argv, err);
        const smoe_option *entry = opt_entry_of(code);
        if (opt_set(options, entry, optarg, err)) return hint(command, err);
        options->given[entry - smoe_option_table] = true;
    }
    return sort_arguments(options, argc - optind, argv + optind, files, err);
}

void smoe_options_free(smoe_options *options) {
    free(options->assign);
    free(options->arg);
    options->assign = options->arg = NULL;
}
