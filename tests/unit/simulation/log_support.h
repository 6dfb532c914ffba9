/* Lines of logs for the tests of this folder: read from a copy that ends where the line ends. */

#ifndef SLUICE_TESTS_LOG_SUPPORT_H
#define SLUICE_TESTS_LOG_SUPPORT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "simulation/log_fields.h"
#include "simulation/log_line.h"

static inline char *line_copy(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, strlen(text));
    return copy;
}

#define ck_assert_span_eq(span, text)                                                              \
    ck_assert_msg(span_equals((span), span_of_text(text)), "\"%.*s\" is not \"%s\"",               \
                  SPAN_ARGS(span), (text))

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif /* SLUICE_TESTS_LOG_SUPPORT_H */
