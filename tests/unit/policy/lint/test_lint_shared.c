#include "policy/lint/lint.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 4096 };

#define JWT "jwt: {j: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"

/* The number of warnings of @kind about the policy @rest. Their texts go to *text. */
static unsigned count(const char *kind, const char *rest, struct text *text)
{
    char yaml[YAML_BYTES_MAX];
    (void)snprintf(yaml, sizeof(yaml),
                   "listen: 127.0.0.1:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n%s", rest);
    return policy_count_warnings(yaml, kind, text);
}

static const struct {
    const char *kind;
    unsigned n_reported;
    const char *yaml;
} POLICIES[] = {
    {"shared-key", 2, /* once for each route */
     "limits: {l: {key: global, algorithm: concurrency, rate: 9}}\n"
     "routes: [{match: {path: /a}, limits: [l], upstream: u}, {limits: [l], upstream: u}]\n"},
    {"shared-key", 1, /* a rate does not bound how long requests take */
     "limits: {l: {key: [host, path], algorithm: concurrency, rate: 9},\n"
     "  m: {key: client.ip, rate: 1/m}}\nroutes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
     "  m: {key: client.ip, algorithm: concurrency, rate: 8}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 1, /* one client may have all */
     "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
     "  m: {key: client.ip, algorithm: concurrency, rate: 9}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 1, /* it stops nobody */
     "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
     "  m: {key: client.ip, algorithm: concurrency, rate: 8, shadow: true}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {l: {key: header.x-key | global, algorithm: concurrency, rate: 9}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {"shared-key", 1, /* most clients share it */
     "limits: {l: {key: host | client.ip, algorithm: concurrency, rate: 9}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {"shared-key", 2, /* nor does one beside it that they share */
     "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
     "  m: {key: host | client.ip, algorithm: concurrency, rate: 8}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0, /* no server is asked */
     "limits: {l: {key: global, algorithm: concurrency, rate: 9}}\n"
     "routes: [{limits: [l], respond: {status: 204}}]\n"},
    {"shared-key", 2,
     "limits: {l: {key: route, rate: 9/m, charge_on: [5xx]},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 9/s, max_wait: 5s}}\n"
     "routes: [{limits: [l, q], upstream: u}]\n"},
    {"shared-key", 1, /* a client alone has more than all have */
     "limits: {l: {key: route, rate: 9/m, charge_on: [5xx]}, m: {key: client.ip, rate: 10/m}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {l: {key: route, rate: 9/m, charge_on: [5xx]}, m: {key: client.ip, rate: 8/m},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 9/s, max_wait: 5s}}\n"
     "routes: [{limits: [l, m, q], upstream: u}]\n"},
    {"shared-key", 1, /* a request that is served is not charged, but has had its place */
     "limits: {m: {key: client.ip, rate: 8/m, charge_on: [401]},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 9/s, max_wait: 5s}}\n"
     "routes: [{limits: [m, q], upstream: u}]\n"},
    {"shared-key", 1, /* who leaves a place has its slot back, and takes the next place */
     "limits: {m: {key: client.ip, algorithm: concurrency, rate: 8},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 9/s, max_wait: 5s}}\n"
     "routes: [{limits: [m, q], upstream: u}]\n"},
    {"shared-key", 1,
     "limits: {l: {key: route, rate: 9/m, charge_on: [404]},\n"
     "  m: {key: client.ip, rate: 8/m, charge_on: [401]}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {l: {key: route, rate: 9/m, charge_on: [404]},\n"
     "  m: {key: client.ip, rate: 8/m, charge_on: [4xx]}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0, /* what each request is charged is everybody's in any case */
     "limits: {l: {key: global, rate: 9/m}}\nroutes: [{limits: [l], upstream: u}]\n"},
    {"shared-key", 1,
     "limits: {l: {key: method, rate: 9/m, charge_denied: true}, m: {key: client.ip, rate: 8/m}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {l: {key: client.ip, rate: 9/m, charge_denied: true}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},

    /* What each request of a client names is another client's as well. */
    {"shared-key", 1,
     "limits: {l: {key: global, algorithm: concurrency, rate: 9}, c: {key: client.ip, rate: 8/m},\n"
     "  m: {key: header.x-a | client.ip, algorithm: concurrency, rate: 8}}\n"
     "routes: [{limits: [c, m, l], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
     "  c: {key: client.ip/48, algorithm: concurrency, rate: 8},\n"
     "  m: {key: header.x-a | client.ip, algorithm: concurrency, rate: 4}}\n"
     "routes: [{limits: [c, m, l], upstream: u}]\n"},
    {"shared-key", 3,
     "limits: {l: {key: route, rate: 9/m, charge_on: [5xx]}, m: {key: cookie.s, rate: 8/m},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 9/s, max_wait: 5s},\n"
     "  p: {key: [client.ip, path], rate: 8/m}, n: {key: [client.ip, query.n], rate: 8/m},\n"
     "  s: {key: host, algorithm: concurrency, rate: 9},\n"
     "  k: {key: query.k, algorithm: concurrency, rate: 8}}\n"
     "routes: [{limits: [l, m, q, p, n, s, k], upstream: u}]\n"},
    {"shared-key", 0, /* the shared one counts each path and host for itself, too */
     "limits: {l: {key: [host, path], rate: 9/m, charge_on: [5xx]},\n"
     "  m: {key: [path, client.ip, host], rate: 8/m}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 1,
     "limits: {l: {key: host, rate: 9/m, charge_on: [5xx]},\n"
     "  m: {key: [path, client.ip, host], rate: 8/m}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"shared-key", 0, /* the route names its one path */
     "limits: {l: {key: host, rate: 9/m, charge_on: [5xx]},\n"
     "  m: {key: [path, client.ip, host], rate: 8/m}}\n"
     "routes: [{match: {path: /a}, limits: [l, m], upstream: u}]\n"},

/* What is given back of a client's own is of concern where the shared one counts it. */
#define ERRORS(charged, own)                                                                       \
    "limits: {l: {key: host, rate: 9/m, charge_on: [" charged "]},\n"                              \
    "  m: {key: client.ip, rate: 8/m, " own "}}\nroutes: [{limits: [l, m], upstream: u}]\n"
    {"shared-key", 0, ERRORS("5xx", "refund_on: [429]")},
    {"shared-key", 0, ERRORS("5xx", "refund_on: [2xx, 404]")},
    {"shared-key", 0, ERRORS("401, 403", "refund_on: [200, 304, 404]")},
    {"shared-key", 0, ERRORS("401", "refund_on: [404], charge_on: [4xx]")},
    {"shared-key", 1, ERRORS("5xx", "refund_on: [500]")},
    {"shared-key", 1, ERRORS("4xx", "refund_on: [404]")},
    {"shared-key", 1, ERRORS("401", "refund_on: [2xx, 4xx]")},
    {"shared-key", 1, ERRORS("401", "refund_on: [404], charge_on: [403, 404]")},
    /* It counts these though it does not list them: who left, no answer, and answers that may hide
     * another or be of a gateway. */
    {"shared-key", 1, ERRORS("5xx", "refund_on: [server_failed]")},
    {"shared-key", 1, ERRORS("401", "refund_on: [502]")},
    {"shared-key", 1, ERRORS("401", "refund_on: [413]")},
    {"shared-key", 0, ERRORS("503", "refund_on: [4xx]")},
    {"shared-key", 1, ERRORS("401", "refund_on: [5xx]")},
    {"shared-key", 1, ERRORS("401", "refund_on: [406]")},
    {"shared-key", 0, ERRORS("503", "refund_on: [406]")},
    {"shared-key", 1, ERRORS("200", "refund_on: [304]")},
    {"shared-key", 0, ERRORS("201", "refund_on: [304]")},
#undef ERRORS
/* A place in a queue is taken by every request that is admitted. */
#define QUEUE(own)                                                                                 \
    "limits: {m: {key: client.ip, rate: 8/m, " own "},\n"                                          \
    "  q: {key: global, algorithm: leaky_bucket, rate: 9/s, max_wait: 5s}}\n"                      \
    "routes: [{limits: [m, q], upstream: u}]\n"
    {"shared-key", 1, QUEUE("refund_on: [200]")},
    {"shared-key", 1, QUEUE("refund_on: [429]")},
    {"shared-key", 0, QUEUE("refund_on: [503, server_failed]")},
#undef QUEUE

/* The refill of a bucket is lost while requests are under way that are given back. */
#define BUCKET(key, limit)                                                                         \
    "limits: {m: {key: client.ip, rate: 8/m}, l: {key: " key ", rate: 9/m, " limit "}}\n"          \
    "routes: [{limits: [m, l], upstream: u}]\n"
    {"stalled-bucket", 1, BUCKET("global", "charge_on: [5xx]")},
    {"stalled-bucket", 1, BUCKET("route", "algorithm: leaky_bucket, charge_on: [4xx, 5xx]")},
    {"stalled-bucket", 1, BUCKET("host", "algorithm: gcra, charge_on: server_failed")},
    {"stalled-bucket", 1, BUCKET("client.ja4", "refund_on: [200]")},
    {"stalled-bucket", 1, BUCKET("[route, method]", "refund_on: [2xx, 3xx]")},
    {"stalled-bucket", 0, BUCKET("global", "algorithm: sliding_window, charge_on: [5xx]")},
    {"stalled-bucket", 0, BUCKET("global", "algorithm: fixed_window, refund_on: [200]")},
    {"stalled-bucket", 0, BUCKET("global", "charge_on: [5xx], shadow: true")},
    {"stalled-bucket", 0, BUCKET("client.ip", "charge_on: [5xx]")},
    {"stalled-bucket", 0, BUCKET("[client.ip, route]", "refund_on: [200]")},
    {"stalled-bucket", 0, BUCKET("global", "refund_on: [404, 503]")},
    /* What most requests of the route get may be what is charged, */
    {"stalled-bucket", 0, BUCKET("global", "charge_on: [2xx]")},
    {"stalled-bucket", 0, BUCKET("global", "charge_on: [201]")},
    {"stalled-bucket", 0, BUCKET("global", "charge_on: [302, 5xx]")},
    {"stalled-bucket", 0, BUCKET("global", "charge_on: [101]")},
    {"stalled-bucket", 1, BUCKET("global", "charge_on: [2xx, 5xx], refund_on: [200]")},
    /* a path may be of one client, as /users/17, */
    {"stalled-bucket", 0, BUCKET("path", "charge_on: [5xx]")},
    {"stalled-bucket", 0, BUCKET("[route, path.2]", "charge_on: [5xx]")},
    {"stalled-bucket", 0, BUCKET("geohash(query.lat query.lon 9)", "charge_on: [5xx]")},
    /* and an answer of the route's own takes no time. */
    {"stalled-bucket", 0,
     "limits: {l: {key: global, rate: 9/m, charge_on: [5xx]}}\n"
     "routes: [{limits: [l], respond: {status: 204}}]\n"},
#undef BUCKET

    /* Claims, and certificates. */
    {"shared-key", 0,
     JWT "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
         "  m: {key: jwt.sub | client.ip, algorithm: concurrency, rate: 8}}\n"
         "routes: [{match: {path: /a}, jwt: {required: true}, limits: [m, l], upstream: u},\n"
         "         {limits: [m, l], upstream: u}]\n"},
    {"shared-key", 1, /* where no token is required, who sends none is counted by nothing */
     JWT "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
         "  m: {key: jwt.sub, algorithm: concurrency, rate: 8, missing: skip}}\n"
         "routes: [{match: {path: /a}, jwt: {required: true}, limits: [m, l], upstream: u},\n"
         "         {match: {path: /b, jwt: {role: a}}, limits: [m, l], upstream: u},\n"
         "         {limits: [m, l], upstream: u}]\n"},
    {"client-chosen-key", 1,
     JWT "limits: {m: {key: jwt.sub, rate: 8/m, missing: skip}}\n"
         "routes: [{match: {path: /a}, jwt: {required: true}, limits: [m], upstream: u},\n"
         "         {match: {path: /b, jwt: {role: a}}, limits: [m], upstream: u},\n"
         "         {limits: [m], upstream: u}]\n"},

    {"client-chosen-key", 8, /* a new token has another */
     JWT "limits: {a: {key: jwt.jti, rate: 8/m}, b: {key: jwt.iat, rate: 8/m},\n"
         "  c: {key: jwt.exp, rate: 8/m}, d: {key: jwt.nbf, rate: 8/m},\n"
         "  e: {key: jwt.nonce, rate: 8/m}, f: {key: jwt.at_hash, rate: 8/m},\n"
         "  g: {key: 'jwt.auth_time | client.ip', rate: 8/m},\n"
         "  h: {key: [client.ip, jwt.c_hash], rate: 8/m}}\n"
         "routes: [{match: {path: /a}, limits: [a], upstream: u},\n"
         "         {match: {path: /b}, limits: [b], upstream: u},\n"
         "         {match: {path: /c}, limits: [c], upstream: u},\n"
         "         {match: {path: /d}, limits: [d], upstream: u},\n"
         "         {match: {path: /e}, limits: [e], upstream: u},\n"
         "         {match: {path: /f}, limits: [f], upstream: u},\n"
         "         {match: {path: /g}, limits: [g], upstream: u},\n"
         "         {match: {path: /h}, limits: [h], upstream: u}]\n"},
    {"client-chosen-key", 0, /* bounded, or a name of a claim's own */
     JWT "limits: {a: {key: jwt.jti, rate: 8/m}, b: {key: jwt.sub, rate: 9/m},\n"
         "  c: {key: jwt.app.jti, rate: 8/m}}\n"
         "routes: [{match: {path: /a}, limits: [a, b], upstream: u},\n"
         "         {limits: [c], upstream: u}]\n"},
    {"shared-key", 1,
     JWT "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
         "  m: {key: jwt.jti, algorithm: concurrency, rate: 8}}\n"
         "routes: [{limits: [m, l], upstream: u}]\n"},
    {"named-victim", 3, /* one client has all others of its key banned */
     JWT "limits: {a: {key: jwt.iss, rate: 1/s, ban: {after: 9/1h}},\n"
         "  b: {key: [host, jwt.aud], rate: 1/s, ban: {after: 9/1h}},\n"
         "  c: {key: 'jwt.iss | client.ip', rate: 1/s, ban: {after: 9/1h}},\n"
         "  d: {key: [jwt.iss, jwt.sub], rate: 1/s, ban: {after: 9/1h}},\n"
         "  e: {key: jwt.iss, rate: 1/s, ban: {after: 9/1h, shadow: true}},\n"
         "  f: {key: 'jwt.sub | client.asn', rate: 1/s, ban: {after: 9/1h}},\n"
         "  g: {key: 'client.asn | client.ip', rate: 1/s, ban: {after: 9/1h}}}\n"
         "geo: {database: asn.mmdb}\n"
         "routes: [{limits: [a, b, c, d, e, f, g], upstream: u}]\n"},
    {"no-effect", 2, /* nobody is banned for what others do */
     JWT "limits: {a: {key: 'client.asn | client.ip', rate: 1/s, ban: {after: 9/1h}},\n"
         "  b: {key: [host, client.ja4 | client.ip], rate: 1/s, ban: {after: 9/1h}},\n"
         "  c: {key: 'client.ip | client.asn', rate: 1/s, ban: {after: 9/1h}},\n"
         "  d: {key: [client.asn, client.ip], rate: 1/s, ban: {after: 9/1h}},\n"
         "  e: {key: [host, jwt.iss], rate: 1/s, ban: {after: 9/1h}}}\n"
         "geo: {database: asn.mmdb}\n"
         "routes: [{limits: [a, b, c, d, e], upstream: u}]\n"},

    /* Slots are no bound of how much a client asks, nor are answers that are charged. */
    {"client-chosen-key", 1,
     "limits: {l: {key: header.x-a, rate: 8/m}, s: {key: global, algorithm: concurrency, rate: "
     "9}}\n"
     "routes: [{limits: [l, s], upstream: u}]\n"},
    {"client-chosen-key", 1,
     "limits: {l: {key: header.x-a, rate: 8/m}, s: {key: route, rate: 9/m, charge_on: [5xx]}}\n"
     "routes: [{limits: [l, s], upstream: u}]\n"},
    {"client-chosen-key", 1, /* slots do not bound how much a client asks */
     "limits: {k: {key: header.x-k, rate: 9/s}, s: {key: client.ip, algorithm: concurrency, "
     "rate: 9}}\nroutes: [{limits: [k, s], upstream: u}]\n"},
    {"shared-key", 1, /* those with a plan take all */
     "limits: {m: {key: client.ip, algorithm: concurrency, rate: 4, plans: {gold: 30}, plan: "
     "tenant}, s: {key: global, algorithm: concurrency, rate: 20}}\n"
     "routes: [{limits: [m, s], upstream: u}]\n"},
    {"shared-key", 0,
     "limits: {m: {key: client.ip, algorithm: concurrency, rate: 4, plans: {gold: 19}, plan: "
     "tenant}, s: {key: global, algorithm: concurrency, rate: 20}}\n"
     "routes: [{limits: [m, s], upstream: u}]\n"},
    {"shared-key", 0, /* another limit stops them */
     "limits: {m: {key: client.ip, algorithm: concurrency, rate: 4, plans: {gold: none}, plan: "
     "tenant}, n: {key: client.ip/48, algorithm: concurrency, rate: 9},\n"
     "  s: {key: global, algorithm: concurrency, rate: 20}}\n"
     "routes: [{limits: [m, n, s], upstream: u}]\n"},
    {"client-chosen-key", 1, /* nor a rate how much runs at once */
     "limits: {k: {key: header.x-k, algorithm: concurrency, rate: 9}, s: {key: client.ip, rate: "
     "9/s}}\nroutes: [{limits: [k, s], upstream: u}]\n"},
    {"client-chosen-key", 0,
     "limits: {k: {key: header.x-k, algorithm: concurrency, rate: 9},\n"
     "  s: {key: client.ip, rate: 9/s}, t: {key: client.ip, algorithm: concurrency, rate: 9}}\n"
     "routes: [{limits: [k, s, t], upstream: u}]\n"},
    {"client-chosen-key", 1, /* nor does what is charged for some answers */
     "limits: {k: {key: header.x-k, rate: 9/s}, s: {key: client.ip, rate: 9/s, charge_on: [4xx]}}\n"
     "routes: [{limits: [k, s], upstream: u}]\n"},
    {"client-chosen-key", 1,
     "limits: {k: {key: header.x-k, rate: 9/s}, s: {key: client.ip, rate: 9/s, refund_on: [200]}}\n"
     "routes: [{limits: [k, s], upstream: u}]\n"},
    {"client-chosen-key", 0, /* shared-key */
     "limits: {l: {key: header.x-a, algorithm: leaky_bucket, rate: 4/s},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 20/s, max_wait: 5s}}\n"
     "routes: [{limits: [l, q], upstream: u}]\n"},
    {"client-chosen-key", 0, /* shared-key */
     "limits: {l: {key: header.x-a, algorithm: concurrency, rate: 4},\n"
     "  s: {key: global, algorithm: concurrency, rate: 20}}\n"
     "routes: [{limits: [l, s], upstream: u}]\n"},
    {"client-chosen-key", 0,
     "limits: {s: {key: global, algorithm: concurrency, rate: 20}}\n"
     "routes: [{limits: [s], upstream: u}]\n"},
};

START_TEST(what_one_client_takes_of_all_is_told_and_nothing_else)
{
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    const unsigned n = count(POLICIES[_i].kind, POLICIES[_i].yaml, &text);
    buffer[text.len] = '\0';
    ck_assert_msg(n == POLICIES[_i].n_reported, "%u %s: %s\n%s", n, POLICIES[_i].kind,
                  POLICIES[_i].yaml, buffer);
}
END_TEST

/* What stands beside, and what the warning says. */
static const struct {
    const char *kind;
    const char *yaml;
    const char *reported;
} TEXTS[] = {
    {"shared-key",
     "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
     "  m: {key: header.x-a | client.ip, algorithm: concurrency, rate: 8}}\n"
     "routes: [{name: a, limits: [m, l], upstream: u}]\n",
     "route \"a\": one client can take all slots of limit \"l\", whose key clients share, and "
     "limit \"m\" does not stop it, since clients choose what it counts by; put a concurrency "
     "limit by client.ip beside it, with a lower rate\n"},
    {"shared-key",
     "limits: {l: {key: header.x-a, algorithm: leaky_bucket, rate: 4/s},\n"
     "  q: {key: global, algorithm: leaky_bucket, rate: 20/s, max_wait: 5s}}\n"
     "routes: [{name: a, limits: [l, q], upstream: u}]\n",
     "route \"a\": one client can fill the queue of limit \"q\", whose key clients share, also "
     "with "
     "requests that it ends while they are held, and limit \"l\" does not stop it, since "
     "clients choose what it counts by; put a limit by client.ip beside it, with a lower rate\n"},
    {"shared-key",
     "limits: {l: {key: client.ip, algorithm: concurrency, rate: 4, plans: {vip: none}, plan: "
     "tenant},\n  q: {key: global, algorithm: concurrency, rate: 9}}\n"
     "routes: [{name: a, limits: [l, q], upstream: u}]\n",
     "route \"a\": one client can take all slots of limit \"q\", whose key clients share, and "
     "limit "
     "\"l\" does not stop those of its plan \"vip\"; put a concurrency limit by client.ip beside "
     "it, "
     "with a lower rate\n"},
    {"client-chosen-key",
     "limits: {l: {key: header.x-a, rate: 8/m}, s: {key: global, algorithm: concurrency, rate: "
     "9}}\n"
     "routes: [{name: a, limits: [l, s], upstream: u}]\n",
     "route \"a\" is limited only by values that clients send, and by limit \"s\", which does not "
     "bound how much one client asks: with another one in each request a client always has the "
     "whole quota of limit \"l\"; add a limit with key client.ip to the route\n"},
    {"client-chosen-key",
     JWT "limits: {l: {key: [path, jwt.jti], rate: 8/m}}\n"
         "routes: [{name: a, match: {path: /a}, limits: [l], upstream: u}]\n",
     "route \"a\" is limited only by jwt.jti, which is another in each token: a client that gets a "
     "new one has the whole quota of limit \"l\" again; count by jwt.sub, or add a limit with key "
     "client.ip to the route\n"},
    {"client-chosen-key",
     JWT "limits: {l: {key: jwt.iat, algorithm: concurrency, rate: 8}, m: {key: client.ip, rate: "
         "9/s}}\n"
         "routes: [{name: a, limits: [l, m], upstream: u}]\n",
     "route \"a\" is limited only by jwt.iat, which is another in each token, and by limit \"m\", "
     "which does not bound how much runs at once: a client that gets a new one has the whole quota "
     "of limit \"l\" again; count by jwt.sub, or add a limit of the same algorithm with key "
     "client.ip to the route\n"},
    {"client-chosen-key", /* no token is needed */
     JWT "limits: {l: {key: [jwt.jti, header.x-a], rate: 8/m}}\n"
         "routes: [{name: a, limits: [l], upstream: u}]\n",
     "route \"a\" is limited only by values that clients send: with another one in each request a "
     "client always has the whole quota of limit \"l\"; add a limit with key client.ip to the "
     "route\n"},
    {"shared-key",
     JWT "limits: {l: {key: global, algorithm: concurrency, rate: 9},\n"
         "  m: {key: jwt.jti, algorithm: concurrency, rate: 8}}\n"
         "routes: [{name: a, limits: [m, l], upstream: u}]\n",
     "route \"a\": one client can take all slots of limit \"l\", whose key clients share, and "
     "limit "
     "\"m\" does not stop it, since a new token has another jwt.jti; put a concurrency limit by "
     "client.ip beside it, with a lower rate\n"},
    {"named-victim",
     JWT "limits: {l: {key: jwt.iss, rate: 8/m, ban: {after: 9/1h}}}\n"
         "routes: [{limits: [l], upstream: u}]\n",
     "limit \"l\" bans keys that clients share: one client has all others of its key banned; count "
     "by client.ip or jwt.sub, or put one of them beside in the key\n"},
    {"no-effect",
     "limits: {l: {key: client.ja4 | client.ip, rate: 8/m, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [l], upstream: u}]\n",
     "ban has no effect on most clients: limit \"l\" counts them by what many share, and no one is "
     "banned for what others do; count by client.ip or a name of the client\n"},
    {"named-victim",
     JWT "limits: {l: {key: [jwt.iss, query.user], rate: 8/m, ban: {after: 9/1h}}}\n"
         "routes: [{limits: [l], upstream: u}]\n",
     "limit \"l\" bans keys that clients send: whoever knows or guesses that of another client has "
     "it banned; put client.ip beside it in the key, unless it is a secret\n"},
};

/* Without HTTP/2, where a limit may refund that. */
START_TEST(who_leaves_takes_of_all_what_its_own_limit_gives_back)
{
    static const char *const SHARED[] = {
        "rate: 9/m, charge_on: [5xx]",
        "algorithm: leaky_bucket, rate: 9/s, max_wait: 5s",
    };
    char yaml[YAML_BYTES_MAX];
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    (void)snprintf(yaml, sizeof(yaml),
                   "limits: {l: {key: host, %s}, m: {key: client.ip, rate: 8/m, refund_on: "
                   "[client_left]}}\nroutes: [{limits: [l, m], upstream: u}]\n",
                   SHARED[_i]);
    ck_assert_uint_eq(count("shared-key", yaml, &text), 1);
}
END_TEST

START_TEST(the_limit_that_stops_nobody_is_named)
{
    char buffer[YAML_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    ck_assert_uint_eq(count(TEXTS[_i].kind, TEXTS[_i].yaml, &text), 1);
    buffer[text.len] = '\0';
    ck_assert_str_eq(buffer, TEXTS[_i].reported);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_shared");
    TCase *tcase = tcase_create("lint_shared");
    tcase_add_loop_test(tcase, what_one_client_takes_of_all_is_told_and_nothing_else, 0,
                        (int)ARRAY_LEN(POLICIES));
    tcase_add_loop_test(tcase, who_leaves_takes_of_all_what_its_own_limit_gives_back, 0, 2);
    tcase_add_loop_test(tcase, the_limit_that_stops_nobody_is_named, 0, (int)ARRAY_LEN(TEXTS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
