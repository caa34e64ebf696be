/* One training step; see step.h. */
#include "train/step.h"
#include "spec/routers.h"
#include "spec/tasks.h"
#include "store/run.h"
#include "train/optim.h"
#include "train/task.h"

/* What is summed in addition to gradients: these, the counts of routers for their states, and, if
 * the step is measured, the statistics of the layers. */
enum { LOSS, CORRECT, AUX, Z, COUNTS, OF_LAYER = sizeof(smoe_plan_stats) / sizeof(double) };

static size_t stats_at(const smoe_params *params) {
    return COUNTS + smoe_params_counted(params);
}

static size_t sums_count(const smoe_step *s) {
    return stats_at(smoe_model_params(s->model)) + OF_LAYER * smoe_model_moe_layers(s->model);
}

/* Sums over the whole batch that the routers cannot make by themselves. */
static size_t router_sums_count(const smoe_model *model, size_t pieces) {
    return pieces > 1 ? smoe_model_summed(model) : 0;
}

int smoe_step_again(const smoe_model *model, const smoe_train_spec *train) {
    return (router_sums_count(model, train->pieces) > 0) +
           (train->pieces > 1 && smoe_task_pairs(train->loss));
}

/* Units of what the processes share; of all gradients, where experts are not sharded. */
static size_t shared_units(const smoe_params *params) {
    return (params->shared + SMOE_OPTIM_UNIT - 1) / SMOE_OPTIM_UNIT;
}

static size_t all_units(const smoe_step *s) {
    return s->processes.experts ? smoe_sharded_gradients_units(&s->processes.sharded)
                                : shared_units(smoe_model_params(s->model));
}

static void step_allocate(smoe_step *s) {
    size_t layers = smoe_model_moe_layers(s->model), rows = s->pairs ? s->N : s->images;
    size_t B = s->spec->train.batch_size, D = smoe_model_width(s->model);
    s->dlogits = smoe_alloc_in(&s->memory, rows * s->N, sizeof *s->dlogits);
    s->losses = smoe_alloc_in(&s->memory, rows, sizeof *s->losses);
    s->sums = smoe_alloc_in(&s->memory, s->pieces * sums_count(s), sizeof *s->sums);
    s->stats = smoe_alloc_in(&s->memory, layers, sizeof *s->stats);
    s->router_sums =
        smoe_alloc_in(&s->memory, s->pieces * router_sums_count(s->model, s->spec->train.pieces),
                      sizeof *s->router_sums);
    if (s->pairs) s->of_pairs.target = smoe_alloc_in(&s->memory, B * B, sizeof *s->of_pairs.target);
    for (size_t b = 0; s->pairs && b < B; b++) s->of_pairs.target[b * B + b] = 1;
    for (int k = 0; s->pairs && k < 2; k++)
        s->of_pairs.embedded[k] = smoe_alloc_in(&s->memory, B * D, sizeof(real));
    if (s->comm->size == 1) return;
    s->processes.block = smoe_alloc_in(&s->memory, SMOE_COMM_BLOCK, sizeof *s->processes.block);
    s->processes.squares = smoe_alloc_in(&s->memory, all_units(s), sizeof *s->processes.squares);
}

int smoe_step_open(smoe_step *s, smoe_model *model, const smoe_spec *spec, size_t classes,
                   smoe_comm *comm, smoe_err *err) {
    size_t G = spec->train.pieces;
    smoe_params *params = smoe_model_params(model);
    *s = (smoe_step){.model = model,
                     .spec = spec,
                     .pairs = smoe_task_pairs(spec->train.loss),
                     .alone = smoe_comm_alone};
    s->N = s->pairs ? spec->train.batch_size : classes;
    s->comm = comm ? comm : &s->alone;
    if (!smoe_comm_divides(s->comm, G))
        return smoe_fail(err, SMOE_USAGE,
                         "train.pieces: %zu piece%s cannot be shared by %d processes: the number "
                         "of processes must divide the number of pieces",
                         G, SMOE_S(G), s->comm->size);
    s->pieces = G / (size_t)s->comm->size;
    s->images = spec->train.batch_size / G;
    smoe_model_shard(model, s->comm, spec->train.experts_over, s->pieces);
    s->processes.experts = smoe_model_expert_parallel(model);
    if (s->processes.experts)
        smoe_sharded_gradients_open(&s->processes.sharded, params, s->processes.experts, s->comm);
    smoe_sharded_state_open(&s->processes.state, params, s->comm,
                            s->processes.experts ? (size_t)s->processes.experts->block.size : 1,
                            smoe_optim_shards(&spec->train));
    if (s->comm->size > 1) params->reader = &s->processes.state.reader;
    step_allocate(s);
    if (smoe_optim_allocate(params, &spec->train, err)) return -1;
    if (s->processes.experts && smoe_expert_parallel_allocate(s->processes.experts, params, err))
        return -1;
    if (smoe_grad_accum_open(&s->tree, params, s->pieces, err)) return -1;
    return smoe_model_reserve(model, s->images, true, err);
}

void smoe_step_free(smoe_step *s) {
    smoe_grad_accum_free(&s->tree);
    smoe_sharded_gradients_free(&s->processes.sharded);
    smoe_alloc_pool_free(&s->memory);
    *s = (smoe_step){0};
}

/* The first parameter that is no longer finite; else the one of `layer` with the largest weight. */
static const char *param_suspect(const smoe_params *params, const char *layer) {
    const char *name = "none";
    double largest = -1;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        bool here = !strncmp(p->name, layer, strlen(layer));
        for (size_t j = 0; j < p->size; j++) {
            double w = fabs((double)params->w[p->offset + j]);
            if (!isfinite(w)) return p->name;
            if (here && w > largest) {
                largest = w;
                name = p->name;
            }
        }
    }
    return name;
}

/* The first parameter whose gradient is not finite, or NULL; of parameters that are not sharded,
 * only elements of the range of this process are looked at. */
static const char *bad_gradient(const smoe_step *s, const smoe_params *params) {
    enum { UNIT = SMOE_OPTIM_UNIT };
    size_t first, end;
    smoe_optim_range(params, s->comm->rank, s->comm->size, &first, &end);
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        bool whole = s->comm->size == 1 || p->offset >= params->shared; /* the sum is here */
        size_t at = p->offset, to = at + p->size;
        if (p->frozen) continue;
        if (whole && !isfinite(smoe_optim_square(params, i, i + 1))) return p->name;
        if (at < first) at = first;
        if (to > end) to = end;
        for (size_t n; !whole && at < to; at += n) {
            n = to - at < UNIT ? to - at : UNIT;
            real *room = smoe_thread_room(SMOE_ROOM_GRADIENTS, UNIT * sizeof *room);
            const real *g = smoe_optim_gradients(params, at, n, room);
            if (!isfinite(smoe_optim_unit_square(g, n))) return p->name;
        }
    }
    return NULL;
}

/* All processes learn that something is not finite; those that know the place name it. */
static int step_check(const smoe_step *s, const smoe_pass *pass, smoe_err *err) {
    const smoe_params *params = smoe_model_params(s->model);
    unsigned long long number = (unsigned long long)pass->step + 1;
    double loss = s->last.loss + s->last.aux + s->last.z;
    if (s->unchecked || (isfinite(loss) && isfinite(s->last.norm))) return 0;
    int status = 0;
    if (isfinite(loss)) {
        const char *name = bad_gradient(s, params);
        if (name)
            status = smoe_fail(err, SMOE_NONFINITE,
                               "step %llu: the gradient is not finite: parameter %s", number, name);
    } else if (*s->bad) {
        /* A NaN is printed without its sign. */
        status = smoe_fail(
            err, SMOE_NONFINITE,
            "step %llu: the loss is %g: first non-finite values in layer %s, parameter %s", number,
            fabs(loss), s->bad, param_suspect(params, s->bad));
    }
    if (smoe_comm_agree(s->comm, status, NULL, err)) return -1;
    return smoe_fail(err, SMOE_NONFINITE, "step %llu: the %s is not finite", number,
                     isfinite(loss) ? "norm of the gradient" : "loss");
}

/* The place in the whole batch of piece i of those here. */
static size_t piece_place(const smoe_step *s, size_t i) {
    return ((size_t)s->comm->rank * s->pieces + i) * s->images;
}

/* Logits of piece i, or embeddings. */
static void piece_forward(const smoe_step *s, const smoe_batch *batch, size_t i, smoe_pass *pass) {
    size_t side = s->spec->data.image_size, first = i * s->images;
    const real *pixels = batch->pixels + first * s->spec->data.channels * side * side;
    pass->first = piece_place(s, i);
    if (s->pairs)
        smoe_model_embed_pairs(s->model,
                               &(smoe_inputs){pixels, batch->tokens + first * s->spec->text.context,
                                              batch->lengths + first},
                               pass);
    else
        smoe_model_forward(s->model, pixels, pass);
}

/* The loss of B images of the batch with these logits [B,N], to `sums`, and its gradient. */
static void step_loss(smoe_step *s, double *sums, const real *logits, const real *target,
                      size_t B) {
    const smoe_train_spec *train = &s->spec->train;
    const smoe_task_batch batch = {.logits = logits,
                                   .target = target,
                                   .B = B,
                                   .N = s->N,
                                   .whole = train->batch_size,
                                   .smoothing = train->label_smoothing};
    smoe_task_sums task = {0};
    smoe_task_measure(smoe_task_of(train->loss), &task, s->dlogits, s->losses, &batch);
    sums[LOSS] = task.loss;
    sums[CORRECT] = (double)task.correct;
}

/* The loss of a task that compares all images of the batch with all captions: every piece is
 * embedded, and every process compares everything. The gradient of the scale and the loss count in
 * the first piece. */
static void compare_batch(smoe_step *s, const smoe_batch *batch, smoe_pass *pass) {
    size_t B = s->N, D = smoe_model_width(s->model), rows = s->images * D;
    bool chief = s->comm->rank == 0;
    for (int k = 0; k < 2; k++) memset(s->of_pairs.embedded[k], 0, B * D * sizeof(real));
    for (size_t i = 0; i < s->pieces; i++) {
        piece_forward(s, batch, i, pass);
        const real *out[] = {smoe_model_logits(s->model), smoe_model_texts(s->model)};
        for (int k = 0; k < 2; k++)
            memcpy(s->of_pairs.embedded[k] + piece_place(s, i) * D, out[k], rows * sizeof(real));
        s->sums[i * sums_count(s) + LOSS] = s->sums[i * sums_count(s) + CORRECT] = 0;
    }
    for (int k = 0; k < 2; k++)
        smoe_comm_join(s->comm, s->of_pairs.embedded[k], B * D * sizeof(real));
    const real *logits =
        smoe_model_compare(s->model, s->of_pairs.embedded[0], s->of_pairs.embedded[1], B);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
    step_loss(s, s->sums, logits, s->of_pairs.target, B);
    if (!chief) s->sums[LOSS] = s->sums[CORRECT] = 0;
    smoe_clock_lap(pass->clock, SMOE_PART_loss);
    smoe_model_compare_backward(s->model, s->dlogits, B, chief);
    smoe_clock_lap(pass->clock, SMOE_PART_head);
}

/* Forward, loss and backward of piece i of those here; of pairs there is a loss already, and of a
 * single piece what a backward pass needs. */
static void piece_run(smoe_step *s, const smoe_batch *batch, size_t i, smoe_pass *pass) {
    double *sums = s->sums + i * sums_count(s);
    pass->targets = s->pairs ? NULL : batch->target + i * s->images * s->N;
    pass->classes = s->N;
    if (!s->pairs || s->pieces > 1) piece_forward(s, batch, i, pass);
    if (!s->pairs) step_loss(s, sums, smoe_model_logits(s->model), pass->targets, pass->images);
    sums[AUX] = smoe_model_losses(s->model).aux;
    sums[Z] = smoe_model_losses(s->model).z;
    smoe_model_counts(s->model, sums + COUNTS);
    if (!s->unchecked && !*s->bad && !isfinite(sums[LOSS] + sums[AUX] + sums[Z]))
        smoe_model_nonfinite(s->model, pass, s->bad, sizeof s->bad);
    smoe_clock_lap(pass->clock, SMOE_PART_loss);
    smoe_model_backward(s->model, s->dlogits, pass);
    bool routes = s->measure && smoe_model_routes(s->model);
    for (size_t k = 0; routes && k < smoe_model_moe_layers(s->model); k++) {
        smoe_plan_stats stats;
        smoe_plan_measure(&smoe_model_router(s->model, k)->plan, &stats);
        memcpy(sums + stats_at(smoe_model_params(s->model)) + k * OF_LAYER, &stats, sizeof stats);
    }
}

/* Sums the other values, besides gradients, over all pieces. */
static void step_conclude(smoe_step *s, size_t whole) {
    size_t n = sums_count(s), stats = stats_at(smoe_model_params(s->model));
    smoe_grad_accum_sum(s->sums, s->pieces, n);
    smoe_comm_sum(s->comm, s->sums, s->measure ? n : stats);
    s->last.loss = s->sums[LOSS] / (double)whole;
    s->last.precision = s->sums[CORRECT] / (double)whole;
    s->last.aux = s->sums[AUX];
    s->last.z = s->sums[Z];
    if (!s->measure) return;
    double G = (double)s->spec->train.pieces;
    for (size_t i = stats; i < n; i++) s->sums[i] /= G;
    memcpy(s->stats, s->sums + stats, (n - stats) * sizeof *s->sums);
}

/* The norm of the gradient of all processes. */
static double shared_norm(smoe_step *s, smoe_params *params) {
    size_t n = shared_units(params), first, end;
    double total = 0;
    smoe_comm_range(s->comm, n, &first, &end);
    smoe_sharded_gradients_shared(params, s->comm, s->processes.block);
    if (s->processes.experts) {
        smoe_sharded_gradients_sum(&s->processes.sharded, s->processes.block);
        smoe_sharded_gradients_squares(&s->processes.sharded, s->processes.squares);
    } else {
        smoe_optim_unit_squares(s->processes.squares + first, params, first, end);
        smoe_comm_gather(s->comm, s->processes.squares, n * sizeof *s->processes.squares,
                         sizeof *s->processes.squares, SMOE_TRAFFIC_OTHER);
    }
    for (size_t i = 0; i < all_units(s); i++) total += s->processes.squares[i];
    return sqrt(total);
}

/* Every process updates its range, and receives the weights of the others; if the update cannot be
 * sharded, it receives all gradients and updates everything. */
static void step_update(smoe_step *s, smoe_params *params, uint64_t updates) {
    size_t first, end;
    smoe_optim_range(params, s->comm->rank, s->comm->size, &first, &end);
    if (s->comm->size > 1 && !smoe_optim_shards(&s->spec->train)) {
        smoe_comm_gather(s->comm, params->g, params->shared * sizeof(real),
                         SMOE_OPTIM_UNIT * sizeof(real), SMOE_TRAFFIC_GRADIENTS);
        smoe_optim_step(params, &s->spec->train, updates, s->last.norm);
        return;
    }
    smoe_optim_step_range(params, &s->spec->train, updates, s->last.norm, first, end);
    if (s->comm->size == 1) return;
    if (s->processes.experts) /* every process has all of the gradients of its experts */
        smoe_optim_step_range(params, &s->spec->train, updates, s->last.norm, params->shared,
                              params->trained);
    smoe_comm_gather(s->comm, params->w, params->shared * sizeof(real),
                     SMOE_OPTIM_UNIT * sizeof(real), SMOE_TRAFFIC_WEIGHTS);
    smoe_grad_accum_clear(params); /* the update has cleared its range only */
}

/* Losses over the whole batch need sums over all its tokens before the first backward pass: if it
 * has several pieces, each of them runs forward once more. */
static void router_sums_batch(smoe_step *s, const smoe_batch *batch, smoe_pass *pass) {
    size_t n = router_sums_count(s->model, s->spec->train.pieces);
    if (!n) return;
    for (size_t i = 0; i < s->pieces; i++) {
        piece_forward(s, batch, i, pass);
        smoe_model_sums(s->model, s->router_sums + i * n, false);
    }
    smoe_grad_accum_sum(s->router_sums, s->pieces, n);
    smoe_comm_sum(s->comm, s->router_sums, n);
    smoe_model_sums(s->model, s->router_sums, true);
    pass->summed = true;
}

int smoe_step_run(smoe_step *s, const smoe_batch *batch, uint64_t done, uint64_t updates,
                  smoe_clock *clock, smoe_err *err) {
    smoe_params *params = smoe_model_params(s->model);
    size_t whole = s->spec->train.batch_size;
    smoe_pass pass = {.train = true,
                      .seed = s->spec->seed,
                      .step = done,
                      .images = s->images,
                      .whole = whole,
                      .clock = clock};
    s->bad[0] = '\0';
    router_sums_batch(s, batch, &pass);
    if (s->pairs) compare_batch(s, batch, &pass);
    for (size_t i = 0; i < s->pieces; i++) {
        piece_run(s, batch, i, &pass);
        smoe_grad_accum_add(&s->tree, params, i);
    }
    step_conclude(s, whole);
    s->last.norm = s->comm->size > 1 ? shared_norm(s, params) : smoe_optim_norm(params);
    if (step_check(s, &pass, err)) return -1;
    step_update(s, params, updates);
    smoe_model_settle(s->model, s->sums + COUNTS, &pass);
    smoe_model_bound(s->model);
    if (params->average) smoe_optim_average(params, s->spec->train.ema, updates);
    smoe_clock_lap(clock, SMOE_PART_optimizer);
    return 0;
}

void smoe_step_expect(smoe_model *model, const smoe_train_spec *train, smoe_comm *comm) {
    smoe_params *params = smoe_model_params(model);
    const smoe_expert_parallel *experts = smoe_model_expert_parallel(model);
    size_t bytes = params->shared * sizeof(real), sums = router_sums_count(model, train->pieces);
    bool shards = smoe_optim_shards(train);
    for (int i = 0; i < 2; i++) (void)smoe_comm_agree(comm, 0, NULL, NULL);
    smoe_comm_sum(comm, NULL, stats_at(params));
    smoe_comm_sum(comm, NULL, sums);
    for (int k = 0; k < 2 && smoe_task_pairs(train->loss); k++)
        smoe_comm_join(comm, NULL, train->batch_size * smoe_model_width(model) * sizeof(real));
    smoe_sharded_gradients_shared(params, comm, NULL);
    smoe_comm_gather(comm, NULL, bytes, SMOE_OPTIM_UNIT * sizeof(real),
                     shards ? SMOE_TRAFFIC_WEIGHTS : SMOE_TRAFFIC_GRADIENTS);
    if (!experts) {
        smoe_comm_gather(comm, NULL, shared_units(params) * sizeof(double), sizeof(double),
                         SMOE_TRAFFIC_OTHER);
        return;
    }
    smoe_sharded_gradients parts;
    smoe_sharded_gradients_open(&parts, params, experts, comm);
    smoe_sharded_gradients_sum(&parts, NULL);
    smoe_sharded_gradients_squares(&parts, NULL);
    smoe_sharded_gradients_free(&parts);
    smoe_model_expect(model, sums ? 2 : 1, &comm->sent[SMOE_TRAFFIC_SLOTS]);
}

/* ---- the record of a step -------------------------------------------------------------------- */

static void metric_set(json_t *r, smoe_metric metric, double value) {
    smoe_run_metric(r, metric, NULL, 0, value);
}

static void add_router_metrics(const smoe_step *s, json_t *r) {
    for (size_t i = 0; smoe_model_routes(s->model) && i < smoe_model_moe_layers(s->model); i++) {
        const smoe_plan *plan = &smoe_model_router(s->model, i)->plan;
        const smoe_plan_stats stats = s->stats[i];
        const struct {
            smoe_metric metric;
            double value;
            bool wanted;
        } statistic[] = {
            {SMOE_METRIC_DISPATCH_MAX, stats.dispatch_max, !plan->sparse},
            {SMOE_METRIC_COMBINE_MAX, stats.combine_max, !plan->sparse},
            {SMOE_METRIC_TOKENS_PER_SLOT, stats.tokens_per_slot, !plan->sparse},
            {SMOE_METRIC_SLOTS_PER_TOKEN, stats.slots_per_token, !plan->sparse},
            {SMOE_METRIC_SCALE, stats.scale, stats.scale != 0},
            {SMOE_METRIC_DROPPED, stats.dropped, plan->sparse},
        };
        size_t block = smoe_model_moe_block(s->model, i);
        for (size_t k = 0; k < SMOE_COUNT(statistic); k++)
            if (statistic[k].wanted)
                smoe_run_metric(r, statistic[k].metric, NULL, block, statistic[k].value);
    }
}

/* Whether there is an auxiliary loss; it may be 0. */
static bool step_balances(const smoe_step *s) {
    const smoe_router_entry *router = smoe_router_find(s->spec->model.moe.router);
    return smoe_model_routes(s->model) && smoe_router_counts_experts(router) &&
           (s->spec->model.moe.balance.way == SMOE_BALANCE_LOSS ||
            s->spec->model.moe.balance.way == SMOE_BALANCE_SUPERCLASS ||
            router->family == SMOE_FAMILY_THRESHOLD);
}

static bool has_z_loss(const smoe_step *s) {
    const smoe_moe_spec *moe = &s->spec->model.moe;
    return smoe_model_routes(s->model) && moe->balance.z_weight > 0 &&
           smoe_router_heeds(smoe_router_find(moe->router), "z_weight");
}

void smoe_step_record(json_t *r, const smoe_step *s, double rate, double images_per_s,
                      double waited_s) {
    metric_set(r, SMOE_METRIC_TRAIN_LOSS, s->last.loss);
    metric_set(r, SMOE_METRIC_TRAIN_PRECISION, s->last.precision);
    metric_set(r, SMOE_METRIC_LR, rate);
    metric_set(r, SMOE_METRIC_GRADIENT_NORM, s->last.norm);
    metric_set(r, SMOE_METRIC_IMAGES_PER_S, images_per_s);
    metric_set(r, SMOE_METRIC_WAITED_S, waited_s);
    if (step_balances(s)) metric_set(r, SMOE_METRIC_AUX_LOSS, s->last.aux);
    if (has_z_loss(s)) metric_set(r, SMOE_METRIC_Z_LOSS, s->last.z);
    add_router_metrics(s, r);
}
