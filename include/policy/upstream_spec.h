/* Settings of an upstream and its servers; part of policy.h. */

#ifndef SLUICE_POLICY_UPSTREAM_SPEC_H
#define SLUICE_POLICY_UPSTREAM_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "policy/answer_set.h"
#include "policy/key.h"
#include "policy/settings.h"

struct tls_client_config;

enum upstream_host {
    UPSTREAM_HOST_PRESERVE, /* the Host of the client's request */
    UPSTREAM_HOST_SERVER,   /* the server's own host */
    UPSTREAM_HOST_NAME,     /* a configured host */
};

/* How requests are distributed over the servers. */
enum balance_kind {
    BALANCE_ROUND_ROBIN,
    BALANCE_LEAST_REQUESTS,
    BALANCE_HASH, /* equal keys go to one server */
};

/* What servers of https:// are spoken to by. */
enum upstream_protocol {
    UPSTREAM_HTTP_1_1,
    UPSTREAM_HTTP_2,
    UPSTREAM_AUTO, /* HTTP/2 if the server agrees by ALPN, else HTTP/1.1 */
};

struct server_spec {
    struct endpoint endpoint;
    uint32_t weight; /* relative to the weights of the other servers, from 1 */
    uint32_t meter;  /* as a route's */
};

/* Health checks of a server. */
struct health_spec {
    struct span path; /* path and query of the request; empty: no checks */
    uint64_t interval_us;
    uint64_t timeout_us;
    struct answer_set status; /* answers that pass the check */
    uint32_t fall;            /* consecutive failed checks until the server is down */
    uint32_t rise;            /* consecutive passed checks until the server is up */
};

/* When a server that fails requests is ejected. */
struct eject_spec {
    uint32_t failures; /* consecutive; 0: never */
    uint64_t for_us;   /* the first time; doubles each time, up to max_us */
    uint64_t max_us;
};

/* Requests that wait for a connection while max_connections are in use. */
struct queue_spec {
    uint32_t requests; /* at most */
    uint64_t wait_us;  /* each, at most */
};

/* How much of a request's body is kept before a server is chosen. */
struct buffer_spec {
    uint64_t bytes;           /* at most; 0: off, and the body passes as it comes */
    uint64_t wait_us;         /* at most */
    uint64_t min_bytes_per_s; /* of a client whose body holds a connection; 0: no minimum */
};

/* Which trailers of requests pass, by HTTP/2. */
enum request_trailers {
    REQUEST_TRAILERS_ANNOUNCED, /* those that the request names, on a connection of its own */
    REQUEST_TRAILERS_ALL,
    REQUEST_TRAILERS_NONE,
};

struct upstream_spec {
    struct span name;
    uint32_t index; /* among all upstreams, from 0 */
    uint32_t meter; /* as a route's */
    struct server_spec *servers;
    size_t n_servers; /* 1 … POLICY_SERVERS_MAX */
    enum balance_kind balance;
    struct key balance_key; /* of BALANCE_HASH */
    enum upstream_host host;
    struct span host_name; /* for UPSTREAM_HOST_NAME */
    enum upstream_protocol protocol;
    bool speaks_http2;             /* every server does */
    bool may_speak_http2;          /* a server does, or may agree on it */
    struct tls_client_config *tls; /* a reference, if a server is_https; else NULL */
    uint64_t connect_us;
    uint64_t
        response_us;  /* from the request's end to the response's head, and between its pieces */
    uint64_t idle_us; /* of a pooled connection */
    struct health_spec health;
    struct eject_spec eject;
    uint64_t slow_start_us;   /* until a recovered server has its full weight; 0: immediately */
    uint32_t max_connections; /* to each server, in the whole process; 0: unlimited */
    uint32_t max_streams;     /* on a connection of HTTP/2, to UPSTREAM_STREAMS_MAX */
    struct queue_spec queue;
    struct buffer_spec buffer; /* of the routes that have none of their own */
    uint32_t retries; /* of a request whose connection failed before the response; see the manual */
    uint64_t head_bytes_max; /* of a response */
    uint32_t n_fields_max;   /* of a response */
    bool reuse_after_head;   /* keep a connection after a response to HEAD, or 304, with a length */
    bool hold_slots;         /* for response_us, behind what does not show a handler's end */
    enum request_trailers request_trailers;
    uint64_t min_download_bytes_per_s; /* of the routes that have none of their own */
};

#endif /* SLUICE_POLICY_UPSTREAM_SPEC_H */
