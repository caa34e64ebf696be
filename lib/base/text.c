/* Words and numbers as text: nearest words for error messages, sizes for people. */
#include "base/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t smoe_text_distance(const char *a, const char *b) {
    enum { MOST = 63 };
    size_t n = strlen(a), m = strlen(b), row[MOST + 1];
    if (n > MOST || m > MOST) return MOST;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

int smoe_text_nearest(const char *word, const char *const *candidates, size_t count) {
    int nearest = -1;
    /* Two slips, or a third of the letters: enough for transposed pairs, too little for surprise.
     */
    size_t best = strlen(word) / 3 > 2 ? strlen(word) / 3 : 2;
    for (size_t i = 0; i < count; i++) {
        size_t distance = smoe_text_distance(word, candidates[i]);
        if (distance < best || (distance == best && nearest < 0)) {
            best = distance;
            nearest = (int)i;
        }
    }
    return nearest;
}

char *smoe_text_format(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)length + 1, fmt, args);
    va_end(args);
    return text;
}

const char *smoe_text_si(char *buf, size_t size, double n, const char *unit) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E", "Z"};
    size_t i = 0;
    while (fabs(n) >= 999.5 && i + 1 < sizeof prefix / sizeof *prefix) {
        n /= 1000;
        i++;
    }
    snprintf(buf, size, "%.3g %s%s", n, prefix[i], unit);
    return buf;
}
