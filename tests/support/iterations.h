/* Turning an event loop by hand, until what a test waits for has come. */

#ifndef SLUICE_TESTS_SUPPORT_TURNS_H
#define SLUICE_TESTS_SUPPORT_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

/* A loop, or the test fails. Free with loop_free(). */
struct loop *iterations_new_loop(void);

/* One turn, without waiting for anything. */
void iterations_once(struct loop *loop);

/* Turn until *@flag is set; the test fails if that takes more than ten seconds. */
void iterations_until(struct loop *loop, const bool *flag);

/* Turn until *@count is at least @wanted, within ten seconds. */
void iterations_until_count(struct loop *loop, const unsigned *count, unsigned wanted);

/* Turn for @us, for what must not happen meanwhile. Keep it to a few ms. */
void iterations_for(struct loop *loop, uint64_t us);

#endif /* SLUICE_TESTS_SUPPORT_TURNS_H */
