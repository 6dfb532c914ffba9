/* The access log: one line per request, gathered per worker and written many at a time.
 *
 * logfmt: `time=… client=… method=… host=… path=… status=… route=… verdict=… …`, or a JSON object with the same
 * keys. Everything from outside is escaped and bounded. */

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

struct exchange;

struct access_log {
    int fd;       /* borrowed; -1: off */
    bool is_file; /* takes what it is given; anything else may have a slow reader */
    enum log_format format;
    struct text lines;    /* not written yet */
    struct timer flush;   /* armed while there are some */
    struct log_gate gate; /* of the warning that lines are lost */
    struct counter *lost; /* lines that the file did not take; borrowed */
    uint64_t time_second; /* that `time` shows */
    char time[32];
    size_t time_len;
};

/* Lines that get lost are counted in @lost. STATUS_NO_MEMORY. */
MUST_USE enum status access_log_init(struct access_log *log, struct loop *loop, int fd,
                                     enum log_format format, struct counter *lost);

/* Write what is there and close; the fd stays open. */
void access_log_close(struct access_log *log);

/* @exchange is over: add its line. */
void access_log_add(struct access_log *log, const struct exchange *exchange, uint64_t now_us);

#endif /* SLUICE_PROXY_ACCESS_LOG_H */
