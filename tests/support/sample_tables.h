/* Small tables and samples with known contents, for tests of drawing. */
#pragma once

#include "base/frame.h"
#include "draw/sample.h"

enum { SAMPLE_FRAMES = 8, SAMPLE_SAMPLES = 3 };

/* A name that would break HTML, CSV and gnuplot strings if not escaped. */
#define SAMPLE_RUN "a, <b>&\"c\"'d"

typedef struct sample_tables {
    smoe_frame
        frame[SAMPLE_FRAMES]; /* runs, routing, combine_expert, dispatch_bands, slot_correlation,
                                       expert_load, class_expert, over_steps */
    smoe_sample sample[SAMPLE_SAMPLES]; /* two of the soft run SAMPLE_RUN, then one of "choice" */
} sample_tables;

/* cmocka's setup and teardown: *state is a sample_tables. */
int sample_tables_setup(void **state);
int sample_tables_teardown(void **state);

/* An empty table with this name and the columns of that table of smoe inspect. */
void sample_tables_init(smoe_frame *frame, const char *name);

/* The frame with that name, which must exist. */
const smoe_frame *sample_tables_frame(const sample_tables *d, const char *name);
