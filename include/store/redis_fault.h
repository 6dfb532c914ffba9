/* The faults of Redis and the reaction to each, in one table. docs/redis.md documents it. Code that
 * detects a failure maps it to a fault and reacts as the table says. */

#ifndef SLUICE_STORE_REDIS_FAULT_H
#define SLUICE_STORE_REDIS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

enum redis_fault {
    REDIS_FAULT_NONE, /* no fault */

    /* Of the connection. */
    REDIS_FAULT_NOT_FOUND, /* the name has no address, or no sentinel names the master */
    REDIS_FAULT_REFUSED,   /* no connection could be made */
    REDIS_FAULT_RESET,     /* a connection broke, or was closed by the other side */
    REDIS_FAULT_HALF_OPEN, /* connected, but no byte is received */
    REDIS_FAULT_SWITCHED,  /* connected, but a sentinel names another master */
    REDIS_FAULT_MALFORMED, /* the reply is not RESP, or does not fit the command */

    /* Of time. */
    REDIS_FAULT_DEADLINE, /* no reply in time */
    REDIS_FAULT_LATE,     /* a reply after its deadline: the request is already answered */

    /* Replies with an error, named by their codes. */
    REDIS_FAULT_NOSCRIPT,
    REDIS_FAULT_READONLY,
    REDIS_FAULT_MASTERDOWN,
    REDIS_FAULT_MOVED,
    REDIS_FAULT_ASK,
    REDIS_FAULT_TRYAGAIN,
    REDIS_FAULT_CROSSSLOT,
    REDIS_FAULT_CLUSTERDOWN,
    REDIS_FAULT_LOADING,
    REDIS_FAULT_BUSY,
    REDIS_FAULT_OOM,
    REDIS_FAULT_MISCONF,
    REDIS_FAULT_NOREPLICAS,
    REDIS_FAULT_NOAUTH,
    REDIS_FAULT_WRONGPASS,
    REDIS_FAULT_NOPERM,
    REDIS_FAULT_WRONGTYPE, /* of one key: another program writes under the prefix */
    REDIS_FAULT_CLOCK,     /* the script's own: see limit/driver.lua */
    REDIS_FAULT_OTHER,     /* any other error */

    REDIS_FAULT_COUNT,
};

enum redis_reaction {
    REDIS_SEND_SCRIPT, /* send the same call again, once, with the script in it */
    /* another node has the keys: the decision fails here, and a caller that knows the other nodes
     * asks there: see redis_fault_read_redirect() */
    REDIS_REDIRECT,
    REDIS_FAIL,   /* the decision fails, the link stays */
    REDIS_DROP,   /* the decision fails, and the link reconnects, looking Redis up anew */
    REDIS_IGNORE, /* no decision waits: the reply is dropped, the slots it took are released */
};

/* A row of the table of faults. */
struct redis_fault_row {
    const char *name;   /* in logs */
    const char *code;   /* first word of the error reply; NULL: the fault is not a reply */
    enum status status; /* of a decision that fails by it */
    enum redis_reaction reaction;
    bool counts;     /* towards opening the breaker: further decisions would fail too */
    bool is_lasting; /* an operator must act: the fault does not clear by itself */
};

/* The row of @fault; never NULL. */
const struct redis_fault_row *redis_fault_row(enum redis_fault fault);

/* The code of the error reply @text: its first word. Log no more of an error to AUTH: a server that
 * does not know AUTH returns its arguments, with the password, in the error. */
struct span redis_fault_code(struct span text);

/* The fault that the error reply @text reports; REDIS_FAULT_OTHER if its code is unknown. The code
 * is the first word. Redis before 7 wraps an error of a command in a script; then the code is the
 * first word of the wrapped error. A wrapped code that promises that nothing was changed is
 * REDIS_FAULT_OTHER, since the script may have changed something before. */
enum redis_fault redis_fault_of(struct span text);

/* The target of a MOVED or ASK reply. */
struct redis_redirect {
    uint16_t slot;
    struct span host; /* points into the text; empty: the host that was asked; no brackets */
    uint16_t port;
};

/* Parses the text of a MOVED or ASK: "MOVED 3999 127.0.0.1:6381". False: it is malformed. */
MUST_USE bool redis_fault_read_redirect(struct span text, struct redis_redirect *redirect);

#endif /* SLUICE_STORE_REDIS_FAULT_H */
