/*
 * Reads .npz and .pth files; see foreign_parts.h. Both are zip files: a .npz of arrays, a .pth of a
 * pickle (pickle.h) and the storages that its tensors are views of.
 */
#include "tensors/foreign_parts.h"
#include "base/limits.h"
#include "tensors/npy.h"

#include <archive.h>
#include <archive_entry.h>

enum { NAME = SMOE_FOREIGN_NAME, DIMS = SMOE_FOREIGN_DIMS, MOST = 1 << 14 /* tensors */ };

typedef smoe_foreign_piece piece;
typedef smoe_foreign_member member;
typedef smoe_foreign_file foreign;

void smoe_foreign_file_free(foreign *f) {
    for (size_t i = 0; i < f->members; i++) {
        free(f->member[i].name);
        if (!f->member[i].borrowed) free(f->member[i].bytes);
    }
    free(f->member);
    free(f->piece);
    free(f->model);
}

/* Without a limit, many views of the same bytes could add up to any size. */
int smoe_foreign_add(foreign *f, const piece *p, smoe_err *err) {
    enum { OFTEN = 4 };
    size_t bytes = p->bytes;
    bool wide = false;
    for (int i = 0; i < p->ndim; i++) wide |= __builtin_mul_overflow(bytes, p->dim[i], &bytes);
    if (wide || __builtin_add_overflow(f->used, bytes, &f->used) || f->used / OFTEN > f->held)
        return smoe_fail(err, SMOE_DATA,
                         "tensor %s: the tensors have more elements than the file; save "
                         "tensor.clone() of views",
                         p->name);
    if (f->pieces == MOST) return smoe_fail(err, SMOE_DATA, "more than %d tensors", MOST);
    SMOE_APPEND(f->piece, f->pieces) = *p;
    return 0;
}

/* ---- zip ------------------------------------------------------------------------------------- */

/* libarchive says only that it does not know the format where it finds no list of members. */
static const char *zip_damage(struct archive *zip) {
    const char *why = archive_format(zip) ? archive_error_string(zip) : NULL;
    return why ? why
               : "the list of its files, which is at its end, is not found; it may be cut off";
}

/* Its room doubles and is given back in the end, so that no more is held than was inflated. */
static int member_read(struct archive *zip, member *m, size_t most, smoe_err *err) {
    enum { FIRST = 1 << 12 };
    for (size_t room = 0;;) {
        if (m->size == room) {
            room = 2 * room + FIRST;
            char *more = realloc(m->bytes, room);
            if (!more) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu bytes", room);
            m->bytes = more;
        }
        la_ssize_t n = archive_read_data(zip, m->bytes + m->size, room - m->size);
        if (n < 0) return smoe_fail(err, SMOE_DATA, "damaged: %s", zip_damage(zip));
        m->size += (size_t)n;
        if (m->size > most)
            return smoe_fail(err, SMOE_DATA,
                             "the file inflates to more than %d times its size, and weights do "
                             "not; numpy.savez writes arrays without compression",
                             SMOE_INFLATED_TIMES);
        if (!n) break;
    }
    char *less = realloc(m->bytes, m->size + 1);
    if (less) m->bytes = less;
    return 0;
}

/* A new member, which owns `name`. */
static member *add_member(foreign *f, char *name) {
    f->member = smoe_alloc_next(f->member, f->members, sizeof *f->member);
    f->member[f->members] = (member){.name = name};
    return &f->member[f->members++];
}

static int next_member(foreign *f, struct archive *zip, const char *name, size_t most,
                       smoe_err *err) {
    if (f->members == MOST)
        return smoe_fail(err, SMOE_DATA, "%s: more than %d tensors", f->path, MOST);
    member *m = add_member(f, smoe_alloc_text(name ? name : ""));
    if (member_read(zip, m, most - f->held, err))
        return smoe_fail_prefix(err, "%s: %.200s", f->path, m->name);
    f->held += m->size;
    return 0;
}

static int unzip(foreign *f, const void *bytes, size_t size, smoe_err *err) {
    /* A file without members is the end of their list alone, which libarchive does not find. */
    if (size >= strlen("PK\5\6") && !memcmp(bytes, "PK\5\6", strlen("PK\5\6"))) return 0;
    struct archive *zip = archive_read_new();
    struct archive_entry *entry;
    const size_t most = smoe_most_inflated(size);
    int status = 0, found = ARCHIVE_EOF;
    if (!zip) smoe_alloc_end();
    /* Without the list of members at the end, those that are damaged would be left out. */
    if (archive_read_support_format_zip_seekable(zip) != ARCHIVE_OK ||
        archive_read_open_memory(zip, bytes, size) != ARCHIVE_OK)
        status = smoe_fail(err, SMOE_DATA, "%s: damaged: %s", f->path, zip_damage(zip));
    while (!status && (found = archive_read_next_header(zip, &entry)) == ARCHIVE_OK)
        status = next_member(f, zip, archive_entry_pathname(entry), most, err);
    if (!status && found != ARCHIVE_EOF)
        status = smoe_fail(err, SMOE_DATA, "%s: damaged: %s", f->path, zip_damage(zip));
    archive_read_free(zip);
    return status;
}

/* ---- npz ------------------------------------------------------------------------------------- */

static const struct {
    const char *descr, *word;
} types[] = {{"<V2", "BF16"}, {"<f4", "F32"}, {"<f2", "F16"}, {"|V2", "BF16"}, {"<f8", "F64"},
             {"<i8", "I64"},  {"<i4", "I32"}, {"|u1", "U8"},  {"|i1", "I8"},   {"|b1", "BOOL"}};

/* Strides of the order C, or Fortran's, and the number of elements; false where it overflows. */
static bool set_strides(piece *p, bool fortran, size_t *count) {
    *count = 1;
    for (int i = 0; i < p->ndim; i++) {
        int axis = fortran ? i : p->ndim - 1 - i;
        p->stride[axis] = *count;
        if (__builtin_mul_overflow(*count, p->dim[axis], count)) return false;
    }
    return true;
}

static int npy_read(foreign *f, const member *m, smoe_err *err) {
    smoe_npy_header h;
    size_t count;
    const char *wrong = smoe_npy_header_read(&h, m->bytes, m->size);
    piece p = {.ndim = h.ndim, .data = m->bytes + h.from};
    for (size_t i = 0; !wrong && i < SMOE_COUNT(types); i++)
        if (!strcmp(h.dtype, types[i].descr)) p.type = types[i].word;
    if (wrong) return smoe_fail(err, SMOE_DATA, "not an array that can be read: %s", wrong);
    snprintf(p.name, sizeof p.name, "%.*s", (int)(strlen(m->name) - 4), m->name);
    if (!p.type) { /* as the state of random numbers beside a model */
        p.type = "";
        p.ndim = 0;
        p.why = "the type of its elements is not read; in Python, save array.astype('<f4') "
                "instead, or leave it out";
        return smoe_foreign_add(f, &p, err);
    }
    p.bytes = smoe_type_bytes(p.type);
    size_t left = m->size - h.from;
    memcpy(p.dim, h.dim, sizeof p.dim);
    if (!set_strides(&p, h.fortran, &count) || count > left / p.bytes || count * p.bytes != left)
        return smoe_fail(err, SMOE_DATA, "%zu bytes of elements do not fit its shape", left);
    return smoe_foreign_add(f, &p, err);
}

static int npz_read(foreign *f, smoe_err *err) {
    /* What members hold is freed with f. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    for (size_t i = 0; i < f->members; i++) {
        const member *m = &f->member[i];
        if (strlen(m->name) >= NAME)
            return smoe_fail(err, SMOE_DATA, "%s: %.200s: a name that is too long", f->path,
                             m->name);
        if (npy_read(f, m, err)) return smoe_fail_prefix(err, "%s: %s", f->path, m->name);
    }
    return 0;
}

/* ---- pth ------------------------------------------------------------------------------------- */

/* The storages of tensors: members that are called FOLDERdata/KEY. */
typedef struct pth {
    foreign *f;
    const char *folder; /* what comes before "data.pkl" */
    int letters;
} pth;

static const member *member_of(const pth *x, const char *under, const char *key) {
    char name[2 * NAME];
    snprintf(name, sizeof name, "%.*s%s%s", x->letters, x->folder, under, key);
    for (size_t i = 0; i < x->f->members; i++)
        if (!strcmp(x->f->member[i].name, name)) return &x->f->member[i];
    return NULL;
}

static int add_tensor(void *user, const piece *t, smoe_err *err) {
    const pth *x = user;
    if (t->why) return smoe_foreign_add(x->f, t, err); /* it matters only in the model */
    const member *m = member_of(x, "data/", t->storage);
    if (!m)
        return smoe_fail(err, SMOE_DATA, "tensor %s: its elements, data/%.40s, are not in the file",
                         t->name, t->storage);
    size_t last = t->offset, count = 1, there = m->size / t->bytes;
    bool beyond = false;
    for (int i = 0; i < t->ndim; i++) {
        size_t reach;
        beyond |= __builtin_mul_overflow(count, t->dim[i], &count);
        if (!t->dim[i]) continue;
        beyond |= __builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &reach);
        beyond |= __builtin_add_overflow(last, reach, &last);
    }
    if (beyond || (count && last >= there))
        return smoe_fail(err, SMOE_DATA, "tensor %s: goes beyond its elements; the file has %zu",
                         t->name, there);
    piece p = *t;
    p.data = m->bytes + (count ? t->offset * t->bytes : 0);
    return smoe_foreign_add(x->f, &p, err);
}

static int pth_read(foreign *f, const member *data, smoe_err *err) {
    pth x = {f, data->name, (int)(strlen(data->name) - strlen("data.pkl"))};
    SMOE_FREED_BY(smoe_pickle_freed) smoe_pickle *pickle = NULL;
    const member *order = member_of(&x, "", "byteorder");
    size_t used;
    if (order && order->size == 3 && !memcmp(order->bytes, "big", 3))
        return smoe_fail(
            err, SMOE_DATA,
            "%s: %.200s: its numbers are big-endian; load it with PyTorch on a machine "
            "that is not, and save it there",
            f->path, order->name);
    if (smoe_pickle_read(&pickle, data->bytes, data->size, &used, err) ||
        smoe_pickle_each(pickle, add_tensor, &x, err))
        return smoe_fail_prefix(err, "%s: %.200s", f->path, data->name);
    return 0;
}

/* ---- .pth of PyTorch before version 1.6 ------------------------------------------------------ */

static const char LEGACY[] = "\x80\x02\x8a\x0a"; /* its magic number, a pickle */

bool smoe_foreign_is_legacy(const void *bytes) {
    return !memcmp(bytes, LEGACY, 4);
}

/* The storages that a list has the keys of: each a number of elements and these. */
static int add_storages(foreign *f, const smoe_pickle *keys, const smoe_pickle *tensors,
                        const char *bytes, size_t size, smoe_err *err) {
    char key[NAME];
    size_t at = 0;
    for (size_t i = 0; smoe_pickle_text(keys, i, key); i++) {
        uint64_t elements;
        size_t each = smoe_pickle_element(tensors, key), length;
        if (!each)
            return smoe_fail(err, SMOE_DATA,
                             "storage %s: elements of a type that is not read; save plain tensors",
                             key);
        if (size - at < sizeof elements)
            return smoe_fail(err, SMOE_DATA, "storage %s: it is not in the file", key);
        memcpy(&elements, bytes + at, sizeof elements);
        at += sizeof elements;
        if (__builtin_mul_overflow(elements, each, &length) || length > size - at)
            return smoe_fail(err, SMOE_DATA, "storage %s: it goes past the end of the file", key);
        member *m = add_member(f, smoe_text_format("data/%s", key));
        *m = (member){m->name, (char *)bytes + at, length, true};
        f->held += length;
        at += length;
    }
    return 0;
}

/* Five pickles, a magic number, a version, the system, the object and the keys of its storages;
 * then these. */
static int legacy_read(foreign *f, const char *bytes, size_t size, smoe_err *err) {
    enum { OBJECT = 3, KEYS, PICKLES, LONGEST = 1 << 24 };
    smoe_pickle *pickle[PICKLES] = {0};
    size_t at = 0, used = 0;
    int status = 0;
    for (int i = 0; i < PICKLES && !status; i++, at += used) {
        size_t left = size - at;
        status =
            smoe_pickle_read(&pickle[i], bytes + at, left < LONGEST ? left : LONGEST, &used, err);
        if (status) smoe_fail_prefix(err, "pickle %d of %d, at offset %zu", i + 1, PICKLES, at);
    }
    if (!status) status = add_storages(f, pickle[KEYS], pickle[OBJECT], bytes + at, size - at, err);
    pth x = {f, "", 0};
    if (!status) status = smoe_pickle_each(pickle[OBJECT], add_tensor, &x, err);
    for (int i = 0; i < PICKLES; i++) smoe_pickle_free(pickle[i]);
    return status ? smoe_fail_prefix(err, "%s", f->path) : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* .npz or .pth, by the names of its members. */
static int read_members(foreign *f, smoe_err *err) {
    const member *pickle = NULL;
    bool arrays = f->members > 0;
    for (size_t i = 0; i < f->members; i++) {
        const char *name = f->member[i].name;
        arrays &= smoe_text_ends(name, ".npy");
        if (smoe_text_ends(name, "/data.pkl") || !strcmp(name, "data.pkl")) pickle = &f->member[i];
    }
    if (pickle) return pth_read(f, pickle, err);
    if (arrays) return npz_read(f, err);
    return smoe_fail(err, SMOE_DATA,
                     "%s: a zip file, but neither of arrays (.npz) nor from PyTorch (.pth)",
                     f->path);
}

int smoe_foreign_read(foreign *f, const void *bytes, size_t size, smoe_err *err) {
    if (smoe_foreign_is_legacy(bytes)) return legacy_read(f, bytes, size, err);
    return unzip(f, bytes, size, err) ? -1 : read_members(f, err);
}

int smoe_foreign_add_tensor(foreign *f, const smoe_tensor *t, smoe_err *err) {
    piece p = {
        .type = t->type, .bytes = smoe_type_bytes(t->type), .ndim = t->ndim, .data = t->data};
    size_t elements;
    memcpy(p.dim, t->dim, sizeof p.dim);
    snprintf(p.name, sizeof p.name, "%s", t->name);
    (void)set_strides(&p, false, &elements);
    return smoe_foreign_add(f, &p, err) ? smoe_fail_prefix(err, "%s", f->path) : 0;
}
