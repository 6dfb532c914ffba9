#include "policy/lint/lint.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/loader.h"
#include "policy/matcher.h"
#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 8192, N_POLICIES = 52, ROUTES_MAX = 8 };

#define LISTEN "listen: 127.0.0.1:0\n"
#define HEAD                                                                                       \
    LISTEN                                                                                         \
    "upstreams: {u: {servers: http://127.0.0.1:1}}\n"

/* Whatever is asked for is there. */
static const char *look_up(const char *name)
{
    (void)name;
    return "value";
}

/* Check @yaml, and leave what is told of it in @diags. */
static struct policy *check(const char *yaml, struct diags *diags)
{
    struct policy *policy = NULL;
    diags_init(diags, "policy.yaml");
    const enum status status = loader_check_text(span_of_text(yaml), look_up, &policy, diags);
    if (status != STATUS_OK) {
        diags_print(diags, stderr);
    }
    ck_assert_msg(status == STATUS_OK, "%s", yaml);
    return policy;
}

static unsigned count(const struct diags *diags, const char *name)
{
    unsigned n = 0;
    for (size_t i = 0; i < diags->n_items; i++) {
        n += strcmp(diags->items[i].name, name) == 0;
    }
    return n;
}

/* --- each kind: what has it, and what nearly has it --- */

static const struct {
    const char *kind;
    unsigned n_reported;
    const char *yaml;
} POLICIES[] = {
    {"unreachable-route", 1,
     "routes: [{respond: {status: 204}}, {match: {path: /a}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0, /* OPTIONS * */
     "routes: [{match: {path: /**}, respond: {status: 204}}, {respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {path: /**}, respond: {status: 204}},\n"
     "         {match: {method: GET}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0, /* a trailing slash is a segment without a name */
     "routes: [{match: {path: /a/*}, respond: {status: 204}},\n"
     "         {match: {path: /a/}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {path: /a/**}, respond: {status: 204}},\n"
     "         {match: {path: /a}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0, /* other letters */
     "routes: [{match: {path: /a/**}, respond: {status: 204}},\n"
     "         {match: {path: /a/b, ignore_case: true}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {path: /A/**, ignore_case: true}, respond: {status: 204}},\n"
     "         {match: {path: /a/b}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1, /* each of its methods has its reference */
     "routes: [{match: {method: GET}, respond: {status: 204}},\n"
     "         {match: {method: [PUT, HEAD]}, respond: {status: 204}},\n"
     "         {match: {method: [GET, PUT]}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {method: GET}, respond: {status: 204}},\n"
     "         {match: {method: [PUT, HEAD]}, respond: {status: 204}},\n"
     "         {match: {method: [GET, POST]}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {client: [10.0.0.0/8, 192.0.2.0/24]}, respond: {status: 204}},\n"
     "         {match: {client: [10.1.0.0/16, 192.0.2.1]}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {client: 0.0.0.0/0}, respond: {status: 204}},\n"
     "         {match: {path: /a}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {host: \"*.a.test\"}, respond: {status: 204}},\n"
     "         {match: {host: x.a.test}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {host: \"*.a.test\"}, respond: {status: 204}},\n"
     "         {match: {host: a.test}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {header: {x-a: true}}, respond: {status: 204}},\n"
     "         {match: {header: {X-A: \"1\", x-b: true}}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {header: {x-a: \"1\"}}, respond: {status: 204}},\n"
     "         {match: {header: {x-a: true}}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1, /* each path has its reference, with each host */
     "routes: [{match: {path: [/a, /b/*]}, respond: {status: 204}},\n"
     "         {match: {path: /c}, respond: {status: 204}},\n"
     "         {match: {path: [/b/x, /c], host: [a.test, b.test]}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {path: /b, host: a.test}, respond: {status: 204}},\n"
     "         {match: {path: /b, host: [a.test, b.test]}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {header: {x-a: [\"1\", \"2\"]}}, respond: {status: 204}},\n"
     "         {match: {header: {x-a: \"2\"}}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {header: {x-a: [\"1\", \"2\"]}}, respond: {status: 204}},\n"
     "         {match: {header: {x-a: [\"2\", \"3\"]}}, respond: {status: 204}}]\n"},
    {"unreachable-route", 2, /* no listener has tls */
     "routes: [{match: {path: /a, scheme: https}, respond: {status: 204}},\n"
     "         {match: {path: /b, client_cert: true}, respond: {status: 204}},\n"
     "         {match: {scheme: http}, respond: {status: 204}}]\n"},
    {"unreachable-route", 1, /* as for the first, which is of plain connections too */
     "routes: [{match: {scheme: http}, respond: {status: 204}},\n"
     "         {match: {path: /a, scheme: http}, respond: {status: 204}}, {respond: {status: "
     "204}}]\n"},
    {"no-effect", 1,
     "limits: {a: {key: [route, client.cert.dns | client.cert], rate: 1/s},\n"
     "         b: {key: client.cert | client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"unreachable-route", 1,
     "routes: [{match: {query: {a: false}}, respond: {status: 204}},\n"
     "         {match: {query: {a: false, b: 1}}, respond: {status: 204}}]\n"},
    {"unreachable-route", 0,
     "routes: [{match: {query: {a: false}}, respond: {status: 204}},\n"
     "         {match: {query: {a: true}}, respond: {status: 204}},\n"
     "         {match: {query: {A: true}}, respond: {status: 204}}]\n"},

    {"unlimited-route", 1,
     "limits: {l: {key: client.ip, rate: 1/s}}\n"
     "routes: [{match: {path: /a}, upstream: u}, {limits: [l], upstream: u}]\n"},
    {"unlimited-route", 0,
     "limits: {l: {key: client.ip, rate: 1/s}}\ndefaults: {limits: [l]}\n"
     "routes: [{upstream: u}]\n"},
    {"unlimited-route", 0, "routes: [{upstream: u}]\n"},
    {"unlimited-route", 0,
     "limits: {l: {key: client.ip, rate: 1/s}}\n"
     "routes: [{match: {path: /a}, limits: [l], upstream: u}, {respond: {status: 404}}]\n"},

    {"never-binding", 1,
     "limits: {l: {key: client.ip, rate: [10/s, 1000000/day]}}\nroutes: [{limits: [l], upstream: "
     "u}]\n"},
    {"never-binding", 0,
     "limits: {l: {key: client.ip, rate: [10/s, 1000/day]}}\nroutes: [{limits: [l], upstream: "
     "u}]\n"},
    {"never-binding", 1, /* of two that are alike the later */
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* not on each of its routes */
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{match: {path: /a}, limits: [a, b], upstream: u}, {limits: [b], upstream: u}]\n"},
    {"never-binding", 1, /* the stricter one is elsewhere too */
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{match: {path: /a}, limits: [a, b], upstream: u}, {limits: [a], upstream: u}]\n"},
    {"never-binding", 0, /* refuses those without a key */
     "limits: {a: {key: header.x-a, rate: 1/s},\n"
     "         b: {key: header.x-a, rate: 2/s, missing: deny}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 1, /* as both do */
     "limits: {a: {key: header.x-a, rate: 1/s, missing: deny},\n"
     "         b: {key: header.x-a, rate: 2/s, missing: deny}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* some have another rate of b, which a does not go below */
     "limits: {a: {key: client.ip, rate: 9/s},\n"
     "         b: {key: client.ip, rate: 99/s, plans: {trial: 1/s}, plan: tenant}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* or none of a */
     "limits: {a: {key: client.ip, rate: 1/s, plans: {vip: none}, plan: tenant},\n"
     "         b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 1, /* who has no plan has both */
     "limits: {l: {key: client.ip, rate: [1/s, 99999/day],\n"
     "             plans: {trial: [1/s, 9/day]}, plan: tenant}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {"never-binding", 0, /* it bans for answers */
     "limits: {a: {key: client.ip, rate: 1/s},\n"
     "  b: {key: client.ip, rate: 2/s, charge_on: [400, 401], ban: {after: 9/hour, for: 1h}}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* another key */
     "limits: {a: {key: client.ip/48, rate: 1/s}, b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* not enforced */
     "limits: {a: {key: client.ip, rate: 1/s, shadow: true}, b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* gives back what b keeps */
     "limits: {a: {key: client.ip, rate: 1/s, refund_on: 5xx}, b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 1,
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip, rate: 2/s, charge_on: 401}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* some are judged by b alone */
     "limits: {a: {key: client.ip, rate: 1/s, except: {client: 192.0.2.1}},\n"
     "         b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* likewise */
     "limits: {a: {key: header.x-a, rate: 1/s, missing: skip}, b: {key: header.x-a, rate: 2/s},\n"
     "         c: {key: client.ip, rate: 1/m}}\n"
     "routes: [{limits: [a, b, c], upstream: u}]\n"},
    {"never-binding", 0, /* b counts what a denied */
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip, rate: 2/s, charge_denied: "
     "true}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* a is skipped while Redis is away */
     "store: {redis: redis://127.0.0.1}\n"
     "limits: {a: {key: client.ip, rate: 1/s, on_failure: allow}, b: {key: client.ip, rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* slots are one each */
     "limits: {a: {key: client.ip, algorithm: concurrency, rate: 1}, b: {key: client.ip, rate: "
     "2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"never-binding", 0, /* what is owed is forgiven by one of them */
     "limits: {a: {key: client.ip, algorithm: gcra, rate: 1/s, burst: 5},\n"
     "         b: {key: client.ip, rate: 2/s, burst: 6}}\n"
     "routes: [{limits: [a, b], cost: {from: response.header.x, estimate: 1}, upstream: u}]\n"},

    {"bucket-quota", 2, /* each rate of an hour or more */
     "limits: {a: {key: client.ip, rate: [90/s, 100/hour, 1000/day]}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"bucket-quota", 2,
     "limits: {a: {key: client.ip, algorithm: gcra, rate: {rate: 5/2h, burst: 5}},\n"
     "         b: {key: method, algorithm: leaky_bucket, rate: 5/day, burst: 9}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"bucket-quota", 0, /* smaller bursts, shorter periods, windows, one in all */
     "limits: {a: {key: client.ip, rate: [{rate: 100/hour, burst: 99}, 600/59m]},\n"
     "         b: {key: method, algorithm: sliding_window, rate: 5/day},\n"
     "         c: {key: host, rate: 1/day}}\n"
     "routes: [{limits: [a, b, c], upstream: u}]\n"},
    {"bucket-quota", 0, /* another rate admits no more */
     "limits: {a: {key: client.ip, rate: [1/minute, 1500/day]}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},

    {"client-chosen-key", 1,
     "limits: {l: {key: header.x-a | client.ip, rate: 1/s}}\nroutes: [{limits: [l], upstream: "
     "u}]\n"},
    {"client-chosen-key", 1, /* composed with an address it is as free */
     "limits: {l: {key: [client.ip, query.q], rate: 1/s}}\nroutes: [{limits: [l], upstream: u}]\n"},
    {"client-chosen-key", 1,
     "limits: {l: {key: [client.ip, path], rate: 1/s}}\n"
     "routes: [{match: {path: /a/**}, limits: [l], upstream: u}]\n"},
    {"client-chosen-key", 0,
     "limits: {l: {key: [client.ip, path, path.1, method, host], rate: 1/s}}\n"
     "routes: [{match: {path: /a, method: GET, host: a.test}, limits: [l], upstream: u}]\n"},
    {"client-chosen-key", 0,
     "limits: {l: {key: header.x-a, rate: 1/s}, m: {key: global, rate: 1/s}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
    {"client-chosen-key", 1, /* what is not enforced does not help */
     "limits: {l: {key: header.x-a, rate: 1/s}, m: {key: global, rate: 1/s, shadow: true}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},

    {"spoofable-address", 1,
     "limits: {l: {key: header.X-Client-IP, rate: 1/s}}\nroutes: [{limits: [l], upstream: u}]\n"},
    {"spoofable-address", 0,
     "trusted_proxies: 10.0.0.0/8\n"
     "limits: {l: {key: header.X-Client-IP, rate: 1/s}}\nroutes: [{limits: [l], upstream: u}]\n"},
    {"spoofable-address", 1,
     "trusted_proxies: 10.0.0.0/8\n"
     "limits: {l: {key: header.Forwarded | client.ip, rate: 1/s}}\nroutes: [{limits: [l], "
     "upstream: u}]\n"},

    {"narrow-prefix", 1,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 1,
     "listen: [127.0.0.1:0, '[2001:db8::1]:0']\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 1,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip/128, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 1, /* what clients choose bounds nobody */
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: [header.x-a, client.ip/48], rate: 2/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"narrow-prefix", 1,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip/48, rate: 9/s, shadow: true}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"narrow-prefix", 1, /* slots do not bound how much is asked */
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip/48, algorithm: concurrency, "
     "rate: 9}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"narrow-prefix", 1, /* many networks of one customer take all slots */
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {m: {key: client.ip, algorithm: concurrency, rate: 4}, n: {key: client.ip/48, rate: "
     "99/s}, s: {key: global, algorithm: concurrency, rate: 20}}\n"
     "routes: [{limits: [m, n, s], upstream: u}]\n"},
    {"narrow-prefix", 1, /* nor does what counts some answers alone */
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: global, rate: 9/s, charge_on: 401}}\n"
     "routes: [{limits: [b, a], upstream: u}]\n"},
    {"narrow-prefix", 1, /* once for a limit */
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{match: {path: /a}, limits: [a], upstream: u}, {limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 2,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: [client.ip, route], rate: 1/s}}\n"
     "routes: [{match: {path: /a}, limits: [a, b], upstream: u}, {limits: [b, a], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: client.ip/48, rate: 9/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}, b: {key: global, rate: 9/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"narrow-prefix", 0, /* client-chosen-key */
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: header.x-a | client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], respond: {status: 204}}]\n"},
    {"narrow-prefix", 0,
     "listen: \"[::]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{match: {client: '2001:db8::/48'}, limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: 0.0.0.0:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: \"[::1]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: \"[fd00::1]:0\"\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 0,
     "listen: {address: '[::]:0', proxy_protocol: true}\ntrusted_proxies: '2001:db8::/32'\n"
     "upstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"narrow-prefix", 1, /* the short form */
     "listen: \"[::]:0\"\nupstream: http://127.0.0.1:1\nlimit: 1/s\n"},

    {"trusts-all", 2,
     "trusted_proxies: [0.0.0.0/0, 10.0.0.0/8, \"::/0\", unix]\nroutes: [{upstream: u}]\n"},
    {"trusts-all", 1, "trusted_proxies: 64:ff9b::/96\nroutes: [{upstream: u}]\n"},

    {"missing-proxies", 1, "listen: 0.0.0.0:0\nupstream: http://127.0.0.1:1\nlimit: 1/s\n"},
    {"missing-proxies", 1, /* one of several; once for all limits */
     "listen: [127.0.0.1:0, '[2001:db8::1]:0', '0.0.0.0:0']\n"
     "upstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: [header.x-a | client.ip], rate: 1/s}, b: {key: client.ip, rate: 9/s}}\n"
     "routes: [{limits: [a, b], upstream: u}]\n"},
    {"missing-proxies", 0, /* said */
     "listen: 0.0.0.0:0\ntrusted_proxies: []\nupstream: http://127.0.0.1:1\nlimit: 1/s\n"},
    {"missing-proxies", 0, /* private, link-local and unix */
     "listen: [10.1.2.3:0, '[fd00::1]:0', 169.254.1.1:0, 'unix:/run/a.sock']\n"
     "upstream: http://127.0.0.1:1\nlimit: 1/s\n"},
    {"missing-proxies", 0, /* no address counts */
     "listen: 0.0.0.0:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "limits: {a: {key: global, rate: 1/s}}\nroutes: [{limits: [a], upstream: u}]\n"},

    {"default-body", 1, "listen: 0.0.0.0:0\nupstream: http://127.0.0.1:1\nlimit: 1/s\n"},
    {"default-body", 1, /* the first of two */
     "listen: 0.0.0.0:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "routes: [{match: {method: [GET, PUT]}, upstream: u}, {upstream: u}]\n"},
    {"default-body", 0,
     "listen: 0.0.0.0:0\nmax: {body: 1GiB}\nupstream: http://127.0.0.1:1\nlimit: 1/s\n"},
    {"default-body", 0, "listen: 10.0.0.1:0\nupstream: http://127.0.0.1:1\nlimit: 1/s\n"},
    {"default-body", 0, /* no bodies, known clients, its own bound, no server */
     "listen: 0.0.0.0:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
     "routes: [{match: {method: [GET, DELETE]}, upstream: u},\n"
     "         {match: {client: 10.0.0.0/8}, upstream: u},\n"
     "         {match: {path: /a}, max_body: 1MiB, upstream: u}, {respond: {status: 404}}]\n"},

    {"fails-open", 1,
     "store: {redis: redis://127.0.0.1}\n"
     "limits: {l: {key: client.ip, rate: 1/s, charge_on: 4xx, on_failure: allow}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {"fails-open", 0,
     "store: {redis: redis://127.0.0.1, on_failure: allow}\n"
     "limits: {l: {key: client.ip, rate: 1/s, charge_on: 401, on_failure: deny},\n"
     "         m: {key: client.ip, rate: 1/m}}\n"
     "routes: [{limits: [l, m], upstream: u}]\n"},
#define ALLOWING(limit)                                                                            \
    "store: {redis: redis://127.0.0.1, on_failure: allow}\n"                                       \
    "limits: {l: {key: client.ip, rate: 20/10m, " limit                                            \
    "}}\nroutes: [{limits: [l], upstream: u}]\n"
    {"fails-open", 1, ALLOWING("algorithm: sliding_window, refund_on: [200]")},
    {"fails-open", 1, ALLOWING("refund_on: [2xx, 3xx, 401]")}, /* 403 */
    {"fails-open", 0, ALLOWING("refund_on: [200], shadow: true")},
    {"fails-open", 0, ALLOWING("refund_on: [200, 4xx]")},
    {"fails-open", 0, ALLOWING("refund_on: [302]")}, /* it may be no login */
    {"fails-open", 0, ALLOWING("charge_on: 5xx")},
    {"fails-open", 1, ALLOWING("ban: {after: 20/10m}")},
    {"fails-open", 1, ALLOWING("refund_on: [200], ban: {after: 20/10m}")}, /* once */
    {"fails-open", 0, ALLOWING("ban: {after: 20/10m, shadow: true}")},
    {"fails-open", 0, ALLOWING("ban: {after: 20/10m}, shadow: true")},
    {"fails-open", 0, ALLOWING("ban: {after: 20/10m}, on_failure: local")},
#undef ALLOWING

    {"client-chosen-route", 1,
     "limits: {l: {key: client.ip, rate: 1/s}}\n"
     "routes: [{match: {path: /a, grpc: true}, upstream: u},\n"
     "         {match: {path: /a}, limits: [l], upstream: u}]\n"},
    {"client-chosen-route", 0,
     "limits: {l: {key: client.ip, rate: 1/s}}\n"
     "routes: [{match: {path: /a, grpc: true}, limits: [l], upstream: u},\n"
     "         {match: {path: /a}, limits: [l], upstream: u}]\n"},

    {"plain-secret", 3,
     "store: {redis: \"redis+sentinel://:a@127.0.0.1/m\", sentinel_password: b, secret: c}\n"
     "routes: [{upstream: u}]\n"},
    {"plain-secret", 0,
     "store: {redis: \"redis://:${A}@127.0.0.1\", password: \"${B:-b}\", secret: \"${C:-}\"}\n"
     "routes: [{match: {header: {authorization: true, x-a: b}},\n"
     "          request: {set: {Authorization: \"Bearer ${D}\", X-B: c}}, upstream: u}]\n"},
    {"plain-secret", 2,
     "routes: [{match: {header: {x-api-key: a}}, request: {set: {COOKIE: b=c}}, upstream: u}]\n"},

    {"plain-secret", 0, /* takes one away */
     "routes: [{request: {set: {Authorization: \"\"}}, upstream: u}]\n"},

    {"no-effect", 1,
     "upstreams: {v: {servers: http://127.0.0.1:2, slow_start: 5s}}\n"
     "routes: [{upstream: v}]\n"},
    {"no-effect", 0, /* what is off has none anyway */
     "upstreams: {v: {servers: http://127.0.0.1:2, eject: {failures: 3}, slow_start: 0s}}\n"
     "routes: [{upstream: v}]\n"},

    {"empty-secret", 1,
     "store: {redis: \"redis://127.0.0.1\"}\nlimits: {a: {key: [client.ip, cookie.s], rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"empty-secret", 0,
     "store: {redis: \"redis://127.0.0.1\", secret: \"${S}\"}\n"
     "limits: {a: {key: header.x, rate: 1/s}}\nroutes: [{limits: [a], upstream: u}]\n"},
    {"empty-secret", 0, /* paths stand there as they are */
     "store: {redis: \"redis://127.0.0.1\"}\nlimits: {a: {key: [client.ip, path], rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"empty-secret", 0,
     "limits: {a: {key: header.x, rate: 1/s}}\nroutes: [{limits: [a], upstream: u}]\n"},
    {"lone-fingerprint", 1,
     "limits: {a: {key: client.ja4 | client.ip, rate: 1/s}}\nroutes: [{limits: [a], upstream: "
     "u}]\n"},
    {"lone-fingerprint", 0,
     "limits: {a: {key: [client.ja4, client.ip], rate: 1/s}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 1,
     "limits: {a: {key: 'query.user', rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 1,
     "limits: {a: {key: 'header.x-user | client.ip', rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 1,
     "limits: {a: {key: [path, query.user], rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 0,
     "limits: {a: {key: [query.user, client.ip], rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 0,
     "limits: {a: {key: 'header.authorization', rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 0,
     "limits: {a: {key: 'cookie.sid', rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 0,
     "limits: {a: {key: 'client.ip', rate: 1/s, ban: {after: 9/1h}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"named-victim", 0, /* it bans nobody */
     "limits: {a: {key: query.user, rate: 1/s, ban: {after: 9/1h, shadow: true}}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"unreachable-plan", 1,
     "limits: {a: {key: client.ip, rate: 1/s, plans: {b: 2/s}, plan: header.x-plan}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"unreachable-plan", 1, /* by the header; the table may name one */
     "limits: {a: {key: client.ip, rate: 1/s, plans: {b: 2/s}, plan: tenant | header.x-plan}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"unreachable-plan", 0,
     "limits: {a: {key: client.ip, rate: 1/s, plans: {b: 2/s}, plan: tenant}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"unreachable-plan", 0,
     "trusted_proxies: [10.0.0.1]\n"
     "limits: {a: {key: client.ip, rate: 1/s, plans: {b: 2/s}, plan: header.x-plan}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"unreachable-plan", 0, /* the issuer names it */
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
     "limits: {a: {key: client.ip, rate: 1/s, plans: {b: 2/s}, plan: jwt.plan}}\n"
     "routes: [{limits: [a], upstream: u}]\n"},
    {"any-issuer", 1,
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256}}\n"
     "routes: [{jwt: a, upstream: u}]\n"},
    {"any-issuer", 0,
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
     "routes: [{jwt: a, upstream: u}]\n"},
    {"no-effect", 1, /* no route reads a token */
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
     "routes: [{upstream: u}]\n"},
    {"plain-secret", 1,
     "jwt: {a: {secret: 0123456789abcdef0123456789abcdef, issuer: me}}\n"
     "routes: [{jwt: a, upstream: u}]\n"},
    {"client-chosen-key", 0, /* the issuer chooses it */
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
     "limits: {l: {key: jwt.sub, rate: 1/s}}\nroutes: [{limits: [l], upstream: u}]\n"},
    {"client-chosen-key", 1, /* a client that sends no token is not limited */
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
     "limits: {l: {key: jwt.sub, rate: 1/s, missing: skip}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {"unreachable-route", 0, /* the first takes only some */
     "jwt: {a: {keys: \"https://id/jwks\", algorithms: ES256, issuer: me}}\n"
     "routes: [{match: {jwt: {role: admin}}, upstream: u}, {upstream: u}]\n"},
    {"passed-on-cost", 1,
     "trusted_proxies: 10.0.0.0/8\nlimits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], cost: header.Content-Length, upstream: u}]\n"},
    {"passed-on-cost", 0,
     "trusted_proxies: 10.0.0.0/8\nlimits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], cost: header.x-cost, upstream: u}]\n"},
    {"passed-on-cost", 0, /* said */
     "trusted_proxies: 10.0.0.0/8\nlimits: {a: {key: client.ip, rate: 1/s}}\n"
     "routes: [{limits: [a], cost: {from: header.range, trust: any}, upstream: u}]\n"},
    {"cheap-default", 1,
     "limits: {a: {key: client.ip, rate: 9/s}}\n"
     "routes: [{limits: [a], cost: {POST: 5, GET: 2, default: 4}, upstream: u}]\n"},
    {"cheap-default", 1, /* the handler of GET runs */
     "limits: {a: {key: client.ip, rate: 9/s}}\n"
     "routes: [{limits: [a], cost: {GET: 5, HEAD: 1}, upstream: u}]\n"},
    {"cheap-default", 0,
     "limits: {a: {key: client.ip, rate: 9/s}}\n"
     "routes: [{limits: [a], cost: {GET: 5, HEAD: 5}, upstream: u}]\n"},
    {"cheap-default", 0, /* left out it is the highest */
     "limits: {a: {key: client.ip, rate: 9/s}}\n"
     "routes: [{limits: [a], cost: {POST: 5, GET: 2}, upstream: u},\n"
     "         {limits: [a], cost: {POST: 5, GET: 2, default: 5}, upstream: u}]\n"},
    {"cheap-default", 0, /* no server runs a handler */
     "limits: {a: {key: client.ip, rate: 9/s}}\n"
     "routes: [{limits: [a], cost: {POST: 5, default: 1}, respond: {status: 204}}]\n"},
    {"unseen-shadow", 0,
     "limits: {l: {key: client.ip, rate: 1/s, shadow: true}}\nroutes: [{limits: [l], upstream: "
     "u}]\n"},
};

/* What @yaml does not say itself. */
static const char *head_of(const char *yaml)
{
    if (strncmp(yaml, "listen", 6) == 0) {
        return "";
    }
    return strncmp(yaml, "upstreams", 9) == 0 ? LISTEN : HEAD;
}

START_TEST(each_kind_is_told_where_it_is_and_nowhere_else)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    (void)snprintf(yaml, sizeof(yaml), "%s%s", head_of(POLICIES[_i].yaml), POLICIES[_i].yaml);
    policy_free(check(yaml, &diags));
    ck_assert_msg(count(&diags, POLICIES[_i].kind) == POLICIES[_i].n_reported, "%s: %s",
                  POLICIES[_i].kind, POLICIES[_i].yaml);
    diags_close(&diags);
}
END_TEST

START_TEST(loading_alone_does_not_lint)
{
    struct policy *policy;
    struct diags diags;
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(SPAN(HEAD "trusted_proxies: 0.0.0.0/0\n"
                                                "routes: [{upstream: u}]\n"),
                                      NULL, &policy, &diags),
                     STATUS_OK);
    ck_assert_uint_eq(diags.n_items, 0);
    diags_close(&diags);
    policy_free(policy);
}
END_TEST

/* --- many routes that are nearly alike --- */

#define STARS_10 "/*/*/*/*/*/*/*/*/*/*"
#define STARS_60 STARS_10 STARS_10 STARS_10 STARS_10 STARS_10 STARS_10

static const struct {
    size_t n_routes;
    const char *match; /* %zu is the number of the route */
    size_t n_warnings;
    const char *first; /* NULL: none is looked for */
} IDENTICAL[] = {
    {20000, "path: \"" STARS_60 "\"", 100, NULL},
    {20000, "path: \"" STARS_60 "/%zu\"", 0, NULL},
    {20000, "host: h%zu.test", 0, NULL},
    {10000, "header: {x: v%zu}", 1,
     "from route \"route-6325\" on it is not known whether routes can match: too many have nearly "
     "the same host and path to compare them all"},
};

START_TEST(many_routes_are_compared_in_bounded_steps)
{
    char *yaml = NULL;
    size_t len = 0;
    struct diags diags;
    FILE *file = open_memstream(&yaml, &len);
    ck_assert_ptr_nonnull(file);
    fputs(LISTEN "routes:\n", file);
    for (size_t i = 0; i < IDENTICAL[_i].n_routes; i++) {
        const char *match = IDENTICAL[_i].match;
        const char *number = strstr(match, "%zu");
        const int n_before = number != NULL ? (int)(number - match) : (int)strlen(match);
        fprintf(file, "- {respond: {status: 204}, match: {%.*s", n_before, match);
        if (number != NULL) {
            fprintf(file, "%zu%s", i, number + 3);
        }
        fputs("}}\n", file);
    }
    fclose(file);
    policy_free(check(yaml, &diags));
    ck_assert_uint_eq(diags.n_items, IDENTICAL[_i].n_warnings);
    if (IDENTICAL[_i].first != NULL) {
        ck_assert_str_eq(diags.items[0].text, IDENTICAL[_i].first);
    }
    diags_close(&diags);
    free(yaml);
}
END_TEST

/* --- a route that is told to be unreachable is --- */

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(seed >> 33) % n;
}

#define PICK(array) (array)[below(ARRAY_LEN(array))]

static const char *const SEGMENTS[] = {"a", "b", "A", "*", "{x}", "a*", "a*b", "*b"};
static const char *const METHODS[] = {"GET", "PUT", "OPTIONS"};
static const char *const HOSTS[] = {"a.test", "*.test", "*.a.test", "x.a.test"};
static const char *const CLIENTS[] = {"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0"};
static const char *const WANTED[] = {"true", "false", "\"1\"", "[\"1\", \"2\"]"};

static void write_path(struct text *yaml)
{
    bool has_name = false;
    text_add_literal(yaml, "\"");
    for (uint32_t n = below(3); n > 0; n--) {
        const char *segment = PICK(SEGMENTS);
        const bool is_name = segment[0] == '{';
        text_add_format(yaml, "/%s", is_name && has_name ? "*" : segment);
        has_name = has_name || is_name;
    }
    text_add(yaml, below(2) == 0 ? SPAN("/**\"") : SPAN("/\""));
}

static void write_route(struct text *yaml)
{
    text_add_literal(yaml, "  - {respond: {status: 204}, match: {ignore_case: ");
    text_add(yaml, below(3) == 0 ? SPAN("true") : SPAN("false"));
    if (below(8) != 0) {
        text_add_literal(yaml, ", path: [");
        write_path(yaml);
        if (below(3) == 0) {
            text_add_literal(yaml, ", ");
            write_path(yaml);
        }
        text_add_literal(yaml, "]");
    }
    if (below(3) == 0) {
        text_add_format(yaml, ", method: [%s, %s]", PICK(METHODS), PICK(METHODS));
    }
    if (below(3) == 0) {
        text_add_format(yaml, ", host: [\"%s\", \"%s\"]", PICK(HOSTS), PICK(HOSTS));
    }
    if (below(3) == 0) {
        text_add_format(yaml, ", client: [%s, %s]", PICK(CLIENTS), PICK(CLIENTS));
    }
    if (below(3) == 0) {
        text_add_format(yaml, ", header: {x-a: %s}", PICK(WANTED));
    }
    if (below(3) == 0) {
        text_add_format(yaml, ", query: {q: %s}", PICK(WANTED));
    }
    text_add_literal(yaml, "}}\n");
}

/* The routes of @diags, by index. */
static unsigned read_unreachable(const struct diags *diags)
{
    unsigned unreachable = 0;
    for (size_t i = 0; i < diags->n_items; i++) {
        unsigned number;
        if (sscanf(diags->items[i].text, "route \"route-%u\" can never", &number) == 1) {
            unreachable |= 1U << (number - 1);
        }
    }
    return unreachable;
}

/* All requests that make a difference to such routes: those that have a route, by index. */
static unsigned find_reached(const struct policy *policy)
{
    static const char *const PATHS[] = {
        "/",     "/a",     "/b", "/A",  "/c",  "/a/",  "/c/", "/a/a", "/a/b",  "/b/A",  "/c/c",
        "/a/b/", "/a/b/c", "*",  "/ab", "/aB", "/acb", "/Ac", "/cb",  "/a/ab", "/a/Ab", "/ab/"};
    static const char *const HOSTS_OF[] = {"a.test", "b.test", "x.a.test", "y.a.test", "a.example"};
    static const char *const CLIENTS_OF[] = {"10.1.2.3", "10.1.2.4", "10.2.0.1", "192.0.2.1",
                                             "2001:db8::1"};
    /* Of the field, and the query. */
    static const struct {
        const char *field;
        struct span query;
    } VALUES[] = {
        {NULL, {"", 0}}, {"1", {"", 0}}, {"2", {"q=1", 3}}, {NULL, {"q=2", 3}}, {"1", {"q=3", 3}}};
    enum { N = ARRAY_LEN(PATHS) };
    unsigned reached = 0;
    for (size_t i = 0; i < N * 3 * 5 * 5 * ARRAY_LEN(VALUES); i++) {
        struct request request;
        const struct route *route;
        const char *method = METHODS[i / N % 3];
        const size_t value = i / (N * 75);
        if (strcmp(PATHS[i % N], "*") == 0 && strcmp(method, "OPTIONS") != 0) {
            continue;
        }
        request_init(&request, method, PATHS[i % N], HOSTS_OF[i / (N * 3) % 5]);
        request_set_client(&request, span_of_text(CLIENTS_OF[i / (N * 15) % 5]));
        request.head.target.query = VALUES[value].query;
        if (VALUES[value].field != NULL) {
            request_add_field(&request, SPAN("x-a"), span_of_text(VALUES[value].field));
        }
        if (matcher_find_route(policy, &request.view, &route) == NULL && route != NULL) {
            reached |= 1U << route->index;
        }
    }
    return reached;
}

START_TEST(no_request_reaches_a_route_that_is_told_to_be_unreachable)
{
    unsigned n_reported = 0;
    seed = 7;
    for (int i = 0; i < N_POLICIES; i++) {
        char buffer[YAML_BYTES_MAX];
        struct text yaml = text_of(buffer, sizeof(buffer) - 1);
        struct diags diags;
        text_add_literal(&yaml, "listen: 127.0.0.1:0\nroutes:\n");
        for (uint32_t n = 2 + below(ROUTES_MAX - 1); n > 0; n--) {
            write_route(&yaml);
        }
        buffer[yaml.len] = '\0';
        struct policy *policy = check(buffer, &diags);
        const unsigned unreachable = read_unreachable(&diags);
        ck_assert_msg((unreachable & find_reached(policy)) == 0, "%s", buffer);
        n_reported += unreachable != 0;
        diags_close(&diags);
        policy_free(policy);
    }
    ck_assert_uint_gt(n_reported, N_POLICIES / 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint");
    TCase *tcase = tcase_create("lint_policy");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, each_kind_is_told_where_it_is_and_nowhere_else, 0,
                        ARRAY_LEN(POLICIES));
    tcase_add_test(tcase, loading_alone_does_not_lint);
    tcase_add_loop_test(tcase, many_routes_are_compared_in_bounded_steps, 0,
                        (int)ARRAY_LEN(IDENTICAL));
    tcase_add_test(tcase, no_request_reaches_a_route_that_is_told_to_be_unreachable);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
