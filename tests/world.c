/* See world.h. */
#include "world.h"

#include <stdlib.h>

int world_setup(void **state) {
    world *w = calloc(1, sizeof *w);
    if (!w) return -1;
    scratch_make(&w->folder);
    scratch_path(&w->folder, w->dir, "sweep");
    *state = w;
    return 0;
}

int world_teardown(void **state) {
    world *w = *state;
    scratch_remove(&w->folder);
    free(w);
    return 0;
}
