/*
 * smoe inspect: what the routers of trained models do with the images of a split. One pass over the
 * split for each run; the analyses are those of inspect/inspect.def, one table each.
 */
#include "cmd.h"
#include "progress.h"
#include "draw/figures.h"
#include "draw/overlay.h"
#include "inspect/inspect.h"
#include "spec/routers.h"

enum { IMAGES = 8 }; /* that are kept whole, evenly over the split, unless --images names them */

/* One run; its model is freed once its rows are in the tables. */
typedef struct inspected {
    char *label; /* the argument, without a final '/' */
    smoe_loaded loaded;
    char *metrics; /* metrics.jsonl of its run directory; NULL: none */
    size_t *image; /* [images] */
    size_t images;
    size_t *slot; /* [slots] of --slots, the same for every run; NULL: chosen by rule */
    size_t slots;
    smoe_inspection *inspection;
} inspected;

typedef struct inspect_job {
    const smoe_options *options;
    inspected *run; /* [runs] */
    size_t runs, done;
    const volatile sig_atomic_t *stop; /* a request to stop, once there is a run to show */
    smoe_frame *frame;                 /* [frames] one for each analysis */
    size_t frames;
    const smoe_frame *all, *routing; /* of these, those of the runs and of their layers */
    smoe_origin origin;
    double width; /* of figures, in inches; 0: not given */
} inspect_job;

static void inspect_job_free(inspect_job *job) {
    for (size_t i = 0; i < job->runs; i++) {
        inspected *x = &job->run[i];
        smoe_inspect_free(x->inspection);
        smoe_loaded_free(&x->loaded);
        free(x->label);
        free(x->metrics);
        free(x->image);
        free(x->slot);
    }
    free(job->run);
    smoe_frames_free(job->frame, job->frames);
    smoe_origin_free(&job->origin);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* The argument of --images or --slots, each number once; whether they exist is checked later. */
static int read_numbers(size_t **list, size_t *count, const char *text, const char *option,
                        const char *expected, smoe_err *err) {
    const smoe_option_range range = {0, 0x1p53, .whole = true, .expected = expected};
    size_t most = strlen(text);
    SMOE_FREED double *number = smoe_alloc(most, sizeof *number);
    if (smoe_option_numbers(number, most, count, option, text, &range, err)) return -1;
    *list = smoe_alloc(*count, sizeof **list);
    for (size_t i = 0; i < *count; i++) {
        (*list)[i] = (size_t)number[i];
        for (size_t k = 0; k < i; k++)
            if ((*list)[k] == (*list)[i])
                return smoe_fail(err, SMOE_USAGE, "--%s: %zu is given twice", option, (*list)[i]);
    }
    return 0;
}

/* ---- one run --------------------------------------------------------------------------------- */

static int inspect_find(inspected *x, const char *arg, const smoe_options *options, smoe_err *err) {
    x->label = smoe_alloc_text(arg);
    for (size_t n = strlen(arg); n > 1 && x->label[n - 1] == '/'; n--) x->label[n - 1] = '\0';
    if ((options->images && read_numbers(&x->image, &x->images, options->images, "images",
                                         "image numbers like 0,17,1203", err)) ||
        (options->slots && read_numbers(&x->slot, &x->slots, options->slots, "slots",
                                        "slot numbers like 0,17,1203", err)))
        return -1;
    if (smoe_load_spec(&x->loaded, arg, options, err) ||
        smoe_dataset_outside(&x->loaded.spec, options->out, err))
        return -1;
    /* RUN/metrics.jsonl of RUN/ckpt/STEP/model.safetensors, where it is there */
    SMOE_FREED char *step = smoe_file_folder(x->loaded.path), *ckpt = smoe_file_folder(step);
    SMOE_FREED char *run = smoe_file_folder(ckpt);
    if (!strcmp(basename(ckpt), "ckpt") && smoe_file_holds(run, "metrics.jsonl"))
        x->metrics = smoe_text_format("%s/metrics.jsonl", run);
    return 0;
}

/* Checks that every MoE layer has the requested slots or, for choice routers, experts. */
static int inspect_check_slots(const inspected *x, const smoe_model *model, smoe_err *err) {
    for (size_t l = 0; l < smoe_model_moe_layers(model); l++) {
        const smoe_router *router = smoe_model_router(model, l);
        bool sparse = router->plan.sparse;
        size_t units = sparse ? router->E : router->E * router->P;
        for (size_t i = 0; i < x->slots; i++)
            if (x->slot[i] >= units)
                return smoe_fail(err, SMOE_USAGE,
                                 "--slots: no %zu: blocks.%zu of %s has the %s 0 to %zu",
                                 x->slot[i], smoe_model_moe_block(model, l), x->label,
                                 sparse ? "experts" : "slots", units - 1);
    }
    return 0;
}

static int inspect_look(inspect_job *job, inspected *x, smoe_err *err) {
    const smoe_options *options = job->options;
    smoe_progress progress;
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded loaded = x->loaded;
    smoe_loaded *l = &loaded;
    x->loaded = (smoe_loaded){0};
    smoe_progress_open(&progress, options, "images", NULL);
    if (smoe_load_model(l, err)) return -1;
    smoe_heading_loaded(l, options);
    json_auto_t *env = x->metrics ? smoe_json_beside(x->metrics, "env.json", NULL) : NULL;
    smoe_origin_model(&job->origin, x->label, &l->spec, env);
    if (inspect_check_slots(x, l->model, err)) return -1;
    /* some of the split, where images are needed and none was named */
    size_t all = smoe_dataset_images(l->set), some = all < IMAGES ? all : IMAGES;
    if (!options->images && (options->out || options->dump_routing)) {
        x->image = smoe_alloc(some, sizeof *x->image);
        for (; x->images < some; x->images++) x->image[x->images] = x->images * all / some;
    }
    smoe_inspect_subject subject = {.run = x->label,
                                    .checkpoint = l->path,
                                    .metrics = x->metrics,
                                    .spec = &l->spec,
                                    .set = l->set,
                                    .model = l->model,
                                    .batch = l->batch,
                                    .image = x->image,
                                    .images = x->images,
                                    .random_routers = options->random_routers,
                                    .exchange_experts = options->exchange_experts,
                                    .comm = options->comm,
                                    .progress = smoe_progress_count,
                                    .progress_user = &progress,
                                    .stop = job->stop};
    int status = smoe_inspect_run(&x->inspection, &subject, err);
    if (status && err->code == SMOE_NONFINITE) smoe_fail_prefix(err, "%s", l->path);
    smoe_progress_close(&progress);
    return status ? -1 : smoe_inspect_fill(x->inspection, job->frame, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Existing sheets are replaced, those of other images are removed. */
static int draw_overlays(const inspect_job *job, const smoe_sample *samples, size_t count,
                         bool *drawn, smoe_err *err) {
    SMOE_FREED_BY(smoe_frame_free) smoe_frame tiles = {0};
    const char *out = job->options->out;
    SMOE_FREED char *path = smoe_text_format("%s/overlays/tiles.csv", out);
    smoe_overlays sheets = {.folder = out,
                            .units = {job->run->slot, job->run->slots},
                            .width = job->width,
                            .frame = &tiles};
    smoe_overlays_frame(&tiles);
    if ((job->options->force && smoe_overlays_remove(out, err)) ||
        smoe_overlays_write(&sheets, samples, count, err))
        return -1;
    *drawn = sheets.drawn;
    return smoe_frame_csv(&tiles, path, err);
}

/* Figures, overlays and report, from the images kept of all runs. */
static int inspect_draw(const inspect_job *job, smoe_err *err) {
    const smoe_options *options = job->options;
    size_t count = 0, kept, scripts, drawn;
    if (!options->out) return 0;
    for (size_t i = 0; i < job->done; i++) count += job->run[i].images;
    SMOE_FREED smoe_sample *samples = smoe_alloc(count + 1, sizeof *samples);
    count = 0;
    for (size_t i = 0; i < job->done; i++, count += kept) {
        const smoe_sample *own = smoe_inspect_samples(job->run[i].inspection, &kept);
        memcpy(samples + count, own, kept * sizeof *own);
    }
    SMOE_FREED char *title = NULL;
    for (size_t i = 0; i < job->done; i++)
        smoe_text_add(&title, "%s%s",
                      !i                  ? ""
                      : i + 1 < job->done ? ", "
                                          : " and ",
                      job->run[i].label);
    char runs[32] = "one run";
    if (job->done > 1) snprintf(runs, sizeof runs, "%zu runs", job->done);
    SMOE_FREED char *lead =
        smoe_text_format("What the routers of %s do with the images they are shown.", runs);
    const smoe_report report = {.command = "smoe inspect",
                                .title = title,
                                .lead = lead,
                                .frames = job->frame,
                                .frame_count = job->frames,
                                .samples = samples,
                                .sample_count = count,
                                .origin = job->origin.fact,
                                .origin_count = job->origin.count};
    bool sheets;
    if (draw_overlays(job, samples, count, &sheets, err) ||
        smoe_figures_write(job->frame, job->frames, options->out, job->width, &scripts, &drawn,
                           err))
        return -1;
    if (drawn < scripts || !sheets)
        smoe_cmd_undrawn(options, options->out, "*.gp are the scripts of the figures");
    SMOE_FREED char *path = smoe_text_format("%s/report.html", options->out);
    return smoe_report_write(&report, path, err);
}

/* ---- what is printed ------------------------------------------------------------------------- */

static const char *text_in(const smoe_frame *frame, size_t row, const char *column) {
    return smoe_frame_text_at(frame, row, smoe_frame_find(frame, column));
}

static double number_in(const smoe_frame *frame, size_t row, const char *column) {
    return smoe_frame_number_at(frame, row, smoe_frame_find(frame, column));
}

/* A column of a printed table, which has one line per layer: a number found by the run, the block
 * and perhaps one more column. */
typedef struct shown {
    const char *heading, *frame, *column;
    const char *about; /* text that the column `about` must have; NULL: none */
    size_t rank;       /* number that the column `rank` must have; 0: none */
} shown;

static const shown more[] = {
    {"heavy tokens", "token_weight", "heavy", NULL, 0},
    {"most/least expert", "combine_expert", "times_least", NULL, 1},
    {"slots within", "slot_alignment", "within_mean", NULL, 0},
    {"slots across", "slot_alignment", "across_mean", NULL, 0},
    {"class bits", "expert_information", "bits", "class", 0},
    {"class chance", "expert_information", "by_chance", "class", 0},
    {"position bits", "expert_information", "bits", "position", 0},
    {"position chance", "expert_information", "by_chance", "position", 0},
};

static bool is_of(const inspect_job *job, size_t layer, const smoe_frame *frame, size_t row) {
    return !strcmp(text_in(frame, row, "run"), text_in(job->routing, layer, "run")) &&
           number_in(frame, row, "block") == number_in(job->routing, layer, "block");
}

/* The number for a layer (a row of `routing`); NAN where there is none. */
static double look_up(const inspect_job *job, const shown *column, size_t layer) {
    const smoe_frame *frame = smoe_frames_find(job->frame, job->frames, column->frame);
    for (size_t i = 0; i < frame->rows; i++)
        if (is_of(job, layer, frame, i) &&
            (!column->about || !strcmp(text_in(frame, i, "about"), column->about)) &&
            (!column->rank || number_in(frame, i, "rank") == (double)column->rank))
            return number_in(frame, i, column->column);
    return NAN;
}

/* The number of experts of a layer that have no weight in any token; NAN: none. */
static double unused(const inspect_job *job, size_t layer) {
    const smoe_frame *frame = smoe_frames_find(job->frame, job->frames, "combine_expert");
    size_t count = 0;
    for (size_t i = 0; i < frame->rows; i++)
        count += is_of(job, layer, frame, i) && number_in(frame, i, "weight") == 0;
    return count ? (double)count : NAN;
}

/* The layer of a row, with its run if there are several. */
static void add_layer(smoe_frame *table, const inspect_job *job, size_t layer) {
    char name[32];
    snprintf(name, sizeof name, "blocks.%.0f", number_in(job->routing, layer, "block"));
    smoe_frame_cells(
        table,
        {"run", SMOE_TEXT_OF(job->all->rows > 1 ? text_in(job->routing, layer, "run") : NULL)},
        {"layer", .text = name});
}

/* The columns of `routing` behind run and block. */
static void add_means(smoe_result *result, const inspect_job *job) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (size_t l = 0; l < job->routing->rows; l++) {
        add_layer(table, job, l);
        for (size_t c = 2; c < job->routing->columns; c++) {
            char heading[64];
            snprintf(heading, sizeof heading, "%s", job->routing->column[c].name);
            for (char *at = heading; (at = strchr(at, '_'));) *at = ' ';
            smoe_cell_number(table, heading, smoe_frame_number_at(job->routing, l, c),
                             .format = "%.4g");
        }
        smoe_frame_end(table);
    }
}

static void add_more(smoe_result *result, const inspect_job *job) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (size_t l = 0; l < job->routing->rows; l++) {
        add_layer(table, job, l);
        for (size_t c = 0; c < SMOE_COUNT(more); c++)
            smoe_cell_number(table, more[c].heading, look_up(job, &more[c], l), .format = "%.4g");
        smoe_frame_put(table, {"unused experts", .number = unused(job, l)});
    }
}

/* What --random-routers and --exchange-experts asked for. */
static void add_values(smoe_result *result, const inspect_job *job, const char *name) {
    const smoe_frame *frame = smoe_frames_find(job->frame, job->frames, name);
    smoe_frame *table = frame->rows ? smoe_result_table(result, NULL, NULL) : NULL;
    if (table) table->title = frame->title;
    for (size_t i = 0; i < frame->rows; i++) {
        for (size_t c = 0; c < frame->columns; c++) {
            smoe_column cell = frame->column[c];
            if (cell.words)
                cell.text = smoe_frame_text_at(frame, i, c);
            else
                cell.number = smoe_frame_number_at(frame, i, c);
            smoe_frame_add(table, &cell, 1);
        }
        smoe_frame_end(table);
    }
}

/* The members of a run: a row of `runs`, and its rows of `routing`. */
static void add_run(smoe_result *result, const inspect_job *job, size_t row) {
    const smoe_frame *routing = job->routing;
    const char *run = text_in(job->all, row, "run");
    smoe_result_facts(result, {"run", .text = run},
                      {"checkpoint", SMOE_TEXT_OF(text_in(job->all, row, "checkpoint"))},
                      {"split", SMOE_TEXT_OF(text_in(job->all, row, "split"))},
                      {"images", .number = number_in(job->all, row, "images")},
                      {"router", SMOE_TEXT_OF(text_in(job->all, row, "router"))});
    smoe_frame *layers = smoe_result_records(result, "layers");
    for (size_t l = 0; l < routing->rows; l++) {
        if (strcmp(text_in(routing, l, "run"), run)) continue;
        smoe_cell_number(layers, "block", number_in(routing, l, "block"));
        for (size_t c = 2; c < routing->columns; c++)
            smoe_cell_number(layers, routing->column[c].name, smoe_frame_number_at(routing, l, c));
        smoe_frame_end(layers);
    }
}

static int inspect_write(const inspect_job *job, smoe_err *err) {
    const smoe_options *options = job->options;
    if (options->dump_routing &&
        (smoe_file_make_parents(options->dump_routing, err) ||
         smoe_inspect_dump(job->run->inspection, options->dump_routing, err)))
        return -1;
    /* a table without rows has no file; the file of an earlier inspection is removed */
    for (size_t i = 0; options->out && i < job->frames; i++) {
        const smoe_frame *frame = &job->frame[i];
        SMOE_FREED char *path = smoe_text_format("%s/%s.csv", options->out, frame->name);
        if (frame->rows ? smoe_frame_csv(frame, path, err) : smoe_file_remove(path, err)) return -1;
    }
    return 0;
}

static int inspect_show(const inspect_job *job, int status, smoe_err *err) {
    const smoe_frame *all = job->all;
    smoe_result result = {0};
    json_auto_t *tables = json_object();
    for (size_t i = 0; i < all->rows; i++)
        add_run(all->rows > 1 ? smoe_result_part(&result, "runs") : &result, job, i);
    for (size_t i = 0; i < all->rows; i++)
        smoe_result_line(&result, NULL, "%s, %.0f image%s of %s, router %s",
                         text_in(all, i, "checkpoint"), number_in(all, i, "images"),
                         SMOE_S(number_in(all, i, "images")), text_in(all, i, "split"),
                         text_in(all, i, "router"));
    for (size_t i = 0; i < job->frames; i++)
        if (job->frame[i].rows)
            json_object_set_new(tables, job->frame[i].name, smoe_frame_json(&job->frame[i]));
    smoe_result_members(smoe_result_object(&result, "tables"), tables);
    add_means(&result, job);
    add_more(&result, job);
    add_values(&result, job, "router_value");
    add_values(&result, job, "expert_value");
    return smoe_cmd_emit_anyway(&result, status, job->options, err);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int inspect_check_arguments(inspect_job *job, smoe_err *err) {
    if (smoe_cmd_width(job->options, &job->width, err)) return -1;
    bool gated = false;
    for (size_t i = 0; i < job->runs; i++) {
        const inspected *x = &job->run[i];
        gated |= smoe_router_gated(smoe_router_find(x->loaded.spec.model.moe.router));
        if (!x->loaded.spec.model.moe.layer_count)
            return smoe_fail(err, SMOE_USAGE, "%s has no MoE layer", x->loaded.path);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(x->label, job->run[k].label))
                return smoe_fail(err, SMOE_USAGE, "%s is given twice", x->label);
    }
    if (job->options->random_routers && !gated)
        return smoe_fail(err, SMOE_USAGE, "--random-routers needs a choice router, and %s has %s",
                         job->run->label,
                         smoe_router_find(job->run->loaded.spec.model.moe.router)->name);
    return 0;
}

/* After a request to stop, the runs that are done are shown; after another failure none is. */
static int inspect_all(inspect_job *job, smoe_err *err) {
    int status = 0;
    for (; job->done < job->runs && !status; job->done += !status) {
        if (job->done == 1) status = smoe_cmd_catch(&job->stop, job->options->scan, err);
        if (!status) status = inspect_look(job, &job->run[job->done], err);
    }
    if (status && err->code == SMOE_STOPPED)
        smoe_fail(err, SMOE_STOPPED, "stopped on request after %zu of %zu runs", job->done,
                  job->runs);
    else if (status)
        job->done = 0;
    return status;
}

/* The first process writes and prints when all have counted. */
static int inspect(inspect_job *job, smoe_err *err) {
    const smoe_options *options = job->options;
    smoe_origin_open(&job->origin, options);
    smoe_frames_open(&job->frame, &job->frames);
    job->all = smoe_frames_find(job->frame, job->frames, "runs");
    job->routing = smoe_frames_find(job->frame, job->frames, "routing");
    /* mistakes that are reported before the work and not after it */
    if (smoe_cmd_hold(options, err) || smoe_cmd_target(options->dump_routing, options, err) ||
        smoe_cmd_targets("report.html", options, err))
        return -1;
    for (size_t i = 0; i < job->frames; i++) {
        SMOE_FREED char *file = smoe_text_format("%s.csv", job->frame[i].name);
        if (smoe_cmd_targets(file, options, err)) return -1;
    }
    int status = inspect_all(job, err);
    if (status && !job->done) return -1;
    if (options->comm->rank) return status;
    bool stopped = status, written = !inspect_write(job, err);
    if (!written || (!stopped && inspect_draw(job, err))) status = -1;
    if (inspect_show(job, status, err)) status = -1;
    /* after a request to stop what takes longest comes last */
    if (stopped && written && (smoe_cmd_flush(err) || inspect_draw(job, err))) status = -1;
    if (status) return -1;
    if (options->dump_routing) {
        smoe_result lines = {0};
        smoe_result_line(&lines, "files", "%s", options->dump_routing);
        smoe_heading_print(&lines, options);
    }
    if (!options->out) return 0;
    size_t tables = 0;
    char many[64];
    for (size_t i = 0; i < job->frames; i++) tables += job->frame[i].rows > 0;
    snprintf(many, sizeof many, "%zu tables with their figures", tables);
    smoe_heading_files(options, options->out, "report.html overlays", many);
    return 0;
}

static int inspect_together(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(inspect_job_free) inspect_job job = {.options = options, .runs = options->args};
    job.run = smoe_alloc(job.runs, sizeof *job.run);
    if (job.runs > 1 && options->spec && smoe_spec_is_input(options->spec))
        return smoe_fail(err, SMOE_USAGE,
                         "--spec -: standard input can be read for one model only; write the spec "
                         "to a file");
    for (size_t i = 0; i < job.runs; i++)
        if (inspect_find(&job.run[i], options->arg[i], options, err)) return -1;
    if (inspect_check_arguments(&job, err)) return -1;
    if (options->print_config) return smoe_cmd_print_config(&job.run->loaded.spec, err);
    if (!options->dry_run) return inspect(&job, err);
    smoe_result result = {0};
    smoe_frame *list = smoe_result_records(&result, "runs");
    for (size_t i = 0; i < job.runs; i++) {
        const char *path = job.run[i].loaded.path, *split = job.run[i].loaded.spec.eval.split;
        smoe_frame_put(list, {"checkpoint", .text = path}, {"split", .text = split});
        smoe_result_line(&result, NULL, "would inspect %s on the %s split", path, split);
    }
    return smoe_cmd_emit(&result, options, err);
}

int cmd_inspect(const smoe_options *options, smoe_err *err) {
    return smoe_together(options, inspect_together, err);
}
