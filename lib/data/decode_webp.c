/* WebP files by libwebp, see decode.h: lossy and lossless, one image; transparency is laid
 * over black. Animations are refused. */
#include "data/decode.h"

#include <webp/decode.h>

static bool is_webp(const uint8_t *bytes, size_t size) {
    return size >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4);
}

static int features(WebPBitstreamFeatures *found, const uint8_t *bytes, size_t size,
                    smoe_err *err) {
    VP8StatusCode code = WebPGetFeatures(bytes, size, found);
    if (code == VP8_STATUS_NOT_ENOUGH_DATA)
        return smoe_fail(err, SMOE_DATA, "damaged WebP header: it ends after %zu bytes", size);
    if (code != VP8_STATUS_OK) return smoe_fail(err, SMOE_DATA, "damaged WebP header");
    if (found->has_animation)
        return smoe_fail(err, SMOE_DATA, "a WebP animation: only single images are accepted");
    return 0;
}

static int webp_header(smoe_image_header *header, const uint8_t *bytes, size_t size,
                       smoe_err *err) {
    WebPBitstreamFeatures found;
    if (features(&found, bytes, size, err)) return -1;
    header->width = (size_t)found.width;
    header->height = (size_t)found.height;
    header->mode = found.has_alpha ? SMOE_MODE_COLOUR_ALPHA : SMOE_MODE_COLOUR;
    return 0;
}

static int webp_image(smoe_image *image, const smoe_image_file *file, size_t wanted, size_t shrink,
                      smoe_err *err) {
    const smoe_image_header *header = file->header;
    size_t channels = header->mode == SMOE_MODE_COLOUR_ALPHA ? 4 : 3;
    size_t row = header->width * channels, all = row * header->height;
    (void)wanted, (void)shrink;
    if (smoe_image_shape(image, header->width, header->height, channels, err)) return -1;
    uint8_t *(*decode)(const uint8_t *, size_t, uint8_t *, size_t, int) =
        channels == 4 ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
    if (!decode(file->bytes, file->size, image->pixel, all, (int)row))
        return smoe_fail(err, SMOE_DATA, "damaged WebP image: it cannot be decoded whole");
    if (channels == 4) smoe_image_over_black(image);
    return 0;
}

const smoe_decode_format smoe_decode_webp = {is_webp, webp_header, webp_image};
