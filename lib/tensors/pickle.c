/*
 * A reader of pickles with tensors; see pickle.h. It is the stack machine of the format with the
 * instructions that torch.save uses (protocol 2). Each instruction makes one value at most, so
 * memory is bounded by the size of the pickle.
 */
#include "tensors/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    MARK,
    NONE,
    NUMBER, /* whole, or true or false */
    REAL,   /* not used, and so without its value */
    TEXT,
    TUPLE,
    LIST,
    DICT,
    CALL,    /* a known function: number is its index in `calls` */
    TYPE,    /* of a storage: number is its index in `types` */
    STORAGE, /* number: the index of its type; its key is `text` */
    TENSOR   /* items: storage, offset, shape, strides */
} kind;

enum { DEAD = -1 };

typedef struct value {
    kind kind;
    int64_t number;
    const char *text; /* inside the pickle */
    size_t length, count;
    ptrdiff_t first, last; /* cells of its items; of a DICT keys and values in turn */
} value;

typedef struct cell {
    ptrdiff_t value, next;
} cell;

typedef struct machine {
    const unsigned char *data;
    size_t size, at, began; /* began: the instruction of now */
    value *value;
    cell *cell;
    ptrdiff_t *stack, *memo;
    size_t values, cells, depth;
    smoe_err *err;
} machine;

static const struct {
    const char *name, *word;
    size_t bytes;
} types[] = {{"FloatStorage", "F32", 4},  {"HalfStorage", "F16", 2}, {"BFloat16Storage", "BF16", 2},
             {"DoubleStorage", "F64", 8}, {"LongStorage", "I64", 8}, {"IntStorage", "I32", 4},
             {"ShortStorage", "I16", 2},  {"CharStorage", "I8", 1},  {"ByteStorage", "U8", 1},
             {"BoolStorage", "BOOL", 1}};
enum { TYPES = sizeof types / sizeof *types };

enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER, CALLS };
static const char *const calls[CALLS] = {
    [ORDERED_DICT] = "collections OrderedDict",
    [REBUILD_TENSOR] = "torch._utils _rebuild_tensor_v2",
    [REBUILD_PARAMETER] = "torch._utils _rebuild_parameter",
};

static int fail(machine *m, const char *fmt, ...) SMOE_PRINTF(2, 3);
static int fail(machine *m, const char *fmt, ...) {
    char text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return smoe_fail(m->err, SMOE_DATA, "offset %zu: %s", m->began, text);
}

/* ---- values and the stack -------------------------------------------------------------------- */

static int push(machine *m, value v) {
    v.first = v.last = DEAD;
    m->value[m->values] = v;
    m->stack[m->depth++] = (ptrdiff_t)m->values++;
    return 0;
}

static value *top(machine *m, size_t below) {
    return m->depth > below ? &m->value[m->stack[m->depth - 1 - below]] : NULL;
}

static void append(machine *m, value *to, ptrdiff_t item) {
    ptrdiff_t c = (ptrdiff_t)m->cells++;
    m->cell[c] = (cell){item, DEAD};
    if (to->last == DEAD)
        to->first = c;
    else
        m->cell[to->last].next = c;
    to->last = c;
    to->count++;
}

/* Item i of a value, or NULL. */
static const value *item(const machine *m, const value *of, size_t i) {
    ptrdiff_t c = of->first;
    while (c != DEAD && i--) c = m->cell[c].next;
    return c == DEAD ? NULL : &m->value[m->cell[c].value];
}

/* The position of the last mark on the stack; depth if there is none. */
static size_t mark_of(const machine *m) {
    size_t i = m->depth;
    while (i && m->value[m->stack[i - 1]].kind != MARK) i--;
    return i ? i - 1 : m->depth;
}

/* Replaces the values above position `from` of the stack, and the mark, by a tuple of them. */
static int pack(machine *m, size_t from, bool marked) {
    value *tuple = &m->value[m->values];
    *tuple = (value){.kind = TUPLE, .first = DEAD, .last = DEAD};
    for (size_t i = from + marked; i < m->depth; i++) append(m, tuple, m->stack[i]);
    m->depth = from;
    m->stack[m->depth++] = (ptrdiff_t)m->values++;
    return 0;
}

/* Moves the values above the mark into the list or dictionary below it. */
static int extend(machine *m, size_t from, bool marked, kind wanted) {
    if (!from || m->value[m->stack[from - 1]].kind != wanted)
        return fail(m, "items without a %s", wanted == LIST ? "list" : "dictionary");
    if (wanted == DICT && (m->depth - from - marked) % 2) return fail(m, "a key without a value");
    for (size_t i = from + marked; i < m->depth; i++)
        append(m, &m->value[m->stack[from - 1]], m->stack[i]);
    m->depth = from;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next n bytes, or NULL with err. */
static const unsigned char *take(machine *m, size_t n) {
    if (n > m->size - m->at) {
        fail(m, "the pickle ends in the middle");
        return NULL;
    }
    m->at += n;
    return m->data + m->at - n;
}

/* A little-endian number of n bytes. */
static int take_number(machine *m, size_t n, uint64_t *number) {
    const unsigned char *bytes = take(m, n);
    if (!bytes) return -1;
    *number = 0;
    for (size_t i = 0; i < n; i++) *number |= (uint64_t)bytes[i] << (8 * i);
    return 0;
}

static int push_number(machine *m, size_t bytes, bool wide_sign) {
    uint64_t number;
    if (take_number(m, bytes, &number)) return -1;
    int64_t wide = (int64_t)number;
    if (wide_sign && bytes < 8 && number >> (8 * bytes - 1)) wide -= (int64_t)1 << (8 * bytes);
    return push(m, (value){.kind = NUMBER, .number = wide});
}

static int push_text(machine *m, size_t bytes) {
    uint64_t length;
    if (take_number(m, bytes, &length)) return -1;
    const unsigned char *text = take(m, length);
    if (!text) return -1;
    return push(m, (value){.kind = TEXT, .text = (const char *)text, .length = length});
}

/* Whole numbers of up to 8 bytes; longer ones are not sizes. */
static int push_long(machine *m) {
    uint64_t bytes;
    if (take_number(m, 1, &bytes)) return -1;
    if (bytes > 8) return fail(m, "a number of %d bytes", (int)bytes);
    if (!bytes) return push(m, (value){.kind = NUMBER});
    return push_number(m, bytes, true);
}

static int push_global(machine *m) {
    char name[SMOE_PICKLE_TEXT], shown[SMOE_PICKLE_TEXT];
    size_t n = 0, lines = 0;
    while (lines < 2) {
        const unsigned char *c = take(m, 1);
        if (!c) return -1;
        lines += *c == '\n';
        if (n + 1 < sizeof name && (*c != '\n' || lines < 2))
            name[n++] = *c == '\n' ? ' ' : (char)*c;
    }
    name[n] = '\0';
    for (int i = 0; i < CALLS; i++)
        if (!strcmp(name, calls[i])) return push(m, (value){.kind = CALL, .number = i});
    for (size_t i = 0; i < TYPES && !strncmp(name, "torch ", 6); i++)
        if (!strcmp(name + 6, types[i].name))
            return push(m, (value){.kind = TYPE, .number = (int64_t)i});
    return fail(m, "%s is not part of a dictionary of tensors",
                smoe_text_shown(name, shown, sizeof shown));
}

/* ("storage", type, key, device, elements) */
static int push_storage(machine *m) {
    const value *tuple = top(m, 0);
    const value *word = tuple && tuple->kind == TUPLE ? item(m, tuple, 0) : NULL;
    const value *type = word ? item(m, tuple, 1) : NULL, *key = word ? item(m, tuple, 2) : NULL;
    if (!key || word->kind != TEXT || word->length != 7 || memcmp(word->text, "storage", 7) ||
        type->kind != TYPE || key->kind != TEXT)
        return fail(m, "what it refers to is not a storage");
    value storage = {
        .kind = STORAGE, .number = type->number, .text = key->text, .length = key->length};
    m->depth--;
    return push(m, storage);
}

static bool sizes(const machine *m, const value *tuple) {
    if (!tuple || tuple->kind != TUPLE || tuple->count > SMOE_PICKLE_DIMS) return false;
    for (size_t i = 0; i < tuple->count; i++) {
        const value *x = item(m, tuple, i);
        if (x->kind != NUMBER || x->number < 0) return false;
    }
    return true;
}

static int call(machine *m) {
    const value *function = top(m, 1), *arguments = top(m, 0);
    if (!function || function->kind != CALL || arguments->kind != TUPLE)
        return fail(m, "a call of what is not a known function");
    int64_t which = function->number;
    const value *a = item(m, arguments, 0), *b = item(m, arguments, 1);
    const value *shape = item(m, arguments, 2), *stride = item(m, arguments, 3);
    value made = {.kind = DICT, .first = DEAD, .last = DEAD};
    if (which == ORDERED_DICT && arguments->count) return fail(m, "an OrderedDict with arguments");
    if (which == REBUILD_TENSOR) {
        if (!a || a->kind != STORAGE || !b || b->kind != NUMBER || b->number < 0 ||
            !sizes(m, shape) || !sizes(m, stride) || shape->count != stride->count)
            return fail(m, "a tensor whose storage, shape or strides are of another kind");
        made = (value){.kind = TENSOR, .first = arguments->first, .last = arguments->last};
    }
    if (which == REBUILD_PARAMETER) {
        if (!a || a->kind != TENSOR) return fail(m, "a parameter that is not a tensor");
        made = *a;
    }
    m->depth -= 2;
    m->value[m->values] = made;
    m->stack[m->depth++] = (ptrdiff_t)m->values++;
    return 0;
}

static int remember(machine *m, size_t bytes) {
    uint64_t place;
    if (take_number(m, bytes, &place)) return -1;
    if (!m->depth || place >= m->size) return fail(m, "a note beyond the size of the pickle");
    m->memo[place] = m->stack[m->depth - 1];
    return 0;
}

static int recall(machine *m, size_t bytes) {
    uint64_t place;
    if (take_number(m, bytes, &place)) return -1;
    if (place >= m->size || m->memo[place] == DEAD) return fail(m, "nothing was noted there");
    m->stack[m->depth++] = m->memo[place];
    return 0;
}

/* The state of a dictionary (the versions of a module) is not needed for its tensors. */
static int build(machine *m) {
    const value *object = top(m, 1);
    if (!object || object->kind != DICT) return fail(m, "the state of what is not a dictionary");
    m->depth--;
    return 0;
}

/* One instruction; 1 at the end. */
static int step(machine *m) {
    m->began = m->at;
    const unsigned char *code = take(m, 1);
    uint64_t ignored;
    if (!code) return -1;
    bool marked = *code == 't' || *code == 'u' || *code == 'e';
    size_t mark = marked ? mark_of(m) : 0;
    if (marked && mark == m->depth) return fail(m, "items without their mark");
    switch (*code) {
    case 0x80: return take_number(m, 1, &ignored);
    case '(': return push(m, (value){.kind = MARK});
    case '}': return push(m, (value){.kind = DICT});
    case ']': return push(m, (value){.kind = LIST});
    case ')': return push(m, (value){.kind = TUPLE});
    case 'N': return push(m, (value){.kind = NONE});
    case 0x88: return push(m, (value){.kind = NUMBER, .number = 1});
    case 0x89: return push(m, (value){.kind = NUMBER});
    case 'J': return push_number(m, 4, true);
    case 'K': return push_number(m, 1, false);
    case 'M': return push_number(m, 2, false);
    case 0x8a: return push_long(m);
    case 'G': return take(m, 8) ? push(m, (value){.kind = REAL}) : -1;
    case 'X': return push_text(m, 4);
    case 'U': return push_text(m, 1);
    case 'q': return remember(m, 1);
    case 'r': return remember(m, 4);
    case 'h': return recall(m, 1);
    case 'j': return recall(m, 4);
    case 't': return pack(m, mark, true);
    case 0x85:
    case 0x86:
    case 0x87:
        if (m->depth < *code - 0x84u) return fail(m, "a tuple of more than there is");
        return pack(m, m->depth - (*code - 0x84u), false);
    case 'u': return extend(m, mark, true, DICT);
    case 'e': return extend(m, mark, true, LIST);
    case 's': return extend(m, m->depth < 2 ? 0 : m->depth - 2, false, DICT);
    case 'a': return extend(m, m->depth < 1 ? 0 : m->depth - 1, false, LIST);
    case 'c': return push_global(m);
    case 'Q': return push_storage(m);
    case 'R': return call(m);
    case 'b': return build(m);
    case '.': return 1;
    default:
        return fail(m, "instruction 0x%02x, which a dictionary of tensors does not need", *code);
    }
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static bool is_text(const value *v, const char *text) {
    return v->kind == TEXT && v->length == strlen(text) && !memcmp(v->text, text, v->length);
}

/* The value of a key, NULL where there is none; any tensor where `key` is NULL. */
static const value *member(const machine *m, const value *dict, const char *key) {
    for (ptrdiff_t c = dict->first; c != DEAD; c = m->cell[m->cell[c].next].next) {
        const value *v = &m->value[m->cell[m->cell[c].next].value];
        if (key ? is_text(&m->value[m->cell[c].value], key) : v->kind == TENSOR) return v;
    }
    return NULL;
}

static const value *dictionary(const machine *m, const value *root) {
    static const char *const inner[] = {"model", "state_dict", "module"};
    if (member(m, root, NULL)) return root;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        const value *v = member(m, root, inner[i]);
        if (v && v->kind == DICT && member(m, v, NULL)) return v;
    }
    return NULL;
}

static int copy_text(char out[SMOE_PICKLE_TEXT], const value *text, smoe_err *err) {
    if ((text->kind != TEXT && text->kind != STORAGE) || text->length >= SMOE_PICKLE_TEXT ||
        memchr(text->text, '\0', text->length))
        return smoe_fail(err, SMOE_DATA, "a name that is not a text of up to %d bytes",
                         SMOE_PICKLE_TEXT - 1);
    memcpy(out, text->text, text->length);
    out[text->length] = '\0';
    return 0;
}

static int visit_tensor(const machine *m, const value *name, const value *v,
                        smoe_pickle_visit *visit, void *user) {
    smoe_pickle_tensor t = {0};
    const value *storage = item(m, v, 0), *shape = item(m, v, 2), *stride = item(m, v, 3);
    if (copy_text(t.name, name, m->err) || copy_text(t.storage, storage, m->err)) return -1;
    t.type = types[storage->number].word;
    t.bytes = types[storage->number].bytes;
    t.offset = (size_t)item(m, v, 1)->number;
    t.ndim = (int)shape->count;
    for (size_t i = 0; i < shape->count; i++) {
        t.dim[i] = (size_t)item(m, shape, i)->number;
        t.stride[i] = (size_t)item(m, stride, i)->number;
    }
    return visit(user, &t, m->err);
}

static int visit_all(const machine *m, smoe_pickle_visit *visit, void *user) {
    const value *root = m->depth ? &m->value[m->stack[m->depth - 1]] : NULL;
    const value *dict = root && root->kind == DICT ? dictionary(m, root) : NULL;
    if (!dict) return smoe_fail(m->err, SMOE_DATA, "it is not a dictionary of tensors");
    for (ptrdiff_t c = dict->first; c != DEAD; c = m->cell[m->cell[c].next].next) {
        const value *v = &m->value[m->cell[m->cell[c].next].value];
        const value *name = &m->value[m->cell[c].value];
        if (v->kind == TENSOR && visit_tensor(m, name, v, visit, user)) return -1;
    }
    return 0;
}

int smoe_pickle_each(const void *data, size_t size, smoe_pickle_visit *visit, void *user,
                     smoe_err *err) {
    machine m = {.data = data, .size = size, .err = err};
    int status = -1;
    m.value = calloc(size + 1, sizeof *m.value);
    m.cell = calloc(size + 1, sizeof *m.cell);
    m.stack = calloc(size + 1, sizeof *m.stack);
    m.memo = malloc((size + 1) * sizeof *m.memo);
    if (!m.value || !m.cell || !m.stack || !m.memo) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for a pickle of %zu bytes", size);
        goto out;
    }
    for (size_t i = 0; i <= size; i++) m.memo[i] = DEAD;
    do status = step(&m);
    while (!status);
    if (status > 0) status = visit_all(&m, visit, user);
out:
    free(m.value);
    free(m.cell);
    free(m.stack);
    free(m.memo);
    return status;
}
