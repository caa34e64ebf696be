/* Requests to stop: the first SIGINT or SIGTERM asks, the second ends the process. For processes of
 * our own, the program and the trials of a sweep; another program's signals are its own affair. */
#ifndef SMOE_STOP_H
#define SMOE_STOP_H

#include "base/base.h"

#include <signal.h>

/* Catches both signals from now on. Returns the flag that the first of them sets, NULL with errno
 * when they cannot be caught. Nobody has asked yet, whatever was asked of a parent. */
const volatile sig_atomic_t *smoe_stop_catch(void);

#endif
