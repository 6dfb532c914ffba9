/* Counts system calls of this program, those that its libraries make included. */

#ifndef SLUICE_TESTS_COUNTED_CALLS_H
#define SLUICE_TESTS_COUNTED_CALLS_H

struct counted_calls {
    unsigned n_accept4;
    unsigned n_epoll_ctl;
    unsigned n_recv;
    unsigned n_send;
    unsigned n_setsockopt;
};

/* Since the start; a test sets it to zero. */
extern struct counted_calls counted_calls;

#endif /* SLUICE_TESTS_COUNTED_CALLS_H */
