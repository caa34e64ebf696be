/* smoe convert and smoe init: a model file in a given storage type, from another file or from a
 * spec's initial values; store/model_file.h does both. */
#include "cmd.h"
#include "store/model_file.h"
#include "store/run.h"
#include "vit/model.h"

#include <stdlib.h>
#include <string.h>

/* --type and --only; `preset` where there is no --type. */
static smoe_storage storage_of(const smoe_options *options, smoe_dtype preset) {
    smoe_storage storage = {.type = preset, .only = options->only, .dry = options->dry_run};
    if (options->type)
        storage.type = !strcmp(options->type, "bf16")  ? SMOE_DTYPE_BF16
                       : !strcmp(options->type, "f16") ? SMOE_DTYPE_F16
                                                       : SMOE_DTYPE_F32;
    return storage;
}

/* `fresh`: the weights are new, so no tensor had another type before. */
static int report(const smoe_storage *storage, const smoe_stored *stored, bool fresh,
                  const smoe_options *options, smoe_err *err) {
    const char *path = options->arg[1], *type = smoe_dtype_name(storage->type);
    char bytes[32];
    smoe_result result = {0};
    if (storage->keep) type = "kept";
    smoe_fact_text(&result, "file", path);
    smoe_fact_text(&result, "type", type);
    smoe_fact_number(&result, "tensors", (double)stored->tensors);
    smoe_fact_number(&result, "changed", (double)stored->changed);
    smoe_fact_number(&result, "bytes", stored->bytes);
    smoe_result_line(&result, NULL, "%s%s: %zu tensors, ", storage->dry ? "would write " : "", path,
                     stored->tensors);
    if (storage->keep)
        smoe_result_more(&result, "in the types that they had");
    else if (!fresh)
        smoe_result_more(&result, "%zu of them now %s", stored->changed, type);
    else if (stored->changed && stored->changed < stored->tensors)
        smoe_result_more(&result, "%zu of them %s, the others F32", stored->changed, type);
    else
        smoe_result_more(&result, "%s", type);
    smoe_result_more(&result, ", %s", smoe_text_si(bytes, sizeof bytes, stored->bytes, "B"));
    return smoe_cmd_emit(&result, options, err);
}

/* A file is what its name says. */
static int check_ending(const char *path, smoe_err *err) {
    static const char *const others[] = {".pth", ".pt", ".bin", ".ckpt", ".npz", ".npy", ".onnx"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof others / sizeof *others; i++)
        if (!strcmp(dot, others[i]))
            return smoe_fail(err, SMOE_USAGE,
                             "%s: safetensors files are written, not %s; name it %.*s.safetensors",
                             path, dot, (int)(dot - path), path);
    return 0;
}

int cmd_convert(const smoe_options *options, smoe_err *err) {
    smoe_safetensors *file = NULL;
    smoe_stored stored;
    smoe_file_choice choice;
    char *path = NULL, *text = NULL;
    int status = -1;
    smoe_storage storage = storage_of(options, SMOE_DTYPE_F32);
    storage.keep = !options->type;
    if (check_ending(options->arg[1], err)) goto out;
    storage.hugging_face = !strcmp(options->names, "hf");
    if (smoe_cmd_target(options->arg[1], options, err)) goto out;
    if (smoe_cmd_choice(&choice, options, err)) goto out;
    if (smoe_run_model(options->arg[0], options->which, &choice, &path, &text, &file, err))
        goto out;
    smoe_cmd_unverified(file, options);
    if (smoe_model_file_convert(options->arg[1], file, &storage, &stored, err)) goto out;
    status = report(&storage, &stored, false, options, err);
out:
    smoe_safetensors_free(file);
    free(path);
    free(text);
    return status;
}

static int init(const smoe_spec *spec, const smoe_options *options, smoe_err *err) {
    smoe_model *model = NULL;
    smoe_storage storage = storage_of(options, SMOE_DTYPE_F32);
    smoe_stored stored;
    size_t classes;
    if (smoe_cmd_target(options->arg[1], options, err)) return -1;
    if (smoe_cmd_classes(spec, 0, true, &classes, err)) return -1;
    int status = smoe_model_create(&model, spec, classes, err);
    if (!status)
        status = smoe_model_file_initial(options->arg[1], smoe_model_params(model), spec, &storage,
                                         &stored, err);
    if (!status) status = report(&storage, &stored, true, options, err);
    smoe_model_free(model);
    return status;
}

int cmd_init(const smoe_options *options, smoe_err *err) {
    smoe_spec spec = {0};
    int status = smoe_cmd_spec(&spec, options->arg[0], options, err);
    if (!status)
        status =
            options->print_config ? smoe_cmd_print_config(&spec, err) : init(&spec, options, err);
    smoe_spec_free(&spec);
    return status;
}
