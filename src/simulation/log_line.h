/* One line of an access log, in any format: the data of a request and of its answer.
 *
 * Lines are parsed in place: escapes are decoded in the line itself, which the caller owns and must
 * not use afterwards. The bytes of a log are untrusted. */

#ifndef SLUICE_SIMULATION_LOG_LINE_H
#define SLUICE_SIMULATION_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/span.h"
#include "tls/client_certificate.h"

enum {
    LOG_HEADERS_MAX = 8,        /* of a request, in a log */
    LOG_NAME_BYTES_MAX = 256,   /* of a field of JSON, including the names of enclosing fields */
    LOG_LINE_BYTES_MAX = 65536, /* a longer line is invalid */
};

/* The parts of a line. */
enum log_part {
    LOG_TIME,
    LOG_START_TIME, /* time at which the request began */
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
    LOG_COST,        /* reported by the response */
    LOG_SCHEME,      /* or the version of TLS */
    LOG_GRPC,        /* the status of a gRPC call, or that it had none */
    LOG_CERTIFICATE, /* and what follows: the facts of the client's certificate */
    LOG_CERTIFICATE_END = LOG_CERTIFICATE + CERTIFICATE_FACTS,
    LOG_HEADER = LOG_CERTIFICATE_END, /* LOG_HEADER + i is header i of struct log_fields */
    LOG_PARTS = LOG_HEADER + LOG_HEADERS_MAX,
};

struct log_line {
    uint64_t time_us; /* since the epoch: start of the request, as far as the line has it */
    bool has_takes;
    uint64_t takes_us;
    struct address peer; /* the connected peer, or the client, whichever the line has */
    struct span method;  /* empty: the client sent no valid request */
    struct span target;
    struct span host; /* data is NULL: absent */
    uint16_t status;  /* 0: none, or absent */
    struct span cost; /* data is NULL: absent */
    bool is_https;
    bool is_grpc;
    uint8_t grpc_status;                        /* of a call; 0: OK, none, or absent */
    struct span certificate[CERTIFICATE_FACTS]; /* of the client; all empty: none */
    struct span headers[LOG_HEADERS_MAX];       /* data is NULL: absent */
    uint32_t parts;                             /* bit set of the parts present */
};

/* Cache of the last time that was parsed, so that equal texts are parsed once. One per thread. */
struct log_clock {
    char text[32];
    size_t len;
    uint64_t us;
};

/* The meaning of the fields of JSON and logfmt: see log_fields.h. */
struct log_fields;

/* Each parses @line, @len bytes without the line end. False: the line has another format, or its
 * client or time is missing. */
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

/* Split `GET /path HTTP/1.1`. An invalid request line leaves method empty. */
void log_request_split(struct span request, struct log_line *out);

/* Parse the peer @text: an address, or `unix`. */
MUST_USE bool log_peer_read(struct span text, struct address *peer);

/* The status in @text; 0 for `-` and for an invalid status. */
uint16_t log_status_read(struct span text);

/* Read a quoted text. *@at is after the opening quote; it is moved after the closing one. If
 * @is_wanted, \" \\ \/ \b \f \n \r \t, \xHH and \uHHHH are decoded in place; other escapes stay.
 * False: the text does not end before @end. */
MUST_USE bool log_quoted_read(char **at, char *end, bool is_wanted, struct span *text);

#endif /* SLUICE_SIMULATION_LOG_LINE_H */
