/* See data_mark.h. */
#include "train/data_mark.h"
#include "base/json.h"

#include <inttypes.h>
#include <zlib.h>

const char smoe_data_changed[] = "names, labels, sizes or pixels of its images have changed";

char *smoe_data_mark(smoe_checkpoint *state, const smoe_dataset *train) {
    enum { LONGEST = 1 << 20 };
    uLong crc = 0;
    json_auto_t *names = json_array();
    bool printable = true;
    for (size_t i = 0; i < smoe_dataset_classes(train); i++) {
        const char *name = smoe_dataset_class_name(train, i);
        crc = crc32(crc, (const Bytef *)name, (uInt)strlen(name) + 1);
        printable = printable && smoe_text_printable(name);
        if (printable) json_array_append_new(names, json_string(name));
    }
    char *text = printable ? smoe_json_dump(names, 0) : NULL;
    if (text && strlen(text) <= LONGEST) state->names = text;
    state->images = smoe_dataset_images(train);
    state->classes = crc;
    state->data = smoe_dataset_checksum(train);
    return text;
}

bool smoe_data_differs(const smoe_checkpoint *then, const smoe_checkpoint *now, char *how,
                       size_t size) {
    if (then->images && then->images != now->images)
        snprintf(how, size, "it has %" PRIu64 " images, and had %" PRIu64, now->images,
                 then->images);
    else if (then->classes && then->classes != now->classes)
        snprintf(how, size, "the names of its classes have changed");
    else if (then->data && then->data != now->data)
        snprintf(how, size, "%s", smoe_data_changed);
    else
        return false;
    return true;
}

bool smoe_data_tested_differs(const smoe_checkpoint *then, uint64_t tested) {
    return then->tested && tested && then->tested != tested;
}

json_t *smoe_data_keys(const json_t *spec, const char *split) {
    json_t *data = json_deep_copy(json_object_get(spec, "data"));
    json_object_del(data, "augment");
    json_object_del(data, "cache_mb");
    if (!split || strcmp(split, "train") != 0) json_object_del(data, "train_limit");
    return data;
}

int smoe_data_check_beside(const char *dir, const smoe_beside *beside, const smoe_checkpoint *now,
                           smoe_err *err) {
    smoe_checkpoint then;
    char other[96];
    if (smoe_checkpoint_state(beside->dir, &then, NULL) <= 0) return 0;
    bool trained = beside->trained && smoe_data_differs(&then, now, other, sizeof other),
         tested = beside->tested && smoe_data_tested_differs(&then, now->tested),
         shown = beside->fewshot && then.fewshot && now->fewshot && then.fewshot != now->fewshot;
    if (!trained && !tested && !shown) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: the %s data is not that of %s, with which it would be compared: %s; "
                     "restore the data, or begin another sweep with -o DIR",
                     dir,
                     trained  ? "training"
                     : tested ? "evaluation"
                              : "few-shot",
                     beside->dir, trained ? other : smoe_data_changed);
}
