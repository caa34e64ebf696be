/* The first lines of a long command; see heading.h. */
#include "heading.h"
#include "cmd.h"
#include "spec/schema.h"
#include "spec/sources.h"

void smoe_heading_add(smoe_heading *heading, const char *split, const smoe_dataset *set) {
    if (!set) return;
    size_t i = heading->split[0] != NULL;
    heading->split[i] = split;
    heading->images[i] = smoe_dataset_images(set);
    heading->classes = smoe_dataset_classes(set);
    heading->endless |= smoe_dataset_endless(set);
}

void smoe_heading_print(smoe_result *lines, const smoe_options *options) {
    smoe_paper paper = smoe_cmd_paper(options, stderr);
    paper.labels = 10; /* what is printed later is below */
    if (!options->quiet && !options->json) smoe_result_print(lines, stderr, &paper);
    smoe_result_free(lines);
}

void smoe_heading_data(smoe_result *out, const smoe_heading *heading, const smoe_spec *spec) {
    const smoe_data_spec *data = &spec->data;
    bool trains = heading->split[0] && !strcmp(heading->split[0], "train");
    smoe_result_line(out, "data", "%s%s%s", smoe_sources[data->source].name, data->path ? " " : "",
                     data->path ? data->path : "");
    for (size_t i = 0; i < 2 && heading->split[i]; i++)
        if (!i && trains && heading->endless)
            smoe_result_more(out, ", train without end (%zu images per epoch)", heading->images[0]);
        else
            smoe_result_more(out, ", %s %zu%s%s", heading->split[i], heading->images[i],
                             i ? "" : " image", i ? "" : SMOE_S(heading->images[i]));
    smoe_result_more(out, "; %zu class%s", heading->classes, heading->classes == 1 ? "" : "es");
    if (trains) {
        double images = (double)(heading->images[0] ? heading->images[0] : 1);
        smoe_result_more(out, "; %.3g epochs",
                         (double)spec->train.steps * (double)spec->train.batch_size / images);
    }
}

void smoe_heading_model(smoe_result *out, const smoe_spec *spec, smoe_model *model) {
    const smoe_moe_spec *moe = &spec->model.moe;
    char count[48];
    smoe_text_si(count, sizeof count, (double)smoe_model_params(model)->total, "");
    if (moe->layer_count)
        smoe_result_line(out, "model", "%s, %zu experts in %zu of %zu blocks; ", moe->router,
                         moe->experts, moe->layer_count, spec->model.depth);
    else
        smoe_result_line(out, "model", "dense, %zu blocks; ", spec->model.depth);
    smoe_result_more(out, "width %zu; %s parameters", spec->model.width, count);
}

/* The tensors that a group is the first to match. */
static size_t tensors_of(const smoe_groups *groups, size_t k, const smoe_params *params) {
    size_t count = 0;
    for (size_t i = 0; i < params->count; i++) {
        size_t first = 0;
        while (first < groups->count &&
               !smoe_group_matches(&groups->group[first], params->param[i].name))
            first++;
        count += first == k;
    }
    return count;
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

/* The value of a key as the spec has it, fresh. */
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
        smoe_result_more(out, ", %zu steps of warm-up", train->schedule.warmup.steps);
    if (frozen) smoe_result_more(out, "; %zu of %zu tensors frozen", frozen, params->count);
    if (train->ema > 0) smoe_result_more(out, "; moving average with decay %g", train->ema);
    for (size_t k = 0; k < groups->count; k++)
        add_group(out, &groups->group[k], tensors_of(groups, k, params));
}

void smoe_heading_spec(smoe_result *out, const smoe_spec *spec) {
    const char *const split[] = {"train", spec->train.eval_every ? spec->eval.split : NULL};
    smoe_heading heading = {0};
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    smoe_err err;
    for (int i = 0; i < 2 && split[i]; i++) {
        SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *set = NULL;
        if (smoe_dataset_open(&set, spec, split[i], &err)) return;
        smoe_heading_add(&heading, split[i], set);
    }
    if (smoe_model_create(&model, spec, heading.classes, &err)) return;
    smoe_heading_data(out, &heading, spec);
    smoe_heading_model(out, spec, model);
}

void smoe_heading_loaded(const smoe_loaded *loaded, const smoe_options *options) {
    smoe_heading heading = {0};
    smoe_result lines = {0};
    smoe_heading_add(&heading, loaded->spec.eval.split, loaded->set);
    smoe_heading_data(&lines, &heading, &loaded->spec);
    smoe_heading_model(&lines, &loaded->spec, loaded->model);
    smoe_result_line(&lines, "from", "%s", loaded->path);
    smoe_heading_print(&lines, options);
}

void smoe_heading_list(smoe_result *out, const char *label, const char *folder,
                       const char *const *file, size_t count, const char *more) {
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        if (!file[i] || (folder && !smoe_file_holds(folder, file[i]))) continue;
        if (!named)
            smoe_result_line(out, label, "%s%s%s", folder ? folder : "", folder ? ": " : "",
                             file[i]);
        else
            smoe_result_more(out, ", %s", file[i]);
        named++;
    }
    if (named && more) smoe_result_more(out, ", and %s", more);
}

void smoe_heading_files(const smoe_options *options, const char *folder, const char *const *file,
                        size_t count, const char *more) {
    smoe_result lines = {0};
    smoe_heading_list(&lines, "files", folder, file, count, more);
    smoe_heading_print(&lines, options);
}
