/* smoe data --suggest: a spec that fits the data, with the reason for each choice. */
#include "data.h"
#include "spec/schema.h"
#include "spec/sources.h"

#include <ctype.h>

typedef struct suggestion {
    size_t images, classes, side, patch, width, depth, batch, epochs, steps;
    size_t middle; /* the median of the shorter sides of the images, rounded down; 0: not known */
    bool digits;   /* grey: mirrored, they would be others */
    bool several;  /* some images have several classes */
} suggestion;

/* Sizes of models by the images that there are to learn from. */
static const struct {
    size_t images, width, depth, epochs;
} sizes[] = {{2000, 64, 4, 100},
             {20000, 128, 6, 60},
             {200000, 192, 8, 40},
             {2000000, 384, 12, 20},
             {SIZE_MAX, 512, 12, 10}};

/* Sides by the images: no image is enlarged by much, and few images are shrunk to 64 pixels. */
static const struct {
    size_t side, from, images;
} sides[] = {{32, 0, 0},      {48, 48, 0},       {64, 64, 0},
             {96, 96, 20000}, {128, 128, 20000}, {224, 192, 20000}};

static void suggest(suggestion *s, const smoe_surveyed *first, size_t channels) {
    const smoe_survey *survey = &first->survey;
    size_t i = 0, side = 0, most;
    *s = (suggestion){.images = smoe_dataset_images(first->set),
                      .classes = smoe_dataset_classes(first->set),
                      .digits = channels == 1,
                      .several = smoe_dataset_multi(first->set)};
    s->middle = (size_t)survey->shorter;
    /* 64 tokens, or 196 where many images teach them */
    most = s->middle ? s->middle : s->digits ? 28 : 32;
    while (side + 1 < SMOE_COUNT(sides) && sides[side + 1].from <= most &&
           sides[side + 1].images <= s->images)
        side++;
    s->side = sides[side].side;
    s->patch = s->side == 224 ? 16 : s->side / 8;
    while (s->images > sizes[i].images) i++;
    s->width = sizes[i].width;
    s->depth = sizes[i].depth;
    s->epochs = sizes[i].epochs;
    s->batch = s->images < 640 ? 16 : s->images < 20000 ? 64 : 128;
    if (s->batch > s->images) s->batch = s->images;
    s->steps = (s->epochs * s->images + s->batch - 1) / s->batch;
}

/* Whether a central square would leave out so much that images are better squashed. */
static bool is_oblong(const smoe_survey *survey) {
    return survey->cropped[0] > 0.15;
}

/* Whether images should be turned upright, and the user has not said what to do with them. */
static bool needs_turning(const smoe_survey *survey, const smoe_spec *spec) {
    int key = smoe_schema_find("data.orientation");
    return survey->turned && spec->origin[key].kind < SMOE_FROM_FILE;
}

/* Reads the first split as the suggested spec does, on which its pixels depend. */
static int look_again(smoe_surveyed *first, smoe_spec *spec, const suggestion *s, smoe_scan *scan,
                      smoe_err *err) {
    smoe_data_spec *data = &spec->data;
    smoe_fit_of_image fit = is_oblong(&first->survey) ? SMOE_IMAGE_SQUASH : SMOE_IMAGE_CROP;
    bool turn = needs_turning(&first->survey, spec);
    if (data->image_size == s->side && data->fit == fit && !turn) return 0;
    data->image_size = s->side;
    data->fit = fit;
    if (turn) data->orientation = SMOE_ORIENTATION_APPLY;
    smoe_dataset_free(first->set);
    smoe_survey_free(&first->survey);
    first->set = NULL;
    if (smoe_survey_open(&first->set, spec, first->name, scan, err)) return -1;
    return smoe_survey_of(&first->survey, first->set, scan, err);
}

/* The keys of the data that the spec or the command line gives, besides those below. */
static void put_given(FILE *out, const smoe_spec *spec) {
    static const char own[] = "source path image_size mean std fit channels holdout";
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        const char *key = smoe_schema[i].key;
        if (strncmp(key, "data.", 5) || strchr(key + 5, '.') ||
            spec->origin[i].kind < SMOE_FROM_FILE || smoe_text_has_word(own, ' ', key + 5))
            continue;
        SMOE_FREED char *value = smoe_value_yaml(spec, &smoe_schema[i]);
        fprintf(out, "  %s: %s  # as given\n", key + 5, value);
    }
}

static void put_data(FILE *out, const suggestion *s, const smoe_surveyed *first,
                     const smoe_spec *spec) {
    const smoe_data_spec *data = &spec->data;
    const smoe_survey *survey = &first->survey;
    char list[2][64] = {"", ""};
    for (size_t c = 0; c < data->channels; c++)
        for (int k = 0; k < 2; k++)
            smoe_text_list(list[k], sizeof list[k], "%.4f",
                           fmax(k ? survey->std[c] : survey->mean[c], k ? 0.01 : 0));
    /* absolute, since the suggestion may be saved in another folder than the given spec */
    SMOE_FREED char *path = smoe_value_yaml(spec, &smoe_schema[smoe_schema_find("data.path")]);
    fprintf(out, "data:\n  source: %s\n  path: %s\n", smoe_sources[data->source].name, path);
    put_given(out, spec);
    if (data->holdout > 0)
        fprintf(out, "  holdout: %g  # this %s for evaluations\n", data->holdout,
                data->source == SMOE_SOURCE_FOLDER ? "share of the images is"
                                                   : "number of tars, the last ones, is");
    fprintf(out, "  channels: %zu\n", data->channels);
    if (s->middle)
        fprintf(out, "  image_size: %zu  # the median of the shorter sides is %zu pixel%s\n",
                s->side, s->middle, SMOE_S(s->middle));
    else
        fprintf(out, "  image_size: %zu\n", s->side);
    if (is_oblong(survey))
        fprintf(out, "  fit: squash  # a central square would leave out %.0f %% of the pixels\n",
                100 * survey->cropped[0]);
    if (needs_turning(survey, spec))
        fprintf(out, "  orientation: apply  # %zu image%s of %s %s an EXIF orientation\n",
                survey->turned, SMOE_S(survey->turned), first->name,
                survey->turned == 1 ? "has" : "have");
    fprintf(out, "  mean: [%s]  # of the pixels of %s at this size\n  std: [%s]\n", list[0],
            first->name, list[1]);
    fprintf(out, "  augment:\n    crop: %s  # %s\n    flip: %s  # %s\n",
            s->side > 32 ? "inception" : "pad",
            s->side > 32 ? "parts of the image, of any size" : "shifted by a few pixels",
            s->digits ? "false" : "true",
            s->digits ? "grey images may be digits or letters"
                      : "if a mirrored image has the same class");
}

static void put_rest(FILE *out, const suggestion *s) {
    size_t tokens = (s->side / s->patch) * (s->side / s->patch), experts = s->width < 128 ? 8 : 16;
    size_t tenth = s->steps < 10 ? 1 : s->steps / 10;
    fprintf(out,
            "model:\n  variant: none\n  patch_size: %zu  # %zu tokens per image\n  width: %zu  # a "
            "small model for %zu image%s\n  depth: %zu\n  mlp: %zu\n  heads: %zu\n  moe:\n    "
            "layers: last-%zu  # the second half, as in Soft MoE\n    router: soft\n    experts: "
            "%zu\n    total_slots: %zu  # at most one per token: the compute of the dense model\n",
            s->patch, tokens, s->width, s->images, SMOE_S(s->images), s->depth, 4 * s->width,
            s->width / 32, s->depth / 2, experts, tokens / experts * experts);
    fprintf(out,
            "train:\n  batch_size: %zu\n  steps: %zu  # %zu epochs of %zu image%s\n  loss: %s\n"
            "  optimizer: {name: adam, lr: 1e-3, weight_decay: 0.05, head_weight_decay: 0.05, "
            "clip: 1.0}\n  schedule: {name: cosine, warmup: 0.1}  # a tenth of the steps\n"
            "  eval_every: %zu\n  checkpoint_every: %zu\n",
            s->batch, s->steps, s->epochs, s->images, SMOE_S(s->images),
            s->several ? "sigmoid  # for images with several classes" : "softmax", tenth, tenth);
}

int smoe_data_suggest(smoe_surveyed *first, smoe_spec *spec, const char *path,
                      const smoe_options *options, smoe_err *err) {
    suggestion s;
    SMOE_FREED_BY(smoe_spec_free) smoe_spec parsed = {0};
    SMOE_FREED char *text = NULL;
    size_t size = 0;
    if (!first->survey.looked)
        return smoe_fail(err, SMOE_DATA, "%s: no images to suggest a spec for", path);
    suggest(&s, first, spec->data.channels);
    if (look_again(first, spec, &s, options->scan, err)) return -1;
    const char *name = basename(path);
    FILE *out = smoe_alloc_stream(&text, &size);
    fprintf(out, "# For %zu image%s of %zu class%s; smoe train -n shows what it costs.\n", s.images,
            SMOE_S(s.images), s.classes, SMOE_ES(s.classes));
    SMOE_FREED char *stem = smoe_text_format("%.*s", (int)strcspn(name, ".{"), name);
    for (char *c = stem; *c; c++)
        if (strchr(" :#'\"}[]\\", *c)) *c = '-';
    for (size_t n = strlen(stem); n && stem[n - 1] == '-'; n--) stem[n - 1] = '\0';
    SMOE_FREED char *quoted = smoe_value_quoted(stem);
    if (isalpha((unsigned char)*name)) fprintf(out, "name: %s\n", quoted);
    put_data(out, &s, first, spec);
    put_rest(out, &s);
    smoe_alloc_stream_close(out, &text);
    if (smoe_spec_parse(&parsed, &(smoe_spec_text){.text = text, .label = "the suggestion"}, NULL,
                        0, err))
        return -1;
    smoe_cmd_print(stdout, "%s", text);
    return 0;
}
