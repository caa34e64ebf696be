/* The schema table as an array, and functions that look up entries, sections, and the nearest known
 * key of a misspelt one. */
#include "spec/schema.h"
#include "spec/sources.h"
#include "base/digest.h"

#include <pthread.h>

/* Names out of other tables, as choices: "none|Ti|S...", "soft|soft-uniform...",
 * "shapes|image-folder...". */
#define VARIANT(name, width, depth, mlp, heads) "|" name
static const char variant_choices[] = "none"
#include "spec/variants.def"
    ;
#define SMOE_VARIANT_CHOICES variant_choices

#define ROUTER(name, ...) "|" name
static const char router_choices[] =
#include "spec/routers.def"
    "|random"; /* no router of its own: resolve.c says what it stands for */
#define SMOE_ROUTER_CHOICES (router_choices + 1)

#define SOURCE(name, ...) "|" name
static const char fewshot_choices[] = "trained"
#include "spec/sources.def"
    ;
#define SMOE_FEWSHOT_CHOICES fewshot_choices
#define SMOE_SOURCE_CHOICES (fewshot_choices + sizeof "trained")

#define TASK(id, name, ...) "|" name
static const char task_choices[] =
#include "spec/tasks.def"
    ;
#define SMOE_TASK_CHOICES (task_choices + 1)

#define KEY(key, kind, member, preset, range, help) \
    {key, SMOE_KIND_##kind, offsetof(smoe_spec, member), preset, range, help},
const smoe_schema_entry smoe_schema[SMOE_SCHEMA_COUNT] = {
#include "spec/schema.def"
};

/* An entry whose kind and member disagree does not compile. (An enum is an unsigned int here, gcc
 * and clang alike.) */
#define CTYPE_TEXT char *
#define CTYPE_PATH char *
#define CTYPE_SIZE size_t
#define CTYPE_SEED size_t
#define CTYPE_SPAN smoe_span
#define CTYPE_REAL double
#define CTYPE_WORD_REAL double
#define CTYPE_BOOL bool
#define CTYPE_ENUM unsigned
#define CTYPE_NAME char *
#define CTYPE_LAYERS char *
#define CTYPE_SIZES smoe_series
#define CTYPE_REALS smoe_series
#define CTYPE_SHOTS smoe_fewshot_spec
#define CTYPE_INDICES smoe_indices
#define CTYPE_GROUPS smoe_groups
#define CTYPE_PROMPTS smoe_prompts
#define KEY(key, kind, member, preset, range, help)                                   \
    _Static_assert(_Generic(((smoe_spec *)0)->member, CTYPE_##kind : 1, default : 0), \
                   key " is not of kind " #kind);
#include "spec/schema.def"

const smoe_profile_entry smoe_profiles[SMOE_PROFILES] = {
#define PROFILE(profile, key, value, source) {profile, key, value, source},
#include "spec/profiles.def"
};

enum from { FILES, GENERATED };
enum texts { NONE, CAPTIONS };

#define SOURCE(name, source, type, classes, from, texts) \
    [source] = {name, classes, (from) == GENERATED, (texts) == CAPTIONS},
const smoe_source_entry smoe_sources[SMOE_SOURCES] = {
#include "spec/sources.def"
};

const smoe_source_entry *smoe_source_find(const char *name) {
    for (size_t i = 0; i < SMOE_SOURCES; i++)
        if (!strcmp(smoe_sources[i].name, name)) return &smoe_sources[i];
    return NULL;
}

static const smoe_variant variants[] = {
#define VARIANT(name, width, depth, mlp, heads) {name, width, depth, mlp, heads},
#include "spec/variants.def"
};

const smoe_variant *smoe_variant_find(const char *name) {
    for (size_t i = 0; i < SMOE_COUNT(variants); i++)
        if (!strcmp(variants[i].name, name)) return &variants[i];
    return NULL;
}

/* Entries + 1 by the digest of their keys; 0: free. More than twice as many as there are keys. */
enum { PLACES = 1024 };
static uint16_t place[PLACES];
static pthread_once_t placed = PTHREAD_ONCE_INIT;

/* The place of a key, or the free one where it would be. */
static uint16_t *schema_place_of(const char *key) {
    size_t at = (size_t)smoe_digest_number(key, strlen(key)) % PLACES;
    while (place[at] && strcmp(smoe_schema[place[at] - 1].key, key)) at = (at + 1) % PLACES;
    return &place[at];
}

static void place_keys(void) {
    _Static_assert(2 * SMOE_SCHEMA_COUNT < PLACES, "too few places");
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++)
        *schema_place_of(smoe_schema[i].key) = (uint16_t)(i + 1);
}

int smoe_schema_find(const char *key) {
    pthread_once(&placed, place_keys);
    return (int)*schema_place_of(key) - 1;
}

bool smoe_schema_within(int entry, const char *section) {
    size_t length = strlen(section);
    return !length || (!strncmp(smoe_schema[entry].key, section, length) &&
                       smoe_schema[entry].key[length] == '.');
}

int smoe_schema_section(const char *section) {
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++)
        if (smoe_schema_within(i, section)) return i;
    return -1;
}

/* "a | b" of "a|b". */
static void put_choices(char *buf, size_t size, const char *choices) {
    size_t used = 0;
    for (const char *c = choices; *c && used + 4 < size; c++) {
        const char *space = *c == '|' ? " " : "";
        used += (size_t)snprintf(buf + used, size - used, "%s%c%s", space, *c, space);
    }
}

const char *smoe_schema_type(const smoe_schema_entry *entry, char *buf, size_t size) {
    static const struct {
        const char *before, *behind; /* the range; NULL: the choices alone */
    } words[] = {[SMOE_KIND_TEXT] = {"text", ""},
                 [SMOE_KIND_PATH] = {"path or null", ""},
                 [SMOE_KIND_SIZE] = {"integer in ", ""},
                 [SMOE_KIND_SPAN] = {"integer in ", ", or a share in (0, 1)"},
                 [SMOE_KIND_REAL] = {"number in ", ""},
                 [SMOE_KIND_WORD_REAL] = {" | number in ", ""},
                 [SMOE_KIND_BOOL] = {"true | false", ""},
                 [SMOE_KIND_LAYERS] = {"", ""},
                 [SMOE_KIND_SIZES] = {"integer in ", ", or a list of them"},
                 [SMOE_KIND_REALS] = {"number in ", ", or a list of them"},
                 [SMOE_KIND_SHOTS] = {"list of integers in ", ""},
                 [SMOE_KIND_INDICES] = {" | list of integers in ", ""},
                 [SMOE_KIND_GROUPS] = {"", ""},
                 [SMOE_KIND_PROMPTS] = {"", ""}};
    bool word = entry->kind == SMOE_KIND_WORD_REAL || entry->kind == SMOE_KIND_INDICES;
    size_t length = word ? strcspn(entry->range, "|") : 0; /* of a word in front of the range */
    if (words[entry->kind].before)
        snprintf(buf, size, "%.*s%s%s%s", (int)length, entry->range, words[entry->kind].before,
                 entry->range + length + word, words[entry->kind].behind);
    else
        put_choices(buf, size, entry->range);
    return buf;
}

/* ---- what was meant -------------------------------------------------------------------------- */

/* Whether a word is one of the words of a name that are joined by underscores. */
static bool is_word_of(const char *word, const char *name) {
    const size_t length = strlen(word);
    for (const char *at = name; at; at = (at = strchr(at, '_')) ? at + 1 : NULL)
        if (!strncmp(at, word, length) && (at[length] == '_' || !at[length])) return true;
    return false;
}

bool smoe_schema_meant(const char *section, const char *leaf, char meant[SMOE_KEY_SIZE]) {
    size_t best = SIZE_MAX;
    const char *dot = strrchr(leaf, '.'), *word = dot ? dot + 1 : leaf;
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        /* Each part of a dotted key is a candidate: the last one the entry itself, the others
         * sections. */
        const char *key = smoe_schema[i].key, *part = key,
                   *before = i ? smoe_schema[i - 1].key : "";
        for (size_t length; *part; part += length + (part[length] == '.')) {
            char candidate[SMOE_KEY_SIZE];
            length = strcspn(part, ".");
            size_t whole = (size_t)(part - key) + length;
            if (part[length] && !strncmp(before, key, whole + 1)) continue; /* seen with that key */
            snprintf(candidate, sizeof candidate, "%.*s", (int)length, part);
            size_t slips = smoe_text_slips(word, candidate);
            size_t above =
                part > key ? (size_t)(part - key) - 1 : 0; /* length of its own section */
            bool sibling = strlen(section) == above && !strncmp(section, key, above);
            if (sibling && slips == SIZE_MAX && is_word_of(word, candidate)) slips = 1;
            if (slips == SIZE_MAX || 2 * slips + !sibling >= best) continue;
            best = 2 * slips + !sibling;
            snprintf(meant, SMOE_KEY_SIZE, "%.*s", (int)(part - key + (ptrdiff_t)length), key);
        }
    }
    return best != SIZE_MAX;
}

const char *smoe_spec_key_called(const char *word) {
    const char *found = NULL;
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        const char *key = smoe_schema[i].key, *end = strchr(key, '.');
        if (smoe_text_same_word(word, key)) return key;
        while (end && !smoe_text_same_word(word, end + 1)) end = strchr(end + 1, '.');
        if (!end) continue;
        bool train = smoe_schema_within(i, "train"), had = found && !strncmp(found, "train.", 6);
        if (!found || train > had || (train == had && strlen(key) < strlen(found))) found = key;
    }
    return found;
}

const char *smoe_spec_key_near(const char *word) {
    const char *leaf[SMOE_SCHEMA_COUNT];
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        const char *dot = strrchr(smoe_schema[i].key, '.');
        leaf[i] = dot ? dot + 1 : smoe_schema[i].key;
    }
    int nearest = smoe_text_nearest(word, leaf, SMOE_SCHEMA_COUNT);
    return nearest < 0 ? NULL : smoe_spec_key_called(leaf[nearest]);
}

bool smoe_spec_shortened(const smoe_spec *spec, const char *key) {
    int entry = smoe_schema_find(key);
    return entry >= 0 && spec->origin && spec->origin[entry].kind == SMOE_FROM_SHORTENED;
}

int smoe_spec_check_key(const char *key, smoe_err *err) {
    char section[SMOE_KEY_SIZE], meant[SMOE_KEY_SIZE];
    if (smoe_schema_find(key) >= 0 || smoe_schema_section(key) >= 0) return 0;
    const char *dot = strrchr(key, '.'), *leaf = dot ? dot + 1 : key;
    const char *here = smoe_spec_elsewhere(leaf);
    if (here) return smoe_fail(err, SMOE_USAGE, "%s: unknown key; %s", key, here);
    snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key) : 0, key);
    bool near = smoe_schema_meant(section, leaf, meant);
    return smoe_fail(err, SMOE_USAGE, "%s: unknown key%s%s%s", key, near ? "; did you mean " : "",
                     near ? meant : "", near ? "?" : "");
}
