/* JSON as it is written into a page, within a <script> element: characters that mean something to
 * HTML are escaped. */
#ifndef SMOE_DRAW_SCRIPT_H
#define SMOE_DRAW_SCRIPT_H

#include <stdio.h>

void smoe_script_text(FILE *out, const char *text);
/* Whole numbers exactly, others with that many significant digits; null for NaN and infinities. */
void smoe_script_number(FILE *out, double v, int digits);
/* ,"name": and the value; of a text NULL is null. */
void smoe_script_text_member(FILE *out, const char *name, const char *text);
void smoe_script_number_member(FILE *out, const char *name, double v, int digits);

#endif
