/*
 * Weights of Vision Transformers in the files of other programs: .npz of the ViT and big_vision
 * code, .pth of PyTorch, and safetensors with other names. They become safetensors with the names
 * and layouts of smoe-checkpoint(5), in memory, so all code that reads models can use them. Other
 * tensors of a file keep their names.
 */
#pragma once

#include "tensors/safetensors.h"

/* Where its queries show the number of heads, which tensors here do not, the note of a file has it
 * in these words (smoe_safetensors_note). */
#define SMOE_FOREIGN_HEADS "queries of %zu heads"

/* Whether bytes begin as a .npz or .pth file does. */
bool smoe_foreign_begins(const void *bytes, size_t size);

/* What the tensors of such a file become; `own`: they keep the names that they have, as those of
 * one of several files, which are renamed when all are joined. `weights`: which of several models
 * in it, "raw", "ema" or NULL. SMOE_DATA names path, member and place. */
int smoe_foreign_open(smoe_safetensors **made, const void *bytes, size_t size, const char *path,
                      const char *weights, bool own, smoe_err *err) SMOE_MUST_CHECK;

/* The same for the tensors of an open safetensors file. 1: made; 0: they are as they are here. */
int smoe_foreign_rename(smoe_safetensors **made, const smoe_safetensors *file, const char *weights,
                        smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_DATA if a file has tensors of functions that no model of this program has: relative
 * positions, gated MLPs, ..., or experts by the names of V-MoE; a line for each. */
int smoe_foreign_check(const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* The tensors of a file in a fresh array, with what they borrow from the file and the array: as
 * they are, or with Hugging Face's names, qkv as the three that it has there. The array is the
 * caller's after a failure too. SMOE_USAGE if there is no such name for a tensor, or no class token
 * or no learned positions, which are there. */
int smoe_foreign_tensors(smoe_tensor **tensors, size_t *count, const smoe_safetensors *file,
                         bool hugging_face, smoe_err *err) SMOE_MUST_CHECK;
