/* idx pairs: the first two bytes (little-endian) are the length of the file of images, the rest
 * is the file of labels. */
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t rest = size - 2, images = (size_t)data[0] | (size_t)data[1] << 8;
    if (images > rest) images = rest;
    fuzz_write(folder, "train-images-idx3-ubyte", data + 2, images);
    fuzz_write(folder, "train-labels-idx1-ubyte", data + 2 + images, rest - images);
    fuzz_read_all(SMOE_SOURCE_IDX, folder, 5, 1);
    fuzz_remove(folder, "train-images-idx3-ubyte");
    fuzz_remove(folder, "train-labels-idx1-ubyte");
    return 0;
}
