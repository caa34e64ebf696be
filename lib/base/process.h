/* Processes, told apart from those of other machines and of other times. */
#pragma once

#include "base/base.h"

#include <sys/types.h>

/* What identifies this start of this machine, as far as process ids mean the same there. */
enum { SMOE_PROCESS_PLACE = 160 };
void smoe_process_place(char place[SMOE_PROCESS_PLACE]);

/* When a process began, in ticks since the start of the machine; 0: it is not there, or it has
 * ended. So a later process with the same number is not mistaken for it. */
uint64_t smoe_process_began(pid_t pid);
