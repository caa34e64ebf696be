/*
 * Soups: the mean of the weights of several models of one shape, evaluated as each of them joins.
 * Leaves to others: finding the models, data sets, printing.
 */
#pragma once

#include "train/trainer.h"

typedef struct smoe_soup_member {
    const char *path; /* of its safetensors file; the caller's */
    smoe_eval alone;
    smoe_eval with; /* the soup so far including this member, whether it stays or not */
    bool in;        /* it stays */
    /* Its experts against those of the first path, by the cosine of their first kernels, over all
     * MoE layers: the share of experts that are closest to the one with their own number, and the
     * mean cosine to that one. NAN without experts. */
    double aligned, cosine;
} smoe_soup_member;

typedef struct smoe_soup_options {
    bool greedy;     /* members in the order of their own precision, the loss where it is equal; one
                        stays only if the soup's precision does not fall. Else all, as given. */
    const char *out; /* the file of the soup, or NULL: none */
    /* may be NULL: called after each evaluation, `done` of `all` */
    void (*progress)(void *user, size_t done, size_t all);
    void *user;
} smoe_soup_options;

/* Evaluates members, and the soup, on `set` with `spec`; members come back in the order in which
 * they joined. *soup is the evaluation of the result; it is also set if only the file could not be
 * written, and unchanged if something failed before. SMOE_DATA names a member that is not of the
 * shape of the spec, tensor by tensor. The file has the metadata of the first path, and in
 * smoe.soup a list of the paths of its members; its values are means in double, stored in F32. */
int smoe_soup_make(smoe_soup_member *member, size_t count, const smoe_spec *spec,
                   const smoe_dataset *set, const smoe_soup_options *options, smoe_eval *soup,
                   smoe_err *err) SMOE_MUST_CHECK;
