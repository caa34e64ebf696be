/* JSON for a page; see script.h. */
#include "draw/script.h"

#include <math.h>
#include <string.h>

void smoe_script_text(FILE *out, const char *text) {
    fputc('"', out);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || strchr("<>&\"\\", *c))
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*c);
        else
            fputc(*c, out);
    fputc('"', out);
}

void smoe_script_number(FILE *out, double v, int digits) {
    if (!isfinite(v))
        fputs("null", out);
    else if (v == floor(v) && fabs(v) < 1e15)
        fprintf(out, "%.0f", v);
    else
        fprintf(out, "%.*g", digits, v);
}

void smoe_script_text_member(FILE *out, const char *name, const char *text) {
    fprintf(out, ",\"%s\":", name);
    if (text)
        smoe_script_text(out, text);
    else
        fputs("null", out);
}

void smoe_script_number_member(FILE *out, const char *name, double v, int digits) {
    fprintf(out, ",\"%s\":", name);
    smoe_script_number(out, v, digits);
}
