/* JSON, made and written as text so that numbers are read back exactly. Making values never fails
 * for lack of memory (base/alloc.h), so results of json_object_set_new and its kind are ignored. */
#pragma once

#include "smoe/smoe.h"

#include <jansson.h>

/* A number in JSON: whole numbers as integers, as long as a double represents them exactly; null
 * for NAN and infinities. */
json_t *smoe_json_of_number(double x);

/* Bytes as a JSON string, those that are not UTF-8 replaced by U+FFFD. Names and paths may be any
 * bytes; json_string and json_pack would return NULL. */
json_t *smoe_json_text(const char *bytes);

/* The number or boolean that the text is; else the text, with bytes that are not UTF-8 replaced. */
json_t *smoe_json_of_text(const char *text);

/* Sets the member of an object, "bytes:weights" being that of another one, made where it is
 * missing. Takes over `value`. */
void smoe_json_put(json_t *object, const char *path, char separator, json_t *value);

/* The value at "a.b.c", objects within objects; NULL: there is none. Borrowed. */
json_t *smoe_json_at(const json_t *object, const char *path);

typedef void smoe_json_difference(void *user, const char *name, const json_t *a, const json_t *b);
/* Calls `differ` for each member that is in only one of two objects, or not the same in both, by
 * its dotted name, for objects within objects are walked too. A member that is missing is NULL. */
void smoe_json_compare(const json_t *a, const json_t *b, smoe_json_difference *differ, void *user);

/* The value in a regular file of at most 64 MiB; NULL, with err if that is not NULL: there is none,
 * or it is not JSON. */
json_t *smoe_json_read(const char *path, smoe_err *err);

/* The same of the file `name` in the folder of another file. */
json_t *smoe_json_beside(const char *file, const char *name, smoe_err *err);

/* Writes a file of JSON on several lines. */
int smoe_json_write(const char *path, const json_t *value, smoe_err *err) SMOE_MUST_CHECK;

/* JSON as text, every real with the fewest digits from which it is read back, and a point or an
 * exponent, so that it stays a real; indent 0: on one line. Fresh; NULL of no value. */
char *smoe_json_dump(const json_t *value, int indent);
