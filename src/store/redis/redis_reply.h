/* Replies of Redis, parsed by hiredis directly into integers without allocation.
 *
 * hiredis delivers one reply at a time, so each connection has one struct redis_reply, and every
 * reply is read into it. */

#ifndef SLUICE_STORE_REDIS_REDIS_REPLY_H
#define SLUICE_STORE_REDIS_REDIS_REPLY_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/span.h"
#include "store/store.h"

enum {
    REDIS_REPLY_TEXT_MAX = 191, /* of an error or a string; the rest is dropped */
    REDIS_REPLY_LOGGED_MAX =
        4 * REDIS_REPLY_TEXT_MAX + 3,  /* such a text as a logfmt value, and a NUL */
    REDIS_REPLY_BYTES_MAX = 64 * 1024, /* of a reply on the wire, if it is not nested */
    REDIS_REPLY_NESTED_BYTES_MAX =
        16 * 1024 * 1024,      /* a cluster's map, where each slot may be a range of its own */
    REDIS_REPLY_DEPTH_MAX = 8, /* arrays within arrays; newer hiredis has no bound of its own */
};

enum redis_reply_kind {
    REDIS_REPLY_IS_INTS,    /* an array of integers, one integer, or numbers the script packed */
    REDIS_REPLY_IS_TEXT,    /* a string or a status */
    REDIS_REPLY_IS_FAULT,   /* an error that Redis reports */
    REDIS_REPLY_IS_NESTED,  /* an array that starts with an array or a text: see redis_listener */
    REDIS_REPLY_IS_STRANGE, /* anything else: no command of ours has such a reply */
};

enum { REDIS_PART_DEPTH_MAX = 3 };

/* One part of a nested reply. */
struct redis_part {
    size_t depth;                 /* 1: an element of the reply; at most REDIS_PART_DEPTH_MAX */
    int at[REDIS_PART_DEPTH_MAX]; /* its index in each enclosing array, the outermost first */
    enum { REDIS_PART_ARRAY, REDIS_PART_INT, REDIS_PART_TEXT, REDIS_PART_NIL } kind;
    long long number; /* of an integer */
    struct span text; /* of a string; valid during the call */
};

/* The receiver of the parts of nested replies; a member of the receiver's struct. */
struct redis_listener {
    /* Called for each part as it is read, in order, for an array before its elements; not for parts
     * deeper than REDIS_PART_DEPTH_MAX. May neither send nor close. */
    void (*on_part)(struct redis_listener *listener, const struct redis_part *part);
    size_t bytes_max; /* of a nested reply; 0: REDIS_REPLY_NESTED_BYTES_MAX */
};

struct redis_reply {
    enum redis_reply_kind kind;
    bool is_nil;    /* strange, and nil */
    size_t n_bytes; /* lower bound of the bytes on the wire of the parts read */
    size_t n_ints;
    long long ints[REDIS_REPLY_INTS_MAX];
    char text[REDIS_REPLY_TEXT_MAX + 1]; /* NUL-terminated */
    size_t text_len;
    struct redis_listener *listener; /* borrowed; NULL: nested replies are strange */
};

/* Let @reader read into @reply, which outlives @reader and is all zero or was attached before. What
 * @reader returns is @reply, or something else for a kind of RESP3, which was not asked for. */
void redis_reply_attach(struct redis_reply *reply, struct redisReader *reader);

/* True if what @reader has read of @reply, complete or not, is longer or nested deeper than any
 * reply of a Redis. */
bool redis_reply_is_too_long(const struct redis_reply *reply, const struct redisReader *reader);

/* The text of a string, a status or an error. */
struct span redis_reply_text(const struct redis_reply *reply);

/* --- short texts: messages, and what a sentinel replies --- */

enum {
    REDIS_TEXTS_MAX = 3,
    REDIS_TEXT_BYTES_MAX = 256,        /* at least a host name; the rest is dropped */
    REDIS_TEXTS_BYTES_MAX = 16 * 1024, /* of a reply that is read so */
};

/* The elements of a nested reply. A message has three: its kind, the channel and the text. */
struct redis_texts {
    struct redis_listener listener; /* of the reply */
    size_t n;                       /* elements, including those beyond REDIS_TEXTS_MAX */
    struct {
        char bytes[REDIS_TEXT_BYTES_MAX];
        size_t len; /* of the complete text, also when bytes is cut; 0: not a text */
    } kept[REDIS_TEXTS_MAX];
};

/* Prepare for a reply: once before the first, and after each. */
void redis_texts_clear(struct redis_texts *texts);

/* Element @i as far as it is kept. */
struct span redis_texts_get(const struct redis_texts *texts, size_t i);

/* --- replies to decisions: the script's, or that of CL.THROTTLE --- */

/* Fill @decision's answer, except status and source, from @reply. For a batch of identical requests
 * on_each reports each answer. False: the reply is malformed, and the answers already reported are
 * void. */
MUST_USE bool redis_answer_read(const struct redis_reply *reply, struct decision *decision);

/* Likewise read CL.THROTTLE's @reply to @decision. */
MUST_USE bool redis_answer_read_cell(const struct redis_reply *reply, struct decision *decision);

#endif /* SLUICE_STORE_REDIS_REDIS_REPLY_H */
