/* smoe data: reading the data sets; see data.h. */
#include "data.h"
#include "cmd.h"
#include "data/archive.h"
#include "spec/sources.h"

enum { SPLITS = SMOE_DATA_SPLITS, SIDE = 64 };
const char *const smoe_data_split_name[] = {"train", "test", "val"};

typedef smoe_data_split split;
typedef smoe_data_near near_pairs;
typedef smoe_data_job data_job;

/* ---- PATH ------------------------------------------------------------------------------------ */

static int guess_member(void *user, const smoe_member *member, smoe_err *err) {
    smoe_source *source = user;
    const char *slash = strrchr(member->name, '/'), *name = slash ? slash + 1 : member->name;
    (void)err;
    if (member->folder) return slash != NULL;
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
static smoe_source guess(const char *path) {
    smoe_source source = SMOE_SOURCE_FOLDER;
    if (strchr(path, '{')) return SMOE_SOURCE_WEBDATASET;
    (void)!smoe_walk(path, guess_member, &source, NULL);
    return source;
}

static bool is_spec(const char *path) {
    const char *dot = strrchr(path, '.');
    return !strcmp(path, "-") || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
}

/* A spec, or a path with the keys of a spec that only has data. */
static int read_data_spec(data_job *job, const smoe_options *options, smoe_err *err) {
    const char *path = job->path;
    if (is_spec(path)) return smoe_cmd_spec(&job->spec, path, options, err);
    bool given = false;
    for (size_t i = 0; i < options->overrides; i++)
        given |= !strncmp(options->assign[i], "data.source=", strlen("data.source="));
    const char *source = given ? "image-folder" : smoe_sources[guess(path)].name;
    bool grey = !strcmp(source, "idx");
    json_auto_t *spec = json_pack("{s:s, s:{s:s, s:s, s:i, s:i}, s:{s:i}}", "name", "data", "data",
                                  "source", source, "path", path, "image_size", SIDE, "channels",
                                  grey ? 1 : 3, "model", "patch_size", 1);
    SMOE_FREED char *text = spec ? json_dumps(spec, 0) : NULL;
    return text ? smoe_spec_parse(&job->spec, text, strlen(text), path, NULL, options->assign,
                                  options->overrides, err)
                : smoe_fail(err, SMOE_USAGE, "%s: a path that is not UTF-8", path);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Another name for a split that was seen: val stands in for test, or both are held out. */
static bool is_seen(const data_job *job, const smoe_dataset *set) {
    char a[SMOE_IMAGE_NAME], b[SMOE_IMAGE_NAME];
    for (size_t i = 0; i < job->splits; i++) {
        const smoe_dataset *other = job->split[i].set;
        if (smoe_dataset_images(other) == smoe_dataset_images(set) &&
            !strcmp(smoe_dataset_image_name(other, 0, a, sizeof a),
                    smoe_dataset_image_name(set, 0, b, sizeof b)))
            return true;
    }
    return false;
}

static void count_classes(split *s) {
    size_t N = smoe_dataset_classes(s->set), n = smoe_dataset_images(s->set), most = N;
    SMOE_FREED size_t *label = smoe_alloc(N, sizeof *label);
    s->count = smoe_alloc(N, sizeof *s->count);
    for (size_t i = 0; i < n; i++) {
        size_t some = smoe_dataset_all_labels(s->set, i, label, most);
        for (size_t k = 0; k < some && k < most; k++) s->count[label[k]]++;
    }
}

static int look_at_splits(data_job *job, smoe_err *err) {
    for (size_t k = 0; k < SPLITS; k++) {
        split *s = &job->split[job->splits];
        *s = (split){.name = smoe_data_split_name[k]};
        if (smoe_survey_open(&s->set, &job->spec, smoe_data_split_name[k], &job->why[k])) {
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
        count_classes(s);
        if (smoe_survey_of(&s->survey, s->set, err)) return -1;
    }
    if (job->splits) return 0;
    *err = job->why[0];
    return -1;
}

/* Looks at a folder without splits as if that share of it was held out. */
static int look_parted(data_job *job, double share, smoe_err *err) {
    if (!look_at_splits(job, err)) return 0;
    if (err->code != SMOE_DATA || job->spec.data.source != SMOE_SOURCE_FOLDER ||
        job->spec.data.holdout > 0)
        return -1;
    job->spec.data.holdout = share;
    memset(job->why, 0, sizeof job->why);
    *err = (smoe_err){0};
    return look_at_splits(job, err);
}

int smoe_data_look(data_job *job, const char *path, const smoe_options *options, smoe_err *err) {
    job->path = path;
    if (read_data_spec(job, options, err)) return -1;
    return options->suggest ? look_parted(job, 0.1, err) : look_at_splits(job, err);
}

int smoe_data_look_against(data_job *job, const smoe_spec *spec, const smoe_options *options,
                           smoe_err *err) {
    smoe_options plain = *options; /* key=value is for the first data set */
    plain.overrides = 0;
    job->path = options->against;
    if (read_data_spec(job, &plain, err)) return -1;
    job->spec.data.image_size = spec->data.image_size;
    job->spec.data.channels = spec->data.channels;
    return look_parted(job, 0.5, err); /* both halves */
}

/* ---- near duplicates ------------------------------------------------------------------------- */

static void add_near(data_job *job, const split *a, const split *b, const char *of) {
    near_pairs *n = &job->near[job->nears];
    *n = (near_pairs){.a = a, .b = b, .against = of != NULL};
    snprintf(n->other, sizeof n->other, "%s%s%s", a->name, of ? " of " : "", of ? of : "");
    n->pair = smoe_survey_near(&n->count, &a->survey, &b->survey);
    job->nears++;
}

void smoe_data_compare(data_job *job, const data_job *against) {
    for (size_t i = 0; i < job->splits; i++)
        for (size_t j = i + 1; j < job->splits; j++)
            add_near(job, &job->split[i], &job->split[j], NULL);
    for (size_t i = 0; against && i < against->splits; i++)
        for (size_t j = 0; j < job->splits; j++)
            add_near(job, &against->split[i], &job->split[j], against->path);
}

/* Names of the images of a split that are near some of the other data set, each once. */
static void print_excluded(FILE *out, const data_job *job, const split *s) {
    char name[SMOE_IMAGE_NAME];
    SMOE_FREED bool *near = smoe_alloc(s->survey.images + 1, sizeof *near);
    for (size_t k = 0; k < job->nears; k++)
        for (size_t i = 0; job->near[k].against && job->near[k].b == s && i < job->near[k].count;
             i++)
            near[job->near[k].pair[i].b] = true;
    for (size_t i = 0; i < s->survey.images; i++)
        if (near[i]) fprintf(out, "%s\n", smoe_dataset_image_name(s->set, i, name, sizeof name));
}

static int print_list(FILE *out, const void *context, smoe_err *err) {
    const data_job *job = context;
    (void)err;
    fprintf(out, "# near duplicates in %s; data.exclude takes this file\n", job->path);
    for (size_t k = 0; k < job->splits; k++) print_excluded(out, job, &job->split[k]);
    return 0;
}

int smoe_data_write_excluded(const data_job *job, const smoe_options *options, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/exclude.txt", options->out);
    if (smoe_cmd_target(path, options, err)) return -1;
    return smoe_file_print(path, print_list, job, err);
}

void smoe_data_job_free(data_job *job) {
    for (size_t k = 0; k < SPLITS; k++) {
        smoe_dataset_free(job->split[k].set);
        smoe_survey_free(&job->split[k].survey);
        free(job->split[k].count);
    }
    for (size_t k = 0; k < job->nears; k++) free(job->near[k].pair);
    smoe_spec_free(&job->spec);
}
