/*
 * What the routers of a trained model do with a data set: the analyses of the two papers, each a
 * table (an entry of inspect.def) and, for a few images, their complete routing. Accumulated in one
 * pass over the images, in memory that does not grow with their number. Sums are exact or in a
 * fixed order: the same bits for any number of threads and processes.
 */
#pragma once

#include "base/frame.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "draw/sample.h"
#include "spec/spec.h"
#include "train/trainer.h"
#include "vit/model.h"

/* One empty frame for every entry of inspect.def, in a fresh array of *count. */
void smoe_frames_open(smoe_frame **frames, size_t *count);
void smoe_frames_free(smoe_frame *frames, size_t count);

/* A run to be inspected; everything is borrowed. */
typedef struct smoe_inspect_subject {
    const char *run;        /* what the column `run` says */
    const char *checkpoint; /* the file */
    const char *metrics;    /* its metrics.jsonl; NULL: none */
    const smoe_spec *spec;
    const smoe_dataset *set;
    smoe_model *model; /* reserved for `batch` images */
    size_t batch;
    const size_t
        *image; /* [images] indices of those to keep whole, in data-set order, no two the same */
    size_t images;
    bool
        random_routers; /* measure the value of routers: two evaluations more for every MoE layer */
    bool exchange_experts; /* and of experts: four evaluations more for every MoE layer */
    size_t memory;         /* bytes for what is made of the images of a batch at a time; 0: 32 MB */
    smoe_comm *comm;       /* processes that divide the batches; NULL: one does all */
    void (*progress)(void *user, size_t done, size_t images); /* may be NULL */
    void *progress_user;
    const volatile sig_atomic_t *stop; /* a request ends the pass (SMOE_STOPPED); NULL: none */
} smoe_inspect_subject;

typedef struct smoe_inspection smoe_inspection;

/* Evaluates the whole split. SMOE_USAGE: no MoE layer; an image past the end. Free in any case. */
int smoe_inspect_run(smoe_inspection **inspection, const smoe_inspect_subject *subject,
                     smoe_err *err) SMOE_MUST_CHECK;
/* The same, but only as many batches as hold the first `images` in the order of evaluations, which
 * are those that are kept; subject->image is not read. */
int smoe_inspect_some(smoe_inspection **inspection, const smoe_inspect_subject *subject,
                      smoe_err *err) SMOE_MUST_CHECK;
/* Adds its rows to the frames of smoe_frames_open. Several processes: all call it, and those of the
 * first one are complete. */
int smoe_inspect_fill(smoe_inspection *inspection, smoe_frame *frames,
                      smoe_err *err) SMOE_MUST_CHECK;
/* The images that were kept; they live as long as `inspection`. */
const smoe_sample *smoe_inspect_samples(const smoe_inspection *inspection, size_t *count);
/* Their weights or placements as a .npy file: dense float32 [images, layers, 2, T, S], dispatch
 * then combine; sparse float64 [placements, 6], rows (image, block, token, expert, slot of the
 * expert's buffer, weight). */
int smoe_inspect_dump(const smoe_inspection *inspection, const char *path,
                      smoe_err *err) SMOE_MUST_CHECK;
void smoe_inspect_free(smoe_inspection *inspection);

/* A smoe_picture_hook: the overlays (draw/overlay.h) of the first four images of the split in the
 * order of evaluations, one per MoE layer, as blocks.N/overlays/imageI. Nothing for models without
 * MoE layers, and for images with captions. */
int smoe_inspect_events(smoe_run *run, smoe_model *model, const smoe_spec *spec,
                        const smoe_dataset *set, size_t batch, smoe_err *err);
