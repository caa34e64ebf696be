/*
 * Entry points of lib/spec: reading a spec from a file or from text, and freeing it. The tables are
 * in schema.c, values in value.c, YAML in read.c, checks between keys in resolve.c, writing in
 * write.c, and the quantities that follow from a resolved spec in spec.c and routers.c.
 */
#include "spec/schema.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 }; /* largest size of a spec file in bytes */

/* A resolved spec states every key: if some are missing, it was cut, and they would have
 * defaults. */
static void check_whole(smoe_reading *reading, const char *text, size_t length) {
    static const char mark[] = SMOE_SPEC_RESOLVED;
    const smoe_provenance first = {.kind = SMOE_FROM_FILE, .line = 1, .column = 1};
    char line[64];
    size_t given = 0;
    snprintf(line, sizeof line, "%.*s", (int)(length < 63 ? length : 63), text);
    if (strncmp(line, mark, sizeof mark - 1) || reading->problems) return;
    size_t keys = strtoul(line + sizeof mark - 1, NULL, 10);
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++)
        given += reading->spec->origin[i].kind == SMOE_FROM_FILE;
    if (text[length - 1] != '\n')
        smoe_reading_problem(reading, &first, NULL, "this resolved spec ends within a line");
    else if (given < keys)
        smoe_reading_problem(reading, &first, NULL,
                             "%zu of the %zu keys of this resolved spec are missing; without this "
                             "line they have their defaults",
                             keys - given, keys);
}

int smoe_spec_parse(smoe_spec *spec, const smoe_spec_text *from, char *const *overrides,
                    size_t count, smoe_err *err) {
    const char *label = from->label ? from->label : "spec";
    const size_t length = from->length ? from->length : strlen(from->text);
    smoe_reading reading = {.spec = spec,
                            .err = err,
                            .label = label,
                            .overrides = overrides,
                            .steps = from->steps,
                            .trained = from->trained};
    *spec = (smoe_spec){.trained = from->trained};
    if (err) *err = (smoe_err){0};
    spec->origin = smoe_alloc(SMOE_SCHEMA_COUNT, sizeof *spec->origin);
    spec->file = smoe_alloc_text(label);
    if (from->folder) spec->folder = smoe_alloc_text(from->folder);
    if (length > LARGEST)
        return smoe_fail(err, SMOE_USAGE, "%s: larger than 1 MiB, so not a spec", label);
    if (smoe_reading_presets(&reading) ||
        (from->profile && smoe_reading_profile(&reading, from->profile)))
        return -1;
    smoe_reading_file(&reading, from->text, length);
    check_whole(&reading, from->text, length);
    for (size_t i = 0; i < count; i++) smoe_reading_override(&reading, i);
    smoe_reading_resolve(&reading);
    if (!reading.problems && !from->of_cells) smoe_reading_idle(&reading);
    return reading.problems ? -1 : 0;
}

bool smoe_spec_is_input(const char *file) {
    return !strcmp(file, "-");
}

/* A named pipe is refused, because it may never have a writer. An unnamed one, such as /dev/stdin
 * or <(command) of a shell, has one. NULL with err. */
static FILE *open_spec(const char *file, smoe_err *err) {
    struct stat there;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SMOE_FREED char *whole =
        fd >= 0 && !fstat(fd, &there) && S_ISFIFO(there.st_mode) ? realpath(file, NULL) : NULL;
    FILE *in = NULL;
    if (whole)
        smoe_fail(err, SMOE_USAGE, "%s: a pipe, not a file; use - to read standard input", file);
    else if (fd < 0 || fcntl(fd, F_SETFL, 0) || !(in = fdopen(fd, "r")))
        smoe_fail_errno(err, SMOE_USAGE, "%s: cannot be opened", file);
    if (!in && fd >= 0) close(fd);
    return in;
}

/* At most LARGEST + 1 bytes of the file, so that a larger one is seen to be larger. */
static char *slurp(const char *file, size_t *length, smoe_err *err) {
    bool standard = smoe_spec_is_input(file);
    FILE *in = standard ? stdin : open_spec(file, err);
    if (!in) return NULL;
    char *text = smoe_alloc(LARGEST + 1, 1);
    *length = fread(text, 1, LARGEST + 1, in);
    if (ferror(in)) {
        smoe_fail_errno(err, errno == EISDIR ? SMOE_USAGE : SMOE_RUNTIME, "%s: cannot be read",
                        file);
        free(text);
        text = NULL;
    }
    if (!standard) fclose(in);
    return text;
}

int smoe_spec_text_read(smoe_spec_text *to, const char *file, smoe_err *err) {
    bool standard = smoe_spec_is_input(file);
    *to = (smoe_spec_text){0};
    to->text = slurp(file, &to->length, err);
    if (!to->text) return -1;
    SMOE_FREED char *whole = standard ? NULL : realpath(file, NULL);
    to->label = smoe_alloc_text(standard ? "<stdin>" : file);
    to->folder = standard ? NULL : whole ? smoe_file_folder(whole) : smoe_alloc_text(".");
    return 0;
}

void smoe_spec_text_free(smoe_spec_text *text) {
    free((char *)text->text);
    free((char *)text->label);
    free((char *)text->folder);
    *text = (smoe_spec_text){0};
}

int smoe_spec_read(smoe_spec *spec, const char *file, char *const *overrides, size_t count,
                   smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    *spec = (smoe_spec){0};
    if (err) *err = (smoe_err){0};
    if (smoe_spec_text_read(&text, file, err)) return -1;
    return smoe_spec_parse(spec, &text, overrides, count, err);
}

void smoe_spec_free(smoe_spec *spec) {
    if (!spec) return;
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) smoe_value_clear(spec, &smoe_schema[i]);
    smoe_schema_clear_sweep(&spec->sweep);
    free(spec->file);
    free(spec->folder);
    free(spec->origin);
    *spec = (smoe_spec){0};
}

/* ---- of older versions ----------------------------------------------------------------------- */

void smoe_spec_continue(smoe_spec *spec) {
    smoe_provenance *origin = &spec->origin[smoe_schema_find("train.optimizer.groups")];
    smoe_groups *groups = &spec->train.optimizer.groups;
    if (origin->kind != SMOE_FROM_DEFAULT || !(spec->train.optimizer.weight_decay > 0)) return;
    *groups = (smoe_groups){.count = 1};
    groups->group[0] =
        (smoe_group){.match = "*.router.phi", .lr = 1, .decay = spec->train.optimizer.weight_decay};
    origin->kind = SMOE_FROM_FITTED;
}
