/* Contact sheets; see contact.h. */
#include "draw/contact.h"
#include "draw/gnuplot.h"
#include "draw/plot.h"
#include "draw/overlay.h"

enum {
    ROWS = 12,    /* classes, evenly over them */
    EACH = 4,     /* images of each */
    MARGIN = 2,   /* around an image */
    GAP = 12,     /* between the halves */
    ABOVE = 18,   /* a row: the name of its class; and above all rows: the names of the halves */
    SMALLEST = 64 /* pixels of an image at least */
};

typedef struct sheet {
    const smoe_dataset *set;
    const smoe_spec *spec;
    size_t rows, halves, zoom, cell; /* cell: an image with its margin */
    size_t width, height;
} sheet;

static bool augments(const smoe_data_spec *data) {
    return data->augment.crop != SMOE_CROP_NONE || data->augment.flip ||
           data->augment.randaugment.n > 0;
}

static sheet contact_lay_out(const smoe_dataset *set, const smoe_spec *spec) {
    size_t N = smoe_dataset_classes(set), side = spec->data.image_size;
    sheet s = {.set = set,
               .spec = spec,
               .rows = N < ROWS ? N : ROWS,
               .halves = augments(&spec->data) ? 2 : 1,
               .zoom = (SMALLEST + side - 1) / side};
    s.cell = side * s.zoom + MARGIN;
    s.width = s.halves * EACH * s.cell + (s.halves - 1) * GAP + MARGIN;
    s.height = ABOVE + s.rows * (s.cell + ABOVE) + MARGIN;
    return s;
}

static size_t contact_class_of(const sheet *s, size_t row) {
    return row * smoe_dataset_classes(s->set) / s->rows;
}

static size_t left_of(size_t half, const sheet *s) {
    return MARGIN + half * (EACH * s->cell + GAP);
}

/* Where the images of a row begin. */
static size_t top_of(size_t row, const sheet *s) {
    return 2 * ABOVE + row * (s->cell + ABOVE);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static void contact_put(smoe_image *out, const smoe_image *picture, size_t x, size_t y,
                        size_t zoom) {
    for (size_t v = 0; v < picture->height * zoom; v++)
        for (size_t u = 0; u < picture->width * zoom; u++) {
            const uint8_t *from =
                picture->pixel + ((v / zoom) * picture->width + u / zoom) * picture->channels;
            uint8_t *to = out->pixel + ((y + v) * out->width + x + u) * 3;
            for (size_t c = 0; c < 3; c++) to[c] = from[picture->channels == 3 ? c : 0];
        }
}

static int paint_row(smoe_image *out, const sheet *s, size_t row, smoe_image *picture,
                     smoe_image *work, smoe_err *err) {
    size_t image[EACH] = {0}, found = 0; /* the first of the class, in the order of the data */
    for (size_t i = 0; i < smoe_dataset_images(s->set) && found < EACH; i++)
        if (smoe_dataset_label(s->set, i) == contact_class_of(s, row)) image[found++] = i;
    for (size_t half = 0; half < s->halves; half++)
        for (size_t k = 0; k < found; k++) {
            smoe_rng rng = smoe_rng_at(s->spec->seed, SMOE_RNG_AUGMENT, 0, 0, image[k]);
            if (smoe_dataset_picture(s->set, image[k], &s->spec->data, half ? &rng : NULL, picture,
                                     work, err))
                return -1;
            contact_put(out, picture, left_of(half, s) + k * s->cell, top_of(row, s), s->zoom);
        }
    return 0;
}

static int contact_paint(const sheet *s, const char *path, smoe_err *err) {
    SMOE_FREED_BY(smoe_image_free) smoe_image out = {0}, picture = {0}, work = {0};
    if (smoe_image_shape(&out, s->width, s->height, 3, err)) return -1;
    memset(out.pixel, 255, out.width * out.height * 3);
    for (size_t row = 0; row < s->rows; row++)
        if (paint_row(&out, s, row, &picture, &work, err)) return -1;
    return smoe_encode_png_write(&out, path, err);
}

/* ---- names ----------------------------------------------------------------------------------- */

static int contact_put_script(FILE *out, const void *context, smoe_err *err) {
    const sheet *s = context;
    double top = (double)s->height - 0.5 * ABOVE;
    (void)err;
    fputs("# Draws contact.svg and contact.png from contact-images.png: gnuplot contact.gp\n", out);
    smoe_gnuplot_terminal(out, "contact", (double)s->width, (double)s->height,
                          SMOE_PLOT_SCREEN_FONT, true);
    smoe_gnuplot_canvas(out, s->width, s->height, 0);
    smoe_gnuplot_label(out, "as in evaluations", (double)left_of(0, s), top, "left");
    if (s->halves == 2)
        smoe_gnuplot_label(out, "as training augments them", (double)left_of(1, s), top, "left");
    for (size_t row = 0; row < s->rows; row++)
        smoe_gnuplot_label(out, smoe_dataset_class_name(s->set, contact_class_of(s, row)),
                           (double)left_of(0, s),
                           (double)s->height - (double)top_of(row, s) + 0.5 * ABOVE, "left");
    fprintf(out,
            "plot 'contact-images.png' binary filetype=png origin=(0.5,0.5) with rgbimage\n"
            "set terminal pngcairo size %zu,%zu font 'sans,%d' fontscale 1 noenhanced\n"
            "set output 'contact.png'\nreplot\n",
            s->width, s->height, SMOE_PLOT_SCREEN_FONT);
    return 0;
}

int smoe_contact_write(const smoe_dataset *set, const smoe_spec *spec, const char *folder,
                       bool *drawn, smoe_err *err) {
    sheet s = contact_lay_out(set, spec);
    SMOE_FREED char *images = smoe_text_format("%s/contact-images.png", folder);
    SMOE_FREED char *named = smoe_text_format("%s/contact.png", folder);
    if (contact_paint(&s, images, err) || smoe_file_remove(named, err)) /* of an earlier sheet */
        return -1;
    if (smoe_gnuplot_draw(folder, "contact", contact_put_script, &s, false, drawn, err)) return -1;
    return smoe_gnuplot_check(named, err);
}
