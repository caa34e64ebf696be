/* What a sweep varies; see axes.h. */
#include "sweep/axes.h"
#include "compare/settings.h"
#include "spec/routers.h"

#include <ctype.h>

/* Adds an axis without points. Column names are copied. */
static smoe_axis *axes_add(smoe_axes *axes, const char *const *column, size_t columns) {
    smoe_axis *axis = &SMOE_APPEND(axes->axis, axes->count);
    *axis = (smoe_axis){.column = smoe_texts_copy(column, columns), .columns = columns};
    return axis;
}

void smoe_axis_add(smoe_axis *axis, const char *const *value, const char *const *assign,
                   size_t overrides) {
    SMOE_APPEND(axis->point, axis->points) =
        (smoe_point){.value = smoe_texts_copy(value, axis->columns),
                     .assign = smoe_texts_copy(assign, overrides),
                     .overrides = overrides};
}

void smoe_axis_clear(smoe_axis *axis) {
    for (size_t p = 0; p < axis->points; p++) {
        smoe_texts_free(axis->point[p].value, axis->columns);
        smoe_texts_free(axis->point[p].assign, axis->point[p].overrides);
    }
    smoe_texts_free(axis->column, axis->columns);
    free(axis->point);
}

void smoe_axes_free(smoe_axes *axes) {
    for (size_t i = 0; i < axes->count; i++) smoe_axis_clear(&axes->axis[i]);
    free(axes->axis);
    *axes = (smoe_axes){0};
}

static char **texts_joined(char **a, size_t n, char **b, size_t m) {
    char **all = smoe_alloc(n + m + 1, sizeof *all);
    for (size_t i = 0; i < n + m; i++) all[i] = smoe_alloc_text(i < n ? a[i] : b[i - n]);
    return all;
}

static void axis_multiply(smoe_axis *axis, const smoe_axis *by) {
    smoe_axis all = {.column = texts_joined(axis->column, axis->columns, by->column, by->columns),
                     .columns = axis->columns + by->columns,
                     .point = smoe_alloc(axis->points * by->points + 1, sizeof *all.point),
                     .points = axis->points * by->points};
    for (size_t i = 0; i < all.points; i++) {
        const smoe_point *p = &axis->point[i / by->points], *q = &by->point[i % by->points];
        all.point[i] =
            (smoe_point){.value = texts_joined(p->value, axis->columns, q->value, by->columns),
                         .assign = texts_joined(p->assign, p->overrides, q->assign, q->overrides),
                         .overrides = p->overrides + q->overrides};
    }
    smoe_axis_clear(axis);
    *axis = all;
}

bool smoe_axes_product(smoe_axis *product, const smoe_axes *axes, size_t most) {
    *product = (smoe_axis){0};
    smoe_axis_add(product, NULL, NULL, 0);
    for (size_t i = 0; i < axes->count; i++) {
        if (product->points * axes->axis[i].points > most) return false;
        axis_multiply(product, &axes->axis[i]);
    }
    return true;
}

/* An axis of `keys` that change together; a single one for a key of the grid. Keys of what trials
 * start from change nothing in the spec of a trial. */
static void axis_of_keys(smoe_axes *axes, const smoe_sweep_key *const *key, size_t keys) {
    const char *column[64] = {0}, *value[64] = {0}, *assign[64] = {0};
    for (size_t k = 0; k < keys; k++) column[k] = key[k]->key;
    smoe_axis *axis = axes_add(axes, column, keys);
    for (size_t p = 0; p < key[0]->count; p++) {
        size_t made = 0;
        for (size_t k = 0; k < keys; k++) {
            value[k] = key[k]->value[p];
            if (smoe_spec_started(key[k]->key)) continue;
            assign[made++] = smoe_text_format("%s=%s", key[k]->key, value[k]);
        }
        smoe_axis_add(axis, value, assign, made);
        for (size_t k = 0; k < made; k++) free((char *)assign[k]);
    }
}

static bool axes_has_column(const smoe_axes *axes, const char *column) {
    for (size_t i = 0; i < axes->count; i++)
        for (size_t c = 0; c < axes->axis[i].columns; c++)
            if (!strcmp(axes->axis[i].column[c], column)) return true;
    return false;
}

static bool names_key(const char *assign, const char *key) {
    size_t length = strlen(key);
    return !strncmp(assign, key, length) && assign[length] == '=';
}

static void add_swept(smoe_axes *axes, const smoe_sweep_keys *keys, char *const *overrides,
                      size_t count, bool seed) {
    const smoe_sweep_key *together[64];
    size_t zipped = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const smoe_sweep_key *key = &keys->key[i];
        bool last = !key->zip && !strcmp(key->key, "seed"), overridden = false;
        for (size_t k = 0; k < count; k++) overridden |= names_key(overrides[k], key->key);
        if (overridden || last != seed) continue;
        if (key->zip && zipped < 64)
            together[zipped++] = key;
        else
            axis_of_keys(axes, &key, 1);
    }
    if (zipped) axis_of_keys(axes, together, zipped);
}

/* Whether an override sweeps: key=a,b,c, or a key of what trials start from, also with one
 * value. */
static bool sweeps(const char *assign) {
    const char *equals = strchr(assign, '=');
    return equals && (*smoe_text_item(equals + 1) || smoe_spec_started(assign));
}

static int add_listed(smoe_axes *axes, char *const *overrides, size_t count, bool seed,
                      smoe_err *err) {
    for (size_t i = 0; i < count; i++) {
        const char *text = overrides[i], *end;
        if (!sweeps(text) || names_key(text, "seed") != seed) continue;
        SMOE_FREED char *key = smoe_alloc_part(text, strcspn(text, "="));
        const char *started = smoe_spec_started(key);
        smoe_err unknown = {0};
        if (smoe_spec_check_key(started ? started : key, &unknown))
            return smoe_fail(err, SMOE_USAGE, "override %s: %s", text, unknown.text);
        if (axes_has_column(axes, key))
            return smoe_fail(err, SMOE_USAGE, "override %s: %s is swept twice", text, key);
        smoe_axis *axis = axes_add(axes, (const char *const[]){key}, 1);
        for (const char *at = text + strlen(key) + 1;; at = end + 1) {
            end = smoe_text_item(at);
            while (isspace((unsigned char)*at)) at++;
            SMOE_FREED char *value = smoe_settings_value(at, (size_t)(end - at));
            SMOE_FREED char *assign = smoe_text_format("%s=%s", key, value);
            for (size_t p = 0; p < axis->points; p++)
                if (!strcmp(axis->point[p].value[0], value))
                    return smoe_fail(err, SMOE_USAGE, "override %s: %s is given twice", text,
                                     value);
            smoe_axis_add(axis, (const char *const[]){value}, (const char *const[]){assign},
                          started ? 0 : 1);
            if (!*end) break;
        }
    }
    return 0;
}

int smoe_axes_of(smoe_axes *axes, const smoe_sweep_keys *keys, char *const *overrides, size_t count,
                 char **plain, size_t *plains, smoe_err *err) {
    *plains = 0;
    for (size_t i = 0; i < count; i++)
        if (!sweeps(overrides[i])) plain[(*plains)++] = overrides[i];
    for (int seed = 0; seed < 2; seed++) {
        add_swept(axes, keys, overrides, count, seed);
        if (add_listed(axes, overrides, count, seed, err)) return -1;
    }
    return 0;
}

/* ---- ablations ------------------------------------------------------------------------------- */

static const char dense[] = "dense"; /* the setting without experts */

static int ablate_unknown(const char *name, smoe_err *err) {
    const char *known[SMOE_ROUTERS + 1] = {dense};
    for (size_t i = 0; i < SMOE_ROUTERS; i++) known[i + 1] = smoe_routers[i].name;
    int nearest = smoe_text_nearest(name, known, SMOE_ROUTERS + 1);
    return smoe_fail(err, SMOE_USAGE, "--routers: no router '%s'%s%s%s", name,
                     nearest < 0 ? "; `smoe help router` lists them" : "; did you mean '",
                     nearest < 0 ? "" : known[nearest], nearest < 0 ? "" : "'?");
}

/* A line of the table as overrides. */
static void add_router(smoe_axis *axis, const smoe_spec *spec, const char *name) {
    const smoe_moe_spec *moe = &spec->model.moe;
    size_t T = smoe_spec_tokens(spec), E = moe->experts, P = smoe_moe_slots_per_expert(moe, 0, T);
    char router[64], slots[64];
    const char *assign[] = {router, slots, "model.moe.total_slots=0"};
    const smoe_router_entry *entry = smoe_router_find(name);
    bool more = entry && entry->family == SMOE_FAMILY_FIXED && E * P < T;
    snprintf(router, sizeof router, entry ? "model.moe.router=%s" : "model.moe.layers=none", name);
    snprintf(slots, sizeof slots, "model.moe.slots_per_expert=%zu", (T + E - 1) / E);
    smoe_axis_add(axis, &name, assign, more ? 3 : 1);
}

static void add_seed(smoe_axis *axis, const char *seed) {
    char text[64];
    const char *assign = text;
    snprintf(text, sizeof text, "seed=%s", seed);
    smoe_axis_add(axis, &seed, &assign, 1);
}

/* Adds a point for each item of the list. */
static int ablate_add_list(smoe_axis *axis, const smoe_spec *spec, const char *list,
                           smoe_err *err) {
    SMOE_FREED char *copy = smoe_alloc_text(list);
    char *rest = copy, *item;
    while ((item = strsep(&rest, ","))) {
        if (spec && !smoe_router_find(item) && strcmp(item, dense))
            return ablate_unknown(item, err);
        if (!spec && (!*item || item[strspn(item, "0123456789")]))
            return smoe_fail(err, SMOE_USAGE,
                             "--seeds: expected whole numbers separated by commas, found '%s'",
                             list);
        for (size_t p = 0; p < axis->points; p++)
            if (!strcmp(axis->point[p].value[0], item))
                return smoe_fail(err, SMOE_USAGE, "--%ss: '%s' is given twice", axis->column[0],
                                 item);
        if (spec)
            add_router(axis, spec, item);
        else
            add_seed(axis, item);
    }
    return 0;
}

int smoe_ablate_axes(smoe_axes *axes, const smoe_spec *spec, const char *router_list,
                     const char *seeds, smoe_err *err) {
    static const char *const router = "router", *const seed = "seed";
    if (!spec->model.moe.layer_count)
        return smoe_fail(err, SMOE_USAGE,
                         "model.moe.layers: none: there is no MoE layer whose router could change");
    if (ablate_add_list(axes_add(axes, &router, 1), spec, router_list, err)) return -1;
    return ablate_add_list(axes_add(axes, &seed, 1), NULL, seeds, err);
}
