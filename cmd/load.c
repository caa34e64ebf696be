/* Trained models for eval and inspect; see load.h. */
#include "load.h"
#include "train/run.h"

#include <stdlib.h>
#include <string.h>

int smoe_load_spec(smoe_loaded *l, const char *arg, const smoe_options *options, smoe_err *err) {
    char *text = NULL;
    int status = smoe_run_locate(arg, options->which, &l->path, &text, err);
    if (status) goto out;
    if (options->spec)
        status =
            smoe_spec_read(&l->spec, options->spec, options->override, options->overrides, err);
    else if (text)
        status = smoe_spec_parse(&l->spec, text, strlen(text), l->path, NULL, options->override,
                                 options->overrides, err);
    else
        status = smoe_fail(err, SMOE_USAGE,
                           "%s carries no spec; describe the model with --spec SPEC.yaml", l->path);
out:
    free(text);
    return status;
}

static int load_weights(smoe_loaded *l, smoe_err *err) {
    if (smoe_safetensors_open(&l->file, l->path, err)) return -1;
    return smoe_params_map(smoe_model_params(l->model), l->file, err);
}

int smoe_load_model(smoe_loaded *l, smoe_err *err) {
    if (smoe_dataset_open(&l->set, &l->spec, l->spec.eval.split, err)) return -1;
    size_t images = smoe_dataset_images(l->set);
    l->batch = l->spec.eval.batch_size < images ? l->spec.eval.batch_size : images;
    if (smoe_model_create(&l->model, &l->spec, smoe_dataset_classes(l->set), err)) return -1;
    if (load_weights(l, err)) return -1;
    return smoe_model_reserve(l->model, l->batch, false, err);
}

void smoe_loaded_free(smoe_loaded *l) {
    smoe_model_free(l->model);
    smoe_safetensors_free(l->file);
    smoe_dataset_free(l->set);
    smoe_spec_free(&l->spec);
    free(l->path);
    *l = (smoe_loaded){0};
}
