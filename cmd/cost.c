/* smoe cost: the cost of a spec, layer by layer, before anything is built; bench/cost.h describes
 * what is counted. */
#include "cmd.h"
#include "table.h"
#include "bench/cost.h"
#include "spec/metrics.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *layers_json(const smoe_cost *cost) {
    json_t *layers = json_array();
    for (size_t i = 0; i < cost->layers; i++) {
        const smoe_cost_layer *l = &cost->layer[i];
        json_array_append_new(layers, json_pack("{s:s, s:s, s:o, s:f, s:f}", "name", l->name,
                                                "kind", smoe_part_kind(l->part), "params",
                                                smoe_json_of_number(l->params), "flops_infer",
                                                l->flops_infer, "flops_train", l->flops_train));
    }
    return layers;
}

static json_t *cost_json(const smoe_cost *c) {
    return json_pack("{s:o, s:f, s:o, s:f, s:f, s:f, s:o, s:o}", "params",
                     smoe_json_of_number(c->params), "params_active", c->params_active,
                     "params_expert", smoe_json_of_number(c->params_expert),
                     smoe_metric_name(SMOE_METRIC_FLOPS_INFER), c->flops_infer_per_image,
                     smoe_metric_name(SMOE_METRIC_FLOPS_TRAIN), c->flops_train_per_image,
                     smoe_metric_name(SMOE_METRIC_TRAIN_EXAFLOP), c->train_exaflop, "bytes",
                     smoe_cmd_bytes_json(c), "layers", layers_json(c));
}

static void add_si(smoe_table *table, double n, const char *unit) {
    char buf[32];
    if (n > 0)
        smoe_table_add(table, "%s", smoe_text_si(buf, sizeof buf, n, unit));
    else
        smoe_table_add(table, "-");
}

/* "blocks.3.mlp": the number of the block, and where the rest begins; SIZE_MAX for other layers. */
static size_t block_of(const smoe_cost_layer *l, const char **rest) {
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
    size_t block = block_of(&c->layer[i], &rest), n = 0;
    while (i + n < c->layers && block_of(&c->layer[i + n], &rest) == block) n++;
    return n;
}

/* Whether the n layers from i have the same costs as those from k: blocks that differ only in their
 * number. */
static bool equal_blocks(const smoe_cost *c, size_t i, size_t k, size_t n) {
    if (k + n > c->layers || layers_of(c, k) != n) return false;
    for (size_t l = 0; l < n; l++) {
        const smoe_cost_layer *a = &c->layer[i + l], *b = &c->layer[k + l];
        const char *one, *other;
        if (block_of(a, &one) == SIZE_MAX || block_of(b, &other) == SIZE_MAX) return false;
        if (strcmp(one, other) || a->params != b->params || a->flops_infer != b->flops_infer ||
            a->flops_train != b->flops_train)
            return false;
    }
    return true;
}

/* A row per layer; consecutive blocks of equal cost are combined: "blocks.0-5.attn". */
static int print_layers(const smoe_cost *c, bool bold, smoe_err *err) {
    smoe_table table = {.columns = 4};
    smoe_table_add(&table, "layer");
    smoe_table_add(&table, "parameters");
    smoe_table_add(&table, "inference");
    smoe_table_add(&table, "training");
    for (size_t i = 0, n, blocks; i < c->layers; i += blocks * n) {
        const char *rest;
        size_t block = block_of(&c->layer[i], &rest);
        n = block == SIZE_MAX ? 1 : layers_of(c, i);
        for (blocks = 1; equal_blocks(c, i, i + blocks * n, n);) blocks++;
        for (size_t l = i; l < i + n; l++) {
            (void)block_of(&c->layer[l], &rest);
            if (blocks > 1)
                smoe_table_add(&table, "blocks.%zu-%zu%s  (each)", block, block + blocks - 1, rest);
            else
                smoe_table_add(&table, "%s", c->layer[l].name);
            add_si(&table, c->layer[l].params, "");
            add_si(&table, c->layer[l].flops_infer, "FLOP");
            add_si(&table, c->layer[l].flops_train, "FLOP");
        }
    }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

static void print_totals(const smoe_cost *c, const smoe_spec *spec) {
    char a[32], b[32], d[32], e[32], f[32];
    printf("\nparameters  %s, of which %s in experts; %s active per token\n",
           smoe_text_si(a, sizeof a, c->params, ""),
           smoe_text_si(b, sizeof b, c->params_expert, ""),
           smoe_text_si(d, sizeof d, c->params_active, ""));
    printf("per image   %s inference, %s training (with element-wise work; the rows count only "
           "products)\n",
           smoe_text_si(a, sizeof a, c->flops_infer_per_image, "FLOP"),
           smoe_text_si(b, sizeof b, c->flops_train_per_image, "FLOP"));
    printf("the run     %s: %zu steps of %zu images\n",
           smoe_text_si(a, sizeof a, 1e18 * c->train_exaflop, "FLOP"), spec->train.steps,
           spec->train.batch_size);
    printf("memory      %s weights + %s gradients + %s optimizer + %s activations = %s\n",
           smoe_text_si(a, sizeof a, c->bytes.weights, "B"),
           smoe_text_si(b, sizeof b, c->bytes.gradients, "B"),
           smoe_text_si(d, sizeof d, c->bytes.optimizer, "B"),
           smoe_text_si(e, sizeof e, c->bytes.activations, "B"),
           smoe_text_si(f, sizeof f, smoe_cost_bytes(c), "B"));
}

/* ---- several processes ----------------------------------------------------------------------- */

enum { MOST_LISTED = 16 };

typedef struct shares {
    smoe_cost_share share[MOST_LISTED];
    double overlap[MOST_LISTED]; /* seconds */
    size_t count;
} shares;

/* The whole of `text` as a positive number; `preset` if it is NULL. */
static int positive(double *number, const char *name, const char *text, double preset,
                    smoe_err *err) {
    char *rest;
    *number = preset;
    if (!text) return 0;
    *number = strtod(text, &rest);
    if (*text && !*rest && *number > 0 && isfinite(*number)) return 0;
    return smoe_fail(err, SMOE_USAGE, "--%s %s: not a number above 0", name, text);
}

static int fill_shares(shares *s, const smoe_cost *cost, const smoe_spec *spec,
                       const smoe_options *options, smoe_err *err) {
    double rate, latency, gflops;
    size_t classes;
    if (smoe_cmd_classes(spec, 0, false, &classes, err)) return -1;
    *s = (shares){.count = 0};
    if (positive(&rate, "link", options->link, 1, err) ||
        positive(&latency, "latency", options->latency, 10, err) ||
        positive(&gflops, "gflops", options->gflops, 100, err))
        return -1;
    for (const char *at = options->processes; at && *at; at += *at == ',') {
        char *rest;
        long processes = strtol(at, &rest, 10);
        if (rest == at || (*rest && *rest != ',') || processes < 1 || processes > 65536 ||
            s->count == MOST_LISTED)
            return smoe_fail(err, SMOE_USAGE,
                             "--processes %s: expected up to %d numbers, as in 1,8,64",
                             options->processes, MOST_LISTED);
        smoe_cost_share *share = &s->share[s->count];
        if (smoe_cost_share_of(share, spec, classes, (int)processes, rate * 1e9, latency / 1e6,
                               err))
            return -1;
        share->computing = cost->flops_train_per_image * (double)spec->train.batch_size /
                           (double)processes / (gflops * 1e9);
        s->overlap[s->count++] = smoe_cost_overlap(share, cost);
        at = rest;
    }
    return 0;
}

static json_t *sent_json(const smoe_sent *sent) {
    return json_pack("{s:I, s:I}", "bytes", (json_int_t)sent->bytes, "messages",
                     (json_int_t)sent->messages);
}

static json_t *shares_json(const shares *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->count; i++) {
        const smoe_cost_share *x = &s->share[i];
        json_array_append_new(
            list,
            json_pack("{s:i, s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o, s:o, s:o}, s:f, s:f, s:f, s:f}",
                      "processes", x->processes, "bytes", "weights",
                      smoe_json_of_number(x->weights), "gradients",
                      smoe_json_of_number(x->gradients), "optimizer",
                      smoe_json_of_number(x->optimizer), "activations",
                      smoe_json_of_number(x->activations), "sent_per_step", "gradients",
                      sent_json(&x->sent[SMOE_TRAFFIC_GRADIENTS]), "weights",
                      sent_json(&x->sent[SMOE_TRAFFIC_WEIGHTS]), "slots",
                      sent_json(&x->sent[SMOE_TRAFFIC_SLOTS]), "other",
                      sent_json(&x->sent[SMOE_TRAFFIC_OTHER]), "communication_s", x->seconds,
                      "computing_s", x->computing, "overlap_s", s->overlap[i],
                      smoe_metrics[SMOE_METRIC_STEP_S].column,
                      x->computing + x->seconds - s->overlap[i]));
    }
    return list;
}

static int print_shares(const shares *s, bool bold, smoe_err *err) {
    static const char *const head[] = {"processes",    "memory of each", "gradients sent",
                                       "weights sent", "slots sent",     "messages",
                                       "computing",    "communication",  "overlap"};
    smoe_table table = {.columns = sizeof head / sizeof *head};
    for (size_t i = 0; i < table.columns; i++) smoe_table_add(&table, "%s", head[i]);
    for (size_t i = 0; i < s->count; i++) {
        const smoe_cost_share *x = &s->share[i];
        uint64_t messages = 0;
        for (int k = 0; k < SMOE_TRAFFICS; k++) messages += x->sent[k].messages;
        smoe_table_add(&table, "%d", x->processes);
        add_si(&table, x->weights + x->gradients + x->optimizer + x->activations, "B");
        add_si(&table, (double)x->sent[SMOE_TRAFFIC_GRADIENTS].bytes, "B");
        add_si(&table, (double)x->sent[SMOE_TRAFFIC_WEIGHTS].bytes, "B");
        add_si(&table, (double)x->sent[SMOE_TRAFFIC_SLOTS].bytes, "B");
        smoe_table_add(&table, "%llu", (unsigned long long)messages);
        add_si(&table, x->computing, "s");
        add_si(&table, x->seconds, "s");
        add_si(&table, s->overlap[i], "s");
    }
    printf("\nper step and process:\n");
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

static int cost_of(smoe_cost *cost, const smoe_spec *spec, smoe_err *err) {
    size_t classes;
    if (smoe_cmd_classes(spec, 0, false, &classes, err)) return -1;
    return smoe_cost_estimate(cost, spec, classes, NULL, err);
}

static int show(const smoe_cost *cost, const smoe_spec *spec, const smoe_options *options,
                smoe_err *err) {
    shares processes;
    bool bold = smoe_cmd_color(options, stdout);
    if (fill_shares(&processes, cost, spec, options, err)) return -1;
    if (options->json) {
        json_t *value = cost_json(cost);
        if (value && processes.count)
            json_object_set_new(value, "processes", shares_json(&processes));
        return smoe_cmd_json(value, err);
    }
    if (print_layers(cost, bold, err)) return -1;
    print_totals(cost, spec);
    return processes.count ? print_shares(&processes, bold, err) : 0;
}

static void add_row(smoe_table *table, const char *file, const smoe_cost *c) {
    smoe_table_add(table, "%s", file);
    add_si(table, c->params, "");
    add_si(table, c->params_expert, "");
    add_si(table, c->params_active, "");
    add_si(table, c->flops_infer_per_image, "FLOP");
    add_si(table, c->flops_train_per_image, "FLOP");
    add_si(table, 1e18 * c->train_exaflop, "FLOP");
    add_si(table, smoe_cost_bytes(c), "B");
}

/* A row, or an object, per spec. */
static int compare(const smoe_options *options, smoe_err *err) {
    static const char *const heading[] = {"spec",      "parameters", "experts", "active",
                                          "inference", "training",   "the run", "memory"};
    enum { COLUMNS = sizeof heading / sizeof *heading };
    smoe_table table = {.columns = COLUMNS};
    json_t *list = json_array();
    int status = 0;
    for (size_t i = 0; i < COLUMNS; i++) smoe_table_add(&table, "%s", heading[i]);
    for (size_t i = 0; i < options->args && !status; i++) {
        smoe_spec spec = {0};
        smoe_cost cost = {0};
        const char *file = options->arg[i];
        status = smoe_cmd_spec(&spec, file, options, err);
        if (!status && (status = cost_of(&cost, &spec, err))) smoe_fail_prefix(err, "%s", file);
        if (!status) {
            add_row(&table, file, &cost);
            json_t *object = cost_json(&cost);
            json_object_set_new(object, "spec", json_string(file));
            json_array_append_new(list, object);
        }
        smoe_cost_free(&cost);
        smoe_spec_free(&spec);
    }
    if (!status && options->json)
        status = smoe_cmd_json(json_pack("{s:O}", "specs", list), err);
    else if (!status)
        status = smoe_table_print(&table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(&table);
    json_decref(list);
    return status;
}

int cmd_cost(const smoe_options *options, smoe_err *err) {
    smoe_spec spec = {0};
    smoe_cost cost = {0};
    if (options->args > 1) return compare(options, err);
    int status = smoe_cmd_spec(&spec, options->arg[0], options, err);
    if (!status && options->print_config) {
        status = smoe_cmd_print_config(&spec, err);
    } else if (!status) {
        status = cost_of(&cost, &spec, err);
        if (!status) status = show(&cost, &spec, options, err);
    }
    smoe_cost_free(&cost);
    smoe_spec_free(&spec);
    return status;
}
