/* GET /v1/tenants: keys that have a plan, as far as this process knows. GET /v1/tenants/{key}: one.
 *
 * POST /v1/tenants and DELETE /v1/tenants/{key}: an operator gives a key a plan, and takes it back.
 *
 * Happy path: the change is read, made where the tenants are, and answered with what holds from
 * then on. Failures: a body or a key that makes no sense (400), nothing to take back (404), no
 * shared store (503). A change cannot be called back: where the request is gone meanwhile, it is
 * made all the same. */

#include <stdlib.h>
#include <string.h>

#include "admin/internal.h"
#include "admin/key_resource.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "policy/key.h"
#include "store/tenants.h"

enum { LISTED_MAX = 1000 };

/* --- what there is --- */

static void set_terms(json_t **json, const struct tenant *tenant)
{
    describe_set(json, "plan", json_of_span(tenant->plan));
    if (tenant->until_ms > 0) {
        describe_set(json, "until", describe_timestamp(tenant->until_ms * 1000));
    }
    describe_set(json, "by", json_of_span(tenant->by));
}

/* The key of a field is read again: the field may be one in which it must not be shown. */
static json_t *describe_field(const struct policy *policy, struct span field)
{
    struct key_given given;
    char buffer[ADMIN_DETAIL_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    json_t *json = json_object();
    if (policy_parse_tenant(policy, field, &given, &problem)) {
        describe_identity(&json, key_given_identity(&given), given.hash);
    }
    return json;
}

struct listing {
    const struct policy *policy;
    json_t *list;
};

static void list_one(void *context, const struct replica_entry *entry)
{
    struct listing *listing = context;
    struct tenant tenant;
    if (json_array_size(listing->list) < LISTED_MAX &&
        tenant_read(replica_entry_value(entry), &tenant)) {
        json_t *json = describe_field(listing->policy, replica_entry_field(entry));
        set_terms(&json, &tenant);
        describe_append(&listing->list, json);
    }
}

void tenants_handle(struct admin_request *request)
{
    struct replica *replica = tenants_replica(request->admin->options.tenants);
    const struct replica_counters counters = replica_count(replica);
    struct listing listing = {.policy = request->policy, .list = json_array()};
    json_t *json = json_object();
    replica_list(replica, clock_monotonic_us(), list_one, &listing);
    describe_set(&json, "n", json_integer((json_int_t)counters.n));
    describe_set(&json, "unobeyed", json_integer((json_int_t)counters.n_unobeyed));
    describe_set(&json, "tenants", listing.list);
    answer_json(request, 200, json);
}

/* --- the key --- */

static bool read_key(struct admin_request *request, struct span written, struct key_given *given)
{
    char buffer[ADMIN_DETAIL_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    if (!request->policy->has_tenants) {
        answer_problem(request, 400, "no limit looks for plans of tenants: see plan in limits");
    } else if (written.len > KEY_GIVEN_BYTES_MAX) {
        answer_problem(request, 400, "the key is longer than any");
    } else if (!policy_parse_tenant(request->policy, written, given, &problem)) {
        answer_problem(request, 400, "key: %.*s", SPAN_ARGS(text_span(&problem)));
        answer_note(request, "no key of a limit with tenants"); /* the key itself is not logged */
    } else {
        return true;
    }
    return false;
}

void tenant_handle(struct admin_request *request)
{
    struct key_given given;
    struct tenants_view view;
    char bytes[TENANT_PLAN_BYTES_MAX];
    if (!read_key(request, request->captures[0], &given)) {
        return;
    }
    json_t *json = json_object();
    describe_identity(&json, key_given_identity(&given), given.hash);
    tenants_view_init(&view, request->admin->options.tenants);
    const struct span plan =
        tenants_view_find(&view, key_given_identity(&given), request->policy->store.secret,
                          clock_monotonic_us(), bytes);
    if (given.len > 0 && plan.len > 0) { /* by its hash alone a key is not looked up */
        describe_set(&json, "plan", json_of_span(plan));
    }
    tenants_view_close(&view);
    answer_json(request, 200, json);
}

/* --- changes --- */

struct change {
    struct key_change of_key; /* the first member: key_change_run() frees it */
    char plan[TENANT_PLAN_BYTES_MAX];
    char digits[2 * HASH_IDENTITY_BYTES];
    struct tenant_change tenant;
};

static struct span text_at(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    return json_is_string(value) ? span_of(json_string_value(value), json_string_length(value))
                                 : span_of(NULL, 0);
}

static bool read_plan(struct change *change, struct span plan)
{
    struct admin_request *request = change->of_key.request;
    if (!policy_has_tenant_plan(request->policy, plan)) {
        answer_problem(
            request, 400,
            "plan: no limit that looks for tenants has this plan, or takes it as numbers, "
            "such as 1000/minute or 1000/minute:200");
        return false;
    }
    memcpy(change->plan, plan.data, plan.len);
    change->tenant.plan = span_of(change->plan, plan.len);
    return true;
}

static bool read_members(struct change *change, const json_t *json)
{
    struct admin_request *request = change->of_key.request;
    const struct span key = text_at(json, "key");
    const struct span plan = text_at(json, "plan");
    const struct span length = text_at(json, "for");
    const struct span end = text_at(json, "until");
    const size_t n_read = (key.data != NULL ? 1U : 0) + (plan.data != NULL ? 1U : 0) +
                          (length.data != NULL ? 1U : 0) + (end.data != NULL ? 1U : 0);
    if (key.data == NULL || plan.data == NULL || n_read != json_object_size(json) ||
        (length.data != NULL && end.data != NULL)) {
        answer_problem(request, 400,
                       "say which key has which plan, {\"key\": \"client.ip=192.0.2.1\", "
                       "\"plan\": \"gold\"}, and for how long, \"for\": \"30d\", or until when, "
                       "\"until\": \"2036-01-01T00:00:00Z\"; all are strings");
        return false;
    }
    return read_key(request, key, &change->of_key.given) && read_plan(change, plan) &&
           ((length.data == NULL && end.data == NULL) ||
            request_read_term(request, length, end, &change->tenant.change.for_ms,
                              &change->tenant.until_ms));
}

static bool read_body(struct change *change)
{
    json_t *json = request_read_object(change->of_key.request);
    const bool is_good = json != NULL && read_members(change, json);
    json_decref(json);
    return is_good;
}

static struct change *change_of(struct key_change *of_key)
{
    return CONTAINER_OF(of_key, struct change, of_key);
}

static void answer_done(struct key_change *of_key)
{
    const struct change *change = change_of(of_key);
    struct admin_request *request = of_key->request;
    const struct key_given *given = &of_key->given;
    char shown[KEY_SHOWN_BYTES];
    const struct span key = key_resource_show(given, shown);
    json_t *json = json_object();
    describe_identity(&json, key_given_identity(given), given->hash);
    if (change->tenant.plan.len > 0) {
        const struct tenant tenant = {.plan = change->tenant.plan,
                                      .until_ms = change->tenant.until_ms,
                                      .by = change->tenant.by};
        set_terms(&json, &tenant);
        answer_note(request, "plan of %.*s is %.*s until %llu ms", SPAN_ARGS(key),
                    SPAN_ARGS(tenant.plan), (unsigned long long)tenant.until_ms);
    } else {
        answer_note(request, "no plan of %.*s any more", SPAN_ARGS(key));
    }
    answer_json(request, 200, json);
}

static void answer_refused(struct key_change *of_key)
{
    if (of_key->table->status == STATUS_NOT_FOUND) {
        answer_problem(of_key->request, 404, "the key has no plan");
    } else {
        answer_problem(of_key->request, 409, "there are %d tenants: unset some", TENANTS_MAX);
    }
}

/* The field is the identity where that is short: it shows no secret, and is found by one hash. */
static void name_fields(struct change *change)
{
    struct tenant_change *tenant = &change->tenant;
    struct text digits = text_of(change->digits, sizeof(change->digits));
    text_add_hex(&digits, change->of_key.given.hash, sizeof(change->of_key.given.hash));
    tenant->field = text_span(&digits);
    if (change->of_key.given.len > 0 && change->of_key.given.len <= REPLICA_FIELD_BYTES_MAX) {
        tenant->field = key_given_identity(&change->of_key.given);
        tenant->other = text_span(&digits);
    }
}

static enum store_outcome start(struct key_change *of_key)
{
    struct change *change = change_of(of_key);
    change->tenant.tenants = of_key->admin->options.tenants;
    change->tenant.by = span_of_text(of_key->by);
    name_fields(change);
    return tenant_change_start(&change->tenant);
}

static void handle(struct admin_request *request, bool is_set)
{
    if (request->policy->tenants_file.len > 0) {
        answer_problem(request, 409, "the tenants are those of the file %.*s: edit it",
                       SPAN_ARGS(request->policy->tenants_file));
        return;
    }
    struct change *change = calloc(1, sizeof(*change));
    if (change == NULL) {
        answer_problem(request, 503, "out of memory");
        return;
    }
    change->of_key.admin = request->admin;
    change->of_key.request = request;
    if ((is_set ? !read_body(change)
                : !read_key(request, request->captures[0], &change->of_key.given)) ||
        !key_change_may_wait(&change->of_key)) {
        free(change);
        return;
    }
    change->of_key.table = &change->tenant.change;
    change->of_key.answer_done = answer_done;
    change->of_key.answer_refused = answer_refused;
    change->of_key.list = "/v1/tenants";
    key_change_run(&change->of_key, start);
}

void tenant_set_handle(struct admin_request *request)
{
    handle(request, true);
}

void tenant_unset_handle(struct admin_request *request)
{
    handle(request, false);
}
