/* JSON as text; see json.h. */
#include "base/json.h"
#include "base/file.h"

json_t *smoe_json_of_number(double x) {
    if (!isfinite(x)) return json_null();
    return x == rint(x) && fabs(x) < 0x1p53 ? json_integer((json_int_t)x) : json_real(x);
}

json_t *smoe_json_text(const char *bytes) {
    json_t *exact = json_string(bytes);
    if (exact) return exact;
    SMOE_FREED char *text = smoe_text_utf8(bytes);
    return json_string(text);
}

json_t *smoe_json_of_text(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(value) || json_is_boolean(value)) return value;
    json_decref(value);
    return smoe_json_text(text);
}

void smoe_json_put(json_t *object, const char *path, char separator, json_t *value) {
    for (const char *end; (end = strchr(path, separator)); path = end + 1) {
        json_t *inner = json_object_getn(object, path, (size_t)(end - path));
        if (!inner) json_object_setn_new(object, path, (size_t)(end - path), inner = json_object());
        object = inner;
    }
    json_object_set_new(object, path, value);
}

json_t *smoe_json_at(const json_t *object, const char *path) {
    for (const char *end; (end = strchr(path, '.')); path = end + 1)
        object = json_object_getn(object, path, (size_t)(end - path));
    return json_object_get(object, path);
}

/* The length of a string or a number in JSON; of other text that of a character. */
static size_t token_length(const char *at) {
    size_t n = *at == '"' ? 1 : strspn(at, "+-.0123456789eE");
    for (; *at == '"' && at[n] != '"'; n++) n += at[n] == '\\';
    return n + (*at == '"' || !n);
}

static void put_real(FILE *out, double x) {
    char text[40];
    snprintf(text, sizeof text, "%.*g", smoe_text_digits(x, 1), x);
    fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* As Jansson writes it, but for the digits of reals, which are always 17 there. */
char *smoe_json_dump(const json_t *value, int indent) {
    size_t flags = indent ? JSON_INDENT((size_t)indent) : JSON_COMPACT, size, n;
    SMOE_FREED char *plain = json_dumps(value, JSON_ENCODE_ANY | flags);
    char *text = NULL;
    if (!plain) return NULL;
    FILE *out = smoe_alloc_stream(&text, &size);
    SMOE_NUMBERS_IN_C;
    for (const char *at = plain; *at; at += n) {
        size_t whole = strspn(at, "-0123456789");
        n = token_length(at);
        if (whole && whole < n)
            put_real(out, strtod(at, NULL));
        else
            fwrite(at, 1, n, out);
    }
    return smoe_alloc_stream_close(out, &text);
}

json_t *smoe_json_read(const char *path, smoe_err *err) {
    enum { MOST = 64 << 20 };
    SMOE_FREED char *text = NULL;
    size_t size;
    json_error_t bad;
    if (smoe_file_read(path, MOST, &text, &size, err)) return NULL;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &bad);
    if (!value)
        smoe_fail(err, SMOE_DATA, "%s:%d:%d: not JSON: %s", path, bad.line, bad.column, bad.text);
    return value;
}

json_t *smoe_json_beside(const char *file, const char *name, smoe_err *err) {
    SMOE_FREED char *path = smoe_file_beside(file, name);
    return smoe_json_read(path, err);
}

int smoe_json_write(const char *path, const json_t *value, smoe_err *err) {
    SMOE_FREED char *text = json_dumps(value, JSON_INDENT(2));
    size_t size = strlen(text);
    text[size] = '\n'; /* in the place of the NUL: written with its length */
    return smoe_file_write(path, text, size + 1, err);
}

/* Every member that is not an object, by its dotted name. */
static void json_flatten(json_t *flat, const char *before, const json_t *value) {
    const char *key;
    json_t *inner;
    json_object_foreach((json_t *)value, key, inner) {
        SMOE_FREED char *name = smoe_text_format("%s%s%s", before, *before ? "." : "", key);
        if (json_is_object(inner) && json_object_size(inner))
            json_flatten(flat, name, inner);
        else
            json_object_set(flat, name, inner);
    }
}

void smoe_json_compare(const json_t *a, const json_t *b, smoe_json_difference *differ, void *user) {
    json_auto_t *x = json_object(), *y = json_object();
    const char *name;
    json_t *value;
    json_flatten(x, "", a);
    json_flatten(y, "", b);
    json_object_foreach(x, name, value) {
        const json_t *other = json_object_get(y, name);
        if (!other || !json_equal(value, other)) differ(user, name, value, other);
    }
    json_object_foreach(y, name, value) if (!json_object_get(x, name))
        differ(user, name, NULL, value);
}
