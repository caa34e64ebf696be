/*
 * smoe train: a spec, a run directory, and the training loop of train/trainer.h between them. This
 * file chooses spec and directory, handles signals, and does the dry run, which prints the cost of
 * the spec.
 */
#include "cmd.h"
#include "progress.h"
#include "base/clock.h"
#include "base/stop.h"
#include "spec/routers.h"
#include "draw/plot.h"
#include "inspect/inspect.h"
#include "spec/sources.h"
#include "spec/tasks.h"
#include "store/implied.h"
#include "store/model_file.h"
#include "store/env.h"
#include "tensors/init_map.h"
#include "train/moments_init.h"

#include <time.h>

/* ---- which spec, which directory ------------------------------------------------------------- */

typedef struct train_job {
    char *file; /* the spec's; fresh */
    char *dir;  /* the run directory; fresh */
    smoe_run_mode mode;
    smoe_spec *spec;
} train_job;

/* SPEC, RUN with --resume, or with --resume and -o no argument at all. */
static int choose_spec(train_job *job, const smoe_options *options, smoe_err *err) {
    const char *arg = options->args ? options->arg[0] : options->out;
    if (!options->args && !(options->resume && options->out)) {
        smoe_fail(err, SMOE_USAGE, "SPEC.yaml is missing (or --resume RUN, to continue a run)");
        return smoe_cmd_taken(options, err);
    }
    bool input = options->args && smoe_spec_is_input(arg), run = !input && smoe_file_is_folder(arg);
    if (run && options->profile)
        return smoe_fail(err, SMOE_USAGE, "--profile is for a new run; %s has its spec", arg);
    if (run && !options->resume && smoe_cmd_no_model(arg, err)) return -1;
    if (run && !options->resume)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a directory; --resume continues a run, a new one needs a spec, "
                         "which smoe data --suggest prints for a folder of images",
                         arg);
    if (run && options->args && options->out)
        return smoe_fail(err, SMOE_USAGE, "%s is the run to resume; -o %s cannot be used with it",
                         arg, options->out);
    SMOE_FREED char *word = smoe_shell_word(arg);
    if (options->resume && !input && !run && (!options->args || smoe_cmd_missing_folder(arg)))
        return smoe_fail(err, SMOE_USAGE,
                         "%s is not a run directory; nothing to resume: `smoe train SPEC.yaml -o "
                         "%s` starts a run",
                         arg, word);
    SMOE_FREED char *continued = smoe_text_format(
        "; `smoe sweep --resume %s` continues it, or `smoe ablate --resume %s`", word, word);
    if (run && smoe_run_no_sweep(arg, continued, err)) return -1;
    if (run && !smoe_file_holds(arg, "spec.yaml"))
        return smoe_fail(err, SMOE_USAGE,
                         smoe_file_holds(arg, "STATUS")
                             ? "%s has lost its spec.yaml; `smoe verify %s --repair` restores it"
                             : "%s has no spec.yaml, so it is no run; --resume takes the folder of "
                               "a run, --init a checkpoint",
                         arg, word);
    job->file = run ? smoe_text_format("%s/spec.yaml", arg) : smoe_alloc_text(arg);
    if (run) job->dir = smoe_alloc_text(arg);
    return 0;
}

/* In env.json of a run of --find-lr. */
#define FIND_LR "find_lr"

/* Its spec.yaml has other rates than the spec that was given, and it has no checkpoint. Before
 * version 1.0.2 only its command line shows it. */
static int check_resumed(const train_job *job, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/env.json", job->dir);
    json_auto_t *env = smoe_json_read(path, NULL);
    bool found = json_is_true(json_object_get(env, FIND_LR));
    json_t *word;
    size_t i;
    json_array_foreach(json_object_get(env, "argv"), i, word) {
        found |= json_is_string(word) && !strncmp(json_string_value(word), "--find", 6);
    }
    if (job->mode != SMOE_RUN_RESUME || !found) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "%s: made by --find-lr, which cannot be resumed; train the spec itself, with "
                     "train.optimizer.lr=RATE, or look for the rate again with --find-lr --force",
                     job->dir);
}

static void train_job_free(train_job *job) {
    free(job->file);
    free(job->dir);
    smoe_spec_free(job->spec);
}

/* ---- remarks on requested settings that are not used as given -------------------------------- */

/* Rounding, and at least one place per buffer, can change a small capacity. */
static void remark_capacity(const smoe_spec *spec) {
    const smoe_moe_spec *moe = &spec->model.moe;
    bool listed = moe->choice.k.listed || moe->choice.capacity.listed;
    for (size_t i = 0, said = 0; smoe_moe_chooses(moe) && i < spec->model.depth; i++) {
        if (!moe->is_moe[i] || (said && !listed)) continue;
        smoe_moe_shape x = smoe_moe_shape_of(moe, i, smoe_spec_tokens(spec));
        double force = (double)x.S / ((double)x.K * (double)x.T);
        char block[32] = "";
        if (listed) snprintf(block, sizeof block, ", block %zu", i);
        if (fabs(force / x.capacity - 1) > 0.1)
            fprintf(
                stderr,
                "model.moe.capacity%s: %g requested, %.3g in effect: a buffer has %zu place%s\n",
                block, x.capacity, force, x.P, SMOE_S(x.P));
        said++;
    }
}

/* Remarks on warm-up and cooldown that were shortened to fit into the steps of a short trial. */
static void remark_schedule(const smoe_spec *spec) {
    const struct {
        const char *key;
        size_t steps;
    } part[] = {{"train.schedule.warmup", spec->train.schedule.warmup.steps},
                {"train.schedule.cooldown", spec->train.schedule.cooldown.steps}};
    for (size_t i = 0; i < SMOE_COUNT(part); i++)
        if (smoe_spec_shortened(spec, part[i].key))
            fprintf(stderr, "%s: shortened to %zu step%s to fit train.steps=%zu\n", part[i].key,
                    part[i].steps, SMOE_S(part[i].steps), spec->train.steps);
}

/* Experts are divided over the processes that there are; a resume may have fewer than before. */
static void remark_processes(const smoe_spec *spec, const smoe_options *options) {
    double over = spec->train.experts_over;
    int size = options->comm->size;
    if (options->resume || over == SMOE_WORD || over <= size) return;
    fprintf(stderr, "train.experts_over: %g requested, %d in effect: there %s %d process%s\n", over,
            size, size == 1 ? "is" : "are", size, SMOE_ES(size));
}

static void remark(const train_job *job, const smoe_options *options) {
    if (options->quiet) return;
    if (job->spec->sweep.seen)
        smoe_cmd_print(stderr, "%s: section sweep is ignored; smoe sweep runs its cells\n",
                       job->file);
    remark_schedule(job->spec);
    if (job->spec->model.moe.layer_count) remark_capacity(job->spec);
    if (job->spec->model.moe.layer_count) remark_processes(job->spec, options);
}

/* ---- the dry run ----------------------------------------------------------------------------- */

typedef struct train_plan {
    const train_job *job;
    const smoe_spec *spec;
    smoe_dataset *train, *test;
    smoe_err why;       /* the data was not read */
    bool other_classes; /* than those of the file to start from */
    uint32_t *order;    /* of its classes, or NULL */
    size_t classes;
    smoe_model *model; /* it is not reserved */
    char *start;       /* what the model takes from that file, or NULL; */
    char *of_head;     /* what to say of its head */
    smoe_cost cost;
    smoe_estimate estimate;
} train_plan;

static void plan_free(train_plan *p) {
    smoe_dataset_free(p->train);
    smoe_dataset_free(p->test);
    smoe_model_free(p->model);
    smoe_cost_free(&p->cost);
    free(p->start);
    free(p->of_head);
    free(p->order);
}

static void add_data(smoe_result *plan, const train_plan *p) {
    const smoe_data_spec *data = &p->spec->data;
    const char *source = smoe_sources[data->source].name;
    smoe_result *in = smoe_result_object(plan, "data"), *images;
    smoe_result_facts(in, {"source", SMOE_TEXT_OF(source)}, {"path", SMOE_TEXT_OF(data->path)});
    images = smoe_result_object(in, "images");
    if (!p->why.code) smoe_fact_number(images, "train", (double)smoe_dataset_images(p->train));
    if (!p->why.code && p->test)
        smoe_fact_number(images, p->spec->eval.split, smoe_dataset_images(p->test));
    if (!p->why.code)
        smoe_heading_data(plan, p->spec, p->train, p->test);
    else
        smoe_result_line(plan, "data", "%s%s%s, not read: %.*s", source, data->path ? " " : "",
                         data->path ? data->path : "", (int)strcspn(p->why.text, "\n"),
                         p->why.text);
}

static void add_moe(smoe_result *plan, const smoe_spec *spec) {
    const smoe_moe_spec *moe = &spec->model.moe;
    smoe_frame *layers = smoe_result_records(plan, "moe_layers");
    for (size_t i = 0; i < spec->model.depth; i++) {
        if (!moe->is_moe[i]) continue;
        smoe_moe_shape x = smoe_moe_shape_of(moe, i, smoe_spec_tokens(spec));
        char label[32];
        smoe_frame_put(layers, {"block", .number = i}, {"router", .text = moe->router},
                       {"tokens", .number = x.T}, {"experts", .number = x.E},
                       {"slots_per_expert", .number = x.P}, {"slots", .number = x.S},
                       {"slots_over_tokens", .number = (double)x.S / (double)x.T});
        snprintf(label, sizeof label, "blocks.%zu", i);
        if (x.K)
            smoe_result_line(
                plan, label,
                "%s: %zu image%s = T %zu token%s, E %zu expert%s, K %zu, C %g: buffers of %zu",
                moe->router, x.images, SMOE_S(x.images), x.T, SMOE_S(x.T), x.E, SMOE_S(x.E), x.K,
                x.capacity, x.P);
        else
            smoe_result_line(
                plan, label,
                "%s: T %zu token%s, E %zu expert%s x P %zu slot%s = S %zu slot%s, S/T %.3g",
                moe->router, x.T, SMOE_S(x.T), x.E, SMOE_S(x.E), x.P, SMOE_S(x.P), x.S, SMOE_S(x.S),
                (double)x.S / (double)x.T);
    }
}

static void add_totals(smoe_result *plan, const train_plan *p) {
    const smoe_spec *spec = p->spec;
    const smoe_cost *cost = &p->cost;
    const smoe_estimate *estimate = &p->estimate;
    char a[48], b[32], c[32];
    smoe_cmd_parameters(plan, cost);
    smoe_result_line(plan, "training", "%zu step%s of %zu image%s; %s per image, %s in total",
                     spec->train.steps, SMOE_S(spec->train.steps), spec->train.batch_size,
                     SMOE_S(spec->train.batch_size),
                     smoe_text_si(a, sizeof a, cost->flops_train_per_image, "FLOP"),
                     smoe_text_si(b, sizeof b, 1e18 * cost->train_exaflop, "FLOP"));
    smoe_text_si(a, sizeof a, smoe_cost_bytes_sum(&cost->bytes), "B");
    smoe_text_si(b, sizeof b, cost->bytes.activations, "B");
    if (estimate->fits) {
        smoe_result_line(plan, "memory", "%s, of which %s activations", a, b);
        smoe_result_line(plan, "time", "%s", smoe_cmd_estimate_text(a, sizeof a, estimate));
    } else {
        smoe_result_line(plan, "memory",
                         "%s, of which %s activations; it does not fit: this machine has %s", a, b,
                         smoe_text_si(c, sizeof c, smoe_estimate_memory(), "B"));
    }
}

/* What can hardly be meant. */
static void add_doubts(smoe_result *plan, const train_plan *p) {
    enum { EPOCHS = 100, HOURS = 3, PARAMETERS = 100000 };
    const smoe_data_spec *data = &p->spec->data;
    const double images = p->why.code ? 0 : (double)smoe_dataset_images(p->train);
    double epochs = images > 0 ? smoe_heading_epochs(p->spec, p->train) : 0;
    bool augmented = data->augment.crop || data->augment.flip || data->augment.randaugment.n ||
                     data->augment.mixup > 0 || data->augment.cutmix > 0;
    bool generated = !data->path;
    char a[48];
    size_t doubts = 0;
    if (images > 0 && !generated && !augmented && epochs > EPOCHS && ++doubts)
        smoe_result_line(plan, "remark",
                         "%.0f epochs of the same %.0f images, without data.augment", epochs,
                         images);
    if (images > 0 && !generated && !p->start && p->cost.params > PARAMETERS * images && ++doubts)
        smoe_result_line(plan, "remark", "%s parameters for %.0f images",
                         smoe_text_si(a, sizeof a, p->cost.params, ""), images);
    if (p->estimate.fits && p->estimate.seconds > HOURS * 3600 && ++doubts)
        smoe_result_line(plan, "remark", "%.0f hours", p->estimate.seconds / 3600);
    if (!doubts || generated) return;
    SMOE_FREED char *path = smoe_shell_word(data->path);
    smoe_result_line(plan, NULL, "`smoe data %s --suggest` prints a spec for this data", path);
}

static void train_add_plan(smoe_result *plan, const train_plan *p) {
    const smoe_spec *spec = p->spec;
    const smoe_model_spec *m = &spec->model;
    smoe_result_facts(
        plan, {"dir", .text = p->job->dir, .heading = "run"},
        {"steps", .number = spec->train.steps}, {"batch", .number = spec->train.batch_size},
        {"classes", .number = p->classes}, {"tokens", .number = smoe_spec_tokens(spec)});
    add_data(plan, p);
    smoe_result_line(plan, "model",
                     "width %zu, depth %zu, mlp %zu, heads %zu; %zu token%s per image (%zu px, "
                     "patch %zu), %zu class%s",
                     m->width, m->depth, m->mlp, m->heads, smoe_spec_tokens(spec),
                     SMOE_S(smoe_spec_tokens(spec)), spec->data.image_size, m->patch_size,
                     p->classes, SMOE_ES(p->classes));
    smoe_fact_text(plan, "start", p->start, .heading = "start", .optional = true);
    if (p->of_head) smoe_result_line(plan, NULL, "%s", p->of_head);
    add_moe(plan, spec);
    smoe_cmd_cost(plan, &p->cost);
    add_totals(plan, p);
    add_doubts(plan, p);
    smoe_result_facts(plan, {"seconds", .number = p->estimate.seconds},
                      {"measured", SMOE_TRUTH_OF(p->estimate.measured)},
                      {"fits", SMOE_TRUTH_OF(p->estimate.fits)});
    smoe_heading_optimizer(plan, spec, p->model);
}

static smoe_fit fit_of(const smoe_options *options) {
    return options->upcycle   ? SMOE_FIT_UPCYCLE
           : options->partial ? SMOE_FIT_PARTIAL
                              : SMOE_FIT_INIT;
}

static int plan_start(train_plan *p, const smoe_safetensors *file, const smoe_options *options,
                      smoe_err *err) {
    smoe_params *params = smoe_model_params(p->model);
    params->headless = p->other_classes;
    params->head_order = p->order;
    if (smoe_params_check(params, file, fit_of(options), err) ||
        (!options->partial && smoe_implied_check(p->spec, file, false, err)) ||
        (options->moments && smoe_moments_init_check(file, p->spec, fit_of(options), err)))
        return -1;
    p->start = smoe_init_map_text(params, file, fit_of(options));
    if (p->train && !smoe_task_pairs(p->spec->train.loss))
        p->of_head = smoe_model_file_classes_text(p->train, file, p->other_classes);
    return 0;
}

static int dry_run(const train_job *job, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(plan_free) train_plan p = {.job = job, .spec = job->spec};
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    smoe_result plan = {0};
    smoe_estimator by = {0};
    if (smoe_cmd_classes(job->spec, true, &p.classes, options->scan, err) ||
        (options->init && smoe_cmd_model(&file, options->init, NULL, options, err)))
        return -1;
    /* if the data is missing but the classes are known, a dry run still continues */
    bool seen = !smoe_dataset_list(&p.train, p.spec, "train", options->scan, &p.why);
    if (seen && file && !smoe_task_pairs(p.spec->train.loss))
        p.other_classes = smoe_model_file_other_classes(p.train, file, &p.order);
    if (seen && p.spec->train.eval_every)
        (void)!smoe_dataset_list(&p.test, p.spec, p.spec->eval.split, options->scan, &p.why);
    if (smoe_model_create(&p.model, job->spec, p.classes, err) ||
        (file && plan_start(&p, file, options, err)) ||
        smoe_cost_estimate(&p.cost, job->spec, p.classes, err) ||
        smoe_estimate_make(&p.estimate, &by, job->spec, p.classes, &p.cost, err))
        return -1;
    train_add_plan(&plan, &p);
    return smoe_cmd_emit(&plan, options, err);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void add_eval(smoe_result *result, const char *of, const smoe_eval *eval) {
    if (!eval->images) return;
    smoe_cmd_number(result, (double)eval->images, "%s:images", of);
    smoe_cmd_number(result, eval->loss, "%s:loss", of);
    smoe_cmd_number(result, eval->precision_at_1, "%s:%s", of,
                    smoe_metric_name(SMOE_METRIC_PRECISION));
}

static int train_report(const train_job *job, const smoe_train_result *r, double seconds,
                        const smoe_options *options, smoe_err *err) {
    bool tested = r->test.images > 0, done = isnan(r->train_loss);
    smoe_result result = {0};
    smoe_result_facts(&result, {"dir", .text = job->dir}, {"step", .number = r->step},
                      {smoe_metrics[SMOE_METRIC_TRAIN_LOSS].column, .number = r->train_loss},
                      {"step_seconds", .number = r->step_seconds});
    add_eval(&result, "test", &r->test);
    add_eval(&result, "ema", &r->average);
    if (tested) {
        smoe_cmd_number(&result, r->best, "best:%s", smoe_metric_name(SMOE_METRIC_PRECISION));
        smoe_fact_number(&result, "best:step", r->best_step);
    }
    if (done) {
        bool all = r->step >= job->spec->train.steps;
        smoe_result_line(&result, NULL, "%s: %s%llu step%s done; set %s to train longer", job->dir,
                         all ? "all " : "", (unsigned long long)r->step, SMOE_S(r->step),
                         all ? "train.steps=N" : "train.patience=0");
        return smoe_cmd_emit(&result, options, err);
    }
    const char *split = job->spec->eval.split;
    bool two = tested && !strcmp(split, "train"); /* losses of the same images */
    char loss[32];
    smoe_result_line(&result, NULL, "%s: %llu step%s, %s %s", job->dir, (unsigned long long)r->step,
                     SMOE_S(r->step), two ? "loss of the last batch" : "train loss",
                     smoe_cmd_loss(loss, sizeof loss, r->train_loss));
    if (tested)
        smoe_result_more(&result, ", %s loss %s, top-1 accuracy %.4f (best %.4f at step %llu)",
                         split, smoe_cmd_loss(loss, sizeof loss, r->test.loss),
                         r->test.precision_at_1, r->best, (unsigned long long)r->best_step);
    if (r->average.images)
        smoe_result_more(&result, "; averaged weights: loss %.4f, top-1 accuracy %.4f",
                         r->average.loss, r->average.precision_at_1);
    smoe_fact_text(&result, "remark", *r->remark ? r->remark : NULL, .optional = true);
    if (*r->remark) smoe_result_line(&result, NULL, "%s", r->remark);
    if (smoe_cmd_emit(&result, options, err)) return -1;
    static const char files[] = "spec.yaml metrics.jsonl metrics.csv log.txt ckpt/latest ckpt/best";
    smoe_result lines = {0};
    char wall[32], used[32];
    smoe_result_line(&lines, "time", "%s; processor time %s",
                     smoe_cmd_time(wall, sizeof wall, seconds),
                     smoe_cmd_time(used, sizeof used, (double)clock() / CLOCKS_PER_SEC));
    smoe_heading_print(&lines, options);
    smoe_heading_files(options, job->dir, files, NULL);
    return 0;
}

/* ---- --find-lr ------------------------------------------------------------------------------- */

/* The loss over the rates, and a line at the one that is suggested. */
static int draw_rates(const smoe_find_rate *find, double suggested, const char *dir, bool *drawn,
                      smoe_err *err) {
    SMOE_FREED_BY(smoe_plot_free)
    smoe_plot plot = {.name = "find-lr", .title = "Loss of a run whose learning rate grows"};
    smoe_panel *panel = smoe_plot_panel(&plot);
    smoe_mark *line = smoe_plot_points(panel);
    strcpy(line->name, "running mean of the loss");
    for (size_t i = 0; i < find->steps; i++)
        smoe_plot_add_point(line, find->rate[i], find->loss[i], 0, false);
    line = smoe_plot_points(panel);
    strcpy(line->name, "suggested rate");
    smoe_plot_add_point(line, suggested, find->least, 0, false);
    smoe_plot_add_point(line, suggested, find->loss[0], 0, false);
    strcpy(panel->x.label, "learning rate");
    strcpy(panel->y.label, "training loss");
    smoe_plot_fit(panel, 10);
    return smoe_plot_draw(&plot, dir, 0, drawn, err);
}

static int report_rates(const train_job *job, const smoe_find_rate *find,
                        const smoe_options *options, smoe_err *err) {
    static const char files[] = "metrics.csv find-lr.svg find-lr.gp";
    double suggested = smoe_find_rate_result(find);
    bool drawn;
    smoe_result result = {0};
    if (isnan(suggested))
        return smoe_fail(err, SMOE_NONFINITE,
                         "%s: the loss grew within %zu steps, before a rate could be suggested",
                         job->dir, find->steps);
    if (draw_rates(find, suggested, job->dir, &drawn, err)) return -1;
    smoe_result_facts(&result, {"dir", .text = job->dir}, {"steps", .number = find->steps},
                      {"lr", .number = suggested},
                      {"highest", .number = find->rate[find->steps - 1]});
    smoe_result_line(&result, NULL,
                     "train.optimizer.lr=%g is suggested: %zu steps with rates from %.0e to %.2g; "
                     "the spec has %g",
                     suggested, find->steps, find->rate[0], find->rate[find->steps - 1],
                     find->given);
    if (smoe_cmd_emit(&result, options, err)) return -1;
    if (!drawn) smoe_cmd_undrawn(options, job->dir, "find-lr.gp");
    smoe_heading_files(options, job->dir, files, NULL);
    return 0;
}

static int train(const train_job *job, const smoe_options *options, smoe_err *err) {
    static const smoe_option_range shares = {0, 100, .expected = "a number in [0, 100]"};
    smoe_progress progress;
    double noise = 0;
    smoe_file_choice choice;
    if ((options->upcycle_noise && smoe_option_numbers(&noise, 1, NULL, "upcycle-noise",
                                                       options->upcycle_noise, &shares, err)) ||
        smoe_cmd_choice(&choice, options, err))
        return -1;
    if (options->find_lr && options->comm->size > 1)
        return smoe_fail(err, SMOE_USAGE, "--find-lr is for one process");
    const volatile sig_atomic_t *stop;
    if (smoe_cmd_catch(&stop, NULL, err)) return -1;
    smoe_progress_open(&progress, options, NULL, stop);
    smoe_train_options how = {.dir = job->dir,
                              .mode = job->mode,
                              .comm = options->comm,
                              .init = options->init,
                              .choice = choice,
                              .fit = fit_of(options),
                              .moments = options->moments,
                              .noise = noise,
                              .env = smoe_env_here(options->argc, options->argv),
                              .stop = stop,
                              .save = smoe_save_request(),
                              .scan = options->scan,
                              .observer = &progress.observer,
                              .draw = smoe_inspect_events};
    smoe_train_result result = {0};
    smoe_find_rate find;
    if (options->find_lr) {
        smoe_find_rate_begin(progress.find = &find, job->spec);
        json_object_set_new(how.env, FIND_LR, json_true());
    }
    double start = smoe_now();
    bool taken = job->mode == SMOE_RUN_NEW && smoe_file_is_folder(job->dir);
    int status = smoe_train(job->spec, &how, &result, err);
    smoe_progress_close(&progress);
    if (options->find_lr && (!status || err->code == SMOE_NONFINITE))
        return report_rates(job, &find, options, err);
    if (!status) return train_report(job, &result, smoe_since(start), options, err);
    bool kept = !options->find_lr && (result.step || job->mode == SMOE_RUN_RESUME);
    SMOE_FREED char *dir = smoe_shell_word(job->dir);
    if (err->code == SMOE_STOPPED && kept)
        smoe_fail_more(err, SMOE_STOPPED, "`smoe train --resume %s` continues", dir);
    else if (err->code != SMOE_STOPPED && taken)
        smoe_fail_more(err, SMOE_USAGE, "-o DIR chooses another directory");
    return -1;
}

static int train_together(const smoe_options *options, smoe_err *err) {
    smoe_spec spec = {0};
    SMOE_FREED_BY(train_job_free) train_job job = {.spec = &spec};
    if (choose_spec(&job, options, err) ||
        smoe_cmd_read(&spec, job.file, options, options->assign, options->overrides, err))
        return -1;
    if (job.dir) /* job.file is what the run wrote down */
        smoe_spec_continue(&spec);
    else
        smoe_cmd_remarks(&spec, options);
    job.mode = options->resume ? SMOE_RUN_RESUME : options->force ? SMOE_RUN_FORCE : SMOE_RUN_NEW;
    if (!job.dir && options->out) job.dir = smoe_alloc_text(options->out);
    if (!job.dir)
        job.dir = smoe_text_format("runs/%s-%llu%s", spec.name, (unsigned long long)spec.seed,
                                   options->find_lr ? "-find-lr" : "");
    if (check_resumed(&job, err) || smoe_cmd_folder(job.dir, err)) return -1;
    if (options->dry_run && job.mode == SMOE_RUN_RESUME &&
        smoe_run_check_resume(job.dir, &spec, err))
        return -1;
    if (options->print_config) return smoe_cmd_print_config(&spec, err);
    remark(&job, options);
    smoe_cmd_planned(job.dir, !access(job.dir, F_OK), options);
    return options->dry_run ? dry_run(&job, options, err) : train(&job, options, err);
}

int cmd_train(const smoe_options *options, smoe_err *err) {
    return smoe_together(options, train_together, err);
}
