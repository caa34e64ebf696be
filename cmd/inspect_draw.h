/* The pictures of smoe inspect -o DIR: figures, overlays and the report. */
#ifndef SMOE_INSPECT_DRAW_H
#define SMOE_INSPECT_DRAW_H

#include "opt.h"
#include "origin.h"
#include "draw/overlay.h"

/* Files in the folder DIR beside the tables' CSV, which must be there. `samples`: of all runs,
 * those of a run together. */
int smoe_inspect_draw(const smoe_frame *frames, size_t tables, const smoe_sample *samples,
                      size_t count, const smoe_overlay_units *units, const smoe_origin *origin,
                      const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

#endif
