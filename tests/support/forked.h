/* Several processes in a test, forked from it and connected by sockets: a link of comm/comm.h. */
#pragma once

#include "comm/comm.h"

enum { FORKED_MOST = 8 };

/* Runs work in each of `size` child processes. Returns whether all of them returned true. Must
 * be called before the test starts threads. */
bool forked_run(int size, bool (*work)(smoe_comm *comm, void *user), void *user);
