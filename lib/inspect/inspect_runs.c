/*
 * Tables about runs as a whole: what was inspected, the means of each layer (route/plan.h says what
 * the numbers are), and what training recorded.
 */
#include "inspect/inspect_view.h"
#include "spec/routers.h"

/* ---- runs ------------------------------------------------------------------------------------ */

int smoe_fill_runs(const smoe_inspection *r, smoe_frame *frame, smoe_err *err) {
    (void)err;
    const smoe_inspect_subject *s = &r->subject;
    const smoe_moe_spec *moe = &s->spec->model.moe;
    double slots = (double)smoe_inspect_slots_per_expert(r, 0); /* NAN if layers differ */
    for (size_t l = 1; l < r->layers; l++)
        if (smoe_inspect_slots(r, l) != smoe_inspect_slots(r, 0)) slots = NAN;
    smoe_frame_put(frame, {"run", .text = s->run}, {"checkpoint", .text = s->checkpoint},
                   {"split", .text = s->spec->eval.split}, {"router", .text = moe->router},
                   {"images", .number = r->images}, {"classes", .number = r->N},
                   {"loss", .number = r->eval.loss},
                   {smoe_metric_name(SMOE_METRIC_PRECISION), .number = r->eval.precision_at_1},
                   {"image_tokens", .number = r->T}, {"side", .number = r->side},
                   {"class_token", .number = s->spec->model.head == SMOE_HEAD_TOKEN},
                   {"layers", .number = r->layers}, {"experts", .number = r->E},
                   {"slots_per_expert", .number = slots},
                   {"group_images",
                    .number = (double)(r->layers ? smoe_moe_shape_of(moe, 0, r->T).images : 1)},
                   {"parameters", .number = (double)smoe_model_params(s->model)->total});
    return 0;
}

/* ---- means of a layer ------------------------------------------------------------------------ */

/* Numbers of a plan, and their sums, weighted by the tokens of each plan. */
static const smoe_metric parts[] = {SMOE_METRIC_DISPATCH_MAX, SMOE_METRIC_COMBINE_MAX,
                                    SMOE_METRIC_TOKENS_PER_SLOT, SMOE_METRIC_SLOTS_PER_TOKEN,
                                    SMOE_METRIC_DROPPED};
enum { PARTS = SMOE_COUNT(parts) };
typedef struct means {
    smoe_exact sum[PARTS];
    uint64_t tokens, mixed; /* all, and those of plans that fill a slot */
} means;

static void means_open(void *state, smoe_inspection *r, size_t l) {
    (void)l;
    means *m = state;
    smoe_inspect_exact(r, m->sum, PARTS);
    smoe_inspect_counts(r, &m->tokens, 1);
    smoe_inspect_counts(r, &m->mixed, 1);
}

static void add_plan(means *m, const smoe_plan *plan) {
    smoe_plan_stats s;
    smoe_plan_measure(plan, &s);
    const double value[PARTS] = {s.dispatch_max, s.combine_max, s.tokens_per_slot,
                                 s.slots_per_token, s.dropped};
    for (size_t k = 0; k < PARTS; k++)
        smoe_exact_add(&m->sum[k], smoe_exact_of((double)plan->tokens * value[k]));
    m->tokens += plan->tokens;
    if (!plan->sparse || plan->list.placed) m->mixed += plan->tokens;
}

/* Dense plans image by image, so that it does not matter how images are batched. */
static void means_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    if (!view->disp) return;
    smoe_plan one = {.G = 1,
                     .T = r->T,
                     .E = r->E,
                     .P = smoe_inspect_slots_per_expert(r, view->layer),
                     .S = smoe_inspect_slots(r, view->layer),
                     .tokens = r->T,
                     .dense.disp = (real *)view->disp,
                     .dense.comb = (real *)view->comb};
    add_plan(state, &one);
}

static void means_batch(void *state, const smoe_inspection *r, const smoe_plan *plan) {
    (void)r;
    if (plan->sparse) add_plan(state, plan);
}

const smoe_counter smoe_counter_means = {
    .size = sizeof(means), .open = means_open, .image = means_image, .batch = means_batch};

void smoe_fill_routing(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const means *m = smoe_inspect_state(r, &smoe_counter_means, l);
    double scale = smoe_plan_scale(&smoe_model_router(r->subject.model, l)->plan);
    smoe_frame_cells(frame, {"run", .text = r->subject.run},
                     {"block", .number = smoe_inspect_block(r, l)});
    for (size_t k = 0; k < PARTS; k++) {
        /* a plan that fills no slot has no part in the means of numbers of slots */
        bool slots =
            parts[k] == SMOE_METRIC_DISPATCH_MAX || parts[k] == SMOE_METRIC_TOKENS_PER_SLOT;
        double tokens = (double)(slots ? m->mixed : m->tokens);
        smoe_cell_number(frame, smoe_metric_name(parts[k]),
                         tokens > 0 ? smoe_exact_value(m->sum[k]) / tokens : 0);
    }
    smoe_frame_put(frame,
                   {smoe_metric_name(SMOE_METRIC_SCALE), .number = scale != 0 ? scale : NAN});
}

/* ---- over training --------------------------------------------------------------------------- */

/* Whether a metric of the whole model is one of the layers' numbers, whose curve would be drawn
 * twice. */
static bool metric_is_of_layers(smoe_metric metric) {
    bool found = false;
    for (size_t m = 0; m < SMOE_METRICS && !found; m++)
        found = smoe_metrics[m].scope == SMOE_OF_LAYER && smoe_metrics[m].name &&
                !strcmp(smoe_metric_name((smoe_metric)m), smoe_metric_name(metric));
    return found;
}

/* The metrics of a layer, and those of the whole model that are also in the results of sweeps.
 * Records of training and of evaluations have the same names for metrics of a layer; those of an
 * evaluation become test/NAME. */
static void add_record(const smoe_inspection *inspection, smoe_frame *frame,
                       const smoe_records *record) {
    smoe_metric_place at;
    char prefix[SMOE_RECORD_PREFIX];
    const char *key;
    json_t *value;
    smoe_record_prefix(record->json, prefix);
    json_object_foreach(record->json, key, value) {
        char name[128];
        if (!json_is_number(value) || !smoe_metric_read(&at, key)) continue;
        bool layer = smoe_metrics[at.metric].scope == SMOE_OF_LAYER;
        if (!layer && (!smoe_metrics[at.metric].column || metric_is_of_layers(at.metric))) continue;
        double block = layer ? (double)at.number : NAN;
        snprintf(name, sizeof name, "%s%s", layer ? prefix : "",
                 layer ? smoe_metric_name(at.metric) : key);
        smoe_frame_put(frame, {"run", .text = inspection->subject.run},
                       {"step", .number = record->step}, {"block", .number = block},
                       {"metric", .text = name}, {"value", .number = json_number_value(value)});
    }
}

int smoe_fill_over_steps(const smoe_inspection *inspection, smoe_frame *frame, smoe_err *err) {
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = inspection->subject.metrics};
    int more = 0;
    while (r.path && (more = smoe_records_next(&r, err)) > 0) add_record(inspection, frame, &r);
    return more;
}
