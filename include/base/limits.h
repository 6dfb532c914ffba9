/* All fixed limits. A limit that an operator may want to change is in the policy instead; its
 * default and bounds are in policy/sections. */

#ifndef SLUICE_BASE_LIMITS_H
#define SLUICE_BASE_LIMITS_H

enum {
    /* --- the policy file --- */
    POLICY_FILE_BYTES_MAX = 16 * 1024 * 1024, /* 10,000 routes need about 2 MiB */
    POLICY_INCLUDES_MAX = 256,                /* files, and paths and patterns of such */
    POLICY_INCLUDE_DEPTH_MAX = 8,             /* of files that include files */
    POLICY_DEPTH_MAX = 16,                    /* nested mappings and lists */
    POLICY_NODES_MAX = 1000 * 1000,           /* keys and values, repeated by aliases too */
    POLICY_ITEMS_MAX = 100 * 1000,            /* of one list or mapping */
    POLICY_ANCHORS_MAX = 10000,
    POLICY_DIRECTIVES_MAX = 64,    /* %YAML, %TAG */
    POLICY_WHITE_SPACE_MAX = 4096, /* consecutive bytes, line ends included */
    POLICY_ERRORS_MAX = 100,       /* reported in one run */
    POLICY_ROUTES_MAX = 20000,
    POLICY_LIMITS_MAX = 10000,
    TENANTS_MAX = 1000000,   /* keys that have a plan; some 100 MB */
    POLICY_METHODS_MAX = 64, /* methods in routes that are not registered */
    WORKER_CONFIGS_MAX =
        64, /* policies with requests in progress in a worker at one time, see reload.md */
    WORKER_DATABASES_MAX =
        4, /* versions of the databases of addresses that requests are under at one time */
    POLICY_UPSTREAMS_MAX = 1000,
    POLICY_SERVERS_MAX = 256,   /* in one upstream */
    BALANCE_WEIGHT_MAX = 1000,  /* of a server */
    RETRIES_MAX = 10,           /* of a request that was already sent */
    UPSTREAM_STREAMS_MAX = 100, /* on a connection of HTTP/2 to a server at a time */
    LISTENERS_MAX = 64,
    ADMIN_LISTENERS_MAX = 8,
    METRICS_TOP_MAX = 100, /* keys of a limit that have metrics of their own */
    ADMIN_TOKEN_BYTES_MIN = 16,
    ADMIN_TOKEN_BYTES_MAX = 512,
    NAME_SERVERS_MAX = 8,
    WORKERS_MAX = 256,
    NAME_BYTES_MAX = 64,       /* of a limit, a route, an upstream */
    LIMITS_PER_ROUTE_MAX = 16, /* in one decision; each rate of a limit counts */
    RATES_PER_LIMIT_MAX = 8,
    JWT_PROVIDERS_MAX = 16,
    PLANS_PER_LIMIT_MAX = 64,
    PLAN_SOURCES_MAX = 4,
    NUMBERED_PLANS_MAX = 1024,  /* numbers in place of a plan that a policy keeps */
    NUMBERED_LIMITS_MAX = 2048, /* and rates of them */
    KEY_PARTS_MAX = 8,
    KEY_ALTERNATIVES_MAX = 8,
    GEO_DATABASES_MAX = 4,
    GEO_FILE_BYTES_MAX = 1 << 30,
    PATTERN_SEGMENTS_MAX = 64,
    CAPTURES_MAX = 16,         /* {name}s in one path pattern */
    MATCH_VALUES_MAX = 64,     /* hosts, paths, or values of one name, in one match */
    MATCH_COUNTRIES_MAX = 300, /* there are some 250 */
    MATCH_ASNS_MAX = 10000,
    MATCH_VALUE_BYTES_MAX = 256,    /* of a parameter that a match compares */
    ROUTE_ENTRIES_MAX = 100000,     /* hosts with paths, of all routes */
    ROUTE_SETS_MAX = 16,            /* fields that a route sets, in each direction */
    ROUTE_SET_BYTES_MAX = 8 * 1024, /* of all of them together */
    ROUTE_REMOVALS_MAX = 64,
    CLAIM_FIELDS_MAX = 64,       /* fields that routes set from claims, in the whole policy */
    REPLY_SETS_MAX = 8,          /* fields of one of sluice's own responses */
    REDIRECT_BYTES_MAX = 2048,   /* of the URL that the policy names */
    REPLY_VALUES_MAX = 16,       /* values in its body and its fields */
    REPLY_VALUE_BYTES_MAX = 128, /* of each */

    /* --- TLS --- */
    CLIENT_HELLO_BYTES_MAX = 16 * 1024, /* with the headers of its records; usual are 2 KiB */
    CLIENT_HELLO_RECORDS_MAX = 64,
    TLS_ENTRIES_MAX = 1000, /* of certificates, of a listener */

    /* --- a request --- */
    HEAD_FIELDS_MAX = 256,        /* upper bound of the policy's max.headers */
    RESPONSE_FIELDS_MAX = 1024,   /* upper bound of an upstream's max_headers */
    TARGET_BYTES_MAX = 8 * 1024,  /* beyond it: 414 */
    METHOD_BYTES_MAX = 32,        /* beyond it: 501 */
    HEAD_EMPTY_LINES_MAX = 4,     /* before a request line */
    CONNECTION_OPTIONS_MAX = 32,  /* each is compared with every field's name */
    PATH_SEGMENTS_MAX = 128,      /* beyond it: 414 */
    INTERIMS_MAX = 16,            /* 1xx before one answer; more: 502 */
    HOST_BYTES_MAX = 255,         /* RFC 1035 section 2.3.4 */
    CHUNK_LINE_BYTES_MAX = 256,   /* size, extensions, CRLF */
    CHUNK_EXT_BYTES_MAX = 4096,   /* extensions of a whole body */
    TRAILER_BYTES_MAX = 8 * 1024, /* the whole section */
    FORWARDED_HOPS_MAX = 32,      /* trusted, in X-Forwarded-For; more: the peer's address counts */
    KEY_TEXT_BYTES_MAX = 1024,    /* the key of one charge, as text */
    KEY_PLAIN_BYTES_MAX = 64,     /* a part longer than this is hashed */
    CLIENT_IPV6_BITS = 48,        /* of IPv6: a prefix that one customer may have */
    BODY_BUFFER_SHARES = 8,       /* a client has at most an eighth of max.buffered */
    ABANDONED_BYTES_MAX = 1024 * 1024, /* of an answer, still read after its client left */
    REQUEST_ID_BYTES_MAX = 128,        /* a longer X-Request-ID of a trusted proxy is replaced */

    /* --- memory of a worker --- */
    IO_BLOCK_BYTES = 64 * 1024,    /* a block for bodies; one in flight each way */
    SMALL_BLOCK_BYTES = 8 * 1024,  /* the same, for a receiver that does not keep up */
    SYSLOG_PATH_BYTES_MAX = 107,   /* of its socket: the kernel's maximum */
    PIPE_BYTES = 256 * 1024,       /* capacity of a pipe between two sockets */
    ABANDONED_REQUESTS_MAX = 1024, /* of a worker: see abandoned_request.h */
    PIPES_MAX = 16,                /* of a worker; without a free pipe, data is copied */
    UNSENT_BYTES_MAX = 64 * 1024,  /* that a socket buffers for a peer that takes no more */
    ARENA_CHUNK_BYTES = 4096,

    /* --- the logs: each queue has two such buffers --- */
    LOG_PROGRAM_QUEUE_BYTES = 256 * 1024,
    LOG_ACCESS_QUEUE_BYTES = 4 * 1024 * 1024, /* some 15,000 lines */

    /* --- Redis --- */
    REDIS_ENDPOINTS_MAX = 16,      /* sentinels, or initial nodes of a cluster */
    REDIS_MASTER_BYTES_MAX = 128,  /* of the master's name at the sentinels */
    REDIS_PENDING_MAX = 65536,     /* decisions in flight on one link */
    REDIS_CLUSTER_NODES_MAX = 256, /* of one cluster, with slots; slots of others have no owner */
    REDIS_REPLY_INTS_MAX = 2 + 103 * LIMITS_PER_ROUTE_MAX, /* limit states in a reply */
};

#endif /* SLUICE_BASE_LIMITS_H */
