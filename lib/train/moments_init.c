/* Moments from the checkpoint of another run; see moments_init.h. */
#include "train/moments_init.h"
#include "base/file.h"
#include "base/json.h"
#include "store/checkpoint.h"
#include "tensors/params_io.h"

#include <inttypes.h>

/* Whether the run that wrote the model had the optimiser of the spec. */
static bool same_optimizer(const smoe_safetensors *model, const smoe_spec *spec) {
    const char *text = smoe_safetensors_metadata(model, "smoe.spec");
    json_auto_t *theirs = text ? json_loads(text, 0, NULL) : NULL;
    json_auto_t *ours = smoe_spec_object(spec);
    const json_t *name = smoe_json_at(theirs, "train.optimizer.name");
    return name && json_equal(name, smoe_json_at(ours, "train.optimizer.name"));
}

int smoe_moments_init_check(const smoe_safetensors *model, const smoe_spec *spec, smoe_fit fit,
                            smoe_err *err) {
    const char *path = smoe_safetensors_path(model);
    if (spec->train.optimizer.name == SMOE_OPTIMIZER_ADAFACTOR && fit == SMOE_FIT_UPCYCLE)
        return smoe_fail(err, SMOE_USAGE,
                         "--moments: with --upcycle, train.optimizer.name must be adam or sgd, not "
                         "adafactor");
    if (strncmp(basename(path), "model.", 6))
        return smoe_fail(err, SMOE_USAGE,
                         "--moments: %s is not a checkpoint of a run, so it has no optimiser state",
                         path);
    if (!same_optimizer(model, spec))
        return smoe_fail(err, SMOE_USAGE,
                         "--moments: %s is of a run with another train.optimizer.name", path);
    return 0;
}

int smoe_moments_init_open(smoe_safetensors **state, const smoe_safetensors *model,
                           const smoe_spec *spec, smoe_fit fit, smoe_err *err) {
    const char *path = smoe_safetensors_path(model);
    *state = NULL;
    if (smoe_moments_init_check(model, spec, fit, err)) return -1;
    SMOE_FREED char *beside = smoe_file_beside(path, "state.safetensors");
    if (smoe_safetensors_open(state, beside, err)) return -1;
    const char *steps[] = {smoe_safetensors_metadata(model, "smoe.step"),
                           smoe_safetensors_metadata(*state, "smoe.step")};
    if (!steps[0] || !steps[1] || strcmp(steps[0], steps[1]) != 0)
        return smoe_fail(err, SMOE_DATA, "%s: is not of the step of %s", beside, path);
    return smoe_checkpoint_check(model, err);
}

int smoe_moments_init_load(smoe_params *params, const smoe_safetensors *state, smoe_fit fit,
                           char **text, smoe_err *err) {
    smoe_slab slabs[2];
    const char *path = smoe_safetensors_path(state);
    const char *updates = smoe_safetensors_metadata(state, "smoe.optimizer_steps");
    const char *earlier = smoe_safetensors_metadata(state, "smoe.carried");
    size_t count = smoe_params_moments(params, slabs), loaded = 0, trained = 0;
    *text = NULL;
    if (!count) return smoe_fail(err, SMOE_USAGE, "--moments: sgd without momentum has none");
    if (smoe_params_load_slabs(params, slabs, 1, state, fit, &loaded, err) ||
        smoe_params_load_slabs(params, slabs + 1, count - 1, state, fit, NULL, err))
        return -1;
    for (size_t i = 0; i < params->count; i++)
        trained += smoe_slab_has(&slabs[0], &params->param[i]);
    params->carried =
        (updates ? strtoull(updates, NULL, 10) : 0) + (earlier ? strtoull(earlier, NULL, 10) : 0);
    *text =
        smoe_text_format("moments of %zu of %zu tensors start from %s, after %" PRIu64 " updates",
                         loaded, trained, path, params->carried);
    return 0;
}
