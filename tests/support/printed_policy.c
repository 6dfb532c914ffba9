#include "support/printed_policy.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "policy/compare.h"
#include "policy/loader.h"

static const char *(*lookup_others)(const char *name);
static const char *redacted; /* what all secrets are that are not printed */

static const char *lookup(const char *name)
{
    return strncmp(name, "REDACTED_", 9) == 0 ? redacted : lookup_others(name);
}

static char *print(json_t *json)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(out);
    yaml_text_write(json, out);
    fclose(out);
    return text;
}

static struct policy *load(const char *yaml, const char *name)
{
    struct diags diags;
    struct policy *policy = NULL;
    diags_init(&diags, name);
    if (loader_load_text(span_of_text(yaml), lookup, &policy, &diags) != STATUS_OK) {
        diags_print(&diags, stderr);
        ck_abort_msg("%s is printed as what does not load:\n%s", name, yaml);
    }
    diags_close(&diags);
    return policy;
}

static void check_change(void *context, const struct limit_comparison *comparison)
{
    const char *name = context;
    ck_assert_msg(comparison->change == LIMIT_KEPT, "%s: a limit is another one", name);
}

static void compare(const struct policy *before, const struct policy *after, const char *name)
{
    char context[256];
    snprintf(context, sizeof(context), "%s", name);
    compare_limits(before, after, check_change, context);
    ck_assert_uint_eq(before->n_upstreams, after->n_upstreams);
    for (size_t i = 0; i < before->n_upstreams; i++) {
        ck_assert(compare_upstreams(&before->upstreams[i], &after->upstreams[i]));
    }
    ck_assert_uint_eq(before->n_routes, after->n_routes);
    ck_assert_uint_eq(before->n_listeners, after->n_listeners);
    ck_assert_uint_eq(before->workers, after->workers);
    ck_assert_mem_eq(&before->timeouts, &after->timeouts, sizeof(before->timeouts));
}

void printed_policy_check(const struct policy *policy,
                          const char *(*getenv_value)(const char *name), const char *name)
{
    lookup_others = getenv_value;
    redacted = policy->store.secret.len > 0 ? policy->store.secret.data
                                            : "redacted-redacted-redacted-redacted";
    for (int with_defaults = 0; with_defaults <= 1; with_defaults++) {
        json_t *before = description_of_policy(policy, with_defaults);
        ck_assert_ptr_nonnull(before);
        char *yaml = print(before);
        struct policy *loaded = load(yaml, name);
        json_t *after = description_of_policy(loaded, with_defaults);
        ck_assert_msg(json_equal(before, after), "%s loads as another policy:\n%s", name, yaml);
        compare(policy, loaded, name);
        json_decref(before);
        json_decref(after);
        policy_free(loaded);
        free(yaml);
    }
}
