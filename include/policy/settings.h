/* What a policy says of the process and of those it speaks with; part of policy.h. */

#ifndef SLUICE_POLICY_SETTINGS_H
#define SLUICE_POLICY_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/secret.h"
#include "base/span.h"
#include "limit/limit.h"

/* Where to listen or connect to. Text is NUL-terminated behind the span. */
struct endpoint {
    struct span host; /* name or address without brackets; empty: unix_path is meant */
    uint16_t port;
    struct span unix_path; /* empty: host is meant */
    struct span text;      /* as written */
};

/* Where clients connect. */
struct listener_section {
    struct endpoint endpoint;
    /* Trusted peers say first whose connection they carry on; others are refused. */
    bool proxy_protocol;
    uint32_t mode; /* permissions of a unix socket */
};

/* What operators show to be let in. */
struct admin_token {
    bool is_said;         /* it stood in the policy */
    struct secret secret; /* where it did */
    struct span path;     /* of the file whose first line it is; empty: there is none */
};

/* Where operators connect. */
struct admin_section {
    struct listener_section *listeners; /* without the PROXY protocol */
    size_t n_listeners;                 /* 0: there is no admin API */
    struct admin_token token;           /* may read and change */
    struct admin_token read_token;      /* may read */
    struct span *hosts; /* names that requests may call us by, besides addresses and localhost */
    size_t n_hosts;
    uint32_t metrics_top; /* most denied keys of each limit that are metrics; 0: none */
};

/* Who is asked for names. */
struct resolver_section {
    struct endpoint *servers; /* by address; up to NAME_SERVERS_MAX */
    size_t n_servers;         /* 0: those of the system */
};

enum store_kind {
    STORE_MEMORY,
    STORE_REDIS,
};

enum store_full {
    STORE_FULL_OVERFLOW,
    STORE_FULL_DENY,
    STORE_FULL_ALLOW,
};

enum redis_kind {
    REDIS_SINGLE,
    REDIS_SENTINEL, /* the endpoints are sentinels, who know where the master is */
    REDIS_CLUSTER,  /* the endpoints are some of its nodes */
};

/* Where Redis is. */
struct redis_section {
    enum redis_kind kind;
    struct endpoint endpoints[REDIS_ENDPOINTS_MAX];
    size_t n_endpoints; /* 1 of REDIS_SINGLE; 0: the policy names no Redis */
    struct span master; /* of REDIS_SENTINEL */
    bool tls;           /* not of REDIS_SENTINEL */
};

struct store_section {
    enum store_kind kind;
    struct redis_section redis;
    struct span user;     /* empty: none */
    struct span password; /* empty: no AUTH */
    struct span sentinel_user;
    struct span sentinel_password;
    uint32_t database;  /* 0 of REDIS_CLUSTER */
    struct span prefix; /* of every key in Redis */
    struct span secret; /* keys the hashes of identities */
    uint64_t deadline_us;
    enum on_failure on_failure; /* of limits that do not say their own */
    uint32_t instances; /* among which local limits are shared out; 0: those seen in Redis */
    bool coalesce;      /* equal requests travel as one call */
    bool denial_cache;  /* denials are remembered for a second */
    uint64_t memory_bytes;
    enum store_full full;
};

enum log_format {
    LOG_FORMAT_LOGFMT,
    LOG_FORMAT_JSON,
    LOG_FORMAT_OFF,
};

enum log_target {
    LOG_TO_STDOUT,
    LOG_TO_FILE,   /* appended to */
    LOG_TO_SYSLOG, /* by its socket on this machine */
};

struct log_section {
    enum log_format format;
    enum log_target target;
    struct span path;    /* of the file or socket; empty: stdout */
    uint32_t sample_ppm; /* of the requests that were allowed and went well, how many have a line */
};

struct max_section {
    uint32_t connections; /* from clients, all workers together */
    uint32_t connections_per_client;
    uint64_t head_bytes;
    uint32_t headers;
    uint64_t body_bytes;
    uint32_t held; /* requests held for shaping, of each worker */
    uint32_t bans; /* and exemptions, of the process */
};

struct timeouts_section {
    uint64_t head_us;          /* from a request's first byte to the end of its head */
    uint64_t idle_us;          /* between requests, and of a body or response that does not move */
    uint64_t tunnel_us;        /* of a tunnel in which nothing moves */
    uint64_t drain_us;         /* after SIGTERM */
    uint64_t body_bytes_per_s; /* that a client must send or take at least; 0: no least rate */
};

/* The fields that tell clients of their limits. */
enum headers_style {
    HEADERS_DRAFT11,    /* RateLimit, RateLimit-Policy */
    HEADERS_DRAFT_NEXT, /* the same, with the parameter names of the coming draft */
    HEADERS_LEGACY,     /* X-RateLimit-Limit, -Remaining, -Reset */
    HEADERS_BOTH,
    HEADERS_NONE, /* and Retry-After on denials alone */
};

#endif /* SLUICE_POLICY_SETTINGS_H */
