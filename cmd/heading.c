/* The first lines of a long command; see cmd.h. */
#include "cmd.h"
#include "spec/schema.h"
#include "spec/sources.h"

void smoe_heading_print(smoe_result *lines, const smoe_options *options) {
    smoe_paper paper = smoe_cmd_paper(options, stderr);
    paper.labels = 10; /* what is printed later is below */
    if (!options->quiet && !options->json) smoe_result_print(lines, stderr, &paper);
    smoe_result_free(lines);
}

void smoe_heading_data(smoe_result *out, const smoe_spec *spec, const smoe_dataset *train,
                       const smoe_dataset *test) {
    const smoe_data_spec *data = &spec->data;
    const smoe_dataset *const sets[] = {train, test};
    size_t classes = smoe_dataset_classes(test ? test : train);
    const char *noun = " image";
    smoe_result_line(out, "data", "%s%s%s", smoe_sources[data->source].name, data->path ? " " : "",
                     data->path ? data->path : "");
    for (size_t i = 0; i < 2; i++) {
        if (!sets[i]) continue;
        size_t images = smoe_dataset_images(sets[i]);
        if (!i && smoe_dataset_endless(train))
            smoe_result_more(out, ", train endless (images per epoch: %zu)", images);
        else
            smoe_result_more(out, ", %s %zu%s%s", i ? spec->eval.split : "train", images, noun,
                             *noun ? SMOE_S(images) : "");
        noun = "";
    }
    smoe_result_more(out, "; %zu class%s", classes, SMOE_ES(classes));
    double epochs = train ? smoe_heading_epochs(spec, train) : 0;
    if (train) smoe_result_more(out, "; %.3g epoch%s", epochs, SMOE_S(epochs));
}

double smoe_heading_epochs(const smoe_spec *spec, const smoe_dataset *train) {
    size_t batches = smoe_dataset_images(train) / spec->train.batch_size;
    return (double)spec->train.steps / fmax((double)batches, 1);
}

void smoe_heading_model(smoe_result *out, const smoe_spec *spec, smoe_model *model) {
    const smoe_moe_spec *moe = &spec->model.moe;
    char count[48];
    smoe_text_si(count, sizeof count, (double)smoe_model_params(model)->total, "");
    if (moe->layer_count)
        smoe_result_line(out, "model", "%s, %zu expert%s in %zu of %zu block%s; ", moe->router,
                         moe->experts, SMOE_S(moe->experts), moe->layer_count, spec->model.depth,
                         SMOE_S(spec->model.depth));
    else
        smoe_result_line(out, "model", "dense, %zu block%s; ", spec->model.depth,
                         SMOE_S(spec->model.depth));
    smoe_result_more(out, "width %zu; %s parameters", spec->model.width, count);
}

static void add_group(smoe_result *out, const smoe_group *group, size_t tensors) {
    smoe_result_line(out, "tensors", "%s: %zu", group->match, tensors);
    if (group->frozen) {
        smoe_result_more(out, ", frozen");
        return;
    }
    smoe_result_more(out, ", rate times %g", group->lr);
    if (group->decay >= 0) smoe_result_more(out, ", decay %g", group->decay);
    if (group->until) smoe_result_more(out, ", frozen from step %zu on", group->until);
}

static char *heading_value_of(const smoe_spec *spec, const char *key) {
    return smoe_value_yaml(spec, &smoe_schema[smoe_schema_find(key)]);
}

void smoe_heading_optimizer(smoe_result *out, const smoe_spec *spec, smoe_model *model) {
    const smoe_train_spec *train = &spec->train;
    const smoe_groups *groups = &train->optimizer.groups;
    const smoe_params *params = smoe_model_params(model);
    SMOE_FREED char *name = heading_value_of(spec, "train.optimizer.name");
    SMOE_FREED char *schedule = heading_value_of(spec, "train.schedule.name");
    size_t frozen = 0;
    for (size_t i = 0; i < params->count; i++)
        frozen += params->param[i].frozen && !params->param[i].state;
    smoe_result_line(out, "optimizer", "%s", name ? name : "?");
    if (smoe_spec_acts(spec, "train.optimizer.momentum"))
        smoe_result_more(out, ", momentum %g", train->optimizer.momentum);
    smoe_result_more(out, "; rate %g, %s", train->optimizer.lr, schedule ? schedule : "?");
    if (train->schedule.name != SMOE_SCHEDULE_CONSTANT)
        smoe_result_more(out, ", %zu step%s of warm-up", train->schedule.warmup.steps,
                         SMOE_S(train->schedule.warmup.steps));
    if (frozen) smoe_result_more(out, "; %zu of %zu tensors frozen", frozen, params->count);
    if (train->ema > 0) smoe_result_more(out, "; moving average with decay %g", train->ema);
    for (size_t k = 0; k < groups->count; k++) {
        size_t tensors = 0; /* that the group is the first to match */
        for (size_t i = 0; i < params->count; i++) {
            size_t first = 0;
            while (first < groups->count &&
                   !smoe_group_matches(&groups->group[first], params->param[i].name))
                first++;
            tensors += first == k;
        }
        add_group(out, &groups->group[k], tensors);
    }
}

void smoe_heading_spec(smoe_result *out, const smoe_spec *spec, smoe_scan *scan) {
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *train = NULL;
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *test = NULL;
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    smoe_err err;
    if (smoe_dataset_list(&train, spec, "train", scan, &err) ||
        (spec->train.eval_every && smoe_dataset_list(&test, spec, spec->eval.split, scan, &err)) ||
        smoe_model_create(&model, spec, smoe_dataset_classes(train), &err))
        return;
    smoe_heading_data(out, spec, train, test);
    smoe_heading_model(out, spec, model);
}

void smoe_heading_loaded(const smoe_loaded *loaded, const smoe_options *options) {
    smoe_result lines = {0};
    smoe_heading_data(&lines, &loaded->spec, NULL, loaded->set);
    smoe_heading_model(&lines, &loaded->spec, loaded->model);
    smoe_result_line(&lines, "from", "%s", loaded->path);
    smoe_heading_print(&lines, options);
}

void smoe_heading_list(smoe_result *out, const char *label, const char *folder, const char *files,
                       const char *more) {
    char file[64];
    size_t named = 0;
    while (smoe_text_next(&files, ' ', file, sizeof file)) {
        if (!smoe_file_holds(folder, file)) continue;
        if (!named++)
            smoe_result_line(out, label, "%s: %s", folder, file);
        else
            smoe_result_more(out, ", %s", file);
    }
    if (named && more) smoe_result_more(out, ", and %s", more);
}

void smoe_heading_files(const smoe_options *options, const char *folder, const char *files,
                        const char *more) {
    smoe_result lines = {0};
    smoe_heading_list(&lines, "files", folder, files, more);
    smoe_heading_print(&lines, options);
}
