/*
 * A reader of pickles with tensors; see pickle.h. It is the stack machine of the format with the
 * instructions that torch.save uses (protocol 2), those of protocols 4 and 5 that others write, and
 * those of Python 2. Each instruction makes one value at most, so memory is bounded by the size of
 * the pickle.
 */
#include "tensors/pickle.h"
#include "tensors/safetensors.h"

typedef enum kind {
    MARK,
    OTHER,  /* what is not used, and so without its value: None, reals */
    NUMBER, /* whole, or true or false */
    TEXT,
    BYTES,
    TUPLE,
    LIST,
    DICT,
    OBJECT,  /* of an unknown class: what it was made of, and a dictionary of its state */
    CALL,    /* a function or class: number is its index in `calls`, CALLS if it is unknown, or */
             /* CALLS + 1 + its index in `others` */
    TYPE,    /* of a storage: number is its index in `types` */
    STORAGE, /* number: the index of its type; its key is `text` */
    TENSOR   /* items: storage, offset, shape, strides; or `text`: why it cannot be read */
} kind;

enum { MOST = 1 << 24 /* values */ };

typedef struct value {
    kind kind;
    int64_t number;
    const char *text; /* inside the pickle */
    size_t length, count;
    size_t first, last; /* cells of its items; of a DICT keys and values in turn; 0: none */
    size_t made_of[2];  /* of an OBJECT: tuples of arguments and of its state; 0: none */
    bool visited;
} value;

typedef struct cell {
    size_t value, next;
} cell;

typedef struct smoe_pickle machine;
struct smoe_pickle {
    const unsigned char *data;
    size_t size, at, began; /* began: the instruction of now */
    value *value; /* the first value and the first cell are not used: their numbers mean none */
    cell *cell;
    size_t *stack, *memo;                      /* of values */
    size_t values, cells, depth, notes, noted; /* noted: room for so many in the memo */
    smoe_err *err;                             /* while it is read */
};

static const struct {
    const char *name, *word;
} types[] = {{"FloatStorage", "F32"},  {"HalfStorage", "F16"},        {"BFloat16Storage", "BF16"},
             {"DoubleStorage", "F64"}, {"LongStorage", "I64"},        {"IntStorage", "I32"},
             {"ShortStorage", "I16"},  {"CharStorage", "I8"},         {"ByteStorage", "U8"},
             {"BoolStorage", "BOOL"},  {"ComplexFloatStorage", "C64"}};

enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER, REBUILD_WITH_STATE, CALLS };
static const char *const calls[CALLS] = {
    [ORDERED_DICT] = "collections OrderedDict",
    [REBUILD_TENSOR] = "torch._utils _rebuild_tensor_v2",
    [REBUILD_PARAMETER] = "torch._utils _rebuild_parameter",
    [REBUILD_WITH_STATE] = "torch._utils _rebuild_parameter_with_state",
};

static const char rare_elements[] =
    "it has elements of a rare type; save tensor.float() instead, or, if they are quantized and "
    "have scales, the dequantized tensor";
static const char lazy_view[] =
    "it is a conj or neg view; save tensor.resolve_conj().resolve_neg()";

/* Functions that make tensors which are not read, by how their names begin; what these are, and
 * what can be saved instead. */
static const struct {
    const char *call, *why;
} others[] = {
    {"torch._utils _rebuild_sparse_", "it is sparse; save tensor.to_dense() instead"},
    {"torch._utils _rebuild_qtensor", "it is quantized; save tensor.dequantize() instead"},
    {"torch._utils _rebuild_tensor_v3", rare_elements},
    {"torch._utils _rebuild_meta_", "it has no elements (device meta); load it before saving"},
    {"torch._utils _rebuild_", "it is not a plain tensor; save one, such as tensor.detach().cpu()"},
    {"torch._tensor _rebuild_", "it is of another class; save tensor.as_subclass(torch.Tensor)"},
};

/* What no file of weights has: modules, and functions of builtins, that run programs. */
static const char hostile[] =
    "posix nt os subprocess sys socket shutil pty webbrowser runpy importlib";
static const char hostile_builtins[] = "eval exec compile __import__ getattr open";

#define fail(m, ...)                              \
    (smoe_fail((m)->err, SMOE_DATA, __VA_ARGS__), \
     smoe_fail_prefix((m)->err, "offset %zu", (m)->began))

/* ---- values and the stack -------------------------------------------------------------------- */

/* Puts a value that was made before onto the stack. */
static int push_again(machine *m, size_t v) {
    SMOE_APPEND(m->stack, m->depth) = v;
    return 0;
}

static int push(machine *m, value v) {
    if (m->values == MOST) return fail(m, "more than %d values", MOST);
    SMOE_APPEND(m->value, m->values) = v;
    return push_again(m, m->values - 1);
}

static value *top(const machine *m, size_t below) {
    return m->depth > below ? &m->value[m->stack[m->depth - 1 - below]] : NULL;
}

static void pickle_append(machine *m, value *to, size_t item) {
    SMOE_APPEND(m->cell, m->cells) = (cell){.value = item};
    *(to->last ? &m->cell[to->last].next : &to->first) = m->cells - 1;
    to->last = m->cells - 1;
    to->count++;
}

/* Item i of a value, or NULL. */
static const value *item(const machine *m, const value *of, size_t i) {
    size_t c = of->first;
    while (c && i--) c = m->cell[c].next;
    return c ? &m->value[m->cell[c].value] : NULL;
}

/* Whether these are the letters of a value of this kind. */
static bool pickle_is(const value *v, kind of, const char *text) {
    return v->kind == of && v->length == strlen(text) && !memcmp(v->text, text, v->length);
}

/* Takes the last mark off the stack; *from is where the values above it begin. */
static int unmark(machine *m, size_t *from) {
    size_t i = m->depth;
    while (i && m->value[m->stack[i - 1]].kind != MARK) i--;
    if (!i) return fail(m, "items without their mark");
    m->depth--;
    *from = i - 1;
    memmove(m->stack + i - 1, m->stack + i, (m->depth - *from) * sizeof *m->stack);
    return 0;
}

/* Replaces the last values of the stack, from position `from` on, by a tuple of them. */
static int pickle_pack(machine *m, size_t from) {
    value tuple = {.kind = TUPLE};
    for (size_t i = from; i < m->depth; i++) pickle_append(m, &tuple, m->stack[i]);
    m->depth = from;
    return push(m, tuple);
}

/* Moves these values into the list or dictionary below them; items that an object gets as a list
 * are dropped. */
static int extend(machine *m, size_t from, kind wanted) {
    value *to = m->stack && from ? &m->value[m->stack[from - 1]] : NULL;
    if (!to || (to->kind != wanted && to->kind != OBJECT))
        return fail(m, "items without a %s", wanted == LIST ? "list" : "dictionary");
    if (wanted == DICT && (m->depth - from) % 2) return fail(m, "a key without a value");
    for (size_t i = from; i < m->depth; i++)
        if (to->kind == wanted || wanted == DICT) pickle_append(m, to, m->stack[i]);
    m->depth = from;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next n bytes, or NULL with err. */
static const unsigned char *pickle_take(machine *m, size_t n) {
    if (n > m->size - m->at) {
        fail(m, "the pickle ends in the middle");
        return NULL;
    }
    m->at += n;
    return m->data + m->at - n;
}

/* A little-endian number of n bytes. */
static int take_number(machine *m, size_t n, uint64_t *number) {
    const unsigned char *bytes = pickle_take(m, n);
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

static int push_text(machine *m, size_t bytes, kind as) {
    uint64_t length;
    if (take_number(m, bytes, &length)) return -1;
    const unsigned char *text = pickle_take(m, length);
    if (!text) return -1;
    return push(m, (value){.kind = as, .text = (const char *)text, .length = length});
}

/* Whole numbers; longer ones than 8 bytes are not sizes. */
static int push_long(machine *m) {
    uint64_t bytes;
    if (take_number(m, 1, &bytes)) return -1;
    if (bytes > 8) return pickle_take(m, bytes) ? push(m, (value){.kind = OTHER}) : -1;
    if (!bytes) return push(m, (value){.kind = NUMBER});
    return push_number(m, bytes, true);
}

/* "module name": a function or class, or the type of a storage. */
static int push_named(machine *m, const char *name) {
    char module[SMOE_PICKLE_TEXT];
    snprintf(module, sizeof module, "%.*s", (int)strcspn(name, " "), name);
    bool builtin = !strcmp(module, "builtins") || !strcmp(module, "__builtin__");
    if (smoe_text_has_word(hostile, ' ', module) ||
        (builtin && smoe_text_has_word(hostile_builtins, ' ', name + strlen(module) + 1)))
        return fail(m,
                    "%s could run a program, and does not belong in a file of weights; nothing was "
                    "executed",
                    name);
    for (size_t i = 0; i < SMOE_COUNT(types) && !strncmp(name, "torch ", 6); i++)
        if (!strcmp(name + 6, types[i].name))
            return push(m, (value){.kind = TYPE, .number = (int64_t)i});
    int64_t which = 0;
    while (which < CALLS && strcmp(name, calls[which]) != 0) which++;
    for (int64_t k = SMOE_COUNT(others); which >= CALLS && k-- > 0;)
        if (!strncmp(name, others[k].call, strlen(others[k].call))) which = CALLS + 1 + k;
    return push(m, (value){.kind = CALL, .number = which});
}

static int push_global(machine *m) {
    char name[SMOE_PICKLE_TEXT];
    size_t n = 0, lines = 0;
    while (lines < 2) {
        const unsigned char *c = pickle_take(m, 1);
        if (!c) return -1;
        lines += *c == '\n';
        if (n + 1 < sizeof name && (*c != '\n' || lines < 2))
            name[n++] = *c == '\n' ? ' ' : (char)*c;
    }
    name[n] = '\0';
    return push_named(m, name);
}

/* The same from two texts on the stack. */
static int push_stacked(machine *m) {
    char name[SMOE_PICKLE_TEXT];
    const value *module = top(m, 1), *own = top(m, 0);
    if (!module || module->kind != TEXT || own->kind != TEXT)
        return fail(m, "a name that is not a text");
    snprintf(name, sizeof name, "%.*s %.*s", (int)(module->length < 99 ? module->length : 99),
             module->text, (int)(own->length < 99 ? own->length : 99), own->text);
    m->depth -= 2;
    return push_named(m, name);
}

/* ("storage", type, key, device, elements), and before version 1.6 also None, or, in the first
 * versions of PyTorch, the part of that storage that is meant. */
static int push_storage(machine *m) {
    const value *tuple = top(m, 0);
    const value *word = tuple && tuple->kind == TUPLE ? item(m, tuple, 0) : NULL;
    const value *type = word ? item(m, tuple, 1) : NULL, *key = word ? item(m, tuple, 2) : NULL;
    if (key && pickle_is(word, TEXT, "module")) {
        m->depth--; /* a class with its source, in files from before version 1.6 */
        return push(m, (value){.kind = CALL, .number = CALLS});
    }
    if (!key || !pickle_is(word, TEXT, "storage") || (type->kind != TYPE && type->kind != CALL) ||
        key->kind != TEXT)
        return fail(m, "what it refers to is not a storage");
    const value *part = item(m, tuple, 5);
    if (part && part->kind == TUPLE)
        return fail(m,
                    "storage %.*s: a part of another; load the file with PyTorch and save it again",
                    (int)(key->length < 99 ? key->length : 99), key->text);
    m->depth--;
    if (type->kind == CALL) return push(m, (value){.kind = OBJECT}); /* elements of another type */
    value storage = {
        .kind = STORAGE, .number = type->number, .text = key->text, .length = key->length};
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
    if (!function || arguments->kind != TUPLE ||
        (function->kind != CALL && function->kind != OBJECT && function->kind != TYPE))
        return fail(m, "calls something that is not a function");
    int64_t which = function->kind == CALL ? function->number : CALLS;
    const value *a = item(m, arguments, 0), *b = item(m, arguments, 1);
    const value *shape = item(m, arguments, 2), *stride = item(m, arguments, 3);
    const value *view = item(m, arguments, 6);
    value made = {.kind = which == ORDERED_DICT ? DICT : OBJECT,
                  .made_of = {m->stack[m->depth - 1]}};
    if (which == REBUILD_TENSOR) {
        if (!a || (a->kind != STORAGE && a->kind != OBJECT) || !b || b->kind != NUMBER ||
            b->number < 0 || !sizes(m, shape) || !sizes(m, stride) || shape->count != stride->count)
            return fail(m, "a tensor whose storage, shape or strides are of another kind");
        made = (value){.kind = TENSOR, .first = arguments->first, .last = arguments->last};
        if (a->kind == OBJECT) made.text = rare_elements;
        if (view && view->kind == DICT && view->count) made.text = lazy_view;
    }
    if (which > CALLS) made.kind = TENSOR, made.text = others[which - CALLS - 1].why;
    if (which == REBUILD_PARAMETER || which == REBUILD_WITH_STATE) {
        if (!a || (a->kind != TENSOR && a->kind != OBJECT))
            return fail(m, "a parameter that is not a tensor");
        made = *a;
    }
    m->depth -= 2;
    return push(m, made);
}

/* Puts the value on top of the stack into this place of the memo. */
static int remember(machine *m, uint64_t place) {
    if (!m->depth) return fail(m, "nothing to put into the memo");
    if (place >= m->size || place > MOST)
        return fail(m, "a memo number beyond the size of the pickle");
    if (place >= m->noted) {
        size_t room = 2 * place + 64;
        m->memo = smoe_alloc_more(m->memo, room, sizeof *m->memo);
        memset(m->memo + m->noted, 0, (room - m->noted) * sizeof *m->memo);
        m->noted = room;
    }
    m->memo[place] = m->stack[m->depth - 1];
    return 0;
}

static int recall(machine *m, size_t bytes) {
    uint64_t place;
    if (take_number(m, bytes, &place)) return -1;
    if (place >= m->noted || !m->memo[place]) return fail(m, "the memo has nothing there");
    return push_again(m, m->memo[place]);
}

/* The state of a dictionary (the versions of a module) is not needed for its tensors; that of an
 * object is what it has. */
static int pickle_build(machine *m) {
    value *object = top(m, 1);
    const value *state = top(m, 0);
    if (!object || (object->kind != DICT && object->kind != OBJECT && object->kind != TENSOR))
        return fail(m, "sets the state of something that is not an object");
    if (object->kind == OBJECT && !object->first && state->kind == DICT) {
        object->first = state->first;
        object->last = state->last;
        object->count = state->count;
    }
    if (object->kind == OBJECT && state->kind == TUPLE) object->made_of[1] = m->stack[m->depth - 1];
    m->depth--;
    return 0;
}

/* One instruction; 1 at the end. */
static int step(machine *m) {
    m->began = m->at;
    const unsigned char *code = pickle_take(m, 1);
    uint64_t number;
    size_t from = 0; /* where marked values begin */
    if (!code || (memchr("tue1\x90\x91", *code, 6) && unmark(m, &from))) return -1;
    switch (*code) {
    case 0x80: return take_number(m, 1, &number);
    case 0x95: return take_number(m, 8, &number);
    case '(': return push(m, (value){.kind = MARK});
    case '}': return push(m, (value){.kind = DICT});
    case ']': return push(m, (value){.kind = LIST});
    case ')': return push(m, (value){.kind = TUPLE});
    case 0x91: return pickle_pack(m, from);             /* a frozen set */
    case 0x8f: return push(m, (value){.kind = OBJECT}); /* a set */
    case 'N': return push(m, (value){.kind = OTHER});
    case 0x88: return push(m, (value){.kind = NUMBER, .number = 1});
    case 0x89: return push(m, (value){.kind = NUMBER});
    case 'J': return push_number(m, 4, true);
    case 'K': return push_number(m, 1, false);
    case 'M': return push_number(m, 2, false);
    case 0x8a: return push_long(m);
    case 'G': return pickle_take(m, 8) ? push(m, (value){.kind = OTHER}) : -1;
    case 'X':
    case 'T': return push_text(m, 4, TEXT);
    case 'U':
    case 0x8c: return push_text(m, 1, TEXT);
    case 0x8d: return push_text(m, 8, TEXT);
    case 'B': return push_text(m, 4, BYTES);
    case 'C': return push_text(m, 1, BYTES);
    case 0x8e:
    case 0x96: return push_text(m, 8, BYTES);
    case 'q':
    case 'r': return take_number(m, *code == 'q' ? 1 : 4, &number) ? -1 : remember(m, number);
    case 0x94: return remember(m, m->notes++);
    case 'h': return recall(m, 1);
    case 'j': return recall(m, 4);
    case '0': return m->depth ? m->depth--, 0 : fail(m, "nothing to remove");
    case '1': return m->depth = from, 0;
    case 't': return pickle_pack(m, from);
    case 0x85:
    case 0x86:
    case 0x87:
        if (m->depth < *code - 0x84u) return fail(m, "a tuple of more values than there are");
        return pickle_pack(m, m->depth - (*code - 0x84u));
    case 'u': return extend(m, from, DICT);
    case 'e':
    case 0x90: return extend(m, from, LIST);
    case 's': return extend(m, m->depth < 2 ? 0 : m->depth - 2, DICT);
    case 'a': return extend(m, m->depth < 1 ? 0 : m->depth - 1, LIST);
    case 'c': return push_global(m);
    case 0x93: return push_stacked(m);
    case 'Q': return push_storage(m);
    case 'R':
    case 0x81: return call(m);
    case 'b': return pickle_build(m);
    case '.': return 1;
    default: return fail(m, "instruction 0x%02x, which PyTorch does not write", *code);
    }
}

/* ---- the tensors ----------------------------------------------------------------------------- */

/* Where a walk is: keys joined by dots. Inside an object they are parts of the tensor's name. */
typedef struct walk {
    const machine *m;
    smoe_pickle_visit *visit;
    void *user;
    smoe_err *err;
    size_t tensors;
    char where[SMOE_PICKLE_TEXT], name[SMOE_PICKLE_TEXT];
    int depth;
} walk;

/* Adds ".KEY" to a path; returns its previous length. What does not fit is cut: no tensor of a
 * model has such a name. */
static size_t pickle_enter(char path[SMOE_PICKLE_TEXT], const value *key, size_t index) {
    size_t before = strlen(path), left = SMOE_PICKLE_TEXT - before;
    const char *dot = before ? "." : "";
    if (key && key->kind == TEXT && !memchr(key->text, '\0', key->length))
        snprintf(path + before, left, "%s%.*s", dot,
                 (int)(key->length < SMOE_PICKLE_TEXT ? key->length : SMOE_PICKLE_TEXT), key->text);
    else
        snprintf(path + before, left, "%s%lld", dot,
                 key && key->kind == NUMBER ? (long long)key->number : (long long)index);
    return before;
}

/* The members of a module that its state dict does not name. */
static bool unnamed(const value *key) {
    return pickle_is(key, TEXT, "_modules") || pickle_is(key, TEXT, "_parameters") ||
           pickle_is(key, TEXT, "_buffers");
}

static int visit_tensor(walk *w, const value *v) {
    const machine *m = w->m;
    smoe_pickle_tensor t = {.type = "", .why = v->text};
    memcpy(t.where, w->where, sizeof t.where);
    memcpy(t.name, w->name, sizeof t.name);
    w->tensors++;
    if (t.why) return w->visit(w->user, &t, w->err);
    const value *storage = item(m, v, 0), *shape = item(m, v, 2), *stride = item(m, v, 3);
    if (storage->length >= sizeof t.storage || memchr(storage->text, '\0', storage->length))
        return smoe_fail(w->err, SMOE_DATA, "a storage whose name is not a text of up to %d bytes",
                         SMOE_PICKLE_TEXT - 1);
    memcpy(t.storage, storage->text, storage->length);
    t.type = types[storage->number].word;
    t.bytes = smoe_type_bytes(t.type);
    t.offset = (size_t)item(m, v, 1)->number;
    t.ndim = (int)shape->count;
    for (size_t i = 0; i < shape->count; i++) {
        t.dim[i] = (size_t)item(m, shape, i)->number;
        t.stride[i] = (size_t)item(m, stride, i)->number;
    }
    return w->visit(w->user, &t, w->err);
}

/* Each container once, so that one that refers to itself ends. NOLINTNEXTLINE(misc-no-recursion) */
static int walk_value(walk *w, value *v, bool inside) {
    enum { DEEP = 200 };
    bool pairs = v->kind == DICT || v->kind == OBJECT;
    if ((!pairs && v->kind != LIST && v->kind != TUPLE) || v->visited || w->depth == DEEP) return 0;
    int status = 0;
    size_t index = 0;
    v->visited = true;
    w->depth++;
    inside |= v->kind == OBJECT;
    for (size_t c = v->first; c && !status; c = w->m->cell[c].next, index++) {
        const value *key = pairs ? &w->m->value[w->m->cell[c].value] : NULL;
        if (pairs) c = w->m->cell[c].next;
        value *x = &w->m->value[w->m->cell[c].value];
        char *path = inside || x->kind == TENSOR ? w->name : w->where;
        size_t before = strlen(path);
        if (!key || !inside || !unnamed(key)) pickle_enter(path, key, index);
        /* Cells hold values that were made. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        status = x->kind == TENSOR ? visit_tensor(w, x) : walk_value(w, x, inside);
        path[before] = '\0';
    }
    w->depth--;
    return status;
}

int smoe_pickle_each(const smoe_pickle *m, smoe_pickle_visit *visit, void *user, smoe_err *err) {
    walk w = {.m = m, .visit = visit, .user = user, .err = err};
    for (size_t i = 0; i < m->values; i++) m->value[i].visited = false;
    if (walk_value(&w, top(m, 0), false)) return -1;
    return w.tensors ? 0 : smoe_fail(err, SMOE_DATA, "there are no tensors in it");
}

const char *smoe_pickle_text(const smoe_pickle *m, size_t i, char text[SMOE_PICKLE_TEXT]) {
    const value *list = top(m, 0);
    const value *v = list->kind == LIST ? item(m, list, i) : NULL;
    if (!v || v->kind != TEXT || v->length >= SMOE_PICKLE_TEXT) return NULL;
    snprintf(text, SMOE_PICKLE_TEXT, "%.*s", (int)v->length, v->text);
    return text;
}

size_t smoe_pickle_element(const smoe_pickle *m, const char *storage) {
    for (size_t i = 0; i < m->values; i++)
        if (pickle_is(&m->value[i], STORAGE, storage))
            return smoe_type_bytes(types[m->value[i].number].word);
    return 0;
}

/* ---- lists and arrays ------------------------------------------------------------------------ */

/* A text or bytes: v, or those of which Python 3 made bytes for Python 2 (_codecs.encode). */
static const value *pickle_letters(const machine *m, const value *v) {
    if (v && v->kind == OBJECT && v->made_of[0]) v = item(m, &m->value[v->made_of[0]], 0);
    return v && (v->kind == TEXT || v->kind == BYTES) ? v : NULL;
}

static bool spells(const machine *m, const value *v, const char *text) {
    const value *own = pickle_letters(m, v);
    return own && pickle_is(own, own->kind, text);
}

/* The value of a key; NULL: there is none. */
static const value *value_of_key(const machine *m, const char *key) {
    const value *dict = top(m, 0);
    for (size_t c = dict->kind == DICT ? dict->first : 0; c; c = m->cell[m->cell[c].next].next)
        if (spells(m, &m->value[m->cell[c].value], key))
            return &m->value[m->cell[m->cell[c].next].value];
    return NULL;
}

/* The numbers of a list or a tuple, of which `room` are kept; what is none counts as -1. */
static size_t numbers_of(const machine *m, const value *list, int64_t *number, size_t room) {
    size_t count = 0;
    for (size_t c = list->first; c; c = m->cell[c].next, count++) {
        const value *v = &m->value[m->cell[c].value];
        if (count < room) number[count] = v->kind == NUMBER ? v->number : -1;
    }
    return count;
}

size_t smoe_pickle_numbers(const smoe_pickle *m, const char *key, int64_t *number, size_t room) {
    const value *list = value_of_key(m, key);
    return list && list->kind == LIST ? numbers_of(m, list, number, room) : 0;
}

bool smoe_pickle_array(smoe_pickle_bytes *out, const smoe_pickle *m, const char *key) {
    const value *array = value_of_key(m, key);
    *out = (smoe_pickle_bytes){0};
    if (!array || array->kind != OBJECT || !array->made_of[0]) return false;
    bool set = array->made_of[1]; /* (version, shape, type, by columns, elements), */
    const value *from = &m->value[array->made_of[set]]; /* or (elements, type, shape, order) */
    const value *type = item(m, from, set ? 2 : 1), *order = item(m, from, 3);
    const value *elements = item(m, from, set ? 4 : 0), *own = pickle_letters(m, elements);
    const value *shape = item(m, from, set ? 1 : 2);
    bool by_rows = order && (set ? order->kind == NUMBER && !order->number : spells(m, order, "C"));
    if (!type || type->kind != OBJECT || !by_rows || !own || !type->made_of[0] || !shape ||
        !spells(m, item(m, &m->value[type->made_of[0]], 0), "u1"))
        return false;
    *out = (smoe_pickle_bytes){.text = own->text, .size = own->length, .letters = own != elements};
    size_t axes = numbers_of(m, shape, out->axis, SMOE_PICKLE_AXES);
    out->axes = axes <= SMOE_PICKLE_AXES ? axes : 0;
    return true;
}

void smoe_pickle_free(smoe_pickle *m) {
    if (!m) return;
    free(m->value);
    free(m->cell);
    free(m->stack);
    free(m->memo);
    free(m);
}

int smoe_pickle_read(smoe_pickle **pickle, const void *data, size_t size, size_t *used,
                     smoe_err *err) {
    machine *m = *pickle = smoe_alloc(1, sizeof *m);
    *m = (machine){.data = data, .size = size, .err = err};
    SMOE_APPEND(m->value, m->values) = (value){0};
    SMOE_APPEND(m->cell, m->cells) = (cell){0};
    int status = 0;
    while (!status) status = step(m);
    if (status > 0) status = m->depth ? 0 : fail(m, "it ends without a value");
    *used = m->at;
    if (!status) return 0;
    smoe_pickle_free(m);
    *pickle = NULL;
    return -1;
}
