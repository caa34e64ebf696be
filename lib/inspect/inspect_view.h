/*
 * Internal to the analyses of routing: what they see of an image, what they count, and the run they
 * belong to. An analysis is an entry of inspect.def with a function smoe_fill_NAME; what it needs
 * counted is a counter, an entry of the table in inspect_pass.c.
 */
#pragma once

#include "inspect/inspect.h"
#include "data/loader.h"

/* Properties of routers; an analysis names those that it needs. */
enum {
    SMOE_INSPECT_ANY = 0,
    SMOE_INSPECT_DENSE = 1,  /* weights of every token in every slot */
    SMOE_INSPECT_SPARSE = 2, /* placements */
    SMOE_INSPECT_GATE = 4,   /* weights of experts by which choices are made */
    SMOE_INSPECT_PHI = 8,    /* slot vectors */
    SMOE_INSPECT_SCORES = 16 /* scores whose order is that of the choices, with noise in training */
};

/* The users of random numbers, which key the streams of SMOE_RNG_ANALYSIS. */
enum { SMOE_DRAWS_CLASSES, SMOE_DRAWS_POSITIONS, SMOE_DRAWS_COMPANIONS, SMOE_DRAWS_NOISE };

/* One image in one layer. */
typedef struct smoe_inspect_view {
    size_t layer, image, label;
    double *weight; /* [T,E] combine weight of an expert, all its slots, in a token; its absolute
                                value if a learnt priority makes it negative */
    const real *disp, *comb; /* [T,S] dense, else NULL */
    double *disp_sums;       /* [S,T] dense: cumulative sums of a slot's weights in falling order */
    double *comb_sums;       /* [T,S] dense: of a token's */
    smoe_sample_place *place; /* [places] sparse, by token */
    size_t places;
    const real *gate;      /* [T,E] or NULL */
    const real *scores;    /* [T / unit,E] or NULL */
    size_t unit;           /* tokens with scores in common */
    const int32_t *choice; /* [T / unit,K] experts that tokens chose, or -1; or NULL */
    size_t K;
    real *work; /* [max(T,S)] */
} smoe_inspect_view;

/* Something that is counted over the images, separately for each layer. */
typedef struct smoe_counter {
    unsigned needs;
    size_t size; /* of the state of one layer, which starts as zeros */
    /* Takes its memory from the pool of the inspection, and says what is summed over processes
     * (smoe_inspect_counts and its kind): the same in each. */
    void (*open)(void *state, smoe_inspection *r, size_t l);
    /* Images come in the order of the evaluation, one call at a time. Either may be NULL. */
    void (*image)(void *state, const smoe_inspection *r, const smoe_inspect_view *view);
    void (*batch)(void *state, const smoe_inspection *r, const smoe_plan *plan);
} smoe_counter;

extern const smoe_counter smoe_counter_means, smoe_counter_token_sums, smoe_counter_dispatch_sums,
    smoe_counter_combine_sums, smoe_counter_experts, smoe_counter_choices, smoe_counter_changes;

/* What a model says of an image: zeros until its batch has been evaluated. */
typedef struct smoe_predicted {
    size_t top;
    double probability;
} smoe_predicted;

/* What processes put together: they add it, add it exactly, or take the largest. */
typedef struct smoe_counted {
    enum { SMOE_COUNTS, SMOE_EXACT, SMOE_LARGEST } kind;
    void *at;
    size_t n;
} smoe_counted;

struct smoe_inspection {
    smoe_alloc_pool memory; /* of all that follows */
    smoe_inspect_subject subject;
    smoe_comm *comm, alone; /* that of the subject, or `alone` */
    unsigned has;           /* SMOE_INSPECT_* of its routers */
    size_t layers, T, E, N, side, first_patch;
    size_t most_slots; /* of a layer, see smoe_inspect_slots */
    size_t images;     /* of the split */
    uint32_t *order;   /* [images] which image stands at each place of the evaluation */
    size_t enough;     /* places after which the pass ends; SIZE_MAX: all */
    size_t *kept;      /* of smoe_inspect_some: subject.image */
    size_t seen;       /* the place of the first image of the batch of this process */
    smoe_eval eval;    /* of the whole split */
    void **state;      /* [counters, layers]; NULL where the counter is not needed */
    const smoe_counter *const *counter; /* [counters] */
    smoe_counted *counted;              /* [counteds] */
    size_t counteds;
    smoe_inspect_view *view; /* [views] images at once */
    size_t views;
    smoe_sample *sample;       /* [subject.images] */
    smoe_predicted *predicted; /* [subject.images] */
};

/* n numbers of a counter that processes add, or take the largest of, after the pass: those at `at`;
 * NULL: zeros from the pool. */
uint64_t *smoe_inspect_counts(smoe_inspection *r, uint64_t *at, size_t n);
smoe_exact *smoe_inspect_exact(smoe_inspection *r, smoe_exact *at, size_t n);
double *smoe_inspect_largest(smoe_inspection *r, double *at, size_t n);

/* The state of a counter in layer l. */
void *smoe_inspect_state(const smoe_inspection *r, const smoe_counter *counter, size_t l);
/* Puts a row about layer l: the cells that follow, and the run and the block. */
#define smoe_inspect_put(r, frame, l, ...)                   \
    smoe_frame_put(frame, {"run", .text = (r)->subject.run}, \
                   {"block", .number = smoe_inspect_block(r, l)}, __VA_ARGS__)
double smoe_inspect_block(const smoe_inspection *r, size_t l);
/* S of layer l, and P, the places of its buffers: with a list of capacities, layers differ. */
size_t smoe_inspect_slots(const smoe_inspection *r, size_t l);
size_t smoe_inspect_slots_per_expert(const smoe_inspection *r, size_t l);
/* The best experts of a token that are looked at: as many as it chooses in any layer, at least
 * two. */
size_t smoe_inspect_best(const smoe_inspection *r);
/* The row and column of a token in the image; NAN for a class token, which is not a patch. */
double smoe_inspect_token_row(const smoe_inspection *r, size_t token);
double smoe_inspect_token_column(const smoe_inspection *r, size_t token);

/* The images kept whole (inspect_sample.c): the layer of those among n places from r->seen on; what
 * came out for those of a batch; and, after the pass, what other processes have of them, and names
 * of classes. */
int smoe_samples_open(smoe_inspection *r, smoe_err *err) SMOE_MUST_CHECK;
void smoe_samples_keep(smoe_inspection *r, size_t l, const smoe_inspect_view *view);
void smoe_samples_predict(smoe_inspection *r, const smoe_batch *batch, const real *logits);
void smoe_samples_close(smoe_inspection *r);

/* Writes the rows of one frame: those of layer l, where nothing but memory can fail
 * (frame->failed), or all of a run. */
typedef void smoe_fill_layer(const smoe_inspection *r, smoe_frame *frame, size_t l);
typedef int smoe_fill_run(const smoe_inspection *r, smoe_frame *frame, smoe_err *err);
#define FRAME(name, needs, per, ...) smoe_fill_##per smoe_fill_##name;
#include "inspect/inspect.def"
