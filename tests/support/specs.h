/* Specs that must be right, or wrong, for the tests of the spec room. Every failure fails the test
 * that asked. */
#ifndef SPECS_H
#define SPECS_H

#include "spec/spec.h"

/* The spec of a text and up to three overrides (NULL: no more), which must be right. Free it with
 * smoe_spec_free. */
smoe_spec specs_good(const char *text, const char *a, const char *b, const char *c);

/* Such a text, called "t", and override (or NULL) must be refused with exactly this message. */
void specs_wrong(const char *text, const char *override, const char *message);

/* The text, called "t", as it is handed to what reads it: nothing to free. */
smoe_spec_text specs_text(const char *text);

/* The spec as YAML in fresh memory. */
char *specs_yaml(const smoe_spec *spec, bool origins);

#endif
