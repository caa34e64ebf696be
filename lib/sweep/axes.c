/* What a sweep varies; see axes.h. */
#include "sweep/axes.h"
#include "compare/settings.h"
#include "spec/routers.h"

#include <ctype.h>

void smoe_points_free(smoe_points *points) {
    for (size_t p = 0; p < points->points; p++) smoe_texts_free(points->value[p], points->columns);
    smoe_texts_free(points->column, points->columns);
    free(points->value);
    *points = (smoe_points){0};
}

bool smoe_axes_product(smoe_points *product, const smoe_sweep_keys *keys, size_t most) {
    SMOE_FREED size_t *every = smoe_alloc(keys->count + 1, sizeof *every); /* points of a value */
    size_t points = 1;
    *product = (smoe_points){.slots = keys->slots};
    for (size_t k = keys->count; k--;) {
        bool together = k + 1 < keys->count && keys->key[k].zip && keys->key[k + 1].zip;
        every[k] = together ? every[k + 1] : points;
        if (!together) points *= keys->key[k].count;
        if (points > most) return false;
    }
    product->column = smoe_alloc(keys->count + 1, sizeof *product->column);
    for (size_t k = 0; k < keys->count; k++)
        product->column[product->columns++] = smoe_alloc_text(keys->key[k].key);
    product->value = smoe_alloc(points + 1, sizeof *product->value);
    for (; product->points < points; product->points++) {
        size_t p = product->points;
        product->value[p] = smoe_alloc(keys->count + 1, sizeof **product->value);
        for (size_t k = 0; k < keys->count; k++)
            product->value[p][k] =
                smoe_alloc_text(keys->key[k].value[p / every[k] % keys->key[k].count]);
    }
    return true;
}

size_t smoe_axes_assign(char **assign, const smoe_points *points, size_t p) {
    size_t count = 0;
    for (size_t c = 0; c < points->columns; c++) {
        const char *column = points->column[c], *value = points->value[p][c];
        const smoe_router_entry *entry = smoe_router_find(value);
        if (smoe_spec_started(column)) continue;
        if (strcmp(column, SMOE_ABLATED)) {
            assign[count++] = smoe_text_format("%s=%s", column, value);
            continue;
        }
        assign[count++] = entry ? smoe_text_format("model.moe.router=%s", value)
                                : smoe_alloc_text("model.moe.layers=none");
        if (!entry || entry->family != SMOE_FAMILY_FIXED || !points->slots) continue;
        assign[count++] = smoe_text_format("model.moe.slots_per_expert=%zu", points->slots);
        assign[count++] = smoe_alloc_text("model.moe.total_slots=0");
    }
    return count;
}

/* ---- from a spec and the command line -------------------------------------------------------- */

static bool names_key(const char *assign, const char *key) {
    size_t length = strlen(key);
    return !strncmp(assign, key, length) && assign[length] == '=';
}

/* Those of the grid, or of zip, that no override replaces; of the grid the seed, or the others. */
static void add_section(smoe_sweep_keys *keys, const smoe_sweep_keys *section,
                        char *const *overrides, size_t count, bool zip, bool seed) {
    for (size_t i = 0; i < section->count; i++) {
        const smoe_sweep_key *from = &section->key[i];
        bool overridden = false, last = !zip && !strcmp(from->key, "seed");
        for (size_t k = 0; k < count; k++) overridden |= names_key(overrides[k], from->key);
        if (overridden || from->zip != zip || last != seed) continue;
        smoe_sweep_key *key = smoe_spec_keys_add(keys, from->key, zip);
        key->value = smoe_texts_copy((const char *const *)from->value, from->count);
        key->count = from->count;
    }
}

/* Whether an override sweeps: key=a,b,c, or a key of what trials start from, also with one
 * value. */
static bool sweeps(const char *assign) {
    const char *equals = strchr(assign, '=');
    return equals && (*smoe_text_item(equals + 1) || smoe_spec_started(assign));
}

/* The key of an override and its values. */
static int add_override(smoe_sweep_keys *keys, const char *text, smoe_err *err) {
    SMOE_FREED char *name = smoe_alloc_part(text, strcspn(text, "="));
    const char *started = smoe_spec_started(name), *end;
    smoe_err unknown = {0};
    if (smoe_spec_check_key(started ? started : name, &unknown))
        return smoe_fail(err, SMOE_USAGE, "override %s: %s", text, unknown.text);
    for (size_t k = 0; k < keys->count; k++)
        if (!strcmp(keys->key[k].key, name))
            return smoe_fail(err, SMOE_USAGE, "override %s: %s is swept twice", text, name);
    smoe_sweep_key *key = smoe_spec_keys_add(keys, name, false);
    for (const char *at = text + strlen(name) + 1;; at = end + 1) {
        end = smoe_text_item(at);
        while (isspace((unsigned char)*at)) at++;
        if (at >= end && (key->count || *end))
            return smoe_fail(err, SMOE_USAGE, "override %s: a value is missing %s a comma", text,
                             key->count ? "after" : "before");
        char *value = smoe_settings_value(at, (size_t)(end - at));
        bool twice = smoe_spec_keys_have(key, value);
        SMOE_APPEND(key->value, key->count) = value;
        if (twice) return smoe_fail(err, SMOE_USAGE, "override %s: %s is given twice", text, value);
        if (!*end) return 0;
    }
}

int smoe_axes_of(smoe_sweep_keys *keys, const smoe_sweep_keys *section, char *const *overrides,
                 size_t count, char **plain, size_t *plains, smoe_err *err) {
    *plains = 0;
    for (size_t i = 0; i < count; i++)
        if (!sweeps(overrides[i])) plain[(*plains)++] = overrides[i];
    for (int seed = 0; seed < 2; seed++) {
        add_section(keys, section, overrides, count, false, seed);
        add_section(keys, section, overrides, count, true, seed);
        for (size_t i = 0; i < count; i++)
            if (sweeps(overrides[i]) && names_key(overrides[i], "seed") == seed &&
                add_override(keys, overrides[i], err))
                return -1;
    }
    return 0;
}

/* ---- ablations ------------------------------------------------------------------------------- */

static const char dense[] = "dense"; /* the setting without experts */

/* Adds a key with the items of the list. */
static int ablate_add_list(smoe_sweep_keys *keys, const char *name, const char *list,
                           smoe_err *err) {
    SMOE_FREED char *copy = smoe_alloc_text(list);
    smoe_sweep_key *key = smoe_spec_keys_add(keys, name, false);
    bool routers = !strcmp(name, SMOE_ABLATED);
    const char *known[SMOE_ROUTERS + 1] = {dense};
    for (size_t i = 0; i < SMOE_ROUTERS; i++) known[i + 1] = smoe_routers[i].name;
    char *rest = copy, *item;
    while ((item = strsep(&rest, ","))) {
        if (routers && !smoe_router_find(item) && strcmp(item, dense)) {
            int nearest = smoe_text_nearest(item, known, SMOE_ROUTERS + 1);
            return smoe_fail(err, SMOE_USAGE, "--routers: no router '%s'%s%s%s", item,
                             nearest < 0 ? "; `smoe help router` lists them" : "; did you mean '",
                             nearest < 0 ? "" : known[nearest], nearest < 0 ? "" : "'?");
        }
        if (!routers && (!*item || item[strspn(item, "0123456789")]))
            return smoe_fail(err, SMOE_USAGE,
                             "--seeds: expected whole numbers separated by commas, found '%s'",
                             list);
        if (smoe_spec_keys_have(key, item))
            return smoe_fail(err, SMOE_USAGE, "--%ss: '%s' is given twice", name, item);
        SMOE_APPEND(key->value, key->count) = smoe_alloc_text(item);
    }
    return 0;
}

int smoe_ablate_axes(smoe_sweep_keys *keys, const smoe_spec *spec, const char *routers,
                     const char *seeds, smoe_err *err) {
    const smoe_moe_spec *moe = &spec->model.moe;
    if (!moe->layer_count)
        return smoe_fail(err, SMOE_USAGE,
                         "model.moe.layers: none: there is no MoE layer whose router could change");
    size_t T = smoe_spec_tokens(spec), E = moe->experts;
    if (E * smoe_moe_slots_per_expert(moe, 0, T) < T) keys->slots = (T + E - 1) / E;
    if (ablate_add_list(keys, SMOE_ABLATED, routers, err)) return -1;
    return ablate_add_list(keys, "seed", seeds, err);
}
