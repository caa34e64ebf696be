/* What the program prints about itself, from the tables: --help and the completion scripts. */
#include "cmd.h"
#include "spec/routers.h"
#include "spec/schema.h"

#include <ctype.h>

/* "-o, --out DIR", "--power[=LIST]"; returns its width. */
static int usage_of(const smoe_option *entry, char *buf, size_t size) {
    char letter[8] = "    ";
    if (entry->letter) snprintf(letter, sizeof letter, "-%c, ", entry->letter);
    const char *argument = smoe_option_argument(entry);
    if (entry->optional) return snprintf(buf, size, "%s--%s[=%s]", letter, entry->name, argument);
    return snprintf(buf, size, "%s--%s%s%s", letter, entry->name, argument ? " " : "",
                    argument ? argument : "");
}

/* The words for this command, or for `smoe` where it is NULL. */
static const char *help_of(const smoe_option *entry, const smoe_command *command) {
    for (size_t i = 0; command && i < SMOE_COUNT(entry->help_in); i++)
        if (smoe_text_has_word(entry->help_in[i].commands, ' ', command->name))
            return entry->help_in[i].help;
    return entry->help;
}

/* Text that begins at column `at` and goes on there, broken between words at the end of the
 * terminal. */
static void help_wrap(FILE *out, const char *text, size_t at) {
    const smoe_paper paper = {.columns = smoe_cmd_screen(out).columns};
    smoe_paper_wrap(out, text, at, &paper);
}

enum { NAME = 17, KEY_NAME = 34 }; /* columns for names of commands and routers, and of keys */

static void list_entry(const char *name, const char *words, int width, FILE *out) {
    fprintf(out, "  %-*s  ", width, name);
    help_wrap(out, words, (size_t)width + 4);
}

static void list_options(const smoe_command *command, FILE *out) {
    fputs("\nOptions:\n", out);
    char left[80], text[400];
    int width = 0;
    for (size_t i = 0; i < smoe_option_count; i++) {
        int length = usage_of(&smoe_option_table[i], left, sizeof left);
        if (smoe_option_applies(&smoe_option_table[i], command) && length > width) width = length;
    }
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *entry = &smoe_option_table[i];
        if (!smoe_option_applies(entry, command)) continue;
        usage_of(entry, left, sizeof left);
        snprintf(text, sizeof text, "%s%s%s%s", help_of(entry, command), entry->preset ? " [" : "",
                 entry->preset ? entry->preset : "", entry->preset ? "]" : "");
        list_entry(left, text, width, out);
    }
}

void smoe_options_help(const smoe_command *command, FILE *out) {
    if (!command) {
        fputs("Usage: smoe COMMAND [options] ARG [key=value ...]\n"
              "Train and study mixtures of experts for vision, on a CPU.\n\n"
              "Examples:\n"
              "  smoe train experiments/quickstart.yaml -o runs/mine\n"
              "  smoe eval runs/mine\n\n"
              "Commands:\n",
              out);
        for (size_t i = 0; i < smoe_command_count; i++)
            list_entry(smoe_commands[i].name, smoe_commands[i].summary, NAME, out);
        list_options(NULL, out);
        fputs("\n`smoe COMMAND --help` describes a command, `man smoe` the program.\n", out);
        return;
    }
    fprintf(out, "Usage: smoe %s [options]%s%s\n", command->name, *command->arguments ? " " : "",
            command->arguments);
    fprintf(out, "%c%s.\n\nExamples:\n", command->summary[0] - 'a' + 'A', command->summary + 1);
    smoe_cmd_lines(out, "  ", command->examples);
    list_options(command, out);
    if (strstr(command->arguments, "SPEC.yaml"))
        fputs("\nWith - as SPEC.yaml, the spec is read from standard input.\n", out);
    if (!strstr(command->arguments, "key=")) return;
    fputc('\n', out);
    help_wrap(out,
              "key=value overrides a key of the spec (`smoe help KEY`, `man smoe-spec`): "
              "train.steps=500 model.moe.experts=32",
              0);
}

/* ---- keys, routers and profiles -------------------------------------------------------------- */

/* A key in full, or one line for each of a section; how many there are. */
static size_t list_keys(const char *word) {
    size_t length = strlen(word), found = 0;
    char type[256];
    for (const smoe_schema_entry *k = smoe_schema; k < smoe_schema + SMOE_SCHEMA_COUNT; k++) {
        if (strncmp(k->key, word, length) || (k->key[length] && k->key[length] != '.')) continue;
        found++;
        if (k->key[length]) {
            list_entry(k->key, k->help, KEY_NAME, stdout);
            continue;
        }
        printf("%s\n  ", k->key);
        help_wrap(stdout, k->help, 2);
        printf("  type     %s\n  default  %s\n  write    %s=%s\n",
               smoe_schema_type(k, type, sizeof type), k->preset, k->key,
               strcmp(k->preset, "variant's") ? k->preset : "N");
    }
    return found;
}

static bool help_router(const char *name) {
    const smoe_router_entry *router = smoe_router_find(name);
    if (!router) return false;
    printf("%s\n  ", router->name);
    help_wrap(stdout, router->summary, 2);
    printf("  write    model.moe.router=%s\n  keys     ", router->name);
    help_wrap(stdout, router->keys, 11);
    puts("  page     man smoe-routers");
    return true;
}

static void help_profiles(void) {
    puts("--profile paper|vmoe sets these keys; the spec and overrides take precedence.\n"
         "S: the Soft MoE paper, V: the V-MoE paper, vmoe: their public code.");
    for (size_t i = 0; i < SMOE_PROFILES; i++) {
        const smoe_profile_entry *entry = &smoe_profiles[i];
        if (!i || strcmp(entry->key, entry[-1].key)) printf("\n%s\n", entry->key);
        printf("  %-6s %-12s  ", entry->profile, entry->value);
        help_wrap(stdout, entry->source, 23);
    }
}

/* What of the two papers is here, and the commands for it. */
typedef struct paper_entry {
    const char *where, *what, *command, *scale;
} paper_entry;

static const paper_entry papers[] = {
#define PAPER(where, what, command, scale) {where, what, command, scale},
#include "papers.def"
};

static void print_paper(const paper_entry *p) {
    printf("\n%s\n  ", p->where);
    help_wrap(stdout, p->what, 2);
    if (p->command) printf("  $ %s\n", p->command);
    if (p->scale) printf("  $ %s\n", p->scale);
}

static void print_papers_heading(void) {
    puts("S: From Sparse to Soft Mixtures of Experts, arXiv:2308.00951v1\n"
         "V: Scaling Vision with Sparse Mixture of Experts, arXiv:2106.05974\n"
         "RUN is a run with a soft router, SPARSE a run with Tokens Choice. Commands with\n"
         "experiments/paper/ are at the papers' own scale: append --dry-run to see the cost.");
}

/* Whether the numbers at the start of a text such as "3, 22 to 25, rest" include this one. */
static bool has_number(const char *text, long number) {
    long before = 0;
    for (bool range = false; isdigit((unsigned char)*text);) {
        char *end;
        long n = strtol(text, &end, 10);
        if (n == number || (range && before < number && number < n)) return true;
        range = !strncmp(end, " to ", 4);
        text = range                       ? end + 4
               : !strncmp(end, " and ", 5) ? end + 5
               : !strncmp(end, ", ", 2)    ? end + 2
                                           : end;
        before = n;
    }
    return false;
}

/* Whether the entry has, for example, "Fig." 4 of the paper 'S' or 'V', or of any for 0. */
static bool has_numbered(const paper_entry *p, char paper, const char *kind, long number) {
    char of = *p->where;
    for (const char *at = p->where; *at; at++) {
        if (!strncmp(at, "; ", 2)) of = at[2];
        if (strncmp(at, kind, strlen(kind)) != 0 || (paper && paper != of)) continue;
        const char *list = at + strlen(kind);
        list += *list == 's';
        if (*list == ' ' && has_number(list + 1, number)) return true;
    }
    return false;
}

/* Prints what there is for "Fig. 4", "figure 4", "S Table 3" and the like. */
static bool help_numbered(const char *word) {
    static const char *const kinds[] = {"Fig.", "Table", "algorithm", "equation"};
    char paper = '\0', name[16];
    long number;
    int length = 0;
    bool found = false;
    if (*word && word[1] == ' ') {
        paper = (char)toupper((unsigned char)*word);
        word += 2;
    }
    if (sscanf(word, "%15[A-Za-z.] %5ld%n", name, &number, &length) != 2 || word[length])
        return false;
    for (size_t k = 0; k < SMOE_COUNT(kinds); k++)
        for (size_t i = 0; i < SMOE_COUNT(papers) && !strncasecmp(name, kinds[k], 3); i++) {
            if (!has_numbered(&papers[i], paper, kinds[k], number)) continue;
            if (!found) print_papers_heading();
            found = true;
            print_paper(&papers[i]);
        }
    return found;
}

/* ---- a word that is no name ------------------------------------------------------------------ */

/* Whether the name or the words have this word; the first hit prints the heading. */
static bool search_hit(const char *word, size_t *found, const char *name, const char *words) {
    const char *at = strcasestr(name, word);
    if (at && isdigit((unsigned char)at[strlen(word)])) at = NULL; /* Fig. 4 is not in Fig. 42 */
    if (!at && !strcasestr(words, word)) return false;
    if (!(*found)++) printf("'%s' is not a command, a key or a router; it occurs in:\n", word);
    return true;
}

static void search_entry(const char *word, size_t *found, const char *name, const char *words) {
    if (search_hit(word, found, name, words)) list_entry(name, words, KEY_NAME, stdout);
}

/* The words a key or an option may have: "soft uniform" of "soft | uniform"; none for numbers. */
static bool words_of(const char *type, char *buf, size_t size) {
    if (!strchr(type, '|') || strpbrk(type, "[],")) return false;
    size_t used = 0;
    for (; *type && used + 1 < size; type++)
        if (*type != ' ') buf[used++] = *type == '|' ? ' ' : *type;
    buf[used] = '\0';
    return true;
}

static bool values_of(const smoe_schema_entry *key, char *buf, size_t size) {
    char type[256];
    return words_of(smoe_schema_type(key, type, sizeof type), buf, size);
}

/* Commands, options, keys with their values, routers, the metrics of records or of results, and the
 * papers. */
static bool search(const char *word) {
    size_t found = 0;
    char name[80], values[256];
    for (size_t i = 0; i < smoe_command_count; i++) {
        snprintf(name, sizeof name, "smoe %s", smoe_commands[i].name);
        search_entry(word, &found, name, smoe_commands[i].summary);
    }
    for (size_t i = 0; i < smoe_option_count; i++) {
        snprintf(name, sizeof name, "--%s", smoe_option_table[i].name);
        search_entry(word, &found, name, smoe_option_table[i].help);
    }
    for (const smoe_schema_entry *k = smoe_schema; k < smoe_schema + SMOE_SCHEMA_COUNT; k++) {
        bool value = values_of(k, values, sizeof values) && strcasestr(values, word);
        if (search_hit(word, &found, k->key, value ? word : k->help))
            list_entry(k->key, k->help, KEY_NAME, stdout);
    }
    for (size_t i = 0; i < SMOE_ROUTERS; i++)
        search_entry(word, &found, smoe_routers[i].name, smoe_routers[i].summary);
    for (size_t i = 0; i < SMOE_METRICS; i++) {
        const smoe_metric_entry *m = &smoe_metrics[i];
        search_entry(word, &found, m->name ? m->name : m->column, m->label);
    }
    for (size_t i = 0; i < SMOE_COUNT(papers); i++)
        if (search_hit(word, &found, papers[i].where, papers[i].what)) print_paper(&papers[i]);
    return found;
}

/* ---- the command ----------------------------------------------------------------------------- */

int cmd_help(const smoe_options *options, smoe_err *err) {
    SMOE_FREED char *word = NULL; /* or words, as Fig. 9 */
    for (size_t i = 0; i < options->args; i++)
        smoe_text_add(&word, "%s%s", i ? " " : "", options->arg[i]);
    const char *here;
    const char *last = word ? strrchr(word, '.') : NULL; /* of train.epochs: epochs */
    const smoe_command *command = word ? smoe_command_find(word, err) : NULL;
    char section[64] = "";
    if (word && strlen(word) < sizeof section) strcpy(section, word);
    if (*section && section[strlen(section) - 1] == '.') section[strlen(section) - 1] = '\0';
    const char *key = smoe_spec_key_called(section);
    if (!word || command) {
        smoe_options_help(command, stdout);
        /* a section of keys has a point behind its name where it is also a command */
        if (command && smoe_text_has_word("data train eval sweep", ' ', command->name))
            printf("`smoe help %s.` lists the keys of the section %s.\n", command->name,
                   command->name);
    } else if (!strcmp(word, "profiles"))
        help_profiles();
    else if (!strcmp(word, "papers")) {
        print_papers_heading();
        for (size_t i = 0; i < SMOE_COUNT(papers); i++) print_paper(&papers[i]);
    } else if (help_router(word) || list_keys(key ? key : section)) {
        if (!key || strcmp(key, "model.moe.router") != 0) return 0;
        printf("\nRouters (smoe-routers(7)):\n");
        for (size_t i = 0; i < SMOE_ROUTERS; i++)
            list_entry(smoe_routers[i].name, smoe_routers[i].summary, NAME, stdout);
    } else if ((here = smoe_spec_elsewhere(last ? last + 1 : word)))
        printf("%s\n  %s\n", word, here);
    else if (!help_numbered(word) && (strlen(word) < 3 || !search(word))) {
        smoe_fail(err, SMOE_USAGE, "'%s' is not a command, a key or a router", word);
        return smoe_fail_more(err, SMOE_USAGE,
                              "`smoe --help` lists the commands, `smoe help model` the keys of a "
                              "section, `smoe help router` the routers");
    }
    return 0;
}

/* ---- completion ------------------------------------------------------------------------------ */

static void key_words(const char *after) {
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) printf("%s%s", smoe_schema[i].key, after);
}

static void command_words(void) {
    for (size_t i = 0; i < smoe_command_count; i++)
        printf("%s%s", i ? " " : "", smoe_commands[i].name);
}

static void option_words(const smoe_command *command) {
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *entry = &smoe_option_table[i];
        if (!smoe_option_applies(entry, command)) continue;
        printf("--%s ", entry->name);
        if (entry->letter) printf("-%c ", entry->letter);
    }
}

/* Values of KEY=. In bash the text after '=' is a separate word, in zsh it is not. */
static void bash_values(void) {
    char words[256];
    fputs("_smoe_value() {\n"
          "    local words='' before=\"${1%%=*}=\" prefix=''\n"
          "    case \"${1%%=*}\" in\n",
          stdout);
    for (const smoe_schema_entry *k = smoe_schema; k < smoe_schema + SMOE_SCHEMA_COUNT; k++)
        if (values_of(k, words, sizeof words)) printf("    %s) words='%s' ;;\n", k->key, words);
    fputs("    esac\n"
          "    [ -n \"${BASH_VERSION-}\" ] || prefix=$before\n"
          "    COMPREPLY=($(compgen -P \"$prefix\" -W \"$words\" -- \"${1#*=}\"))\n"
          "    [ -n \"$words\" ] || COMPREPLY=($(compgen -P \"$prefix\" -f -- \"${1#*=}\"))\n"
          "}\n",
          stdout);
}

static void bash_function(void) {
    bash_values();
    fputs("_smoe() {\n"
          "    local cur prev run step words=''\n"
          "    local line=\"${COMP_LINE:0:$COMP_POINT}\"\n"
          "    cur=\"${line##*[[:space:]]}\"\n"
          "    prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
          "    COMPREPLY=()\n"
          "    case \"$cur\" in *=*) _smoe_value \"$cur\"; return ;; esac\n"
          "    case \"$prev\" in\n",
          stdout);
    for (size_t i = 0; i < smoe_option_count; i++) { /* an arm per option that lists alternatives */
        const smoe_option *entry = &smoe_option_table[i];
        char words[80] = "";
        if (entry->choices && words_of(entry->choices, words, sizeof words))
            printf("    --%s) words='%s' ;;\n", entry->name, words);
    }
    fputs("    --which) words='latest best'\n"
          "        for run in \"${COMP_WORDS[@]}\"; do\n"
          "            for step in \"$run\"/ckpt/step_*; do\n"
          "                [ -d \"$step\" ] && words=\"$words ${step##*/}\"\n"
          "            done\n"
          "        done ;;\n",
          stdout);
    fputs("    *)\n        case \"${COMP_WORDS[1]}\" in\n", stdout);
    for (size_t i = 0; i < smoe_command_count; i++) {
        printf("        %s) words='", smoe_commands[i].name);
        option_words(&smoe_commands[i]);
        bool help = !strcmp(smoe_commands[i].name, "help");
        if (help) command_words(); /* sections and their names are found by `smoe help model` */
        for (size_t k = 0; help && k < SMOE_ROUTERS; k++) printf(" %s", smoe_routers[k].name);
        if (help) printf(" router profiles papers ");
        if (help) key_words(" ");
        fputs("' ;;\n", stdout);
    }
    fputs("        esac\n"
          "        case \"${COMP_WORDS[1]}\" in eval|inspect|predict|compare|watch|serve)\n"
          "            for run in runs/*/; do\n"
          "                [ -f \"$run/spec.yaml\" ] && words=\"$words ${run%/}\"\n"
          "            done ;;\n"
          "        esac\n"
          "        if [ \"$COMP_CWORD\" -le 1 ]; then words='",
          stdout);
    command_words();
    putchar(' ');
    option_words(NULL);
    fputs("'\n"
          "        elif [ \"${COMP_WORDS[1]}\" != help ] && [ \"${COMP_WORDS[1]}\" != version ]; "
          "then\n"
          "            words=\"$words ",
          stdout);
    key_words("= ");
    fputs(
        "\"\n"
        "        fi ;;\n"
        "    esac\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "    [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n"
        "    case \"${COMPREPLY[0]-}\" in *=) compopt -o nospace +o filenames 2>/dev/null ;; esac\n"
        "}\n"
        "complete -o filenames -F _smoe smoe\n",
        stdout);
}

/* " -d 'HELP'", the end of a line for fish. */
static void fish_end(const char *help) {
    SMOE_FREED char *word = smoe_shell_word(help);
    printf(" -d %s\n", word);
}

static void fish_keys(void) {
    static const char line[] = "complete -c smoe -n 'not __fish_use_subcommand' -a '";
    char words[256];
    for (const smoe_schema_entry *k = smoe_schema; k < smoe_schema + SMOE_SCHEMA_COUNT; k++) {
        printf("%s%s='", line, k->key);
        fish_end(k->help);
        if (!values_of(k, words, sizeof words)) continue;
        fputs(line, stdout);
        for (const char *word = words; *word; word += strcspn(word, " "), word += *word == ' ')
            printf("%s%s=%.*s", word == words ? "" : " ", k->key, (int)strcspn(word, " "), word);
        puts("'");
    }
}

static void fish_option(const smoe_option *entry, const smoe_command *command) {
    if (!smoe_option_applies(entry, command)) return;
    printf("complete -c smoe -n '%s%s' -l %s",
           command ? "__fish_seen_subcommand_from " : "__fish_use_subcommand",
           command ? command->name : "", entry->name);
    if (entry->letter) printf(" -s %c", entry->letter);
    if (entry->kind != SMOE_OPT_FLAG && !entry->optional) printf(" -r");
    char words[80];
    if (entry->choices && words_of(entry->choices, words, sizeof words))
        printf(" -f -a '%s'", words);
    fish_end(help_of(entry, command));
}

static void fish_script(void) {
    for (size_t i = 0; i < smoe_command_count; i++) {
        printf("complete -c smoe -n __fish_use_subcommand -f -a %s", smoe_commands[i].name);
        fish_end(smoe_commands[i].summary);
    }
    for (size_t i = 0; i < smoe_option_count; i++) {
        fish_option(&smoe_option_table[i], NULL);
        for (size_t j = 0; j < smoe_command_count; j++)
            fish_option(&smoe_option_table[i], &smoe_commands[j]);
    }
    fish_keys();
}

void smoe_options_completion(const char *shell) {
    const bool zsh = !strcmp(shell, "zsh");
    if (zsh) puts("#compdef smoe"); /* compinit reads the first line of files in its path */
    printf("# Completion of smoe for %s, printed by `smoe --completion %s`.\n", shell, shell);
    if (zsh) puts("autoload -U +X bashcompinit && bashcompinit");
    if (!strcmp(shell, "fish"))
        fish_script();
    else
        bash_function();
    /* zsh loads such a file when it first completes: the functions are there, and one is wanted */
    if (zsh) puts("[ \"${funcstack[1]-}\" != _smoe ] || _bash_complete -o filenames -F _smoe");
}
