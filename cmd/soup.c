/* smoe soup: the mean of the weights of trained models, and what each of them adds. */
#include "cmd.h"
#include "progress.h"
#include "store/implied.h"
#include "store/model_file.h"
#include "store/run_compare.h"
#include "train/soup.h"

#include <sys/stat.h>

typedef struct soup_job {
    smoe_loaded first; /* the spec is the first member's */
    smoe_soup_member *member;
    char **path; /* fresh, in the order of the arguments */
    size_t count;
    char *out; /* the file, or NULL */
} soup_job;

static void forget_members(soup_job *job) {
    smoe_texts_free(job->path, job->count);
    free(job->member);
    job->path = NULL;
    job->member = NULL;
}

static void soup_job_free(soup_job *job) {
    smoe_loaded_free(&job->first);
    forget_members(job);
    free(job->out);
}

/* ---- members --------------------------------------------------------------------------------- */

/* Whether a key that was written in two ways tells the models apart; those of training, as dropout,
 * may differ, and so may the name of the sizes. */
static bool tells_models(const smoe_spec *a, const smoe_spec *b, const char *key) {
    const smoe_moe_spec *own = &a->model.moe, *its = &b->model.moe;
    if (!strcmp(key, "model.moe.layers"))
        return memcmp(own->is_moe, its->is_moe, sizeof own->is_moe) != 0;
    if (!strcmp(key, "data.mean"))
        return smoe_series_differ(&a->data.mean, &b->data.mean, a->data.channels);
    if (!strcmp(key, "data.std"))
        return smoe_series_differ(&a->data.std, &b->data.std, a->data.channels);
    if (!strcmp(key, "model.moe.k") &&
        !smoe_series_differ(&own->choice.k, &its->choice.k, own->layer_count))
        return false;
    if (!strcmp(key, "model.moe.capacity") &&
        !smoe_series_differ(&own->choice.capacity, &its->choice.capacity, own->layer_count))
        return false;
    bool shapes = !strncmp(key, "model.", 6) || !strncmp(key, "text.", 5);
    return shapes && strcmp(key, "model.variant") != 0 &&
           (smoe_spec_acts(a, key) || smoe_spec_acts(b, key));
}

/* Tensors of the same shapes can be those of different models: the routers, for example, or pixels
 * on another scale. A key that only one has is new, and the other has its default. Images may have
 * been prepared otherwise in training, as they may have been augmented otherwise: a remark. */
static int soup_check_model(const char *own, const char *text, const char *path, const char *first,
                            const smoe_options *options, smoe_err *err) {
    if (!own || !text) return 0;
    const smoe_spec_text texts[] = {{.text = own, .label = first, .trained = true},
                                    {.text = text, .label = path, .trained = true}};
    SMOE_FREED_BY(smoe_frame_free) smoe_frame frame = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec a = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec b = {0};
    json_auto_t *values = json_loads(own, 0, NULL), *others = json_loads(text, 0, NULL);
    if (smoe_spec_parse(&a, &texts[0], NULL, 0, err) ||
        smoe_spec_parse(&b, &texts[1], NULL, 0, err))
        return -1;
    smoe_runs_compare_json(&frame, "settings", NULL, values, others);
    for (size_t i = 0; i < frame.rows; i++) {
        const char *key = smoe_frame_text_at(&frame, i, 0);
        if (tells_models(&a, &b, key) && *smoe_frame_text_at(&frame, i, 1) &&
            *smoe_frame_text_at(&frame, i, 2))
            return smoe_fail(
                err, SMOE_USAGE,
                "%s: %s differs from that of %s; the models of a soup must have the same shape, "
                "and get the same pixel values",
                path, key, first);
    }
    char pixels[160];
    if (!options->quiet && *smoe_spec_pixels_apart(&a, &b, pixels, sizeof pixels))
        smoe_cmd_print(stderr,
                       "%s: %s: not as in %s, whose spec prepares the images of all models and of "
                       "the soup\n",
                       path, pixels, first);
    return 0;
}

static int find_members(soup_job *job, const smoe_options *options, smoe_err *err) {
    job->count = options->args;
    job->path = smoe_alloc(job->count, sizeof *job->path);
    job->member = smoe_alloc(job->count, sizeof *job->member);
    SMOE_FREED char *first = NULL;
    for (size_t i = 0; i < job->count; i++) {
        SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
        if (smoe_run_locate(&file, options->arg[i], options->which, err)) return -1;
        const char *text = smoe_safetensors_metadata(file, "smoe.spec");
        job->path[i] = smoe_alloc_text(smoe_safetensors_path(file));
        if (i && soup_check_model(first, text, job->path[i], job->path[0], options, err)) return -1;
        if (options->spec && smoe_implied_check(&job->first.spec, file, true, err)) return -1;
        job->member[i].path = job->path[i];
        if (!i) first = smoe_alloc_text(text);
    }
    return 0;
}

/* A model counts as often as it is given, also by another name for its file. */
static void say_repeated(const soup_job *job) {
    struct stat own, earlier;
    for (size_t i = 1; i < job->count; i++)
        for (size_t k = 0; k < i && !stat(job->path[i], &own); k++)
            if (!stat(job->path[k], &earlier) && own.st_ino == earlier.st_ino &&
                own.st_dev == earlier.st_dev) {
                smoe_cmd_print(stderr, "%s and %s are one model, and both count in the mean\n",
                               job->path[k], job->path[i]);
                break;
            }
}

/* ---- results --------------------------------------------------------------------------------- */

static void soup_add_member(smoe_frame *table, const smoe_soup_member *m) {
    char alone[64], with[64];
    snprintf(alone, sizeof alone, "alone:%s", smoe_metric_name(SMOE_METRIC_PRECISION));
    snprintf(with, sizeof with, "with:%s", smoe_metric_name(SMOE_METRIC_PRECISION));
    smoe_frame_put(
        table, {"path", .text = m->path, .heading = "model"},
        {"alone:loss", .number = m->alone.loss, .heading = "loss", .format = "%.4f"},
        {alone, .number = m->alone.precision_at_1, .heading = "top-1 accuracy", .format = "%.4f"},
        {"in", SMOE_TRUTH_OF(m->in), .where = SMOE_IN_JSON},
        {NULL, .text = m->in ? "yes" : "no", .heading = "stays"},
        {"with:loss", .number = m->with.loss, .heading = "soup loss", .format = "%.4f"},
        {with, .number = m->with.precision_at_1, .heading = "soup top-1 accuracy",
         .format = "%.4f"},
        {"experts_aligned", .number = m->aligned, .heading = "experts aligned", .format = "%.3f"},
        {"experts_cosine", .number = m->cosine, .heading = "cosine", .format = "%.3f"});
}

static int soup_show(const soup_job *job, const smoe_eval *soup, int status,
                     const smoe_options *options, smoe_err *err) {
    smoe_result result = {0};
    const char *kind = options->greedy ? "greedy" : "uniform", *split = job->first.spec.eval.split;
    size_t in = 0;
    double loss = 0;
    smoe_result_facts(&result, {"kind", .text = kind}, {"split", .text = split},
                      {"images", .number = soup->images}, {"soup:loss", .number = soup->loss});
    smoe_cmd_number(&result, soup->precision_at_1, "soup:%s",
                    smoe_metric_name(SMOE_METRIC_PRECISION));
    smoe_frame *table = smoe_result_table(&result, "members", NULL);
    for (size_t i = 0; i < job->count; i++) {
        const smoe_soup_member *m = &job->member[i];
        soup_add_member(table, m);
        in += m->in;
        loss += m->in ? m->alone.loss : 0;
    }
    smoe_result_line(&result, NULL,
                     "%s soup of %zu of %zu on %zu images of the %s split: loss %.4f, top-1 "
                     "accuracy %.4f; mean loss of its members %.4f",
                     kind, in, job->count, soup->images, split, soup->loss, soup->precision_at_1,
                     loss / (double)in);
    const char *file = status ? NULL : job->out;
    smoe_fact_text(&result, "file", file, .optional = true);
    if (file) smoe_result_line(&result, NULL, "%s", file);
    return smoe_cmd_emit_anyway(&result, status, options, err);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* A run that still trains may delete a checkpoint before it has been read; then there is a newer
 * one. */
static int make_again(soup_job *job, const smoe_soup_options *how, const smoe_options *options,
                      smoe_eval *soup, smoe_err *err) {
    enum { TRIES = 20 };
    for (int try = 1;; try++) {
        if (!smoe_soup_make(job->member, job->count, &job->first.spec, job->first.set, how, soup,
                            err))
            return 0;
        bool there = true;
        for (size_t i = 0; i < job->count; i++) there = there && smoe_shards_there(job->path[i]);
        if (there || try == TRIES) return -1;
        forget_members(job);
        if (find_members(job, options, err)) return -1;
    }
}

static int soup_make(soup_job *job, const smoe_options *options, smoe_err *err) {
    smoe_progress shown;
    smoe_eval soup = {0};
    smoe_soup_options how = {.greedy = options->greedy,
                             .out = job->out,
                             .progress = smoe_progress_count,
                             .user = &shown};
    if (smoe_dataset_open(&job->first.set, &job->first.spec, job->first.spec.eval.split,
                          options->scan, err) ||
        smoe_model_file_align(job->first.set, job->first.file, &job->first.spec, err))
        return -1;
    smoe_load_remarks(&job->first);
    smoe_result lines = {0};
    smoe_heading_data(&lines, &job->first.spec, NULL, job->first.set);
    smoe_result_line(&lines, "models", "%zu", job->count);
    smoe_heading_print(&lines, options);
    smoe_progress_open(&shown, options, "evaluations", NULL);
    int status = make_again(job, &how, options, &soup, err);
    smoe_progress_close(&shown);
    if (status && !soup.images) return status;
    if (options->greedy && !options->quiet && !strcmp(job->first.spec.eval.split, "test"))
        fputs("the members were chosen by the test split, so its accuracy is too high an estimate; "
              "eval.split=val chooses by other images\n",
              stderr);
    return soup_show(job, &soup, status, options, err);
}

int cmd_soup(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(soup_job_free) soup_job job = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    if (options->out) job.out = smoe_text_format("%s/model.safetensors", options->out);
    if (smoe_load_spec(&job.first, options->arg[0], options, err) ||
        find_members(&job, options, err) || smoe_cmd_target(job.out, options, err) ||
        smoe_cmd_no_run(options, err) ||
        (job.out && !options->dry_run && smoe_file_make_parents(job.out, err)))
        return -1;
    if (!options->quiet) say_repeated(&job);
    if (!options->dry_run) return soup_make(&job, options, err);
    smoe_result_facts(&result, {"models", .number = job.count},
                      {"split", .text = job.first.spec.eval.split});
    smoe_result_line(&result, NULL, "would evaluate %zu models and their soups on the %s split",
                     job.count, job.first.spec.eval.split);
    return smoe_cmd_emit(&result, options, err);
}
