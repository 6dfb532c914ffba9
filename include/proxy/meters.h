/* What the proxy counts, for whoever shows it.
 *
 * Each worker counts for itself, without a lock; who reads adds up the workers. Routes, limits,
 * upstreams and servers are counted under their names, for the life of the process: those that a
 * new policy does not have keep their numbers, and go on when they come back.
 *
 * Names are bounded in number (METER_…_MAX, ever seen): those beyond share
 * the blocks of number 0. */

#ifndef SLUICE_PROXY_METERS_H
#define SLUICE_PROXY_METERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/counter.h"
#include "base/counter_table.h"
#include "base/heavy_hitters.h"
#include "base/latency.h"
#include "base/limits.h"
#include "base/name_directory.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"
#include "store/store.h"
#include "store/store_meters.h"

enum {
    METER_ROUTES_MAX = 32768,
    METER_LIMITS_MAX = 16384,
    METER_UPSTREAMS_MAX = 2048,
    METER_SERVERS_MAX = 16384, /* of all upstreams */
    METER_TOPS_MAX = 256,      /* limits whose offenders a worker knows; the first that deny */
    METER_TOP_SAMPLING = 16,   /* one of so many allowed requests is looked up among them */
};

/* What became of a request at its limits, in the words of the access log. */
enum meter_verdict {
    METER_NONE, /* no limit applied */
    METER_ALLOWED,
    METER_DENIED,
    METER_UNDECIDED, /* no store could say, and a limit's on_failure is deny */
    METER_UNKNOWN,   /* the client left before the store answered */
    METER_VERDICTS,
};

enum {
    METER_NO_ROUTE = 1, /* number of what matched none */
    METER_CLASSES = 6,  /* 0: no answer; n: a status of n hundred */
};

struct route_meters {
    struct counter requests[METER_CLASSES][METER_VERDICTS];
};

enum meter_saying {
    METER_LIMIT_ALLOWED,
    METER_LIMIT_DENIED,
    METER_LIMIT_WOULD_DENY, /* a shadow */
    METER_SAYINGS,
};

struct limit_meters {
    struct counter decisions[METER_SAYINGS][DECISION_SOURCES];
    struct heavy_hitters *_Atomic top; /* owned; NULL: it has denied nobody yet */
};

/* How asking a server failed. */
enum meter_failure {
    METER_UNREACHABLE,
    METER_UNACCEPTED, /* no connection in time */
    METER_UNANSWERED, /* no answer in time */
    METER_LOST,       /* the connection died before the answer's end */
    METER_INVALID,    /* an answer that is not HTTP */
    METER_BAD_GATEWAY,
    METER_FAILURES,
};

struct server_meters {
    struct counter requests; /* sent */
    struct counter failures[METER_FAILURES];
    struct counter outages; /* times that it went out: it is passed over */
    struct counter connects;
    struct counter connections; /* now: being made, in use, idle */
    struct counter idle;        /* of them */
};

struct upstream_meters {
    struct latency response; /* from the choice of a server to its response's head */
    struct counter retries;
    struct counter waiting;        /* now, in the queue */
    struct counter queue_full;     /* refused for want of room in it */
    struct counter queue_timeouts; /* or when their time was over */
};

/* Why a connection is refused, as enum entrance_refusal. */
enum { METER_REFUSALS = 6 };

/* What kind of connection was evicted, as enum eviction_kind. */
enum { METER_EVICTIONS = 3 };

struct worker_meters {
    struct counter_table routes; /* blocks by number in the directories */
    struct counter_table limits;
    struct counter_table upstreams;
    struct counter_table servers;
    struct latency decision; /* from asking the store to its answer */
    struct latency total;    /* from the first byte of a request to its end */
    struct counter request_bytes;
    struct counter response_bytes;
    struct counter connections; /* now */
    struct counter accepted;
    struct counter refused[METER_REFUSALS];
    struct counter evicted[METER_EVICTIONS];
    struct counter held; /* now */
    struct store_meters store;

    /* Of the worker alone. */
    uint32_t n_tops;       /* sketches that there are */
    uint32_t sample_after; /* allowed ones until the next is looked up */
    uint64_t chance;       /* of which the next one is drawn */
};

/* What became of the policies that the process was given; one thread notes. */
struct reload_meters {
    struct counter done;
    struct counter failed;
    struct counter last_failed; /* 1: the latest reload failed */
    struct counter loaded_us;   /* when the policy in force was loaded, since the epoch */
};

struct meters {
    struct reload_meters reload;
    struct name_directory routes;
    struct name_directory limits;
    struct name_directory upstreams;
    struct name_directory servers; /* "<upstream>\n<server>" */
    pthread_mutex_t lock;          /* of growing */
    struct worker_meters *_Atomic workers[WORKERS_MAX];
};

/* @wall_us: when the first policy was loaded, since the epoch. STATUS_NO_MEMORY. */
MUST_USE enum status meters_new(uint64_t wall_us, struct meters **meters);

/* Nobody counts any more. NULL is a no-op. */
void meters_free(struct meters *meters);

/* Give everything that @policy names its number, before any worker sees it. STATUS_NO_MEMORY. */
MUST_USE enum status meters_enter(struct meters *meters, struct policy *policy);

/* A reload has ended, at @wall_us since the epoch; @is_done: with another policy in force. */
void meters_note_reload(struct meters *meters, bool is_done, uint64_t wall_us);

/* The meters of the worker of index @i, which are made when they are first asked for
 * and stay. NULL: no memory. */
MUST_USE struct worker_meters *meters_of_worker(struct meters *meters, size_t i);

/* For readers: those of the worker of index @i < WORKERS_MAX, or NULL where there is none. */
static inline const struct worker_meters *meters_look(const struct meters *meters, size_t i)
{
    return atomic_load_explicit(&meters->workers[i], memory_order_acquire);
}

#endif /* SLUICE_PROXY_METERS_H */
