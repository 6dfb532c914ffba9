/* What must hold of a line of a log that was read, in whatever format. */

#ifndef SLUICE_TESTS_FUZZ_LOG_H
#define SLUICE_TESTS_FUZZ_LOG_H

#include <stdlib.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "simulation/log_fields.h"
#include "simulation/log_line.h"

/* A copy that ends where the line ends, so that reading on is seen. */
static inline char *log_copy(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    MUST_HOLD(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

static inline void check_within(struct span span, const char *line, size_t size)
{
    if (span.data != NULL && span.len > 0) {
        MUST_HOLD(span.data >= line && span.data + span.len <= line + size);
    }
}

static inline void check_line(const struct log_line *read, const char *line, size_t size)
{
    MUST_HOLD(read->status <= 999);
    MUST_HOLD(read->time_us <= UINT64_MAX / 2);
    check_within(read->method, line, size);
    check_within(read->target, line, size);
    check_within(read->host, line, size);
    check_within(read->cost, line, size);
    for (size_t i = 0; i < LOG_HEADERS_MAX; i++) {
        check_within(read->headers[i], line, size);
    }
}

#endif /* SLUICE_TESTS_FUZZ_LOG_H */
