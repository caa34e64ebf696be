/* Image files: any bytes, whole and as a random box. The size of the input determines everything
 * else. */
#include "data/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The decoder accepts larger images, but they only take time here. */
enum { ENOUGH = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    smoe_image image = {0}, work = {0};
    size_t side = 1 + size % 37, channels = size % 2 ? 1 : 3;
    smoe_data_spec spec = {.crop_pct = 1,
                           .image_size = side,
                           .channels = channels,
                           .orientation =
                               size % 5 ? SMOE_ORIENTATION_APPLY : SMOE_ORIENTATION_IGNORE};
    smoe_rng rng = smoe_rng_at(size, SMOE_RNG_TEST, 0, 0, 0);
    smoe_image_header header;
    smoe_err err;
    if (!smoe_decode_header(&header, data, size, &err) && header.width * header.height <= ENOUGH &&
        !smoe_decode_fit(&image, &spec, data, size, size % 3 ? &rng : NULL, &work, NULL, &err) &&
        (image.width != side || image.height != side || image.channels != channels))
        __builtin_trap();
    smoe_image_free(&image);
    smoe_image_free(&work);
    return 0;
}
