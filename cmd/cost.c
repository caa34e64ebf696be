/* smoe cost: the cost of a spec, layer by layer, before anything is built; bench/cost.h describes
 * what is counted. */
#include "cmd.h"

#include <float.h>

/* "blocks.3.mlp": the number of the block, and where the rest begins; SIZE_MAX for other layers. */
static size_t cost_block_of(const smoe_cost_layer *l, const char **rest) {
    unsigned long block;
    int length = 0;
    *rest = l->name;
    if (sscanf(l->name, "blocks.%lu%n", &block, &length) != 1) return SIZE_MAX;
    *rest = l->name + length;
    return block;
}

/* The number of layers of the block that begins at layer i. */
static size_t layers_of(const smoe_cost *c, size_t i) {
    const char *rest;
    size_t block = cost_block_of(&c->layer[i], &rest), n = 0;
    while (i + n < c->layers && cost_block_of(&c->layer[i + n], &rest) == block) n++;
    return n;
}

/* Whether the n layers from i have the same costs as those from k: blocks that differ only in their
 * number. */
static bool equal_blocks(const smoe_cost *c, size_t i, size_t k, size_t n) {
    if (k + n > c->layers || layers_of(c, k) != n) return false;
    for (size_t l = 0; l < n; l++) {
        const smoe_cost_layer *a = &c->layer[i + l], *b = &c->layer[k + l];
        const char *one, *other;
        if (cost_block_of(a, &one) == SIZE_MAX || cost_block_of(b, &other) == SIZE_MAX)
            return false;
        if (strcmp(one, other) || a->params != b->params || a->flops_infer != b->flops_infer ||
            a->flops_train != b->flops_train)
            return false;
    }
    return true;
}

/* A row per layer; of consecutive blocks of equal cost the first is printed for all of them:
 * "blocks.0-5.attn". */
static void add_layers(smoe_result *result, const smoe_cost *c, unsigned where) {
    smoe_frame *frame = smoe_result_table(result, "layers", NULL);
    for (size_t i = 0, n, blocks; i < c->layers; i += blocks * n) {
        const char *rest;
        size_t block = cost_block_of(&c->layer[i], &rest);
        n = block == SIZE_MAX ? 1 : layers_of(c, i);
        for (blocks = 1; equal_blocks(c, i, i + blocks * n, n);) blocks++;
        for (size_t k = i; k < i + blocks * n; k++) {
            const smoe_cost_layer *l = &c->layer[k];
            char each[96];
            (void)cost_block_of(l, &rest);
            snprintf(each, sizeof each, "blocks.%zu-%zu%s  (each)", block, block + blocks - 1,
                     rest);
            if (where & SMOE_IN_PRINT)
                smoe_cell_text(frame, NULL, blocks > 1 ? each : l->name, .heading = "layer");
            smoe_frame_cells(frame, {"name", .text = l->name, .where = SMOE_IN_JSON},
                             {"kind", .text = smoe_parts[l->part].kind, .where = SMOE_IN_JSON},
                             {"params", .number = l->params, .heading = "parameters", .format = "",
                              .where = where},
                             {"flops_infer", .number = l->flops_infer, .heading = "inference",
                              .format = "FLOP", .where = where},
                             {"flops_train", .number = l->flops_train, .heading = "training",
                              .format = "FLOP", .where = where});
            smoe_frame_end_shown(frame, k < i + n);
        }
    }
}

static void cost_add_totals(smoe_result *result, const smoe_cost *c, const smoe_spec *spec) {
    char a[32], b[32], d[32], e[32], f[32];
    smoe_cmd_parameters(result, c);
    smoe_result_line(result, "per image",
                     "%s inference, %s training (with element-wise work; the rows count only "
                     "products)",
                     smoe_text_si(a, sizeof a, c->flops_infer_per_image, "FLOP"),
                     smoe_text_si(b, sizeof b, c->flops_train_per_image, "FLOP"));
    bool idle = c->flops_infer_computed_per_image < c->flops_infer_per_image;
    if (idle || c->flops_train_computed_per_image > c->flops_train_per_image)
        smoe_result_line(result, "computed", "%s inference, %s training: %s",
                         smoe_text_si(a, sizeof a, c->flops_infer_computed_per_image, "FLOP"),
                         smoe_text_si(b, sizeof b, c->flops_train_computed_per_image, "FLOP"),
                         idle ? "without places of buffers that no token can take"
                              : "pieces are computed again for a loss of the whole batch");
    smoe_result_line(result, "the run", "%s: %zu step%s of %zu image%s",
                     smoe_text_si(a, sizeof a, 1e18 * c->train_exaflop, "FLOP"), spec->train.steps,
                     SMOE_S(spec->train.steps), spec->train.batch_size,
                     SMOE_S(spec->train.batch_size));
    smoe_result_line(result, "memory",
                     "%s weights + %s gradients + %s optimizer + %s activations = %s",
                     smoe_text_si(a, sizeof a, c->bytes.weights, "B"),
                     smoe_text_si(b, sizeof b, c->bytes.gradients, "B"),
                     smoe_text_si(d, sizeof d, c->bytes.optimizer, "B"),
                     smoe_text_si(e, sizeof e, c->bytes.activations, "B"),
                     smoe_text_si(f, sizeof f, smoe_cost_bytes_sum(&c->bytes), "B"));
}

/* ---- several processes ----------------------------------------------------------------------- */

enum { MOST_LISTED = 16 };

typedef struct shares {
    smoe_cost_share share[MOST_LISTED];
    double overlap[MOST_LISTED]; /* seconds */
    size_t count;
} shares;

static int fill_shares(shares *s, const smoe_cost *cost, const smoe_spec *spec,
                       const smoe_options *options, smoe_err *err) {
    static const smoe_option_range positive = {DBL_MIN, DBL_MAX, .expected = "a number above 0"};
    static const smoe_option_range latencies = {0, DBL_MAX, .expected = "a number of at least 0"};
    const smoe_option_range *const range[] = {&positive, &latencies, &positive};
    static const smoe_option_range numbers = {
        1, 65536, .whole = true, .expected = "up to 16 numbers from 1 to 65536, as in 1,8,64"};
    const char *const option[] = {"link", "latency", "gflops"};
    const char *const text[] = {options->link, options->latency, options->gflops};
    double value[] = {1, 10, 100}, processes[MOST_LISTED];
    size_t classes;
    *s = (shares){.count = 0};
    for (size_t i = 0; i < 3; i++)
        if (text[i] && smoe_option_numbers(&value[i], 1, NULL, option[i], text[i], range[i], err))
            return -1;
    if (!options->processes) return 0;
    if (smoe_cmd_classes(spec, false, &classes, options->scan, err) ||
        smoe_option_numbers(processes, MOST_LISTED, &s->count, "processes", options->processes,
                            &numbers, err))
        return -1;
    for (size_t i = 0; i < s->count; i++) {
        if (smoe_cost_share_of(&s->share[i], spec, classes, (int)processes[i], value[0] * 1e9,
                               value[1] / 1e6, err))
            return -1;
        s->share[i].computing = cost->flops_train_computed_per_image *
                                (double)spec->train.batch_size / processes[i] / (value[2] * 1e9);
        s->overlap[i] = smoe_cost_overlap(&s->share[i], cost);
    }
    return 0;
}

static void add_shares(smoe_result *result, const shares *s) {
    static const struct {
        const char *name;
        int traffic;
    } sent[] = {{"gradients", SMOE_TRAFFIC_GRADIENTS},
                {"weights", SMOE_TRAFFIC_WEIGHTS},
                {"slots", SMOE_TRAFFIC_SLOTS},
                {"other", SMOE_TRAFFIC_OTHER}};
    smoe_frame *frame = smoe_result_table(result, "processes", NULL);
    frame->title = "per step and process";
    for (size_t i = 0; i < s->count; i++) {
        const smoe_cost_share *x = &s->share[i];
        double messages = 0;
        smoe_frame_cells(
            frame, {"processes", .number = x->processes},
            {NULL, .number = smoe_cost_bytes_sum(&x->bytes), .heading = "memory of each",
             .format = "B"},
            {"bytes:weights", .number = x->bytes.weights, .where = SMOE_IN_JSON},
            {"bytes:gradients", .number = x->bytes.gradients, .where = SMOE_IN_JSON},
            {"bytes:optimizer", .number = x->bytes.optimizer, .where = SMOE_IN_JSON},
            {"bytes:activations", .number = x->bytes.activations, .where = SMOE_IN_JSON});
        for (size_t k = 0; k < SMOE_COUNT(sent); k++) {
            const smoe_sent *one = &x->sent[sent[k].traffic];
            char path[64], heading[32];
            messages += (double)one->messages;
            snprintf(path, sizeof path, "sent_per_step:%s:bytes", sent[k].name);
            snprintf(heading, sizeof heading, "%s sent", sent[k].name);
            smoe_cell_number(frame, path, one->bytes, .heading = heading, .format = "B");
            snprintf(path, sizeof path, "sent_per_step:%s:messages", sent[k].name);
            smoe_cell_number(frame, path, one->messages, .where = SMOE_IN_JSON);
        }
        smoe_frame_put(
            frame, {NULL, .number = messages, .heading = "messages"},
            {"computing_s", .number = x->computing, .heading = "computing", .format = "s"},
            {"communication_s", .number = x->seconds, .heading = "communication", .format = "s"},
            {"overlap_s", .number = s->overlap[i], .heading = "overlap", .format = "s"},
            {smoe_metric_name(SMOE_METRIC_STEP_S),
             .number = x->computing + x->seconds - s->overlap[i], .where = SMOE_IN_JSON});
    }
}

static int cost_of(smoe_cost *cost, const smoe_spec *spec, const smoe_options *options,
                   smoe_err *err) {
    size_t classes;
    if (smoe_cmd_classes(spec, false, &classes, options->scan, err)) return -1;
    return smoe_cost_estimate(cost, spec, classes, err);
}

static void cost_add_row(smoe_frame *frame, const char *file, const smoe_cost *c) {
    smoe_frame_put(frame, {"spec", .text = file}, {"parameters", .number = c->params, .format = ""},
                   {"experts", .number = c->params_expert, .format = ""},
                   {"active", .number = c->params_active, .format = ""},
                   {"inference", .number = c->flops_infer_per_image, .format = "FLOP"},
                   {"training", .number = c->flops_train_per_image, .format = "FLOP"},
                   {"the run", .number = 1e18 * c->train_exaflop, .format = "FLOP"},
                   {"memory", .number = smoe_cost_bytes_sum(&c->bytes), .format = "B"});
}

static int cost_compare(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    smoe_frame *frame = smoe_result_table(&result, NULL, NULL);
    for (size_t i = 0; i < options->args; i++) {
        SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
        SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
        const char *file = options->arg[i];
        if (smoe_cmd_spec(&spec, file, options, err)) return -1;
        if (cost_of(&cost, &spec, options, err)) return smoe_fail_prefix(err, "%s", file);
        smoe_result *part = smoe_result_part(&result, "specs");
        smoe_fact_text(part, "spec", file);
        smoe_cmd_cost(part, &cost);
        add_layers(part, &cost, SMOE_IN_JSON);
        cost_add_row(frame, file, &cost);
    }
    return smoe_cmd_emit(&result, options, err);
}

int cmd_cost(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    if (options->args > 1) return cost_compare(options, err);
    if (smoe_cmd_spec(&spec, options->arg[0], options, err)) return -1;
    if (options->print_config) return smoe_cmd_print_config(&spec, err);
    shares processes;
    smoe_result result = {0};
    if (cost_of(&cost, &spec, options, err) || fill_shares(&processes, &cost, &spec, options, err))
        return -1;
    smoe_cmd_cost(&result, &cost);
    add_layers(&result, &cost, SMOE_IN_JSON | SMOE_IN_PRINT);
    cost_add_totals(&result, &cost, &spec);
    add_shares(&result, &processes);
    return smoe_cmd_emit(&result, options, err);
}
