/* The rows of a table for each panel and line of a figure, and their titles. The rows of a run are
 * consecutive; those of a panel or a line may not be. */
#ifndef SMOE_FIGURES_ROWS_H
#define SMOE_FIGURES_ROWS_H

#include "base/frame.h"

/* A number by the name of its column. */
double smoe_figure_number(const smoe_frame *frame, size_t row, const char *column);

/* Whether rows a and b agree in every column of a list that ends with NULL. */
bool smoe_figure_rows_agree(const smoe_frame *frame, const char *const *list, size_t a, size_t b);

/* The first row of each combination of values in the columns of a list: their numbers go to
 * found [rows], in the order of the table. If the list has only one column and that has numbers,
 * the order is by these, and rows without a number come last. Rows without a number in a column of
 * `needed` (a list; NULL: none) are passed over. Returns how many rows there are. */
size_t smoe_figure_rows_find(const smoe_frame *frame, const char *const *list,
                             const char *const *needed, size_t *found);

/* The least and the largest number of columns over the rows that agree with row `like` in `list`;
 * like SIZE_MAX: over all. False where there is none. *whole: all are whole numbers. */
bool smoe_figure_rows_range(const smoe_frame *frame, const char *const *columns,
                            const char *const *list, size_t like, double *low, double *high,
                            bool *whole);

/* The values of a row in the columns of a list, in words: "soft, block 3". The name of a run is cut
 * to its last `most` bytes. */
void smoe_figure_rows_say(const smoe_frame *frame, const char *const *list, size_t row, size_t most,
                          char *text, size_t size);

#endif
