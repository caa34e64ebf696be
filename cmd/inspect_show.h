/* What smoe inspect prints: short tables, or everything as JSON. */
#ifndef SMOE_INSPECT_SHOW_H
#define SMOE_INSPECT_SHOW_H

#include "opt.h"
#include "inspect/inspect.h"

int smoe_inspect_show(const smoe_frame *frames, size_t tables, const smoe_options *options,
                      smoe_err *err) SMOE_MUST_CHECK;

#endif
