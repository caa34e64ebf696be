/* Image files in memory to pixels: which format they have, see decode.h; and the part of an image
 * that is used. */
#include "base/file.h"
#include "data/decode.h"

#include <strings.h>

static const smoe_decode_format *const formats[SMOE_IMAGE_KINDS] = {
    [SMOE_IMAGE_JPEG] = &smoe_decode_jpeg,
    [SMOE_IMAGE_PNG] = &smoe_decode_png,
    [SMOE_IMAGE_WEBP] = &smoe_decode_webp,
};

bool smoe_decode_is_image(const char *name) {
    static const char *const ending[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp"};
    const char *dot = strrchr(name, '.');
    bool known = false;
    for (size_t i = 0; dot && i < SMOE_COUNT(ending); i++) known |= !strcasecmp(dot, ending[i]);
    return known;
}

/* ---- formats that are not read --------------------------------------------------------------- */

/* HEIC and AVIF files are ISO media files: after the length of the first box come "ftyp" and the
 * name of what the rest is. mif1 and msf1 are the general names, which both use. */
enum { BOX = 4 };

static const struct {
    size_t at, size;
    const char *bytes, *format;
} others[] = {
    {0, 4, "GIF8", "GIF"},         {0, 2, "BM", "BMP"},
    {0, 4, "II*\0", "TIFF"},       {0, 4, "MM\0*", "TIFF"},
    {BOX, 8, "ftypavif", "AVIF"},  {BOX, 8, "ftypavis", "AVIF"},
    {BOX, 8, "ftypheic", "HEIC"},  {BOX, 8, "ftypheix", "HEIC"},
    {BOX, 8, "ftyphevc", "HEIC"},  {BOX, 8, "ftypmif1", "HEIF"},
    {BOX, 8, "ftypmsf1", "HEIF"},  {BOX, 8, "JXL \r\n\x87\n", "JPEG XL"},
    {0, 2, "\xff\x0a", "JPEG XL"}, {BOX, 8, "jP  \r\n\x87\n", "JPEG 2000"},
};

const char *smoe_decode_foreign(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < SMOE_COUNT(others); i++)
        if (size >= others[i].at + others[i].size &&
            !memcmp(bytes + others[i].at, others[i].bytes, others[i].size))
            return others[i].format;
    return NULL;
}

static int decode_refuse(const uint8_t *bytes, size_t size, smoe_err *err) {
    if (smoe_file_is_pointer(bytes, size)) return smoe_fail(err, SMOE_DATA, SMOE_FILE_POINTER);
    const char *format = smoe_decode_foreign(bytes, size);
    if (format)
        return smoe_fail(err, SMOE_DATA, "%s image, but only JPEG, PNG and WebP are read", format);
    return smoe_fail(err, SMOE_DATA, "unknown format: neither a JPEG, a PNG nor a WebP image");
}

/* ---- those that are -------------------------------------------------------------------------- */

int smoe_decode_header(smoe_image_header *header, const uint8_t *bytes, size_t size,
                       smoe_err *err) {
    *header = (smoe_image_header){.orientation = 1};
    if (!size) return smoe_fail(err, SMOE_DATA, "an empty file");
    for (int kind = SMOE_IMAGE_NONE + 1; kind < SMOE_IMAGE_KINDS; kind++)
        if (formats[kind]->begins(bytes, size)) header->kind = (smoe_image_kind)kind;
    if (header->kind == SMOE_IMAGE_NONE) return decode_refuse(bytes, size, err);
    if (formats[header->kind]->header(header, bytes, size, err)) return -1;
    if (!header->width || !header->height || header->width > SMOE_MOST_PIXELS / header->height)
        return smoe_fail(err, SMOE_DATA, "claims %zu x %zu pixels, at most %d are accepted",
                         header->width, header->height, SMOE_MOST_PIXELS);
    return 0;
}

int smoe_decode(smoe_image *image, const smoe_image_file *file, size_t channels, size_t shrink,
                smoe_err *err) {
    if (formats[file->header->kind]->image(image, file, channels, shrink, err)) return -1;
    return smoe_image_convert(image, channels, err);
}

/* Whether the image at 1/shrink of its size, with a border, has the place in the square that the
 * image itself has: at whole pixels, and without the padding of a JPEG's last blocks. */
static bool decode_border_fits(const smoe_image_header *header, size_t shrink) {
    size_t w = header->width, h = header->height, apart = w > h ? w - h : h - w;
    return w % shrink == 0 && h % shrink == 0 && apart % (2 * shrink) == 0;
}

int smoe_decode_fit(smoe_image *out, const smoe_data_spec *data, const uint8_t *bytes, size_t size,
                    smoe_rng *crop, smoe_image *work, smoe_image_header *header, smoe_err *err) {
    smoe_image_header own;
    if (!header) header = &own;
    if (smoe_decode_header(header, bytes, size, err)) return -1;
    const smoe_image_file file = {header, bytes, size};
    const size_t side = data->image_size;
    unsigned turn = data->orientation == SMOE_ORIENTATION_APPLY ? header->orientation : 1;
    size_t width = header->width, height = header->height;
    smoe_image_turned_size(turn, &width, &height);
    /* The box is that of the upright image; pixels are turned after they were resized. */
    double share = data->crop_pct > 0 ? data->crop_pct : 1; /* 0 where no spec was read */
    bool border = !crop && data->fit == SMOE_IMAGE_BORDER;
    bool squash = data->fit != SMOE_IMAGE_CROP;
    smoe_box box = crop ? smoe_box_inception(crop, width, height)
                        : smoe_box_share(width, height, side, border ? 1 : share, squash);
    box = smoe_box_stored(box, turn, header->width, header->height);
    double least = border ? fmax(box.width, box.height) : fmin(box.width, box.height);
    size_t shrink = header->kind == SMOE_IMAGE_JPEG ? 8 : 1;
    while (shrink > 1 && (least / (double)shrink < (double)side ||
                          (border && !decode_border_fits(header, shrink))))
        shrink /= 2;
    if (smoe_decode(work, &file, data->channels, shrink, err)) return -1;
    /* A pixel of the smaller image is `shrink` of the file's, the last of a row and column too,
     * even where part of it is padding. */
    double scale = 1 / (double)shrink;
    box = (smoe_box){box.x * scale, box.y * scale, box.width * scale, box.height * scale};
    if (border && smoe_image_border(work, err)) return -1;
    if (border) box = (smoe_box){0, 0, (double)work->width, (double)work->height};
    if (smoe_image_resize(out, side, work, box, data->resize, err)) return -1;
    smoe_image_turn(out, turn);
    return 0;
}
