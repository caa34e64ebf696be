/*
 * Writing a page of HTML. A page is opaque, so that nothing is printed into it but by these
 * functions: a form is a constant of the program, and what is put into it is escaped.
 *
 * Conversions of forms: %s a text, %zu, and %g a number of any precision. Bytes of a text that
 * are not UTF-8 become U+FFFD.
 */
#pragma once

#include "base/base.h"

#include <jansson.h>

typedef struct smoe_page smoe_page;

/* Markup. %s may stand between tags and in quoted attributes; %g is a number for a reader: digits
 * in groups of three, a dash for none. */
#define smoe_page_html(page, ...) smoe_page_put_html(page, "" __VA_ARGS__)
void smoe_page_put_html(smoe_page *page, const char *form, ...) SMOE_PRINTF(2, 3);

/* JSON within a <script> element, reals with ten digits; and about how many bytes it has there. */
void smoe_page_json(smoe_page *page, const json_t *value);
size_t smoe_page_json_size(const json_t *value);

/* Bytes in base64, fresh. */
char *smoe_page_base64(const uint8_t *bytes, size_t size);

/* Writes the file at path: the part report.html, with {{PART}} replaced by that part, {{sha256
 * PART}} by its digest in base64, as a content security policy names it, and any other {{NAME}} by
 * what `fill` writes. */
typedef int smoe_page_fill(smoe_page *page, const char *name, const void *context, smoe_err *err);
int smoe_page_write(const char *path, smoe_page_fill *fill, const void *context,
                    smoe_err *err) SMOE_MUST_CHECK;

/* What the pages are made of: "report.html", "report.css" ..., of smoe serve "live.html" ...; NULL
 * for an unknown name. */
const char *smoe_page_part(const char *name, size_t *size);
