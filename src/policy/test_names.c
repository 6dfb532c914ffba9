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

/* Of all others a test would hold that they are absent, whatever the proxy answers. */
static void check_field(const struct names *names, const struct test_field *field)
{
    static const char *const MADE[] = {
        "RateLimit",         "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
        "X-RateLimit-Reset", "Retry-After",      "Cache-Control",
    };
    char buffer[PROBLEM_BYTES_MAX];
    struct text message = text_of(buffer, sizeof(buffer));
    for (size_t i = 0; i < ARRAY_LEN(MADE); i++) {
        if (span_equals_ignore_case(field->name, span_of_text(MADE[i]))) {
            return;
        }
    }
    text_add_literal(&message, "no answer is made with the field ");
    quote_write(&message, field->name);
    text_add_literal(&message, " here; a test can expect ");
    for (size_t i = 0; i < ARRAY_LEN(MADE); i++) {
        text_add_format(&message, "%s%s",
                        i == 0                    ? ""
                        : i + 1 < ARRAY_LEN(MADE) ? ", "
                                                  : " and ",
                        MADE[i]);
    }
    diags_add(names->diags, DIAG_ERROR, field->place.line, field->place.column, "%.*s",
              SPAN_ARGS(text_span(&message)));
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
    for (size_t i = 0; i < expect->n_fields; i++) {
        check_field(names, &expect->fields[i]);
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
