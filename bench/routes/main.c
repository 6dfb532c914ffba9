/* bench_match: what it costs to find a request's route among 1 to 10,000, and to load them.
 *
 * One line of JSON a measurement. Times are of this thread's processor alone. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/text.h"
#include "http/head.h"
#include "policy/loader.h"
#include "policy/matcher.h"

enum {
    ROUTES_MAX = 10000,
    REQUESTS = 1000, /* different ones, a turn */
    MATCHES = 200 * REQUESTS,
    ROUNDS = 5,
    YAML_BYTES_A_ROUTE = 128,
    LINE_BYTES = 160,
};

/* A text with a number in it; after NULL: without. */
struct numbered {
    const char *before;
    const char *after;
};

/* How routes differ: by the number in each one's match, and in the target or
 * host of a request for it. */
struct kind {
    const char *name;
    struct numbered match;
    struct numbered target;
    struct numbered host;
};

static const struct kind KINDS[] = {
    {"path",
     {"path: \"/v1/resource-", "/{id}\""},
     {"/v1/resource-", "/4711"},
     {"api.example.com", NULL}},
    {"path below a name",
     {"path: \"/{tenant}/resource-", "/**\""},
     {"/somebody/resource-", "/a/b"},
     {"api.example.com", NULL}},
    {"path with a star",
     {"path: \"/v1/resource-", "-login*/**\", ignore_case: true"},
     {"/v1/Resource-", "-logins/4711"},
     {"api.example.com", NULL}},
    {"host",
     {"host: tenant-", ".example.com"},
     {"/v1/items/4711", NULL},
     {"tenant-", ".example.com"}},
};

static const unsigned N_ROUTES[] = {1, 10, 100, 1000, ROUTES_MAX};

struct request {
    char target[LINE_BYTES];
    char host[LINE_BYTES];
    char path_buffer[LINE_BYTES];
    struct head head;
    struct path path;
    struct request_view view;
};

static struct request requests[REQUESTS];

static void fail(const char *why)
{
    fprintf(stderr, "bench_match: %s\n", why);
    exit(EXIT_FAILURE);
}

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), compare);
    return values[ROUNDS / 2];
}

static void add_numbered(struct text *text, const struct numbered *numbered, unsigned number)
{
    text_add(text, span_of_text(numbered->before));
    if (numbered->after != NULL) {
        text_add_u64(text, number);
        text_add(text, span_of_text(numbered->after));
    }
}

static void write_yaml(struct text *yaml, const struct kind *kind, unsigned n_routes)
{
    text_add_literal(yaml,
                     "listen: 127.0.0.1:0\nlimits: {a: {key: client.ip, rate: 10/s}}\nroutes:\n");
    for (unsigned i = 0; i < n_routes; i++) {
        text_add_literal(yaml, "  - match: {");
        add_numbered(yaml, &kind->match, i);
        text_add_literal(yaml, "}\n    limits: [a]\n    respond: {status: 204}\n");
    }
    if (yaml->truncated) {
        fail("the policy is larger than its buffer");
    }
}

static void write_requests(const struct kind *kind, unsigned n_routes)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct request *request = &requests[i];
        const unsigned route = (unsigned)((uint64_t)i * 7919 % n_routes);
        struct text target = text_of(request->target, sizeof(request->target));
        struct text host = text_of(request->host, sizeof(request->host));
        memset(&request->view, 0, sizeof(request->view));
        add_numbered(&target, &kind->target, route);
        add_numbered(&host, &kind->host, route);
        request->head.method = SPAN("GET");
        request->head.target.path = text_span(&target);
        request->view.head = &request->head;
        request->view.host = text_span(&host);
        request->view.path_buffer = request->path_buffer;
        request->view.path = &request->path;
    }
}

static struct policy *load(struct span yaml)
{
    struct policy *policy = NULL;
    struct diags diags;
    diags_init(&diags, "bench");
    if (loader_load_text(yaml, NULL, &policy, &diags) != STATUS_OK) {
        diags_print(&diags, stderr);
        fail("the policy does not load");
    }
    diags_close(&diags);
    return policy;
}

static double load_ms(struct span yaml)
{
    double times[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        const double began = cpu_s();
        struct policy *policy = load(yaml);
        times[i] = (cpu_s() - began) * 1e3;
        policy_free(policy);
    }
    return median(times);
}

static double match_ns(const struct policy *policy)
{
    double times[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        const double began = cpu_s();
        for (unsigned k = 0; k < MATCHES; k++) {
            const struct route *route;
            if (matcher_find_route(policy, &requests[k % REQUESTS].view, &route) != NULL ||
                route == NULL) {
                fail("a request leads to no route");
            }
        }
        times[i] = (cpu_s() - began) * 1e9 / (double)MATCHES;
    }
    return median(times);
}

static void measure(const struct kind *kind, unsigned n_routes)
{
    static char buffer[YAML_BYTES_A_ROUTE * ROUTES_MAX];
    struct text yaml = text_of(buffer, sizeof(buffer));
    write_yaml(&yaml, kind, n_routes);
    write_requests(kind, n_routes);
    const double ms = load_ms(text_span(&yaml));
    struct policy *policy = load(text_span(&yaml));
    printf("{\"differ_in\": \"%s\", \"routes\": %u, \"match_ns\": %.1f, \"load_ms\": %.3f}\n",
           kind->name, n_routes, match_ns(policy), ms);
    fflush(stdout);
    policy_free(policy);
}

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        fail("no source of randomness");
    }
    for (size_t k = 0; k < ARRAY_LEN(KINDS); k++) {
        for (size_t i = 0; i < ARRAY_LEN(N_ROUTES); i++) {
            measure(&KINDS[k], N_ROUTES[i]);
        }
    }
    return EXIT_SUCCESS;
}
