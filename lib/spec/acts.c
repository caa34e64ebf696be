/*
 * Which values have an effect: the words of rules.def, and what breaks a rule; see smoe_spec_acts
 * in spec.h. Which keys of model.moe a router uses is in its entry of routers.def.
 */
#include "base/json.h"
#include "spec/routers.h"
#include "spec/rules.h"
#include "spec/schema.h"
#include "spec/sources.h"

/* The source of the few-shot evaluations, where it is one of their own; else NULL. */
static const smoe_source_entry *fewshot_source(const smoe_spec *s) {
    size_t source = s->eval.fewshot.data.source;
    return s->eval.fewshot.count && source >= SMOE_FEWSHOT_SOURCE
               ? &smoe_sources[source - SMOE_FEWSHOT_SOURCE]
               : NULL;
}

static bool is_given(const smoe_spec *s, const char *key) {
    return s->origin[smoe_schema_find(key)].kind >= SMOE_FROM_FILE;
}

/* What a name in rules.def stands for: whether it holds; NULL where there is no such name. */
static const char *predicate(const smoe_spec *s, const char *name, bool *holds) {
    const smoe_source_entry *source = &smoe_sources[s->data.source], *own = fewshot_source(s);
    const smoe_moe_spec *moe = &s->model.moe;
    const size_t limit = s->data.limit;
    bool sized = is_given(s, "model.width") && is_given(s, "model.depth") &&
                 is_given(s, "model.mlp") && is_given(s, "model.heads");
    /* a group of images that is not given is made to divide the batch */
    bool grouped = smoe_moe_chooses(moe) && !is_given(s, "model.moe.group_images");
    const struct {
        const char *name, *called;
        bool holds;
    } predicates[] = {
        {"path-is-read", "a data.source that reads files", !source->generated},
        {"files-are-read", "a data.source that reads files",
         !source->generated || (own && !own->generated)},
        {"images-are-made", "a data.source that is generated",
         source->generated || (own && own->generated)},
        {"test-size-fits",
         "a data.limit of 0 or at least as large; data.train_limit limits the training images "
         "alone",
         !limit || s->data.test_size <= limit},
        {"train-limit-is-less", "a data.limit of 0 or a larger one",
         !limit || s->data.train_limit < limit},
        {"no-labels", "no data.labels", !s->data.labels},
        {"variant-has-a-size", "a size (width, depth, mlp, heads) that is not given itself",
         !sized || !strcmp(s->model.variant, "none")},
        {"slots-by-capacity", "slots_per_expert 0 and total_slots 0, or a router that chooses",
         smoe_moe_chooses(moe) || (!moe->slots_per_expert && !moe->total_slots)},
        {"schedule-moves", "a train.schedule.name that is not constant",
         s->train.schedule.name != SMOE_SCHEDULE_CONSTANT},
        /* 0 is none, which is what the other schedules have */
        {"cooldown", "train.schedule.name rsqrt",
         s->train.schedule.name == SMOE_SCHEDULE_RSQRT ||
             (!s->train.schedule.cooldown.steps &&
              s->train.schedule.name != SMOE_SCHEDULE_CONSTANT)},
        {"fewshot", "eval.fewshot.shots", s->eval.fewshot.count > 0},
        {"fewshot-files", "an eval.fewshot.data.source that reads files", own && !own->generated},
        {"fewshot-data", "an eval.fewshot.data.source of its own",
         s->eval.fewshot.data.source >= SMOE_FEWSHOT_SOURCE},
        {"training", "a model that is trained here", !s->trained},
        {"batch", "a model that is trained here", !s->trained || grouped},
    };
    for (size_t i = 0; i < SMOE_COUNT(predicates); i++)
        if (!strcmp(name, predicates[i].name)) {
            *holds = predicates[i].holds;
            return predicates[i].called;
        }
    return NULL;
}

smoe_rule_answer smoe_spec_ask(const void *subject, const char *word, char called[SMOE_RULE_WORD]) {
    const smoe_spec *s = subject;
    bool holds = false, source = !strncmp(word, "source=", 7);
    const char *name = predicate(s, word, &holds), *values = word + strcspn(word, "=>");
    char key[SMOE_KEY_SIZE], one[SMOE_RULE_WORD];
    if (name) {
        snprintf(called, SMOE_RULE_WORD, "%s", name);
        return holds ? SMOE_RULE_YES : SMOE_RULE_NO;
    }
    snprintf(key, sizeof key, "%s%.*s", source ? "data." : "", (int)(values - word), word);
    if (!*values || smoe_schema_find(key) < 0) return SMOE_RULE_NO; /* a test finds such words */
    SMOE_FREED char *value = smoe_value_yaml(s, &smoe_schema[smoe_schema_find(key)]);
    const char *before = *values++ == '>' ? " above " : " ";
    snprintf(called, SMOE_RULE_WORD, "%s", key);
    for (const char *rest = values; smoe_text_next(&rest, '|', one, sizeof one); before = " or ") {
        size_t used = strlen(called);
        snprintf(called + used, SMOE_RULE_WORD - used, "%s%s", before, one);
        holds |= values[-1] == '>' ? strtod(value, NULL) > strtod(one, NULL) : !strcmp(value, one);
        if (source && fewshot_source(s)) holds |= !strcmp(fewshot_source(s)->name, one);
    }
    return holds ? SMOE_RULE_YES : SMOE_RULE_NO;
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
    /* null in place of a path says that there is none */
    if (smoe_schema[entry].kind == SMOE_KIND_PATH && !*(char **)((char *)s + smoe_schema[entry].at))
        return true;
    for (size_t i = 0; i < smoe_spec_rule_count; i++) {
        if (!smoe_rule_names(&smoe_spec_rules[i], smoe_schema[entry].key)) continue;
        SMOE_FREED char *broken = smoe_rule_broken(&smoe_spec_rules[i], smoe_spec_ask, s);
        if (!broken) continue;
        snprintf(why, SMOE_IDLE_TEXT, "it %s", broken);
        return false;
    }
    return true;
}

bool smoe_spec_acts(const smoe_spec *spec, const char *key) {
    char why[SMOE_IDLE_TEXT];
    int entry = smoe_schema_find(key);
    return entry < 0 || entry_acts(spec, entry, why);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

const char *smoe_spec_pixels_apart(const smoe_spec *a, const smoe_spec *b, char *list,
                                   size_t size) {
    static const char *const keys[] = {"data.channels", "data.image_size", "data.orientation",
                                       "data.fit",      "data.resize",     "data.crop_pct"};
    json_auto_t *x = smoe_spec_object(a), *y = smoe_spec_object(b);
    *list = '\0';
    if (smoe_series_differ(&a->data.mean, &b->data.mean, a->data.channels))
        smoe_text_list(list, size, "data.mean");
    if (smoe_series_differ(&a->data.std, &b->data.std, a->data.channels))
        smoe_text_list(list, size, "data.std");
    for (size_t i = 0; i < SMOE_COUNT(keys); i++)
        if ((smoe_spec_acts(a, keys[i]) || smoe_spec_acts(b, keys[i])) &&
            !json_equal(smoe_json_at(x, keys[i]), smoe_json_at(y, keys[i])))
            smoe_text_list(list, size, "%s", keys[i]);
    return list;
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

/* Whether it is one of MoE layers, which an override leaves out: then nobody expects an effect. */
static bool is_left_out(const smoe_spec *s, const char *key) {
    return !s->model.moe.layer_count && !strncmp(key, "model.moe.", strlen("model.moe.")) &&
           s->origin[smoe_schema_find("model.moe.layers")].kind == SMOE_FROM_OVERRIDE;
}

size_t smoe_spec_idle(const smoe_spec *spec, size_t from, smoe_idle *idle) {
    bool quiet = spec->trained || states_all(spec);
    for (size_t i = from; i < SMOE_SCHEMA_COUNT; i++) {
        const smoe_provenance *at = &spec->origin[i];
        bool overridden = at->kind == SMOE_FROM_OVERRIDE;
        bool looked = overridden || (!quiet && (at->kind == SMOE_FROM_FILE || at->replaced) &&
                                     !is_left_out(spec, smoe_schema[i].key));
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
