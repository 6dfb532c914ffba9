/* Settings of a policy for the process, the admin API, name servers and the store. */

#ifndef SLUICE_POLICY_SETTINGS_H
#define SLUICE_POLICY_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/files.h"
#include "tls/tls_server.h"

struct tls_client_config;

/* An endpoint to listen on or connect to. In a policy its spans are NUL-terminated. */
struct endpoint {
    struct span host; /* name or address without brackets; empty: see unix_path */
    uint16_t port;
    struct span unix_path; /* empty: see host */
    struct span text;      /* as written */
    bool is_https, is_h2c; /* of a server: spoken to over TLS; by HTTP/2 without TLS */
};

/* An entry of `certificates`, as the policy has it. Paths are NUL-terminated; relative ones begin
 * in the folder of the policy's file. */
struct tls_entry_section {
    struct span certs[TLS_CERTIFICATES_PER_ENTRY_MAX];
    struct span keys[TLS_CERTIFICATES_PER_ENTRY_MAX];
    size_t n_pairs;
    struct span *names; /* 0 of them: those of the certificate */
    size_t n_names;
    struct span client_ca; /* empty: none, as the next two */
    struct span client_crl;
    struct span ocsp;
    enum client_certificate_rule client;
};

/* TLS of a listen address. */
struct tls_section {
    struct tls_entry_section *entries;
    size_t n_entries;
    enum tls_version min_version;
    bool refuses_unknown_names;
    enum tls_tickets tickets;
};

/* Versions of HTTP: a bit set of these; 1.1 includes 1.0. */
enum { HTTP_VERSION_1_1 = 1, HTTP_VERSION_2 = 2 };

/* A listen address. */
struct listener_section {
    struct endpoint endpoint;
    const struct tls_section *tls; /* NULL: plain */
    /* With the contents of the files; a reference that policy_free() releases. NULL: plain, or the
     * files were not read, which only loader_load_file_to_serve() and loader_check_file() do. */
    struct tls_server_config *tls_config;
    /* Trusted peers send a PROXY protocol header first; other peers are refused. */
    bool proxy_protocol;
    unsigned versions; /* of HTTP that clients may speak: bits HTTP_VERSION_… */
    uint32_t mode;     /* permissions of a unix socket */
};

/* A token that authenticates operators. */
struct admin_token {
    bool is_said;         /* the policy contains the token */
    struct secret secret; /* valid if is_said */
    struct span path;     /* of the file whose first line is the token; empty: none */
};

/* The admin API. */
struct admin_section {
    struct listener_section *listeners; /* without the PROXY protocol */
    size_t n_listeners;                 /* 0: there is no admin API */
    struct admin_token token;           /* permits reading and changing */
    struct admin_token read_token;      /* permits reading */
    struct span *hosts;                 /* accepted in Host, besides addresses and localhost */
    size_t n_hosts;
    uint32_t metrics_top; /* how many of the most denied keys of each limit are metrics; 0: none */
};

/* Name servers. */
struct resolver_section {
    struct endpoint *servers; /* given by address; up to NAME_SERVERS_MAX */
    size_t n_servers;         /* 0: the name servers of the system */
};

enum store_kind {
    STORE_MEMORY,
    STORE_REDIS,
};

enum store_full {
    STORE_FULL_SHARED_COUNTER,
    STORE_FULL_DENY,
    STORE_FULL_ALLOW,
};

enum redis_kind {
    REDIS_SINGLE,
    REDIS_SENTINEL, /* the endpoints are sentinels, which report the master's address */
    REDIS_CLUSTER,  /* the endpoints are some of its nodes */
};

/* The endpoints of Redis. */
struct redis_section {
    enum redis_kind kind;
    struct endpoint endpoints[REDIS_ENDPOINTS_MAX];
    size_t n_endpoints; /* 1 of REDIS_SINGLE; 0: the policy names no Redis */
    struct span master; /* of REDIS_SENTINEL */
    /* References that policy_free() releases. NULL: plain. */
    struct tls_client_config *tls;
    struct tls_client_config *sentinel_tls;
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
    enum on_failure on_failure; /* for limits without their own setting */
    uint32_t proxy_count; /* number of instances that share local limits; 0: as counted in Redis */
    bool coalesce;        /* identical requests are batched into one call */
    bool denial_cache;    /* denials are cached for one second */
    uint64_t memory_bytes;
    enum store_full when_full;
};

enum log_format {
    LOG_FORMAT_LOGFMT,
    LOG_FORMAT_JSON,
    LOG_FORMAT_COMBINED, /* as nginx and Apache write it */
    LOG_FORMAT_OFF,
};

enum log_target {
    LOG_TO_STDOUT,
    LOG_TO_FILE,   /* appended to */
    LOG_TO_SYSLOG, /* by its socket on this machine */
};

/* What a line may have beside what it always has: a bit set of these. */
enum log_field { LOG_FIELD_QUERY, LOG_FIELD_REFERER, LOG_FIELD_USER_AGENT };

struct log_section {
    enum log_format format;
    enum log_target target;
    struct span path;      /* of the file or socket; empty: stdout */
    uint32_t fields;       /* bits by enum log_field */
    uint32_t sample_ppm;   /* share of allowed and successful requests that are logged */
    uint32_t denied_lines; /* a second, of a client, of requests that no server was asked for */
};

struct max_section {
    uint32_t connections; /* from clients, in all workers together */
    uint32_t connections_per_client;
    uint64_t head_bytes;
    uint32_t headers;
    uint64_t body_bytes;
    uint64_t buffered_bytes;  /* of request bodies, in all workers together */
    uint32_t held;            /* requests held for shaping, of each worker */
    uint32_t bans;            /* and exemptions, of the process */
    uint32_t bans_per_minute; /* that limits set, of the process */
    uint32_t handshakes;      /* of TLS, whose first message is complete, in all workers together */
    uint32_t streams;         /* of an HTTP/2 connection, at a time */
    uint32_t streams_per_client;      /* of all HTTP/2 connections of a client */
    uint32_t requests_per_connection; /* of HTTP/2 */
    uint32_t http2_requests;          /* of all HTTP/2 connections, at a time, in the process */
    uint64_t http2_buffer_bytes; /* of request bodies that an HTTP/2 connection may send ahead */
};

struct timeouts_section {
    uint64_t head_us;          /* from a request's first byte to the end of its head */
    uint64_t handshake_us;     /* of TLS, from the connection to its end */
    uint64_t idle_us;          /* between requests, and without progress of a body or response */
    uint64_t tunnel_us;        /* of a tunnel without traffic */
    uint64_t ping_us;          /* of an HTTP/2 connection with requests that sends nothing */
    uint64_t drain_us;         /* after SIGTERM */
    uint64_t body_bytes_per_s; /* minimum rate of a client in each direction; 0: none */
};

/* The response fields that report limits to clients. */
enum headers_style {
    HEADERS_RATELIMIT,      /* RateLimit, RateLimit-Policy */
    HEADERS_RATELIMIT_NEXT, /* the same, with the parameter names of the coming draft */
    HEADERS_X_RATELIMIT,    /* X-RateLimit-Limit, -Remaining, -Reset */
    HEADERS_RATELIMIT_AND_X_RATELIMIT,
    HEADERS_NONE, /* only Retry-After on denials */
};

#endif /* SLUICE_POLICY_SETTINGS_H */
