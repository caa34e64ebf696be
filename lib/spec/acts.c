/*
 * Which values have an effect; see smoe_spec_acts in spec.h. The conditions are the entries of
 * acts.def, and for keys of model.moe those of routers.def.
 */
#include "spec/routers.h"
#include "spec/schema.h"
#include "spec/sources.h"
#include "spec/tasks.h"

#include <stdlib.h>
#include <string.h>

/* ---- conditions ------------------------------------------------------------------------------ */

/* Whether the few-shot evaluations have data of their own from this source. */
static bool fewshot_uses(const smoe_spec *s, size_t source) {
    return s->eval.fewshot.count && s->eval.fewshot.data.source == SMOE_FEWSHOT_SOURCE + source;
}

static bool uses_source(const smoe_spec *s, smoe_source source) {
    return s->data.source == source || fewshot_uses(s, source);
}

static bool fewshot_reads_files(const smoe_spec *s) {
    size_t source = s->eval.fewshot.data.source;
    return s->eval.fewshot.count && source >= SMOE_FEWSHOT_SOURCE &&
           !smoe_sources[source - SMOE_FEWSHOT_SOURCE].generated;
}

static bool reads_files(const smoe_spec *s) {
    return !smoe_sources[s->data.source].generated || fewshot_reads_files(s);
}

static bool generates(const smoe_spec *s) {
    for (size_t i = 0; i < SMOE_SOURCES; i++)
        if (smoe_sources[i].generated && uses_source(s, (smoe_source)i)) return true;
    return false;
}

/* Whether a size comes from the variant. `none` says that none does. */
static bool variant_counts(const smoe_spec *s) {
    static const char *const sizes[] = {"model.width", "model.depth", "model.mlp", "model.heads"};
    for (size_t i = 0; i < 4; i++)
        if (s->origin[smoe_schema_find(sizes[i])].kind < SMOE_FROM_FILE) return true;
    return !strcmp(s->model.variant, "none");
}

/* Else the group is made to divide the batch. */
static bool group_given(const smoe_spec *s) {
    return s->origin[smoe_schema_find("model.moe.group_images")].kind >= SMOE_FROM_FILE ||
           !smoe_moe_chooses(&s->model.moe);
}

typedef struct rule {
    const char *keys, *needs;
    bool (*holds)(const smoe_spec *s);
} rule;

/* A function for each entry of acts.def, named by its line. */
#define HOLDS_(line) holds_##line
#define HOLDS(line) HOLDS_(line)
#define ACTS(keys, condition, needs)                  \
    static bool HOLDS(__LINE__)(const smoe_spec *s) { \
        return condition;                             \
    }
#include "spec/acts.def"
#undef ACTS

#define ACTS(keys, condition, needs) {keys, needs, HOLDS(__LINE__)},
static const rule rules[] = {
#include "spec/acts.def"
};
#undef ACTS
enum { RULES = sizeof rules / sizeof *rules };

/* Whether the list contains the entry, or a section of it. */
static bool names_entry(const char *keys, int entry) {
    char name[SMOE_KEY_SIZE];
    for (size_t length; *keys; keys += length + (keys[length] == ' ')) {
        length = strcspn(keys, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, keys);
        if (!strcmp(smoe_schema[entry].key, name) || smoe_schema_within(entry, name)) return true;
    }
    return false;
}

bool smoe_acts_covers(int entry) {
    static const char section[] = "model.moe.";
    const char *key = smoe_schema[entry].key;
    for (size_t i = 0; i < RULES; i++)
        if (names_entry(rules[i].keys, entry)) return true;
    for (size_t r = 0; !strncmp(key, section, sizeof section - 1) && r < SMOE_ROUTERS; r++)
        if (smoe_text_has_word(smoe_routers[r].keys, ' ', key + sizeof section - 1)) return true;
    return false;
}

bool smoe_acts_names_known(char unknown[SMOE_KEY_SIZE]) {
    for (size_t i = 0; i < RULES; i++)
        for (const char *keys = rules[i].keys; *keys;) {
            size_t length = strcspn(keys, " ");
            snprintf(unknown, SMOE_KEY_SIZE, "%.*s", (int)length, keys);
            if (smoe_schema_find(unknown) < 0 && smoe_schema_section(unknown) < 0) return false;
            keys += length + (keys[length] == ' ');
        }
    return true;
}

/* The keys of MoE layers: there must be such layers, and a router that uses the key. */
static bool moe_acts(const smoe_spec *s, int entry, char why[SMOE_IDLE_TEXT]) {
    static const char section[] = "model.moe.";
    const char *key = smoe_schema[entry].key, *leaf = key + sizeof section - 1;
    if (strncmp(key, section, sizeof section - 1) || !strcmp(leaf, "layers")) return true;
    if (!s->model.moe.layer_count) {
        snprintf(why, SMOE_IDLE_TEXT, "model.moe.layers is none");
        return false;
    }
    if (smoe_router_heeds(smoe_router_find(s->model.moe.router), leaf)) return true;
    snprintf(why, SMOE_IDLE_TEXT, "router %s does not use it", s->model.moe.router);
    return false;
}

static bool entry_acts(const smoe_spec *s, int entry, char why[SMOE_IDLE_TEXT]) {
    if (!moe_acts(s, entry, why)) return false;
    for (size_t i = 0; i < RULES; i++)
        if (names_entry(rules[i].keys, entry) && !rules[i].holds(s)) {
            snprintf(why, SMOE_IDLE_TEXT, "it needs %s", rules[i].needs);
            return false;
        }
    return true;
}

bool smoe_spec_acts(const smoe_spec *spec, const char *key) {
    char why[SMOE_IDLE_TEXT];
    int entry = smoe_schema_find(key);
    return entry < 0 || entry_acts(spec, entry, why);
}

/* ---- values that have none ------------------------------------------------------------------- */

/* A resolved spec, as in a run, states every key. Only values given in addition to it are
 * checked. */
static bool states_all(const smoe_spec *spec) {
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        const smoe_provenance *at = &spec->origin[i];
        if (at->kind < SMOE_FROM_FILE && !at->replaced) return false;
    }
    return true;
}

size_t smoe_spec_idle(const smoe_spec *spec, size_t from, smoe_idle *idle) {
    bool quiet = spec->trained || states_all(spec);
    for (size_t i = from; i < SMOE_SCHEMA_COUNT; i++) {
        const smoe_provenance *at = &spec->origin[i];
        bool override = at->kind == SMOE_FROM_OVERRIDE;
        bool looked = override || (!quiet && (at->kind == SMOE_FROM_FILE || at->replaced));
        if (!looked || (!at->replaced && entry_acts(spec, (int)i, idle->why))) continue;
        if (at->replaced)
            snprintf(idle->why, sizeof idle->why, "%s on the command line replaces it",
                     at->replaced);
        idle->key = smoe_schema[i].key;
        idle->override = override;
        idle->line = at->line;
        idle->column = at->column;
        return i + 1;
    }
    return 0;
}

void smoe_reading_idle(smoe_reading *reading) {
    smoe_idle idle;
    for (size_t i = 0; (i = smoe_spec_idle(reading->spec, i, &idle));) {
        if (!idle.override || reading->bad[i - 1]) continue;
        smoe_reading_problem(reading, &reading->spec->origin[i - 1], idle.key, "has no effect: %s",
                             idle.why);
    }
}
