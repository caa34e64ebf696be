/*
 * Which values have an effect; see smoe_spec_acts in spec.h. The conditions are the entries of
 * acts.def, and for keys of model.moe those of routers.def.
 */
#include "spec/routers.h"
#include "spec/schema.h"
#include "spec/sources.h"
#include "spec/tasks.h"

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

/* The predicates of acts.def that are one expression each. */
#define PREDICATE(name, condition)         \
    static bool name(const smoe_spec *s) { \
        return condition;                  \
    }
PREDICATE(always, s != NULL)
PREDICATE(path_is_read, !s->data.path || !smoe_sources[s->data.source].generated)
PREDICATE(exclusion_is_read, !s->data.exclude || reads_files(s))
PREDICATE(test_size_fits, !s->data.limit || s->data.test_size <= s->data.limit)
PREDICATE(train_limit_limits, !s->data.limit || s->data.train_limit < s->data.limit)
PREDICATE(uses_shapes, uses_source(s, SMOE_SOURCE_SHAPES))
PREDICATE(uses_facts, uses_source(s, SMOE_SOURCE_FACTS))
PREDICATE(uses_webdataset, uses_source(s, SMOE_SOURCE_WEBDATASET))
PREDICATE(uses_image_files, uses_source(s, SMOE_SOURCE_FOLDER) || uses_webdataset(s))
PREDICATE(table_is_read, !s->data.labels || uses_image_files(s))
PREDICATE(labels_are_members, uses_webdataset(s) && !s->data.labels)
PREDICATE(captions_are_read, uses_webdataset(s) && smoe_task_pairs(s->train.loss))
PREDICATE(capacity_counts, smoe_moe_chooses(&s->model.moe) ||
                               (!s->model.moe.slots_per_expert && !s->model.moe.total_slots))
PREDICATE(schedule_moves, s->train.schedule.name != SMOE_SCHEDULE_CONSTANT)
PREDICATE(has_shots, s->eval.fewshot.count > 0)
PREDICATE(fewshot_path_is_read, !s->eval.fewshot.data.path || fewshot_reads_files(s))
PREDICATE(fewshot_table_is_read, !s->eval.fewshot.data.labels || fewshot_reads_files(s))
PREDICATE(fewshot_has_source, s->eval.fewshot.data.source >= SMOE_FEWSHOT_SOURCE)
PREDICATE(is_trained_here, !s->trained)
PREDICATE(trained_precision_counts, !s->trained || s->eval.precision == SMOE_EVAL_PRECISION_TRAINED)
PREDICATE(batch_counts, !s->trained || !group_given(s))
#undef PREDICATE

typedef struct rule {
    const char *keys;
    const char *condition; /* NULL: the predicate */
    bool (*predicate)(const smoe_spec *s);
    const char *needs;
} rule;

static const rule rules[] = {
#define ACTS_IF(keys, condition) {keys, condition, NULL, NULL},
#define ACTS(keys, predicate, needs) {keys, NULL, predicate, needs},
#include "spec/acts.def"
#undef ACTS
#undef ACTS_IF
};
enum { RULES = sizeof rules / sizeof *rules };

/* The entry of the key with which a condition begins; *rest: its relation and the values. */
static int condition_key(const char *condition, const char **rest) {
    char key[SMOE_KEY_SIZE];
    size_t length = strcspn(condition, "=>");
    snprintf(key, sizeof key, "%.*s", (int)length, condition);
    *rest = condition + length;
    return smoe_schema_find(key);
}

static bool rule_holds(const rule *r, const smoe_spec *s) {
    const char *rest;
    if (!r->condition) return r->predicate(s);
    SMOE_FREED char *value = smoe_value_yaml(s, &smoe_schema[condition_key(r->condition, &rest)]);
    return *rest == '>' ? strtod(value, NULL) > strtod(rest + 1, NULL)
                        : smoe_text_has_word(rest + 1, '|', value);
}

/* "it needs train.loss softmax or sigmoid" */
static void rule_words(const rule *r, char why[SMOE_IDLE_TEXT]) {
    size_t used = (size_t)snprintf(why, SMOE_IDLE_TEXT, "it needs %s", r->needs ? r->needs : "");
    for (const char *c = r->condition; c && *c; c++)
        used += (size_t)snprintf(why + used, SMOE_IDLE_TEXT - used, "%s",
                                 *c == '='   ? " "
                                 : *c == '>' ? " above "
                                 : *c == '|' ? " or "
                                             : (char[]){*c, '\0'});
}

/* Whether the list contains the entry, or a section of it. */
static bool names_entry(const char *keys, int entry) {
    char name[SMOE_KEY_SIZE];
    while (smoe_text_next(&keys, ' ', name, sizeof name))
        if (!strcmp(smoe_schema[entry].key, name) || smoe_schema_within(entry, name)) return true;
    return false;
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
        if (names_entry(rules[i].keys, entry) && !rule_holds(&rules[i], s)) {
            rule_words(&rules[i], why);
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
        bool overridden = at->kind == SMOE_FROM_OVERRIDE;
        bool looked = overridden || (!quiet && (at->kind == SMOE_FROM_FILE || at->replaced));
        if (!looked || (!at->replaced && entry_acts(spec, (int)i, idle->why))) continue;
        if (at->replaced)
            snprintf(idle->why, sizeof idle->why, "%s on the command line replaces it",
                     at->replaced);
        idle->key = smoe_schema[i].key;
        idle->overridden = overridden;
        idle->line = at->line;
        idle->column = at->column;
        return i + 1;
    }
    return 0;
}

void smoe_reading_idle(smoe_reading *reading) {
    smoe_idle idle;
    for (size_t i = 0; (i = smoe_spec_idle(reading->spec, i, &idle));) {
        if (!idle.overridden || reading->bad[i - 1]) continue;
        smoe_reading_problem(reading, &reading->spec->origin[i - 1], idle.key, "has no effect: %s",
                             idle.why);
    }
}
