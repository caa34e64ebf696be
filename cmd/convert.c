/* smoe convert and smoe init: a model file in a given storage type, from another file or from a
 * spec's initial values (store/model_file.h), with fewer experts (train/prune.h), or as a graph of
 * ONNX (vit/model.h). */
#include "cmd.h"
#include "store/implied.h"
#include "store/model_file.h"
#include "train/prune.h"
#include "vit/model.h"

#include <limits.h>

/* --type and --only. */
static smoe_storage convert_storage_of(const smoe_options *options) {
    smoe_storage storage = {.type = SMOE_DTYPE_F32, .only = options->only, .dry = options->dry_run};
    if (options->type && !strcmp(options->type, "bf16")) storage.type = SMOE_DTYPE_BF16;
    if (options->type && !strcmp(options->type, "f16")) storage.type = SMOE_DTYPE_F16;
    return storage;
}

/* `fresh`: the weights are new, so no tensor had another type before. */
static int convert_report(const smoe_storage *storage, const smoe_stored *stored, bool fresh,
                          const smoe_options *options, smoe_err *err) {
    const char *path = options->arg[1], *type = smoe_dtype_name(storage->type);
    char bytes[32];
    smoe_result result = {0};
    if (storage->keep) type = "kept";
    smoe_result_facts(&result, {"file", .text = path}, {"type", .text = type},
                      {"tensors", .number = stored->tensors},
                      {"changed", .number = stored->changed}, {"bytes", .number = stored->bytes});
    smoe_result_line(&result, NULL, "%s%s: %zu tensor%s, ", storage->dry ? "would write " : "",
                     path, stored->tensors, SMOE_S(stored->tensors));
    if (storage->keep)
        smoe_result_more(&result, "with their types unchanged");
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
static int check_ending(const char *path, const smoe_options *options, smoe_err *err) {
    static const char others[] = ".pth .pt .bin .ckpt .npz .npy .gguf .ggml .h5 .hdf5 .keras "
                                 ".msgpack .pb .tflite .pkl";
    const char *dot = strrchr(path, '.');
    if (options->onnx != (dot && !strcmp(dot, ".onnx")))
        return smoe_fail(err, SMOE_USAGE,
                         options->onnx ? "%s: the name of an ONNX graph must end in .onnx"
                                       : "%s: an ONNX graph is written with --onnx",
                         path);
    if (!dot || !smoe_text_has_word(others, ' ', dot)) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "%s: only safetensors files are written, not %s; name it %.*s.safetensors",
                     path, dot, (int)(dot - path), path);
}

/* ---- ONNX ------------------------------------------------------------------------------------ */

static int write_onnx(const smoe_options *options, smoe_err *err) {
    const char *path = options->arg[1];
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded l = {0};
    smoe_result result = {0};
    size_t bytes = 0;
    char size[32];
    if (smoe_load_spec(&l, options->arg[0], options, err) ||
        smoe_graph_write(options->dry_run ? NULL : path, &l.spec, l.file, &bytes, err))
        return -1;
    smoe_result_facts(&result, {"file", .text = path}, {"bytes", .number = bytes});
    if (options->dry_run)
        smoe_result_line(&result, NULL, "would write %s", path);
    else
        smoe_result_line(&result, NULL, "%s: from pixels [images, %zu, %zu, %zu] to logits, %s",
                         path, l.spec.data.channels, l.spec.data.image_size, l.spec.data.image_size,
                         smoe_text_si(size, sizeof size, (double)bytes, "B"));
    return smoe_cmd_emit(&result, options, err);
}

/* ---- with a spec ----------------------------------------------------------------------------- */

static int write_complete(const smoe_storage *storage, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded l = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    smoe_stored stored;
    if (smoe_load_spec(&l, options->arg[0], options, err)) return -1;
    const smoe_tensor *head = smoe_safetensors_find(l.file, "head.weight");
    size_t classes = head && head->ndim ? head->dim[0] : 1;
    if (smoe_model_create(&model, &l.spec, classes, err) ||
        smoe_model_file_complete(options->arg[1], smoe_model_params(model), &l.spec, l.file,
                                 storage, &stored, err))
        return -1;
    return convert_report(storage, &stored, false, options, err);
}

/* What the configuration beside a file of another program says, its tensors do not show.
 * *keys: what it says, "model.heads=2, ..."; fresh. */
static int configured_keys(char **keys, const smoe_safetensors *file, smoe_err *err) {
    SMOE_FREED char *spec = NULL;
    const char *section = "";
    *keys = smoe_alloc_text("");
    if (smoe_safetensors_metadata(file, "smoe.spec")) return 0;
    if (smoe_implied_spec(&spec, file, err)) return -1;
    for (char *rest = spec, *line; (line = strsep(&rest, "\n"));) {
        char *comment = strstr(line, "  # "), *value = strstr(line, ": ");
        if (*line != ' ') section = strsep(&line, ":");
        if (!comment || !value || !strncmp(comment, "  # a guess", 11) ||
            !strncmp(comment, "  # of your", 11))
            continue;
        smoe_text_add(keys, "%s%s.%.*s=%.*s", **keys ? ", " : "", section, (int)(value - line - 2),
                      line + 2, (int)(comment - value - 2), value + 2);
    }
    return 0;
}

static void say_left(const char *keys, const smoe_safetensors *file, const smoe_options *options) {
    if (options->quiet || !*keys) return;
    SMOE_FREED char *from = smoe_shell_word(options->arg[0]);
    SMOE_FREED char *to = smoe_shell_word(options->arg[1]);
    smoe_cmd_print(stderr,
                   "%s: without what the configuration beside %s says: %s.%s To have it in the "
                   "file, complete the spec that `smoe eval %s` prints, and run: smoe convert %s "
                   "%s --spec SPEC.yaml\n",
                   options->arg[1], smoe_safetensors_path(file), keys,
                   strcmp(options->names, "hf") ? "" : " No config.json is written.", from, from,
                   to);
}

/* ---- fewer experts --------------------------------------------------------------------------- */

static void convert_add_layer(smoe_result *result, smoe_frame *layers, const smoe_pruned *p,
                              size_t layer, size_t block) {
    const double *of = p->share + layer * p->before;
    const size_t *kept = p->kept + layer * p->experts;
    char label[32];
    SMOE_FREED char *list = smoe_alloc_text("");
    double share = 0;
    for (size_t k = 0; k < p->experts; k++) {
        smoe_text_add(&list, "%s%zu", k ? " " : "", kept[k]);
        share += of[kept[k]];
    }
    smoe_frame_put(layers, {"block", .number = block}, {"kept", .text = list},
                   {"combine_share", .number = share});
    snprintf(label, sizeof label, "blocks.%zu", block);
    if (p->experts)
        smoe_result_line(result, label, "%zu of %zu experts, with %.3f of the combine weights",
                         p->experts, p->before, share);
    else
        smoe_result_line(result, label, "the mean of %zu experts", p->before);
}

static int report_pruned(const smoe_pruned *p, const smoe_model *from, const smoe_options *options,
                         smoe_err *err) {
    const smoe_likeness *x = &p->likeness;
    smoe_result result = {0};
    char text[320];
    smoe_likeness_text(text, sizeof text, x);
    smoe_result_facts(&result, {"file", .text = options->arg[1]}, {"experts", .number = p->experts},
                      {"images", .number = x->images}, {"logits_largest", .number = x->largest},
                      {"logits_rms", .number = x->rms}, {"logits_sd", .number = x->spread},
                      {"same_class", .number = x->same});
    smoe_frame *layers = smoe_result_records(&result, "moe_layers");
    for (size_t i = 0; i < p->layers; i++)
        convert_add_layer(&result, layers, p, i, smoe_model_moe_block(from, i));
    smoe_result_line(&result, NULL, "%s", text);
    smoe_result_line(&result, NULL, "%s%s", options->dry_run ? "would write " : "",
                     options->arg[1]);
    return smoe_cmd_emit(&result, options, err);
}

static int prune_loaded(smoe_loaded *l, const smoe_spec *spec, size_t experts,
                        const smoe_options *options, smoe_err *err) {
    enum { IMAGES = 256 };
    SMOE_FREED_BY(smoe_pruned_free) smoe_pruned pruned = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    size_t images = smoe_dataset_images(l->set);
    const char *step = smoe_safetensors_metadata(l->file, "smoe.step");
    if (smoe_model_create(&model, spec, smoe_dataset_classes(l->set), err) ||
        smoe_prune(&pruned, model, experts, &(smoe_model_source){l->model, &l->spec, l->file},
                   &(smoe_likeness_images){l->set, images < IMAGES ? images : IMAGES, l->batch},
                   err))
        return -1;
    if (!options->dry_run &&
        smoe_model_file_write(options->arg[1], smoe_model_params(model), spec,
                              step ? strtoull(step, NULL, 10) : 0,
                              smoe_safetensors_metadata(l->file, SMOE_CLASS_NAMES), NULL, err))
        return -1;
    return report_pruned(&pruned, l->model, options, err);
}

/* Experts are chosen on images of training, unless others are given: not on those of a test. */
static int prune(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded loaded = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED char **assign = smoe_alloc(options->overrides + 1, sizeof *assign);
    static const smoe_option_range counts = {1, INT_MAX, .whole = true,
                                             .expected = "a number of experts, or mean"};
    smoe_options own = *options;
    double experts = 0; /* the mean */
    own.assign = assign;
    own.overrides = 1;
    assign[0] = "eval.split=train";
    for (size_t i = 0; i < options->overrides; i++) {
        bool split = !strncmp(options->assign[i], "eval.split=", 11);
        assign[split ? 0 : own.overrides++] = options->assign[i];
    }
    if ((strcmp(options->experts, "mean") != 0 &&
         smoe_option_numbers(&experts, 1, NULL, "experts", options->experts, &counts, err)) ||
        smoe_load_spec(&loaded, options->arg[0], &own, err))
        return -1;
    /* without the overrides, which only say where images are from */
    const char *text = smoe_safetensors_metadata(loaded.file, "smoe.spec");
    if (!text)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: has no spec in its metadata, which --experts changes", loaded.path);
    if (smoe_prune_spec(&spec, &loaded.spec, text, (size_t)experts, err) ||
        smoe_load_model(&loaded, err))
        return -1;
    return prune_loaded(&loaded, &spec, (size_t)experts, options, err);
}

/* ---- the commands ---------------------------------------------------------------------------- */

int cmd_convert(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    SMOE_FREED char *keys = NULL;
    smoe_stored stored;
    smoe_storage storage = convert_storage_of(options);
    storage.keep = !options->type;
    storage.hugging_face = !strcmp(options->names, "hf");
    if (check_ending(options->arg[1], options, err) ||
        smoe_cmd_target(options->arg[1], options, err))
        return -1;
    if (options->experts) return prune(options, err);
    if (options->overrides && !options->spec)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: keys have an effect only with --experts, where they choose the "
                         "images, and with --spec",
                         options->assign[0]);
    if (options->onnx) return write_onnx(options, err);
    if (options->spec) return write_complete(&storage, options, err);
    if (smoe_cmd_model(&file, options->arg[0], options->which, options, err) ||
        configured_keys(&keys, file, err) ||
        smoe_model_file_convert(options->arg[1], file, &storage, &stored, err))
        return -1;
    say_left(keys, file, options);
    return convert_report(&storage, &stored, false, options, err);
}

int cmd_init(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    smoe_storage storage = convert_storage_of(options);
    smoe_stored stored;
    size_t classes;
    if (smoe_cmd_spec(&spec, options->arg[0], options, err)) return -1;
    if (options->print_config) return smoe_cmd_print_config(&spec, err);
    if (smoe_cmd_target(options->arg[1], options, err) ||
        smoe_cmd_classes(&spec, true, &classes, options->scan, err) ||
        smoe_model_create(&model, &spec, classes, err) ||
        smoe_model_file_initial(options->arg[1], smoe_model_params(model), &spec, &storage, &stored,
                                err))
        return -1;
    return convert_report(&storage, &stored, true, options, err);
}
