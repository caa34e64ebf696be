/* Several processes in a test, forked from it and joined by sockets: a link of comm/comm.h. */
#ifndef FORKED_H
#define FORKED_H

#include "comm/comm.h"

enum { FORKED_MOST = 8 };

/* Runs work in each of `size` processes, this one not among them. Whether all of them returned true.
 * To be called before the test has started threads. */
bool forked_run(int size, bool (*work)(smoe_comm *comm, void *user), void *user);

#endif
