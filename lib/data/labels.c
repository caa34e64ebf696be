/*
 * A table of labels; see labels.h: comma-separated values with a heading, quoted as in RFC 4180.
 * The first column with a heading is the path of an image, with or without its ending; of those
 * after it, `split` names its split, and either one column `labels` (or label, class, classes)
 * lists its classes, separated by ';' or '|', or every other column is a class with 1 where the
 * image shows it.
 */
#include "data/labels.h"
#include "base/accents.h"
#include "base/file.h"

#include <ctype.h>
#include <strings.h>

enum { MOST_BYTES = 1 << 30, MOST_COLUMNS = 1 << 16 };

typedef struct reading {
    smoe_labels *to;
    char *at;
    size_t line; /* of the row that is read */
    size_t next; /* and of the next one */
    char **cell; /* of the row */
    size_t cells;
    char **head;                     /* of the first row */
    size_t heads, path, split, list; /* numbers of columns; SIZE_MAX: there is none */
} reading;

#define wrong(r, err, ...)                   \
    (smoe_fail(err, SMOE_DATA, __VA_ARGS__), \
     smoe_fail_prefix(err, "%s:%zu", (r)->to->path, (r)->line))

/* ---- cells ----------------------------------------------------------------------------------- */

/* Reads a cell in quotes, in place; r->at is behind it afterwards. */
static int quoted_cell(reading *r, char **cell, smoe_err *err) {
    char *from = r->at + 1, *to = *cell = from;
    for (;; from++) {
        if (!*from) return wrong(r, err, "a quote that is not closed");
        if (*from == '\n') r->next++;
        if (*from == '"' && *++from != '"') break;
        *to++ = *from;
    }
    r->at = from;
    if (*from && *from != ',' && *from != '\n' && *from != '\r')
        return wrong(r, err, "text behind a closing quote");
    *to = '\0'; /* the closing quote lies between */
    return 0;
}

/* The next row; *end where there is none. Empty lines are passed over. */
static int read_row(reading *r, bool *end, smoe_err *err) {
    while (*r->at == '\n' || *r->at == '\r') r->next += *r->at++ == '\n';
    r->cells = 0;
    r->line = r->next;
    *end = !*r->at;
    for (bool more = !*end; more;) {
        if (r->cells == MOST_COLUMNS) return wrong(r, err, "more than %d columns", MOST_COLUMNS);
        r->cell = smoe_alloc_next(r->cell, r->cells, sizeof *r->cell);
        char *cell = r->at;
        if (*r->at != '"')
            r->at += strcspn(r->at, ",\r\n");
        else if (quoted_cell(r, &cell, err))
            return -1;
        char stop = *r->at;
        more = stop == ',';
        *r->at = '\0';
        r->at += stop != '\0';
        r->next += stop == '\n';
        r->cell[r->cells++] = cell;
    }
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int add_word(reading *r, smoe_labels_row *new, const char *name, smoe_err *err) {
    smoe_labels *l = r->to;
    if (!smoe_text_printable(name))
        return wrong(r, err, "the name of a class is not printable UTF-8");
    for (size_t i = 0; i < new->count; i++)
        if (!strcmp(l->word[new->first + i], name)) return 0;
    SMOE_APPEND(l->word, l->words) = name;
    new->count++;
    return 0;
}

char *smoe_labels_trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]); n--) text[n - 1] = '\0';
    return text;
}

/* "cat;dog", or a column per class. */
static int read_classes(reading *r, smoe_labels_row *new, smoe_err *err) {
    char *rest = NULL;
    for (size_t k = r->path + 1; k < r->cells; k++) {
        char *cell = smoe_labels_trimmed(r->cell[k]), *end;
        if (k == r->split || (r->list < SIZE_MAX && k != r->list)) continue;
        if (k == r->list) {
            for (char *name = strtok_r(cell, ";|", &rest); name; name = strtok_r(NULL, ";|", &rest))
                if (*smoe_labels_trimmed(name) && add_word(r, new, smoe_labels_trimmed(name), err))
                    return -1;
            continue;
        }
        double value = strtod(cell, &end);
        if (*end || (value != 0 && value != 1))
            return wrong(r, err,
                         "column %s: expected 0 or 1, found '%.40s'; if these are names of "
                         "classes, line 1 must be a heading such as path,labels",
                         r->head[k], cell);
        if (value == 1 && add_word(r, new, r->head[k], err)) return -1;
    }
    if (new->count) return 0;
    return wrong(r, err, "%.200s has no class: every image needs one", new->name);
}

static int labels_add_row(reading *r, smoe_err *err) {
    smoe_labels *l = r->to;
    if (r->cells != r->heads)
        return wrong(r, err, "%zu column%s, but the heading has %zu", r->cells, SMOE_S(r->cells),
                     r->heads);
    char *path = smoe_labels_trimmed(r->cell[r->path]);
    for (char *c = path; (c = strchr(c, '\\'));) *c = '/';
    smoe_labels_row new = {.name = path, .first = l->words, .line = r->line};
    while (!strncmp(new.name, "./", 2)) new.name += 2;
    if (!*new.name) return wrong(r, err, "no path of an image");
    if (r->split < SIZE_MAX) new.split = smoe_labels_trimmed(r->cell[r->split]);
    if (read_classes(r, &new, err)) return -1;
    if (l->rows == UINT32_MAX - 1) return wrong(r, err, "too many rows");
    SMOE_APPEND(l->row, l->rows) = new;
    return 0;
}

static int read_heading(reading *r, smoe_err *err) {
    static const char *const list[] = {"labels", "label", "classes", "class"};
    bool end;
    r->split = r->list = SIZE_MAX;
    if (read_row(r, &end, err)) return -1;
    if (end) return wrong(r, err, "empty: expected a heading such as path,labels");
    if (r->cells == 1 && strpbrk(r->cell[0], "\t;|"))
        return wrong(r, err, "no comma in the heading: columns are separated by commas");
    /* The number of a row, as pandas writes it before the columns, has no heading. */
    r->path = r->cells > 2 && !*smoe_labels_trimmed(r->cell[0]);
    for (size_t k = r->path + 1; k < r->cells; k++) {
        r->cell[k] = smoe_labels_trimmed(r->cell[k]);
        for (size_t i = r->path + 1; i < k; i++)
            if (!strcmp(r->cell[i], r->cell[k]))
                return wrong(r, err, "two columns are '%.40s'", r->cell[k]);
        if (!strcasecmp(r->cell[k], "split")) r->split = k;
        for (size_t i = 0; i < SMOE_COUNT(list); i++) {
            if (strcasecmp(r->cell[k], list[i]) != 0) continue;
            if (r->list < SIZE_MAX)
                return wrong(r, err, "columns '%s' and '%s': only one can list the classes",
                             r->cell[r->list], r->cell[k]);
            r->list = k;
        }
    }
    if (r->cells < r->path + 2 || (r->cells == r->path + 2 && r->split < SIZE_MAX))
        return wrong(r, err,
                     "no classes: expected the path of an image, then a column `labels` with its "
                     "classes, separated by ;, or a column per class with 0 and 1");
    r->head = r->cell;
    r->heads = r->cells;
    r->cell = NULL;
    return 0;
}

static int read_rows(reading *r, smoe_err *err) {
    bool end = false;
    if (read_heading(r, err)) return -1;
    while (!end) {
        if (read_row(r, &end, err)) return -1;
        if (!end && labels_add_row(r, err)) return -1;
    }
    if (!r->to->rows) return wrong(r, err, "no row below the heading");
    return 0;
}

/* ---- by name --------------------------------------------------------------------------------- */

static int compare_rows(const void *x, const void *y, void *user) {
    const smoe_labels_row *list = user;
    const smoe_labels_row *a = &list[*(const uint32_t *)x], *b = &list[*(const uint32_t *)y];
    int order = strcmp(a->name, b->name);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

static int sort(smoe_labels *l, smoe_err *err) {
    l->order = smoe_alloc(l->rows, sizeof *l->order);
    l->all = smoe_alloc(l->words, sizeof *l->all);
    for (size_t i = 0; i < l->rows; i++) l->order[i] = (uint32_t)i;
    qsort_r(l->order, l->rows, sizeof *l->order, compare_rows, l->row);
    for (size_t i = 1; i < l->rows; i++) {
        const smoe_labels_row *a = &l->row[l->order[i - 1]], *b = &l->row[l->order[i]];
        if (!strcmp(a->name, b->name))
            return smoe_fail(err, SMOE_DATA,
                             "%s:%zu: %.200s already has a row, line %zu; give all its classes in "
                             "one row, separated by ;",
                             l->path, b->line, b->name, a->line);
    }
    memcpy(l->all, l->word, l->words * sizeof *l->all);
    l->classes = smoe_texts_sort(l->all, l->words);
    return 0;
}

int smoe_labels_read(smoe_labels **out, const char *path, smoe_err *err) {
    smoe_labels *l = *out = smoe_alloc(1, sizeof *l);
    size_t size;
    l->path = smoe_alloc_text(path);
    if (smoe_file_read(path, MOST_BYTES, &l->text, &size, err)) return -1;
    if (strlen(l->text) != size)
        return smoe_fail(err, SMOE_DATA,
                         "%s: a zero byte, so it is not UTF-8 text; save a spreadsheet, or a table "
                         "in UTF-16, as CSV in UTF-8",
                         path);
    reading r = {.to = l, .at = l->text, .next = 1};
    if (!strncmp(r.at, "\xef\xbb\xbf", 3)) r.at += 3; /* the mark of UTF-8 */
    int status = read_rows(&r, err);
    free(r.cell);
    free(r.head);
    return status ? -1 : sort(l, err);
}

int smoe_labels_open(smoe_labels **labels, const smoe_spec *spec, smoe_err *err) {
    SMOE_FREED char *path = NULL;
    *labels = NULL;
    if (!spec->data.labels) return 0;
    if (smoe_spec_path(spec, "data.labels", &path, err)) return -1;
    return smoe_labels_read(labels, path, err);
}

void smoe_labels_free(smoe_labels *l) {
    if (!l) return;
    free(l->path);
    free(l->text);
    free(l->row);
    free(l->order);
    free(l->word);
    free(l->all);
    free(l);
}

static size_t find_row(const void *labels, const char *name) {
    const smoe_labels *l = labels;
    for (const char *end = name; end; end = strchr(end, '/') ? strchr(end, '/') + 1 : NULL) {
        size_t low = 0, high = l->rows;
        while (low < high) {
            size_t mid = (low + high) / 2;
            int order = strcmp(end, l->row[l->order[mid]].name);
            if (!order) return l->order[mid];
            if (order < 0)
                high = mid;
            else
                low = mid + 1;
        }
    }
    return SIZE_MAX;
}

uint32_t smoe_labels_find(const smoe_labels *l, const char *name) {
    size_t row = smoe_accents_find(find_row, l, name);
    SMOE_FREED char *stem = smoe_alloc_text(name);
    char *dot = row == SIZE_MAX ? strrchr(stem, '.') : NULL;
    if (dot) *dot = '\0';
    if (dot) row = smoe_accents_find(find_row, l, stem);
    return (uint32_t)(row + 1); /* SIZE_MAX: 0 */
}
