/*
 * The command line: `smoe COMMAND [options] ARG [key=value ...]`, in any order, `--` ends options.
 * Two tables define it: commands.def (one entry per command) and options.def (one entry per
 * option). Parsing, help and shell completion are loops over them.
 */
#pragma once

#include "spec/rules.h"

/* The number of entries of options.def. */
enum {
#define OPTION(kind, field, ...) SMOE_OPTION_##field,
#include "options.def"
    SMOE_OPTIONS
};

struct smoe_command;

typedef struct smoe_options {
#define SMOE_FIELD_FLAG(field) bool field;
#define SMOE_FIELD_TEXT(field) const char *field;
#define SMOE_FIELD_COUNT(field) long field;
#define OPTION(kind, field, ...) SMOE_FIELD_##kind(field)
#include "options.def"
    bool given[SMOE_OPTIONS];           /* on the command line, by the entry's number */
    const struct smoe_command *command; /* NULL: `smoe` itself */
    char **assign;                      /* the key=value arguments, in order; pointers into argv */
    size_t overrides;
    char **arg; /* the other arguments */
    size_t args;
    struct smoe_scan *scan; /* shows data that is read; NULL: nobody is told */
    struct smoe_comm *comm; /* the processes that do the command together; NULL: this one alone */
    char **argv;            /* the whole command line as it was given, for env.json */
    int argc;
} smoe_options;

typedef struct smoe_option {
    enum { SMOE_OPT_FLAG, SMOE_OPT_TEXT, SMOE_OPT_COUNT } kind;
    size_t at; /* offset into smoe_options */
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: a FLAG, or choices */
    bool optional;        /* it may be left out */
    const char *choices;  /* "auto|always|never", or NULL */
    const char *preset;   /* NULL: none */
    enum { SMOE_OPT_LISTED, SMOE_OPT_COMMANDS, SMOE_OPT_PROGRAM, SMOE_OPT_ALL } scope;
    const char *commands; /* those listed, or NULL */
    const char *except;   /* with SMOE_OPT_COMMANDS: commands without it, or NULL */
    const char *help;
    struct {
        const char *commands, *help;
    } help_in[8];
} smoe_option;

typedef int smoe_command_run(const smoe_options *options, smoe_err *err);

typedef struct smoe_command {
    const char *name, *arguments;
    size_t fewest, most;
    /* SMOE_ALONE: refused to processes that a launcher started together, each of which would write
     * the same files. SMOE_CELLS: also, but with --resume they share the cells. */
    enum { SMOE_SEVERAL, SMOE_ALONE, SMOE_CELLS } processes;
    const char *summary, *examples;
} smoe_command;

extern const smoe_option smoe_option_table[];
extern const size_t smoe_option_count;
extern const smoe_command smoe_commands[];
extern const size_t smoe_command_count;

/* The entry of that name, or NULL; with err also the nearest name in a message. */
const smoe_command *smoe_command_find(const char *name, smoe_err *err);

/* Whether `command` takes the option; NULL stands for `smoe` itself. */
bool smoe_option_applies(const smoe_option *option, const smoe_command *command);

/* Its argument as --help has it, "DIR" or "auto|always|never"; NULL of a FLAG. */
const char *smoe_option_argument(const smoe_option *option);

/* Reads argv[1] ... of a command (argv[0] is its name); command NULL: of `smoe` itself. The command
 * line is permuted. SMOE_USAGE on an error. Free with smoe_options_free in any case. */
int smoe_options_parse(smoe_options *options, const smoe_command *command, int argc, char **argv,
                       smoe_err *err) SMOE_MUST_CHECK;
void smoe_options_free(smoe_options *options);

/* What the argument of an option may be. */
typedef struct smoe_option_range {
    double least, most;
    bool whole;
    const char *expected; /* ends the message "--OPTION TEXT: expected ..." */
} smoe_option_range;

/* The numbers of a list with commas, one to `most`, written as in the values of keys
 * (smoe_value_number); count may be NULL. SMOE_USAGE: others. */
int smoe_option_numbers(double *number, size_t most, size_t *count, const char *option,
                        const char *text, const smoe_option_range *range,
                        smoe_err *err) SMOE_MUST_CHECK;

extern const smoe_rule smoe_option_rules[];
extern const size_t smoe_option_rule_count;

/* Whether the rule names the option, or the key of key=value, in this command. */
bool smoe_rule_concerns(const smoe_rule *rule, const smoe_command *command, const char *name);

/* Refuses an option or a key=value that was given and has no effect: SMOE_USAGE naming it. `state`
 * is what the command found out about its arguments, one of the states of rules.c, or NULL. */
int smoe_options_check(const smoe_options *options, const char *state,
                       smoe_err *err) SMOE_MUST_CHECK;

/* The help of a command, or of `smoe` where it is NULL. */
void smoe_options_help(const smoe_command *command, FILE *out);

/* A completion script for bash, zsh or fish, on standard output. */
void smoe_options_completion(const char *shell);
