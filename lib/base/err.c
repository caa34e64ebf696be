/* Errors: one struct the caller owns, filled once or line by line. See base.h for the rule. */
#define SMOE_ERR_C /* the functions themselves, in the eyes of the analyser too */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>

/* Adds `lines` to the number of lines that are left out, which the last line states. */
static void err_leave_out(smoe_err *err, size_t lines) {
    size_t used =
        err->left_out ? (size_t)(strrchr(err->text, '\n') - err->text) : strlen(err->text);
    err->left_out += lines;
    snprintf(err->text + used, sizeof err->text - used, "\n... and %zu more", err->left_out);
}

/* Appends one formatted line; a line that does not fit, and those after it, are counted at the end.
 * Names of files come into messages as they are: a control character in one is replaced. */
static void err_append(smoe_err *err, const char *fmt, va_list args, const char *tail) {
    char given[1024], line[sizeof given + 8];
    int length = vsnprintf(given, sizeof given, fmt, args);
    if (length < 0) given[0] = '\0';
    if (length >= (int)sizeof given) memcpy(given + sizeof given - 4, "...", 4);
    smoe_text_shown(given, line, sizeof line);
    size_t used = strlen(err->text);
    size_t need = strlen(line) + strlen(tail) + 2, reserve = 64;
    err->lines++;
    if (!err->left_out && used + need + reserve < sizeof err->text) {
        snprintf(err->text + used, sizeof err->text - used, "%s%s%s", used ? "\n" : "", line, tail);
        return;
    }
    err_leave_out(err, 1);
}

int smoe_fail_line(smoe_err *err, smoe_code code, smoe_fail_how how, const char *fmt, ...) {
    char tail[256] = "";
    if (how == SMOE_FAIL_ERRNO) snprintf(tail, sizeof tail, ": %s", strerror(errno));
    if (!err) return -1;
    if (how != SMOE_FAIL_MORE) {
        err->lines = err->left_out = 0;
        err->text[0] = '\0';
    }
    if (!err->lines) err->code = code;
    va_list args;
    va_start(args, fmt);
    err_append(err, fmt, args, tail);
    va_end(args);
    return -1;
}

int smoe_fail_found(smoe_err *err, const smoe_err *found) {
    if (!found->code) return 0;
    if (err) *err = *found;
    return -1;
}

int smoe_fail_prefix(smoe_err *err, const char *fmt, ...) {
    if (!err) return -1;
    char prefix[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    smoe_err old = *err;
    if (old.left_out) *strrchr(old.text, '\n') = '\0';
    err->lines = err->left_out = 0;
    err->text[0] = '\0';
    for (char *rest = old.text, *line; (line = strsep(&rest, "\n"));)
        smoe_fail_more(err, old.code, "%s: %s", prefix, line);
    if (old.left_out) err_leave_out(err, old.left_out);
    err->lines = old.lines;
    return -1;
}
