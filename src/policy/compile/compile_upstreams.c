#include "policy/compile/compile.h"

#include "policy/load/node.h"

/* Whether an earlier server has the same host and port as server @i, in any spelling. */
static bool is_repeated(struct compiler *compiler, const struct spec_server *specs, size_t i)
{
    const struct endpoint *endpoint = &specs[i].url.endpoint;
    for (size_t j = 0; j < i; j++) {
        const struct endpoint *other = &specs[j].url.endpoint;
        if (specs[j].url.node != NULL && other->port == endpoint->port &&
            span_equals_ignore_case(other->host, endpoint->host) &&
            span_equals(other->unix_path, endpoint->unix_path)) {
            node_report(compiler->diags, specs[i].url.node, "server",
                        " stands twice; a server that is to get more than the others has "
                        "{url: ..., weight: 2}");
            return true;
        }
    }
    return false;
}

static void compile_servers(struct compiler *compiler, const struct spec_upstream *spec,
                            struct upstream_spec *upstream)
{
    const struct section_items *servers = &spec->servers;
    const struct spec_server *specs = servers->items;
    if (!compile_check_count(compiler, servers, POLICY_SERVERS_MAX, "servers must have", "URLs")) {
        return;
    }
    upstream->servers = compile_alloc(compiler, servers->n_items, sizeof(*upstream->servers));
    for (size_t i = 0; i < servers->n_items && upstream->servers != NULL; i++) {
        if (specs[i].url.node != NULL && !is_repeated(compiler, specs, i)) {
            upstream->servers[upstream->n_servers++] = (struct server_spec){
                .endpoint = compile_endpoint(compiler, &specs[i].url.endpoint),
                .weight = specs[i].weight,
            };
        }
    }
}

static void compile_balance_key(struct compiler *compiler, const struct spec_upstream *spec,
                                struct upstream_spec *upstream)
{
    const struct key *key = &spec->balance.key;
    upstream->balance = spec->balance.kind;
    upstream->balance_key.parts =
        compile_alloc(compiler, key->n_parts, sizeof(*upstream->balance_key.parts));
    for (size_t i = 0; i < key->n_parts && upstream->balance_key.parts != NULL; i++) {
        compile_key_part(compiler, &key->parts[i], spec->balance.node,
                         &upstream->balance_key.parts[i]);
        upstream->balance_key.n_parts++;
    }
}

static void compile_health(struct compiler *compiler, const struct spec_health *spec,
                           struct health_spec *health)
{
    const struct spec_answer *answers = spec->status.items;
    *health = spec->values;
    health->path = compile_copy(compiler, spec->path.text);
    if (spec->status.node == NULL) {
        answer_set_add(&health->status, 200, 299);
    } else if (spec->status.n_items == 0) {
        node_error(compiler->diags, spec->status.node, "status must name at least one answer");
    }
    for (size_t i = 0; i < spec->status.n_items; i++) {
        if (answers[i].node != NULL && (answers[i].end != ANSWER_WHOLE || answers[i].first < 200)) {
            node_report(compiler->diags, answers[i].node, "status",
                        ": a check ends with an answer, from 200 to 599");
        } else if (answers[i].node != NULL) {
            answer_set_add(&health->status, answers[i].first, answers[i].last);
        }
    }
}

/* The versions of HTTP that the servers speak. */
static void compile_protocol(struct compiler *compiler, const struct spec_upstream *spec,
                             struct upstream_spec *upstream)
{
    bool has_https = false;
    upstream->speaks_http2 = true;
    for (size_t i = 0; i < upstream->n_servers; i++) {
        const struct endpoint *server = &upstream->servers[i].endpoint;
        const bool is_https = server->is_https;
        has_https = has_https || is_https;
        upstream->speaks_http2 =
            upstream->speaks_http2 &&
            (server->is_h2c || (is_https && upstream->protocol == UPSTREAM_HTTP_2));
        upstream->may_speak_http2 = upstream->may_speak_http2 || server->is_h2c ||
                                    (is_https && upstream->protocol != UPSTREAM_HTTP_1_1);
    }
    const struct node *node = node_find(spec->position.node, SPAN("protocol"));
    if (node != NULL && !has_https) {
        node_warn(compiler->diags, node, WARNING_NO_EFFECT,
                  "protocol has no effect: no server of the upstream is https://");
    }
}

/* Warn of settings that need several servers if there is only one. Turning them off gives no
 * warning. */
static void warn_of_one(struct compiler *compiler, const struct spec_upstream *spec)
{
    const struct {
        const char *key;
        bool is_off;
    } said[] = {
        {"slow_start", spec->values.slow_start_us == 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(said) && spec->servers.n_items == 1; i++) {
        const struct node *node = node_find(spec->position.node, span_of_text(said[i].key));
        if (node != NULL && !said[i].is_off) {
            node_warn(compiler->diags, node, WARNING_NO_EFFECT,
                      "%s has no effect with only one server", said[i].key);
        }
    }
}

static void compile_eject(struct compiler *compiler, const struct spec_eject *spec,
                          struct eject_spec *eject)
{
    *eject = spec->values;
    if (eject->max_us < eject->for_us) {
        node_error(compiler->diags, spec->position.node, "eject: max must not be less than for");
    }
}

static void compile_queue(struct compiler *compiler, const struct spec_upstream *spec,
                          struct upstream_spec *upstream)
{
    const struct node *node = node_find(spec->position.node, SPAN("queue"));
    upstream->queue = spec->queue.values;
    if (node != NULL && node_find(spec->position.node, SPAN("max_connections")) == NULL) {
        node_error(compiler->diags, node,
                   "queue has no meaning without \"max_connections\" beside it");
    }
}

struct buffer_spec compile_buffer(struct compiler *compiler, const struct spec_buffer *spec,
                                  const struct node *node)
{
    /* Buffers consist of whole blocks. */
    const uint64_t n_blocks = compiler->spec->max.values.buffered_bytes / SMALL_BLOCK_BYTES;
    const uint64_t share_bytes = n_blocks / BODY_BUFFER_SHARES * SMALL_BLOCK_BYTES;
    if (node != NULL && spec->values.bytes > share_bytes) {
        node_error(
            compiler->diags, node,
            "buffer: its size is more than an eighth of max.buffered in blocks of 8KiB, which "
            "is all that one client may have: %lluB",
            (unsigned long long)share_bytes);
    }
    return spec->values;
}

static void compile_host(struct compiler *compiler, const struct spec_upstream *spec,
                         struct upstream_spec *upstream)
{
    if (span_equals(spec->host.text, SPAN("preserve"))) {
        upstream->host = UPSTREAM_HOST_PRESERVE;
    } else if (span_equals(spec->host.text, SPAN("server"))) {
        upstream->host = UPSTREAM_HOST_SERVER;
    } else {
        upstream->host = UPSTREAM_HOST_NAME;
        upstream->host_name = compile_copy(compiler, spec->host.text);
    }
}

static void note_response_max(struct policy *policy, const struct upstream_spec *upstream)
{
    if (upstream->head_bytes_max > policy->response_head_bytes_max) {
        policy->response_head_bytes_max = upstream->head_bytes_max;
    }
    if (upstream->n_fields_max > policy->response_fields_max) {
        policy->response_fields_max = upstream->n_fields_max;
    }
}

void compile_upstreams(struct compiler *compiler)
{
    const struct section_items *items = &compiler->spec->upstreams;
    const struct spec_upstream *specs = items->items;
    struct policy *policy = compiler->policy;
    if (items->n_items > POLICY_UPSTREAMS_MAX) {
        node_error(compiler->diags, items->node, "more than %d upstreams", POLICY_UPSTREAMS_MAX);
    }
    policy->upstreams = compile_alloc(compiler, items->n_items, sizeof(*policy->upstreams));
    if (policy->upstreams == NULL) {
        return;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        struct upstream_spec *upstream = &policy->upstreams[i];
        *upstream = specs[i].values;
        if (!specs[i].is_url) {
            (void)compile_check_name(compiler, "upstream", specs[i].position.name,
                                     specs[i].position.name_node);
        }
        upstream->name = compile_copy(compiler, specs[i].position.name);
        upstream->index = (uint32_t)i;
        upstream->connect_us = specs[i].timeout.connect_us;
        upstream->response_us = specs[i].timeout.response_us;
        upstream->idle_us = specs[i].timeout.idle_us;
        compile_servers(compiler, &specs[i], upstream);
        compile_balance_key(compiler, &specs[i], upstream);
        compile_health(compiler, &specs[i].health, &upstream->health);
        compile_eject(compiler, &specs[i].eject, &upstream->eject);
        compile_queue(compiler, &specs[i], upstream);
        upstream->buffer = compile_buffer(compiler, &specs[i].buffer,
                                          node_find(specs[i].position.node, SPAN("buffer")));
        warn_of_one(compiler, &specs[i]);
        compile_host(compiler, &specs[i], upstream);
        compile_protocol(compiler, &specs[i], upstream);
        compile_upstream_tls(compiler, &specs[i], upstream);
        note_response_max(policy, upstream);
    }
    policy->n_upstreams = items->n_items;
}

void compile_balance(struct compiler *compiler)
{
    const struct spec_upstream *upstreams = compiler->spec->upstreams.items;
    const struct policy *policy = compiler->policy;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        if (route->upstream == NULL || route->upstream->balance != BALANCE_HASH) {
            continue;
        }
        const struct node *node = upstreams[route->upstream->index].balance.node;
        const struct key_term *lacking =
            compile_lacking_capture(route, &route->upstream->balance_key);
        if (lacking != NULL && !node->expanded) {
            node_report(compiler->diags, node, "balance",
                        ": the path of route \"%.*s\", which leads here, has no {%.*s}",
                        SPAN_ARGS(quote_clip(route->name)), SPAN_ARGS(quote_clip(lacking->name)));
        }
    }
}
