/*
 * Watches the losses of a run and makes remarks: on a loss that grows, on one that stays at that of
 * guessing, and on a model that memorises its training images. Training continues in any case.
 */
#pragma once

#include "data/dataset.h"

enum { SMOE_WATCH_TEXT = 320 };

typedef struct smoe_watch {
    const smoe_spec *spec;
    double guess;               /* the loss of guessing by the frequencies of the classes */
    double mean, weight;        /* running mean of the last losses, and the sum of its weights */
    double least;               /* test loss; */
    uint64_t least_step;        /* 0: none yet */
    const char *state;          /* in a word or two, for progress lines; NULL: nothing to say */
    char text[SMOE_WATCH_TEXT]; /* the last remark; empty: none */
    bool grown;                 /* said already */
} smoe_watch;

/* N: classes, of tasks of pairs the pairs of a batch. Reads the labels of up to 10,000 images. */
void smoe_watch_open(smoe_watch *watch, const smoe_spec *spec, const smoe_dataset *train, size_t N);

/* After a step, and after an evaluation on other images than those of training: a new remark, which
 * is in watch->text, or NULL. */
const char *smoe_watch_step(smoe_watch *watch, uint64_t step, double loss);
const char *smoe_watch_eval(smoe_watch *watch, uint64_t step, double loss);
