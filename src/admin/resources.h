/* The resources of the admin API: one row per method and path.
 *
 * To add one: its handler in the file of its kind, declared here, and its row in resources.c. */

#ifndef SLUICE_ADMIN_RESOURCES_H
#define SLUICE_ADMIN_RESOURCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/access.h"
#include "admin/request.h"
#include "base/compiler.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/meters.h"

struct admin_resource {
    const char *method; /* GET answers HEAD, too */
    const char *path;   /* "/v1/limits/{limit}": a {name} is one segment, captured */
    enum admin_effect effect;
    void (*handle)(struct admin_request *request);
    const char *doc; /* one line for people */
};

/* --- the handlers --- */

void index_handle(struct admin_request *request);
void certificates_handle(struct admin_request *request);
void health_handle(struct admin_request *request);
void ready_handle(struct admin_request *request);
void status_handle(struct admin_request *request);
void history_handle(struct admin_request *request);
void live_handle(struct admin_request *request);
void page_handle(struct admin_request *request);
void access_handle(struct admin_request *request);
void metrics_handle(struct admin_request *request);
void top_handle(struct admin_request *request);
void keys_handle(struct admin_request *request);
void limits_handle(struct admin_request *request);
void limit_handle(struct admin_request *request);
void key_handle(struct admin_request *request);
void reset_handle(struct admin_request *request);
void routes_handle(struct admin_request *request);
void explain_handle(struct admin_request *request);
void replay_handle(struct admin_request *request);
void check_handle(struct admin_request *request);
void recording_state_handle(struct admin_request *request);
void recording_start_handle(struct admin_request *request);
void recording_stop_handle(struct admin_request *request);
void recording_forget_handle(struct admin_request *request);
void policy_handle(struct admin_request *request);
void upstreams_handle(struct admin_request *request);
void reload_handle(struct admin_request *request);
void reload_state_handle(struct admin_request *request);

void bans_handle(struct admin_request *request);
void ban_handle(struct admin_request *request);
void unban_handle(struct admin_request *request);
void exempt_handle(struct admin_request *request);
void unexempt_handle(struct admin_request *request);

void tenants_handle(struct admin_request *request);
void tenant_handle(struct admin_request *request);
void tenant_set_handle(struct admin_request *request);
void tenant_unset_handle(struct admin_request *request);

/* --- what several of them use --- */

/* The limit that the first capture names, in the request's policy. NULL: there is none, and the
 * request was answered with a 404. */
MUST_USE const struct limit_rule *request_find_limit(struct admin_request *request);

/* Add `status`, `reasons` and `store` of /readyz to *json. *status: of the answer, 200 or 503. */
void ready_describe(const struct admin_request *request, json_t **json, uint16_t *status);

/* --- the table --- */

extern const struct admin_resource ADMIN_RESOURCES[];
extern const size_t N_ADMIN_RESOURCES;

/* The result of a lookup by method and path. */
struct resource_match {
    const struct admin_resource *resource; /* NULL: status says why */
    /* Of the resource, or with 405 of those with other methods; NULL: there is none. */
    const char *path;
    enum admin_effect effect; /* also set without a resource, from the method */
    uint16_t status;          /* 0, 400, 404 or 405 */
    const char *reason;       /* with 400; static */
    struct span allow;        /* with 405: the supported methods, in the allow buffer */
    struct span captures[ADMIN_CAPTURES_MAX];
};

enum { RESOURCE_ALLOW_BYTES = 64 };

/* Find the resource of @method and @path, both as sent, @path from its first slash. Segments are
 * decoded once into @decoded, of at least path.len bytes; captures point into it. */
void resource_find(struct span method, struct span path, char *decoded,
                   char allow[RESOURCE_ALLOW_BYTES], struct resource_match *match);

/* --- the audit --- */

/* The audit: one line in the program's log for each change and for each refusal, with the client,
 * the request and its outcome.
 *
 * Log the answer in @request to @method, as sent, with the path that gave @match and the access
 * @verdict. Keys may be secrets: a key in the path of a resource is not logged, and the outcome
 * identifies it instead. If no resource matched, nothing of the path is logged. */
void audit_report(struct admin_request *request, const struct access_peer *peer,
                  const struct access_verdict *verdict, const struct resource_match *match,
                  struct span method);

/* Write the author that is stored with a change: "socket:uid=0", "token". NUL-terminated. */
void audit_write_by(char by[ADMIN_BY_BYTES_MAX], const struct access_peer *peer,
                    const struct access_verdict *verdict);

/* --- the most denied keys --- */

/* Find the identity of @given, which has only a hash, among the keys that @rule denied recently.
 * @secret is the store's. False: it is not among them. */
MUST_USE bool top_find_key(const struct meters *meters, const struct limit_rule *rule,
                           struct span secret, struct key_given *given);

/* Parts of a policy as JSON, for the resources. All functions return NULL without memory. */

/* "2026-11-21T09:59:52.123Z" */
json_t *describe_timestamp(uint64_t wall_us);

/* A list of strings. */
json_t *describe_spans(const struct span *spans, size_t n_spans);

/* Set "key" to the @identity of a key, unless it is empty: not known, and "hash" to its @hash of
 * HASH_IDENTITY_BYTES. */
void describe_identity(json_t **json, struct span identity, const uint8_t *hash);

/* One limit of the `limits` section with all of its rates. @routes, taken over, are the names of
 * the routes that use it. */
json_t *describe_rule(const struct limit_rule *rule, json_t *routes);

/* One route: its match and its actions. */
json_t *describe_route(const struct route *route);

/* Add @value, taken over, to @list or, as @key, to @object. Without memory *list or *object becomes
 * NULL, and stays that. */
void describe_append(json_t **list, json_t *value);
void describe_set(json_t **object, const char *key, json_t *value);

#endif /* SLUICE_ADMIN_RESOURCES_H */
