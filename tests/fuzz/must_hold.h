/* What a fuzz target states. */

#ifndef SLUICE_TESTS_MUST_HOLD_H
#define SLUICE_TESTS_MUST_HOLD_H

#include <stdlib.h>

/* Not assert(): optimised builds check too. */
#define MUST_HOLD(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif /* SLUICE_TESTS_MUST_HOLD_H */
