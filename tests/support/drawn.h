/* Small tables and samples with known contents, for what draws them. */
#ifndef DRAWN_H
#define DRAWN_H

#include "base/frame.h"
#include "draw/sample.h"

enum { DRAWN_FRAMES = 8, DRAWN_SAMPLES = 3 };

/* A name that would break out of HTML, of CSV and of gnuplot's strings. */
#define DRAWN_RUN "a, <b>&\"c\"'d"

typedef struct drawn {
    smoe_frame
        frame[DRAWN_FRAMES]; /* runs, routing, combine_expert, dispatch_bands, slot_correlation,
                                       expert_load, class_expert, over_steps */
    smoe_sample sample[DRAWN_SAMPLES]; /* two of the soft run DRAWN_RUN, then one of "choice" */
} drawn;

/* As a test's setup and teardown: *state is a drawn. */
int drawn_setup(void **state);
int drawn_teardown(void **state);

/* The frame of a name, which must be there. */
const smoe_frame *drawn_frame(const drawn *d, const char *name);

#endif
