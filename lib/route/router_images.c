/*
 * Images Choice: one choice for a whole image (Mobile V-MoEs, arXiv 2309.04354). The gate sees the
 * mean of the image's tokens, and all of them go to the experts it chooses. Everything else is
 * Tokens Choice with images for tokens: a buffer holds round(K images C / E) whole images.
 */
#include "route/tokens.h"

static int init(smoe_router *r, smoe_err *err) {
    ((smoe_tokens *)r)->gate.unit = r->image_tokens;
    return smoe_tokens_init(r, err);
}

/* The gate has one row per image. */
static smoe_router_cost cost(const smoe_router *r, const smoe_cost_options *options) {
    smoe_router_cost x = smoe_tokens_cost(r, options);
    x.logits /= (double)r->image_tokens;
    return x;
}

const smoe_router_type smoe_router_images_choice = {
    .size = sizeof(smoe_tokens),
    .init = init,
    .reserve = smoe_tokens_reserve,
    .cost = cost,
    .forward = smoe_tokens_forward,
    .backward = smoe_tokens_backward,
    .settle = smoe_tokens_settle,
};
