/* Compares a span with a C string. */

#ifndef SLUICE_TESTS_SPAN_ASSERT_H
#define SLUICE_TESTS_SPAN_ASSERT_H

#include <check.h>

#include "base/span.h"

#define ck_assert_span_eq(actual, text)                                                            \
    do {                                                                                           \
        const struct span got_ = (actual);                                                         \
        ck_assert_msg(span_equals(got_, span_of_text(text)), "got \"%.*s\", expected \"%s\"",      \
                      SPAN_ARGS(got_), (text));                                                    \
    } while (0)

#endif /* SLUICE_TESTS_SPAN_ASSERT_H */
