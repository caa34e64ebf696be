/*
 * The Vision Transformer with MoE blocks, put together from layers: from pixels to logits and back;
 * with a text tower beside it, from images and captions to their similarities.
 * Leaves to others: the loss, the optimiser, files.
 */
#pragma once

#include "tensors/safetensors.h"
#include "vit/encoder.h"
#include "vit/expert_parallel.h"

/* Builds the layers and the parameter table for N classes; allocates neither weights nor
 * activations, so that the largest model of the papers can be described anywhere. Shape errors are
 * found here (SMOE_USAGE). */
int smoe_model_create(smoe_model **model, const smoe_spec *spec, size_t classes,
                      smoe_err *err) SMOE_MUST_CHECK;

SMOE_FREES(smoe_model)

/* Hands over the object that the model was loaded from, which must live as long as the model:
 * smoe_model_free calls release. NULL before. */
void smoe_model_hold(smoe_model *model, void *held, void (*release)(void *held));
void *smoe_model_held(const smoe_model *model);

smoe_params *smoe_model_params(smoe_model *model);

/* Divides the experts of each layer over `over` of the processes (SMOE_WORD: all), at most as many
 * as there are processes, and experts in the smallest group; `pieces` of a batch are computed by
 * each process. Nothing happens if that is 1. To be called before slabs and buffers are allocated.
 * Borrows comm. See vit/expert_parallel.h. */
void smoe_model_shard(smoe_model *model, smoe_comm *comm, double over, size_t pieces);
/* NULL: all experts are here. */
smoe_expert_parallel *smoe_model_expert_parallel(smoe_model *model);
/* Outside of training: takes part in the passes of the processes that need the experts here, until
 * all of them have called this function. Does nothing if experts are not divided. */
void smoe_model_serve(smoe_model *model);
/* Adds what a step of training sends for the experts, see smoe_expert_parallel_expect. */
void smoe_model_expect(const smoe_model *model, size_t forwards, smoe_sent *sent);

/* Bytes of activations (kept for backward, and scratch) of a pass over B images; SIZE_MAX where
 * that is more than can be counted. Allocates nothing, and leaves what is bound as it is. */
size_t smoe_model_measure(smoe_model *model, size_t B, bool train);

/* Adds the costs of all layers. */
void smoe_model_cost(const smoe_model *model, smoe_costs *costs);

/* Binds the activations for passes of up to B images; with train, of forward and backward. Replaces
 * an earlier binding. */
int smoe_model_reserve(smoe_model *model, size_t B, bool train, smoe_err *err) SMOE_MUST_CHECK;

/* pixels [B, channels, image, image] -> logits [B, N] and features [B, d] (the pooled vector before
 * the head), owned by the model, valid until the next pass. Neither allocates nor fails. */
void smoe_model_forward(smoe_model *model, const real *pixels, const smoe_pass *pass);
const real *smoe_model_logits(const smoe_model *model);
const real *smoe_model_features(const smoe_model *model);

/* If the task of a model compares images with captions (smoe_task_pairs), the logits of an image
 * are its embedding [D], not normalised. The first function does the same for texts: from tokens
 * [B, text.context] and lengths [B], as in smoe_inputs, to smoe_model_texts [B, D]; the second does
 * both. The third gets embeddings of images and texts [B, D] and returns their similarities [B, B],
 * which smoe_model_pairs has too (NULL for other models). The last embeds and compares. */
void smoe_model_forward_texts(smoe_model *model, const uint32_t *tokens, const size_t *lengths,
                              const smoe_pass *pass);
void smoe_model_embed_pairs(smoe_model *model, const smoe_inputs *in, const smoe_pass *pass);
const real *smoe_model_compare(smoe_model *model, const real *images, const real *texts, size_t B);
void smoe_model_forward_pairs(smoe_model *model, const smoe_inputs *in, const smoe_pass *pass);
const real *smoe_model_texts(const smoe_model *model);
const smoe_pairs *smoe_model_pairs(const smoe_model *model);
/* Numbers of an image's logits: N, or D. */
size_t smoe_model_width(const smoe_model *model);

/* From the gradient [B, B] of the similarities to those of the embeddings. With `learns` also adds
 * to the gradients of logit_scale and logit_bias: once per batch. */
void smoe_model_compare_backward(smoe_model *model, const real *dlogits, size_t B, bool learns);

/* dlogits [B, N] -> adds to every parameter's gradient (a fresh one counts as zero, base/param.h);
 * the gradients of the auxiliary losses included. Models of pairs ignore dlogits: they go on from
 * smoe_model_compare_backward, whose rows from pass->first on are those of this pass. */
void smoe_model_backward(smoe_model *model, const real *dlogits, const smoe_pass *pass);

/* After an update: limits the parameter that has a bound, the factor of the similarities. */
void smoe_model_bound(smoe_model *model);

/* Writes to `name` the first layer ("patch_embed", "blocks.3.attn", "blocks.3.mlp", "head") whose
 * output in the last training pass holds a value that is not finite; "loss" when none does. */
void smoe_model_nonfinite(const smoe_model *model, const smoe_pass *pass, char *name, size_t size);

/* Sums over MoE layers of the auxiliary losses of the last forward pass. */
smoe_plan_losses smoe_model_losses(const smoe_model *model);

/* What the routers that have a state counted in the last training pass, behind one another,
 * smoe_params_counted numbers; untouched where smoe_model_routes is false. After an update, and the
 * same everywhere: sets the states from the sums over the whole batch. */
void smoe_model_counts(const smoe_model *model, double *counts);
void smoe_model_settle(smoe_model *model, const double *counts, const smoe_pass *pass);

/* The sums over tokens that losses over the whole batch are functions of (router.h), of all routers
 * behind one another: how many; and those of the last training pass, or `set`, before passes with
 * pass->summed, those of all passes over the batch. */
size_t smoe_model_summed(const smoe_model *model);
void smoe_model_sums(const smoe_model *model, double *sums, bool set);

/* The MoE layers in order: their number, and the block number and router of the i-th. In inference
 * layers share their buffers, so a plan is complete only inside `watch`, which is called after the
 * forward pass of each MoE layer. */
size_t smoe_model_moe_layers(const smoe_model *model);
size_t smoe_model_moe_block(const smoe_model *model, size_t i);
const smoe_router *smoe_model_router(const smoe_model *model, size_t i);
/* Whether these layers are trained: an image tower with only frozen parameters runs as in
 * evaluation. */
bool smoe_model_routes(const smoe_model *model);
/* Blocks whose choice routers get random scores at evaluation, instead of those of the spec: block
 * i where random[i]. */
void smoe_model_randomise(smoe_model *model, const bool *random);
void smoe_model_watch(smoe_model *model, smoe_tower_watch *watch, void *user);

/* Writes a model as a graph of ONNX: images as they are after data.mean and data.std, [images,
 * channels, side, side], to logits [images, N], in F32, with the weights of a file, whose spec is
 * `spec`. *bytes: the size of the file at path. Dense models and those of the soft family are
 * matrix products, norms and softmax; of other models, whose routers sort tokens into buffers,
 * SMOE_USAGE with the reason. With a NULL path only that, and whether the weights fit, is checked.
 */
int smoe_graph_write(const char *path, const smoe_spec *spec, const smoe_safetensors *weights,
                     size_t *bytes, smoe_err *err) SMOE_MUST_CHECK;
