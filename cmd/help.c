/* What the program says about itself, out of the tables: --help and the completion scripts. */
#include "cmd.h"
#include "opt.h"

#include <string.h>

/* "-o, --out DIR", "--power[=LIST]"; returns its width. */
static int usage_of(const smoe_option *row, char *buf, size_t size) {
    char letter[8] = "    ";
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    char words[80];
    const char *argument = smoe_option_argument(row, words, sizeof words);
    if (row->optional) return snprintf(buf, size, "%s--%s[=%s]", letter, row->name, argument);
    return snprintf(buf, size, "%s--%s%s%s", letter, row->name, argument ? " " : "",
                    argument ? argument : "");
}

/* The words for this command, or for `smoe` where it is NULL. */
static const char *help_of(const smoe_option *row, const smoe_command *command) {
    for (size_t i = 0; command && i < sizeof row->help_in / sizeof *row->help_in; i++)
        if (row->help_in[i].command && !strcmp(row->help_in[i].command, command->name))
            return row->help_in[i].help;
    return row->help;
}

static void list_options(const smoe_command *command, FILE *out) {
    fputs("\nOptions:\n", out);
    char left[80];
    int width = 0;
    for (size_t i = 0; i < smoe_option_count; i++) {
        int length = usage_of(&smoe_option_rows[i], left, sizeof left);
        if (smoe_option_applies(&smoe_option_rows[i], command) && length > width) width = length;
    }
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *row = &smoe_option_rows[i];
        if (!smoe_option_applies(row, command)) continue;
        usage_of(row, left, sizeof left);
        fprintf(out, "  %-*s  %s", width, left, help_of(row, command));
        if (row->preset) fprintf(out, " [%s]", row->preset);
        fputc('\n', out);
    }
}

static void list_commands(FILE *out) {
    fputs("Usage: smoe COMMAND [options] ARG [key=value ...]\n"
          "Train and study mixtures of experts for vision, on a CPU.\n\n"
          "Examples:\n"
          "  smoe train experiments/quickstart.yaml -o runs/mine\n"
          "  smoe eval runs/mine\n\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < smoe_command_count; i++)
        fprintf(out, "  %-8s  %s\n", smoe_commands[i].name, smoe_commands[i].summary);
}

/* Text line by line, each after `before`. */
static void indent(const char *text, const char *before, FILE *out) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        fprintf(out, "%s%.*s\n", before, (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void smoe_options_help(const smoe_command *command, FILE *out) {
    if (!command) {
        list_commands(out);
        list_options(NULL, out);
        fputs("\n`smoe COMMAND --help` describes a command, `man smoe` the program.\n", out);
        return;
    }
    fprintf(out, "Usage: smoe %s [options]%s%s\n", command->name, *command->arguments ? " " : "",
            command->arguments);
    fprintf(out, "%c%s.\n\nExamples:\n", command->summary[0] - 'a' + 'A', command->summary + 1);
    indent(command->examples, "  ", out);
    list_options(command, out);
    if (strstr(command->arguments, "SPEC.yaml"))
        fputs("\nWith - as SPEC.yaml, the spec is read from standard input.\n", out);
    if (strstr(command->arguments, "key="))
        fputs("\nkey=value overrides a key of the spec (`man smoe-spec`): train.steps=500 "
              "model.moe.experts=32\n",
              out);
}

int cmd_help(const smoe_options *options, smoe_err *err) {
    const smoe_command *command = NULL;
    if (options->args && !(command = smoe_command_find(options->arg[0], err))) return -1;
    smoe_options_help(command, stdout);
    return 0;
}

/* ---- completion ------------------------------------------------------------------------------ */

static void key_word(void *out, const char *key, const char *type, const char *preset,
                     const char *help) {
    (void)type, (void)preset, (void)help;
    fprintf(out, "%s= ", key);
}

static void command_words(FILE *out) {
    for (size_t i = 0; i < smoe_command_count; i++)
        fprintf(out, "%s%s", i ? " " : "", smoe_commands[i].name);
}

static void option_words(const smoe_command *command, FILE *out) {
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *row = &smoe_option_rows[i];
        if (!smoe_option_applies(row, command)) continue;
        fprintf(out, "--%s ", row->name);
        if (row->letter) fprintf(out, "-%c ", row->letter);
    }
}

/* One `case` arm an option that lists its alternatives. */
static void choice_arms(FILE *out) {
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *row = &smoe_option_rows[i];
        if (!*row->choices) continue;
        fprintf(out, "    --%s) words='", row->name);
        for (size_t k = 0; row->choices[k]; k++)
            fprintf(out, "%s%s", k ? " " : "", row->choices[k]);
        fputs("' ;;\n", out);
    }
}

static void bash_function(FILE *out) {
    fputs("_smoe() {\n"
          "    local cur prev words=''\n"
          "    local line=\"${COMP_LINE:0:$COMP_POINT}\"\n"
          "    cur=\"${line##*[[:space:]]}\"\n"
          "    prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
          "    COMPREPLY=()\n"
          "    case \"$prev\" in\n",
          out);
    choice_arms(out);
    fputs("    *)\n        case \"${COMP_WORDS[1]}\" in\n", out);
    for (size_t i = 0; i < smoe_command_count; i++) {
        fprintf(out, "        %s) words='", smoe_commands[i].name);
        option_words(&smoe_commands[i], out);
        if (!strcmp(smoe_commands[i].name, "help")) command_words(out);
        fputs("' ;;\n", out);
    }
    fputs("        esac\n"
          "        if [ \"$COMP_CWORD\" -le 1 ]; then words='",
          out);
    command_words(out);
    fputc(' ', out);
    option_words(NULL, out);
    fputs("'\n"
          "        elif [ \"${COMP_WORDS[1]}\" != help ] && [ \"${COMP_WORDS[1]}\" != version ]; "
          "then\n"
          "            words=\"$words ",
          out);
    smoe_spec_each_key(key_word, out);
    fputs(
        "\"\n"
        "        fi ;;\n"
        "    esac\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "    [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n"
        "    case \"${COMPREPLY[0]-}\" in *=) compopt -o nospace +o filenames 2>/dev/null ;; esac\n"
        "}\n"
        "complete -o filenames -F _smoe smoe\n",
        out);
}

/* Text inside single quotes of a shell. */
static void quoted(const char *text, FILE *out) {
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

static void fish_key(void *out, const char *key, const char *type, const char *preset,
                     const char *help) {
    (void)type, (void)preset;
    fputs("complete -c smoe -n 'not __fish_use_subcommand' -a ", out);
    fprintf(out, "'%s=' -d ", key);
    quoted(help, out);
    fputc('\n', out);
}

static void fish_option(const smoe_option *row, const smoe_command *command, FILE *out) {
    fputs("complete -c smoe -n '", out);
    if (command)
        fprintf(out, "__fish_seen_subcommand_from %s", command->name);
    else
        fputs("__fish_use_subcommand", out);
    fprintf(out, "' -l %s", row->name);
    if (row->letter) fprintf(out, " -s %c", row->letter);
    if (row->kind != SMOE_OPT_FLAG && !row->optional) fputs(" -r", out);
    for (size_t k = 0; row->choices[k]; k++)
        fprintf(out, "%s%s", k ? " " : " -f -a '", row->choices[k]);
    if (*row->choices) fputc('\'', out);
    fputs(" -d ", out);
    quoted(help_of(row, command), out);
    fputc('\n', out);
}

static void fish_script(FILE *out) {
    for (size_t i = 0; i < smoe_command_count; i++) {
        fprintf(out, "complete -c smoe -n __fish_use_subcommand -f -a %s -d ",
                smoe_commands[i].name);
        quoted(smoe_commands[i].summary, out);
        fputc('\n', out);
    }
    for (size_t i = 0; i < smoe_option_count; i++) {
        if (smoe_option_applies(&smoe_option_rows[i], NULL))
            fish_option(&smoe_option_rows[i], NULL, out);
        for (size_t j = 0; j < smoe_command_count; j++)
            if (smoe_option_applies(&smoe_option_rows[i], &smoe_commands[j]))
                fish_option(&smoe_option_rows[i], &smoe_commands[j], out);
    }
    smoe_spec_each_key(fish_key, out);
}

void smoe_options_completion(const char *shell, FILE *out) {
    fprintf(out, "# Completion of smoe for %s, printed by `smoe --completion %s`.\n", shell, shell);
    if (!strcmp(shell, "fish")) {
        fish_script(out);
        return;
    }
    if (!strcmp(shell, "zsh")) fputs("autoload -U +X bashcompinit && bashcompinit\n", out);
    bash_function(out);
}
