/* GELU: with the normal distribution function itself, with its tanh approximation, or with the
 * logistic function of 1.702 x in its place, as the first CLIP models have it ("quick"). */
#pragma once

typedef enum smoe_gelu { SMOE_GELU_ERF, SMOE_GELU_TANH, SMOE_GELU_QUICK } smoe_gelu;
#define SMOE_GELU_QUICK_FACTOR 1.702

/* What is done with the results x of a product before they are written in BF16. GELU is applied to
 * the values rounded to BF16, in the forward and in the backward pass. */
typedef enum smoe_gelu_work {
    SMOE_GELU_NONE,
    SMOE_GELU_FORWARD, /* hidden, not NULL, = x; active = gelu(x); no other result */
    SMOE_GELU_BACKWARD /* x is the gradient of gelu(hidden): the result is x gelu'(hidden), and
                          active = gelu(hidden) */
} smoe_gelu_work;
