/* JSON, made and written as text so that numbers are read back exactly. */
#ifndef SMOE_JSON_H
#define SMOE_JSON_H

#include <jansson.h>

/* A number in JSON: whole numbers as integers, as long as a double represents them exactly; null
 * for NAN and infinities. NULL when out of memory. */
json_t *smoe_json_of_number(double x);

/* Bytes as a JSON string, those that are not UTF-8 replaced by U+FFFD. Names and paths may be any
 * bytes; json_string and json_pack would return NULL. */
json_t *smoe_json_text(const char *bytes);

/* The number or boolean that the text is; else the text, with bytes that are not UTF-8 replaced. */
json_t *smoe_json_of_text(const char *text);

/* JSON as text, every real with the fewest digits from which it is read back, and a point or an
 * exponent, so that it stays a real; indent 0: on one line. Fresh; NULL when out of memory, or of
 * no value. */
char *smoe_json_dump(const json_t *value, int indent);

/* json_dumps of Jansson; fresh, NULL when out of memory. Jansson itself can leave the name of a
 * member out where memory ends, so an object is read back. */
char *smoe_json_whole(const json_t *value, size_t flags);

#endif
