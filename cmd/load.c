/* Trained models, their specs and their data; see cmd.h. */
#include "cmd.h"
#include "spec/routers.h"
#include "store/model_file.h"
#include "store/implied.h"
#include "sweep/evaluations.h"
#include "tensors/params_io.h"
#include "tensors/init_map.h"

/* A mistake in the spec of the file itself is damage and not a mistake of the user, even if there
 * are overrides. */
static void blame_file(const smoe_spec_text *carried, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec alone = {0};
    smoe_err own = {0};
    if (err->code == SMOE_USAGE && smoe_spec_parse(&alone, carried, NULL, 0, &own)) {
        *err = own;
        if (err->code == SMOE_USAGE) err->code = SMOE_DATA;
    }
}

/* Names all overrides that would describe another model than the one in the file. The file of its
 * tokenizer may have been moved. */
static int check_overrides(const smoe_options *options, smoe_err *err) {
    int status = 0;
    *err = (smoe_err){0};
    for (size_t i = 0; i < options->overrides; i++) {
        const char *text = options->assign[i];
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(text, "="), text);
        bool model = !strncmp(key, "model", 5) || !strncmp(key, "text", 4);
        if (model && strcmp(key, "text.tokenizer") != 0 && smoe_evaluations_check_key("", key, err))
            status = -1;
    }
    return status;
}

/* The spec that shapes imply is no model of the file if tensors of its blocks are missing, as in
 * another architecture. */
static int check_implied(const smoe_safetensors *file, const char *text, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    const smoe_tensor *head = smoe_safetensors_find(file, "head.weight");
    smoe_err ignored;
    if (smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .trained = true}, NULL, 0,
                        &ignored) ||
        smoe_model_create(&model, &spec, head ? head->dim[0] : 2, &ignored))
        return 0;
    if (!smoe_params_check(smoe_model_params(model), file, SMOE_FIT_INIT, err)) return 0;
    return smoe_fail_more(err, SMOE_DATA,
                          "its tensors imply no spec: no model of this program has them");
}

/* A file without a spec: prints the one that it implies, and says what to do. */
static int imply_spec(const smoe_loaded *l, const char *arg, const smoe_options *options,
                      smoe_err *err) {
    *err = (smoe_err){0};
    SMOE_FREED char *text = NULL;
    if (smoe_implied_refuse(l->file, err) || smoe_implied_spec(&text, l->file, err) ||
        (text && check_implied(l->file, text, err)))
        return -1;
    const char *name = options->command->name;
    /* The arguments that --spec would be for: all models of a soup, the file of ONNX, an image. */
    bool image = !strcmp(name, "predict"), all = !strcmp(name, "soup") || options->onnx || image;
    SMOE_FREED char *args = smoe_alloc_text(arg);
    const char *alone = options->outputs ? "outputs" : options->experts ? "experts" : NULL;
    if (alone) /* --spec does not go with it */
        return smoe_fail(err, SMOE_USAGE,
                         "%s has no spec; --%s needs a file with one: smoe convert %s "
                         "FILE.safetensors --spec SPEC.yaml writes it",
                         l->path, alone, arg);
    if (!text || options->json)
        return smoe_fail(err, SMOE_USAGE,
                         "%s has no spec; describe the model with --spec SPEC.yaml", l->path);
    smoe_cmd_print(stdout, "%s", text);
    smoe_fail_more(err, SMOE_USAGE,
                   "%s has no spec. Its tensors imply the one above: write it to a file, "
                   "complete it, and run:",
                   l->path);
    for (size_t i = 1; all && i < (image ? 2 : options->args); i++)
        smoe_text_add(&args, " %s", options->arg[i]);
    if (options->grid) smoe_text_add(&args, " --grid %s", options->grid);
    if (options->weights) smoe_text_add(&args, " --weights %s", options->weights);
    return smoe_fail_more(err, SMOE_USAGE, "smoe %s %s%s --spec SPEC.yaml", name, args,
                          options->onnx ? " --onnx" : "");
}

/* With another share held out, or with another seed, others were trained on. */
static void say_trained_on(const smoe_loaded *l, const smoe_spec_text *carried) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec own = {0};
    const smoe_data_spec *is = &l->spec.data, *was = &own.data;
    smoe_err ignored;
    if (l->quiet || !(is->holdout > 0) || !is->path || !strcmp(l->spec.eval.split, "train") ||
        smoe_spec_parse(&own, carried, NULL, 0, &ignored))
        return;
    bool other = is->holdout != was->holdout || is->seed != was->seed;
    if (other && was->path && !strcmp(is->path, was->path))
        smoe_cmd_print(stderr,
                       "%s: trained with another data.holdout or data.seed: images that are held "
                       "out now may be among those that it was trained on\n",
                       l->path);
}

int smoe_load_spec(smoe_loaded *l, const char *arg, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text file = {0};
    smoe_file_choice choice;
    l->quiet = options->quiet;
    l->scan = options->scan;
    if (smoe_cmd_choice(&choice, options, err) ||
        smoe_run_model(&l->file, arg, options->which, &choice, err))
        return -1;
    l->path = smoe_safetensors_path(l->file);
    const char *text = smoe_safetensors_metadata(l->file, "smoe.spec");
    if (!options->spec && !text) return imply_spec(l, arg, options, err);
    if (options->spec && smoe_cmd_text(&file, options->spec, options, err)) return -1;
    file.trained = true;
    file.of_cells = l->trains;
    const smoe_spec_text carried = {
        .text = text, .label = l->path, .trained = true, .of_cells = l->trains};
    if (smoe_spec_parse(&l->spec, options->spec ? &file : &carried, options->assign,
                        options->overrides, err)) {
        if (!options->spec) blame_file(&carried, err);
        return -1;
    }
    if (!options->spec && check_overrides(options, err)) return -1;
    smoe_cmd_unverified(l->file, options);
    if (options->spec && smoe_implied_check(&l->spec, l->file, true, err)) return -1;
    bool other = (options->spec || options->overrides) && !l->quiet;
    SMOE_FREED char *implied = other ? smoe_implied_remark(&l->spec, l->file) : NULL;
    if (implied) smoe_cmd_print(stderr, "%s\n", implied);
    if (!options->spec) say_trained_on(l, &carried);
    return 0;
}

void smoe_load_remarks(const smoe_loaded *l) {
    for (size_t i = 0; !l->quiet && i < smoe_dataset_found(l->set)->remarks; i++)
        smoe_cmd_print(stderr, "%s: %s\n", l->spec.eval.split,
                       smoe_dataset_found(l->set)->remark[i]);
}

int smoe_load_model(smoe_loaded *l, smoe_err *err) {
    if (smoe_dataset_open(&l->set, &l->spec, l->spec.eval.split, l->scan, err) ||
        smoe_model_file_align(l->set, l->file, &l->spec, err))
        return -1;
    smoe_load_remarks(l);
    l->batch = smoe_moe_eval_batch(&l->spec, smoe_dataset_images(l->set));
    if (smoe_model_create(&l->model, &l->spec, smoe_dataset_classes(l->set), err)) return -1;
    if (smoe_params_map(smoe_model_params(l->model), l->file, err)) return -1;
    SMOE_FREED char *resized =
        l->quiet ? NULL : smoe_init_map_resized(smoe_model_params(l->model), l->file);
    if (resized) smoe_cmd_print(stderr, "%s: %s\n", l->path, resized);
    return smoe_model_reserve(l->model, l->batch, false, err);
}

void smoe_loaded_free(smoe_loaded *l) {
    smoe_model_free(l->model);
    smoe_safetensors_free(l->file);
    smoe_dataset_free(l->set);
    smoe_spec_free(&l->spec);
    *l = (smoe_loaded){0};
}
