/* A model with fewer experts; see prune.h. */
#include "train/prune.h"
#include "base/json.h"
#include "spec/routers.h"

/* The text of a spec without its list of super-classes, which names experts that are removed. */
static char *prune_unlisted(const char *text) {
    json_auto_t *spec = json_loads(text, 0, NULL);
    if (spec) smoe_json_put(spec, "model.moe.superclasses", '.', json_string("consecutive"));
    return spec ? smoe_json_dump(spec, 0) : smoe_alloc_text(text);
}

/* Fresh override by which `experts` experts have as many slots each as before; if layers differ, by
 * the list of their capacities, P E / T. */
static char *prune_slots(const smoe_spec *from, size_t experts) {
    const smoe_moe_spec *moe = &from->model.moe;
    size_t T = smoe_spec_tokens(from), first = 0;
    SMOE_FREED char *list = NULL;
    bool differ = false;
    for (size_t i = 0; i < from->model.depth; i++) {
        if (!moe->is_moe[i]) continue;
        size_t P = smoe_moe_slots_per_expert(moe, i, T);
        smoe_text_add(&list, "%s%.17g", first ? ", " : "", (double)(P * experts) / (double)T);
        if (!first) first = P;
        differ |= P != first;
    }
    return differ ? smoe_text_format("model.moe.capacity=[%s]", list)
                  : smoe_text_format("model.moe.slots_per_expert=%zu", first);
}

static int prune_check(const smoe_spec *from, size_t experts, smoe_err *err) {
    const smoe_model_spec *model = &from->model;
    const smoe_moe_spec *moe = &model->moe;
    const smoe_router_entry *router = smoe_router_find(moe->router);
    if (!moe->layer_count) return smoe_fail(err, SMOE_USAGE, "--experts: the model has no experts");
    if (experts > moe->experts)
        return smoe_fail(err, SMOE_USAGE, "--experts %zu: the model has %zu experts", experts,
                         moe->experts);
    size_t blocks = experts && smoe_router_counts_experts(router) ? model->depth : 0;
    for (size_t i = 0; i < blocks; i++)
        if (moe->is_moe[i] && smoe_moe_k(moe, i) > experts)
            return smoe_fail(err, SMOE_USAGE,
                             "--experts %zu: a token of the model chooses %zu experts: keep at "
                             "least as many",
                             experts, smoe_moe_k(moe, i));
    if (moe->expert.universal || (!experts && moe->expert.shared))
        return smoe_fail(err, SMOE_USAGE,
                         "--experts: the model has %s experts, which cannot be removed",
                         moe->expert.universal ? "universal" : "shared");
    if (!experts && smoe_moe_hidden(model) != model->mlp && moe->layer_count < model->depth)
        return smoe_fail(err, SMOE_USAGE,
                         "--experts mean: the experts are %zu wide and the MLPs of other blocks "
                         "%zu: in a dense model all have one width",
                         smoe_moe_hidden(model), model->mlp);
    size_t T = smoe_spec_tokens(from), P = smoe_moe_slots_per_expert(moe, 0, T);
    if (router->family == SMOE_FAMILY_FIXED && experts && P * experts < T)
        return smoe_fail(err, SMOE_USAGE,
                         "--experts %zu: router %s binds each token to a slot, and these experts "
                         "have %zu slots for %zu tokens",
                         experts, moe->router, P * experts, T);
    return 0;
}

int smoe_prune_spec(smoe_spec *to, const smoe_spec *from, const char *text, size_t experts,
                    smoe_err *err) {
    const smoe_moe_spec *moe = &from->model.moe;
    char fewer[64], width[64];
    if (prune_check(from, experts, err)) return -1;
    SMOE_FREED char *slots = prune_slots(from, experts);
    char *prune[] = {fewer, slots}, *mean[] = {"model.moe.layers=none", width};
    snprintf(fewer, sizeof fewer, "model.moe.experts=%zu", experts);
    snprintf(width, sizeof width, "model.mlp=%zu", smoe_moe_hidden(&from->model));
    bool heeds = smoe_router_heeds(smoe_router_find(moe->router), "slots_per_expert");
    SMOE_FREED char *unlisted = moe->balance.superclasses.count ? prune_unlisted(text) : NULL;
    if (unlisted) text = unlisted;
    smoe_spec_text own = {.text = text, .label = "the pruned model", .trained = true};
    return smoe_spec_parse(to, &own, experts ? prune : mean, experts && !heeds ? 1 : 2, err);
}

/* ---- which experts --------------------------------------------------------------------------- */

static void prune_watch(void *user, size_t layer, const smoe_router *router) {
    const smoe_plan *plan = &router->plan;
    double *share = ((smoe_pruned *)user)->share + layer * plan->E;
    size_t buffers = plan->G * plan->S;
    for (size_t i = 0; plan->sparse && i < plan->list.placed; i++)
        share[plan->list.slot[i] % plan->S / plan->P] +=
            fabs((double)plan->list.slot_weight[plan->list.slot[i]]);
    for (size_t i = 0; !plan->sparse && i < buffers * plan->T; i++)
        share[i % plan->S / plan->P] += (double)plan->dense.comb[i];
}

static void prune_choose(smoe_pruned *p, size_t layer) {
    double *share = p->share + layer * p->before, sum = 0;
    size_t *kept = p->kept + layer * p->experts, count = 0;
    for (size_t e = 0; e < p->before; e++) sum += share[e];
    for (size_t e = 0; e < p->before; e++)
        share[e] = sum > 0 ? share[e] / sum : 1 / (double)p->before;
    for (size_t e = 0; e < p->before; e++) {
        size_t better = 0;
        for (size_t o = 0; o < p->before; o++)
            better += share[o] > share[e] || (share[o] == share[e] && o < e);
        if (better < p->experts) kept[count++] = e;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The layer of a tensor blocks.I.*; 0 for other tensors. */
static size_t prune_layer(const smoe_model *from, const char *name) {
    size_t block = 0, layer = 0;
    if (sscanf(name, "blocks.%zu.", &block) == 1)
        while (layer < smoe_model_moe_layers(from) && smoe_model_moe_block(from, layer) != block)
            layer++;
    return layer < smoe_model_moe_layers(from) ? layer : 0;
}

static bool prune_fits(const smoe_param *to, const smoe_tensor *from, int but) {
    if (to->ndim != from->ndim) return false;
    for (int i = 0; i < to->ndim; i++)
        if (i != but && to->dim[i] != from->dim[i]) return false;
    return true;
}

/* The kept experts along the axis that has the experts; other tensors are copied. */
static bool prune_pick(real *w, const smoe_param *to, const smoe_tensor *from, const smoe_pruned *p,
                       size_t layer) {
    if (prune_fits(to, from, -1)) return smoe_tensor_convert(w, from, 0, to->whole);
    int axis = 0;
    while (axis < to->ndim && to->dim[axis] == from->dim[axis]) axis++;
    if (!prune_fits(to, from, axis) || from->dim[axis] != p->before || to->dim[axis] != p->experts)
        return false;
    const size_t *kept = p->kept + layer * p->experts;
    size_t outer = 1, inner = 1;
    for (int i = 0; i < axis; i++) outer *= to->dim[i];
    for (int i = axis + 1; i < to->ndim; i++) inner *= to->dim[i];
    for (size_t o = 0; o < outer; o++)
        for (size_t k = 0; k < p->experts; k++)
            if (!smoe_tensor_convert(w + (o * p->experts + k) * inner, from,
                                     (o * p->before + kept[k]) * inner, inner))
                return false;
    return true;
}

/* blocks.I.mlp.REST: the mean of blocks.I.mlp.experts.REST, weighted by the shares. */
static bool prune_average(real *w, const smoe_param *to, const smoe_safetensors *file,
                          const smoe_pruned *p, size_t layer) {
    enum { RUN = 4096 };
    const double *share = p->share + layer * p->before;
    const char *rest = strstr(to->name, ".mlp.");
    if (!rest) return false;
    SMOE_FREED char *name =
        smoe_text_format("%.*s.mlp.experts.%s", (int)(rest - to->name), to->name, rest + 5);
    const smoe_tensor *from = smoe_safetensors_find(file, name);
    bool good = from && from->ndim == to->ndim + 1 && from->size == p->before * to->whole;
    real part[RUN];
    double sum[RUN];
    for (size_t first = 0; first < to->whole && good; first += RUN) {
        size_t n = to->whole - first < RUN ? to->whole - first : RUN;
        memset(sum, 0, sizeof sum);
        for (size_t e = 0; e < p->before && good; e++) {
            good = smoe_tensor_convert(part, from, e * to->whole + first, n);
            for (size_t i = 0; i < n; i++) sum[i] += share[e] * (double)part[i];
        }
        for (size_t i = 0; i < n; i++) w[first + i] = (real)sum[i];
    }
    return good;
}

static int prune_fill(smoe_params *params, const smoe_model *from, const smoe_safetensors *file,
                      const smoe_pruned *p, smoe_err *err) {
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *to = &params->param[i];
        const smoe_tensor *tensor = smoe_safetensors_find(file, to->name);
        size_t layer = prune_layer(from, to->name);
        real *w = params->w + to->offset;
        if (tensor ? !prune_pick(w, to, tensor, p, layer) : !prune_average(w, to, file, p, layer))
            return smoe_fail(err, SMOE_USAGE,
                             "%s: tensor %s cannot be made from those of the experts: another "
                             "shape",
                             smoe_safetensors_path(file), to->name);
    }
    return 0;
}

int smoe_prune(smoe_pruned *p, smoe_model *to, size_t experts, const smoe_model_source *from,
               const smoe_likeness_images *by, smoe_err *err) {
    size_t width = smoe_model_width(from->model), images = by->images;
    *p = (smoe_pruned){.layers = smoe_model_moe_layers(from->model),
                       .before = from->spec->model.moe.experts,
                       .experts = experts};
    p->share = smoe_alloc(p->layers * p->before, sizeof *p->share);
    p->kept = smoe_alloc(p->layers * p->before, sizeof *p->kept);
    SMOE_FREED real *before = smoe_alloc(2 * images * width, sizeof *before);
    real *after = before + images * width;
    smoe_model_watch(from->model, prune_watch, p);
    int status = smoe_likeness_logits(before, from->model, from->spec, by, err);
    smoe_model_watch(from->model, NULL, NULL);
    if (status && err->code == SMOE_NONFINITE)
        smoe_fail_prefix(err, "%s", smoe_safetensors_path(from->file));
    if (status) return -1;
    for (size_t i = 0; i < p->layers; i++) prune_choose(p, i);
    if (smoe_params_allocate(smoe_model_params(to), 1, err) ||
        prune_fill(smoe_model_params(to), from->model, from->file, p, err) ||
        smoe_model_reserve(to, by->batch, false, err) ||
        smoe_likeness_logits(after, to, from->spec, by, err))
        return -1;
    p->likeness = smoe_likeness_of(before, after, images, width);
    return 0;
}

void smoe_pruned_free(smoe_pruned *p) {
    free(p->share);
    free(p->kept);
    *p = (smoe_pruned){0};
}
