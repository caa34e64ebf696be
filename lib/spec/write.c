/*
 * Writing: a resolved spec as YAML that reads back to the same bytes, and as one line of JSON,
 * which is YAML too. Both go through the schema table; value.c formats the values.
 */
#include "base/json.h"
#include "spec/routers.h"
#include "spec/schema.h"

/* ---- YAML ------------------------------------------------------------------------------------ */

/* "# default", "# variant S", "# FILE:LINE:COL", "# override", and for the choice routers the
 * resulting buffers. */
static void write_origin(const smoe_spec *spec, size_t entry, FILE *out) {
    const smoe_provenance *origin = &spec->origin[entry];
    char shown[200];
    switch (origin->kind) {
    case SMOE_FROM_DEFAULT: fprintf(out, "# default"); break;
    case SMOE_FROM_FITTED: fprintf(out, "# default, fitted to other keys"); break;
    case SMOE_FROM_SHORTENED: fprintf(out, "# shortened to fit train.steps"); break;
    case SMOE_FROM_VARIANT: fprintf(out, "# variant %s", spec->model.variant); break;
    case SMOE_FROM_PROFILE: fprintf(out, "# profile %s", spec->profile); break;
    case SMOE_FROM_FILE:
        fprintf(out, "# %s:%zu:%zu", smoe_text_shown(spec->file, shown, sizeof shown), origin->line,
                origin->column);
        break;
    case SMOE_FROM_OVERRIDE: fprintf(out, "# override"); break;
    }
}

/* Be of the choice routers and P where capacity decides it, as a comment: results depend on them.
 */
static void write_derived(const smoe_spec *spec, const char *key, FILE *out) {
    const smoe_moe_spec *moe = &spec->model.moe;
    if (!moe->layer_count || strcmp(key, "model.moe.capacity")) return;
    bool listed = moe->choice.k.listed || moe->choice.capacity.listed,
         chooses = smoe_moe_chooses(moe);
    if (!chooses && (moe->slots_per_expert || moe->total_slots)) return;
    fprintf(out, chooses ? "; a buffer has" : "; an expert has");
    const char *before = " ";
    for (size_t i = 0; i < spec->model.depth; i++) {
        if (!moe->is_moe[i]) continue;
        fprintf(out, "%s%zu", before, smoe_moe_shape_of(moe, i, smoe_spec_tokens(spec)).P);
        before = ", ";
        if (!listed) break;
    }
    fprintf(out, chooses ? " places" : " slots");
}

/* Heads of the sections that begin with this key, indented; returns the key's last part and its
 * indentation. */
static const char *open_sections(const char *key, const char *before, FILE *out, int *indent) {
    *indent = 0;
    bool shared = true;
    for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
        size_t length = (size_t)(dot - key) + 1;
        shared = shared && !strncmp(key, before, length);
        if (!shared) fprintf(out, "%*s%.*s:\n", *indent, "", (int)length - 1, key);
        before += shared ? length : 0;
        *indent += 2;
    }
    return key;
}

static void write_entry(const smoe_spec *spec, size_t entry, FILE *out, bool origins) {
    int indent;
    SMOE_FREED char *value = smoe_value_yaml(spec, &smoe_schema[entry]);
    const char *before = entry ? smoe_schema[entry - 1].key : "";
    const char *leaf = open_sections(smoe_schema[entry].key, before, out, &indent);
    int width = fprintf(out, "%*s%s: %s", indent, "", leaf, value);
    if (origins && spec->origin) {
        fprintf(out, "%*s", width < 40 ? 40 - width : 2, "");
        write_origin(spec, entry, out);
        write_derived(spec, smoe_schema[entry].key, out);
    }
    fputc('\n', out);
}

int smoe_spec_write_yaml(const smoe_spec *spec, FILE *out, bool origins) {
    if (!origins) fprintf(out, SMOE_SPEC_RESOLVED "%d keys\n", SMOE_SCHEMA_COUNT);
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) write_entry(spec, i, out, origins);
    return fflush(out) || ferror(out) ? -1 : 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *smoe_spec_object(const smoe_spec *spec) {
    json_t *root = json_object();
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++)
        smoe_json_put(root, smoe_schema[i].key, '.', smoe_value_json(spec, &smoe_schema[i]));
    return root;
}

char *smoe_spec_json(const smoe_spec *spec) {
    json_auto_t *root = smoe_spec_object(spec);
    return smoe_json_dump(root, 0);
}
