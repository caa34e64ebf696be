/*
 * What a command found: facts, sentences and tables, in the order in which they are read. Writers
 * print a result as text, JSON, Markdown and files of comma-separated values; each fact and column
 * is named once, and says where it is shown (base/frame.h).
 */
#pragma once

#include "base/frame.h"

typedef struct smoe_result {
    struct smoe_item *item; /* [items], for the writers alone: below */
    size_t items;
    const char *title; /* of a part: its heading where it is printed, or NULL; borrowed */
} smoe_result;

void smoe_result_free(smoe_result *result);

/* Facts, each with its key in JSON, with the objects around it ("bytes:weights"), its value, and
 * other members of smoe_column: {"steps", .number = n}, {"bytes:weights", .number = b}. It is
 * printed as a line of its own where it has a heading. Text is copied; NAN and NULL: no value;
 * where there is none, no line is printed. */
void smoe_result_add(smoe_result *result, const smoe_column *fact, size_t facts);
#define smoe_result_facts(result, ...)                          \
    smoe_result_add(result, (const smoe_column[]){__VA_ARGS__}, \
                    sizeof((const smoe_column[]){__VA_ARGS__}) / sizeof(smoe_column))
#define smoe_fact_number(result, label, ...) \
    smoe_result_facts(result, {label, .number = __VA_ARGS__})
#define smoe_fact_text(result, label, ...) \
    smoe_result_facts(result, {label, SMOE_TEXT_OF(__VA_ARGS__)})

/* In JSON alone: a list of numbers; a list of parts that is there without any; the members of an
 * object that was recorded as JSON. */
void smoe_result_numbers(smoe_result *result, const char *key, const double *value, size_t count);
void smoe_result_list(smoe_result *result, const char *key);
void smoe_result_members(smoe_result *result, const json_t *object);

/* A sentence that is printed, behind a label in a column of labels; the label NULL: it begins
 * where the line does; "": below the sentence before. */
#define smoe_result_line(result, label, ...) \
    smoe_result_sentence(result, label, smoe_text_format(__VA_ARGS__))
void smoe_result_sentence(smoe_result *result, const char *label, char *fresh);

/* Adds to the sentence that was added last. */
#define smoe_result_more(result, ...) smoe_result_longer(result, smoe_text_format(__VA_ARGS__))
void smoe_result_longer(smoe_result *result, char *fresh);

/* A table that belongs to the result, to be filled: in JSON a list with this key of one object per
 * row; key "": the whole JSON is the list; NULL: it is not there. Without rows it is nowhere.
 * `name` is that of its file, NULL: it has none. Title and caption are printed above it. */
smoe_frame *smoe_result_table(smoe_result *result, const char *key, const char *name);

/* The same of a table that is in JSON alone. */
smoe_frame *smoe_result_records(smoe_result *result, const char *key);

/* The same of a table that is smoe_frame_json in JSON, there and as a file also without rows; it is
 * not printed unless `printed` is set. */
smoe_frame *smoe_result_frame(smoe_result *result, const char *key, bool printed);

/* A result within it: an object of the list `key` in JSON; key NULL: its members are those of the
 * whole; "": the whole JSON is the list. */
smoe_result *smoe_result_part(smoe_result *result, const char *key);

/* An object within it, which is in JSON alone and there without members. */
smoe_result *smoe_result_object(smoe_result *result, const char *key);

/* ---- writers --------------------------------------------------------------------------------- */

/* SMOE_RUNTIME where a row of a table is wrong, before anything is written. */
int smoe_result_check(const smoe_result *result, smoe_err *err) SMOE_MUST_CHECK;

void smoe_result_print(const smoe_result *result, FILE *out, const smoe_paper *paper);
json_t *smoe_result_json(const smoe_result *result);
/* Titles are headings of the level "##". */
void smoe_result_markdown(const smoe_result *result, FILE *out, int level);
/* DIR/NAME.csv of each table, in folders that are made; of a table that belongs to the result and
 * has no rows the file is removed. */
int smoe_result_csv(const smoe_result *result, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Text that begins at column `at` and goes on there, broken between words where the paper ends; and
 * the end of the line. */
void smoe_paper_wrap(FILE *out, const char *text, size_t at, const smoe_paper *paper);

/* ---- for writers ----------------------------------------------------------------------------- */

typedef enum smoe_item_kind {
    SMOE_ITEM_FACT,
    SMOE_ITEM_VALUE,
    SMOE_ITEM_LINE,
    SMOE_ITEM_TABLE,
    SMOE_ITEM_FRAME,
    SMOE_ITEM_PART,
    SMOE_ITEM_OBJECT
} smoe_item_kind;

typedef struct smoe_item {
    smoe_item_kind kind;
    char *key; /* in JSON; of a LINE its label */
    smoe_column fact;
    smoe_datum datum;
    char *heading;     /* of a FACT, or NULL */
    char *text;        /* of a FACT, of a LINE */
    json_t *value;     /* VALUE; NULL: a list that parts are added to */
    smoe_frame *table; /* TABLE, FRAME */
    bool printed;      /* such a table */
    smoe_result *part; /* PART, OBJECT */
} smoe_item;
