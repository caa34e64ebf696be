/* Commands that the processes of a launcher run together, instead of each running them
 * separately. */
#ifndef SMOE_TOGETHER_H
#define SMOE_TOGETHER_H

#include "opt.h"

/* Runs `command` with options->comm, all processes of which end with the same status. Only process 0
 * prints, results and what fails. Each gets its share of the cores, where threads are not given. */
int smoe_together(const smoe_options *options, smoe_command_run *command, smoe_err *err);

#endif
