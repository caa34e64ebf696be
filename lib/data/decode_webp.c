/* WebP files in memory to pixels, see decode_webp.h. */
#include "data/decode_webp.h"

#include <string.h>
#include <webp/decode.h>

bool smoe_decode_is_webp(const uint8_t *bytes, size_t size) {
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

int smoe_decode_webp_header(size_t *width, size_t *height, smoe_image_mode *mode,
                            const uint8_t *bytes, size_t size, smoe_err *err) {
    WebPBitstreamFeatures found;
    if (features(&found, bytes, size, err)) return -1;
    *width = (size_t)found.width;
    *height = (size_t)found.height;
    *mode = found.has_alpha ? SMOE_MODE_COLOUR_ALPHA : SMOE_MODE_COLOUR;
    return 0;
}

int smoe_decode_webp_image(smoe_image *image, size_t width, size_t height, const uint8_t *bytes,
                           size_t size, smoe_err *err) {
    WebPBitstreamFeatures found;
    if (features(&found, bytes, size, err)) return -1;
    size_t channels = found.has_alpha ? 4 : 3, all = width * height * channels;
    if (smoe_image_shape(image, width, height, channels, err)) return -1;
    int stride = (int)(width * channels);
    bool whole = channels == 4 ? WebPDecodeRGBAInto(bytes, size, image->pixel, all, stride) != NULL
                               : WebPDecodeRGBInto(bytes, size, image->pixel, all, stride) != NULL;
    if (!whole) return smoe_fail(err, SMOE_DATA, "damaged WebP image: it cannot be decoded whole");
    if (channels == 4) smoe_image_over_black(image);
    return 0;
}
