/* cifar files: any bytes, as a file of cifar10 or of cifar100, plain, gzip or a pickle
 * depending on their first bytes. A file has the kind for which it has the right size, any other one that of its
 * parity. */
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { PIXELS = 3 * 32 * 32 }; /* behind the labels, of which cifar100 has two */
    bool hundred = size % (PIXELS + 1) && (!(size % (PIXELS + 2)) || size % 2);
    const char *name = hundred ? "test.bin" : "data_batch_1.bin";
    fuzz_write(name, data, size);
    fuzz_read(hundred ? SMOE_SOURCE_CIFAR100 : SMOE_SOURCE_CIFAR10, fuzz_place(),
              hundred ? "test" : "train", 8, 3);
    fuzz_remove(name);
    return 0;
}
