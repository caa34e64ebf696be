/* Sheets of overlays; see overlay.h. A tile is the image with one set of looks, which are drawn
 * over the patches. */
#include "draw/overlay.h"
#include "base/file.h"
#include "draw/gnuplot.h"
#include "draw/plot.h"
#include "math/stats.h"

#include <png.h>

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

static void weights_fill(weights *w, const smoe_sample *s, const smoe_sample_layer *l,
                         smoe_alloc_pool *pool) {
    *w = (weights){.units = l->dispatch ? l->S : l->E, .T = s->T, .sparse = !l->dispatch};
    w->take = smoe_alloc_in(pool, w->units * w->T, sizeof *w->take);
    w->give = smoe_alloc_in(pool, w->units * w->T, sizeof *w->give);
    w->placed = smoe_alloc_in(pool, w->T, sizeof *w->placed);
    for (size_t u = 0; l->dispatch && u < w->units; u++)
        for (size_t t = 0; t < w->T; t++) {
            w->take[u * w->T + t] = l->dispatch[t * l->S + u];
            w->give[u * w->T + t] = l->combine[t * l->S + u];
        }
    for (size_t i = 0; !l->dispatch && i < l->places; i++) {
        size_t at = l->place[i].expert * w->T + l->place[i].token;
        w->take[at] += fabsf(l->place[i].weight);
        w->give[at] += fabsf(l->place[i].weight);
        w->placed[l->place[i].token] = true;
    }
}

/* ---- choosing units -------------------------------------------------------------------------- */

/* Up to CHOSEN units by the rule of overlay.h. Returns how many. */
static size_t overlay_choose(const weights *w, size_t chosen[CHOSEN]) {
    SMOE_FREED double *score = smoe_alloc(w->units, sizeof *score);
    SMOE_FREED size_t *order = smoe_alloc(w->units, sizeof *order);
    size_t most = w->units < CHOSEN ? w->units : CHOSEN;
    size_t peaked = w->sparse ? 0 : most < PEAKED ? most : PEAKED;
    for (size_t u = 0; u < w->units && peaked; u++)
        score[u] = -smoe_overlay_effective(w->take + u * w->T, w->T, 1);
    smoe_stats_best(order, peaked, score, w->units);
    memcpy(chosen, order, peaked * sizeof *order);
    for (size_t u = 0; u < w->units; u++) {
        score[u] = 0;
        for (size_t t = u * w->T; t < (u + 1) * w->T; t++)
            score[u] += w->sparse ? (double)(w->take[t] > 0) : (double)w->give[t];
    }
    for (size_t i = 0; i < peaked; i++) score[chosen[i]] = -INFINITY;
    smoe_stats_best(order, most - peaked, score, w->units);
    memcpy(chosen + peaked, order, (most - peaked) * sizeof *order);
    return most;
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
    smoe_alloc_pool memory;
    const smoe_sample *sample;
    const smoe_image *picture;
    weights w;
    look *looks;        /* [tiles, patches] */
    const char *noun;   /* of its units */
    const size_t *unit; /* [units] of the last tiles */
    size_t tiles, units, across;
    bool stretched; /* shading from the least weight of a unit on, because they are nearly equal */
    /* Pixels: tiles are `each` wide and high, `gap` apart, with `above` over each row. */
    size_t scale, each, gap, above, width, height;
} sheet;

static void sheet_lay_out(sheet *sh, size_t scale, size_t gap, size_t above) {
    sh->scale = scale;
    sh->each = sh->sample->size * scale;
    sh->gap = gap;
    sh->above = above;
    sh->width = sh->across * (sh->each + gap) + gap;
    sh->height = (sh->tiles + sh->across - 1) / sh->across * (sh->each + above) + gap;
}

static size_t sheet_left(const sheet *sh, size_t tile) {
    return sh->gap + tile % sh->across * (sh->each + sh->gap);
}

static size_t sheet_top(const sheet *sh, size_t tile) {
    return sh->above + tile / sh->across * (sh->each + sh->above);
}

static void paint_tile(smoe_image *out, const sheet *sh, size_t tile) {
    const smoe_sample *s = sh->sample;
    const look *looks = sh->looks + tile * s->side * s->side;
    for (size_t y = 0; y < sh->each; y++)
        for (size_t x = 0; x < sh->each; x++) {
            size_t px = x / sh->scale, py = y / sh->scale;
            const look *l = &looks[py * s->side / s->size * s->side + px * s->side / s->size];
            const uint8_t *in = sh->picture->pixel + (py * s->size + px) * s->channels;
            uint8_t *to = out->pixel +
                          ((sheet_top(sh, tile) + y) * out->width + sheet_left(sh, tile) + x) * 3;
            for (size_t c = 0; c < 3; c++) {
                float v = in[s->channels == 3 ? c : 0];
                to[c] = (uint8_t)lrintf(v + l->opacity * ((float)l->colour[c] - v));
            }
        }
}

static int sheet_paint(smoe_image *out, const sheet *sh, smoe_err *err) {
    if (smoe_image_shape(out, sh->width, sh->height, 3, err)) return -1;
    memset(out->pixel, 255, out->width * out->height * 3);
    for (size_t i = 0; i < sh->tiles; i++) paint_tile(out, sh, i);
    return 0;
}

static size_t legible(const smoe_sample *s) {
    return (LEGIBLE + s->size - 1) / s->size;
}

void smoe_overlays_frame(smoe_frame *frame) {
    smoe_frame_init(
        frame, "overlays", "Overlays",
        "The tiles of each sheet, counted from 0, row by row: the image; dropped patches in "
        "magenta; each patch in the colour of the unit with the largest combine weight (who); and "
        "for some units (slots, or experts of choice routers) the image darkened where a patch has "
        "little weight, grey where it takes none (S Fig. 10, V Fig. 5); the darkest weight is 0, "
        "or the smallest weight of the unit if most units have nearly equal weights",
        "run* file* image block tile shows* unit effective_tokens darkest_weight largest_weight");
}

static void add_rows(smoe_frame *f, const sheet *sh, size_t block, const char *file) {
    const smoe_sample *s = sh->sample;
    size_t first = sh->tiles - sh->units;
    for (size_t i = 0; i < sh->tiles; i++) {
        double unit = NAN, effective = NAN, most = NAN, darkest = NAN;
        if (i >= first) {
            const float *take = sh->w.take + sh->unit[i - first] * sh->w.T;
            float range[2];
            range_of(range, s, &sh->w, sh->unit[i - first]);
            unit = (double)sh->unit[i - first];
            darkest = sh->stretched ? (double)range[0] : 0;
            most = (double)range[1];
            effective = smoe_overlay_effective(take, sh->w.T, 1);
        }
        smoe_frame_put(f, {"run", .text = s->run}, {"file", .text = file},
                       {"image", .number = s->image}, {"block", .number = block},
                       {"tile", .number = i},
                       {"shows", .text = i >= first       ? sh->noun
                                         : i + 1 == first ? "who"
                                         : i              ? "dropped"
                                                          : "image"},
                       {"unit", .number = unit}, {"effective_tokens", .number = effective},
                       {"darkest_weight", .number = darkest}, {"largest_weight", .number = most});
    }
}

static void sheet_free(sheet *sh) {
    smoe_alloc_pool_free(&sh->memory);
}

/* The looks of every tile: the image, whose looks are zero, dropped patches, who, and the units;
 * NULL: chosen by rule. */
static void sheet_open(sheet *sh, const smoe_sample *s, const smoe_sample_layer *l,
                       const smoe_image *picture, const smoe_overlay_units *units,
                       size_t chosen[CHOSEN]) {
    size_t patches = s->side * s->side;
    *sh = (sheet){.sample = s, .picture = picture, .noun = l->dispatch ? "slot" : "expert"};
    weights_fill(&sh->w, s, l, &sh->memory);
    sh->unit = units && units->unit ? units->unit : chosen;
    sh->units = units && units->unit ? units->count : overlay_choose(&sh->w, chosen);
    sh->tiles = (sh->w.sparse ? 3 : 2) + sh->units;
    sh->across = sh->tiles < ACROSS ? sh->tiles : ACROSS;
    sh->stretched = is_flat(s, &sh->w);
    look *looks = sh->looks = smoe_alloc_in(&sh->memory, sh->tiles * patches, sizeof *looks);
    if (sh->w.sparse) looks += patches;
    for (size_t p = 0; sh->w.sparse && p < patches; p++)
        looks[p] = (look){sh->w.placed[s->first_patch + p] ? 0 : 1, {230, 0, 126}};
    look_who(looks += patches, s, &sh->w);
    for (size_t i = 0; i < sh->units; i++)
        look_unit(looks += patches, s, &sh->w, sh->unit[i], sh->stretched);
}

/* ---- sheets as figures ----------------------------------------------------------------------- */

enum { NAME = 32 }; /* bytes of the name of a tile */

/* The tiles before those of units are named by what they show. */
static const char *tile_name(const sheet *sh, size_t i, char name[NAME]) {
    size_t first = sh->tiles - sh->units;
    if (i >= first)
        snprintf(name, NAME, "%s %zu", sh->noun, sh->unit[i - first]);
    else if (i + 1 == first)
        snprintf(name, NAME, "top %s", sh->noun);
    else
        snprintf(name, NAME, "%s", i ? "dropped" : "image");
    return name;
}

typedef struct script {
    const sheet *sheet;
    const char *name;
    double scale; /* pixels of the figure per pixel of the PNG */
    int font;
} script;

/* From the darkest shade of a white patch to white, `all` the height of the figure. */
static void put_bar(FILE *out, const script *x, double all) {
    const sheet *sh = x->sheet;
    fprintf(out,
            "set palette defined (0 '#1c1e21', 1 '#ffffff')\nset cbrange [0:1]\n"
            "set colorbox horizontal user origin 0.3,%.4f size 0.4,%.4f border\n"
            "set cbtics %s scale 0.3 offset 0,0.4\nset cblabel ",
            3.5 * x->font / all, 0.7 * x->font / all,
            sh->stretched ? "('least' 0, 'largest' 1)" : "0.5");
    fprintf(out,
            sh->stretched ? "'weight of the %s, nearly uniform'"
                          : "'weight, as a share of the %s''s largest'",
            sh->noun);
    fputs(" offset 0,0.5\n", out);
}

static int overlay_put_script(FILE *out, const void *context, smoe_err *err) {
    enum { BAR = 5 }; /* heights of a letter for the bar of shades and its words */
    const script *x = context;
    const sheet *sh = x->sheet;
    double height = (double)sh->height * x->scale, below = sh->units ? BAR * x->font : 0;
    char name[NAME];
    (void)err;
    fprintf(out,
            "# Draws %s.svg from %s-large.png: gnuplot %s.gp; %s.pdf: gnuplot -e pdf=1 %s.gp\n",
            x->name, x->name, x->name, x->name, x->name);
    smoe_gnuplot_terminal(out, x->name, (double)sh->width * x->scale, height + below, x->font,
                          true);
    smoe_gnuplot_canvas(out, sh->width, sh->height, below / (height + below));
    for (size_t i = 0; i < sh->tiles; i++)
        smoe_gnuplot_label(
            out, tile_name(sh, i, name), (double)sheet_left(sh, i) + (double)sh->each / 2,
            (double)sh->height - (double)sheet_top(sh, i) + (double)sh->above * 0.42, "center");
    if (sh->units) put_bar(out, x, height + below);
    fprintf(out, "plot '%s-large.png' binary filetype=png origin=(0.5,0.5) with rgbimage%s\n",
            x->name, sh->units ? ", NaN with points palette" : "");
    return 0;
}

static int write_png(const sheet *sh, const smoe_overlays *to, const char *name, const char *ending,
                     smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/overlays/%s%s.png", to->folder, name, ending);
    SMOE_FREED_BY(smoe_image_free) smoe_image out = {0};
    return sheet_paint(&out, sh, err) ? -1 : smoe_encode_png_write(&out, path, err);
}

/* At the image's size; and magnified to be legible, as a figure with names. */
static int write_sheet(sheet *sh, smoe_overlays *to, const char *name, smoe_err *err) {
    SMOE_FREED char *within = smoe_text_format("%s/overlays", to->folder);
    script x = {sh, name, 1, to->width > 0 ? SMOE_PLOT_PAPER_FONT : SMOE_PLOT_SCREEN_FONT};
    bool done = false;
    char text[NAME];
    size_t longest = 0; /* on a paper no more tiles side by side than have room for their names */
    for (size_t i = 0; i < sh->tiles; i++) {
        size_t letters = strlen(tile_name(sh, i, text));
        if (letters > longest) longest = letters;
    }
    double fit = to->width * SMOE_PLOT_INCH / ((double)(longest + 2) * 0.6 * SMOE_PLOT_PAPER_FONT);
    if (to->width > 0 && (double)sh->across > fit) sh->across = fit < 1 ? 1 : (size_t)fit;
    sheet_lay_out(sh, 1, GAP, GAP);
    if (write_png(sh, to, name, "", err)) return -1;
    sheet_lay_out(sh, legible(sh->sample), LARGE_GAP, 0);
    if (to->width > 0) x.scale = to->width * SMOE_PLOT_INCH / (double)sh->width;
    sheet_lay_out(sh, sh->scale, LARGE_GAP, (size_t)ceil(1.7 * x.font / x.scale));
    if (write_png(sh, to, name, "-large", err)) return -1;
    if (smoe_gnuplot_draw(within, name, overlay_put_script, &x, to->width > 0, &done, err))
        return -1;
    to->drawn &= done;
    return 0;
}

int smoe_overlay_encode(uint8_t **png, size_t *size, size_t *width, size_t *height,
                        const smoe_sample *sample, size_t layer, smoe_err *err) {
    size_t chosen[CHOSEN];
    SMOE_FREED_BY(smoe_image_free) smoe_image picture = {0}, out = {0};
    SMOE_FREED_BY(sheet_free) sheet sh = {0};
    *png = NULL;
    if (smoe_overlay_picture(sample, &picture, err)) return -1;
    sheet_open(&sh, sample, &sample->layer[layer], &picture, NULL, chosen);
    sheet_lay_out(&sh, legible(sample), LARGE_GAP, LARGE_GAP);
    *width = sh.width;
    *height = sh.height;
    return sheet_paint(&out, &sh, err) ? -1 : smoe_encode_png(&out, png, size, err);
}

int smoe_overlays_write(smoe_overlays *sheets, const smoe_sample *samples, size_t count,
                        smoe_err *err) {
    SMOE_FREED char *within = smoe_text_format("%s/overlays", sheets->folder);
    bool several = count && strcmp(samples[0].run, samples[count - 1].run);
    int status = count ? smoe_file_make_folder(within, err) : 0;
    sheets->drawn = true;
    for (size_t i = 0, run = 1; i < count && !status; i++) {
        const smoe_sample *s = &samples[i];
        SMOE_FREED_BY(smoe_image_free) smoe_image picture = {0};
        run += i && strcmp(s->run, samples[i - 1].run);
        status = smoe_overlay_picture(s, &picture, err);
        for (size_t l = 0; l < s->layers && !status; l++) {
            char name[96], prefix[32] = "";
            if (several) snprintf(prefix, sizeof prefix, "run%zu-", run);
            snprintf(name, sizeof name, "%simage%zu-blocks%zu", prefix, s->image,
                     s->layer[l].block);
            SMOE_FREED_BY(sheet_free) sheet sh = {0};
            SMOE_FREED char *file = smoe_text_format("overlays/%s.png", name);
            size_t chosen[CHOSEN];
            sheet_open(&sh, s, &s->layer[l], &picture, &sheets->units, chosen);
            add_rows(sheets->frame, &sh, s->layer[l].block, file);
            status = write_sheet(&sh, sheets, name, err);
        }
    }
    return status;
}

int smoe_overlays_remove(const char *folder, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/overlays", folder);
    return smoe_file_remove_named(path,
                                  "^(run[0-9]+-)?image[0-9]+-blocks[0-9]+"
                                  "(-large\\.png|\\.(png|gp|svg|pdf))$",
                                  err);
}

/* ---- PNG files, by libpng's simplified interface --------------------------------------------- */

int smoe_encode_png(const smoe_image *image, uint8_t **bytes, size_t *size, smoe_err *err) {
    png_image png;
    memset(&png, 0, sizeof png);
    png.version = PNG_IMAGE_VERSION;
    png.width = (png_uint_32)image->width;
    png.height = (png_uint_32)image->height;
    png.format = image->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    png_alloc_size_t room = PNG_IMAGE_PNG_SIZE_MAX(png);
    *size = 0;
    *bytes = smoe_alloc(room, 1);
    if (!png_image_write_to_memory(&png, *bytes, &room, 0, image->pixel, 0, NULL)) {
        free(*bytes);
        *bytes = NULL;
        return smoe_fail(err, SMOE_RUNTIME, "libpng: %s", png.message);
    }
    *size = room;
    return 0;
}

int smoe_encode_png_write(const smoe_image *image, const char *path, smoe_err *err) {
    SMOE_FREED uint8_t *bytes = NULL;
    size_t size;
    if (smoe_encode_png(image, &bytes, &size, err)) return smoe_fail_prefix(err, "%s", path);
    return smoe_file_write(path, bytes, size, err);
}
