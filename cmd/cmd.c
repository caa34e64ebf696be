/* Functions that the commands share; see cmd.h. */
#include "cmd.h"
#include "base/stop.h"
#include "bench/cost.h"
#include "draw/gnuplot.h"
#include "spec/schema.h"
#include "store/model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

void smoe_cmd_lines(FILE *out, const char *before, const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        fprintf(out, "%s%.*s\n", before, (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void smoe_cmd_complain(const smoe_command *command, const smoe_err *err) {
    SMOE_FREED char *before =
        smoe_text_format("smoe%s%s: ", command ? " " : "", command ? command->name : "");
    fflush(stdout);
    smoe_cmd_lines(stderr, before, err->text);
}

int smoe_cmd_taken(const smoe_options *options, smoe_err *err) {
    for (size_t i = 0; i < options->overrides; i++) {
        const char *word = options->assign[i];
        SMOE_FREED char *key = smoe_alloc_part(word, strcspn(word, "="));
        if (!access(word, F_OK) || smoe_spec_check_key(key, NULL))
            smoe_fail_more(err, SMOE_USAGE, "%s is taken as key=value; write ./%s for the file",
                           word, word);
    }
    return -1;
}

void smoe_cmd_print_text(FILE *out, char *fresh) {
    SMOE_FREED char *text = fresh;
    size_t room = strlen(text) + 9; /* all of a line, and what shown keeps free */
    SMOE_FREED char *shown = smoe_alloc(room, 1);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        fprintf(out, "%s%s", smoe_text_shown(line, shown, room), rest ? "\n" : "");
}

smoe_screen smoe_cmd_screen(FILE *out) {
    const char *term = getenv("TERM");
    struct winsize size = {0};
    if (!isatty(fileno(out))) return (smoe_screen){0};
    (void)ioctl(fileno(out), TIOCGWINSZ, &size);
    return (smoe_screen){size.ws_col, size.ws_row, term && strcmp(term, "dumb") != 0};
}

smoe_paper smoe_cmd_paper(const smoe_options *options, FILE *out) {
    return (smoe_paper){.columns = smoe_cmd_screen(out).columns,
                        .bold = smoe_cmd_color(options, out)};
}

int smoe_cmd_emit(smoe_result *result, const smoe_options *options, smoe_err *err) {
    const smoe_paper paper = smoe_cmd_paper(options, stdout);
    smoe_stop_words(NULL);
    int status = smoe_result_check(result, err);
    if (!status && options->json)
        status = smoe_cmd_json(smoe_result_json(result), err);
    else if (!status)
        smoe_result_print(result, stdout, &paper);
    smoe_result_free(result);
    return status;
}

int smoe_cmd_emit_anyway(smoe_result *result, int status, const smoe_options *options,
                         smoe_err *err) {
    smoe_err other = {0};
    int printed = smoe_cmd_emit(result, options, status ? &other : err);
    return status ? status : printed;
}

void smoe_cmd_number_of(smoe_result *result, double value, char *fresh) {
    SMOE_FREED char *path = fresh;
    smoe_fact_number(result, path, value);
}

int smoe_cmd_flush(smoe_err *err) {
    return fflush(stdout) ? smoe_fail_errno(err, SMOE_RUNTIME, "standard output") : 0;
}

int smoe_cmd_json(json_t *value, smoe_err *err) {
    SMOE_FREED char *text = smoe_json_dump(value, 2);
    int status = puts(text) == EOF ? smoe_fail_errno(err, SMOE_RUNTIME, "standard output") : 0;
    json_decref(value);
    return status;
}

int smoe_cmd_no_model(const char *file, smoe_err *err) {
    SMOE_FREED char *word = smoe_shell_word(file);
    if (!(smoe_file_is_folder(file) ? smoe_run_is_checkpoint(file) : smoe_run_is_model(file)))
        return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "%s is a model, not a spec; `smoe train --init %s SPEC.yaml` starts from it, "
                     "and `smoe eval %s --print-config` prints a spec for it",
                     file, word, word);
}

int smoe_cmd_text(smoe_spec_text *text, const char *file, const smoe_options *options,
                  smoe_err *err) {
    *text = (smoe_spec_text){0};
    bool input = smoe_spec_is_input(file);
    if (!input && smoe_file_holds(file, "spec.yaml"))
        return smoe_fail(err, SMOE_USAGE, "%s is a run; its spec is %s/spec.yaml", file, file);
    if (!input && smoe_cmd_no_model(file, err)) return -1;
    if (!input && smoe_file_is_folder(file))
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a folder, not a spec; smoe data --suggest prints one for a folder "
                         "of images",
                         file);
    int status = smoe_spec_text_read(text, file, err);
    text->profile = options->profile;
    text->scan = options->scan;
    return status;
}

int smoe_cmd_read(smoe_spec *spec, const char *file, const smoe_options *options,
                  char *const *assign, size_t count, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    if (smoe_cmd_text(&text, file, options, err)) return -1;
    return smoe_budget_parse(spec, &text, assign, count, err);
}

/* The keys that have no effect for the same reason as the one in front of `from`. */
static void remark_on(const smoe_spec *spec, const smoe_idle *first, size_t from) {
    smoe_idle idle;
    char shown[200];
    fprintf(stderr, "%s:%zu:%zu: %s", smoe_text_shown(spec->file, shown, sizeof shown), first->line,
            first->column, first->key);
    while ((from = smoe_spec_idle(spec, from, &idle)))
        if (!strcmp(idle.why, first->why)) fprintf(stderr, ", %s", idle.key);
    fprintf(stderr, ": no effect: %s\n", first->why);
}

void smoe_cmd_remarks(const smoe_spec *spec, const smoe_options *options) {
    smoe_idle idle, before;
    for (size_t at = 0; !options->quiet && (at = smoe_spec_idle(spec, at, &idle));) {
        bool said = false;
        for (size_t i = 0; (i = smoe_spec_idle(spec, i, &before)) && i < at;)
            said |= !strcmp(before.why, idle.why);
        if (!said) remark_on(spec, &idle, at);
    }
}

void smoe_cmd_unverified(const smoe_safetensors *file, const smoe_options *options) {
    SMOE_FREED char *text = options->quiet ? NULL : smoe_model_file_remark(file);
    if (text) smoe_cmd_print(stderr, "%s\n", text);
}

int smoe_cmd_choice(smoe_file_choice *choice, const smoe_options *options, smoe_err *err) {
    const char *grid = options->grid;
    int end = 0;
    *choice = (smoe_file_choice){.weights = options->weights};
    if (!grid || (!grid[strspn(grid, "0123456789x")] &&
                  sscanf(grid, "%4zux%4zu%n", &choice->rows, &choice->columns, &end) == 2 &&
                  !grid[end] && choice->rows && choice->columns))
        return 0;
    return smoe_fail(err, SMOE_USAGE, "--grid %s: expected ROWSxCOLUMNS, as 14x14", grid);
}

int smoe_cmd_model(smoe_safetensors **file, const char *arg, const char *which,
                   const smoe_options *options, smoe_err *err) {
    smoe_file_choice choice;
    if (smoe_cmd_choice(&choice, options, err) || smoe_run_model(file, arg, which, &choice, err))
        return -1;
    smoe_cmd_unverified(*file, options);
    return 0;
}

int smoe_cmd_spec(smoe_spec *spec, const char *file, const smoe_options *options, smoe_err *err) {
    char classes[48];
    size_t count = options->overrides;
    SMOE_FREED char **assign = smoe_alloc(count + 1, sizeof *assign);
    if (count) memcpy(assign, options->assign, count * sizeof *assign);
    snprintf(classes, sizeof classes, "data.classes=%ld", options->classes);
    if (options->classes) assign[count++] = classes;
    if (smoe_cmd_read(spec, file, options, assign, count, err)) return -1;
    smoe_cmd_remarks(spec, options);
    return 0;
}

int smoe_cmd_print_config(const smoe_spec *spec, smoe_err *err) {
    if (smoe_spec_write_yaml(spec, stdout, true))
        return smoe_fail_errno(err, SMOE_RUNTIME, "standard output");
    return 0;
}

bool smoe_cmd_color(const smoe_options *options, FILE *out) {
    if (strcmp(options->color, "auto")) return !strcmp(options->color, "always");
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM"), *force = getenv("CLICOLOR_FORCE");
    if ((no && *no) || (term && !strcmp(term, "dumb"))) return false;
    if (force && *force && strcmp(force, "0")) return true;
    return isatty(fileno(out));
}

int smoe_cmd_classes(const smoe_spec *spec, bool needed, size_t *classes, smoe_scan *scan,
                     smoe_err *err) {
    smoe_err why = {0};
    if (!smoe_cost_classes(spec, classes, scan, &why)) return 0;
    if (needed) return *err = why, -1;
    smoe_fail(
        err, SMOE_USAGE,
        "the number of classes is known only from the data: give --classes N or data.classes=N");
    return smoe_fail_more(err, SMOE_USAGE, "%s", why.text);
}

int smoe_cmd_catch(const volatile sig_atomic_t **stop, smoe_scan *scan, smoe_err *err) {
    *stop = smoe_stop_catch();
    if (!*stop) return smoe_fail_errno(err, SMOE_RUNTIME, "cannot catch signals");
    if (scan) scan->stop = *stop;
    return 0;
}

bool smoe_cmd_names_spec(const char *path) {
    const char *end = strrchr(path, '.');
    return smoe_spec_is_input(path) || (end && (!strcmp(end, ".yaml") || !strcmp(end, ".yml")));
}

bool smoe_cmd_missing_folder(const char *path) {
    return !smoe_cmd_names_spec(path) && smoe_file_is_absent(path);
}

int smoe_cmd_writable(const char *path, bool makes, smoe_err *err) {
    SMOE_FREED char *folder = smoe_alloc_text(path);
    struct stat there;
    for (;;) {
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
        SMOE_FREED char *inside = smoe_text_format("%s/.", slash ? folder : ".");
        if (!access(inside, W_OK | X_OK)) return 0;
        bool missing = errno == ENOENT;
        if (missing && slash && !lstat(folder, &there))
            return smoe_fail(err, SMOE_RUNTIME,
                             "%s: cannot write: %s is a symbolic link that leads nowhere", path,
                             folder);
        if (!missing || !slash || !makes)
            return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", path);
    }
}

/* Where a file is or will be, fresh; NULL: it is a device, which takes any number of results. */
static char *place_of_file(const char *path) {
    struct stat there;
    SMOE_FREED char *folder = smoe_file_folder(path), *whole = realpath(folder, NULL);
    if (!stat(path, &there)) return S_ISREG(there.st_mode) ? realpath(path, NULL) : NULL;
    return smoe_text_format("%s/%s", whole ? whole : folder, basename(path));
}

/* Refuses a result that would be written to the same file as another, however its path is spelt. */
static int check_apart(const char *path, const smoe_options *options, smoe_err *err) {
    const char *const others[] = {options->logits, options->labels, options->predictions};
    for (size_t i = 0; i < SMOE_COUNT(others); i++) {
        if (!others[i] || others[i] == path) continue;
        SMOE_FREED char *a = place_of_file(path), *b = place_of_file(others[i]);
        if (a && b && !strcmp(a, b))
            return smoe_fail(err, SMOE_USAGE, "%s and %s are the same file", path, others[i]);
    }
    return 0;
}

/* The files of a checkpoint belong together, and training deletes its folder. */
static int check_checkpoints(const char *path, smoe_err *err) {
    SMOE_FREED char *folder = smoe_file_folder(path);
    SMOE_FREED char *above = realpath(folder, NULL);
    for (char *slash; above && (slash = strrchr(above, '/'));) {
        bool ckpt = !strcmp(slash, "/ckpt");
        *slash = '\0';
        if (ckpt && smoe_run_is_folder(above))
            return smoe_fail(err, SMOE_USAGE,
                             "%s is among the checkpoints of the run %s, whose files belong "
                             "together; give a name outside its ckpt/",
                             path, above);
    }
    return 0;
}

int smoe_cmd_plain_name(const char *path, smoe_err *err) {
    struct stat link, there;
    if (!strcmp(path, "-"))
        return smoe_fail(err, SMOE_USAGE, "-: give the name of a file; ./- is a file of this name");
    if (lstat(path, &link) || !S_ISLNK(link.st_mode)) return 0;
    if (stat(path, &there))
        return smoe_fail(err, SMOE_USAGE, "%s: a symbolic link that leads nowhere", path);
    if (!S_ISREG(there.st_mode)) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s is a link to a file; give the name of that file", path);
}

int smoe_cmd_target(const char *path, const smoe_options *options, smoe_err *err) {
    struct stat there;
    if (!path) return 0;
    if (smoe_cmd_plain_name(path, err)) return -1; /* a link to a file: /dev/stdout may be one */
    if (check_apart(path, options, err) || check_checkpoints(path, err)) return -1;
    bool exists = !stat(path, &there);
    if (!exists && errno == ENAMETOOLONG)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot write", path);
    if (exists && S_ISDIR(there.st_mode))
        return smoe_fail(err, SMOE_USAGE, "%s is a folder; give the name of a file in it", path);
    bool device = exists && !S_ISREG(there.st_mode);
    if (exists && !device && !options->force)
        return smoe_fail(err, SMOE_USAGE, "%s exists already; --force replaces it", path);
    bool ours = !options->comm || !options->comm->rank;
    size_t length = options->out ? strlen(options->out) : 0;
    bool makes = length && !strncmp(path, options->out, length) && path[length] == '/';
    return ours && !device ? smoe_cmd_writable(path, makes, err) : 0;
}

int smoe_cmd_no_run(const smoe_options *options, smoe_err *err) {
    if (!options->out || !smoe_file_holds(options->out, "spec.yaml")) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s is a run; -o DIR names another folder", options->out);
}

int smoe_cmd_hold(const smoe_options *options, smoe_err *err) {
    const char *out = options->out;
    if (!out || (options->comm && options->comm->rank)) return 0;
    bool missing = smoe_file_is_absent(out);
    if (smoe_cmd_writable(out, true, err) || smoe_file_make_folder(out, err)) return -1;
    if (missing) {
        smoe_file_drop_empty(out);
        atexit(smoe_file_drop);
    }
    int fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* open until the process ends */
    if (fd < 0 || !smoe_file_lock(fd)) return 0;
    close(fd);
    if (errno != EWOULDBLOCK) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot lock", out);
    return smoe_fail(err, SMOE_RUNTIME,
                     "%s: another command is writing there; wait for it, or give another folder",
                     out);
}

int smoe_cmd_folder(const char *dir, smoe_err *err) {
    struct stat there;
    if (stat(dir, &there) || S_ISDIR(there.st_mode)) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s is a file and not a folder; -o DIR names a folder", dir);
}

void smoe_cmd_planned(const char *dir, bool there, const smoe_options *options) {
    bool used = options->resume || options->extend || options->force;
    if (there && options->dry_run && !used && !options->quiet)
        smoe_cmd_print(stderr, "%s: exists already; without --dry-run this would be refused\n",
                       dir);
}

int smoe_cmd_targets(const char *files, const smoe_options *options, smoe_err *err) {
    char file[64];
    if (options->out && smoe_cmd_folder(options->out, err)) return -1;
    while (options->out && smoe_text_next(&files, ' ', file, sizeof file)) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", options->out, file);
        if (smoe_cmd_target(path, options, err)) return -1;
    }
    return 0;
}

void smoe_cmd_cost(smoe_result *result, const smoe_cost *c) {
    smoe_result_facts(
        result, {smoe_metric_name(SMOE_METRIC_PARAMS), .number = c->params},
        {"params_active", .number = c->params_active},
        {"params_expert", .number = c->params_expert},
        {smoe_metric_name(SMOE_METRIC_FLOPS_INFER), .number = c->flops_infer_per_image},
        {smoe_metric_name(SMOE_METRIC_FLOPS_TRAIN), .number = c->flops_train_per_image},
        {smoe_metric_name(SMOE_METRIC_FLOPS_INFER_COMPUTED),
         .number = c->flops_infer_computed_per_image},
        {smoe_metric_name(SMOE_METRIC_FLOPS_TRAIN_COMPUTED),
         .number = c->flops_train_computed_per_image},
        {smoe_metric_name(SMOE_METRIC_TRAIN_EXAFLOP), .number = c->train_exaflop},
        {"bytes:weights", .number = c->bytes.weights},
        {"bytes:gradients", .number = c->bytes.gradients},
        {"bytes:optimizer", .number = c->bytes.optimizer},
        {"bytes:activations", .number = c->bytes.activations});
}

void smoe_cmd_parameters(smoe_result *result, const smoe_cost *c) {
    char a[32], b[32], d[32];
    smoe_text_si(a, sizeof a, c->params, "");
    if (c->params_expert > 0)
        smoe_result_line(result, "parameters", "%s, of which %s in experts; %s active per token", a,
                         smoe_text_si(b, sizeof b, c->params_expert, ""),
                         smoe_text_si(d, sizeof d, c->params_active, ""));
    else
        smoe_result_line(result, "parameters", "%s", a);
}

const char *smoe_cmd_estimate_text(char *buf, size_t size, const smoe_estimate *e) {
    char time[32];
    if (!e->fits)
        snprintf(buf, size, "does not fit");
    else
        snprintf(buf, size, "%s%s", e->measured ? "" : "about ",
                 smoe_cmd_time(time, sizeof time, e->seconds));
    return buf;
}

int smoe_cmd_width(const smoe_options *options, double *inches, smoe_err *err) {
    static const struct {
        const char *name;
        double inches;
    } units[] = {{"in", 1}, {"cm", 1 / 2.54}, {"mm", 0.1 / 2.54}};
    const char *text = options->figure_width;
    *inches = 0;
    if (!text) return 0;
    for (size_t i = 0; i < SMOE_COUNT(units); i++) {
        if (!smoe_text_ends(text, units[i].name)) continue;
        SMOE_FREED char *part = smoe_alloc_part(text, strlen(text) - strlen(units[i].name));
        double number = 0;
        if (smoe_value_number(part, false, &number)) *inches = number * units[i].inches;
    }
    if (*inches >= 2 && *inches <= 40) return 0;
    return smoe_fail(
        err, SMOE_USAGE,
        "--figure-width: '%s' is not a width from 2in to 40in; say 3.25in, 8.2cm or 82mm", text);
}

void smoe_cmd_undrawn(const smoe_options *options, const char *folder, const char *scripts) {
    if (smoe_gnuplot_hung())
        smoe_cmd_print(stderr, "gnuplot did not end in %d seconds and was killed; %s/%s\n",
                       SMOE_GNUPLOT_MOST, folder, scripts);
    else if (!options->quiet)
        smoe_cmd_print(stderr, "gnuplot is not installed, or failed; %s/%s\n", folder, scripts);
}

const char *smoe_cmd_time(char *buf, size_t size, double seconds) {
    const double hour = 3600, day = 24 * hour, year = 365.25 * day;
    if (!(seconds >= 0 && seconds < 1e15)) {
        snprintf(buf, size, "?");
        return buf;
    }
    long s = lround(seconds);
    if (seconds >= 1000 * year)
        snprintf(buf, size, "%.0f thousand years", seconds / year / 1000);
    else if (seconds >= 2 * year)
        snprintf(buf, size, "%.*f years", seconds < 10 * year, seconds / year);
    else if (seconds >= 2 * day)
        snprintf(buf, size, "%.*f days", seconds < 10 * day, seconds / day);
    else if (s >= 3600)
        snprintf(buf, size, "%ld h %ld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(buf, size, "%ld min %ld s", s / 60, s % 60);
    else
        snprintf(buf, size, "%ld s", s);
    return buf;
}

const char *smoe_cmd_loss(char *buf, size_t size, double loss) {
    snprintf(buf, size, fabs(loss) < 1000 ? "%.4f" : "%.4g", loss);
    return buf;
}
