/* The names of limits and routes in a file of tests, held against the policy that it tests. */

#include "policy/quote.h"
#include "policy/suggest.h"
#include "policy/test_file.h"

enum { PROBLEM_BYTES_MAX = 512 };

struct names {
    const struct policy *policy;
    struct diags *diags;
};

static void report(const struct names *names, const char *what, const struct test_name *name,
                   const struct suggest *suggest)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    text_add_format(&message, "the policy has no %s ", what);
    quote_write(&message, name->text);
    suggest_write(suggest, &message);
    diags_add(names->diags, DIAG_ERROR, name->place.line, name->place.column, "%.*s",
              SPAN_ARGS(text_span(&message)));
}

static void check_limit(const struct names *names, const struct test_name *name)
{
    struct suggest suggest;
    suggest_init(&suggest, name->text);
    for (size_t i = 0; i < names->policy->n_limits; i++) {
        if (span_equals(names->policy->limits[i].name, name->text)) {
            return;
        }
        suggest_offer(&suggest, names->policy->limits[i].name);
    }
    report(names, "limit", name, &suggest);
}

static void check_route(const struct names *names, const struct test_name *name)
{
    struct suggest suggest;
    suggest_init(&suggest, name->text);
    for (size_t i = 0; i < names->policy->n_routes; i++) {
        if (span_equals(names->policy->routes[i].name, name->text)) {
            return;
        }
        suggest_offer(&suggest, names->policy->routes[i].name);
    }
    report(names, "route", name, &suggest);
}

static void check_expect(const struct names *names, const struct test_expect *expect)
{
    if (expect->limit.text.len > 0) {
        check_limit(names, &expect->limit);
    }
    if (expect->route.text.len > 0) {
        check_route(names, &expect->route);
    }
    for (size_t i = 0; i < expect->n_remaining_of; i++) {
        check_limit(names, &expect->remaining_of[i].limit);
    }
    for (size_t i = 0; i < expect->n_shadow; i++) {
        check_limit(names, &expect->shadow[i]);
    }
}

void test_file_check(const struct test_file *file, const struct policy *policy, struct diags *diags)
{
    const struct names names = {.policy = policy, .diags = diags};
    for (size_t i = 0; i < file->n_tests; i++) {
        for (size_t j = 0; j < file->tests[i].n_steps; j++) {
            check_expect(&names, &file->tests[i].steps[j].expect);
        }
    }
}
