/* Sheets of overlays; see overlay.h. A tile is the image with one set of looks, which are drawn
 * over the patches. */
#include "draw/overlay.h"
#include "base/alloc.h"
#include "base/file.h"
#include "draw/overlay_figure.h"
#include "draw/encode_png.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHOSEN = 8,    /* units of a sheet, by rule */
    PEAKED = 4,    /* of these, slots that mix few tokens */
    ACROSS = 6,    /* tiles side by side */
    LEGIBLE = 144, /* pixels of a large tile at least */
    GAP = 2,       /* between tiles */
    LARGE_GAP = 14 /* of large ones */
};

/* The look of a patch: `colour` is drawn over it with this opacity. */
typedef struct look {
    float opacity;
    uint8_t colour[3];
} look;

int smoe_overlay_picture(const smoe_sample *s, smoe_image *image, smoe_err *err) {
    size_t area = s->size * s->size;
    if (smoe_image_shape(image, s->size, s->size, s->channels, err)) return -1;
    for (size_t i = 0; i < area; i++)
        for (size_t c = 0; c < s->channels; c++) {
            float v = (s->pixels[c * area + i] + 1) * 127.5f;
            image->pixel[i * s->channels + c] = (uint8_t)lrintf(fminf(fmaxf(v, 0), 255));
        }
    return 0;
}

double smoe_overlay_effective(const float *w, size_t n, size_t step) {
    double sum = 0, entropy = 0;
    for (size_t i = 0; i < n; i++) sum += (double)w[i * step];
    for (size_t i = 0; i < n && sum > 0; i++) {
        double p = (double)w[i * step] / sum;
        if (p > 0) entropy -= p * log(p);
    }
    return sum > 0 ? exp(entropy) : 0;
}

/* ---- weights of a layer, whichever way it keeps them ----------------------------------------- */

/* take, give [units, T]: dispatch weight of a token in a unit, combine weight of the unit in the
 * token; of choice routers both the weight of the placement. placed [T]: is any expert's. */
typedef struct weights {
    size_t units, T;
    bool sparse;
    float *take, *give;
    bool *placed;
} weights;

static void weights_free(weights *w) {
    free(w->take);
    free(w->give);
    free(w->placed);
}

static void weights_fill(weights *w, const smoe_sample *s, const smoe_sample_layer *l) {
    *w = (weights){.units = l->dispatch ? l->S : l->E, .T = s->T, .sparse = !l->dispatch};
    w->take = smoe_alloc(w->units * w->T, sizeof *w->take);
    w->give = smoe_alloc(w->units * w->T, sizeof *w->give);
    w->placed = smoe_alloc(w->T, sizeof *w->placed);
    for (size_t u = 0; l->dispatch && u < w->units; u++)
        for (size_t t = 0; t < w->T; t++) {
            w->take[u * w->T + t] = l->dispatch[t * l->S + u];
            w->give[u * w->T + t] = l->combine[t * l->S + u];
        }
    for (size_t i = 0; !l->dispatch && i < l->places; i++) {
        size_t at = l->place[i].expert * w->T + l->place[i].token;
        w->take[at] += l->place[i].weight;
        w->give[at] += l->place[i].weight;
        w->placed[l->place[i].token] = true;
    }
}

/* ---- choosing units -------------------------------------------------------------------------- */

/* The unit that is not yet among the chosen and has the largest score; the first of equals. */
static size_t best_of(const double *score, size_t units, const size_t *chosen, size_t count) {
    size_t best = SIZE_MAX;
    for (size_t u = 0; u < units; u++) {
        bool taken = false;
        for (size_t i = 0; i < count && !taken; i++) taken = chosen[i] == u;
        if (!taken && (best == SIZE_MAX || score[u] > score[best])) best = u;
    }
    return best;
}

/* Up to CHOSEN units by the rule of overlay.h. Returns how many. */
static size_t overlay_choose(const weights *w, size_t chosen[CHOSEN]) {
    double *score = smoe_alloc(w->units, sizeof *score);
    size_t count = 0, most = w->units < CHOSEN ? w->units : CHOSEN;
    while (count < most) {
        for (size_t u = 0; u < w->units; u++) {
            const float *take = w->take + u * w->T, *give = w->give + u * w->T;
            score[u] = 0;
            if (!w->sparse && count < PEAKED)
                score[u] = -smoe_overlay_effective(take, w->T, 1);
            else
                for (size_t t = 0; t < w->T; t++)
                    score[u] += w->sparse ? (double)(take[t] > 0) : (double)give[t];
        }
        chosen[count] = best_of(score, w->units, chosen, count);
        count++;
    }
    free(score);
    return count;
}

/* ---- looks ----------------------------------------------------------------------------------- */

/* The least and the largest weight of a unit over the patches. */
static void range_of(float range[2], const smoe_sample *s, const weights *w, size_t unit) {
    const float *take = w->take + unit * w->T + s->first_patch;
    range[0] = INFINITY;
    range[1] = 0;
    for (size_t p = 0; p < s->side * s->side; p++) {
        range[0] = fminf(range[0], take[p]);
        range[1] = fmaxf(range[1], take[p]);
    }
}

/* Whether most units shade all patches much alike, so that little would be seen of them. */
static bool is_flat(const smoe_sample *s, const weights *w) {
    size_t flat = 0;
    for (size_t u = 0; u < w->units; u++) {
        float range[2];
        range_of(range, s, w, u);
        flat += range[1] < 2.5f * range[0];
    }
    return 2 * flat > w->units;
}

/* Darker where the weight is smaller relative to the unit's largest, or in the range from its least
 * if the shading is stretched; grey where it is 0; [patches]. */
static void look_unit(look *looks, const smoe_sample *s, const weights *w, size_t unit,
                      bool stretched) {
    const float *take = w->take + unit * w->T + s->first_patch;
    float range[2];
    range_of(range, s, w, unit);
    float from = stretched ? range[0] : 0, width = range[1] - from;
    for (size_t p = 0; p < s->side * s->side; p++)
        looks[p] = range[1] > 0
                       ? (look){width > 0 ? 0.92f * (1 - (take[p] - from) / width) : 0, {8, 10, 14}}
                       : (look){0.85f, {190, 190, 190}};
}

static void look_dropped(look *looks, const smoe_sample *s, const weights *w) {
    for (size_t p = 0; p < s->side * s->side; p++)
        looks[p] = (look){w->placed[s->first_patch + p] ? 0 : 1, {230, 0, 126}};
}

/* Each unit has its own hue; neighbouring numbers differ in lightness too. */
static void unit_colour(uint8_t colour[3], size_t unit, size_t units) {
    double hue = fmod((double)unit * 360 / (double)units + 200, 360) / 60;
    double light = unit % 2 ? 0.62 : 0.48, chroma = 0.62 * (1 - fabs(2 * light - 1));
    double x = chroma * (1 - fabs(fmod(hue, 2) - 1)), m = light - chroma / 2;
    const double rgb[6][3] = {{chroma, x, 0}, {x, chroma, 0}, {0, chroma, x},
                              {0, x, chroma}, {x, 0, chroma}, {chroma, 0, x}};
    for (size_t c = 0; c < 3; c++) colour[c] = (uint8_t)lrint(255 * (rgb[(size_t)hue % 6][c] + m));
}

static void look_who(look *looks, const smoe_sample *s, const weights *w) {
    for (size_t p = 0; p < s->side * s->side; p++) {
        size_t best = SIZE_MAX, t = s->first_patch + p;
        for (size_t u = 0; u < w->units; u++) {
            float v = w->give[u * w->T + t];
            if (v > 0 && (best == SIZE_MAX || v > w->give[best * w->T + t])) best = u;
        }
        looks[p] = (look){0.92f, {8, 10, 14}};
        if (best == SIZE_MAX) continue;
        looks[p].opacity = 0.72f;
        unit_colour(looks[p].colour, best, w->units);
    }
}

/* ---- sheets ---------------------------------------------------------------------------------- */

typedef struct sheet {
    const char *noun; /* of its units */
    const smoe_sample *sample;
    const smoe_image *picture;
    look *looks;        /* [tiles, patches] */
    const size_t *unit; /* [units] of the last tiles */
    size_t tiles, units, across;
    bool stretched; /* shading from the least weight of a unit on, because they are nearly equal */
} sheet;

/* One tile into the sheet's image, its corner at (left, top), every pixel `scale` wide. */
static void overlay_paint(smoe_image *out, size_t left, size_t top, size_t scale, const sheet *sh,
                          size_t tile) {
    const smoe_sample *s = sh->sample;
    const look *looks = sh->looks + tile * s->side * s->side;
    for (size_t y = 0; y < s->size * scale; y++)
        for (size_t x = 0; x < s->size * scale; x++) {
            size_t px = x / scale, py = y / scale;
            const look *l = &looks[py * s->side / s->size * s->side + px * s->side / s->size];
            const uint8_t *in = sh->picture->pixel + (py * s->size + px) * s->channels;
            uint8_t *to = out->pixel + ((top + y) * out->width + left + x) * 3;
            for (size_t c = 0; c < 3; c++) {
                float v = in[s->channels == 3 ? c : 0];
                to[c] = (uint8_t)lrintf(v + l->opacity * ((float)l->colour[c] - v));
            }
        }
}

/* Tiles of the image's size times `scale`, `gap` apart, with `above` over each row; free the image
 * in any case. */
static int paint_sheet(smoe_image *out, const sheet *sh, size_t scale, size_t gap, size_t above,
                       smoe_err *err) {
    size_t across = sh->across, each = sh->sample->size * scale;
    size_t down = (sh->tiles + across - 1) / across;
    *out = (smoe_image){0};
    if (smoe_image_shape(out, across * (each + gap) + gap, down * (each + above) + gap, 3, err))
        return -1;
    memset(out->pixel, 255, out->width * out->height * 3);
    for (size_t i = 0; i < sh->tiles; i++)
        overlay_paint(out, gap + i % across * (each + gap), above + i / across * (each + above),
                      scale, sh, i);
    return 0;
}

static int write_sheet(const sheet *sh, size_t scale, size_t gap, size_t above, const char *path,
                       smoe_err *err) {
    smoe_image out;
    int status = paint_sheet(&out, sh, scale, gap, above, err);
    if (!status) status = smoe_encode_png_write(&out, path, err);
    smoe_image_free(&out);
    return status;
}

static size_t legible(const smoe_sample *s) {
    return (LEGIBLE + s->size - 1) / s->size;
}

void smoe_overlays_frame(smoe_frame *frame) {
    static const smoe_column columns[] = {{"run", true},
                                          {"file", true},
                                          {"image", false},
                                          {"block", false},
                                          {"tile", false},
                                          {"shows", true},
                                          {"unit", false},
                                          {"effective_tokens", false},
                                          {"darkest_weight", false},
                                          {"largest_weight", false},
                                          {0}};
    smoe_frame_init(
        frame, "overlays", "Overlays",
        "The tiles of each sheet, counted from 0, row by row: the image; dropped patches in "
        "magenta; each patch in the colour of the unit with the largest combine weight (who); "
        "and for some units (slots, or experts of choice routers) the image darkened where a "
        "patch has little weight, grey where it takes none (S Fig. 10, V Fig. 5); the darkest "
        "weight is 0, or the unit's least where most units have nearly equal weights",
        columns);
}

static void overlay_add_row(smoe_frame *f, const smoe_sample *s, const smoe_sample_layer *l,
                            const char *file, size_t tile, const char *shows, const weights *w,
                            size_t unit, bool stretched) {
    double effective = NAN, most = NAN, darkest = NAN;
    if (unit != SIZE_MAX) {
        float range[2];
        range_of(range, s, w, unit);
        darkest = stretched ? (double)range[0] : 0;
        most = 0;
        effective = smoe_overlay_effective(w->take + unit * w->T, w->T, 1);
        for (size_t t = 0; t < w->T; t++) most = fmax(most, (double)w->take[unit * w->T + t]);
    }
    smoe_frame_put(f, {"run", .text = s->run}, {"file", .text = file},
                   {"image", .number = (double)s->image}, {"block", .number = (double)l->block},
                   {"tile", .number = (double)tile}, {"shows", .text = shows},
                   {"unit", .number = unit == SIZE_MAX ? NAN : (double)unit},
                   {"effective_tokens", .number = effective}, {"darkest_weight", .number = darkest},
                   {"largest_weight", .number = most});
}

/* The looks of every tile, and their rows in the table. */
static void fill_sheet(sheet *sh, const smoe_sample_layer *l, const weights *w, const size_t *unit,
                       size_t count, const char *file, smoe_frame *f) {
    const smoe_sample *s = sh->sample;
    size_t patches = s->side * s->side;
    sh->tiles = 1; /* the image itself: looks are zero */
    overlay_add_row(f, s, l, file, 0, "image", w, SIZE_MAX, false);
    if (w->sparse) {
        look_dropped(sh->looks + sh->tiles * patches, s, w);
        overlay_add_row(f, s, l, file, sh->tiles++, "dropped", w, SIZE_MAX, false);
    }
    look_who(sh->looks + sh->tiles * patches, s, w);
    overlay_add_row(f, s, l, file, sh->tiles++, "who", w, SIZE_MAX, false);
    sh->noun = w->sparse ? "expert" : "slot";
    sh->unit = unit;
    sh->units = count;
    sh->stretched = is_flat(s, w);
    sh->across = sh->tiles + count < ACROSS ? sh->tiles + count : ACROSS;
    for (size_t i = 0; i < count; i++) {
        look_unit(sh->looks + sh->tiles * patches, s, w, unit[i], sh->stretched);
        overlay_add_row(f, s, l, file, sh->tiles++, sh->noun, w, unit[i], sh->stretched);
    }
}

static int write_path(const sheet *sh, size_t scale, size_t gap, size_t above, const char *folder,
                      const char *stem, const char *ending, smoe_err *err) {
    char *path = smoe_text_format("%s/%s%s.png", folder, stem, ending);
    int status = smoe_file_make_parents(path, err);
    if (!status) status = write_sheet(sh, scale, gap, above, path, err);
    free(path);
    return status;
}

/* The tiles before those of units are named by what they show. */
static void name_tiles(const sheet *sh, char (*name)[SMOE_OVERLAY_NAME]) {
    size_t first = sh->tiles - sh->units;
    for (size_t i = 0; i < sh->tiles; i++)
        if (i >= first)
            snprintf(name[i], sizeof *name, "%s %zu", sh->noun, sh->unit[i - first]);
        else if (i && i + 1 == first)
            snprintf(name[i], sizeof *name, "top %s", sh->noun);
        else
            snprintf(name[i], sizeof *name, "%s", i ? "dropped" : "image");
}

static size_t longest(char (*const name)[SMOE_OVERLAY_NAME], size_t count) {
    size_t letters = 0;
    for (size_t i = 0; i < count; i++)
        if (strlen(name[i]) > letters) letters = strlen(name[i]);
    return letters;
}

/* At the image's size; and magnified to be legible, as a figure with names. */
static int write_sheets(sheet *sh, const char *folder, const char *stem, const smoe_plot_size *size,
                        bool *drawn, smoe_err *err) {
    size_t scale = legible(sh->sample);
    char bar[96];
    if (sh->stretched)
        snprintf(bar, sizeof bar, "weight of the %s, nearly uniform", sh->noun);
    else
        snprintf(bar, sizeof bar, "weight, as a share of the %s's largest", sh->noun);
    char(*name)[SMOE_OVERLAY_NAME] = smoe_alloc(sh->tiles, sizeof *name);
    name_tiles(sh, name);
    size_t fit = smoe_overlay_across(longest(name, sh->tiles), size);
    if (sh->across > fit) sh->across = fit;
    smoe_overlay_sheet x = {.across = sh->across,
                            .name = name,
                            .tile = sh->sample->size * scale,
                            .gap = LARGE_GAP,
                            .tiles = sh->tiles,
                            .bar = sh->units ? bar : NULL,
                            .stretched = sh->stretched};
    x.width = x.across * (x.tile + x.gap) + x.gap;
    x.above = smoe_overlay_above(x.width, size);
    x.height = (sh->tiles + x.across - 1) / x.across * (x.tile + x.above) + x.gap;
    bool done = false;
    int status = write_path(sh, 1, GAP, GAP, folder, stem, "", err);
    if (!status) status = write_path(sh, scale, x.gap, x.above, folder, stem, "-large", err);
    if (!status) status = smoe_overlay_figure(&x, folder, stem, size, &done, err);
    *drawn = *drawn && done;
    free(name);
    return status;
}

static int write_layer(const smoe_sample *s, const smoe_sample_layer *l, const smoe_image *picture,
                       const smoe_overlay_units *units, const char *folder, const char *stem,
                       const smoe_plot_size *size, smoe_frame *frame, bool *drawn, smoe_err *err) {
    weights w;
    size_t chosen[CHOSEN], count = units->count;
    const size_t *unit = units->unit;
    sheet sh = {.sample = s, .picture = picture};
    char file[128];
    int status = 0;
    weights_fill(&w, s, l);
    for (size_t i = 0; i < count && !status; i++)
        if (unit && unit[i] >= w.units)
            status =
                smoe_fail(err, SMOE_USAGE, "blocks.%zu of %s has no %s %zu, only 0 .. %zu",
                          l->block, s->run, w.sparse ? "expert" : "slot", unit[i], w.units - 1);
    if (!status && !unit) {
        count = overlay_choose(&w, chosen);
        unit = chosen;
    }
    if (!status) {
        sh.looks = smoe_alloc((count + 3) * s->side * s->side, sizeof *sh.looks);
        snprintf(file, sizeof file, "%s.png", stem);
        fill_sheet(&sh, l, &w, unit, count, file, frame);
        status = write_sheets(&sh, folder, stem, size, drawn, err);
    }
    free(sh.looks);
    weights_free(&w);
    return status;
}

int smoe_overlay_encode(uint8_t **png, size_t *size, size_t *width, size_t *height,
                        const smoe_sample *sample, size_t layer, smoe_err *err) {
    const smoe_sample_layer *l = &sample->layer[layer];
    weights w;
    size_t chosen[CHOSEN];
    smoe_image picture = {0}, out = {0};
    smoe_frame tiles;
    sheet sh = {.sample = sample, .picture = &picture};
    *png = NULL;
    smoe_overlays_frame(&tiles);
    weights_fill(&w, sample, l);
    int status = smoe_overlay_picture(sample, &picture, err);
    if (!status) {
        sh.looks = smoe_alloc((CHOSEN + 3) * sample->side * sample->side, sizeof *sh.looks);
        fill_sheet(&sh, l, &w, chosen, overlay_choose(&w, chosen), "", &tiles);
        status = paint_sheet(&out, &sh, legible(sample), LARGE_GAP, LARGE_GAP, err);
    }
    if (!status) status = smoe_encode_png(&out, png, size, err);
    *width = out.width;
    *height = out.height;
    smoe_frame_free(&tiles);
    smoe_image_free(&out);
    smoe_image_free(&picture);
    free(sh.looks);
    weights_free(&w);
    return status;
}

static int write_sample(const smoe_sample *s, size_t run, bool several,
                        const smoe_overlay_units *units, const char *folder,
                        const smoe_plot_size *size, smoe_frame *frame, bool *drawn, smoe_err *err) {
    smoe_image picture = {0};
    int status = smoe_overlay_picture(s, &picture, err);
    for (size_t l = 0; l < s->layers && !status; l++) {
        char stem[96], prefix[32] = "";
        if (several) snprintf(prefix, sizeof prefix, "run%zu-", run);
        snprintf(stem, sizeof stem, "overlays/%simage%zu-blocks%zu", prefix, s->image,
                 s->layer[l].block);
        status =
            write_layer(s, &s->layer[l], &picture, units, folder, stem, size, frame, drawn, err);
    }
    smoe_image_free(&picture);
    return status;
}

int smoe_overlays_write(const smoe_sample *samples, size_t count, const smoe_overlay_units *units,
                        const char *folder, const smoe_plot_size *size, smoe_frame *frame,
                        bool *drawn, smoe_err *err) {
    bool several = count && strcmp(samples[0].run, samples[count - 1].run);
    size_t run = 1;
    *drawn = true;
    for (size_t i = 0; i < count; i++) {
        run += i && strcmp(samples[i].run, samples[i - 1].run);
        if (write_sample(&samples[i], run, several, units, folder, size, frame, drawn, err))
            return -1;
    }
    return 0;
}

/* The text behind `word` and a number; NULL if it does not begin with these. */
static const char *behind(const char *text, const char *word) {
    size_t length = strlen(word);
    size_t digits = strncmp(text, word, length) ? 0 : strspn(text + length, "0123456789");
    return digits ? text + length + digits : NULL;
}

/* Whether that is the name of a sheet, as write_sample and write_sheets make it. */
static bool is_sheet(const char *name) {
    const char *run = behind(name, "run");
    const char *image = behind(run && *run == '-' ? run + 1 : name, "image");
    const char *block = image ? behind(image, "-blocks") : NULL;
    static const char *const endings[] = {".png", "-large.png", ".gp", ".svg", ".pdf"};
    for (size_t i = 0; block && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(block, endings[i])) return true;
    return false;
}

int smoe_overlays_remove(const char *folder, smoe_err *err) {
    char *path = smoe_text_format("%s/overlays", folder);
    DIR *dir = opendir(path);
    int status = 0;
    if (!dir && errno != ENOENT)
        status = smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot be read", path);
    for (struct dirent *entry; dir && !status && (entry = readdir(dir));) {
        if (!is_sheet(entry->d_name)) continue;
        char *file = smoe_text_format("%s/%s", path, entry->d_name);
        status = smoe_file_remove(file, err);
        free(file);
    }
    if (dir) closedir(dir);
    free(path);
    return status;
}
