/*
 * Finding the data. A path in the spec is relative to the folder of the spec, one in an override to
 * the current folder. If it does not exist there, the folders of SMOE_DATA are searched, so a spec
 * can name an archive without its location.
 */
#include "spec/schema.h"
#include "spec/sources.h"

/* The folder that the given path of an entry is relative to. */
static const char *base_folder(const smoe_spec *spec, const smoe_schema_entry *entry) {
    bool caller = spec->origin && spec->origin[entry - smoe_schema].kind == SMOE_FROM_OVERRIDE;
    return caller || !spec->folder ? "." : spec->folder;
}

static const char *given_path(const smoe_spec *spec, const smoe_schema_entry *entry) {
    return *(char *const *)((const char *)spec + entry->at);
}

/* Whether a brace begins {split}, {0..9} or {a,b}. */
static bool is_pattern(const char *brace) {
    static const char split[] = "{split}";
    return !strncmp(brace, split, sizeof split - 1) || (brace[1] >= '0' && brace[1] <= '9') ||
           memchr(brace, ',', strcspn(brace, "}"));
}

/* The part of a path that must exist: all of it, or the folder of a pattern of shards, such as
 * DIR/{split}-{0..9}.tar. */
static size_t fixed_length(const char *path) {
    const char *brace = path;
    while ((brace = strchr(brace, '{')) && !is_pattern(brace)) brace++;
    if (!brace) return strlen(path);
    while (brace > path && brace[-1] != '/') brace--;
    return (size_t)(brace - path);
}

/* The real path of folder/path, fresh; NULL if it does not exist. */
static char *path_look(const char *folder, size_t length, const char *path) {
    bool absolute = *path == '/';
    size_t fixed = fixed_length(path);
    SMOE_FREED char *joined = smoe_text_format("%.*s%s%.*s", absolute ? 0 : (int)length, folder,
                                               absolute ? "" : "/", (int)fixed, path);
    char *there = realpath(joined, NULL);
    if (!there || !path[fixed]) return there;
    char *found = smoe_text_format("%s/%s", there, path + fixed);
    free(there);
    return found;
}

char *smoe_path_portable(const smoe_spec *spec, const smoe_schema_entry *entry) {
    const char *given = given_path(spec, entry), *base = base_folder(spec, entry);
    /* text.tokenizer bytes is a name, not a file */
    bool relative = given && strcmp(given, entry->preset) && *given != '/';
    char *path = relative ? path_look(base, strlen(base), given) : NULL;
    /* A real path may have characters that YAML and JSON cannot represent; then the given path,
     * which was checked, is kept. */
    if (path && smoe_text_printable(path)) return path;
    free(path);
    return smoe_alloc_text(given);
}

int smoe_spec_path(const smoe_spec *spec, const char *key, char **path, smoe_err *err) {
    *path = NULL;
    const smoe_schema_entry *entry = &smoe_schema[smoe_schema_find(key)];
    const char *given = given_path(spec, entry), *base = base_folder(spec, entry);
    if (!given) return smoe_fail(err, SMOE_USAGE, "%s: required, but not given", key);
    char places[700] = "";
    if ((*path = path_look(base, strlen(base), given))) return 0;
    if (*given == '/')
        return smoe_fail(err, SMOE_DATA, "%s: %s does not exist; set %s=PATH to where it is now",
                         key, given, key);
    smoe_text_list(places, sizeof places, "%s/%s", base, given);
    const char *list = getenv("SMOE_DATA");
    for (const char *c = list ? list : ""; *c;) {
        size_t length = strcspn(c, ":");
        if (length && (*path = path_look(c, length, given))) return 0;
        if (length) smoe_text_list(places, sizeof places, "%.*s/%s", (int)length, c, given);
        c += length + (c[length] == ':');
    }
    return smoe_fail(err, SMOE_DATA, "%s: %s was not found; tried %s%s%s", key, given, places,
                     list && *list ? "" : " (SMOE_DATA names no other folder)",
                     *given == '~'          ? "; write the home folder in place of ~"
                     : strstr(given, "://") ? "; only files are read: download it first"
                                            : "");
}

/* FIELD of json.FIELD, "" of json; NULL: neither. */
static const char *json_field(const char *given) {
    static const char json[] = "json";
    if (!given || strncmp(given, json, sizeof json - 1)) return NULL;
    const char *rest = given + sizeof json - 1;
    return *rest == '.' && rest[1] ? rest + 1 : *rest ? NULL : rest;
}

const char *smoe_spec_caption_field(const smoe_spec *spec) {
    const char *field = json_field(spec->data.caption);
    return field && *field ? field : NULL;
}

const char *smoe_spec_label_field(const smoe_spec *spec) {
    return json_field(spec->data.label);
}

bool smoe_spec_tokenizer_in_file(const smoe_spec *spec) {
    const char *given = spec->text.tokenizer;
    return !given || strcmp(given, smoe_schema[smoe_schema_find("text.tokenizer")].preset) != 0;
}

int smoe_spec_fewshot_data(const smoe_spec *spec, smoe_spec *view, smoe_err *err) {
    *view = *spec;
    smoe_data_spec *data = &view->data;
    bool table = spec->data.labels;
    data->path = data->labels = NULL;
    memset(&data->augment, 0, sizeof data->augment);
    bool trained = spec->eval.fewshot.data.source == SMOE_FEWSHOT_TRAINED;
    if (!trained) {
        data->source = (smoe_source)(spec->eval.fewshot.data.source - SMOE_FEWSHOT_SOURCE);
        data->limit = spec->eval.fewshot.data.limit;
        data->train_limit = 0;
        data->classes = 0;
        table = spec->eval.fewshot.data.labels;
        data->exclude = NULL;
        data->holdout = spec->eval.fewshot.data.holdout;
        if (spec->eval.fewshot.data.mean.item[0] >= 0) data->mean = spec->eval.fewshot.data.mean;
        if (spec->eval.fewshot.data.std.item[0] > 0) data->std = spec->eval.fewshot.data.std;
    }
    if (smoe_sources[data->source].generated) return 0;
    /* Here it is known whether the file or an override gave them. */
    if (smoe_spec_path(spec, trained ? "data.path" : "eval.fewshot.data.path", &data->path, err))
        return -1;
    if (!table || (data->source != SMOE_SOURCE_FOLDER && data->source != SMOE_SOURCE_WEBDATASET))
        return 0;
    return smoe_spec_path(spec, trained ? "data.labels" : "eval.fewshot.data.labels", &data->labels,
                          err);
}
