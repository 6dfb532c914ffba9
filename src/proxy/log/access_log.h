/* The access log: one line per request. Each worker collects lines and passes many at a time to the
 * thread of the output (base/log_output.h).
 *
 * logfmt: `time=… client=… method=… host=… path=… status=… route=… verdict=… …`, or a JSON object
 * with the same keys; or the combined format of nginx. Untrusted values are escaped and bounded. */

#ifndef SLUICE_PROXY_LOG_ACCESS_LOG_H
#define SLUICE_PROXY_LOG_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/log_output.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "net/loop.h"
#include "policy/policy.h"
#include "policy/settings.h"
#include "proxy/log/denied_lines.h"

/* --- one line: keys and values, as logfmt or as a JSON object --- */

/* X(NAME, "key"), in the order of a line. */
#define LINE_KEY_LIST(X)                                                                           \
    X(CLIENT, "client")                                                                            \
    X(METHOD, "method")                                                                            \
    X(HOST, "host")                                                                                \
    X(PATH, "path")                                                                                \
    X(QUERY, "query")                                                                              \
    X(REFERER, "referer")                                                                          \
    X(USER_AGENT, "user_agent")                                                                    \
    X(VERSION, "version")                                                                          \
    X(GRPC, "grpc")                                                                                \
    X(TLS, "tls")                                                                                  \
    X(SNI, "sni")                                                                                  \
    X(ALPN, "alpn")                                                                                \
    X(RESUMED, "resumed")                                                                          \
    X(STATUS, "status")                                                                            \
    X(ROUTE, "route")                                                                              \
    X(VERDICT, "verdict")                                                                          \
    X(LIMIT, "limit")                                                                              \
    X(KEY, "key")                                                                                  \
    X(SHADOW, "shadow")                                                                            \
    X(SOURCE, "source")                                                                            \
    X(FAILURE, "failure")                                                                          \
    X(BAN, "ban")                                                                                  \
    X(STORE_US, "store_us")                                                                        \
    X(HELD_US, "held_us")                                                                          \
    X(BUFFERED_US, "buffered_us")                                                                  \
    X(QUEUED_US, "queued_us")                                                                      \
    X(UPSTREAM, "upstream")                                                                        \
    X(UPSTREAM_US, "upstream_us")                                                                  \
    X(SERVER_HTTP, "server_http")                                                                  \
    X(ID, "id")                                                                                    \
    X(IN, "in")                                                                                    \
    X(OUT, "out")                                                                                  \
    X(US, "us")                                                                                    \
    X(FAULT, "fault")

enum line_key {
#define LINE_KEY(name, key) LINE_##name,
    LINE_KEY_LIST(LINE_KEY)
#undef LINE_KEY
};

enum {
    LINE_KEY_BYTES = 16,         /* a key with its punctuation, in either form */
    LINE_VALUE_BYTES_MAX = 1024, /* of one untrusted value; the rest is cut */
};

struct line_key_text {
    char bytes[LINE_KEY_BYTES];
    size_t len;
};

struct access_line {
    struct text *text; /* borrowed; truncated: the line is incomplete */
    bool is_json;
    const struct line_key_text *keys; /* by enum line_key, in the form of the line */
};

/* Begin a line at the end of @text, with @time. */
struct access_line access_line_begin(struct text *text, bool is_json, struct span time);
void access_line_end(struct access_line *line);

/* Add untrusted text, escaped. */
void access_line_add_text(struct access_line *line, enum line_key key, struct span value);

/* Add a word that needs no escape: a word of the proxy, or a name from the policy. */
void access_line_add_word(struct access_line *line, enum line_key key, struct span word);

void access_line_add_number(struct access_line *line, enum line_key key, uint64_t number);
void access_line_add_hex(struct access_line *line, enum line_key key, const uint8_t *bytes,
                         size_t len);
void access_line_add_address(struct access_line *line, enum line_key key,
                             const struct address *address);

/* A line of the combined format; an empty text is "-". */
struct combined_line {
    struct address client;
    struct span method;
    struct span path;
    struct span query;
    bool is_http2;
    uint8_t minor; /* of HTTP/1 */
    uint16_t status;
    uint64_t body_bytes; /* of the response */
    struct span referer;
    struct span user_agent;
};

enum { ACCESS_LOG_ALL_PPM = 1000000 };

struct access_log {
    struct log_output *output; /* borrowed; NULL: off */
    enum log_format format;
    uint32_t fields;     /* bits by enum log_field */
    uint32_t sample_ppm; /* share of requests that get a line without needing one */
    uint32_t sample_sum; /* adds sample_ppm for each such request; a line is due at a million */
    struct denied_lines *denied; /* NULL: the log is off */
    struct timer report;
    bool is_report_due;             /* the timer is armed: denied has something to report */
    struct text lines;              /* not appended to the output yet */
    size_t line_start;              /* of the line that is being written */
    struct timer flush;             /* armed while there are lines */
    uint64_t (*read_wall_us)(void); /* clock_wall_us(), except in tests */
    uint64_t time_ms;               /* monotonic time at which `time` was written */
    uint64_t time_second;           /* the second that `time` shows */
    char time[32];
    size_t time_len; /* 0: none yet */
};

/* log_destination_open() has opened @output for @section. STATUS_NO_MEMORY: the log is off. */
MUST_USE enum status access_log_init(struct access_log *log, struct loop *loop,
                                     struct log_output *output, const struct log_section *section);

/* Append the remaining lines to the output, which stays open. */
void access_log_close(struct access_log *log);

/* Whether the log is on. */
static inline bool access_log_is_on(const struct access_log *log)
{
    return log->output != NULL;
}

/* Whether requests that need no line may be omitted. */
static inline bool access_log_is_sampled(const struct access_log *log)
{
    return log->sample_ppm < ACCESS_LOG_ALL_PPM;
}

/* Whether a completed request that needs no line gets one nevertheless. The choice is even: at 10 %
 * of any hundred such requests of one worker, ten get a line. */
MUST_USE bool access_log_draw(struct access_log *log);

/* Whether a request of @client that was refused before a server was asked, and so needs a line,
 * gets one: log.denied_lines. Those that get none are reported in the program's log, once a second
 * at most. @limit: the name of the limit that denied it, or empty. The log must be on. */
MUST_USE bool access_log_allows_denied(struct access_log *log, const struct address *client,
                                       struct span limit, uint64_t now_us);

/* Whether the policy wants @field in the line. */
static inline bool access_log_has(const struct access_log *log, enum log_field field)
{
    return (log->fields >> field & 1) != 0;
}

/* Write the whole line of a completed request: the log is on, and its format is combined. */
void access_log_write_combined(struct access_log *log, uint64_t now_us,
                               const struct combined_line *line);

/* Begin the line of a completed request. The log must be on, and its format another. */
struct access_line access_log_begin_line(struct access_log *log, uint64_t now_us);

/* End the line. A line that does not fit is dropped and counted as lost. */
void access_log_end_line(struct access_log *log, struct access_line *line);

/* --- the destination that the policy names: stdout, a file, or syslog --- */

/* Open the destination that @log names; *output is NULL if the log is off. The syslog daemon need
 * not be listening yet. Close it with log_output_close(). STATUS_IO, STATUS_NO_MEMORY: logged. */
MUST_USE enum status log_destination_open(const struct log_section *log,
                                          struct log_output **output);

/* Reopen the file of @output, opened for @log, after the file was renamed. A failure is logged, and
 * the output continues with the old file. */
void log_destination_reopen(const struct log_section *log, struct log_output *output);

#endif /* SLUICE_PROXY_LOG_ACCESS_LOG_H */
