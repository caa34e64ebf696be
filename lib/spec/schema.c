/* The schema table as an array, and questions to it: which row, which section, which was meant. */
#include "spec/profiles.h"
#include "spec/schema.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

/* Names out of other tables, as choices: "none|Ti|S...", "soft|soft-uniform...",
 * "shapes|image-folder...". */
#define VARIANT(name, width, depth, mlp, heads) "|" name
static const char variant_choices[] = "none"
#include "spec/variants.def"
    ;
#undef VARIANT
#define SMOE_VARIANT_CHOICES variant_choices

#define ROUTER(name, ...) "|" name
static const char router_choices[] =
#include "spec/routers.def"
    "|random"; /* no router of its own: resolve.c says what it stands for */
#undef ROUTER
#define SMOE_ROUTER_CHOICES (router_choices + 1)

#define SOURCE(name, ...) "|" name
static const char fewshot_choices[] = "trained"
#include "spec/sources.def"
    ;
#undef SOURCE
#define SMOE_FEWSHOT_CHOICES fewshot_choices
#define SMOE_SOURCE_CHOICES (fewshot_choices + sizeof "trained")

#define TASK(id, name, ...) "|" name
static const char task_choices[] =
#include "spec/tasks.def"
    ;
#undef TASK
#define SMOE_TASK_CHOICES (task_choices + 1)

#define KEY(key, kind, member, preset, range, help) \
    {key, SMOE_KIND_##kind, offsetof(smoe_spec, member), preset, range, help},
const smoe_row smoe_rows[SMOE_ROW_COUNT] = {
#include "spec/schema.def"
};
#undef KEY

/* A row whose kind and member disagree does not compile. (An enum is an unsigned int here, gcc and
 * clang alike.) */
#define CTYPE_TEXT char *
#define CTYPE_PATH char *
#define CTYPE_SEED uint64_t
#define CTYPE_SIZE size_t
#define CTYPE_REAL double
#define CTYPE_WORD_REAL double
#define CTYPE_BOOL bool
#define CTYPE_ENUM unsigned
#define CTYPE_NAME char *
#define CTYPE_LAYERS char *
#define CTYPE_SIZES smoe_series
#define CTYPE_REALS smoe_series
#define CTYPE_SHOTS smoe_fewshot_spec
#define CTYPE_GROUPS smoe_groups
#define KEY(key, kind, member, preset, range, help)                                   \
    _Static_assert(_Generic(((smoe_spec *)0)->member, CTYPE_##kind : 1, default : 0), \
                   key " is not of kind " #kind);
#include "spec/schema.def"
#undef KEY

const smoe_profile_row smoe_profiles[SMOE_PROFILES] = {
#define PROFILE(profile, key, value, source) {profile, key, value, source},
#include "spec/profiles.def"
#undef PROFILE
};

static const smoe_variant variants[] = {
#define VARIANT(name, width, depth, mlp, heads) {name, width, depth, mlp, heads},
#include "spec/variants.def"
#undef VARIANT
};

const smoe_variant *smoe_variant_find(const char *name) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (!strcmp(variants[i].name, name)) return &variants[i];
    return NULL;
}

int smoe_row_find(const char *key) {
    for (int i = 0; i < SMOE_ROW_COUNT; i++)
        if (!strcmp(smoe_rows[i].key, key)) return i;
    return -1;
}

bool smoe_row_within(int row, const char *section) {
    size_t length = strlen(section);
    return !length ||
           (!strncmp(smoe_rows[row].key, section, length) && smoe_rows[row].key[length] == '.');
}

int smoe_row_section(const char *section) {
    for (int i = 0; i < SMOE_ROW_COUNT; i++)
        if (smoe_row_within(i, section)) return i;
    return -1;
}

/* "a|b" with another separator. */
static void join(char *buf, size_t size, const char *choices, const char *separator) {
    size_t used = 0;
    for (const char *c = choices; *c && used + strlen(separator) + 1 < size; c++) {
        if (*c != '|') {
            buf[used++] = *c;
            continue;
        }
        memcpy(buf + used, separator, strlen(separator));
        used += strlen(separator);
    }
    buf[used] = '\0';
}

const char *smoe_row_type(const smoe_row *row, char *buf, size_t size) {
    switch (row->kind) {
    case SMOE_KIND_TEXT: snprintf(buf, size, "text"); break;
    case SMOE_KIND_PATH: snprintf(buf, size, "path or null"); break;
    case SMOE_KIND_SEED:
    case SMOE_KIND_SIZE: snprintf(buf, size, "integer in %s", row->range); break;
    case SMOE_KIND_REAL: snprintf(buf, size, "number in %s", row->range); break;
    case SMOE_KIND_WORD_REAL:
        snprintf(buf, size, "%.*s | number in %s", (int)strcspn(row->range, "|"), row->range,
                 strchr(row->range, '|') + 1);
        break;
    case SMOE_KIND_BOOL: snprintf(buf, size, "true | false"); break;
    case SMOE_KIND_ENUM:
    case SMOE_KIND_NAME: join(buf, size, row->range, " | "); break;
    case SMOE_KIND_GROUPS:
    case SMOE_KIND_LAYERS: snprintf(buf, size, "%s", row->range); break;
    case SMOE_KIND_SIZES:
        snprintf(buf, size, "integer in %s, or a list of them", row->range);
        break;
    case SMOE_KIND_REALS: snprintf(buf, size, "number in %s, or a list of them", row->range); break;
    case SMOE_KIND_SHOTS: snprintf(buf, size, "list of integers in %s", row->range); break;
    }
    return buf;
}

void smoe_spec_each_key(smoe_spec_row *row, void *user) {
    for (size_t i = 0; i < SMOE_ROW_COUNT; i++) {
        char type[256];
        row(user, smoe_rows[i].key, smoe_row_type(&smoe_rows[i], type, sizeof type),
            smoe_rows[i].preset, smoe_rows[i].help);
    }
}

/* ---- what was meant -------------------------------------------------------------------------- */

static bool same_letters(const char *a, const char *b) {
    int count[256] = {0};
    for (; *a; a++) count[(unsigned char)*a]++;
    for (; *b; b++) count[(unsigned char)*b]--;
    for (size_t i = 0; i < 256; i++)
        if (count[i]) return false;
    return true;
}

size_t smoe_word_slips(const char *word, const char *candidate) {
    if (!strcasecmp(word, candidate)) return strcmp(word, candidate) ? 1 : 0;
    size_t distance = smoe_text_distance(word, candidate), length = strlen(word);
    size_t most = length / 3 > 1 ? length / 3 : 1;
    if (distance == 2 && same_letters(word, candidate)) return distance;
    return distance > most || distance >= length ? SIZE_MAX : distance;
}

bool smoe_row_meant(const char *section, const char *leaf, char meant[SMOE_KEY_SIZE]) {
    size_t best = SIZE_MAX;
    const char *dot = strrchr(leaf, '.'), *word = dot ? dot + 1 : leaf;
    for (int i = 0; i < SMOE_ROW_COUNT; i++) {
        /* Each part of a dotted key is a candidate: the last one the row itself, the others
         * sections. */
        const char *key = smoe_rows[i].key, *part = key;
        for (size_t length; *part; part += length + (part[length] == '.')) {
            char candidate[SMOE_KEY_SIZE];
            length = strcspn(part, ".");
            snprintf(candidate, sizeof candidate, "%.*s", (int)length, part);
            size_t slips = smoe_word_slips(word, candidate);
            size_t above =
                part > key ? (size_t)(part - key) - 1 : 0; /* length of its own section */
            bool sibling = strlen(section) == above && !strncmp(section, key, above);
            if (slips == SIZE_MAX || 2 * slips + !sibling >= best) continue;
            best = 2 * slips + !sibling;
            snprintf(meant, SMOE_KEY_SIZE, "%.*s", (int)(part - key + (ptrdiff_t)length), key);
        }
    }
    return best != SIZE_MAX;
}

int smoe_spec_check_key(const char *key, smoe_err *err) {
    char section[SMOE_KEY_SIZE], meant[SMOE_KEY_SIZE];
    if (smoe_row_find(key) >= 0 || smoe_row_section(key) >= 0) return 0;
    const char *dot = strrchr(key, '.');
    snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key) : 0, key);
    bool near = smoe_row_meant(section, dot ? dot + 1 : key, meant);
    return smoe_fail(err, SMOE_USAGE, "%s: unknown key%s%s%s", key, near ? "; did you mean " : "",
                     near ? meant : "", near ? "?" : "");
}
