/* smoe cost: what a spec costs, layer by layer, before anything is built; bench/cost.h says what is
 * counted. */
#include "cmd.h"
#include "table.h"
#include "base/frame.h"
#include "bench/cost.h"
#include "spec/metrics.h"

static json_t *layers_json(const smoe_cost *cost) {
    json_t *layers = json_array();
    for (size_t i = 0; i < cost->layers; i++) {
        const smoe_cost_layer *l = &cost->layer[i];
        json_array_append_new(layers, json_pack("{s:s, s:s, s:o, s:f, s:f}", "name", l->name,
                                                "kind", smoe_part_kind(l->part), "params",
                                                smoe_number_json(l->params), "flops_infer",
                                                l->flops_infer, "flops_train", l->flops_train));
    }
    return layers;
}

static json_t *cost_json(const smoe_cost *c) {
    return json_pack("{s:o, s:f, s:o, s:f, s:f, s:f, s:o, s:o}", "params",
                     smoe_number_json(c->params), "params_active", c->params_active,
                     "params_expert", smoe_number_json(c->params_expert),
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

static int print_layers(const smoe_cost *c, bool bold, smoe_err *err) {
    smoe_table table = {.columns = 4};
    smoe_table_add(&table, "layer");
    smoe_table_add(&table, "parameters");
    smoe_table_add(&table, "inference");
    smoe_table_add(&table, "training");
    for (size_t i = 0; i < c->layers; i++) {
        smoe_table_add(&table, "%s", c->layer[i].name);
        add_si(&table, c->layer[i].params, "");
        add_si(&table, c->layer[i].flops_infer, "FLOP");
        add_si(&table, c->layer[i].flops_train, "FLOP");
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

static int cost_of(const smoe_spec *spec, const smoe_options *options, smoe_err *err) {
    smoe_cost cost = {0};
    size_t classes;
    int status = smoe_cmd_classes(spec, 0, false, &classes, err);
    if (!status) status = smoe_cost_estimate(&cost, spec, classes, NULL, err);
    if (!status && options->json) {
        status = smoe_cmd_json(cost_json(&cost), err);
    } else if (!status) {
        status = print_layers(&cost, smoe_cmd_color(options, stdout), err);
        if (!status) print_totals(&cost, spec);
    }
    smoe_cost_free(&cost);
    return status;
}

int cmd_cost(const smoe_options *options, smoe_err *err) {
    smoe_spec spec = {0};
    int status = smoe_cmd_spec(&spec, options, err);
    if (!status)
        status = options->print_config ? smoe_cmd_print_config(&spec, err)
                                       : cost_of(&spec, options, err);
    smoe_spec_free(&spec);
    return status;
}
