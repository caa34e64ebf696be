/* Functions that the commands share: printing, reading a spec, trained models. Only cmd/ prints. */
#pragma once

#include "opt.h"
#include "base/file.h"
#include "base/json.h"
#include "base/result.h"
#include "bench/bench.h"
#include "data/dataset.h"
#include "draw/report.h"
#include "store/run.h"

/* One function per entry of commands.def; main.c calls them. Returns 0, or -1 with err, whose code
 * is the exit status. */
#define COMMAND(id, ...) smoe_command_run cmd_##id;
#include "commands.def"

/* Text line by line, each after `before`. */
void smoe_cmd_lines(FILE *out, const char *before, const char *text);

/* Every line of err on stderr, after "smoe COMMAND: "; command may be NULL. */
void smoe_cmd_complain(const smoe_command *command, const smoe_err *err);

/* Where an argument is missing: adds to the message which key=value may be meant as a file, since
 * it is there or has no key of the spec. Returns -1. */
int smoe_cmd_taken(const smoe_options *options, smoe_err *err);

/* printf for what holds names of files and texts of others: control characters but the newline are
 * replaced, so that none reaches a terminal. */
#define smoe_cmd_print(out, ...) smoe_cmd_print_text(out, smoe_text_format(__VA_ARGS__))
void smoe_cmd_print_text(FILE *out, char *fresh);

/* What is known about a terminal; all zero where `out` is none. */
typedef struct smoe_screen {
    size_t columns, rows; /* 0: not known */
    bool redraws;         /* lines on it can be replaced */
} smoe_screen;
smoe_screen smoe_cmd_screen(FILE *out);

/* How wide `out` is, and whether headings are bold on it. */
smoe_paper smoe_cmd_paper(const smoe_options *options, FILE *out);

/* Prints the result on stdout, as text or with --json as JSON, and frees it. */
int smoe_cmd_emit(smoe_result *result, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* The same, although its files could not be written: `status` is -1 then, and err says why. The
 * result of long work is not lost with them. */
int smoe_cmd_emit_anyway(smoe_result *result, int status, const smoe_options *options,
                         smoe_err *err) SMOE_MUST_CHECK;

/* A fact that is a number, whose key is put together: "fewshot:10". */
#define smoe_cmd_number(result, value, ...) \
    smoe_cmd_number_of(result, value, smoe_text_format(__VA_ARGS__))
void smoe_cmd_number_of(smoe_result *result, double value, char *fresh);

/* What is printed so far reaches standard output, or err has the reason why not. */
int smoe_cmd_flush(smoe_err *err) SMOE_MUST_CHECK;

/* Prints `value` on stdout as indented JSON and releases it. */
int smoe_cmd_json(json_t *value, smoe_err *err) SMOE_MUST_CHECK;

/* The spec in force on stdout, each value with its origin. */
int smoe_cmd_print_config(const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

/* Whether to colour what goes to `out`: --color, then NO_COLOR, TERM=dumb, CLICOLOR_FORCE, then
 * whether it is a terminal. */
bool smoe_cmd_color(const smoe_options *options, FILE *out);

/* SMOE_USAGE if FILE, where a spec is needed, is a model or a folder with one. */
int smoe_cmd_no_model(const char *file, smoe_err *err) SMOE_MUST_CHECK;

/* The text of FILE, with --profile, as specs are parsed from. Free with smoe_spec_text_free in any
 * case. */
int smoe_cmd_text(smoe_spec_text *text, const char *file, const smoe_options *options,
                  smoe_err *err) SMOE_MUST_CHECK;

/* The spec of FILE with --profile and overrides. */
int smoe_cmd_read(smoe_spec *spec, const char *file, const smoe_options *options,
                  char *const *assign, size_t count, smoe_err *err) SMOE_MUST_CHECK;

/* Prints which values of the file have no effect, unless --quiet. */
void smoe_cmd_remarks(const smoe_spec *spec, const smoe_options *options);

/* --weights and --grid. */
int smoe_cmd_choice(smoe_file_choice *choice, const smoe_options *options,
                    smoe_err *err) SMOE_MUST_CHECK;

/* A model file, as smoe_run_model finds and opens it; and a remark if it is another program's. */
int smoe_cmd_model(smoe_safetensors **file, const char *arg, const char *which,
                   const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Prints what a user should know of a file of another program, unless --quiet. */
void smoe_cmd_unverified(const smoe_safetensors *file, const smoe_options *options);

/* The spec of FILE with the command's overrides, of which --classes is one, and remarks on it. */
int smoe_cmd_spec(smoe_spec *spec, const char *file, const smoe_options *options,
                  smoe_err *err) SMOE_MUST_CHECK;

/* N: data.classes, or the number that the source always has; otherwise the data is opened to find
 * it. Where the data is not `needed`, a failure is that the number was not given. */
int smoe_cmd_classes(const smoe_spec *spec, bool needed, size_t *classes, smoe_scan *scan,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Catches requests to stop (base/stop.h), where something would be lost otherwise; the scan of the
 * options, which may be NULL, ends by them, too. */
int smoe_cmd_catch(const volatile sig_atomic_t **stop, smoe_scan *scan,
                   smoe_err *err) SMOE_MUST_CHECK;

/* Whether a path has the name of a spec; whether it has not, and nothing is there: a run or a sweep
 * is meant. */
bool smoe_cmd_names_spec(const char *path);
bool smoe_cmd_missing_folder(const char *path);

/* Whether a file can be written at a path: in its folder, or in the nearest one that is there,
 * where the command makes the others. */
int smoe_cmd_writable(const char *path, bool makes, smoe_err *err) SMOE_MUST_CHECK;

/* Refuses a link to a file, or to nothing, which would be replaced and not the file, and "-", which
 * is no stream here. */
int smoe_cmd_plain_name(const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Refuses, before the work starts, to overwrite an existing file without --force, or to write where
 * that is not possible; NULL: no file. */
int smoe_cmd_target(const char *path, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Makes the folder of -o, if it is given, and locks it until the process ends: two commands that
 * write there at once would mix their files. Before smoe_cmd_targets, which sees what an earlier
 * command has written. */
int smoe_cmd_hold(const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* smoe_cmd_target of files in the folder of -o, if it is given: "a.csv b.svg". */
int smoe_cmd_targets(const char *files, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE if the folder that is to be made or filled is a file. */
int smoe_cmd_folder(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Of a dry run that is new: a remark if its folder is there, so that the command itself would be
 * refused. */
void smoe_cmd_planned(const char *dir, bool there, const smoe_options *options);

/* Refuses a run as the folder of -o, where files of the result would have names of its own files.
 */
int smoe_cmd_no_run(const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* The facts of a cost; and the parameters as a line. */
void smoe_cmd_cost(smoe_result *result, const smoe_cost *cost);
void smoe_cmd_parameters(smoe_result *result, const smoe_cost *cost);

/* The time of an estimate: "12 min 34 s", "about 3.2 years", "does not fit". Returns buf. */
const char *smoe_cmd_estimate_text(char *buf, size_t size, const smoe_estimate *estimate);

/* --figure-width in inches; 0: none is given. */
int smoe_cmd_width(const smoe_options *options, double *inches, smoe_err *err) SMOE_MUST_CHECK;

/* Prints that gnuplot did not draw, and where the scripts are: FOLDER/SCRIPTS. With --quiet only if
 * it hung and had to be killed: that is a failure, while a machine without gnuplot is none. */
void smoe_cmd_undrawn(const smoe_options *options, const char *folder, const char *scripts);

/* Seconds in the two largest units: "5 s", "4 min 5 s", "1 h 2 min"; from two days on "2.5 days",
 * "30 years". Returns buf. */
const char *smoe_cmd_time(char *buf, size_t size, double seconds);

/* A loss: four decimals, or four digits of a large one. Returns buf. */
const char *smoe_cmd_loss(char *buf, size_t size, double loss);

/* ---- trained models: RUN|CHECKPOINT ---------------------------------------------------------- */

typedef struct smoe_loaded {
    const char *path; /* of the file */
    smoe_spec spec;
    smoe_dataset *set;      /* the split eval.split */
    size_t batch;           /* smoe_moe_eval_batch of all images */
    smoe_safetensors *file; /* whose pages are the weights */
    smoe_model *model;      /* reserved for a batch */
    bool trains; /* set before: the command also trains, so that keys of training have an effect */
    smoe_scan *scan; /* of the options */
    bool quiet;      /* no remark on what is resized */
} smoe_loaded;

/* The file and the spec of the argument. Release with smoe_loaded_free in any case. */
int smoe_load_spec(smoe_loaded *loaded, const char *arg, const smoe_options *options,
                   smoe_err *err) SMOE_MUST_CHECK;

/* After it: data, model and weights. */
int smoe_load_model(smoe_loaded *loaded, smoe_err *err) SMOE_MUST_CHECK;

/* What is remarkable about its data, on standard error. */
void smoe_load_remarks(const smoe_loaded *loaded);

void smoe_loaded_free(smoe_loaded *loaded);

/* ---- the first and the last lines of a long command ------------------------------------------ */

/* Adds the line "data: shapes, train 900 images, test 100; 10 classes", and the epochs of training
 * if there is a training split; either may be NULL. */
void smoe_heading_data(smoe_result *out, const smoe_spec *spec, const smoe_dataset *train,
                       const smoe_dataset *test);

/* Passes over the training images. Each leaves out the images after its last full batch, as in the
 * records of a run. */
double smoe_heading_epochs(const smoe_spec *spec, const smoe_dataset *train);

/* "model: soft, 16 experts in 2 of 4 blocks; width 96; 2.7 M parameters". */
void smoe_heading_model(smoe_result *out, const smoe_spec *spec, smoe_model *model);

/* Optimiser and schedule, what is frozen, and a line per group of tensors. */
void smoe_heading_optimizer(smoe_result *out, const smoe_spec *spec, smoe_model *model);

/* Data and model of a spec whose data is not open: it is counted here. Data that cannot be read is
 * left to the command, whose messages are better. */
void smoe_heading_spec(smoe_result *out, const smoe_spec *spec, smoe_scan *scan);

/* Prints the data and the model of a command without training, and where the model lies. */
void smoe_heading_loaded(const smoe_loaded *loaded, const smoe_options *options);

/* Adds "LABEL  DIR: a.csv, b.svg", of the files "a.csv b.svg" that are there, and `more`, which may
 * be NULL. Nothing where none is. */
void smoe_heading_list(smoe_result *out, const char *label, const char *folder, const char *files,
                       const char *more);

/* Prints the last line: the same with the label "files". */
void smoe_heading_files(const smoe_options *options, const char *folder, const char *files,
                        const char *more);

/* Prints the lines on stderr, unless --quiet or --json, and frees them. */
void smoe_heading_print(smoe_result *lines, const smoe_options *options);

/* ---- the provenance of a page: the command that made it, and the runs it shows --------------- */

typedef struct smoe_origin {
    smoe_report_fact *fact; /* [count]; terms and texts are owned */
    size_t count;
} smoe_origin;

/* Command, date, version and machine. Free in any case. */
void smoe_origin_open(smoe_origin *origin, const smoe_options *options);
void smoe_origin_free(smoe_origin *origin);

/* A model: its run and seed, when, where and by which program the run was started, if `env`, its
 * env.json, is not NULL, and the spec as YAML. */
void smoe_origin_model(smoe_origin *origin, const char *run, const smoe_spec *spec,
                       const json_t *env);

/* Adds a fact; the text is taken over. */
void smoe_origin_add(smoe_origin *origin, const char *term, char *text, bool folded);

/* ---- several processes ----------------------------------------------------------------------- */

/* Refuses processes that a launcher started together if one process does the command
 * (SMOE_ALONE, SMOE_CELLS), unless they share the cells of a sweep; with one message. */
int smoe_alone(const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Runs `command` with options->comm, whose processes all end with the same status. Only process 0
 * prints, results and what fails. Each gets its share of the cores, where threads are not given. */
int smoe_together(const smoe_options *options, smoe_command_run *command, smoe_err *err);
