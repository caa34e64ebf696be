/* Results, and as JSON and files; see result.h. result_print.c has those for people. */
#include "base/result.h"
#include "base/file.h"
#include "base/json.h"

/* ---- making ---------------------------------------------------------------------------------- */

static smoe_item *add_item(smoe_result *result, smoe_item_kind kind, const char *key) {
    smoe_item *item = &SMOE_APPEND(result->item, result->items);
    *item = (smoe_item){.kind = kind, .key = smoe_alloc_text(key)};
    return item;
}

void smoe_result_free(smoe_result *result) {
    for (size_t i = 0; i < result->items; i++) {
        smoe_item *item = &result->item[i];
        free(item->key);
        free(item->heading);
        free(item->text);
        json_decref(item->value);
        if (item->table) smoe_frame_free(item->table);
        if (item->part) smoe_result_free(item->part);
        free(item->table);
        free(item->part);
    }
    free(result->item);
    *result = (smoe_result){0};
}

static void add_fact(smoe_result *result, const smoe_column *given) {
    const smoe_column fact = smoe_column_said(given);
    smoe_item *item = add_item(result, SMOE_ITEM_FACT, fact.name);
    item->fact = fact;
    item->fact.name = item->key;
    item->fact.heading = item->heading = smoe_alloc_text(fact.heading);
    if (!fact.where) item->fact.where = SMOE_IN_FILES | (fact.heading ? SMOE_IN_PRINT : 0);
    if (fact.words)
        item->datum.text = item->text = smoe_alloc_text(fact.text);
    else
        item->datum.number = fact.number;
}

void smoe_result_add(smoe_result *result, const smoe_column *fact, size_t facts) {
    for (size_t i = 0; i < facts; i++) add_fact(result, &fact[i]);
}

void smoe_result_numbers(smoe_result *result, const char *key, const double *value, size_t count) {
    json_t *list = add_item(result, SMOE_ITEM_VALUE, key)->value = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, smoe_json_of_number(value[i]));
}

void smoe_result_list(smoe_result *result, const char *key) {
    add_item(result, SMOE_ITEM_VALUE, key);
}

void smoe_result_members(smoe_result *result, const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) add_item(result, SMOE_ITEM_VALUE, key)
        ->value = json_incref(value);
}

void smoe_result_sentence(smoe_result *result, const char *label, char *fresh) {
    add_item(result, SMOE_ITEM_LINE, label)->text = fresh;
}

void smoe_result_longer(smoe_result *result, char *fresh) {
    smoe_item *item = &result->item[result->items - 1];
    SMOE_FREED char *more = fresh, *before = item->text;
    item->text = smoe_text_format("%s%s", before, more);
}

static smoe_frame *add_table(smoe_result *result, smoe_item_kind kind, const char *key,
                             bool printed) {
    smoe_item *item = add_item(result, kind, key);
    item->printed = printed;
    return item->table = smoe_alloc(1, sizeof *item->table);
}

smoe_frame *smoe_result_table(smoe_result *result, const char *key, const char *name) {
    smoe_frame *table = add_table(result, SMOE_ITEM_TABLE, key, true);
    table->name = smoe_frame_keep(table, name);
    return table;
}

smoe_frame *smoe_result_records(smoe_result *result, const char *key) {
    smoe_frame *frame = smoe_result_table(result, key, NULL);
    frame->where = SMOE_IN_JSON;
    return frame;
}

smoe_frame *smoe_result_frame(smoe_result *result, const char *key, bool printed) {
    return add_table(result, SMOE_ITEM_FRAME, key, printed);
}

smoe_result *smoe_result_part(smoe_result *result, const char *key) {
    smoe_item *item = add_item(result, SMOE_ITEM_PART, key);
    return item->part = smoe_alloc(1, sizeof *item->part);
}

smoe_result *smoe_result_object(smoe_result *result, const char *key) {
    smoe_item *item = add_item(result, SMOE_ITEM_OBJECT, key);
    return item->part = smoe_alloc(1, sizeof *item->part);
}

/* ---- checking -------------------------------------------------------------------------------- */

int smoe_result_check(const smoe_result *result, smoe_err *err) {
    for (size_t i = 0; i < result->items; i++) {
        const smoe_item *item = &result->item[i];
        if (item->table && smoe_frame_check(item->table, err)) return -1;
        if (item->part && smoe_result_check(item->part, err)) return -1;
    }
    return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_json(json_t *object, const smoe_item *item) {
    json_t *list = item->key ? json_object_get(object, item->key) : NULL;
    if (item->kind == SMOE_ITEM_FACT && item->key && item->fact.where & SMOE_IN_JSON)
        smoe_column_set(object, &item->fact, item->datum);
    else if (item->kind == SMOE_ITEM_VALUE)
        json_object_set_new(object, item->key,
                            item->value ? json_incref(item->value) : json_array());
    else if (item->kind == SMOE_ITEM_OBJECT)
        json_object_set_new(object, item->key, smoe_result_json(item->part));
    else if (item->kind == SMOE_ITEM_TABLE && item->table->rows && item->key)
        json_object_set_new(object, item->key, smoe_frame_records(item->table));
    else if (item->kind == SMOE_ITEM_FRAME && item->key)
        json_object_set_new(object, item->key, smoe_frame_json(item->table));
    else if (item->kind == SMOE_ITEM_PART && !item->key)
        json_object_update_new(object, smoe_result_json(item->part));
    else if (item->kind == SMOE_ITEM_PART && list)
        json_array_append_new(list, smoe_result_json(item->part));
    else if (item->kind == SMOE_ITEM_PART)
        json_object_set_new(object, item->key, json_pack("[o]", smoe_result_json(item->part)));
}

json_t *smoe_result_json(const smoe_result *result) {
    json_t *object = json_object();
    for (size_t i = 0; i < result->items; i++) {
        const smoe_item *item = &result->item[i];
        if (item->kind == SMOE_ITEM_TABLE && item->key && !*item->key) {
            json_decref(object);
            return smoe_frame_records(item->table);
        }
        if (item->kind != SMOE_ITEM_LINE) add_json(object, item);
    }
    json_t *list = json_object_get(object, ""); /* of parts that are the whole JSON */
    if (!list) return object;
    json_incref(list);
    json_decref(object);
    return list;
}

/* ---- files ----------------------------------------------------------------------------------- */

int smoe_result_csv(const smoe_result *result, const char *dir, smoe_err *err) {
    for (size_t i = 0; i < result->items; i++) {
        const smoe_item *item = &result->item[i];
        const smoe_frame *frame = item->table;
        if (item->part && smoe_result_csv(item->part, dir, err)) return -1;
        if (!frame || !frame->name) continue;
        SMOE_FREED char *path = smoe_text_format("%s/%s.csv", dir, frame->name);
        bool none = item->kind == SMOE_ITEM_TABLE && !frame->rows;
        if (none ? smoe_file_remove(path, err) : smoe_frame_csv(frame, path, err)) return -1;
    }
    return 0;
}
