/* Requests to stop and to save. The first SIGINT, SIGTERM or SIGHUP asks to stop, a second SIGINT,
 * or a SIGTERM three seconds later, ends the process; SIGUSR1 asks for a checkpoint. For processes
 * of our own, the program and the trials of a sweep; another program's signals are its own
 * affair. */
#pragma once

#include "base/base.h"

#include <signal.h>

/* From now on signals that end the process (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU) first remove
 * the files that it has not written whole (smoe_file_drop). Ignored ones stay ignored. */
void smoe_stop_clean(void);

/* What these signals print on stderr before they end the process, until they are caught; the text
 * is the caller's. NULL: nothing. */
void smoe_stop_words(const char *text);

/* Catches these signals from now on. A signal that is ignored, as in a background job or under
 * nohup, stays ignored, except SIGUSR1. Returns the flag that a request to stop sets, or NULL with
 * errno if they cannot be caught. The flags start at 0, also in the child of a process that was
 * asked. */
const volatile sig_atomic_t *smoe_stop_catch(void);

/* The flag that a request for a checkpoint sets; the code that serves it sets it to 0 first. */
volatile sig_atomic_t *smoe_save_request(void);
