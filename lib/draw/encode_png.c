/* PNG files through libpng's simplified interface. */
#include "draw/encode_png.h"
#include "base/file.h"

#include <png.h>

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
