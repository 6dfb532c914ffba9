/* A line of the access log as it is written: keys and values, as logfmt or as a JSON object. */

#ifndef SLUICE_PROXY_ACCESS_LINE_H
#define SLUICE_PROXY_ACCESS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/span.h"
#include "base/text.h"

/* X(NAME, "key"), in the order of a line. */
#define LINE_KEY_LIST(X)                                                                           \
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

enum line_key {
#define LINE_KEY(name, key) LINE_##name,
    LINE_KEY_LIST(LINE_KEY)
#undef LINE_KEY
};

enum {
    LINE_KEY_BYTES = 16,         /* a key with what stands around it, in either form */
    LINE_VALUE_BYTES_MAX = 1024, /* of one value from outside; the rest is cut */
};

struct line_key_text {
    char bytes[LINE_KEY_BYTES];
    size_t len;
};

struct access_line {
    struct text *text; /* borrowed; truncated: the line is not whole */
    bool is_json;
    const struct line_key_text *keys; /* by enum line_key, of the line's form */
};

/* Begin a line at the end of @text, with its time. */
struct access_line access_line_begin(struct text *text, bool is_json, struct span time);
void access_line_end(struct access_line *line);

/* Text from outside. */
void access_line_add_text(struct access_line *line, enum line_key key, struct span value);

/* A word that needs no escape: one of our own, or a name of the policy's. */
void access_line_add_word(struct access_line *line, enum line_key key, struct span word);

void access_line_add_number(struct access_line *line, enum line_key key, uint64_t number);
void access_line_add_address(struct access_line *line, enum line_key key,
                             const struct address *address);

#endif /* SLUICE_PROXY_ACCESS_LINE_H */
