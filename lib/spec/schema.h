/*
 * The entries of schema.def, also for help and completion; the origin of each value, and what
 * reading (read.c), resolving (resolve.c) and writing (write.c) share.
 */
#pragma once

#include "spec/spec.h"

typedef enum smoe_kind {
    SMOE_KIND_TEXT,      /* char *, one to 200 bytes, usable as a file name */
    SMOE_KIND_PATH,      /* char *, or NULL for null and the empty text */
    SMOE_KIND_SIZE,      /* size_t */
    SMOE_KIND_SPAN,      /* smoe_span: steps, or a share of train.steps */
    SMOE_KIND_REAL,      /* double */
    SMOE_KIND_WORD_REAL, /* double: a number, or SMOE_WORD for the word before the range */
    SMOE_KIND_BOOL,      /* bool */
    SMOE_KIND_ENUM,      /* an enum counted in the order of the choices */
    SMOE_KIND_NAME,      /* char *, one of the choices */
    SMOE_KIND_LAYERS,    /* of blocks: a word or a list; from here on all are lists */
    SMOE_KIND_SIZES,     /* smoe_series of whole numbers */
    SMOE_KIND_REALS,     /* smoe_series */
    SMOE_KIND_SHOTS,     /* eval.fewshot: a list of numbers */
    SMOE_KIND_INDICES,   /* smoe_indices: a list, or none for the word before the range */
    SMOE_KIND_GROUPS,    /* train.optimizer.groups: a list of mappings */
    SMOE_KIND_PROMPTS,   /* eval.zeroshot: a list of texts */
    SMOE_KIND_SEED = SMOE_KIND_SIZE /* the name that smoe-stable(7) promises for seeds */
} smoe_kind;

typedef struct smoe_schema_entry {
    const char *key; /* dotted */
    smoe_kind kind;
    size_t at; /* of the member in smoe_spec */
    const char *preset, *range, *help;
} smoe_schema_entry;

enum {
    SMOE_SCHEMA_COUNT = 0
#define KEY(key, kind, member, preset, range, help) +1
#include "spec/schema.def"
    ,
    SMOE_KEY_SIZE = 160,    /* room for a dotted key as written, known or not */
    SMOE_PROBLEM = 512,     /* room for the problem part of a message */
    SMOE_MOST_PROBLEMS = 40 /* reported; a file with more is probably of another kind */
};

extern const smoe_schema_entry smoe_schema[SMOE_SCHEMA_COUNT];

/* The entry of a dotted key, or -1. */
int smoe_schema_find(const char *key);
/* The first entry of a section ("model.moe"), or -1; the entries of a section are consecutive. */
int smoe_schema_section(const char *section);
/* Whether the entry with that number is in the section. */
bool smoe_schema_within(int entry, const char *section);
/* "integer in [1, 4096]", "none | pad | inception": the entry's type for people. Returns buf. */
const char *smoe_schema_type(const smoe_schema_entry *entry, char *buf, size_t size);
/* The key or section, anywhere, that an unknown key of this section was probably meant to be (one
 * of the same section wins among equals); false when nothing resembles it. */
bool smoe_schema_meant(const char *section, const char *leaf, char meant[SMOE_KEY_SIZE]);

typedef struct smoe_variant {
    const char *name;
    size_t width, depth, mlp, heads;
} smoe_variant;
/* The variant of that name; NULL where there is none. */
const smoe_variant *smoe_variant_find(const char *name);

/* ---- where a value came from ----------------------------------------------------------------- */
/* In rising order of precedence. If two values contradict each other, the later one is named. */
typedef enum smoe_provenance_kind {
    SMOE_FROM_DEFAULT,
    SMOE_FROM_FITTED,    /* the default, made smaller to fit other keys */
    SMOE_FROM_SHORTENED, /* the file's, made smaller to fit an override of train.steps */
    SMOE_FROM_VARIANT,
    SMOE_FROM_PROFILE,
    SMOE_FROM_FILE,
    SMOE_FROM_OVERRIDE
} smoe_provenance_kind;

struct smoe_provenance {
    smoe_provenance_kind kind;
    size_t line, column; /* file: counted from 1 */
    size_t index;        /* override: which */
    /* The key on the command line that replaces this value of the file (whose line and column are
     * kept), or NULL. */
    const char *replaced;
};
typedef struct smoe_provenance smoe_provenance;

/* ---- one reading of a spec, from text to resolved -------------------------------------------- */
typedef struct smoe_reading {
    smoe_spec *spec;
    smoe_err *err;
    const char *label;
    char *const *overrides;
    size_t steps; /* instead of train.flops; 0: they are not known */
    bool trained; /* the model exists: requirements of training alone are not checked */
    /* Entries with an error of their own: excluded from checks between keys. */
    bool bad[SMOE_SCHEMA_COUNT];
    size_t problems;
} smoe_reading;

/* Adds "FILE:LINE:COL: key: problem" (or "override KEY=VALUE: key: problem"); key may be NULL. */
#define smoe_reading_problem(reading, where, key, ...) \
    smoe_reading_report(reading, where, key, smoe_text_format(__VA_ARGS__))
void smoe_reading_report(smoe_reading *reading, const smoe_provenance *where, const char *key,
                         char *fresh);
/* Reports an unknown key: where such a key belongs, or which are known here. */
void smoe_reading_unknown(smoe_reading *reading, const smoe_provenance *where, const char *section,
                          const char *leaf, const char *full);
/* Excludes an entry, or the entries of a section, from the checks between keys. */
void smoe_reading_exclude(smoe_reading *reading, const char *key);

/* The five stages, in this order: defaults (-1 and err: one is not valid); a profile (-1 and err:
 * there is none of this name); the text of a file; overrides by their index; then what follows from
 * other values, and the checks of values against each other. Mistakes are counted in `problems`,
 * and each is a line of err. */
int smoe_reading_presets(smoe_reading *reading);
int smoe_reading_profile(smoe_reading *reading, const char *name) SMOE_MUST_CHECK;
void smoe_reading_file(smoe_reading *reading, const char *text, size_t length);
void smoe_reading_override(smoe_reading *reading, size_t index);
void smoe_reading_resolve(smoe_reading *reading);
/* After these stages: reports overrides without effect as mistakes. */
void smoe_reading_idle(smoe_reading *reading);

/* Frees the contents of the section, which is then empty. */
void smoe_schema_clear_sweep(smoe_sweep_spec *sweep);

/* ---- values ---------------------------------------------------------------------------------- */

/* Reads text as the entry's kind into the spec; `plain` is false for quoted text, which is never
 * null. On a mistake leaves the spec alone, says what is wrong in problem[SMOE_PROBLEM] and returns
 * -1. */
int smoe_value_set(smoe_spec *spec, const smoe_schema_entry *entry, const char *text, bool plain,
                   char *problem);
/* The same for kinds that take a list. */
int smoe_value_set_list(smoe_spec *spec, const smoe_schema_entry *entry, const double *items,
                        size_t count, char *problem);
/* A list's item: a number in the entry's range, and a whole one but for REALS. */
int smoe_value_item(const smoe_schema_entry *entry, const char *text, double *item, char *problem);
bool smoe_value_is_list(const smoe_schema_entry *entry);
/* A number in the range of the entry, a whole one, steps or a share of them; true or false. */
int smoe_value_real(const smoe_schema_entry *entry, const char *text, double *number,
                    char *problem);
int smoe_value_whole(const smoe_schema_entry *entry, const char *text, double *number,
                     char *problem);
/* Whether a text is a number, or a whole one, written as in the values of keys; finite, and a whole
 * one up to 2^53. Options and margins are read so, too. */
bool smoe_value_number(const char *text, bool whole, double *number);
int smoe_value_span(const smoe_schema_entry *entry, const char *text, smoe_span *span,
                    char *problem);
int smoe_value_bool(const char *text, bool *value, char *problem);
/* Whether all bytes of a key or a value are ASCII. */
bool smoe_value_ascii(const char *text);
/* Says what is wrong in the problem, and that something else was expected than the text; -1. */
#define smoe_value_wrong(problem, ...) (snprintf(problem, SMOE_PROBLEM, __VA_ARGS__), -1)
int smoe_value_expected(char *problem, const char *expected, const char *text);
#define SMOE_DIGITS "0123456789"
void smoe_value_clear(smoe_spec *spec, const smoe_schema_entry *entry);

/* The value as YAML text, fresh. Paths as smoe_path_portable has them. */
char *smoe_value_yaml(const smoe_spec *spec, const smoe_schema_entry *entry);
/* Text as YAML, fresh: in quotes if a reader of YAML would take it for something else. */
char *smoe_value_quoted(const char *text);
json_t *smoe_value_json(const smoe_spec *spec, const smoe_schema_entry *entry);
json_t *smoe_groups_json(const smoe_groups *groups);
json_t *smoe_prompts_json(const smoe_prompts *prompts);
/* Adds a template; -1 with `problem` if there are too many, or if it is not valid. */
int smoe_prompts_add(smoe_prompts *prompts, const char *text, char *problem);

/* The path of an entry as a resolved spec should carry it: absolute where the given one is there,
 * else as given; fresh, NULL for no path. */
char *smoe_path_portable(const smoe_spec *spec, const smoe_schema_entry *entry);
