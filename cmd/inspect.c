/*
 * smoe inspect: how each MoE layer routes the images of a split. One pass over the split; the plan
 * of every layer is measured as it passes (route/plan.h says what the numbers are) and averaged
 * over the images.
 */
#include "cmd.h"
#include "load.h"
#include "progress.h"
#include "table.h"
#include "base/file.h"
#include "train/trainer.h"

#include <stdlib.h>

typedef struct layer_sums {
    smoe_plan_stats sum; /* each weighted by the tokens it stands for */
    double tokens;
} layer_sums;

typedef struct inspection {
    layer_sums *layer;
    size_t done, images;
    smoe_progress *progress;
} inspection;

/* One measured quantity: a column of the table, a member of the JSON. */
static const struct metric {
    const char *name, *heading;
    size_t at;
} metrics[] = {
    {"dispatch_max", "dispatch max", offsetof(smoe_plan_stats, dispatch_max)},
    {"combine_max", "combine max", offsetof(smoe_plan_stats, combine_max)},
    {"tokens_per_slot", "tokens per slot", offsetof(smoe_plan_stats, tokens_per_slot)},
    {"slots_per_token", "slots per token", offsetof(smoe_plan_stats, slots_per_token)},
    {"dropped", "dropped", offsetof(smoe_plan_stats, dropped)},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

static double *value_of(smoe_plan_stats *stats, size_t metric) {
    return (double *)((char *)stats + metrics[metric].at);
}

static void watch(void *user, size_t i, const smoe_router *router) {
    layer_sums *layer = &((inspection *)user)->layer[i];
    double tokens = (double)router->plan.tokens;
    smoe_plan_stats stats;
    smoe_plan_measure(&router->plan, &stats);
    for (size_t m = 0; m < METRICS; m++) *value_of(&layer->sum, m) += tokens * *value_of(&stats, m);
    layer->tokens += tokens;
}

static int count(void *user, const real *logits, const int64_t *labels, size_t images,
                 size_t classes, smoe_err *err) {
    (void)logits, (void)labels, (void)classes, (void)err;
    inspection *in = user;
    in->done += images;
    smoe_progress_count(in->progress, in->done, in->images, "images");
    return 0;
}

static void fill_table(smoe_table *table, const smoe_model *model, const inspection *in,
                       bool readable) {
    table->columns = 1 + METRICS;
    smoe_table_add(table, "layer");
    for (size_t m = 0; m < METRICS; m++)
        smoe_table_add(table, "%s", readable ? metrics[m].heading : metrics[m].name);
    for (size_t i = 0; i < smoe_model_moe_layers(model); i++) {
        smoe_table_add(table, "blocks.%zu", smoe_model_moe_block(model, i));
        for (size_t m = 0; m < METRICS; m++) {
            double value = *value_of(&in->layer[i].sum, m);
            if (readable)
                smoe_table_add(table, "%.4g", value);
            else
                smoe_table_add(table, "%.17g", value);
        }
    }
}

static json_t *layers_json(const smoe_model *model, const inspection *in) {
    json_t *layers = json_array();
    for (size_t i = 0; i < smoe_model_moe_layers(model); i++) {
        json_t *row = json_pack("{s:I}", "block", (json_int_t)smoe_model_moe_block(model, i));
        for (size_t m = 0; m < METRICS; m++)
            json_object_set_new(row, metrics[m].name,
                                smoe_run_number(*value_of(&in->layer[i].sum, m)));
        json_array_append_new(layers, row);
    }
    return layers;
}

static int write_csv(const smoe_model *model, const inspection *in, const smoe_options *options,
                     smoe_err *err) {
    smoe_table table = {0};
    char *path = smoe_text_format("%s/routing.csv", options->out);
    int status =
        path ? smoe_file_make_parents(path, err) : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    fill_table(&table, model, in, false);
    if (!status) status = smoe_table_csv(&table, path, options->force, err);
    smoe_table_free(&table);
    free(path);
    return status;
}

static int report(const smoe_loaded *l, const inspection *in, const smoe_options *options,
                  smoe_err *err) {
    if (options->out && write_csv(l->model, in, options, err)) return -1;
    if (options->json)
        return smoe_cmd_json(json_pack("{s:s, s:s, s:I, s:s, s:o}", "checkpoint", l->path, "split",
                                       l->spec.eval.split, "images", (json_int_t)in->done, "router",
                                       l->spec.model.moe.router, "layers",
                                       layers_json(l->model, in)),
                             err);
    smoe_table table = {0};
    fill_table(&table, l->model, in, true);
    printf("%s, %zu images of %s, router %s\n", l->path, in->done, l->spec.eval.split,
           l->spec.model.moe.router);
    int status = smoe_table_print(&table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(&table);
    return status;
}

static int inspect(smoe_loaded *l, const smoe_options *options, smoe_err *err) {
    smoe_progress progress;
    smoe_progress_open(&progress, options, stderr, NULL);
    if (smoe_load_model(l, err)) return -1;
    size_t layers = smoe_model_moe_layers(l->model);
    if (!layers) return smoe_fail(err, SMOE_USAGE, "%s has no MoE layer", l->path);
    inspection in = {.layer = calloc(layers, sizeof *in.layer),
                     .images = smoe_dataset_images(l->set),
                     .progress = &progress};
    if (!in.layer) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    smoe_eval eval;
    smoe_model_watch(l->model, watch, &in);
    int status = smoe_evaluate(l->model, &l->spec, l->set, l->batch, count, &in, &eval, err);
    smoe_progress_close(&progress);
    for (size_t i = 0; i < layers; i++)
        for (size_t m = 0; m < METRICS; m++) *value_of(&in.layer[i].sum, m) /= in.layer[i].tokens;
    if (!status) status = report(l, &in, options, err);
    free(in.layer);
    return status;
}

int cmd_inspect(const smoe_options *options, smoe_err *err) {
    smoe_loaded loaded = {0};
    int status = smoe_load_spec(&loaded, options, err);
    if (status)
        ;
    else if (options->print_config)
        status = smoe_cmd_print_config(&loaded.spec, err);
    else if (options->dry_run)
        printf("would inspect %s on the %s split\n", loaded.path, loaded.spec.eval.split);
    else
        status = inspect(&loaded, options, err);
    smoe_loaded_free(&loaded);
    return status;
}
