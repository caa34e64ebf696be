/* Tables of labels: any bytes. An accepted table has a class in every row, and finds each row by
 * name. */
#include "data/labels.h"
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    smoe_labels *labels;
    smoe_err err;
    fuzz_write("labels.csv", data, size);
    snprintf(path, sizeof path, "%s/labels.csv", fuzz_place());
    if (!smoe_labels_read(&labels, path, &err))
        for (uint32_t i = 0; i < labels->rows; i++)
            if (!labels->row[i].count || smoe_labels_find(labels, labels->row[i].name) != i + 1)
                __builtin_trap();
    smoe_labels_free(labels);
    fuzz_remove("labels.csv");
    return 0;
}
