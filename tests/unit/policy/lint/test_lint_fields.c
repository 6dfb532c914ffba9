#include "policy/lint/lint.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 4096 };

#define HEAD                                                                                       \
    "listen: 127.0.0.1:0\n"                                                                        \
    "upstreams: {u: {servers: http://127.0.0.1:1}, v: {servers: http://127.0.0.1:2}}\n"
#define PROXIES "trusted_proxies: 10.0.0.0/8\n"
#define LIMITS "limits: {l: {key: client.ip, rate: 9/s}, m: {key: client.ip, rate: 9/m}}\n"
#define REST_M "  - {limits: [m], upstream: u}\n"

static const struct {
    unsigned n_warnings;
    const char *kind;
    const char *yaml; /* behind HEAD, unless it says itself where to listen */
} POLICIES[] = {
    {1, "replaced-field",
     "limits: {l: {key: [client.ip, method | header.X-Forwarded-Host], rate: 1/s}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {4, "replaced-field",
     "routes:\n  - {match: {header: {X-Forwarded-Proto: http, x-request-id: true, forwarded: "
     "true, x-forwarded-port: \"80\"}}, upstream: u}\n"},
    {1, "replaced-field", /* it is no client's address then */
     "limits: {l: {key: header.x-forwarded-for, rate: 1/s}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {0, "spoofable-address",
     "limits: {l: {key: [header.x-forwarded-for, header.forwarded], rate: 1/s}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {1, "replaced-field",
     "limits: {l: {key: [geohash(header.x-lat header.x-forwarded-lon 6)], rate: 1/s}}\n"
     "routes: [{limits: [l], upstream: u}]\n"},
    {1, "replaced-field", /* a route that answers by itself */
     "routes: [{match: {host: a, header: {X-Forwarded-Proto: http}}, respond: {redirect: "
     "https}}]\n"},
    {1, "replaced-field",
     LIMITS "routes: [{cost: {from: header.x-forwarded-cost, max: 9, trust: "
            "any}, limits: [l], upstream: u}]\n"},
    {0, "replaced-field", /* untrusted-cost */
     LIMITS "routes: [{cost: {from: header.x-forwarded-cost, max: 9}, limits: [l], upstream: "
            "u}]\n"},
    {1, "replaced-field",
     "listen: 127.0.0.1:0\nroutes: [{upstream: w}]\n"
     "upstreams: {w: {servers: [http://127.0.0.1:1, http://127.0.0.1:2], "
     "balance: hash(client.ip | header.x-forwarded-user)}}\n"},
    {1, "replaced-field",
     "jwt: {a: {secret: 01234567890123456789012345678901, issuer: me, "
     "from: [header.x-forwarded-access-token]}}\n" LIMITS
     "routes: [{jwt: a, limits: [l], upstream: u}]\n"},
    {0, "replaced-field", /* a proxy sends it, and the server gets it */
     PROXIES "limits: {l: {key: header.X-Forwarded-Host, rate: 1/s}}\n"
             "routes: [{match: {header: {x-request-id: a}}, limits: [l], upstream: u}]\n"},
    {0, "replaced-field",
     "routes: [{match: {header: {x-forwarded: a, x-real: b}}, upstream: u}]\n"},

    {1, "client-chosen-route",
     LIMITS "routes:\n  - {match: {path: /in*/**, header: {content-type: application/json}}, "
            "limits: [l, m], upstream: u}\n" REST_M},
    {1, "client-chosen-route", /* whatever a proxy sets */
     PROXIES LIMITS "routes:\n  - {match: {header: {Accept: true, x-in: a}}, limits: [l, m], "
                    "upstream: u}\n" REST_M},
    {0, "client-chosen-route", /* no client can send it */
     LIMITS "routes:\n  - {match: {header: {X-Forwarded-Port: \"1\"}}, limits: [m], upstream: u}\n"
            "  - {limits: [l, m], upstream: u}\n"},
    {0, "client-chosen-route",
     LIMITS "routes:\n  - {match: {header: {X-Forwarded-Port: false}}, limits: [l, m], upstream: "
            "u}\n" REST_M},
    {1, "client-chosen-route", /* the same limits at a higher cost */
     LIMITS "routes:\n  - {match: {header: {user-agent: a}}, cost: 2, limits: [m], upstream: "
            "u}\n" REST_M},
    {0, "client-chosen-route", /* the same limits */
     LIMITS "routes:\n  - {match: {header: {content-type: a}}, limits: [m], upstream: u}\n" REST_M},
    {0, "client-chosen-route", /* others */
     PROXIES LIMITS "routes:\n  - {match: {header: {content-type: a}}, limits: [l], upstream: "
                    "u}\n" REST_M},
    {0, "client-chosen-route", /* a field that servers read */
     LIMITS "routes:\n  - {match: {header: {x-in: a}}, limits: [l, m], upstream: u}\n" REST_M},
    {0, "client-chosen-route", /* another server, or none */
     LIMITS "routes:\n  - {match: {header: {accept: a}}, limits: [l, m], upstream: v}\n" REST_M},
    {0, "client-chosen-route",
     LIMITS "routes:\n  - {match: {path: /a, header: {accept: a}}, limits: [l, m], upstream: u}\n"
            "  - {match: {path: /a}, respond: {status: 415}}\n" REST_M},
    {0, "client-chosen-route", /* another path or method */
     LIMITS "routes:\n  - {match: {header: {accept: a}}, limits: [l, m], upstream: u}\n"
            "  - {match: {path: /b}, limits: [l, m], upstream: u}\n"
            "  - {match: {method: GET}, limits: [l, m], upstream: u}\n"},
    {1, "client-chosen-route", /* by one of its methods */
     LIMITS "routes:\n  - {match: {method: [GET, POST], header: {accept: a}}, limits: [l, m], "
            "upstream: u}\n  - {match: {method: POST}, limits: [m], upstream: u}\n"},
    {1, "client-chosen-route", /* by one of its methods at one of its hosts and paths */
     LIMITS "routes:\n  - {match: {host: [a, b], path: [/a, /b], method: [GET, POST], header: "
            "{accept: a}}, limits: [l, m], upstream: u}\n"
            "  - {match: {host: a}, limits: [l, m], upstream: u}\n"
            "  - {match: {host: b, path: /b, method: POST}, limits: [m], upstream: u}\n"},
    {0, "client-chosen-route", /* the route before it takes that method */
     LIMITS "routes:\n  - {match: {method: POST}, limits: [l, m], upstream: u}\n"
            "  - {match: {method: [GET, POST], header: {accept: a}}, limits: [l, m], upstream: "
            "u}\n  - {match: {method: POST}, limits: [m], upstream: u}\n"},
    {1, "client-chosen-route", /* of another way to write the same path */
     LIMITS "routes:\n  - {match: {path: /in*/**, ignore_case: true, header: {content-type: a}}, "
            "limits: [l, m], upstream: u}\n"
            "  - {match: {path: /in/**}, limits: [m], upstream: u}\n"},
    {1, "client-chosen-route", /* at one host */
     LIMITS "routes:\n  - {match: {path: /in*/**, ignore_case: true, header: {user-agent: a}}, "
            "limits: [l, m], upstream: u}\n"
            "  - {match: {path: /in, host: \"*.a\"}, limits: [m], upstream: u}\n"},
    {1, "client-chosen-route", /* of one path, with the field that both ask for */
     LIMITS "routes:\n  - {match: {header: {accept: a, x-in: b}}, limits: [l, m], upstream: u}\n"
            "  - {match: {path: \"/in/{id}\", header: {x-in: b}}, limits: [m], upstream: u}\n"},
    {0, "client-chosen-route", /* with a field that it does not ask for */
     PROXIES LIMITS "routes:\n  - {match: {header: {accept: a}}, limits: [l, m], upstream: u}\n"
                    "  - {match: {header: {x-in: b}}, limits: [m], upstream: u}\n"},
    {0, "client-chosen-route", /* another server at one host */
     LIMITS "routes:\n  - {match: {header: {accept: a}}, limits: [l, m], upstream: u}\n"
            "  - {match: {host: a}, limits: [m], upstream: v}\n"},
    {0, "client-chosen-route", /* a preflight has no such field */
     LIMITS "routes:\n  - {match: {method: [POST, OPTIONS], header: {content-type: a}}, limits: "
            "[l, m], upstream: u}\n"
            "  - {match: {method: OPTIONS}, limits: [m], upstream: u}\n"},
};

START_TEST(a_field_that_servers_get_otherwise_or_hardly_read_is_told)
{
    char yaml[YAML_BYTES_MAX];
    const bool is_whole = strncmp(POLICIES[_i].yaml, "listen:", strlen("listen:")) == 0;
    (void)snprintf(yaml, sizeof(yaml), "%s%s", is_whole ? "" : HEAD, POLICIES[_i].yaml);
    const unsigned n = policy_count_warnings(yaml, POLICIES[_i].kind, NULL);
    ck_assert_msg(n == POLICIES[_i].n_warnings, "%u: %s", n, yaml);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_fields");
    TCase *tcase = tcase_create("lint_fields");
    tcase_add_loop_test(tcase, a_field_that_servers_get_otherwise_or_hardly_read_is_told, 0,
                        (int)ARRAY_LEN(POLICIES));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
