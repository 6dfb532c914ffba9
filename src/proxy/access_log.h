/* The access log: one line per request, gathered per worker and given to the
 * output's thread (base/log_output.h) many at a time.
 *
 * logfmt: `time=… client=… method=… host=… path=… status=… route=… verdict=… …`, or a JSON object
 * with the same keys. Everything from outside is escaped and bounded. */

#ifndef SLUICE_PROXY_ACCESS_LOG_H
#define SLUICE_PROXY_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log_output.h"
#include "base/status.h"
#include "base/text.h"
#include "net/loop.h"
#include "policy/policy.h"

struct exchange;

struct access_log {
    struct log_output *output; /* borrowed; NULL: off */
    enum log_format format;
    uint32_t sample_ppm; /* of the requests that need no line, how many have one */
    uint32_t sample_sum; /* of those since the latest, in ppm: at a million the next has a line */
    struct text lines;   /* not appended to the output yet */
    struct timer flush;  /* armed while there are some */
    uint64_t (*read_wall_us)(void); /* clock_wall_us(), but in tests */
    uint64_t time_ms;               /* of the monotonic clock: when `time` was made */
    uint64_t time_second;           /* that `time` shows */
    char time[32];
    size_t time_len; /* 0: none yet */
};

/* @output is what log_place_open() opened for @section. STATUS_NO_MEMORY: the log is off. */
MUST_USE enum status access_log_init(struct access_log *log, struct loop *loop,
                                     struct log_output *output, const struct log_section *section);

/* Append the lines that there are to the output, which stays open. */
void access_log_close(struct access_log *log);

/* @exchange is over: add its line, if it is to have one. */
void access_log_add(struct access_log *log, const struct exchange *exchange, uint64_t now_us);

#endif /* SLUICE_PROXY_ACCESS_LOG_H */
