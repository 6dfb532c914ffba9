/* Finds trust in all peers, what a public listener should not leave to a default, limits that allow
 * requests when Redis is unavailable, secrets in the file, and shadow verdicts that are not
 * visible. */

#include "policy/key_values.h"
#include "policy/lint/lint.h"
#include "policy/load/value_types.h"
#include "policy/units.h"

/* --- trusted_proxies --- */

void lint_trusts_all(struct lint *lint)
{
    const struct address_prefix *prefixes = lint->spec->trusted_proxies.items;
    const struct node *node = lint->spec->trusted_proxies.node;
    for (size_t i = 0; i < lint->spec->trusted_proxies.n_items; i++) {
        if (prefixes[i].base.family != ADDRESS_NONE && prefixes[i].bits == 0) {
            node_warn(lint->diags, node->kind == NODE_LIST ? &node->items[i] : node,
                      WARNING_TRUSTS_ALL,
                      "trusted_proxies contains every address, so each client chooses its own "
                      "address by X-Forwarded-For; name the addresses of your proxies alone");
        }
    }
}

/* --- public listeners --- */

/* The first listen address that clients of the internet may connect to; NULL: there is none. A name
 * may be any address. A peer of `proxy_protocol` is a trusted proxy. */
static const struct spec_listen *public_listener(const struct lint *lint)
{
    const struct spec_listen *specs = lint->spec->listen.items;
    for (size_t i = 0; i < lint->spec->listen.n_items; i++) {
        struct address address;
        if (!specs[i].proxy_protocol && address_parse(specs[i].address.endpoint.host, &address) &&
            !address_is_near(&address)) {
            return &specs[i];
        }
    }
    return NULL;
}

/* `trusted_proxies: []` says that there are none. */
void lint_missing_proxies(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct spec_listen *listen = public_listener(lint);
    for (size_t i = 0;
         listen != NULL && lint->spec->trusted_proxies.node == NULL && i < policy->n_rules; i++) {
        if (lint_key_ipv6_bits(&policy->rules[i].key) > 0) {
            node_warn(lint->diags, listen->address.node, WARNING_MISSING_PROXIES,
                      "do clients connect here directly? If a proxy or load balancer stands in "
                      "front, name its addresses in trusted_proxies, or limit \"%.*s\" counts all "
                      "its clients as one; if not, write trusted_proxies: []",
                      SPAN_ARGS(policy->rules[i].name));
            return;
        }
    }
}

/* Whether @match takes a method whose requests usually have a body. */
static bool takes_bodies(const struct route_match *match)
{
    for (size_t i = 0; i < match->n_methods; i++) {
        const enum method_id id = method_identify(match->methods[i]);
        if (id == METHOD_POST || id == METHOD_PUT || id == METHOD_PATCH) {
            return true;
        }
    }
    return match->n_methods == 0;
}

/* Warns once, at the first such route. */
void lint_default_body(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const bool is_asked = node_find(lint->spec->max.position.node, SPAN("body")) == NULL &&
                          public_listener(lint) != NULL;
    for (size_t i = 0; is_asked && i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        const struct node *node = lint->routes[i].position.node;
        if (route->upstream != NULL && route->match.n_clients == 0 && takes_bodies(&route->match) &&
            node_find(node, SPAN("max_body")) == NULL) {
            char buffer[32];
            struct text size = text_of(buffer, sizeof(buffer));
            units_write_size(&size, route->body_bytes_max);
            node_warn(lint->diags, node, WARNING_DEFAULT_BODY,
                      "route \"%.*s\" takes request bodies of up to %.*s, the default: write what "
                      "the API needs, as max: {body: 1MiB} for all routes or max_body for this one",
                      SPAN_ARGS(lint_name_of_route(lint, i)), SPAN_ARGS(text_span(&size)));
            return;
        }
    }
}

/* --- on_failure: allow --- */

/* What tells that @rule is against guesses or abuse, in words; NULL: nothing does. A limit on
 * guesses that counts every attempt looks like any other. */
static const char *purpose_of(const struct limit_rule *rule)
{
    const bool bans = rule->ban.after > 0 && !rule->ban.shadow;
    return lint_counted_guess(rule) != 0 ? "counts refused logins" : bans ? "bans clients" : NULL;
}

void lint_fails_open(struct lint *lint, const struct limit_rule *rule,
                     const struct spec_limit *spec)
{
    const struct node *own = node_find(spec->position.node, SPAN("on_failure"));
    const struct node *node =
        own != NULL ? own : node_find(lint->spec->store.position.node, SPAN("on_failure"));
    const char *purpose = purpose_of(rule);
    if (lint->policy->store.kind == STORE_REDIS && purpose != NULL && node != NULL &&
        !rule->limits[0].shadow && rule->limits[0].on_failure == ON_FAILURE_ALLOW) {
        node_warn(lint->diags, node, WARNING_FAILS_OPEN,
                  "limit \"%.*s\" %s, and lets every attempt pass while Redis is away: write "
                  "on_failure: local or deny",
                  SPAN_ARGS(rule->name), purpose);
    }
}

/* --- secrets --- */

/* Whether the file contains the value itself. A default, ${NAME:-default}, counts as a placeholder.
 */
static bool is_written_out(const struct node *node)
{
    const struct span written = node->written;
    for (size_t i = 0; i + 1 < written.len; i++) {
        if (written.data[i] == '$') {
            if (written.data[i + 1] == '{') {
                return false;
            }
            i++; /* "$$" is a literal dollar */
        }
    }
    return true;
}

static void check_secret(struct lint *lint, const char *what, const struct spec_text *value)
{
    if (value->node != NULL && value->text.len > 0 && is_written_out(value->node)) {
        node_warn(lint->diags, value->node, WARNING_PLAIN_SECRET,
                  "%s stands in the file: write ${NAME}, and set NAME in the environment", what);
    }
}

static void check_redis(struct lint *lint)
{
    const struct spec_store *store = &lint->spec->store;
    const struct spec_redis *urls = store->redis.items;
    for (size_t i = 0; i < store->redis.n_items; i++) {
        if (urls[i].url.login.password.len > 0 && is_written_out(urls[i].node)) {
            node_warn(lint->diags, urls[i].node, WARNING_PLAIN_SECRET,
                      "the password of Redis stands in the file: write ${NAME} for the URL or, "
                      "better, password: ${NAME}");
        }
    }
    check_secret(lint, "the password of Redis", &store->password);
    check_secret(lint, "the password of the sentinels", &store->sentinel_password);
    check_secret(lint, "the secret", &store->secret);
    const struct spec_jwt *providers = lint->spec->jwt.items;
    for (size_t i = 0; i < lint->spec->jwt.n_items; i++) {
        check_secret(lint, "the secret of tokens", &providers[i].secret);
    }
}

/* The first term of @rule whose values are always hashed, or NULL. */
static const struct key_term *hashed_term(const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->key.n_parts; i++) {
        for (size_t j = 0; j < rule->key.parts[i].n_terms; j++) {
            const struct key_term *term = &rule->key.parts[i].terms[j];
            if (KEY_SOURCE_ROWS[term->source].values == KEY_VISIBLE_NEVER) {
                return term;
            }
        }
    }
    return NULL;
}

/* Keys in Redis outlive the process and are readable by others. A secret that may come from the
 * environment gives no warning. */
void lint_empty_secret(struct lint *lint)
{
    const struct policy *policy = lint->policy;
    const struct node *secret = lint->spec->store.secret.node;
    const bool is_empty =
        policy->store.secret.len == 0 && (secret == NULL || is_written_out(secret));
    for (size_t i = 0; i < policy->n_rules && is_empty && policy->store.kind == STORE_REDIS; i++) {
        const struct key_term *term = hashed_term(&policy->rules[i]);
        if (term != NULL) {
            char buffer[KEY_TERM_TEXT_MAX];
            struct text name = text_of(buffer, sizeof(buffer));
            key_print_term(term, &name);
            node_warn(lint->diags, lint->limits[i].key.node, WARNING_EMPTY_SECRET,
                      "store.secret is empty, so that any reader can compute the hashes that stand "
                      "for values of %.*s, and find short or leaked values in Redis and "
                      "in logs: write secret: ${NAME}",
                      SPAN_ARGS(text_span(&name)));
            return;
        }
    }
}

/* Whether the value of the field @name is a credential. */
static bool is_credential(struct span name)
{
    static const char *const NAMES[] = {
        "authorization", "proxy-authorization", "cookie",         "x-api-key",    "api-key",
        "apikey",        "x-auth-token",        "x-access-token", "x-csrf-token", "x-secret",
    };
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (span_equals_ignore_case(name, span_of_text(NAMES[i]))) {
            return true;
        }
    }
    return false;
}

static void check_field(struct lint *lint, struct span name, const struct node *node)
{
    if (is_credential(name) && node->written.len > 0 && is_written_out(node)) {
        node_warn(lint->diags, node, WARNING_PLAIN_SECRET,
                  "the value of %.*s stands in the file: write ${NAME}, and set NAME in the "
                  "environment",
                  SPAN_ARGS(name));
    }
}

static void check_route(struct lint *lint, const struct spec_route *route)
{
    const struct spec_request_field *set = route->request.set.items;
    const struct section_list *asked = route->match.headers.items;
    for (size_t i = 0; i < route->request.set.n_items; i++) {
        if (set[i].value.node != NULL) {
            check_field(lint, set[i].position.name, set[i].value.node);
        }
    }
    for (size_t i = 0; i < route->match.headers.n_items; i++) {
        const struct spec_text *values = asked[i].values.items;
        for (size_t j = 0; j < asked[i].values.n_items; j++) {
            if (!value_is_switch(values[j].node)) {
                check_field(lint, asked[i].position.name, values[j].node);
            }
        }
    }
}

void lint_plain_secrets(struct lint *lint)
{
    check_redis(lint);
    check_secret(lint, "a token of operators", &lint->spec->admin.token.text);
    check_secret(lint, "a token of operators", &lint->spec->admin.read_token.text);
    for (size_t i = 0; i < lint->policy->n_routes; i++) {
        check_route(lint, &lint->routes[i]);
    }
}

/* --- shadows --- */

void lint_unseen_shadows(struct lint *lint, const struct limit_rule *rule,
                         const struct spec_limit *spec)
{
    const struct policy *policy = lint->policy;
    const bool is_seen = policy->log.format != LOG_FORMAT_OFF || policy->admin.n_listeners > 0;
    if (rule->limits[0].shadow && !is_seen) {
        node_warn(lint->diags, spec->position.name_node, WARNING_UNSEEN_SHADOW,
                  "limit \"%.*s\" is not enforced, log is off, and there is no admin: what it "
                  "would have denied is not shown anywhere",
                  SPAN_ARGS(rule->name));
    }
}
