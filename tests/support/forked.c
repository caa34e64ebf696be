/* Processes joined by sockets; see forked.h. */
#include "forked.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The sockets between processes: fd[i][j] is the one that process i uses for j. */
typedef struct wires {
    int fd[FORKED_MOST][FORKED_MOST];
    int rank;
} wires;

/* Sends and receives at the same time, so that neither process waits for the other. */
static void wire_exchange(void *self, int other, const void *out, size_t out_bytes, void *in,
                          size_t in_bytes, bool background) {
    const wires *w = self;
    int fd = w->fd[w->rank][other];
    const char *from = out;
    char *to = in;
    (void)background; /* poll sleeps in any case */
    while (out_bytes || in_bytes) {
        struct pollfd p = {.fd = fd, .events = (out_bytes ? POLLOUT : 0) | (in_bytes ? POLLIN : 0)};
        if (poll(&p, 1, 20000) <= 0) _exit(3); /* the other process is gone */
        if (!in_bytes && p.revents & (POLLERR | POLLHUP)) _exit(4);
        if (out_bytes && p.revents & POLLOUT) {
            ssize_t n = send(fd, from, out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n > 0) from += n, out_bytes -= (size_t)n;
        }
        if (in_bytes && p.revents & (POLLIN | POLLHUP)) {
            ssize_t n = recv(fd, to, in_bytes, MSG_DONTWAIT);
            if (!n) _exit(4);
            if (n > 0) to += n, in_bytes -= (size_t)n;
        }
    }
}

static void wire_close(void *self) {
    (void)self;
}

static const smoe_link wire = {wire_exchange, wire_close};

static void child(wires *w, int rank, int size, bool (*work)(smoe_comm *, void *), void *user) {
    smoe_comm comm = {.link = &wire, .self = w, .rank = rank, .size = size, .host = "here"};
    w->rank = rank;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            if (i != rank && i != j) close(w->fd[i][j]);
    smoe_err err = {0};
    bool good = !smoe_comm_start(&comm, &err) && work(&comm, user);
    smoe_comm_stop(&comm);
    fflush(NULL);
    _exit(good ? 0 : 1);
}

bool forked_run(int size, bool (*work)(smoe_comm *comm, void *user), void *user) {
    wires w = {.rank = 0};
    pid_t pid[FORKED_MOST];
    bool good = size <= FORKED_MOST;
    for (int i = 0; good && i < size; i++)
        for (int j = 0; j < i; j++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return false;
            w.fd[i][j] = pair[0];
            w.fd[j][i] = pair[1];
        }
    fflush(NULL);
    for (int r = 0; good && r < size; r++) {
        pid[r] = fork();
        if (!pid[r]) child(&w, r, size, work, user);
    }
    for (int i = 0; good && i < size; i++)
        for (int j = 0; j < size; j++)
            if (i != j) close(w.fd[i][j]);
    for (int r = 0; r < size && size <= FORKED_MOST; r++) {
        int status;
        good = waitpid(pid[r], &status, 0) == pid[r] && status == 0 && good;
    }
    return good;
}
