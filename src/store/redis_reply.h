/* Replies of Redis, read by hiredis's parser straight into integers: nothing is allocated.
 *
 * hiredis hands out one reply at a time, so a link has one of these and every reply is read into
 * it. */

#ifndef SLUICE_STORE_REDIS_REPLY_H
#define SLUICE_STORE_REDIS_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "base/span.h"
#include "base/status.h"

enum {
    REDIS_REPLY_TEXT_MAX = 191, /* of an error or a string; the rest is dropped */
    REDIS_REPLY_LOGGED_MAX =
        4 * REDIS_REPLY_TEXT_MAX + 3,  /* such a text as a logfmt value, and a NUL */
    REDIS_REPLY_BYTES_MAX = 64 * 1024, /* a reply that is longer on the wire is none of ours, */
    REDIS_REPLY_NESTED_BYTES_MAX =
        16 * 1024 * 1024, /* but for a cluster's map, where each slot may be a range of its own */
};

enum redis_reply_kind {
    REDIS_REPLY_IS_INTS,   /* an array of integers, or one alone, or such as the script packs */
    REDIS_REPLY_IS_TEXT,   /* a string or a status */
    REDIS_REPLY_IS_FAULT,  /* an error that Redis reports */
    REDIS_REPLY_IS_NESTED, /* an array that starts with an array or a text: the listener was told */
    REDIS_REPLY_IS_STRANGE, /* anything else: nothing that we ask for is answered so */
};

enum { REDIS_PART_DEPTH_MAX = 3 };

/* One part of a nested reply. */
struct redis_part {
    size_t depth;                 /* 1: an element of the reply; at most REDIS_PART_DEPTH_MAX */
    int at[REDIS_PART_DEPTH_MAX]; /* its number in what it is an element of, the outermost first */
    enum { REDIS_PART_ARRAY, REDIS_PART_INT, REDIS_PART_TEXT, REDIS_PART_NIL } kind;
    long long number; /* of an integer */
    struct span text; /* of a string; lasts for the call */
};

/* Who wants to know what is in nested replies, a member of them. */
struct redis_listener {
    /* Each part as it is read, in order, an array before its elements; what lies deeper than
     * REDIS_PART_DEPTH_MAX is left out. May neither send nor close. */
    void (*on_part)(struct redis_listener *listener, const struct redis_part *part);
};

struct redis_reply {
    struct redisReply head; /* first: hiredis looks at the type, and at the text of an error */
    enum redis_reply_kind kind;
    size_t n_bytes; /* of the parts that were read, on the wire, at least */
    size_t n_ints;
    long long ints[REDIS_REPLY_INTS_MAX];
    char text[REDIS_REPLY_TEXT_MAX + 1]; /* NUL-terminated */
    const size_t
        *n_awaited; /* commands without a reply; a reply to nothing is made an error, before
                              * hiredis would stop the process over it */
    struct redis_listener *listener; /* borrowed; NULL: nested replies are strange */
};

/* Let @reader read into @reply, which outlives it and is all zero, or was read into before. */
void redis_reply_attach(struct redis_reply *reply, struct redisReader *reader,
                        const size_t *n_awaited);

/* Whether what was read is more than a reply can be, be it whole or not. */
bool redis_reply_is_too_long(const struct redis_reply *reply);

/* The text. */
struct span redis_reply_text(const struct redis_reply *reply);

#endif /* SLUICE_STORE_REDIS_REPLY_H */
