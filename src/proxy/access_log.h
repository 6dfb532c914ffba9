/* The access log: one line per request, gathered per worker and written many at a time.
 *
 * logfmt: `time=… client=… method=… host=… path=… status=… route=… verdict=… …`, or a JSON object
 * with the same keys. Everything from outside is escaped and bounded. */

#ifndef SLUICE_PROXY_ACCESS_LOG_H
#define SLUICE_PROXY_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "net/loop.h"
#include "policy/policy.h"
#include "proxy/log_sink.h"

struct exchange;

struct access_log {
    struct log_sink sink;
    enum log_format format;
    uint32_t sample_ppm;  /* of the requests that need no line, how many have one */
    uint32_t sample_sum;  /* of those since the latest, in ppm: at a million the next has a line */
    struct text lines;    /* not written yet */
    struct timer flush;   /* armed while there are some */
    struct log_gate gate; /* of the warning that lines are lost */
    struct counter *lost; /* lines that the file did not take; borrowed */
    uint64_t (*read_wall_us)(void); /* clock_wall_us(), but in tests */
    uint64_t time_ms;               /* of the monotonic clock: when `time` was made */
    uint64_t time_second;           /* that `time` shows */
    char time[32];
    size_t time_len; /* 0: none yet */
};

/* @fd is of the place that @section names, as log_place_open() says. Lines that get lost are
 * counted in @lost. STATUS_NO_MEMORY. */
MUST_USE enum status access_log_init(struct access_log *log, struct loop *loop, int fd,
                                     const struct log_section *section, struct counter *lost);

/* Write what is there and close; the place stays open. */
void access_log_close(struct access_log *log);

/* @exchange is over: add its line, if it is to have one. */
void access_log_add(struct access_log *log, const struct exchange *exchange, uint64_t now_us);

#endif /* SLUICE_PROXY_ACCESS_LOG_H */
