/* idx pairs: the first two bytes (little-endian) are the length of the file of images, the rest
 * is the file of labels. */
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t rest = size - 2, images = (size_t)data[0] | (size_t)data[1] << 8;
    if (images > rest) images = rest;
    fuzz_write("train-images-idx3-ubyte", data + 2, images);
    fuzz_write("train-labels-idx1-ubyte", data + 2 + images, rest - images);
    fuzz_read(SMOE_SOURCE_IDX, fuzz_place(), "train", 5, 1);
    fuzz_remove("train-images-idx3-ubyte");
    fuzz_remove("train-labels-idx1-ubyte");
    return 0;
}
