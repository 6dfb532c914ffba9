/* One line of an access log, whatever its format: what it says of a request and of its answer.
 *
 * Lines are read in place: where a text has escapes they are undone in the line itself, which the
 * caller owns and does not need any more. Bytes of a log are a stranger's. */

#ifndef SLUICE_TRIAL_LOG_LINE_H
#define SLUICE_TRIAL_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"

enum {
    LOG_HEADERS_MAX = 8,        /* of a request, that a log tells of */
    LOG_NAME_BYTES_MAX = 256,   /* of a field of JSON, with those that it is within */
    LOG_LINE_BYTES_MAX = 65536, /* what is longer is no line */
};

/* What a line can tell. */
enum log_part {
    LOG_TIME,
    LOG_START_TIME, /* the same, of when the request began */
    LOG_CLIENT,
    LOG_REQUEST, /* a request line */
    LOG_METHOD,
    LOG_TARGET,
    LOG_HOST,
    LOG_STATUS,
    LOG_TAKES_S, /* seconds, perhaps with a fraction */
    LOG_TAKES_MS,
    LOG_TAKES_US,
    LOG_TAKES_NS,
    LOG_COST,   /* that the response told */
    LOG_HEADER, /* and those that follow: LOG_HEADER + i is header i of the fields that are known */
    LOG_PARTS = LOG_HEADER + LOG_HEADERS_MAX,
};

struct log_line {
    uint64_t time_us; /* since the epoch: when the request began, as far as the line tells */
    bool has_takes;
    uint64_t takes_us;
    struct address peer; /* as the line tells who was connected, or who the client was */
    struct span method;  /* empty: what was sent was no request */
    struct span target;
    struct span host;                     /* data is NULL: not told */
    uint16_t status;                      /* 0: none, or not told */
    struct span cost;                     /* data is NULL: not told */
    struct span headers[LOG_HEADERS_MAX]; /* likewise */
    uint32_t parts;                       /* bit set of what was told */
};

/* The time zone's last second, so that equal texts are read once. One a thread. */
struct log_clock {
    char text[32];
    size_t len;
    uint64_t us;
};

/* What the fields of JSON and logfmt mean: see log_fields.h. */
struct log_fields;

/* Each reads @line, of @len bytes without its end. False: it is no such line, or
 * says neither when nor who. */
MUST_USE bool log_combined_read(char *line, size_t len, struct log_clock *clock,
                                struct log_line *out);
MUST_USE bool log_json_read(char *line, size_t len, const struct log_fields *fields,
                            struct log_clock *clock, struct log_line *out);
MUST_USE bool log_logfmt_read(char *line, size_t len, const struct log_fields *fields,
                              struct log_clock *clock, struct log_line *out);

/* --- for the readers --- */

/* `10/Oct/2000:13:55:36 -0700`, RFC 3339, or seconds, ms, us or ns since the epoch. */
MUST_USE bool log_time_read(struct span text, struct log_clock *clock, uint64_t *us);

/* A decimal number of units that are @unit_ns long, perhaps with a fraction, in us. */
MUST_USE bool log_length_read(struct span text, uint64_t unit_ns, uint64_t *us);

/* Split `GET /path HTTP/1.1`. What is none leaves method empty. */
void log_request_split(struct span request, struct log_line *out);

/* Who @text names: an address, or `unix`. */
MUST_USE bool log_peer_read(struct span text, struct address *peer);

/* The status in @text; `-` and what is none is 0. */
uint16_t log_status_read(struct span text);

/* Read a text in quotes, *@at being behind the first one, and move *@at behind the last. Where it
 * @is_wanted, \" \\ \/ \b \f \n \r \t, \xHH and \uHHHH are undone in place; what is none of these
 * stays. False: it does not end before @end. */
MUST_USE bool log_quoted_read(char **at, char *end, bool is_wanted, struct span *text);

#endif /* SLUICE_TRIAL_LOG_LINE_H */
