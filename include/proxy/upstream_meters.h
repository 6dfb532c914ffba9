/* Counters of upstreams and of their servers: part of the meters of a worker. */

#ifndef SLUICE_PROXY_UPSTREAM_METERS_H
#define SLUICE_PROXY_UPSTREAM_METERS_H

#include "base/counter.h"

/* How a request to a server failed. */
enum meter_failure {
    METER_UNREACHABLE,
    METER_UNACCEPTED, /* no connection in time */
    METER_INSECURE,   /* no TLS with it: a handshake failed, or was not complete in time */
    METER_UNANSWERED, /* no answer in time */
    METER_LOST,       /* the connection died before the answer's end */
    METER_INVALID,    /* an answer that is not HTTP */
    METER_BAD_GATEWAY,
    METER_LARGE_HEAD, /* an answer whose head exceeds max_head or max_headers */
    METER_BAD_VALUE,  /* an answer with a control byte in the value of a field */
    METER_FAILURES,
};

struct server_meters {
    struct counter requests; /* sent */
    struct counter failures[METER_FAILURES];
    struct counter outages; /* transitions to down */
    struct counter connects;
    struct counter connections;             /* gauge: being made, in use or idle */
    struct counter idle, http2_connections; /* gauges: those among them that are, that speak it */
};

/* Why a request that needed a connection did not get one from the queue. */
enum meter_queue_refusal {
    METER_QUEUE_FULL,
    METER_QUEUE_TIMEOUT, /* its time in the queue ran out */
    METER_QUEUE_REFUSALS,
};

struct upstream_meters {
    struct latency response; /* from the choice of a server to its response's head */
    struct counter retries;
    struct counter waiting; /* gauge: requests in the queue */
    struct counter queue_refused[METER_QUEUE_REFUSALS];
};

#endif /* SLUICE_PROXY_UPSTREAM_METERS_H */
