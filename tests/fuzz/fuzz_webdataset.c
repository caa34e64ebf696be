/* webdataset: any bytes as a shard; and its captions, in txt or in json. */
#include "files.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_captions(const char *path, char *member) {
    char caption[SMOE_CAPTION];
    smoe_spec spec = fuzz_data(SMOE_SOURCE_WEBDATASET, path, 8, 3);
    smoe_dataset *set;
    smoe_err err = {0};
    spec.train.loss = SMOE_LOSS_CONTRASTIVE;
    spec.data.caption = member;
    if (smoe_dataset_open(&set, &spec, "train", NULL, &err)) {
        if (!err.text[0] || err.code == SMOE_OK) __builtin_trap();
        return;
    }
    for (size_t i = 0; i < smoe_dataset_images(set); i++)
        if (!smoe_dataset_caption(set, i, NULL, caption, sizeof caption, &err) &&
            strlen(caption) >= sizeof caption)
            __builtin_trap();
    smoe_dataset_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    fuzz_write("train-0.tar", data, size);
    snprintf(path, sizeof path, "%s/{split}-{0..0}.tar", fuzz_place());
    fuzz_read(SMOE_SOURCE_WEBDATASET, path, "train", 8, size % 2 ? 1 : 3);
    read_captions(path, size % 4 < 2 ? "json.caption" : NULL);
    fuzz_remove("train-0.tar");
    return 0;
}
