/* The frames of smoe inspect, by the table inspect.def; see inspect.h. */
#include "inspect/inspect_view.h"
#include "base/alloc.h"

#include <stdlib.h>

static const struct entry {
    const char *name, *title, *caption;
    const smoe_column *columns; /* up to one without a name */
    unsigned needs;
    smoe_fill_layer *of_layer; /* one of the two */
    smoe_fill_run *of_run;
} entries[] = {
#define FRAME(frame, need, per, ...) \
    {.name = #frame, .needs = SMOE_INSPECT_##need, .of_##per = smoe_fill_##frame, __VA_ARGS__},
#include "inspect/inspect.def"
#undef FRAME
};

enum { ENTRIES = sizeof entries / sizeof *entries };

void smoe_frames_open(smoe_frame **frames, size_t *count) {
    *count = ENTRIES;
    *frames = smoe_alloc(ENTRIES, sizeof **frames);
    for (size_t i = 0; i < ENTRIES; i++)
        smoe_frame_init(&(*frames)[i], entries[i].name, entries[i].title, entries[i].caption,
                        entries[i].columns);
}

void smoe_frames_free(smoe_frame *frames, size_t count) {
    for (size_t i = 0; frames && i < count; i++) smoe_frame_free(&frames[i]);
    free(frames);
}

/* Tables of a layer need no other process: the first one makes them. Those of a run may be made of
 * further passes, which the processes divide. */
int smoe_inspect_fill(smoe_inspection *r, smoe_frame *frames, smoe_err *err) {
    for (size_t i = 0; i < ENTRIES; i++) {
        if ((entries[i].needs & r->has) != entries[i].needs) continue;
        for (size_t l = 0; entries[i].of_layer && !r->comm->rank && l < r->layers; l++)
            entries[i].of_layer(r, &frames[i], l);
        if (entries[i].of_run && entries[i].of_run(r, &frames[i], err)) return -1;
        if (smoe_frame_check(&frames[i], err)) return -1;
    }
    return 0;
}
