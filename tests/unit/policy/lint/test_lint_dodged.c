#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lint/lint.h"
#include "policy/loader.h"
#include "unit/policy/policy_support.h"

enum { YAML_BYTES_MAX = 8192 };

#define HEAD "listen: 127.0.0.1:0\nupstreams: {u: {servers: http://127.0.0.1:1}}\n"
#define LIMITS "limits: {l: {key: client.ip, rate: 9/s}, m: {key: client.ip, rate: 9/m}}\n"
#define LIMITS_L_S                                                                                 \
    "limits: {l: {key: client.ip, rate: 9/s},\n"                                                   \
    "         s: {key: client.ip, rate: 9/m, shadow: true}}\n"

static const char *look_up(const char *name)
{
    (void)name;
    return "/secret";
}

/* Check @yaml, and leave what is told of it in @diags. */
static void check(const char *yaml, struct diags *diags)
{
    struct policy *policy = NULL;
    diags_init(diags, "policy.yaml");
    const enum status status = loader_check_text(span_of_text(yaml), look_up, &policy, diags);
    if (status != STATUS_OK) {
        diags_print(diags, stderr);
    }
    ck_assert_msg(status == STATUS_OK, "%s", yaml);
    policy_free(policy);
}

/* The only warning of @kind in @diags; NULL: there is none. */
static const char *find_kind(const struct diags *diags, const char *kind, unsigned *n)
{
    const char *text = NULL;
    *n = 0;
    for (size_t i = 0; i < diags->n_items; i++) {
        if (strcmp(diags->items[i].name, kind) == 0) {
            text = diags->items[i].text;
            ++*n;
        }
    }
    return text;
}

#define PLAIN "listen: 127.0.0.1:0\n"
#define SECURE "listen: {address: 127.0.0.1:0, tls: {cert: c.pem, key: k.pem}}\n"
#define BOTH "listen: [127.0.0.1:0, {address: 127.0.0.1:0, tls: {cert: c.pem, key: k.pem}}]\n"
#define BOTH_ASKING                                                                                \
    "listen: [127.0.0.1:0, {address: 127.0.0.1:0, tls: {certificates: [{cert: c.pem, key: "        \
    "k.pem, client: optional, client_ca: c.pem}]}}]\n"
#define UPSTREAM_U "upstreams: {u: {servers: \"http://127.0.0.1:1\"}}\n"

static const char *find_text(const struct diags *diags, unsigned *n)
{
    return find_kind(diags, "dodged-route", n);
}

/* --- which routes --- */

static const struct {
    unsigned n_warnings;
    const char *yaml;
} POLICIES[] = {
    {1,
     /* a slash at the end */ LIMITS "routes: [{match: {path: /1*}, limits: [l, m], upstream: u},\n"
                                     "         {limits: [m], upstream: u}]\n"},
    {0, LIMITS "routes: [{match: {path: /1*/**}, limits: [l, m], upstream: u},\n"
               "         {limits: [m], upstream: u}]\n"},
    {1, /* no slash at the end */ LIMITS
     "routes: [{match: {path: /1/}, limits: [l, m], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {1, /* a suffix */ LIMITS "routes: [{match: {path: /1/**}, limits: [l, m], upstream: u},\n"
                              "         {limits: [m], upstream: u}]\n"},
    {1, /* letters */ LIMITS "routes: [{match: {path: /a*/**}, limits: [l, m], upstream: u},\n"
                             "         {limits: [m], upstream: u}]\n"},
    {0, LIMITS "routes: [{match: {path: /a*/**, ignore_case: true}, limits: [l, m], upstream: u},\n"
               "         {limits: [m], upstream: u}]\n"},
    {1, /* letters of one segment, where the whole path leads nowhere */ LIMITS
     "routes: [{match: {path: /a/b*/**}, limits: [l, m], upstream: u},\n"
     "         {match: {path: /a/**}, limits: [m], upstream: u}]\n"},
    {0, LIMITS "routes: [{match: {path: /a/b*/**}, limits: [l, m], upstream: u},\n"
               "         {match: {path: /a/b/**}, limits: [m], upstream: u}]\n"},
    {1, /* letters before a star */ LIMITS
     "routes: [{match: {path: \"/1/{x}/b-*/**\"}, limits: [l, m], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {0, /* no letters but those of a name */ LIMITS
     "routes: [{match: {path: \"/1/{x}/**\", ignore_case: true}, limits: [l, m], upstream: u},\n"
     "         {match: {path: \"/1/*/**\"}, limits: [m], upstream: u}]\n"},
    {0, /* GET takes HEAD */ LIMITS
     "routes: [{match: {path: /1*/**, method: GET}, limits: [l, m], upstream: u},\n"
     "         {match: {method: [POST, PUT, HEAD]}, limits: [m], upstream: u}]\n"},
    {1, /* POST for GET */ LIMITS
     "routes: [{match: {path: /1*/**, method: [GET, HEAD]}, limits: [l, m], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {1, /* PATCH for POST and PUT */ LIMITS
     "routes: [{match: {path: /1*/**, method: [POST, PUT]}, limits: [l, m], upstream: u},\n"
     "         {match: {path: /1, method: DELETE}, limits: [m], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {1, /* all that write, and not what nobody knows */ LIMITS
     "routes: [{match: {path: /1*/**, method: [POST, PUT, PATCH, DELETE]}, limits: [l, m], "
     "upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {0, /* named, with the same limits, or answered by sluice */ LIMITS
     "routes: [{match: {path: /1*/**, method: POST}, limits: [l, m], upstream: u},\n"
     "         {match: {path: /1, method: PUT}, limits: [m], upstream: u},\n"
     "         {match: {path: /1*/**}, limits: [m, l], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {1, /* HEAD for GET */ LIMITS
     "routes: [{match: {path: /1*/**, method: GET}, limits: [l, m], upstream: u},\n"
     "         {match: {path: /1*/**, method: HEAD}, limits: [m], upstream: u}]\n"},
    {0, /* HEAD is none of POST */ LIMITS
     "routes: [{match: {path: /1*/**, method: POST}, limits: [l, m], upstream: u},\n"
     "         {match: {method: [GET, HEAD]}, limits: [m], upstream: u}]\n"},
    {0, /* an escape is its character */ LIMITS
     "routes: [{match: {path: \"/1:2*/**\"}, limits: [l, m], upstream: u},\n"
     "         {match: {path: \"/1%3A2/**\"}, limits: [m], upstream: u}]\n"},
    {1, /* one warning of a route */ LIMITS
     "routes: [{match: {path: /a, method: GET}, limits: [l, m], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {0, /* 404 */ LIMITS "routes: [{match: {path: /a}, limits: [l, m], upstream: u},\n"
                         "         {match: {path: /b}, limits: [m], upstream: u}]\n"},
    {0,
     /* answered by sluice */ LIMITS "routes: [{match: {path: /a}, limits: [l, m], upstream: u},\n"
                                     "         {respond: {status: 404}}]\n"},
    {0, /* refused: an encoded slash */ LIMITS
     "routes: [{match: {path: /1%2F2, encoded_slash: allow}, limits: [l, m], upstream: u},\n"
     "         {limits: [m], upstream: u}]\n"},
    {1, /* not refused */ LIMITS
     "routes: [{match: {path: /1%2F2, encoded_slash: allow}, limits: [l, m], upstream: u},\n"
     "         {match: {path: \"/**\", encoded_slash: allow}, limits: [m], upstream: u}]\n"},
    {0, /* the same limits */ LIMITS "routes: [{match: {path: /a}, limits: [l, m], upstream: u},\n"
                                     "         {limits: [m, l], upstream: u}]\n"},
    {0, /* what it lacks is not enforced */ LIMITS_L_S
     "routes: [{match: {path: /a}, limits: [l, s], upstream: u},\n"
     "         {limits: [l], upstream: u}]\n"},
    {1, /* what it has is not enforced */ LIMITS_L_S
     "routes: [{match: {path: /a}, limits: [l], upstream: u},\n"
     "         {limits: [s], upstream: u}]\n"},
    {1,
     /* costs less */ LIMITS "routes: [{match: {path: /a}, limits: [l, m], cost: 2, upstream: u},\n"
                             "         {limits: [l, m], upstream: u}]\n"},
    {0,
     /* costs more */ LIMITS "routes: [{match: {path: /a}, limits: [l, m], cost: 2, upstream: u},\n"
                             "         {limits: [l, m], cost: 3, upstream: u}]\n"},
    {0, /* its requests come to no server */ LIMITS
     "routes: [{match: {path: /a}, limits: [l, m], respond: {status: 204}},\n"
     "         {limits: [m], upstream: u}]\n"},
    {0, /* no literal */ LIMITS "routes: [{match: {path: \"/{x}\"}, limits: [l, m], upstream: u},\n"
                                "         {limits: [m], upstream: u}]\n"},
    {1, /* with its host, client and headers */ LIMITS
     "routes: [{match: {path: /1, host: \"*.a.test\", client: 10.0.0.0/8, header: {x-a: true, x-b: "
     "\"1\"}}, limits: [l, m], upstream: u},\n"
     "         {match: {host: b.a.test}, limits: [m], upstream: u},\n"
     "         {match: {host: \"*.a.test\", client: 10.0.0.0, header: {x-b: \"1\"}}, limits: [m], "
     "upstream: u}]\n"},
    {0, LIMITS "routes: [{match: {path: /1, host: a.test, client: 10.0.0.0/8, header: {x-a: "
               "\"1\"}}, limits: [l, m], upstream: u},\n"
               "         {match: {host: b.test}, limits: [m], upstream: u},\n"
               "         {match: {client: 11.0.0.0/8}, limits: [m], upstream: u},\n"
               "         {match: {header: {x-a: \"2\"}}, limits: [m], upstream: u}]\n"},
    {1, /* with its certificate */ LIMITS
     "routes: [{match: {path: /1, client_cert: {dns: \"*.a.test\", uri: u:1}}, limits: [l, m], "
     "upstream: u},\n"
     "         {match: {client_cert: {uri: u:2}}, upstream: u},\n"
     "         {match: {client_cert: {uri: u:1, dns: \"*.a.test\"}}, limits: [m], upstream: u}]\n"},
    {0, /* another connection */ LIMITS
     "routes: [{match: {path: /1, scheme: https}, limits: [l, m], upstream: u},\n"
     "         {match: {scheme: http}, limits: [m], upstream: u}]\n"},
    {1, /* to an earlier route */ LIMITS
     "routes: [{match: {path: /A}, limits: [m], upstream: u},\n"
     "         {match: {path: /a*/**, ignore_case: true}, limits: [l, m], upstream: u}]\n"},
    {1, /* another method than GET leads on */ LIMITS
     "routes: [{match: {path: /1, method: GET}, limits: [l, m], upstream: u},\n"
     "         {match: {path: /1}, limits: [l, m], upstream: u},\n"
     "         {match: {method: POST}, limits: [m], upstream: u}]\n"},
};

START_TEST(a_route_is_warned_of_once_where_a_spelling_avoids_a_limit)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s", POLICIES[_i].yaml);
    check(yaml, &diags);
    (void)find_text(&diags, &n);
    ck_assert_msg(n == POLICIES[_i].n_warnings, "%u: %s", n, POLICIES[_i].yaml);
    diags_close(&diags);
}
END_TEST

/* --- what the two routes name of a request --- */

/* Route "a" has a limit that route "rest" lacks. */
static const struct {
    unsigned n_warnings;
    const char *match;   /* of "a" */
    const char *between; /* more routes */
    const char *rest;
} COMPLETED[] = {
    /* a token, a country, a network of the route */
    {1, "path: /1, jwt: {tier: free}", "", "{limits: [m], upstream: u}"},
    {1, "path: /1, jwt: {tier: [free, trial], scope: read}", "",
     "{match: {jwt: {tier: free}}, limits: [m], upstream: u}"},
    {1, "path: /1, country: [DE, FR]", "", "{limits: [m], upstream: u}"},
    {1, "path: /1, asn: [64500, 64501]", "", "{match: {asn: 64500}, limits: [m], upstream: u}"},
    {0, "path: /1, jwt: {tier: free}", "",
     "{match: {jwt: {tier: paid}}, limits: [m], upstream: u}"},
    {0, "path: /1, jwt: {tier: free}", "", "{match: {jwt: {admin: x}}, limits: [m], upstream: u}"},
    {0, "path: /1, country: DE", "", "{match: {country: FR}, limits: [m], upstream: u}"},
    {0, "path: /1, asn: 64500", "", "{match: {asn: 64501}, limits: [m], upstream: u}"},
    {0, "path: /1, jwt: {tier: free}", "{match: {jwt: {tier: free}}, limits: [l, m], upstream: u}",
     "{limits: [m], upstream: u}"},
    {1, /* tokens of others go on */ "path: /1, jwt: {tier: free}",
     "{match: {jwt: {sub: x}}, limits: [l, m], upstream: u}", "{limits: [m], upstream: u}"},
    {0, "path: /1*/**, jwt: {tier: free}", "", "{limits: [m], upstream: u}"},
    /* what the later route names */
    {1, "path: /1", "", "{match: {host: a.test}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {host: \"*.a.test\", path: /1/**}, limits: [m], upstream: u}"},
    {1, "path: /1", "{match: {host: a.test}, respond: {status: 404}}",
     "{match: {host: b.test}, limits: [m], upstream: u}"},
    {1, "path: /1", "{match: {host: a.test, path: /1/**}, limits: [l, m], upstream: u}",
     "{match: {host: a.test}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {scheme: https}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {scheme: http}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {scheme: https, host: a.test}, limits: [m], upstream: u}"},
    {1, "path: /1, host: a.test", "",
     "{match: {scheme: https, host: a.test}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {client_cert: {dns: \"*.a.test\"}}, limits: [m], upstream: u}"},
    {1, "path: /1, scheme: https", "", "{match: {client_cert: true}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {query: {a: true, b: [c, d]}}, limits: [m], upstream: u}"},
    {1, "path: /1", "", "{match: {country: DE}, limits: [m], upstream: u}"},
    {1, "path: /1, country: DE", "", "{match: {asn: 64500}, limits: [m], upstream: u}"},
    {1, "path: /1, jwt: {tier: free}", "", "{match: {host: a.test}, limits: [m], upstream: u}"},
    {0, "path: /1, host: a.test", "", "{match: {host: b.test}, limits: [m], upstream: u}"},
    {0, "path: /1, scheme: http", "", "{match: {scheme: https}, limits: [m], upstream: u}"},
    {0, "path: /1, scheme: http", "", "{match: {client_cert: true}, limits: [m], upstream: u}"},
    {0, "path: /1", "", "{match: {query: {a: \"${P}\"}}, limits: [m], upstream: u}"},
    {0, "path: /1", "", "{match: {jwt: {tier: paid}}, limits: [m], upstream: u}"},
    {0, "path: /1", "", "{match: {jwt: {sub: x}}, limits: [m], upstream: u}"},
    {0, "path: /1", "", "{match: {client: 10.0.0.0/8}, limits: [m], upstream: u}"},
    {0, "path: /1", "", "{match: {host: a.test}, limits: [l, m], upstream: u}"},
    {0, "path: /1", "", "{match: {host: a.test}, limits: [m], upstream: other}"},
    {0, "path: /1", "", "{match: {host: a.test}, limits: [m], respond: {status: 404}}"},
    {0, "path: /1", "", "{match: {host: a.test, path: /2/**}, limits: [m], upstream: u}"},
    {0, "path: /1*/**, ignore_case: true", "", "{match: {host: a.test}, limits: [m], upstream: u}"},
    {0, "path: /1", "{match: {path: /1*/**}, limits: [l, m], upstream: u}",
     "{match: {host: a.test}, limits: [m], upstream: u}"},
    {0, "path: /1", "{match: {host: a.test, path: /1*/**}, respond: {status: 404}}",
     "{match: {host: a.test}, limits: [m], upstream: u}"},
};

static void write_completed(size_t i, const char *listen, char yaml[YAML_BYTES_MAX])
{
    (void)snprintf(yaml, YAML_BYTES_MAX,
                   "%s"
                   "geo: {database: [country.mmdb, asn.mmdb]}\n"
                   "jwt: {main: {secret: \"0123456789abcdef0123456789abcdef\", issuer: x}}\n"
                   "upstreams: {u: {servers: \"http://127.0.0.1:1\"},\n"
                   "            other: {servers: \"http://127.0.0.1:2\"}}\n" LIMITS "routes:\n"
                   "  - {name: a, match: {%s}, limits: [l, m], upstream: u}\n%s%s%s"
                   "  - %s\n",
                   listen, COMPLETED[i].match, COMPLETED[i].between[0] != '\0' ? "  - " : "",
                   COMPLETED[i].between, COMPLETED[i].between[0] != '\0' ? "\n" : "",
                   COMPLETED[i].rest);
}

START_TEST(a_request_has_what_one_route_names_and_the_other_leaves_open)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    write_completed((size_t)_i, BOTH_ASKING, yaml);
    check(yaml, &diags);
    (void)find_text(&diags, &n);
    ck_assert_msg(n == COMPLETED[_i].n_warnings, "%u: %s", n, yaml);
    diags_close(&diags);
}
END_TEST

START_TEST(without_a_listener_for_it_no_request_is_https)
{
    struct diags diags;
    unsigned n;
    check(PLAIN UPSTREAM_U LIMITS "routes:\n  - {match: {path: /1}, limits: [l, m], upstream: u}\n"
                                  "  - {match: {scheme: https}, limits: [m], upstream: u}\n",
          &diags);
    (void)find_text(&diags, &n);
    ck_assert_uint_eq(n, 0);
    diags_close(&diags);
}
END_TEST

/* --- what is said --- */

#define SAME ", and many servers take it for the same request; "
#define THESE ", and many servers take them for the same request; "
#define OR "or give that route the same limits"

static const struct {
    const char *match; /* of route "a" */
    const char *text;
} MESSAGES[] = {
    {"path: /a", "/a/, /a.x, /A lead to route \"rest\" without limit \"l\"" THESE
                 "write path: /a*/**, ignore_case: true, " OR},
    {"path: /1, ignore_case: true",
     "/1/, /1.x lead to route \"rest\" without limit \"l\"" THESE "write path: /1*/**, " OR},
    {"path: /1/**",
     "/1.x leads to route \"rest\" without limit \"l\"" SAME "write path: /1*/**, " OR},
    {"path: \"/1/{x}\"",
     "/1/x/ leads to route \"rest\" without limit \"l\"" SAME "write path: /1/{x}/**, " OR},
    {"path: /1/", "/1 leads to route \"rest\" without limit \"l\"" SAME "write path: /1/**, " OR},
    {"path: /h*/**, ignore_case: true, method: GET",
     "HEAD /h leads to route \"head\" without limit \"l\"" SAME
     "write HEAD beside GET in method, " OR},
    {"path: /1*/**, method: [GET, POST]",
     "PUT /1 leads to route \"rest\" without limit \"l\"" SAME "write no method, " OR},
    {"path: /a, ignore_case: true, method: POST",
     "/a/, /a.x, PUT /a lead to route \"rest\" without limit \"l\"" THESE
     "write path: /a*/**, no method, " OR},
    {"path: /b*/**, ignore_case: true",
     "/B leads to route \"first\" without limit \"l\"" SAME "give that route the same limits"},
    {"path: \"${P}/1\"",
     "its path with a slash at the end, its path with a suffix, its path in "
     "upper case lead to route \"rest\" without limit \"l\"" THESE "write a path that takes those "
     "too (* in the last segment, /** behind it), ignore_case: true, " OR},
};

START_TEST(a_warning_says_what_leads_where_and_what_to_write)
{
    char yaml[YAML_BYTES_MAX];
    char text[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml),
                   HEAD LIMITS "routes:\n"
                               "  - {name: first, match: {path: /B}, limits: [m], upstream: u}\n"
                               "  - {name: a, match: {%s}, limits: [m, l], upstream: u}\n"
                               "  - {name: head, match: {path: /h*/**, ignore_case: true, method: "
                               "HEAD}, limits: [m], upstream: u}\n"
                               "  - {name: rest, limits: [m], upstream: u}\n",
                   MESSAGES[_i].match);
    (void)snprintf(text, sizeof(text), "route \"a\" can be avoided: %s", MESSAGES[_i].text);
    check(yaml, &diags);
    const char *found = find_text(&diags, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(found, text);
    diags_close(&diags);
}
END_TEST

/* --- other hosts --- */

#define ALL_M "  - {limits: [m], upstream: u}\n"

static const struct {
    unsigned n_warnings;
    const char *yaml;
} HOSTS[] = {
    {1, LIMITS "routes:\n  - {match: {host: a.test}, limits: [l, m], upstream: u}\n" ALL_M},
    {1,
     LIMITS "routes:\n  - {match: {host: [a.test, \"*.b.test\"], path: [/1/**, /2], method: POST}, "
            "limits: [l, m], upstream: u}\n" ALL_M},
    {1, /* only one of the paths has a route of another host */ LIMITS
     "routes:\n  - {match: {host: a.test, path: [/1, /2]}, limits: [l], upstream: u}\n"
     "  - {match: {path: /2}, limits: [m], upstream: u}\n"},
    {1, /* a host beside it */ LIMITS
     "routes:\n  - {match: {host: a.b.test}, limits: [l, m], upstream: u}\n"
     "  - {match: {host: \"*.b.test\"}, limits: [m], upstream: u}\n"},
    {1, /* the same limits at a lower cost */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [m], cost: 2, upstream: u}\n" ALL_M},
    {0, /* the same limits and more */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [m], upstream: u}\n"
     "  - {limits: [l, m], upstream: u}\n"},
    {0, /* no other host, or answered by sluice */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [l], upstream: u}\n"
     "  - {match: {host: b.test}, limits: [m], upstream: u}\n"
     "  - {respond: {status: 421}}\n"},
    {0,
     /* other servers */ LIMITS "routes:\n  - {match: {host: a.test}, limits: [l], upstream: u}\n"
                                "  - {limits: [m], upstream: \"http://127.0.0.1:2\"}\n"},
    {0, /* other paths and methods */ LIMITS
     "routes:\n  - {match: {host: a.test, path: /1}, limits: [l], upstream: u}\n"
     "  - {match: {path: /2}, limits: [m], upstream: u}\n"
     "  - {match: {path: /1, method: POST, host: b.test}, limits: [m], upstream: u}\n"},
    {0, /* an earlier route takes its requests */ LIMITS
     "routes:\n" ALL_M "  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"},
    {0, /* no limits */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [], upstream: u}\n" ALL_M},
    {1, /* the later route names a parameter */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"
     "  - {match: {query: {a: true}}, limits: [m], upstream: u}\n"},
    {0, /* one that may be secret */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"
     "  - {match: {query: {a: \"${P}\"}}, limits: [m], upstream: u}\n"},
    {1, /* the route names a token */
     "jwt: {main: {secret: \"0123456789abcdef0123456789abcdef\", issuer: x}}\n" LIMITS
     "routes:\n  - {match: {host: a.test, jwt: {tier: free}}, limits: [l, m], upstream: "
     "u}\n" ALL_M},
    {1, /* the later route names a path and a method */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"
     "  - {match: {path: /1/**, method: PUT}, limits: [m], upstream: u}\n"},
    {1, /* one of the methods */ LIMITS
     "routes:\n  - {match: {host: a.test, method: [GET, PUT]}, limits: [l, m], upstream: u}\n"
     "  - {match: {method: PUT}, limits: [m], upstream: u}\n"},
    {1, /* another upstream with the same servers */ LIMITS
     "routes:\n  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"
     "  - {limits: [m], upstream: \"http://127.0.0.1:1\"}\n"},
    {0, /* a path for which the route has the same limits */ LIMITS
     "routes:\n  - {match: {host: a.test, path: /1/**}, limits: [m], upstream: u}\n"
     "  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"
     "  - {match: {path: /1/**}, limits: [m], upstream: u}\n"},
};

START_TEST(a_route_is_warned_of_once_where_another_host_avoids_a_limit)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), HEAD "%s", HOSTS[_i].yaml);
    check(yaml, &diags);
    (void)find_kind(&diags, "dodged-host", &n);
    ck_assert_msg(n == HOSTS[_i].n_warnings, "%u: %s", n, HOSTS[_i].yaml);
    diags_close(&diags);
}
END_TEST

/* --- the other scheme --- */

static const struct {
    unsigned n_warnings;
    const char *yaml;
} SCHEMES[] = {
    {1, BOTH LIMITS "routes:\n  - {match: {scheme: https}, limits: [l, m], upstream: u}\n" ALL_M},
    {1, BOTH LIMITS "routes:\n  - {match: {scheme: http}, limits: [l, m], upstream: u}\n" ALL_M},
    {1, BOTH LIMITS
     "routes:\n  - {match: {scheme: https, host: a.test, path: [/1, /2], method: POST}, "
     "limits: [l], upstream: u}\n  - {match: {path: /2}, limits: [m], upstream: u}\n"},
    {0, /* no listener takes the other */ SECURE LIMITS
     "routes:\n  - {match: {scheme: https}, limits: [l, m], upstream: u}\n" ALL_M},
    {0, PLAIN LIMITS "routes:\n  - {match: {scheme: http}, limits: [l, m], upstream: u}\n" ALL_M},
    {0, /* the same limits */ BOTH LIMITS
     "routes:\n  - {match: {scheme: https}, limits: [m], upstream: u}\n" ALL_M},
    {0, /* the other is redirected */ BOTH LIMITS
     "routes:\n  - {match: {scheme: https}, limits: [l], upstream: u}\n"
     "  - {respond: {status: 308}}\n"},
    {1, /* the later route names a host */ BOTH LIMITS
     "routes:\n  - {match: {scheme: https}, limits: [l, m], upstream: u}\n"
     "  - {match: {host: a.test}, limits: [m], upstream: u}\n"},
    {1, /* the later route names a path and a method */ BOTH LIMITS
     "routes:\n  - {match: {scheme: https}, limits: [l, m], upstream: u}\n"
     "  - {match: {path: /1/**, method: PUT}, limits: [m], upstream: u}\n"},
    {0, /* a certificate: others have limits of their own */ BOTH LIMITS
     "routes:\n  - {match: {scheme: https, client_cert: true}, limits: [l], upstream: u}\n" ALL_M},
};

START_TEST(a_route_is_warned_of_where_the_other_scheme_avoids_a_limit)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), UPSTREAM_U "%s", SCHEMES[_i].yaml);
    check(yaml, &diags);
    (void)find_kind(&diags, "dodged-scheme", &n);
    ck_assert_msg(n == SCHEMES[_i].n_warnings, "%u: %s", n, SCHEMES[_i].yaml);
    diags_close(&diags);
}
END_TEST

/* --- routes that a header leads to --- */

#define LOGIN_L                                                                                    \
    "  - {match: {path: /1/2*/**, ignore_case: true}, limits: [l, m], upstream: u}\n"              \
    "  - {match: {path: /1/**}, limits: [m], upstream: u}\n"

#define REST_M "  - {name: rest, limits: [m], upstream: u}\n"

static const struct {
    unsigned n_warnings;
    const char *yaml;
} CHOSEN[] = {
    {1, /* no limits behind a header */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [], upstream: u}\n" REST_M},
    {1, /* other limits behind one that need only be there */ LIMITS
     "routes:\n  - {match: {path: /1/**, header: {x-in: true}}, limits: [l], upstream: "
     "u}\n" REST_M},
    {1, /* of routes of narrower paths, too */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [l], upstream: u}\n"
     "  - {match: {path: /1/2}, limits: [m], upstream: u}\n"},
    {1, /* the same limit at a lower cost */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [m], upstream: u}\n"
     "  - {limits: [m], cost: 2, upstream: u}\n"},
    {1, /* one of several values, on one of several paths */ LIMITS
     "routes:\n  - {match: {path: [/1, /2], header: {x-in: [a, b], x-out: true}}, limits: [],"
     " upstream: u}\n" REST_M},
    {1, /* a parameter of the query */ LIMITS
     "routes:\n  - {match: {query: {in: 1}}, limits: [l], upstream: u}\n" REST_M},
    {1, /* a field that must be absent: with it another route serves */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\", x-out: false}}, limits: [m, l], upstream: "
     "u}\n" REST_M},
    {1, /* a parameter that must be absent */ LIMITS
     "routes:\n  - {match: {query: {in: 1, a: false, out: false}}, limits: [m, l], upstream: u}\n"
     "  - {match: {query: {out: true, in: 1}}, limits: [m], upstream: u}\n"},
    {0, /* with the field the same limits and more */ LIMITS
     "routes:\n  - {match: {header: {x-out: false}}, limits: [m], upstream: u}\n"
     "  - {limits: [m, l], upstream: u}\n"},
    {0, /* with the field a secret is asked for, or the client is named */ LIMITS
     "routes:\n  - {match: {header: {x-in: false}}, limits: [l], upstream: u}\n"
     "  - {match: {header: {x-in: \"${P}\"}}, limits: [], upstream: u}\n"
     "  - {match: {client: 10.0.0.1}, limits: [m], upstream: u}\n"},
    {0, /* without the field sluice answers */ LIMITS
     "routes:\n  - {match: {header: {authorization: false}}, limits: [l], respond: {status: "
     "401}}\n" REST_M},
    {0, /* the same limits and more */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [l, m], upstream: u}\n" REST_M},
    {0, /* a value that may be secret */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"${P}\"}}, limits: [], upstream: u}\n" REST_M},
    {0, /* clients that are named */ LIMITS "routes:\n  - {match: {client: 10.0.0.1, header: "
                                            "{x-in: \"1\"}}, limits: [], upstream: u}\n" REST_M},
    {0, /* a proxy may set it */ LIMITS
     "trusted_proxies: [10.0.0.1]\n"
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [], upstream: u}\n" REST_M},
    {0, /* without it there is no route */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [], upstream: u}\n"},
    {0, /* without it sluice answers */ LIMITS
     "routes:\n  - {match: {header: {x-in: \"1\"}}, limits: [], upstream: u}\n"
     "  - {limits: [l], respond: {status: 403}}\n"},
    {1, /* the later route names a host, and the route a path */ LIMITS
     "routes:\n  - {match: {path: /1*/**, header: {x-in: a}}, limits: [l], upstream: u}\n"
     "  - {match: {host: a.test}, limits: [m], upstream: u}\n"},
    {1, /* the later route names a path, and the route a host */ LIMITS
     "routes:\n  - {match: {host: a.test, header: {x-in: a}}, limits: [l], upstream: u}\n"
     "  - {match: {path: /1/**}, limits: [m], upstream: u}\n"},
    {0, /* the same limits and more, other servers, other hosts, an earlier route */ LIMITS
     "routes:\n  - {match: {host: c.test, path: /1*/**, header: {x-in: a}}, limits: [m],"
     " upstream: u}\n"
     "  - {match: {path: /1*/**, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {host: a.test}, limits: [m], upstream: u}\n"
     "  - {match: {host: b.test}, limits: [l], upstream: \"http://127.0.0.1:2\"}\n"
     "  - {match: {host: c.test}, limits: [m], upstream: u}\n"},
    {0, /* a token that clients of the later route do not have */
     "jwt: {main: {secret: \"0123456789abcdef0123456789abcdef\", issuer: x}}\n" LIMITS
     "routes:\n  - {match: {header: {x-in: a}, jwt: {tier: paid}}, limits: [l], upstream: u}\n"
     "  - {match: {jwt: {tier: free}}, limits: [m], upstream: u}\n"},
    {1, /* the route names a host and the narrower one none */ LIMITS
     "routes:\n  - {match: {host: a.test, path: /1/**, header: {x-in: a}}, limits: [m], "
     "upstream: u}\n" LOGIN_L},
    {1, /* a host and no path */ LIMITS
     "routes:\n  - {match: {host: a.test, header: {x-in: a}}, limits: [m], upstream: u}\n" LOGIN_L},
    {1, /* a scheme */ LIMITS
     "routes:\n  - {match: {scheme: https, path: /1/**, header: {x-in: a}}, limits: [m], "
     "upstream: u}\n" LOGIN_L},
    {1, /* a method */ LIMITS
     "routes:\n  - {match: {method: PUT, path: /1/**, header: {x-in: a}}, limits: [m], "
     "upstream: u}\n" LOGIN_L},
    {1, /* one of the methods of both */ LIMITS
     "routes:\n  - {match: {method: [PUT, POST], path: /1/**, header: {x-in: a}}, limits: [m], "
     "upstream: u}\n"
     "  - {match: {method: [GET, POST], path: /1/2*/**}, limits: [l], upstream: u}\n"},
    {1, /* one of the hosts of both, which one writes with a star */ LIMITS
     "routes:\n  - {match: {host: [a.test, \"*.b.test\"], header: {x-in: a}}, limits: [m], "
     "upstream: u}\n"
     "  - {match: {host: [c.test, d.b.test], path: /1}, limits: [l], upstream: u}\n"},
    {1, /* a host with a star of the narrower route */ LIMITS
     "routes:\n  - {match: {host: a.b.test, path: /1/**, header: {x-in: a}}, limits: [m], "
     "upstream: u}\n"
     "  - {match: {host: \"*.b.test\", path: /1/2}, limits: [l], upstream: u}\n"},
    {1, /* a parameter and a host */ LIMITS
     "routes:\n  - {match: {host: a.test, path: /1/**, query: {in: true}}, limits: [m], "
     "upstream: u}\n" LOGIN_L},
    {1, /* the second path of the narrower route */ LIMITS
     "routes:\n  - {match: {path: /1/**, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: [/0/2*/**, /1/2*/**]}, limits: [l, m], upstream: u}\n" REST_M},
    {1, /* of both */ LIMITS
     "routes:\n  - {match: {path: [/2/**, /1/**], header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: [/0/2*/**, /1/2*/**]}, limits: [l, m], upstream: u}\n" REST_M},
    {1, /* the second path of the route, which is the narrower one */ LIMITS
     "routes:\n  - {match: {path: [/2, /1/2], header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: /1/**, method: PUT}, limits: [l, m], upstream: u}\n"},
    {1, /* a field beside one that must be absent */ LIMITS
     "routes:\n  - {match: {header: {x-in: a, x-out: false}, query: {out: false}}, limits: [m], "
     "upstream: u}\n"
     "  - {limits: [l, m], upstream: u}\n"},
    {1, /* the narrower route asks for a field of its own */ LIMITS
     "routes:\n  - {match: {query: {in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {header: {x-own: b}, query: {own: true}}, limits: [l], upstream: u}\n"},
    {1, /* for some value of the same field */ LIMITS
     "routes:\n  - {match: {header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {header: {x-in: true}}, limits: [l], upstream: u}\n"},
    {0, /* for another value of it: each may be a request of its own */ LIMITS
     "routes:\n  - {match: {header: {x-in: a}, query: {in: b}}, limits: [m], upstream: u}\n"
     "  - {match: {header: {x-in: b}}, limits: [l], upstream: u}\n"
     "  - {match: {query: {in: a}}, limits: [l], upstream: u}\n"},
    {1, /* a certificate that clients of the narrower route have */ LIMITS
     "routes:\n  - {match: {path: /1/**, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: /1/2, client_cert: true}, limits: [l], upstream: u}\n"},
    {0, /* one that they do not have */ LIMITS
     "routes:\n  - {match: {client_cert: true, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: /1/2}, limits: [l], upstream: u}\n"},
    {0, /* another host, scheme, method, client, server; an earlier route; a field that is absent */
     LIMITS
     "routes:\n"
     "  - {match: {host: a.test, path: /1, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {host: b.test, path: /1}, limits: [l], upstream: u}\n"
     "  - {match: {scheme: https, path: /2/**, header: {x-in: a}}, limits: [m], upstream: "
     "u}\n"
     "  - {match: {scheme: http, path: /2/1}, limits: [l], upstream: u}\n"
     "  - {match: {method: PUT, path: /3/**, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {method: [GET, POST], path: /3/1}, limits: [l], upstream: u}\n"
     "  - {match: {host: c.test, path: /4/**, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: /4/1}, limits: [l], upstream: \"http://127.0.0.1:2\"}\n"
     "  - {match: {host: c.test, path: /5/1}, limits: [m], upstream: u}\n"
     "  - {match: {host: c.test, path: /5/**, header: {x-in: a}}, limits: [m], upstream: u}\n"
     "  - {match: {path: /5/1}, limits: [l], upstream: u}\n"
     "  - {match: {path: /6/**, header: {x-in: a, x-forwarded-proto: http}}, limits: [m], "
     "upstream: u}\n"
     "  - {match: {path: /6/1}, limits: [l], upstream: u}\n"},
    {1, /* without the field, a host */ LIMITS
     "routes:\n  - {match: {path: /1*/**, ignore_case: true, header: {x-out: false}}, limits: [l], "
     "upstream: u}\n"
     "  - {match: {host: a.test}, limits: [m], upstream: u}\n"
     "  - {respond: {status: 421}}\n"},
    {1, /* a scheme and a method */ LIMITS
     "routes:\n  - {match: {path: /1*/**, ignore_case: true, query: {out: false}}, limits: [l], "
     "upstream: u}\n"
     "  - {match: {scheme: https, method: PUT}, limits: [m], upstream: u}\n"},
    {1, /* a path */ LIMITS
     "routes:\n  - {match: {header: {x-out: false}}, limits: [l], upstream: u}\n"
     "  - {match: {path: /1/**}, limits: [m], upstream: u}\n"},
    {0, /* the same limits, other servers, an answer */ LIMITS
     "routes:\n  - {match: {header: {x-out: false}}, limits: [l], upstream: u}\n"
     "  - {match: {host: a.test}, limits: [l, m], upstream: u}\n"
     "  - {match: {path: /1/**}, limits: [m], upstream: \"http://127.0.0.1:2\"}\n"
     "  - {match: {path: /2/**}, limits: [m], respond: {status: 401}}\n"},
    {0, /* of another method, host and path */ LIMITS
     "routes:\n  - {match: {method: POST, header: {x-in: \"1\"}}, limits: [], upstream: u}\n"
     "  - {match: {host: a, header: {x-in: \"1\"}}, limits: [], upstream: u}\n"
     "  - {match: {path: /a, header: {x-in: \"1\"}}, limits: [], upstream: u}\n"
     "  - {match: {method: GET, host: b, path: /b}, limits: [l], upstream: u}\n"},
};

START_TEST(a_field_that_any_client_can_send_leads_past_no_limit_unwarned)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml), BOTH_ASKING UPSTREAM_U "%s", CHOSEN[_i].yaml);
    check(yaml, &diags);
    (void)find_kind(&diags, "client-chosen-route", &n);
    ck_assert_msg(n == CHOSEN[_i].n_warnings, "%u: %s", n, CHOSEN[_i].yaml);
    diags_close(&diags);
}
END_TEST

static const struct {
    unsigned n_warnings;
    const char *routes;
} CALLS[] = {
    {1, "- {match: {grpc: true}, limits: [l, m], upstream: u}\n- {limits: [m], upstream: u}\n"},
    {1, "- {match: {path: /a.B/**, grpc: true}, limits: [l], upstream: u}\n"
        "- {match: {method: POST}, limits: [], upstream: u}\n"},
    {1, "- {match: {header: {x-a: b}, grpc: true}, limits: [l, m], upstream: u}\n"
        "- {limits: [m], upstream: u}\n"},
    {1, /* for a host and a path */
     "- {match: {grpc: true}, limits: [l, m], upstream: u}\n"
     "- {match: {host: a.test, path: /a.B/**}, limits: [m], upstream: u}\n"},
    {0, "- {match: {grpc: true}, limits: [l, m], upstream: u}\n- {limits: [m, l], upstream: u}\n"},
    {0, "- {match: {grpc: true}, limits: [l, m], upstream: u}\n"},
    {0, "- {match: {path: /a.B/**}, limits: [l, m], upstream: u}\n- {limits: [m], upstream: u}\n"},
    {0, /* to a server without gRPC, or none */
     "- {match: {path: /a/**, grpc: true}, limits: [l, m], upstream: u}\n"
     "- {match: {path: /a/**}, limits: [m], upstream: plain}\n"
     "- {match: {path: /b/**, grpc: true}, limits: [l, m], upstream: plain}\n"
     "- {match: {path: /b/**}, limits: [m], upstream: plain}\n"
     "- {match: {grpc: true}, limits: [l, m], upstream: u}\n"
     "- {respond: {status: 404}}\n"},
};

START_TEST(a_call_of_another_content_type_leaves_no_limit_unwarned)
{
    char yaml[YAML_BYTES_MAX];
    struct diags diags;
    unsigned n;
    (void)snprintf(yaml, sizeof(yaml),
                   "listen: 127.0.0.1:0\ntrusted_proxies: 10.0.0.0/8\n"
                   "upstreams: {u: {servers: h2c://127.0.0.1:1},\n"
                   "            plain: {servers: http://127.0.0.1:2}}\n" LIMITS "routes:\n%s",
                   CALLS[_i].routes);
    check(yaml, &diags);
    (void)find_kind(&diags, "client-chosen-route", &n);
    ck_assert_msg(n == CALLS[_i].n_warnings, "%u: %s", n, CALLS[_i].routes);
    diags_close(&diags);
}
END_TEST

/* --- many routes --- */

START_TEST(many_routes_are_compared_in_bounded_steps)
{
    char *yaml = NULL;
    size_t len = 0;
    struct diags diags;
    unsigned n;
    FILE *file = open_memstream(&yaml, &len);
    ck_assert_ptr_nonnull(file);
    fputs(HEAD LIMITS "routes:\n", file);
    for (size_t i = 0; i < 10000; i++) {
        fprintf(file,
                "- {match: {path: /1*/**, method: POST, header: {x: v%zu}}, limits: [l, m], "
                "upstream: u}\n",
                i);
    }
    fclose(file);
    check(yaml, &diags);
    ck_assert_ptr_nonnull(strstr(find_text(&diags, &n), "it is not known whether routes can be"));
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(find_kind(&diags, "client-chosen-route", &n),
                                 "it is not known whether fields lead past limits"));
    ck_assert_uint_eq(n, 1);
    diags_close(&diags);
    free(yaml);
}
END_TEST

START_TEST(routes_are_completed_in_bounded_steps)
{
    char *yaml = NULL;
    size_t len = 0;
    struct diags diags;
    unsigned n;
    FILE *file = open_memstream(&yaml, &len);
    ck_assert_ptr_nonnull(file);
    fputs(HEAD LIMITS "routes:\n", file);
    for (size_t i = 0; i < 5000; i++) {
        fprintf(file, "- {match: {path: /%zu*/**}, limits: [l, m], upstream: u}\n", i);
    }
    for (size_t i = 0; i < 5000; i++) {
        fprintf(file, "- {match: {host: a%zu.test}, limits: [m], upstream: u}\n", i);
    }
    fclose(file);
    check(yaml, &diags);
    ck_assert_ptr_nonnull(strstr(find_text(&diags, &n), "it is not known whether routes can be"));
    ck_assert_uint_eq(n, 1);
    diags_close(&diags);
    free(yaml);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/lint_dodged");
    TCase *cases = tcase_create("lint_dodged");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, a_route_is_warned_of_once_where_a_spelling_avoids_a_limit, 0,
                        ARRAY_LEN(POLICIES));
    tcase_add_loop_test(cases, a_request_has_what_one_route_names_and_the_other_leaves_open, 0,
                        ARRAY_LEN(COMPLETED));
    tcase_add_test(cases, without_a_listener_for_it_no_request_is_https);
    tcase_add_test(cases, routes_are_completed_in_bounded_steps);
    tcase_add_loop_test(cases, a_route_is_warned_of_where_the_other_scheme_avoids_a_limit, 0,
                        ARRAY_LEN(SCHEMES));
    tcase_add_loop_test(cases, a_route_is_warned_of_once_where_another_host_avoids_a_limit, 0,
                        sizeof(HOSTS) / sizeof(HOSTS[0]));
    tcase_add_loop_test(cases, a_warning_says_what_leads_where_and_what_to_write, 0,
                        ARRAY_LEN(MESSAGES));
    tcase_add_loop_test(cases, a_field_that_any_client_can_send_leads_past_no_limit_unwarned, 0,
                        ARRAY_LEN(CHOSEN));
    tcase_add_loop_test(cases, a_call_of_another_content_type_leaves_no_limit_unwarned, 0,
                        (int)ARRAY_LEN(CALLS));
    tcase_add_test(cases, many_routes_are_compared_in_bounded_steps);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
