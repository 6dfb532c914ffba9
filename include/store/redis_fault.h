/* Every way in which Redis fails, and what sluice does about each: the one table, which
 * docs/redis.md shows to people. Whoever meets a failure names it, and acts as the table says. */

#ifndef SLUICE_STORE_REDIS_FAULT_H
#define SLUICE_STORE_REDIS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

enum redis_fault {
    REDIS_FAULT_NONE, /* nothing ails it */

    /* Of the connection. */
    REDIS_FAULT_NOT_FOUND, /* its name has no address, or nobody says where the master is */
    REDIS_FAULT_REFUSED,   /* no connection could be made */
    REDIS_FAULT_RESET,     /* a connection broke, or was closed by the other side */
    REDIS_FAULT_HALF_OPEN, /* connected, and not a byte comes */
    REDIS_FAULT_SWITCHED,  /* connected, and a sentinel names another master */
    REDIS_FAULT_MALFORMED, /* what came is no RESP, or no reply to what was asked */

    /* Of time. */
    REDIS_FAULT_DEADLINE, /* no reply in time */
    REDIS_FAULT_LATE,     /* a reply after its deadline: the request has its answer */

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
    REDIS_FAULT_WRONGTYPE, /* of one key: somebody else writes under the prefix */
    REDIS_FAULT_CLOCK,     /* the script's own: see limit/driver.lua */
    REDIS_FAULT_OTHER,     /* any other error */

    REDIS_FAULT_COUNT,
};

enum redis_reaction {
    REDIS_SEND_SCRIPT, /* the same call again, once, with the script in it */
    REDIS_REDIRECT, /* the keys are another node's: the decision fails here, and whoever knows the
                        * other nodes asks there: see redis_fault_read_redirect() */
    REDIS_FAIL,     /* the decision fails, the link stays */
    REDIS_DROP,     /* and the connection is dropped and made again, from finding Redis on */
    REDIS_IGNORE,   /* nobody waits: the reply is dropped, the slots that it took are given back */
};

/* How the failure is known: its word in logs, and in front of the reply. */
struct redis_fault_row {
    const char *name;
    const char *code;   /* first word of the reply; NULL: it is not one */
    enum status status; /* of a decision that fails by it */
    enum redis_reaction reaction;
    bool counts;     /* towards opening the breaker: more such decisions would fail as well */
    bool is_lasting; /* an operator must act: it does not heal by itself */
};

/* What the table says of @fault; never NULL. */
const struct redis_fault_row *redis_fault_row(enum redis_fault fault);

/* What ails the server that replied with the error @text: REDIS_FAULT_OTHER when its code is
 * unknown. The code is the first word; in an error that Redis before 7 wraps since it was met
 * within a script, the first word of what is wrapped, but for those that promise that nothing has
 * been changed. */
enum redis_fault redis_fault_of(struct span text);

/* Where MOVED and ASK lead. */
struct redis_redirect {
    uint16_t slot;
    struct span host; /* in the text; empty: the host that was asked; no brackets */
    uint16_t port;
};

/* Read the text of a MOVED or ASK: "MOVED 3999 127.0.0.1:6381". False: it makes no sense. */
MUST_USE bool redis_fault_read_redirect(struct span text, struct redis_redirect *redirect);

#endif /* SLUICE_STORE_REDIS_FAULT_H */
