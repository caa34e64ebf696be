/* Writing a page of HTML; see page.h. */
#include "draw/page.h"
#include "base/file.h"

#include <assert.h>
#include <sha256.h>
#include <stdarg.h>

struct smoe_page {
    FILE *out;
};

/* ---- HTML ------------------------------------------------------------------------------------ */

static void put_html_text(FILE *out, const char *text) {
    long point;
    for (size_t length; *text; text += length) {
        length = smoe_text_character(text, &point);
        switch (point) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        case -1: fputs(SMOE_TEXT_REPLACEMENT, out); break;
        default:
            if (point < ' ' && point != '\n')
                fputc(' ', out);
            else
                fwrite(text, 1, length, out);
        }
    }
}

/* Whole numbers in groups of three digits. */
static void put_html_number(FILE *out, double v, int digits) {
    char text[32];
    if (!isfinite(v)) {
        fputs("\xe2\x80\x93", out);
    } else if (v != floor(v) || fabs(v) >= 1e15) {
        fprintf(out, "%.*g", digits, v);
    } else {
        int length = snprintf(text, sizeof text, "%.0f", v);
        for (int i = 0; i < length; i++) {
            if (i && text[i - 1] != '-' && (length - i) % 3 == 0)
                fputs("\xe2\x80\xaf", out); /* a narrow space */
            fputc(text[i], out);
        }
    }
}

void smoe_page_put_html(smoe_page *page, const char *form, ...) {
    FILE *out = page->out;
    va_list values;
    va_start(values, form);
    for (; *form; form++) {
        size_t plain = strcspn(form, "%");
        fwrite(form, 1, plain, out);
        form += plain;
        if (!*form) break;
        int digits = 6;
        form++;
        if (*form == '.') digits = (int)strtol(form + 1, (char **)&form, 10);
        switch (*form) {
        case 's': put_html_text(out, va_arg(values, const char *)); break;
        case 'z':
            fprintf(out, "%zu", va_arg(values, size_t));
            form++;
            break;
        case 'g': put_html_number(out, va_arg(values, double), digits); break;
        default: assert(!"a conversion that forms of pages do not have");
        }
    }
    va_end(values);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

enum { JSON_FORM = JSON_COMPACT | JSON_REAL_PRECISION(10) };

/* What means something to HTML is only in strings, where it can be escaped. */
static int page_put_json(const char *text, size_t size, void *out) {
    for (size_t i = 0; i < size; i++)
        if (strchr("<>&", text[i]))
            fprintf(out, "\\u%04x", text[i]);
        else
            fputc(text[i], out);
    return 0;
}

void smoe_page_json(smoe_page *page, const json_t *value) {
    json_dump_callback(value, page_put_json, page->out, JSON_FORM);
}

size_t smoe_page_json_size(const json_t *value) {
    return json_dumpb(value, NULL, 0, JSON_FORM);
}

char *smoe_page_base64(const uint8_t *bytes, size_t size) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = smoe_alloc((size + 2) / 3 * 4 + 1, 1), *to = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t three = (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (n > 2 ? bytes[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) *to++ = k <= n ? letters[three >> (18 - 6 * k) & 63] : '=';
    }
    return text;
}

/* ---- the page -------------------------------------------------------------------------------- */

typedef struct job {
    smoe_page_fill *fill;
    const void *context;
} job;

static int page_put_named(smoe_page *page, const char *name, const job *j, smoe_err *err) {
    static const char digest[] = "sha256 ";
    bool sum = !strncmp(name, digest, sizeof digest - 1);
    size_t size;
    const char *part = smoe_page_part(sum ? name + sizeof digest - 1 : name, &size);
    if (!part) return j->fill(page, name, j->context, err);
    if (!sum) {
        fwrite(part, 1, size, page->out);
        return 0;
    }
    uint8_t bytes[SHA256_DIGEST_LENGTH];
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, (const uint8_t *)part, size);
    SHA256Final(bytes, &context);
    SMOE_FREED char *text = smoe_page_base64(bytes, sizeof bytes);
    fputs(text, page->out);
    return 0;
}

static int put_page(FILE *out, const void *context, smoe_err *err) {
    const job *j = context;
    smoe_page page = {.out = out};
    size_t size;
    const char *at = smoe_page_part("report.html", &size), *end = at + size;
    while (at < end) {
        const char *open = memmem(at, (size_t)(end - at), "{{", 2);
        const char *close = open ? memmem(open, (size_t)(end - open), "}}", 2) : NULL;
        char name[48];
        fwrite(at, 1, (size_t)((close ? open : end) - at), out);
        if (!close) break;
        snprintf(name, sizeof name, "%.*s", (int)(close - open - 2), open + 2);
        if (page_put_named(&page, name, j, err)) return -1;
        at = close + 2;
    }
    return 0;
}

int smoe_page_write(const char *path, smoe_page_fill *fill, const void *context, smoe_err *err) {
    return smoe_file_print(path, put_page, &(job){fill, context}, err);
}
