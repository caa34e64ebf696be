/* Specs that must be valid, or invalid, for the tests of lib/spec. Every failure fails the
 * calling test. */
#pragma once

#include "spec/spec.h"

/* The spec of a text and up to three overrides (NULL: no more), which must be valid. Free it
 * with smoe_spec_free. */
smoe_spec specs_good(const char *text, const char *a, const char *b, const char *c);

/* The text, called "t", with the override (or NULL) must be refused with exactly this message. */
void specs_wrong(const char *text, const char *assign, const char *message);

/* The text, called "t", in the form its reader takes: nothing to free. */
smoe_spec_text specs_text(const char *text);

/* The spec as YAML in newly allocated memory. */
char *specs_yaml(const smoe_spec *spec, bool origins);
