/* Parses a head in every way it may arrive and holds that the way makes no difference. */

#ifndef SLUICE_TESTS_HEAD_RUNNER_H
#define SLUICE_TESTS_HEAD_RUNNER_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "http/head.h"
#include "unit/http/span_assert.h"

enum runner_kind {
    RUNNER_REQUEST,
    RUNNER_RESPONSE,
    RUNNER_ANSWER_TO_HEAD,
};

enum {
    RUNNER_FIELDS_MAX = 8,
    RUNNER_HEAD_BYTES_MAX = 1024,
};

/* The head of @message, whole; spans point into @message. The same came out of each growing prefix
 * (PARTIAL until the end, or bad early for the same reason), of every two pieces, and with other
 * bytes behind it. At most RUNNER_FIELDS_MAX fields and RUNNER_HEAD_BYTES_MAX bytes. The result
 * lives until the next call. */
const struct head *runner_parse(enum runner_kind kind, struct span message,
                                enum parse_result *result, size_t *consumed);

/* The head of a good message that ends where its head ends. */
const struct head *runner_good(enum runner_kind kind, const char *message);

/* The status of a bad message; checks that a reason is given. */
unsigned runner_bad(enum runner_kind kind, struct span message);

#define GOOD_REQUEST(text) runner_good(RUNNER_REQUEST, (text))
#define BAD_REQUEST(text) runner_bad(RUNNER_REQUEST, SPAN(text))
#define GOOD_RESPONSE(text) runner_good(RUNNER_RESPONSE, (text))
#define BAD_RESPONSE(text) runner_bad(RUNNER_RESPONSE, SPAN(text))

#endif /* SLUICE_TESTS_HEAD_RUNNER_H */
