/* Requests to stop and to save. The first SIGINT, SIGTERM or SIGHUP asks to stop, a second SIGINT
 * or SIGTERM ends the process; SIGUSR1 asks for a checkpoint. For processes of our own, the program
 * and the trials of a sweep; another program's signals are its own affair. */
#ifndef SMOE_STOP_H
#define SMOE_STOP_H

#include "base/base.h"

#include <signal.h>

/* Catches them from now on. One that is ignored stays so, as of a job in the background or behind
 * nohup; but for SIGUSR1. Returns the flag that a request to stop sets, NULL with errno when they
 * cannot be caught. Nobody has asked yet, whatever was asked of a parent. */
const volatile sig_atomic_t *smoe_stop_catch(void);

/* The flag that a request for a checkpoint sets; whoever serves it sets it to 0 before. */
volatile sig_atomic_t *smoe_save_request(void);

#endif
