/* What routers do with a few images, as pictures of TensorBoard's events while a model trains. */
#ifndef SMOE_INSPECT_EVENTS_H
#define SMOE_INSPECT_EVENTS_H

#include "train/trainer.h"

/* A smoe_picture_hook: the overlays (draw/overlay.h) of the first four images of the split in the
 * order of evaluations, one per MoE layer, as blocks.N/overlays/imageI. Nothing for models without
 * MoE layers, and for images with captions. `user` is not used. */
int smoe_inspect_events(void *user, smoe_run *run, smoe_model *model, const smoe_spec *spec,
                        const smoe_dataset *set, size_t batch, smoe_err *err);

#endif
