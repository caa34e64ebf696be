/* model.safetensors, written; see model_file.h. */
#include "store/model_file.h"
#include "base/accents.h"
#include "base/json.h"
#include "data/dataset_source.h"
#include "spec/tasks.h"
#include "tensors/foreign.h"
#include "tensors/params_io.h"

#include <inttypes.h>

/* ---- a model of this program: its metadata --------------------------------------------------- */

enum { PAIRS = 5 };

/* The key of the metadata with the names of a configuration. */
static const char CONFIGURED[] = "smoe.id2label";

/* One pair of each key; NULL: no pair. */
static void pair_put(smoe_pair *pairs, size_t *count, const char *key, char *fresh,
                     smoe_alloc_pool *texts) {
    SMOE_FREED char *text = fresh;
    size_t i = 0;
    if (!text) return;
    while (i < *count && strcmp(pairs[i].key, key) != 0) i++;
    pairs[i] = (smoe_pair){key, smoe_alloc_text_in(texts, text)};
    *count += i == *count;
}

/* The loaders of timm and transformers require the format. `step`: fresh, or NULL. */
static void model_file_describe(smoe_pair *pairs, size_t *count, const smoe_spec *spec, char *step,
                                smoe_alloc_pool *texts) {
    smoe_spec plain = *spec; /* the file does not depend on where its tensors were */
    plain.train.experts_over = 1;
    pair_put(pairs, count, "format", smoe_alloc_text("pt"), texts);
    pair_put(pairs, count, "smoe.version", smoe_alloc_text(SMOE_VERSION), texts);
    pair_put(pairs, count, "smoe.step", step, texts);
    pair_put(pairs, count, "smoe.spec", smoe_spec_json(&plain), texts);
}

/* What a configuration says of the names: {"0": "cat", ...} in transformers, there or a list in
 * timm. */
static const json_t *names_said(const json_t *config) {
    const json_t *of_timm = json_object_get(config, "pretrained_cfg"), *said;
    if ((said = json_object_get(config, "id2label"))) return said;
    if ((said = json_object_get(config, "label_names"))) return said;
    return json_object_get(of_timm, "label_names");
}

/* The names in the configuration beside a file, as a list, also of a file that was converted from
 * it; null for a class that has none. NULL: there are none, or those that stand for no names,
 * "LABEL_0". */
static json_t *configured_names(const smoe_safetensors *file) {
    const char *kept = smoe_safetensors_metadata(file, CONFIGURED);
    if (kept) return json_loads(kept, 0, NULL);
    json_auto_t *config = smoe_json_beside(smoe_safetensors_path(file), "config.json", NULL);
    const json_t *names = names_said(config);
    if (json_is_array(names)) return json_deep_copy(names);
    const char *first = json_string_value(json_object_get(names, "0"));
    if (!json_object_size(names) || (first && !strcmp(first, "LABEL_0"))) return NULL;
    json_t *list = json_array();
    for (size_t k = 0; k < json_object_size(names); k++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", k);
        json_t *name = json_object_get(names, key);
        json_array_append_new(list, name ? json_incref(name) : json_null());
    }
    return list;
}

/* The names of the classes of a model file, which *list owns; NULL: there are none, or not for each
 * class. */
static char **names_in(const smoe_safetensors *file, json_t **list, size_t *count) {
    const char *text = smoe_safetensors_metadata(file, SMOE_CLASS_NAMES);
    *list = text ? json_loads(text, 0, NULL) : configured_names(file);
    *count = json_array_size(*list);
    char **name = *count ? smoe_alloc(*count, sizeof *name) : NULL;
    for (size_t k = 0; name && k < *count; k++)
        if (!(name[k] = (char *)json_string_value(json_array_get(*list, k)))) {
            free(name);
            return NULL;
        }
    return name;
}

/* Folders are often named by numbers of WordNet, and a configuration has words for them. */
static bool shares_a_name(const smoe_dataset *set, char *const *name, size_t count) {
    for (size_t k = 0; k < smoe_dataset_classes(set); k++)
        for (size_t i = 0; i < count; i++)
            if (smoe_accents_same(smoe_dataset_class_name(set, k), name[i])) return true;
    return false;
}

/* Says which class of the data has a name that the configuration gives to two classes. */
static void remark_twice(smoe_dataset *set, char *const *name, size_t count) {
    for (size_t k = 0; k < smoe_dataset_classes(set); k++) {
        const char *class = smoe_dataset_class_name(set, k);
        size_t first = count;
        for (size_t i = 0; i < count; i++) {
            if (strcmp(class, name[i]) != 0) continue;
            if (first < count)
                smoe_dataset_remark_on(set,
                                       "config.json gives the name %.80s to the classes %zu and "
                                       "%zu: images of that class count as one of them",
                                       class, first, i);
            first = i;
        }
    }
}

int smoe_model_file_align(smoe_dataset *set, const smoe_safetensors *file, const smoe_spec *spec,
                          smoe_err *err) {
    json_auto_t *list = NULL;
    size_t count;
    if (smoe_task_pairs(spec->train.loss)) return 0;
    SMOE_FREED char **name = names_in(file, &list, &count);
    bool own = smoe_safetensors_metadata(file, SMOE_CLASS_NAMES);
    if (name && (own || shares_a_name(set, name, count))) {
        if (!own) remark_twice(set, name, count);
        return smoe_dataset_align(set, name, count, err);
    }
    if (count)
        smoe_dataset_remark_on(set,
                               "classes are matched by their numbers, because config.json "
                               "does not have %s",
                               name ? "their names" : "a name for each number from 0 on");
    char *sorted = smoe_dataset_sorted_as_texts(set);
    if (sorted) smoe_dataset_remark(set, sorted);
    return 0;
}

char *smoe_model_file_names(const smoe_safetensors *file, const smoe_dataset *set) {
    json_auto_t *list = NULL;
    size_t count;
    SMOE_FREED char **name = names_in(file, &list, &count);
    bool used = name && (!set || smoe_safetensors_metadata(file, SMOE_CLASS_NAMES) ||
                         shares_a_name(set, name, count));
    return used ? smoe_json_dump(list, 0) : NULL;
}

bool smoe_model_file_other_classes(const smoe_dataset *set, const smoe_safetensors *file,
                                   uint32_t **order) {
    json_auto_t *list = NULL;
    size_t count;
    SMOE_FREED char **name = names_in(file, &list, &count);
    *order = NULL;
    return name && smoe_dataset_other_classes(set, name, count, order);
}

char *smoe_model_file_classes_text(const smoe_dataset *set, const smoe_safetensors *file,
                                   bool other) {
    json_auto_t *list = NULL;
    size_t count, N = smoe_dataset_classes(set);
    SMOE_FREED char **name = names_in(file, &list, &count);
    const smoe_tensor *head = smoe_safetensors_find(file, "head.weight");
    bool numbered = !smoe_safetensors_metadata(file, SMOE_CLASS_NAMES) &&
                    !(name && shares_a_name(set, name, count));
    if (!other)
        return numbered && head && head->dim[0] == N ? smoe_dataset_sorted_as_texts(set) : NULL;
    return smoe_text_format("the classes of the data differ from those of the file, so the head is "
                            "not taken from it%s",
                            numbered && count == N
                                ? "; without names of classes in its configuration it is "
                                  "taken, by the numbers of the classes, as in smoe eval"
                                : "");
}

int smoe_model_file_write(const char *path, const smoe_params *params, const smoe_spec *spec,
                          uint64_t steps, const char *names, smoe_turns *turns, smoe_err *err) {
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool texts = {0};
    smoe_slab weights = {.prefix = "", .values = params->w};
    smoe_pair pairs[PAIRS];
    size_t count = 0;
    SMOE_FREED smoe_tensor *tensors = smoe_params_tensors(params, &weights);
    model_file_describe(pairs, &count, spec, smoe_text_format("%" PRIu64, steps), &texts);
    pair_put(pairs, &count, SMOE_CLASS_NAMES, smoe_alloc_text(names), &texts);
    return smoe_shards_write(path, turns ? spec->train.shard_bytes : UINT64_MAX,
                             &(const smoe_content){tensors, params->count, pairs, count}, turns,
                             err);
}

smoe_pair *smoe_model_file_pairs(size_t *count, const smoe_safetensors *file, const smoe_spec *spec,
                                 const smoe_dataset *set, smoe_alloc_pool *texts) {
    enum { MORE = 6 };
    smoe_pair *pairs = NULL;
    *count = smoe_safetensors_pairs(file, &pairs);
    pairs = smoe_alloc_more(pairs, *count + MORE, sizeof *pairs);
    json_auto_t *configured = configured_names(file);
    if (spec) model_file_describe(pairs, count, spec, NULL, texts);
    if (set && !smoe_safetensors_metadata(file, SMOE_CLASS_NAMES))
        pair_put(pairs, count, SMOE_CLASS_NAMES, smoe_model_file_names(file, set), texts);
    pair_put(pairs, count, CONFIGURED, smoe_json_dump(configured, 0), texts);
    return pairs;
}

char *smoe_model_file_remark(const smoe_safetensors *file) {
    const char *path = smoe_safetensors_path(file), *note = smoe_safetensors_note(file);
    const char *version = smoe_safetensors_metadata(file, "smoe.version");
    if (smoe_safetensors_has_digest(file) && !note) return NULL;
    return smoe_text_format("%s: %s; contents not checked%s%s", path,
                            version ? "without a digest" : "from another program, without a digest",
                            note ? ": " : "", note ? note : "");
}

/* ---- in another type ------------------------------------------------------------------------- */

/* Where the elements of a tensor come from: from one of a file as it is; from what the file has in
 * the place of a parameter, which is made as a whole each time, as only positions and tokens are;
 * or they are the initial values of one. */
typedef struct origin {
    const smoe_safetensors *file; /* NULL: initial values */
    smoe_tensor same;             /* without data: another one */
    const smoe_init_map *map;
    smoe_init_source source;
    const smoe_param *param;
    uint64_t seed;
} origin;

/* The source of a tensor, whose user is its origin. Threads share it. */
static int origin_values(const void *user, const smoe_tensor *to, size_t first, size_t count,
                         void *out, smoe_err *err) {
    enum { RUN = 1 << 16 };
    const origin *o = user;
    smoe_tensor from = o->same;
    size_t at = o->file ? first : 0, end = at + count, bad = end;
    size_t bytes = smoe_dtype_bytes(to->dtype), made = o->file ? to->size : count;
    SMOE_FREED real *values = from.data ? NULL : smoe_alloc(made, sizeof *values);
    if (values) from = (smoe_tensor){.dtype = SMOE_DTYPE_REAL, .size = made, .data = values};
    if (values && o->file) smoe_init_map_fill(values, o->map, o->param, o->source);
    if (values && !o->file) smoe_param_initial(values, o->param, o->seed, first, count);
#pragma omp parallel for schedule(static) reduction(min : bad)
    for (size_t i = at; i < end; i += RUN) {
        size_t n = end - i < RUN ? end - i : RUN;
        size_t stored = smoe_tensor_store((char *)out + (i - at) * bytes, to->dtype, &from, i, n);
        if (stored < i + n && stored < bad) bad = stored;
    }
    if (bad == end) return 0;
    smoe_fail(err, SMOE_DATA, "tensor %s: element %zu is beyond what %s can hold", to->name,
              first + bad - at, smoe_dtype_name(to->dtype));
    return o->file ? smoe_fail_prefix(err, "%s", smoe_safetensors_path(o->file)) : -1;
}

/* Sets types and counts, when the previous types are in the dtype of the tensors. It is an error if
 * no tensor has the name: the file would not change. Then writes them, of these origins. */
static int model_file_put(const char *path, smoe_tensor *tensors, const origin *from, size_t count,
                          const smoe_pair *pairs, size_t pair_count, const smoe_storage *storage,
                          smoe_stored *stored, smoe_err *err) {
    size_t matches = 0;
    *stored = (smoe_stored){.tensors = count};
    for (size_t i = 0; i < count; i++) {
        smoe_tensor *t = &tensors[i];
        bool named = !storage->only || strstr(t->name, storage->only);
        matches += named;
        if (named && !storage->keep && t->dtype != storage->type) {
            t->dtype = storage->type;
            stored->changed++;
        }
        stored->bytes += (double)t->size * (double)smoe_dtype_bytes(t->dtype);
        t->source = origin_values;
        t->user = &from[i];
    }
    if (!matches && storage->only)
        return smoe_fail(err, SMOE_USAGE, "no tensor has '%s' in its name", storage->only);
    if (storage->dry) return 0;
    return smoe_safetensors_write(path, &(const smoe_content){tensors, count, pairs, pair_count},
                                  err);
}

int smoe_model_file_initial(const char *path, const smoe_params *params, const smoe_spec *spec,
                            const smoe_storage *storage, smoe_stored *stored, smoe_err *err) {
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool texts = {0};
    smoe_pair pairs[PAIRS];
    size_t count = 0;
    SMOE_FREED smoe_tensor *tensors = smoe_params_tensors(params, &(smoe_slab){.prefix = ""});
    SMOE_FREED origin *from = smoe_alloc(params->count, sizeof *from);
    model_file_describe(pairs, &count, spec, smoe_alloc_text("0"), &texts);
    for (size_t i = 0; i < params->count; i++) {
        tensors[i].dtype = SMOE_DTYPE_F32;
        from[i] = (origin){.param = &params->param[i], .seed = spec->seed};
    }
    return model_file_put(path, tensors, from, params->count, pairs, count, storage, stored, err);
}

static int model_file_check(const smoe_safetensors *file, smoe_err *err) {
    smoe_err found = {0};
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        if (t->dtype > SMOE_DTYPE_F64)
            smoe_fail_more(&found, SMOE_DATA,
                           "%s: tensor %.100s: dtype %s, expected F32, F16, BF16 or F64; %s",
                           smoe_safetensors_path(file), t->name, t->type,
                           smoe_type_remedy(t->type));
    }
    return smoe_fail_found(err, &found);
}

int smoe_model_file_convert(const char *path, const smoe_safetensors *file,
                            const smoe_storage *storage, smoe_stored *stored, smoe_err *err) {
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool texts = {0};
    SMOE_FREED smoe_tensor *tensors = NULL;
    size_t count, pair_count;
    SMOE_FREED smoe_pair *pairs = smoe_model_file_pairs(&pair_count, file, NULL, NULL, &texts);
    if (model_file_check(file, err) ||
        smoe_foreign_tensors(&tensors, &count, file, storage->hugging_face, err))
        return -1;
    SMOE_FREED origin *from = smoe_alloc(count, sizeof *from);
    for (size_t i = 0; i < count; i++) from[i] = (origin){.file = file, .same = tensors[i]};
    return model_file_put(path, tensors, from, count, pairs, pair_count, storage, stored, err);
}

int smoe_model_file_complete(const char *path, const smoe_params *params, const smoe_spec *spec,
                             const smoe_safetensors *file, const smoe_storage *storage,
                             smoe_stored *stored, smoe_err *err) {
    size_t count;
    if (smoe_params_check(params, file, SMOE_FIT_RESIZED, err)) return -1;
    smoe_init_map map = smoe_init_map_of(params, file, SMOE_FIT_RESIZED, "");
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool texts = {0};
    SMOE_FREED smoe_pair *pairs = smoe_model_file_pairs(&count, file, spec, NULL, &texts);
    SMOE_FREED smoe_tensor *tensors = smoe_params_tensors(params, &(smoe_slab){.prefix = ""});
    SMOE_FREED origin *from = smoe_alloc(params->count, sizeof *from);
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *param = &params->param[i];
        smoe_init_source source = smoe_init_map_source(&map, param, param->name);
        from[i] = (origin){.file = file, .map = &map, .source = source, .param = param};
        if (source.way != SMOE_WAY_SAME) continue;
        from[i].same = *source.tensor;
        tensors[i].dtype = source.tensor->dtype;
    }
    return model_file_put(path, tensors, from, params->count, pairs, count, storage, stored, err);
}
