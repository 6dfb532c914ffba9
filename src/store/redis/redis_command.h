/* The script call that decides or settles, written as RESP. The constant arguments of a limit are
 * written once.
 *
 * The length of each argument precedes it, so bytes of a client cannot end an argument. */

#ifndef SLUICE_STORE_REDIS_REDIS_COMMAND_H
#define SLUICE_STORE_REDIS_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "limit/algorithm.h"
#include "limit/script_source.h"
#include "store/redis_options.h"
#include "store/store.h"

enum { REDIS_SHA_BYTES = 40 };

/* The limits of one policy. */
struct encoded_command {
    struct list node;
    const struct limit *limits; /* by index; borrowed */
    size_t n_limits;
    char (*constants)[SCRIPT_CONSTANTS * SCRIPT_NUMBER_BYTES]; /* packed arguments; owned */
};

struct redis_command {
    struct span prefix;           /* of every key; borrowed */
    struct span source;           /* the script, with the algorithms of all known policies; owned */
    char sha[REDIS_SHA_BYTES];    /* its SHA-1, by which EVALSHA names it */
    unsigned n_scripts;           /* scripts made so far */
    struct list encoded_commands; /* struct encoded_command; the latest first */
    char *buffer;                 /* the latest command; owned */
    size_t buffer_bytes;
};

/* Adds @options->limits. STATUS_NO_MEMORY. */
MUST_USE enum status redis_command_init(struct redis_command *command,
                                        const struct redis_store_options *options);
void redis_command_close(struct redis_command *command);

/* The SHA-1 of @source as Redis writes it. */
void redis_command_name_script(struct span source, char sha[REDIS_SHA_BYTES]);

/* Add the limits of another policy. The script is replaced if they need another one.
 * STATUS_NO_MEMORY. */
MUST_USE enum status redis_command_add_limits(struct redis_command *command,
                                              const struct limit *limits, size_t n_limits);

/* Remove the limits of a policy, which were added. */
void redis_command_remove_limits(struct redis_command *command, const struct limit *limits);

/* The limits that were added last, of those not removed; *n_limits of them. NULL: none is left. */
const struct limit *redis_command_latest(const struct redis_command *command, size_t *n_limits);

/* EVALSHA of the script for @decision; valid until the next command is written. Empty when a key is
 * longer than KEY_TEXT_BYTES_MAX. */
struct span redis_command_evalsha(struct redis_command *command, const struct decision *decision);

/* As redis_command_evalsha(), but EVAL with the script itself. */
struct span redis_command_eval(struct redis_command *command, const struct decision *decision);

/* CL.THROTTLE for @charge, whose limit is by_cell. Validity and errors as above. */
struct span redis_command_throttle(struct redis_command *command, const struct charge *charge);

/* The part of a call behind the script: the number of keys, the keys and the arguments. */
struct redis_tail {
    struct span wire; /* as RESP */
    size_t n;         /* words */
};

/* The tail of the call that settles @n settlements; valid until the next command is written. Empty
 * when a key is longer than KEY_TEXT_BYTES_MAX. @delta_at gets where each of their deltas stands in
 * it, packed by script_source_pack(). */
struct redis_tail redis_command_settle(struct redis_command *command,
                                       const struct settlement *settlements, size_t n,
                                       uint32_t *delta_at);

/* EVALSHA of the script, or EVAL when @with_script, with a copy of a tail. Valid until the next
 * command is written. */
struct span redis_command_with_tail(struct redis_command *command, struct redis_tail tail,
                                    bool with_script);

/* Any commands as RESP, in memory of their own. All zero: none. */
struct redis_wire {
    char *bytes; /* owned */
    size_t len;
};

/* Append a command of @n_words. STATUS_NO_MEMORY: @wire is unchanged. Not for the hot path. */
MUST_USE enum status redis_wire_add(struct redis_wire *wire, const struct span *words,
                                    size_t n_words);

/* Append AUTH with @password, and with @user if it is not empty; nothing if @password is empty. */
MUST_USE enum status redis_wire_add_auth(struct redis_wire *wire, struct span user,
                                         struct span password);

static inline struct span redis_wire_span(const struct redis_wire *wire)
{
    return span_of(wire->bytes, wire->len);
}

void redis_wire_free(struct redis_wire *wire);

/* --- scripts other than those of the limits, embedded by the build --- */

extern const struct script heartbeat_script;
extern const struct script reset_script;
extern const struct script ban_change_script;
extern const struct script ban_growth_script;
extern const struct script ban_query_script;
extern const struct script replica_read_script;
extern const struct script replica_restore_script;
extern const struct script tenant_change_script;

/* The channel on which the processes under one prefix report changes, and its messages. */
#define REDIS_CHANNEL_SUFFIX ":changes"
#define REDIS_CHANNEL_FORGET "forget" /* a key was reset: cached denials are void */

#endif /* SLUICE_STORE_REDIS_REDIS_COMMAND_H */
