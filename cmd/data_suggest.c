/* smoe data --suggest: a spec that fits the data, with the reason for each choice; see data.h. */
#include "cmd.h"
#include "data.h"
#include "spec/sources.h"

#include <ctype.h>
#include <math.h>

typedef struct suggestion {
    size_t images, classes, side, patch, width, depth, batch, epochs, steps;
    size_t least, middle; /* shorter sides of the images: least, median; 0: not known */
    bool digits;          /* grey: mirrored, they would be others */
} suggestion;

/* Sizes of models by the images that there are to learn from. */
static const struct {
    size_t images, width, depth, epochs;
} sizes[] = {{2000, 64, 4, 100},
             {20000, 128, 6, 60},
             {200000, 192, 8, 40},
             {2000000, 384, 12, 20},
             {SIZE_MAX, 512, 12, 10}};

static size_t least_of(size_t a, size_t b) {
    return a < b ? a : b;
}

static void suggest(suggestion *s, const smoe_data_job *job) {
    const smoe_survey *survey = &job->split[0].survey;
    size_t i = 0, most;
    *s = (suggestion){.images = smoe_dataset_images(job->split[0].set),
                      .classes = smoe_dataset_classes(job->split[0].set),
                      .digits = job->spec.data.channels == 1};
    if (survey->files) {
        s->least = least_of(survey->width[0], survey->height[0]);
        s->middle = least_of(survey->width[1], survey->height[1]);
    }
    /* 64 tokens, or 196 where many images teach them */
    most = s->middle ? s->middle : s->digits ? 28 : 32;
    s->side = most < 48 ? 32 : most < 96 || s->images < 20000 ? 64 : most < 192 ? 128 : 224;
    s->patch = s->side == 224 ? 16 : s->side / 8;
    while (s->images > sizes[i].images) i++;
    s->width = sizes[i].width;
    s->depth = sizes[i].depth;
    s->epochs = sizes[i].epochs;
    s->batch = s->images < 640 ? 16 : s->images < 20000 ? 64 : 128;
    if (s->batch > s->images) s->batch = s->images;
    s->steps = (s->epochs * s->images + s->batch - 1) / s->batch;
}

/* The keys of the data that the user gave, besides those below. */
static void put_given(FILE *out, const smoe_options *options) {
    static const char *const own[] = {"data.source=", "data.path=",     "data.image_size=",
                                      "data.mean=",   "data.std=",      "data.augment",
                                      "data.fit=",    "data.channels=", "data.holdout="};
    for (size_t i = 0; i < options->overrides; i++) {
        const char *text = options->assign[i], *equal = strchr(text, '=');
        bool again =
            strncmp(text, "data.", 5) != 0 || memchr(text, '.', (size_t)(equal - text)) != text + 4;
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            again |= !strncmp(text, own[k], strlen(own[k]));
        if (!again)
            fprintf(out, "  %.*s: %s  # as given\n", (int)(equal - text - 5), text + 5, equal + 1);
    }
}

static void put_data(FILE *out, const suggestion *s, const smoe_data_job *job,
                     const smoe_options *options) {
    const smoe_data_spec *data = &job->spec.data;
    const smoe_survey *survey = &job->split[0].survey;
    char list[2][64] = {"", ""};
    for (size_t c = 0; c < data->channels; c++)
        for (int k = 0; k < 2; k++)
            sprintf(list[k] + strlen(list[k]), "%s%.4f", c ? ", " : "",
                    fmax(k ? survey->std[c] : survey->mean[c], k ? 0.01 : 0));
    fprintf(out, "data:\n  source: %s\n  path: %s\n", smoe_sources[data->source].name, data->path);
    put_given(out, options);
    if (data->holdout > 0)
        fprintf(out, "  holdout: %g  # this share of the images is for evaluations\n",
                data->holdout);
    fprintf(out, "  channels: %zu\n", data->channels);
    if (s->middle)
        fprintf(out, "  image_size: %zu  # the shorter sides have %zu pixels in the median\n",
                s->side, s->middle);
    else
        fprintf(out, "  image_size: %zu\n", s->side);
    if (survey->cropped[0] > 0.15)
        fprintf(out, "  fit: squash  # a central square would leave out %.0f %% of the pixels\n",
                100 * survey->cropped[0]);
    fprintf(out, "  mean: [%s]  # of the pixels of train\n  std: [%s]\n", list[0], list[1]);
    fprintf(out, "  augment:\n    crop: %s  # %s\n    flip: %s  # %s\n",
            s->side > 32 ? "inception" : "pad",
            s->side > 32 ? "parts of the image, of any size" : "shifted by a few pixels",
            s->digits ? "false" : "true",
            s->digits ? "grey images may be digits or letters" : "if left and right mean nothing");
}

static void put_rest(FILE *out, const suggestion *s) {
    size_t tokens = (s->side / s->patch) * (s->side / s->patch), experts = s->width < 128 ? 8 : 16;
    fprintf(out,
            "model:\n  variant: none\n  patch_size: %zu  # %zu tokens per image\n  width: %zu  # a "
            "small model for %zu images\n  depth: %zu\n  mlp: %zu\n  heads: %zu\n  moe:\n    "
            "layers: last-%zu  # the second half, as in Soft MoE\n    router: soft\n    experts: "
            "%zu\n    total_slots: %zu  # at most one per token: the compute of the dense model\n",
            s->patch, tokens, s->width, s->images, s->depth, 4 * s->width, s->width / 32,
            s->depth / 2, experts, tokens / experts * experts);
    fprintf(out,
            "train:\n  batch_size: %zu\n  steps: %zu  # %zu epochs of %zu images\n  loss: softmax\n"
            "  optimizer: {name: adam, lr: 1e-3, weight_decay: 0.05, head_weight_decay: 0.05, "
            "clip: 1.0}\n  schedule: {name: cosine, warmup: %zu}  # a tenth of the steps\n"
            "  eval_every: %zu\n  checkpoint_every: %zu\n",
            s->batch, s->steps, s->epochs, s->images, s->steps / 10 + 1, s->steps / 10 + 1,
            s->steps / 10 + 1);
}

int smoe_data_suggest(const smoe_data_job *job, const smoe_options *options, smoe_err *err) {
    suggestion s;
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED char *text = NULL;
    size_t size = 0;
    if (!job->splits || !job->split[0].survey.looked)
        return smoe_fail(err, SMOE_DATA, "%s: no images to suggest a spec for", job->path);
    suggest(&s, job);
    const char *slash = strrchr(job->path, '/'), *name = slash ? slash + 1 : job->path;
    FILE *out = smoe_alloc_stream(&text, &size);
    fprintf(out, "# For %zu images of %zu classes; smoe train -n tells what it costs.\n", s.images,
            s.classes);
    if (isalpha((unsigned char)*name))
        fprintf(out, "name: %.*s\n", (int)strcspn(name, ". :#'\"{}[]\\"), name);
    put_data(out, &s, job, options);
    put_rest(out, &s);
    smoe_alloc_stream_close(out, &text);
    if (smoe_spec_parse(&spec, text, strlen(text), "the suggestion", NULL, NULL, 0, err)) return -1;
    smoe_cmd_print(stdout, "%s", text);
    return 0;
}
