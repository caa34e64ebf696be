/* Overlays of a few images as pictures of a run's events; see inspect.h. */
#include "inspect/inspect.h"
#include "draw/overlay.h"

enum { IMAGES = 4 };

static int events_put(smoe_run *run, const smoe_sample *sample, size_t layer, smoe_err *err) {
    char tag[64];
    SMOE_FREED uint8_t *png = NULL;
    size_t size, width, height;
    snprintf(tag, sizeof tag, "blocks.%zu/overlays/image%zu", sample->layer[layer].block,
             sample->image);
    if (smoe_overlay_encode(&png, &size, &width, &height, sample, layer, err)) return -1;
    return smoe_run_picture(run, tag, width, height, png, size, err);
}

int smoe_inspect_events(smoe_run *run, smoe_model *model, const smoe_spec *spec,
                        const smoe_dataset *set, size_t batch, smoe_err *err) {
    smoe_inspection *inspection = NULL;
    size_t count = 0;
    if (!smoe_model_moe_layers(model) || smoe_model_pairs(model)) return 0;
    const smoe_inspect_subject subject = {.run = spec->name,
                                          .checkpoint = spec->name,
                                          .spec = spec,
                                          .set = set,
                                          .model = model,
                                          .batch = batch,
                                          .images = IMAGES};
    int status = smoe_inspect_some(&inspection, &subject, err);
    const smoe_sample *sample = status ? NULL : smoe_inspect_samples(inspection, &count);
    for (size_t i = 0; i < count && !status; i++)
        for (size_t l = 0; l < sample[i].layers && !status; l++)
            status = events_put(run, &sample[i], l, err);
    smoe_inspect_free(inspection);
    return status;
}
