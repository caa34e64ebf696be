/* The tables of smoe inspect; see routing.h. */
#include "study/routing.h"

#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *name, *title, *columns, *caption;
} rows[] = {
#define FRAME(name, needs, title, columns, caption) {#name, title, columns, caption},
#include "study/routing.def"
#undef FRAME
};
enum { ROWS = sizeof rows / sizeof *rows };

int smoe_frames_open(smoe_frame **frames, size_t *count, smoe_err *err) {
    *count = ROWS;
    *frames = calloc(ROWS, sizeof **frames);
    if (!*frames) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the tables");
    for (size_t i = 0; i < ROWS; i++)
        smoe_frame_init(&(*frames)[i], rows[i].name, rows[i].title, rows[i].caption,
                        rows[i].columns);
    return 0;
}

void smoe_frames_free(smoe_frame *frames, size_t count) {
    for (size_t i = 0; frames && i < count; i++) smoe_frame_free(&frames[i]);
    free(frames);
}

const smoe_frame *smoe_frames_find(const smoe_frame *frames, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(frames[i].name, name)) return &frames[i];
    return NULL;
}
