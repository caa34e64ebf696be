/* Functions that the commands share: printing, and reading a spec. Only cmd/ prints. */
#ifndef SMOE_CMD_H
#define SMOE_CMD_H

#include "opt.h"
#include "base/alloc.h" /* with the next two, what most commands use */
#include "base/file.h"
#include "base/json.h"
#include "base/result.h"
#include "bench/estimate.h"
#include "store/run.h"

/* One function per entry of commands.def; main.c calls them. Returns 0, or -1 with err, whose code
 * is the exit status. */
#define COMMAND(name, ...) smoe_command_run cmd_##name;
#define COMMAND_AS(id, ...) smoe_command_run cmd_##id;
#include "commands.def"
#undef COMMAND
#undef COMMAND_AS

/* Every line of err on stderr, after "smoe COMMAND: "; command may be NULL. */
void smoe_cmd_complain(const smoe_command *command, const smoe_err *err);

/* printf for what holds names of files and texts of others: control characters but the newline are
 * replaced, so that none reaches a terminal. */
void smoe_cmd_print(FILE *out, const char *fmt, ...) SMOE_PRINTF(2, 3);

/* How wide `out` is, and whether headings are bold on it. */
smoe_paper smoe_cmd_paper(const smoe_options *options, FILE *out);

/* Text that begins at column `at` and goes on there, broken between words where the terminal ends;
 * and the end of the line. */
void smoe_cmd_wrap(FILE *out, const char *text, size_t at);

/* Prints the result on stdout, as text or with --json as JSON, and frees it. */
int smoe_cmd_emit(smoe_result *result, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* A fact that is a number, whose key is put together: "fewshot:10". */
void smoe_cmd_number(smoe_result *result, double value, const char *key, ...) SMOE_PRINTF(3, 4);

/* Prints `value` on stdout as indented JSON and releases it. */
int smoe_cmd_json(json_t *value, smoe_err *err) SMOE_MUST_CHECK;

/* The spec in force on stdout, each value with its origin. */
int smoe_cmd_print_config(const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

/* Whether to colour what goes to `out`: --color, then NO_COLOR, TERM=dumb, CLICOLOR_FORCE, then
 * whether it is a terminal. */
bool smoe_cmd_color(const smoe_options *options, FILE *out);

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
int smoe_cmd_model(char **path, char **text, smoe_safetensors **file, const char *arg,
                   const char *which, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Prints what a user should know of a file of another program, unless --quiet. */
void smoe_cmd_unverified(const smoe_safetensors *file, const smoe_options *options);

/* The spec of FILE with the command's overrides, of which --classes is one, and remarks on it. */
int smoe_cmd_spec(smoe_spec *spec, const char *file, const smoe_options *options,
                  smoe_err *err) SMOE_MUST_CHECK;

/* N: `given`, data.classes, or the number that the source always has; otherwise the data is opened
 * to find it. Where the data is not `needed`, a failure is that the number was not given. */
int smoe_cmd_classes(const smoe_spec *spec, size_t given, bool needed, size_t *classes,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Refuses, before the work starts, to overwrite an existing file without --force; NULL: no file. */
int smoe_cmd_target(const char *path, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* The same of files in the folder of -o, if it is given. */
int smoe_cmd_targets(const char *const *name, size_t count, const smoe_options *options,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Refuses two results that would be written to the same file, however its path is spelt; NULL: no
 * file. */
int smoe_cmd_apart(const char *first, const char *second, smoe_err *err) SMOE_MUST_CHECK;

/* The facts of a cost; and the parameters as a line. */
void smoe_cmd_cost(smoe_result *result, const smoe_cost *cost);
void smoe_cmd_parameters(smoe_result *result, const smoe_cost *cost);

/* The time of an estimate: "12:34", "about 3.2 years", "does not fit". Returns buf. */
const char *smoe_cmd_estimate_text(char *buf, size_t size, const smoe_estimate *estimate);

/* Adds seconds (null where it does not fit), measured and fits, which are not printed. */
void smoe_cmd_estimate(smoe_result *result, const smoe_estimate *estimate);

/* --figure-width in inches; 0: none is given. */
int smoe_cmd_width(const smoe_options *options, double *inches, smoe_err *err) SMOE_MUST_CHECK;

/* Prints that gnuplot did not draw, and where the scripts are: FOLDER/SCRIPTS. With --quiet only if
 * it hung and had to be killed: that is a failure, while a machine without gnuplot is none. */
void smoe_cmd_undrawn(const smoe_options *options, const char *folder, const char *scripts);

/* Text in single quotes for a shell. */
void smoe_cmd_put_quoted(FILE *out, const char *text);

/* "1:02:03", "4:05": seconds as hours, minutes and seconds; from two days on "2.5 days", "30
 * years". Returns buf. */
const char *smoe_cmd_time(char *buf, size_t size, double seconds);

/* A loss: four decimals, or four digits of a large one. Returns buf. */
const char *smoe_cmd_loss(char *buf, size_t size, double loss);

#endif
