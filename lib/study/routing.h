/* What the routers of a trained model do with a data set: the analyses of the two papers, each a table: a row of
 * routing.def. */
#ifndef SMOE_ROUTING_H
#define SMOE_ROUTING_H

#include "base/frame.h"

/* One empty frame for every row of routing.def, in a fresh array of *count. */
int smoe_frames_open(smoe_frame **frames, size_t *count, smoe_err *err) SMOE_MUST_CHECK;
void smoe_frames_free(smoe_frame *frames, size_t count);
/* The frame of a name; NULL where there is none. */
const smoe_frame *smoe_frames_find(const smoe_frame *frames, size_t count, const char *name);

#endif
