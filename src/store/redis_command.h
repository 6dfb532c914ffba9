/* The one command that decides, or settles, written as RESP. What does not change for a limit is
 * written once.
 *
 * Every argument goes with its length before it: no byte of a client's can end one. */

#ifndef SLUICE_STORE_REDIS_COMMAND_H
#define SLUICE_STORE_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/script_source.h"
#include "store/redis_store.h"
#include "store/store.h"

enum { REDIS_SHA_BYTES = 40 };

/* The limits of one policy. */
struct redis_wording {
    struct list node;
    const struct limit *limits; /* by index; borrowed */
    size_t n_limits;
    char (*constants)[SCRIPT_CONSTANTS * SCRIPT_NUMBER_BYTES]; /* packed arguments; owned */
};

struct redis_command {
    struct span prefix; /* of every key; borrowed */
    struct span source; /* the script: of the algorithms of all policies that are known; owned */
    struct span next;   /* what it is to be from now on; empty: that. Owned */
    unsigned source_number; /* scripts are numbered */
    unsigned next_number;
    struct list wordings; /* the latest first */
    char *buffer;         /* the latest command; owned */
    size_t buffer_bytes;
};

/* It knows @options->limits. STATUS_NO_MEMORY. */
MUST_USE enum status redis_command_init(struct redis_command *command,
                                        const struct redis_store_options *options);
void redis_command_close(struct redis_command *command);

/* Another policy's limits are known from now on. Where they want another script, that waits in
 * command->next: calls over them must not be sent before redis_command_turn(). STATUS_NO_MEMORY. */
MUST_USE enum status redis_command_learn(struct redis_command *command, const struct limit *limits,
                                         size_t n_limits);

/* They are no more. */
void redis_command_forget(struct redis_command *command, const struct limit *limits);

/* The limits that were learnt last, *n_limits of them; NULL: all are
 * forgotten. Whether @limit is one. */
const struct limit *redis_command_latest(const struct redis_command *command, size_t *n_limits);
bool redis_command_is_latest(const struct redis_command *command, const struct limit *limit);

/* command->next is the script. */
void redis_command_turn(struct redis_command *command);

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
