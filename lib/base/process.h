/* Processes, told apart from those of other machines and of other times; and the small files in
 * which the kernel tells about them and the machine. */
#pragma once

#include "base/base.h"

#include <sys/types.h>

/* The text of such a file, as far as there is room for it; "" where it cannot be read. Returns
 * buf. */
const char *smoe_process_read(const char *path, char *buf, size_t size);

/* What identifies this start of this machine, as far as process ids mean the same there. */
enum { SMOE_PROCESS_PLACE = 160 };
void smoe_process_place(char place[SMOE_PROCESS_PLACE]);

/* When a process began, in ticks since the start of the machine; 0: it is not there, or it has
 * ended. So a later process with the same number is not mistaken for it. */
uint64_t smoe_process_began(pid_t pid);
