/* smoe data: what the program sees in a data set: images by class and split, what is damaged, sizes
 * and modes, statistics of pixels, a contact sheet, and near duplicates between splits. */
#include "data.h"
#include "data/archive.h"
#include "draw/contact.h"
#include "spec/sources.h"
#include "spec/tasks.h"
#include "train/evaluate.h"

enum { SIDE = 64, SMALL = 32, SHOWN = 20, LISTED = 5 };

typedef smoe_surveyed split;

/* Images of split b that are nearly images of split a. */
typedef struct near_pairs {
    const split *a, *b;
    char other[256]; /* a in words */
    bool against;    /* a is one of another data set */
    smoe_near *pair;
    size_t count;
} near_pairs;

typedef struct data_job {
    smoe_spec spec;
    split split[SMOE_SPLITS];
    size_t splits;             /* that are there */
    smoe_err why[SMOE_SPLITS]; /* of those that are not */
    const char *path;
    near_pairs near[SMOE_SPLITS * (SMOE_SPLITS + 1)];
    size_t nears;
    size_t left_out;
} data_job;

/* ---- PATH ------------------------------------------------------------------------------------ */

static int guess_member(void *user, const smoe_member *member, smoe_err *err) {
    smoe_source *source = user;
    const char *name = basename(member->name);
    (void)err;
    if (member->folder) return name > member->name;
    if (!strncmp(name, "data_batch_", 11) || !strcmp(name, "test_batch") ||
        !strcmp(name, "test_batch.bin"))
        *source = SMOE_SOURCE_CIFAR10;
    if (!strcmp(name, "train") || !strcmp(name, "test") || !strcmp(name, "train.bin") ||
        !strcmp(name, "test.bin"))
        *source = SMOE_SOURCE_CIFAR100;
    if (strstr(name, "-idx3-ubyte") || strstr(name, ".idx3-ubyte")) *source = SMOE_SOURCE_IDX;
    return 0;
}

/* The source that a path looks like. The source itself reports what is wrong with the path. */
static smoe_source guess(const char *path, smoe_scan *scan) {
    smoe_source source = SMOE_SOURCE_FOLDER;
    if (strchr(path, '{') && access(path, F_OK)) return SMOE_SOURCE_WEBDATASET;
    (void)!smoe_walk(path, &(smoe_visitor){guess_member, &source, scan}, NULL);
    return source;
}

/* A spec, or a path with the keys of a spec that only has data. */
static int read_data_spec(data_job *job, const smoe_options *options, smoe_err *err) {
    const char *path = job->path;
    if (smoe_cmd_names_spec(path)) return smoe_cmd_spec(&job->spec, path, options, err);
    if (!smoe_text_printable(path))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: the path of data must be printable UTF-8 text; rename it, or give a "
                         "symbolic link to it",
                         path);
    static const char key[] = "data.source=";
    const char *given = NULL;
    for (size_t i = 0; i < options->overrides; i++)
        if (!strncmp(options->assign[i], key, sizeof key - 1))
            given = options->assign[i] + sizeof key - 1;
    const char *source = given ? given : smoe_sources[guess(path, options->scan)].name;
    bool grey = !strcmp(source, "idx"), small = grey || !strncmp(source, "cifar", 5);
    json_auto_t *spec =
        json_pack("{s:s, s:{s:s, s:s, s:i, s:i}, s:{s:i}}", "name", "data", "data", "source",
                  given ? "image-folder" : source, "path", path, "image_size", small ? SMALL : SIDE,
                  "channels", grey ? 1 : 3, "model", "patch_size", 1);
    SMOE_FREED char *text = smoe_json_dump(spec, 0);
    return smoe_spec_parse(&job->spec, &(smoe_spec_text){.text = text, .label = path},
                           options->assign, options->overrides, err);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Another name for a split that was seen: val stands in for test, or both are held out. */
static bool is_seen(const data_job *job, const smoe_dataset *set) {
    char a[SMOE_IMAGE_NAME], b[SMOE_IMAGE_NAME];
    for (size_t i = 0; i < job->splits; i++) {
        const smoe_dataset *other = job->split[i].set;
        if (strcmp(job->split[i].name, "train") != 0 &&
            smoe_dataset_images(other) == smoe_dataset_images(set) &&
            smoe_dataset_checksum(other) == smoe_dataset_checksum(set) &&
            !strcmp(smoe_dataset_image_name(other, 0, a, sizeof a),
                    smoe_dataset_image_name(set, 0, b, sizeof b)))
            return true;
    }
    return false;
}

static int look_at_splits(data_job *job, smoe_scan *scan, smoe_err *err) {
    for (size_t k = 0; k < SMOE_SPLITS; k++) {
        split *s = &job->split[job->splits];
        *s = (split){.name = smoe_split_name[k]};
        if (smoe_survey_open(&s->set, &job->spec, smoe_split_name[k], scan, &job->why[k])) {
            if (job->why[k].code != SMOE_DATA) return *err = job->why[k], -1;
            continue;
        }
        if (k && is_seen(job, s->set)) {
            smoe_dataset_free(s->set);
            s->set = NULL;
            continue;
        }
        job->splits++;
        job->left_out += smoe_dataset_found(s->set)->left_out;
        size_t N = smoe_dataset_classes(s->set);
        SMOE_FREED size_t *label = smoe_alloc(N, sizeof *label);
        s->count = smoe_alloc(N, sizeof *s->count);
        for (size_t i = 0; i < smoe_dataset_images(s->set); i++) {
            size_t some = smoe_dataset_all_labels(s->set, i, label, N);
            for (size_t c = 0; c < some && c < N; c++) s->count[label[c]]++;
        }
        if (smoe_survey_of(&s->survey, s->set, scan, err)) return -1;
    }
    if (job->splits) return 0;
    *err = job->why[0];
    return -1;
}

/* Looks at a folder without splits as if that share of it was held out. */
static int look_parted(data_job *job, double share, smoe_scan *scan, smoe_err *err) {
    if (!look_at_splits(job, scan, err)) return 0;
    if (err->code != SMOE_DATA || job->spec.data.source != SMOE_SOURCE_FOLDER ||
        job->spec.data.holdout > 0)
        return -1;
    job->spec.data.holdout = share;
    memset(job->why, 0, sizeof job->why);
    *err = (smoe_err){0};
    return look_at_splits(job, scan, err);
}

/* That of --against, at the size of the images of `spec`; a folder without splits as a whole. */
static int data_look_against(data_job *job, const smoe_spec *spec, const smoe_options *options,
                             smoe_err *err) {
    smoe_options plain = *options; /* key=value is for the first data set */
    plain.overrides = 0;
    job->path = options->against;
    if (read_data_spec(job, &plain, err)) return -1;
    job->spec.data.image_size = spec->data.image_size;
    job->spec.data.channels = spec->data.channels;
    if (!look_parted(job, 0.5, options->scan, err)) return 0; /* both halves */
    if (!smoe_file_is_folder(options->against)) return -1;
    return smoe_fail_more(err, err->code,
                          "--against needs no classes, only folders: move images that are in none "
                          "into one, as %s/all",
                          options->against);
}

/* ---- near duplicates ------------------------------------------------------------------------- */

static void find_near(data_job *job, const split *a, const split *b, const char *of) {
    near_pairs *n = &job->near[job->nears];
    *n = (near_pairs){.a = a, .b = b, .against = of != NULL};
    snprintf(n->other, sizeof n->other, "%s%s%s", a->name, of ? " of " : "", of ? of : "");
    n->pair = smoe_survey_near(&n->count, &a->survey, &b->survey);
    job->nears++;
}

/* A line that begins with # would be a comment. */
static void print_name(FILE *out, const char *name) {
    fprintf(out, "%s%s\n", *name == '#' ? "./" : "", name);
}

/* Names of the images of a split that are near some of the other data set, each once, and of those
 * that cannot be decoded. */
static void print_excluded(FILE *out, const data_job *job, const split *s) {
    char name[SMOE_IMAGE_NAME];
    SMOE_FREED bool *near = smoe_alloc(s->survey.images + 1, sizeof *near);
    for (size_t k = 0; k < job->nears; k++)
        for (size_t i = 0; job->near[k].against && job->near[k].b == s && i < job->near[k].count;
             i++)
            near[job->near[k].pair[i].b] = true;
    for (size_t i = 0; i < s->survey.images; i++)
        if (near[i]) print_name(out, smoe_dataset_image_name(s->set, i, name, sizeof name));
    const smoe_dataset_report *found = smoe_dataset_found(s->set);
    for (size_t i = 0; i < found->damaged; i++) print_name(out, found->name[i]);
}

static int data_print_list(FILE *out, const void *context, smoe_err *err) {
    const data_job *job = context;
    (void)err;
    fprintf(out,
            "# images of %s that are near duplicates of another data set, or damaged; "
            "data.exclude takes this file\n",
            job->path);
    for (size_t k = 0; k < job->splits; k++) print_excluded(out, job, &job->split[k]);
    return 0;
}

static void data_job_free(data_job *job) {
    for (size_t k = 0; k < SMOE_SPLITS; k++) {
        smoe_dataset_free(job->split[k].set);
        smoe_survey_free(&job->split[k].survey);
        free(job->split[k].count);
    }
    for (size_t k = 0; k < job->nears; k++) free(job->near[k].pair);
    smoe_spec_free(&job->spec);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The split that has the most classes: of shards whose classes are numbers, each has as many as it
 * uses. */
static const smoe_dataset *data_widest(const data_job *job) {
    const smoe_dataset *set = job->split[0].set;
    for (size_t k = 1; k < job->splits; k++)
        if (smoe_dataset_named(job->split[k].set) > smoe_dataset_named(set))
            set = job->split[k].set;
    return set;
}

/* Without -v the first classes are on the screen. */
static void data_add_classes(smoe_frame *frame, const data_job *job, bool all) {
    const smoe_dataset *widest = data_widest(job);
    smoe_frame_init(frame, "classes", "Classes", "images of each class, by split", NULL);
    for (size_t c = 0; c < smoe_dataset_classes(widest); c++) {
        const char *name = smoe_dataset_class_name(widest, c);
        char shown[64];
        smoe_frame_cells(
            frame, {NULL, .text = smoe_text_shown(name, shown, sizeof shown), .heading = "class"},
            {"class", .number = c, .where = SMOE_IN_FILES},
            {"name", .text = name, .where = SMOE_IN_FILES});
        for (size_t k = 0; k < job->splits; k++) {
            const split *s = &job->split[k];
            bool there = c < smoe_dataset_classes(s->set);
            smoe_cell_number(frame, s->name, there ? (double)s->count[c] : 0);
        }
        smoe_frame_end_shown(frame, all || c < SHOWN);
    }
}

static void near_frame(smoe_frame *frame, const data_job *job) {
    smoe_frame_init(frame, "near_duplicates", "Near duplicates",
                    "images of a split that are near duplicates of images of another split",
                    "split* image path* other* near near_path* difference");
    char a[SMOE_IMAGE_NAME], b[SMOE_IMAGE_NAME];
    for (size_t k = 0; k < job->nears; k++)
        for (size_t i = 0; i < job->near[k].count; i++) {
            const near_pairs *n = &job->near[k];
            const smoe_near *p = &n->pair[i];
            smoe_frame_put(
                frame, {"split", .text = n->b->name}, {"image", .number = p->b},
                {"path", .text = smoe_dataset_image_name(n->b->set, p->b, b, sizeof b)},
                {"other", .text = n->other}, {"near", .number = p->a},
                {"near_path", .text = smoe_dataset_image_name(n->a->set, p->a, a, sizeof a)},
                {"difference", .number = p->difference});
        }
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *const kind_name[SMOE_IMAGE_KINDS] = {
    [SMOE_IMAGE_JPEG] = "JPEG", [SMOE_IMAGE_PNG] = "PNG", [SMOE_IMAGE_WEBP] = "WebP"};
static const char *const mode_name[SMOE_IMAGE_MODES] = {[SMOE_MODE_GREY] = "grey",
                                                        [SMOE_MODE_COLOUR] = "colour",
                                                        [SMOE_MODE_GREY_ALPHA] = "transparent grey",
                                                        [SMOE_MODE_COLOUR_ALPHA] =
                                                            "transparent colour",
                                                        [SMOE_MODE_PALETTE] = "palette",
                                                        [SMOE_MODE_INKS] = "CMYK"};

/* "JPEG 30, PNG 2": what there is of each; buf is returned. */
static const char *counts_text(char *buf, size_t size, const char *const *name, const size_t *count,
                               size_t n) {
    *buf = '\0';
    for (size_t k = 0; k < n; k++)
        if (count[k]) smoe_text_list(buf, size, "%s %zu", name[k], count[k]);
    return buf;
}

/* The same as members of an object. */
static void data_add_counts(smoe_result *part, const char *key, const char *const *name,
                            const size_t *count, size_t n) {
    for (size_t k = 0; k < n; k++)
        if (count[k]) smoe_cmd_number(part, (double)count[k], "%s:%s", key, name[k]);
}

static void add_sides(smoe_frame *frame, const char *heading, const smoe_survey *v,
                      const double side[3]) {
    char text[80];
    if (side[0] == side[2])
        snprintf(text, sizeof text, "%.0f", side[0]);
    else
        snprintf(text, sizeof text, "%.0f .. %.9g .. %.0f", side[0], side[1], side[2]);
    smoe_cell_text(frame, heading, v->files ? text : NULL);
}

static void add_split(smoe_result *result, smoe_frame *frame, const split *s) {
    const smoe_survey *v = &s->survey;
    size_t left_out = smoe_dataset_found(s->set)->left_out;
    char text[160];
    smoe_frame_cells(frame, {"split", .text = s->name}, {"images", .number = v->images},
                     {"left out", .number = left_out});
    add_sides(frame, "width", v, v->width);
    add_sides(frame, "height", v, v->height);
    smoe_frame_put(frame,
                   {"files", SMOE_TEXT_OF(v->files ? counts_text(text, sizeof text, kind_name,
                                                                 v->kind, SMOE_IMAGE_KINDS)
                                                   : NULL)});

    smoe_result *part = smoe_result_part(result, "splits");
    smoe_result_facts(part, {"split", .text = s->name}, {"images", .number = v->images},
                      {"left_out", .number = left_out}, {"looked_at", .number = v->looked});
    smoe_result_numbers(part, "mean", v->mean, v->channels);
    smoe_result_numbers(part, "std", v->std, v->channels);
    smoe_fact_number(part, "seconds_per_image", v->seconds);
    if (!v->files) return;
    for (size_t k = 0; k < 3; k++) {
        static const char *const of[] = {"min", "median", "max"};
        smoe_cmd_number(part, v->width[k], "width:%s", of[k]);
        smoe_cmd_number(part, v->height[k], "height:%s", of[k]);
    }
    data_add_counts(part, "formats", kind_name, v->kind, SMOE_IMAGE_KINDS);
    data_add_counts(part, "modes", mode_name, v->mode, SMOE_IMAGE_MODES);
    smoe_result_facts(part, {"cropped", .number = v->cropped[0]}, {"deep", .number = v->deep},
                      {"turned", .number = v->turned});
}

static void add_pixels(smoe_result *result, const data_job *job) {
    const smoe_survey *v = &job->split[0].survey;
    char modes[200];
    if (v->files)
        smoe_result_line(result, "modes", "%s%s",
                         counts_text(modes, sizeof modes, mode_name, v->mode, SMOE_IMAGE_MODES),
                         v->deep ? "; some with 16 bits per sample" : "");
    if (v->cropped[0] > 0.01 && job->spec.data.fit == SMOE_IMAGE_CROP)
        smoe_result_line(result, "crop",
                         "the central square leaves out %.0f %% of the pixels of an image on "
                         "average, %.0f %% at most; data.fit=squash and data.fit=border keep all",
                         100 * v->cropped[0], 100 * v->cropped[1]);
    if (v->turned)
        smoe_result_line(result, "turned", "%zu image%s of %s %s an EXIF orientation: %s",
                         v->turned, SMOE_S(v->turned), job->split[0].name,
                         v->turned == 1 ? "has" : "have",
                         job->spec.data.orientation == SMOE_ORIENTATION_APPLY
                             ? "turned upright"
                             : "left as stored; data.orientation=apply turns them upright");
    smoe_result_line(result, "pixels", "of %s at %zu x %zu:", job->split[0].name,
                     job->spec.data.image_size, job->spec.data.image_size);
    for (int part = 0; part < 2; part++) {
        const double *value = part ? v->std : v->mean;
        smoe_result_more(result, " data.%s=[", part ? "std" : "mean");
        for (size_t c = 0; c < v->channels; c++)
            smoe_result_more(result, "%s%.4f", c ? ", " : "", value[c]);
        smoe_result_more(result, "]");
    }
    smoe_result_line(result, "time", "%.3g ms per image on one thread, to read, decode and resize",
                     1e3 * v->seconds);
}

static void add_near(smoe_result *result, const data_job *job, const smoe_frame *frame) {
    for (size_t k = 0, row = 0; k < job->nears; k++) {
        const near_pairs *n = &job->near[k];
        smoe_result_line(result, "near",
                         "%zu of %zu images of %s are near duplicates of images of %s", n->count,
                         n->b->survey.looked, n->b->name, n->other);
        for (size_t i = 0; i < n->count; i++, row++)
            if (i < LISTED)
                smoe_result_line(result, "", "%s  %s", smoe_frame_text_at(frame, row, 2),
                                 smoe_frame_text_at(frame, row, 5));
        if (n->count > LISTED) smoe_result_line(result, "", "... and %zu more", n->count - LISTED);
    }
}

/* One line per remark, with all splits that have it: one listing of files has several splits. */
static void add_remarks(smoe_result *result, const data_job *job) {
    smoe_frame *table = smoe_result_records(result, "remarks");
    for (size_t k = 0; k < job->splits; k++)
        for (size_t i = 0; i < smoe_dataset_found(job->split[k].set)->remarks; i++) {
            const char *remark = smoe_dataset_found(job->split[k].set)->remark[i];
            char splits[40] = "";
            size_t first = 0;
            smoe_frame_put(table, {"split", .text = job->split[k].name},
                           {"remark", .text = remark});
            while (!smoe_dataset_remarked(job->split[first].set, remark)) first++;
            if (first < k) continue; /* its line stands already */
            for (size_t n = k; n < job->splits; n++)
                if (smoe_dataset_remarked(job->split[n].set, remark))
                    smoe_text_list(splits, sizeof splits, "%s", job->split[n].name);
            smoe_result_line(result, "remark", "%s: %s", splits, remark);
        }
    const split *train = &job->split[0];
    for (size_t k = 1; k < job->splits && !strcmp(train->name, "train"); k++) {
        SMOE_FREED char *remark = smoe_dataset_untrained(job->split[k].set, train->set);
        if (!remark || smoe_task_pairs(job->spec.train.loss)) continue;
        smoe_frame_put(table, {"split", .text = job->split[k].name}, {"remark", .text = remark});
        smoe_result_line(result, "remark", "%s", remark);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Beside the tables. */
static int write_files(const data_job *job, const smoe_options *options, smoe_err *err) {
    SMOE_FREED char *excluded = smoe_text_format("%s/exclude.txt", options->out);
    bool drawn = false, excludes = options->against;
    for (size_t k = 0; k < job->splits; k++)
        excludes |= smoe_dataset_found(job->split[k].set)->damaged > 0;
    if (smoe_contact_write(job->split[0].set, &job->spec, options->out, &drawn, err) ||
        smoe_cmd_flush(err))
        return -1;
    if (!drawn)
        smoe_cmd_undrawn(options, options->out, "contact.gp is the script of the sheet with names");
    if (excludes && (smoe_cmd_target(excluded, options, err) ||
                     smoe_file_print(excluded, data_print_list, job, err)))
        return -1;
    SMOE_FREED char *files = smoe_text_format("contact.png contact.svg contact-images.png "
                                              "classes.csv near_duplicates.csv left_out.csv%s",
                                              excludes ? " exclude.txt" : "");
    smoe_heading_files(options, options->out, files, NULL);
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int data_show(const data_job *job, const smoe_options *options, smoe_err *err) {
    smoe_result result = {0};
    const smoe_dataset *set = job->split[0].set;
    const smoe_dataset_report *found = smoe_dataset_found(set);
    const char *source = smoe_sources[job->spec.data.source].name;
    size_t classes_of = smoe_dataset_classes(data_widest(job));
    smoe_result_facts(&result, {"path", .text = options->arg[0]}, {"source", .text = source},
                      {"image_size", .number = job->spec.data.image_size});
    smoe_result_line(&result, NULL, "%s: %s, %zu class%s", options->arg[0], source, classes_of,
                     SMOE_ES(classes_of));
    smoe_frame *splits = smoe_result_table(&result, NULL, NULL);
    for (size_t k = 0; k < job->splits; k++) add_split(&result, splits, &job->split[k]);
    smoe_frame *classes = smoe_result_frame(&result, "classes", true);
    smoe_frame *near = smoe_result_frame(&result, "near_duplicates", false);
    smoe_frame *left_out = smoe_result_frame(&result, "left_out", false);
    data_add_classes(classes, job, options->verbose);
    near_frame(near, job);
    smoe_frame_init(left_out, "left_out", "Left out", "what cannot be used, and why",
                    "split* problem*");
    for (size_t k = 0; k < job->splits; k++)
        for (size_t i = 0; i < SMOE_LEFT; i++) {
            const smoe_dataset_report *of = smoe_dataset_found(job->split[k].set);
            if (i < of->left_out)
                smoe_frame_put(left_out, {"split", .text = job->split[k].name},
                               {"problem", .text = of->left[i]});
        }
    int status = options->out ? smoe_result_csv(&result, options->out, err) : 0;
    if (classes->hidden) smoe_result_line(&result, NULL, "-v shows all classes");
    add_pixels(&result, job);
    add_near(&result, job, near);
    smoe_result *others = smoe_result_object(&result, "others");
    for (size_t k = 0; k < found->others.endings; k++)
        smoe_fact_number(others, found->others.ending[k].text, found->others.ending[k].count,
                         .plain = true);
    add_remarks(&result, job);
    for (size_t i = 0; i < left_out->rows && i < SHOWN; i++)
        smoe_result_line(&result, NULL, "left out: %s", smoe_frame_text_at(left_out, i, 1));
    if (job->left_out > SHOWN)
        smoe_result_line(&result, NULL, "left out: ... and %zu more", job->left_out - SHOWN);
    if (smoe_cmd_emit_anyway(&result, status, options, err)) return -1;
    return options->out ? write_files(job, options, err) : 0;
}

/* Whether training would take each split with data.on_error skip. */
static int check_skipped(const data_job *job, smoe_err *err) {
    for (size_t k = 0; k < job->splits; k++) {
        const smoe_dataset_report *found = smoe_dataset_found(job->split[k].set);
        size_t left = found->left_out, all = left + smoe_dataset_images(job->split[k].set);
        if (left * SMOE_LEFT_MOST <= all) continue;
        SMOE_FREED char *remedy = smoe_dataset_remedy(found);
        return smoe_fail(err, SMOE_DATA,
                         "%zu of %zu images of %s cannot be used, more than one of %d: "
                         "training refuses them, even with data.on_error=skip; %s",
                         left, all, job->split[k].name, SMOE_LEFT_MOST, remedy);
    }
    return 0;
}

static int verdict(const data_job *job, smoe_err *err) {
    bool evaluates = job->spec.train.eval_every > 0;
    for (size_t k = 0; k < SMOE_SPLITS; k++) /* the splits that training opens */
        if (job->why[k].code &&
            (!k || (evaluates && !strcmp(smoe_split_name[k], job->spec.eval.split))))
            return *err = job->why[k], -1;
    for (size_t k = 1; k < job->splits; k++)
        if (evaluates && !strcmp(job->split[k].name, job->spec.eval.split) &&
            smoe_evaluate_check_classes(job->split[k].set, job->split[k].name, job->split[0].set,
                                        err))
            return -1;
    if (!job->left_out) return 0;
    if (check_skipped(job, err)) return -1;
    if (job->spec.data.on_error == SMOE_ON_ERROR_SKIP) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%zu image%s cannot be used; data.on_error=skip trains without %s",
                     job->left_out, SMOE_S(job->left_out), job->left_out == 1 ? "it" : "them");
}

int cmd_data(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(data_job_free) data_job job = {.path = options->arg[0]};
    SMOE_FREED_BY(data_job_free) data_job against = {0};
    if (read_data_spec(&job, options, err) || smoe_dataset_outside(&job.spec, options->out, err) ||
        (!options->suggest && smoe_cmd_hold(options, err)) ||
        smoe_cmd_targets("contact-images.png classes.csv near_duplicates.csv left_out.csv", options,
                         err) ||
        (options->suggest ? look_parted(&job, 0.1, options->scan, err)
                          : look_at_splits(&job, options->scan, err)) ||
        (options->against && data_look_against(&against, &job.spec, options, err)))
        return -1;
    for (size_t j = 0; j < job.splits; j++)
        for (size_t i = 0; i < j; i++) find_near(&job, &job.split[i], &job.split[j], NULL);
    for (size_t i = 0; i < against.splits; i++)
        for (size_t j = 0; j < job.splits; j++)
            find_near(&job, &against.split[i], &job.split[j], against.path);
    if (!options->suggest) return data_show(&job, options, err) ? -1 : verdict(&job, err);
    if (verdict(&job, err)) return -1; /* training would refuse the spec */
    return smoe_data_suggest(&job.split[0], &job.spec, job.path, options, err);
}
