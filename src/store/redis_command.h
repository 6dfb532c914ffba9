/* The one command that decides, or settles, written as RESP. What does not change for a limit is
 * written once.
 *
 * Every argument goes with its length before it: no byte of a client's can end one. */

#ifndef SLUICE_STORE_REDIS_COMMAND_H
#define SLUICE_STORE_REDIS_COMMAND_H

#include <stddef.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "store/redis_store.h"
#include "store/store.h"

enum { REDIS_SHA_BYTES = 40 };

struct redis_command {
    struct arena arena;
    struct span prefix;     /* of every key; borrowed */
    struct span source;     /* the script; in the arena */
    struct span *constants; /* packed arguments by the limit's index; in the arena */
    size_t n_limits;
    char *buffer; /* the latest command; in the arena */
    size_t buffer_bytes;
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status redis_command_init(struct redis_command *command,
                                        const struct redis_store_options *options);
void redis_command_close(struct redis_command *command);

/* EVALSHA of the script called @sha for @decision; lasts until the next one is written. Empty when
 * a key is longer than KEY_TEXT_BYTES_MAX. */
struct span redis_command_evalsha(struct redis_command *command, const struct decision *decision,
                                  const char sha[REDIS_SHA_BYTES]);

/* The same call with the script itself. */
struct span redis_command_eval(struct redis_command *command, const struct decision *decision);

/* CL.THROTTLE for @charge, whose limit is by_cell. Likewise. */
struct span redis_command_throttle(struct redis_command *command, const struct charge *charge);

/* What of a call follows the script: the number of keys and all after it. */
struct redis_tail {
    struct span wire; /* as RESP */
    size_t n;         /* words */
};

/* The tail of the call that settles @n settlements; lasts until the next command is written. Empty
 * when a key is longer than KEY_TEXT_BYTES_MAX. */
struct redis_tail redis_command_settle(struct redis_command *command,
                                       const struct settlement *settlements, size_t n);

/* EVALSHA of the script called @sha, or where that is NULL EVAL of the script itself, with @tail,
 * which was copied. As above. */
struct span redis_command_with_tail(struct redis_command *command, struct redis_tail tail,
                                    const char *sha);

/* Any command of @n_words as RESP, into newly allocated memory that the caller frees: *len bytes.
 * STATUS_NO_MEMORY. Not for the hot path. */
MUST_USE enum status redis_command_write_words(const struct span *words, size_t n_words,
                                               char **command, size_t *len);

#endif /* SLUICE_STORE_REDIS_COMMAND_H */
