/* libevent without memory: its event_add() fails when a test says so. */

#ifndef SLUICE_TESTS_SUPPORT_FAILING_EVENTS_H
#define SLUICE_TESTS_SUPPORT_FAILING_EVENTS_H

/* The next @n calls of event_add() fail, and add nothing. */
void failing_events_next(unsigned n);

#endif /* SLUICE_TESTS_SUPPORT_FAILING_EVENTS_H */
