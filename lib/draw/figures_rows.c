/* Panels and lines of a figure; see figures_rows.h. */
#include "draw/figures_rows.h"
#include "draw/words.h"

#include <math.h>
#include <string.h>

double smoe_figure_number(const smoe_frame *f, size_t row, const char *column) {
    return smoe_frame_number_at(f, row, smoe_frame_find(f, column));
}

static bool cells_agree(const smoe_frame *f, size_t column, size_t a, size_t b) {
    if (f->column[column].text)
        return !strcmp(smoe_frame_text_at(f, a, column), smoe_frame_text_at(f, b, column));
    double x = smoe_frame_number_at(f, a, column), y = smoe_frame_number_at(f, b, column);
    return x == y || (isnan(x) && isnan(y));
}

bool smoe_figure_rows_agree(const smoe_frame *f, const char *const *list, size_t a, size_t b) {
    for (; *list; list++)
        if (!cells_agree(f, smoe_frame_find(f, *list), a, b)) return false;
    return true;
}

static bool has_numbers(const smoe_frame *f, const char *const *needed, size_t row) {
    for (; needed && *needed; needed++)
        if (!isfinite(smoe_figure_number(f, row, *needed))) return false;
    return true;
}

size_t smoe_figure_rows_find(const smoe_frame *f, const char *const *list,
                             const char *const *needed, size_t *found) {
    size_t count = 0, column = list[0] && !list[1] ? smoe_frame_find(f, list[0]) : SIZE_MAX;
    bool sorted = column != SIZE_MAX && !f->column[column].text;
    for (size_t r = 0; r < f->rows; r++) {
        size_t i = count;
        if (!has_numbers(f, needed, r)) continue;
        while (i && !smoe_figure_rows_agree(f, list, found[i - 1], r)) i--;
        if (i) continue;
        double v = sorted ? smoe_frame_number_at(f, r, column) : NAN;
        i = count++;
        /* NAN stays behind all numbers, in the order of the table */
        while (i && sorted && !(smoe_frame_number_at(f, found[i - 1], column) <= v) && !isnan(v)) {
            found[i] = found[i - 1];
            i--;
        }
        found[i] = r;
    }
    return count;
}

bool smoe_figure_rows_range(const smoe_frame *f, const char *const *columns,
                            const char *const *list, size_t like, double *low, double *high,
                            bool *whole) {
    *low = INFINITY;
    *high = -INFINITY;
    *whole = true;
    for (; *columns; columns++) {
        size_t c = smoe_frame_find(f, *columns);
        for (size_t r = 0; r < f->rows; r++) {
            double v = smoe_frame_number_at(f, r, c);
            if (!isfinite(v) || (like != SIZE_MAX && !smoe_figure_rows_agree(f, list, like, r)))
                continue;
            *low = fmin(*low, v);
            *high = fmax(*high, v);
            *whole = *whole && v == rint(v);
        }
    }
    return *low <= *high;
}

/* A path without its folders. */
static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* A run's name without its folders, unless another run of the table has the same; its end where it
 * is long: ends of names differ more than beginnings. */
static void say_run(const smoe_frame *f, size_t column, const char *run, size_t most, char *text,
                    size_t size) {
    bool alone = true;
    for (size_t r = 0; r < f->rows && alone; r++) {
        const char *other = smoe_frame_text_at(f, r, column);
        alone = !strcmp(other, run) || strcmp(last_part(other), last_part(run)) != 0;
    }
    if (alone) run = last_part(run);
    size_t length = strlen(run);
    const char *dots = "";
    if (length > most) {
        run += length - most;
        while ((*run & 0xC0) == 0x80) run++; /* not inside a character */
        dots = "\xe2\x80\xa6";
    }
    snprintf(text, size, "%s%s", dots, run);
}

void smoe_figure_rows_say(const smoe_frame *f, const char *const *list, size_t row, size_t most,
                          char *text, size_t size) {
    size_t used = 0;
    *text = '\0';
    for (; *list && used + 1 < size; list++) {
        size_t column = smoe_frame_find(f, *list);
        char one[160], buf[160];
        if (!strcmp(*list, "run"))
            say_run(f, column, smoe_frame_text_at(f, row, column), most, one, sizeof one);
        else if (f->column[column].text)
            snprintf(one, sizeof one, "%s",
                     smoe_words_of(smoe_frame_text_at(f, row, column), buf, sizeof buf));
        else if (isfinite(smoe_frame_number_at(f, row, column)))
            snprintf(one, sizeof one, "%s %g", smoe_words_of(*list, buf, sizeof buf),
                     smoe_frame_number_at(f, row, column));
        else if (used)
            continue; /* for example, no block: the other values are enough */
        else
            snprintf(one, sizeof one, "whole model");
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", one);
    }
}
