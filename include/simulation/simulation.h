/* A simulation of the proxy under a given clock: its answer to a request at a given time.
 *
 * Matcher, admission, settlement, the algorithms, the embedded store and the bans that limits set
 * are those of the proxy. No request is forwarded and no clock is read: the caller passes the
 * upstream's answer and its duration with the request. Requests end as time passes: slots are
 * renewed and released, costs are corrected, offences are counted. Not thread-safe. */

#ifndef SLUICE_SIMULATION_SIMULATION_H
#define SLUICE_SIMULATION_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/status.h"
#include "http/head.h"
#include "policy/policy.h"
#include "proxy/admission.h"
#include "store/ban_growth.h"
#include "store/memory_store.h"

struct simulation;
struct geo_facts;
struct given_token;
struct tenants;
struct tls_client;

/* Most requests in flight that still need settlement. Beyond that, the request that is due to end
 * first ends early. */
enum { SIMULATION_OPEN_MAX = 65536 };

struct simulation_options {
    const struct policy *policy; /* borrowed */
    size_t memory_bytes;         /* of the embedded store; 0: the policy's size */
    bool knows_tokens;           /* false: requests are not refused for lack of one */
    bool is_peer_trusted;        /* see struct evaluation_context */
    /* By index of the limit: true if it is not judged and its key is not computed; equal for all
     * limits of a rule. NULL: all are judged. Borrowed. */
    const bool *left_out;
    struct span own_name; /* of the proxy in Via; empty: unknown, and no loop is detected */
    /* Their ends are us since the epoch, as the clock is. NULL: none are known. Borrowed. */
    struct tenants *tenants;
};

enum simulation_verdict {
    SIMULATION_REFUSED,   /* before its limits are judged: see status and reason */
    SIMULATION_UNDECIDED, /* 503: the embedded store is full, and the policy says deny */
    SIMULATION_FREE,      /* no limit applies */
    SIMULATION_ALLOWED,
    SIMULATION_DENIED, /* 429, or the limit's status; by a ban: see simulation_is_banned() */
};

/* The outcome of a request if it is admitted. */
struct simulation_future {
    uint64_t takes_us; /* from forwarding to its end */
    uint16_t status;   /* of the upstream; 0: no answer */
    enum answer_end end;
    const struct field *fields; /* of the upstream's answer; its cost field is used */
    size_t n_fields;
    struct span cost; /* the cost in the answer, from any field; data is NULL: unknown */
};

/* The result of a request. Pointers are valid until the next simulation_ask(). */
struct simulation_answer {
    enum simulation_verdict verdict;
    uint16_t status;    /* of the response to the client */
    const char *reason; /* of a refusal; NULL: not refused */
    struct address client;
    const struct route *route;         /* NULL: none matched */
    const struct admission *admission; /* NULL: no decision was made */
    uint64_t wait_us;                  /* delay before it is forwarded */
};

/* Whether a ban has denied the request. */
static inline bool simulation_is_banned(const struct simulation_answer *answer)
{
    return answer->verdict == SIMULATION_DENIED && answer->admission->lacked == NULL &&
           answer->admission->decision.source == DECISION_BAN;
}

/* STATUS_NO_MEMORY; STATUS_INVALID: fewer bytes than the embedded store needs. */
MUST_USE enum status simulation_new(const struct simulation_options *options,
                                    struct simulation **simulation);

/* NULL is a no-op. */
void simulation_free(struct simulation *simulation);

/* Who sends a request. All of it is borrowed for the call. */
struct simulation_client {
    struct address peer;
    const struct tls_client *tls;    /* over its connection; NULL: plain */
    const struct given_token *token; /* that it has; NULL: none */
    const struct geo_facts *geo;     /* of the client; NULL: the policy's databases are asked */
    struct span tenant_plan;         /* of its keys, in place of the tenants; data is NULL: none */
};

/* A request of @client at @now_us (us since the epoch), not before the latest time passed in.
 * @head, which may have an error, is borrowed for the call. STATUS_NO_MEMORY: no decision was made.
 * STATUS_INVALID: the policy's calendars do not reach @now_us. */
MUST_USE enum status simulation_ask(struct simulation *simulation, uint64_t now_us,
                                    const struct simulation_client *client, const struct head *head,
                                    const struct simulation_future *future,
                                    struct simulation_answer *answer);

/* Keys, evictions and overflows of the embedded store. */
void simulation_count(const struct simulation *simulation, struct memory_store_counters *counters);

/* What became of the bans that were due of the rule whose first limit has index @limit: their
 * number by enum ban_result. NULL: no limit of the policy bans. */
const uint64_t *simulation_bans(const struct simulation *simulation, size_t limit);

/* Number of requests that ended early because SIMULATION_OPEN_MAX were in flight. */
uint64_t simulation_early_ends(const struct simulation *simulation);

#endif /* SLUICE_SIMULATION_SIMULATION_H */
