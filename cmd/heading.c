/* The first lines of a long command; see heading.h. */
#include "heading.h"
#include "cmd.h"
#include "table.h"
#include "base/file.h"
#include "spec/schema.h"
#include "spec/sources.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void smoe_heading_add(smoe_heading *heading, const char *split, const smoe_dataset *set) {
    if (!set) return;
    size_t i = heading->split[0] != NULL;
    heading->split[i] = split;
    heading->images[i] = smoe_dataset_images(set);
    heading->classes = smoe_dataset_classes(set);
    heading->endless |= smoe_dataset_endless(set);
}

/* A line of a heading is put together in memory, so that it can be broken between words. */
typedef struct heading_line {
    char *text;
    size_t size;
    FILE *into;
} heading_line;

static FILE *open_line(heading_line *line) {
    *line = (heading_line){0};
    return line->into = open_memstream(&line->text, &line->size);
}

static void put_line(FILE *out, const char *name, const char *text) {
    enum { NAME = 12 }; /* columns before the text */
    size_t at = *name ? NAME : 0;
    fprintf(out, "%-*s", (int)at, name);
    smoe_table_wrap(out, text, at);
}

/* name NULL: there is nothing to print. */
static void end_line(heading_line *line, FILE *out, const char *name) {
    if (fclose(line->into) == 0 && name) put_line(out, name, line->text);
    free(line->text);
}

void smoe_heading_line(FILE *out, const char *name, const char *fmt, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int length = vasprintf(&text, fmt, args);
    va_end(args);
    if (length < 0) return;
    size_t room = (size_t)length + 9; /* all of it, and what shown keeps free */
    char *shown = malloc(room);       /* a name in it may have control characters */
    if (shown) put_line(out, name, smoe_text_shown(text, shown, room));
    free(shown);
    free(text);
}

void smoe_heading_data(FILE *out, const smoe_heading *heading, const smoe_spec *spec) {
    const smoe_data_spec *data = &spec->data;
    bool trains = heading->split[0] && !strcmp(heading->split[0], "train");
    heading_line line;
    FILE *to = open_line(&line);
    if (!to) return;
    smoe_cmd_print(to, "%s%s%s", smoe_sources[data->source].name, data->path ? " " : "",
                   data->path ? data->path : "");
    for (size_t i = 0; i < 2 && heading->split[i]; i++)
        if (!i && trains && heading->endless)
            fprintf(to, ", train without end (%zu images per epoch)", heading->images[0]);
        else
            fprintf(to, ", %s %zu%s", heading->split[i], heading->images[i], i ? "" : " images");
    fprintf(to, "; %zu classes", heading->classes);
    if (trains) {
        double images = (double)(heading->images[0] ? heading->images[0] : 1);
        fprintf(to, "; %.3g epochs",
                (double)spec->train.steps * (double)spec->train.batch_size / images);
    }
    end_line(&line, out, "data");
}

void smoe_heading_model(FILE *out, const smoe_spec *spec, smoe_model *model) {
    const smoe_moe_spec *moe = &spec->model.moe;
    char count[48];
    heading_line line;
    FILE *to = open_line(&line);
    if (!to) return;
    smoe_text_si(count, sizeof count, (double)smoe_model_params(model)->total, "");
    if (moe->layer_count)
        fprintf(to, "%s, %zu experts in %zu of %zu blocks; ", moe->router, moe->experts,
                moe->layer_count, spec->model.depth);
    else
        fprintf(to, "dense, %zu blocks; ", spec->model.depth);
    fprintf(to, "width %zu; %s parameters", spec->model.width, count);
    end_line(&line, out, "model");
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

static void put_group(FILE *out, const smoe_group *group, size_t tensors) {
    heading_line line;
    FILE *to = open_line(&line);
    if (!to) return;
    smoe_cmd_print(to, "%s: %zu", group->match, tensors);
    if (group->frozen) {
        fputs(", frozen", to);
    } else {
        fprintf(to, ", rate times %g", group->lr);
        if (group->decay >= 0) fprintf(to, ", decay %g", group->decay);
        if (group->until) fprintf(to, ", frozen from step %zu on", group->until);
    }
    end_line(&line, out, "tensors");
}

static void put_value(FILE *out, const smoe_spec *spec, const char *before, const char *key) {
    char *value = smoe_value_yaml(spec, &smoe_schema[smoe_schema_find(key)]);
    fprintf(out, "%s%s", before, value ? value : "?");
    free(value);
}

void smoe_heading_optimizer(FILE *out, const smoe_spec *spec, smoe_model *model) {
    const smoe_train_spec *train = &spec->train;
    const smoe_groups *groups = &train->optimizer.groups;
    const smoe_params *params = smoe_model_params(model);
    size_t frozen = 0;
    for (size_t i = 0; i < params->count; i++)
        frozen += params->param[i].frozen && !params->param[i].state;
    heading_line line;
    FILE *to = open_line(&line);
    if (!to) return;
    put_value(to, spec, "", "train.optimizer.name");
    if (smoe_spec_acts(spec, "train.optimizer.momentum"))
        fprintf(to, ", momentum %g", train->optimizer.momentum);
    fprintf(to, "; rate %g", train->optimizer.lr);
    put_value(to, spec, ", ", "train.schedule.name");
    if (train->schedule.name != SMOE_SCHEDULE_CONSTANT)
        fprintf(to, ", %zu steps of warm-up", train->schedule.warmup.steps);
    if (frozen) fprintf(to, "; %zu of %zu tensors frozen", frozen, params->count);
    if (train->ema > 0) fprintf(to, "; moving average with decay %g", train->ema);
    end_line(&line, out, "optimizer");
    for (size_t k = 0; k < groups->count; k++)
        put_group(out, &groups->group[k], tensors_of(groups, k, params));
}

void smoe_heading_spec(FILE *out, const smoe_spec *spec) {
    const char *const split[] = {"train", spec->train.eval_every ? spec->eval.split : NULL};
    smoe_heading heading = {0};
    smoe_model *model = NULL;
    smoe_err err;
    for (int i = 0; i < 2 && split[i]; i++) {
        smoe_dataset *set = NULL;
        if (smoe_dataset_open(&set, spec, split[i], &err)) return;
        smoe_heading_add(&heading, split[i], set);
        smoe_dataset_free(set);
    }
    if (smoe_model_create(&model, spec, heading.classes, &err)) return;
    smoe_heading_data(out, &heading, spec);
    smoe_heading_model(out, spec, model);
    smoe_model_free(model);
}

void smoe_heading_loaded(const smoe_loaded *loaded, const smoe_options *options) {
    smoe_heading heading = {0};
    if (options->quiet || options->json) return;
    smoe_heading_add(&heading, loaded->spec.eval.split, loaded->set);
    smoe_heading_data(stderr, &heading, &loaded->spec);
    smoe_heading_model(stderr, &loaded->spec, loaded->model);
    smoe_heading_line(stderr, "from", "%s", loaded->path);
}

void smoe_heading_list(FILE *out, const char *name, const char *folder, const char *const *file,
                       size_t count, const char *more) {
    heading_line line;
    size_t named = 0;
    if (!open_line(&line)) return;
    for (size_t i = 0; i < count; i++) {
        if (!file[i] || (folder && !smoe_file_holds(folder, file[i]))) continue;
        if (!named && folder) smoe_cmd_print(line.into, "%s: ", folder);
        smoe_cmd_print(line.into, "%s%s", named++ ? ", " : "", file[i]);
    }
    if (named && more) fprintf(line.into, ", and %s", more);
    end_line(&line, out, named ? name : NULL);
}

void smoe_heading_files(const smoe_options *options, const char *folder, const char *const *file,
                        size_t count, const char *more) {
    if (options->quiet || options->json) return;
    smoe_heading_list(stderr, "files", folder, file, count, more);
}
