/* A line of the access log as it is written: keys and values, as logfmt or as a JSON object. */

#ifndef SLUICE_PROXY_LOG_LINE_H
#define SLUICE_PROXY_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/span.h"
#include "base/text.h"

/* X(NAME, "key"), in the order of a line. */
#define LOG_KEY_LIST(X)                                                                            \
    X(CLIENT, "client")                                                                            \
    X(METHOD, "method")                                                                            \
    X(HOST, "host")                                                                                \
    X(PATH, "path")                                                                                \
    X(STATUS, "status")                                                                            \
    X(ROUTE, "route")                                                                              \
    X(VERDICT, "verdict")                                                                          \
    X(LIMIT, "limit")                                                                              \
    X(KEY, "key")                                                                                  \
    X(SHADOW, "shadow")                                                                            \
    X(SOURCE, "source")                                                                            \
    X(FAILURE, "failure")                                                                          \
    X(STORE_US, "store_us")                                                                        \
    X(HELD_US, "held_us")                                                                          \
    X(QUEUED_US, "queued_us")                                                                      \
    X(UPSTREAM, "upstream")                                                                        \
    X(UPSTREAM_US, "upstream_us")                                                                  \
    X(ID, "id")                                                                                    \
    X(IN, "in")                                                                                    \
    X(OUT, "out")                                                                                  \
    X(US, "us")                                                                                    \
    X(FAULT, "fault")

enum log_key {
#define LOG_KEY(name, key) LOG_##name,
    LOG_KEY_LIST(LOG_KEY)
#undef LOG_KEY
};

enum {
    LOG_KEY_BYTES = 16,         /* a key with what stands around it, in either form */
    LOG_VALUE_BYTES_MAX = 1024, /* of one value from outside; the rest is cut */
};

struct log_key_text {
    char bytes[LOG_KEY_BYTES];
    size_t len;
};

struct log_line {
    struct text *text; /* borrowed; truncated: the line is not whole */
    bool is_json;
    const struct log_key_text *keys; /* by enum log_key, of the line's form */
};

/* Begin a line at the end of @text, with its time. */
struct log_line log_line_begin(struct text *text, bool is_json, struct span time);
void log_line_end(struct log_line *line);

/* Text from outside. */
void log_line_add_text(struct log_line *line, enum log_key key, struct span value);

/* A word that needs no escape: one of our own, or a name of the policy's. */
void log_line_add_word(struct log_line *line, enum log_key key, struct span word);

void log_line_add_number(struct log_line *line, enum log_key key, uint64_t number);
void log_line_add_address(struct log_line *line, enum log_key key, const struct address *address);

#endif /* SLUICE_PROXY_LOG_LINE_H */
