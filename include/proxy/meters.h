/* The proxy's counters, for metrics and status reports.
 *
 * Each worker has its own counters and updates them without a lock. A reader adds up the workers.
 * Routes, limits, upstreams and servers are counted by name for the life of the process. A name
 * that a new policy drops keeps its number and continues to count when it returns.
 *
 * The number of names ever seen is bounded by METER_…_MAX. Names beyond share number 0. */

#ifndef SLUICE_PROXY_METERS_H
#define SLUICE_PROXY_METERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/counter.h"
#include "base/heavy_hitters.h"
#include "base/limits.h"
#include "base/name_directory.h"
#include "base/span.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/upstream_meters.h"
#include "store/store.h"
#include "store/store_meters.h"

enum {
    METER_ROUTES_MAX = 32768,
    METER_LIMITS_MAX = 16384,
    METER_UPSTREAMS_MAX = 2048,
    METER_SERVERS_MAX = 16384, /* of all upstreams */
    /* limits with a sketch of top offenders per worker: the first that deny */
    METER_TOPS_MAX = 256,
    METER_TOP_SAMPLING = 16, /* one in this many allowed requests is looked up in a sketch */
};

/* The verdict on a request, in the terms of the access log. */
enum meter_verdict {
    METER_NONE, /* no limit applied */
    METER_ALLOWED,
    METER_DENIED,
    METER_UNDECIDED, /* no store could decide, and a limit's on_failure is deny */
    METER_UNKNOWN,   /* the client left before the store answered */
    METER_VERDICTS,
};

enum {
    METER_NO_ROUTE = 1, /* the number for requests without a route */
    METER_CLASSES = 6,  /* 0: no answer; n: a status of n hundred */
};

struct route_meters {
    struct counter requests[METER_CLASSES][METER_VERDICTS];
    struct counter total_us; /* that they took, added up */
};

enum meter_saying {
    METER_LIMIT_ALLOWED,
    METER_LIMIT_DENIED,
    METER_LIMIT_WOULD_DENY, /* a shadow */
    METER_SAYINGS,
};

struct limit_meters {
    struct counter decisions[METER_SAYINGS][DECISION_SOURCES];
    struct heavy_hitters *_Atomic top; /* owned; made at a denial, NULL before */
};

/* Number of reasons to refuse a connection: enum connection_limits_refusal. */
enum { METER_REFUSALS = 6 };

/* Number of reasons why a body gets no room in a buffer, enum body_buffer_lack, and of those to
 * refuse a request for its token, enum token_refusal. */
enum { METER_BUFFER_REFUSALS = 2, METER_TOKEN_REFUSALS = 4, METER_BANS = 5 /* ban_result */ };

/* Number of kinds of evicted connections, enum eviction_kind, of reasons why a TLS handshake fails,
 * enum tls_failure, and of versions, enum tls_version. */
enum { METER_EVICTIONS = 4, METER_TLS_FAILURES = 15, METER_TLS_VERSIONS = 2 };

/* Number of kinds of abuse of HTTP/2: enum http2_abuse; of ends of gRPC calls: enum grpc_status. */
enum { METER_HTTP2_ABUSES = 9, METER_GRPC_STATUSES = 18 };

struct worker_meters {
    struct counter_table routes; /* all tables: by number in the directories */
    struct counter_table limits;
    struct counter_table upstreams;
    struct counter_table servers;
    struct latency decision; /* from the call of the store to its answer */
    struct latency total;    /* from the first byte of a request to its end */
    struct counter request_bytes;
    struct counter response_bytes;
    struct counter connections; /* gauge */
    struct counter accepted;
    struct counter refused[METER_REFUSALS];
    struct counter evicted[METER_EVICTIONS];
    struct counter handshakes[METER_TLS_VERSIONS][2]; /* that succeeded; [1]: resumed sessions */
    struct counter handshake_failures[METER_TLS_FAILURES]; /* 0 is not used */
    struct latency handshake;         /* from the connection, or the PROXY header, to its end */
    struct counter http2_connections; /* gauge */
    struct counter http2_requests;
    struct counter http2_active;  /* gauge: those that max.http2_requests counts */
    struct counter http2_refused; /* for max.streams_per_client, max.http2_requests */
    struct counter http2_evicted; /* for others, at max.http2_requests */
    struct counter http2_abuse[METER_HTTP2_ABUSES]; /* units, see http2/stream.h */
    struct counter grpc_calls[METER_GRPC_STATUSES]; /* over HTTP/2 */
    struct counter forwarded_ignored; /* requests with X-Forwarded-For of untrusted peers */
    struct counter unknown_plans;     /* requests with a plan that their limit does not know */
    struct counter bans[METER_BANS];  /* that limits set by themselves */
    struct counter held;              /* gauge */
    struct counter buffering;      /* gauge: requests whose body is waited for, before a server */
    struct counter buffered_bytes; /* gauge: of the blocks in use */
    struct counter buffer_refused[METER_BUFFER_REFUSALS];
    struct counter tokens_refused[METER_TOKEN_REFUSALS];
    struct counter token_signatures;             /* of tokens, that were computed */
    struct counter slow_uploads, slow_downloads; /* ended by min_upload, by min_download */
    struct counter lines_left_out;               /* of the access log, for log.denied_lines */
    struct counter abandoned; /* gauge: at most ABANDONED_REQUESTS_MAX, see base/limits.h */
    struct store_meters store;

    /* Used only by the worker itself. */
    uint32_t n_tops;       /* number of sketches */
    uint32_t sample_after; /* allowed requests until the next lookup */
    uint64_t chance;       /* state of the random generator for sample_after */
};

/* Results of reloads. One thread writes them. */
struct reload_meters {
    struct counter done;
    struct counter failed;
    struct counter last_failed; /* 1: the latest reload failed */
    struct counter loaded_us;   /* when what is in force was loaded, since the epoch */
};

/* The same, read together. */
struct reload_counts {
    uint64_t n_done;
    uint64_t n_failed;
    uint64_t is_last_good; /* 1, or 0: of the latest reload that is counted, or of a later one */
    uint64_t loaded_us;
};

struct meters {
    struct reload_meters reload;
    struct reload_meters tenants_file; /* likewise, of the file of tenants */
    struct name_directory routes;
    struct name_directory limits;
    struct name_directory upstreams;
    struct name_directory servers; /* "<upstream>\n<server>" */
    pthread_mutex_t lock;          /* held to add workers and to grow tables */
    struct worker_meters *_Atomic workers[WORKERS_MAX];
};

/* @wall_us: when the first policy was loaded, since the epoch. STATUS_NO_MEMORY. */
MUST_USE enum status meters_new(uint64_t wall_us, struct meters **meters);

/* No thread may use @meters any more. NULL is a no-op. */
void meters_free(struct meters *meters);

/* Assign numbers to all names in @policy. Call this before any worker uses @policy.
 * STATUS_NO_MEMORY. */
MUST_USE enum status meters_enter(struct meters *meters, struct policy *policy);

/* The meters of worker @i. The first call creates them; they live as long as @meters. NULL: no
 * memory. */
MUST_USE struct worker_meters *meters_of_worker(struct meters *meters, size_t i);

/* Record that a reload ended at @wall_us since the epoch. @is_done: a new policy is in force. */
void meters_note_reload(struct meters *meters, bool is_done, uint64_t wall_us);

/* The counts of reloads and their outcome. Any thread. */
struct reload_counts meters_count_reloads(const struct meters *meters);

/* The same of the file of tenants. @is_done: its tenants are in force. */
void meters_note_tenants_file(struct meters *meters, bool is_done, uint64_t wall_us);
struct reload_counts meters_count_tenants_files(const struct meters *meters);

/* For readers: the meters of worker @i < WORKERS_MAX, or NULL where there are none. */
static inline const struct worker_meters *meters_snapshot(const struct meters *meters, size_t i)
{
    return atomic_load_explicit(&meters->workers[i], memory_order_acquire);
}

#endif /* SLUICE_PROXY_METERS_H */
