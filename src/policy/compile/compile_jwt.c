/* Compiles the section `jwt`: whose tokens count, by which keys and rules; and which of it each
 * route uses. */

#include "policy/compile/compile.h"
#include "policy/load/value_types.h"
#include "tls/tls_server.h"

enum {
    PROBLEM_BYTES_MAX = 512,
    URL_BYTES_MAX = 2048,
};

static const struct span HTTPS = {"https://", 8};

/* --- claims --- */

uint16_t compile_claim(struct compiler *compiler, struct span path, const struct node *node)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct policy *policy = compiler->policy;
    struct jwt_path parsed;
    if (!jwt_path_parse(path, &policy->arena, &parsed, &problem)) {
        node_report(compiler->diags, node, "jwt", ": %.*s", SPAN_ARGS(text_span(&problem)));
        return 0;
    }
    for (size_t i = 0; i < policy->n_claims; i++) {
        if (span_equals(policy->claims[i].text, parsed.text)) {
            return (uint16_t)i;
        }
    }
    if (policy->n_claims == JWT_CLAIMS_MAX) {
        node_error(compiler->diags, node, "the policy reads more than %d claims of tokens",
                   JWT_CLAIMS_MAX);
        return 0;
    }
    policy->claims[policy->n_claims] = parsed;
    return (uint16_t)policy->n_claims++;
}

/* --- providers --- */

/* Why @url cannot be asked for keys, or NULL. */
static const char *url_fault(struct span url)
{
    const size_t slash = span_find(span_from(url, HTTPS.len), '/');
    const struct span host = span_of(url.data + HTTPS.len, slash);
    for (size_t i = 0; i < url.len; i++) {
        if (url.data[i] <= ' ' || url.data[i] >= 0x7f) {
            return ": a URL has no spaces and no signs beyond ASCII";
        }
    }
    if (host.len == 0) {
        return ": the URL names no host";
    }
    if (span_find(host, '@') < host.len) {
        return ": a user and a password in the URL are not sent";
    }
    return url.len > URL_BYTES_MAX ? ": a URL has at most 2048 bytes" : NULL;
}

static struct jwt_keys *keys_of_url(struct compiler *compiler, const struct spec_jwt *spec)
{
    const bool has_ca = spec->ca.node != NULL && !span_equals(spec->ca.text, SPAN("system"));
    const char *fault = url_fault(spec->keys.text);
    const char *ca =
        has_ca && compiler->options->path != NULL ? compile_open_path(compiler, &spec->ca) : NULL;
    if (fault != NULL) {
        node_report(compiler->diags, spec->keys.node, "keys", "%s", fault);
        return NULL;
    }
    struct jwt_keys *keys =
        jwt_keys_of_url(spec->keys.text, ca != NULL ? span_of_text(ca) : SPAN(""));
    compiler->no_memory = compiler->no_memory || keys == NULL;
    return keys;
}

static struct jwt_keys *keep_set(struct compiler *compiler, struct jwt_key_set *set)
{
    struct jwt_keys *keys = jwt_keys_fixed(set);
    compiler->no_memory = compiler->no_memory || keys == NULL;
    return keys;
}

static struct jwt_keys *keys_of_file(struct compiler *compiler, const struct spec_text *file)
{
    char buffer[PROBLEM_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    const char *path = compiler->options->path != NULL ? compile_open_path(compiler, file) : NULL;
    if (path == NULL) {
        return NULL;
    }
    struct jwt_key_set *set = jwt_key_set_load(path, &problem);
    if (set == NULL) {
        node_error(compiler->diags, file->node, "%.*s %.*s", SPAN_ARGS(file->node->written),
                   SPAN_ARGS(text_span(&problem)));
        return NULL;
    }
    return keep_set(compiler, set);
}

static struct jwt_keys *keys_of_secret(struct compiler *compiler, const struct spec_text *secret)
{
    if (secret->text.len < JWT_SECRET_BYTES_MIN) {
        node_error(compiler->diags, secret->node, "secret must have at least %d bytes",
                   JWT_SECRET_BYTES_MIN);
        return NULL;
    }
    struct jwt_key_set *set = jwt_key_set_of_secret(secret->text);
    if (set == NULL) {
        compiler->no_memory = true;
        return NULL;
    }
    return keep_set(compiler, set);
}

static struct jwt_keys *compile_keys_of(struct compiler *compiler, const struct spec_jwt *spec)
{
    const bool is_url = spec->keys.node != NULL && span_starts_with(spec->keys.text, HTTPS);
    const struct node *ca = node_find(spec->position.node, SPAN("ca"));
    if (ca != NULL && !is_url) {
        node_error(compiler->diags, ca, "ca is for keys at https://");
    }
    if ((spec->keys.node == NULL) == (spec->secret.node == NULL)) {
        node_error(compiler->diags, spec->position.node,
                   "\"%.*s\" must have either \"keys\" or \"secret\"%s",
                   SPAN_ARGS(spec->position.name), spec->keys.node != NULL ? ", not both" : "");
        return NULL;
    }
    if (spec->secret.node != NULL) {
        return keys_of_secret(compiler, &spec->secret);
    }
    if (is_url) {
        return keys_of_url(compiler, spec);
    }
    if (span_starts_with(spec->keys.text, SPAN("http://"))) {
        node_report(compiler->diags, spec->keys.node, "keys",
                    ": keys are fetched over https:// alone: anybody on the way could replace "
                    "them");
        return NULL;
    }
    return keys_of_file(compiler, &spec->keys);
}

static unsigned compile_algorithms(struct compiler *compiler, const struct spec_jwt *spec)
{
    const int *algorithms = spec->algorithms.items;
    const unsigned secret = 1U << JWT_HS256;
    unsigned bits = 0;
    for (size_t i = 0; i < spec->algorithms.n_items; i++) {
        bits |= 1U << algorithms[i];
    }
    if (spec->secret.node != NULL) {
        if (spec->algorithms.node != NULL && bits != secret) {
            node_error(compiler->diags, spec->algorithms.node,
                       "with secret the algorithm is HS256 alone");
        }
        return secret;
    }
    if (spec->algorithms.n_items == 0 && spec->keys.node != NULL) {
        node_error(compiler->diags, spec->position.node,
                   "\"algorithms\" is missing in jwt \"%.*s\": write those that the issuer signs "
                   "with, such as [RS256]",
                   SPAN_ARGS(spec->position.name));
    } else if ((bits & secret) != 0) {
        node_error(compiler->diags, spec->algorithms.node,
                   "HS256 needs secret in place of keys: a public key is no secret");
    }
    return bits;
}

static struct span *compile_values(struct compiler *compiler, const struct section_items *items,
                                   const char *key, size_t *n)
{
    (void)compile_check_count(compiler, items, MATCH_VALUES_MAX, key, "values");
    return compile_texts(compiler, items, n);
}

/* Where tokens are: all terms of the list. */
static void compile_from(struct compiler *compiler, const struct spec_jwt *spec,
                         struct key_part *from)
{
    const struct spec_key_part *parts = spec->from.items;
    if (spec->from.node == NULL) {
        *from = (struct key_part){.terms = {{.source = KEY_HEADER,
                                             .name = SPAN("authorization"),
                                             .is_credentials = true}},
                                  .n_terms = 1};
        return;
    }
    (void)compile_check_count(compiler, &spec->from, KEY_ALTERNATIVES_MAX, "from must have",
                              "places");
    for (size_t i = 0; i < spec->from.n_items && from->n_terms < KEY_ALTERNATIVES_MAX; i++) {
        const struct key_term *term = &parts[i].part.terms[0];
        if (parts[i].node == NULL) {
            continue;
        }
        const enum key_origin origin = KEY_SOURCE_ROWS[term->source].origin;
        if (parts[i].part.n_terms > 1 ||
            (origin != KEY_FROM_HEADER && origin != KEY_FROM_COOKIE && origin != KEY_FROM_QUERY)) {
            node_report(compiler->diags, parts[i].node, "from",
                        " must be header.NAME, cookie.NAME or query.NAME; several stand in a list");
            continue;
        }
        from->terms[from->n_terms] = *term;
        from->terms[from->n_terms++].name = compile_copy(compiler, term->name);
    }
}

static void compile_provider(struct compiler *compiler, const struct spec_jwt *spec,
                             struct jwt_provider *provider)
{
    struct jwt_rules *rules = &provider->source.rules;
    if (spec->position.node == NULL) {
        return; /* reported */
    }
    (void)compile_check_name(compiler, "jwt", spec->position.name, spec->position.name_node);
    provider->name = compile_copy(compiler, spec->position.name);
    provider->on_invalid = (enum jwt_on_invalid)spec->on_invalid;
    provider->source.number = jwt_source_number();
    rules->algorithms = compile_algorithms(compiler, spec);
    rules->leeway_us = spec->leeway_us;
    rules->issuers =
        compile_values(compiler, &spec->issuers, "issuer must have", &rules->n_issuers);
    rules->audiences =
        compile_values(compiler, &spec->audiences, "audience must have", &rules->n_audiences);
    rules->types = compile_values(compiler, &spec->types, "types must have", &rules->n_types);
    compile_from(compiler, spec, &provider->from);
    provider->source.keys = compile_keys_of(compiler, spec);
}

void compile_jwt(struct compiler *compiler)
{
    const struct section_items *items = &compiler->spec->jwt;
    const struct spec_jwt *specs = items->items;
    struct policy *policy = compiler->policy;
    policy->claims = compile_alloc(compiler, JWT_CLAIMS_MAX, sizeof(*policy->claims));
    policy->providers = compile_alloc(compiler, items->n_items, sizeof(*policy->providers));
    (void)compile_check_count(compiler, items, JWT_PROVIDERS_MAX, "jwt must have", "entries");
    if (compiler->no_memory || items->n_items > JWT_PROVIDERS_MAX) {
        return;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        compile_provider(compiler, &specs[i], &policy->providers[policy->n_providers++]);
    }
}

/* --- routes --- */

static bool has_plan_of_token(const struct limit_rule *rule)
{
    for (size_t i = 0; i < rule->n_plan_sources; i++) {
        const struct plan_source *source = &rule->plan_sources[i];
        if (!source->is_tenant && KEY_SOURCE_ROWS[source->term.source].origin == KEY_FROM_TOKEN) {
            return true;
        }
    }
    return false;
}

/* What of @route reads tokens, for messages; NULL: nothing does. */
static const char *reader_of(const struct route *route)
{
    if (route->match.n_claims > 0) {
        return "its match";
    }
    for (size_t i = 0; i < route->n_rules; i++) {
        if (key_reads(&route->rules[i]->key, KEY_FROM_TOKEN)) {
            return "a limit of it";
        }
        if (has_plan_of_token(route->rules[i])) {
            return "the plan of a limit";
        }
    }
    if (route->upstream != NULL && key_reads(&route->upstream->balance_key, KEY_FROM_TOKEN)) {
        return "its upstream's balance";
    }
    return route->edits != NULL && route->edits->request.n_claims > 0 ? "its request.set" : NULL;
}

static const struct jwt_provider *find_provider(const struct policy *policy, struct span name)
{
    for (size_t i = 0; i < policy->n_providers; i++) {
        if (span_equals(policy->providers[i].name, name)) {
            return &policy->providers[i];
        }
    }
    return NULL;
}

static void compile_route_jwt(struct compiler *compiler, const struct spec_route *spec,
                              struct route *route)
{
    const struct policy *policy = compiler->policy;
    const char *reader = reader_of(route);
    const struct spec_text *name = &spec->jwt.provider;
    const bool is_said = spec->jwt.position.node != NULL;
    const struct node *node = is_said ? spec->jwt.position.node : spec->position.node;
    route->requires_token = is_said && spec->jwt.required;
    route->keeps_claims =
        (route->edits != NULL && route->edits->request.n_claims > 0) ||
        (route->upstream != NULL && key_reads(&route->upstream->balance_key, KEY_FROM_TOKEN));
    if (!is_said && reader == NULL) {
        return;
    }
    if (name->node != NULL) {
        route->jwt = find_provider(policy, name->text);
        if (route->jwt == NULL) {
            node_report(compiler->diags, name->node, "provider", " is not in the section jwt");
        }
        return;
    }
    if (policy->n_providers == 1) {
        route->jwt = &policy->providers[0];
    } else if (policy->n_providers == 0 && compiler->spec->jwt.node == NULL) {
        node_error(compiler->diags, node,
                   "%s reads tokens, and the policy has no section jwt that says whose",
                   reader != NULL ? reader : "jwt");
    } else if (policy->n_providers > 1) {
        node_error(compiler->diags, node,
                   "%s reads tokens, and the section jwt has several entries: write \"jwt: NAME\" "
                   "in the route",
                   reader != NULL ? reader : "the route");
    }
}

void compile_tokens(struct compiler *compiler)
{
    const struct spec_route *specs = compiler->spec->routes.items;
    struct policy *policy = compiler->policy;
    for (size_t i = 0; i < policy->n_rules; i++) {
        policy->rules[i].reads_token = key_reads(&policy->rules[i].key, KEY_FROM_TOKEN);
        policy->rules[i].has_plan_of_token = has_plan_of_token(&policy->rules[i]);
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        compile_route_jwt(compiler, &specs[i], &policy->routes[i]);
    }
    for (size_t i = 0; i < policy->n_providers; i++) {
        policy->providers[i].source.rules.claims = policy->claims;
        policy->providers[i].source.rules.n_claims = policy->n_claims;
    }
}
