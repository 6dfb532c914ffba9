#include "policy/link.h"

#include "base/hash.h"

static void report_twice(struct linker *linker, const struct node *node)
{
    char buffer[32];
    struct text problem = text_of(buffer, sizeof(buffer));
    text_add_literal(&problem, " stands twice");
    link_report(linker, node, "listen", &problem);
}

static bool is_listed(const struct policy *policy, const struct endpoint *endpoint)
{
    for (size_t i = 0; i < policy->n_listeners; i++) {
        const struct endpoint *other = &policy->listeners[i].endpoint;
        const bool is_chosen = endpoint->unix_path.len == 0 && endpoint->port == 0;
        if (!is_chosen && other->port == endpoint->port &&
            span_equals(other->host, endpoint->host) &&
            span_equals(other->unix_path, endpoint->unix_path)) {
            return true;
        }
    }
    return false;
}

/* What @spec says that has no meaning for it. */
static void check_listener(struct linker *linker, const struct spec_listen *spec)
{
    const struct node *place = spec->place.node;
    const struct node *mode = place != NULL ? node_find(place, SPAN("mode")) : NULL;
    const struct node *proxy = place != NULL ? node_find(place, SPAN("proxy_protocol")) : NULL;
    if (mode != NULL && spec->address.endpoint.unix_path.len == 0) {
        diags_add(linker->diags, DIAG_ERROR, mode->line, mode->column,
                  "\"mode\" is for unix sockets alone");
    }
    if (proxy != NULL && spec->proxy_protocol && linker->spec->trusted_proxies.n_items == 0) {
        diags_add(linker->diags, DIAG_ERROR, proxy->line, proxy->column,
                  "\"proxy_protocol\" is believed of trusted_proxies alone, and there are none: "
                  "nobody could connect");
    }
}

static void link_listeners(struct linker *linker)
{
    const struct section_items *listen = &linker->spec->listen;
    const struct spec_listen *specs = listen->items;
    struct policy *policy = linker->policy;
    if (listen->node != NULL && (listen->n_items == 0 || listen->n_items > LISTENERS_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, listen->node->line, listen->node->column,
                  "listen must have 1 to %d addresses", LISTENERS_MAX);
        return;
    }
    policy->listeners = link_alloc(linker, listen->n_items, sizeof(*policy->listeners));
    for (size_t i = 0; i < listen->n_items && policy->listeners != NULL; i++) {
        const struct spec_endpoint *address = &specs[i].address;
        if (address->node == NULL) {
            continue;
        }
        if (is_listed(policy, &address->endpoint)) {
            report_twice(linker, address->node);
        }
        check_listener(linker, &specs[i]);
        policy->listeners[policy->n_listeners++] = (struct listener_section){
            .endpoint = link_endpoint(linker, &address->endpoint),
            .proxy_protocol = specs[i].proxy_protocol,
            .mode = specs[i].mode,
        };
    }
}

static void link_resolver(struct linker *linker)
{
    const struct section_items *servers = &linker->spec->resolver.servers;
    const struct spec_endpoint *specs = servers->items;
    struct resolver_section *resolver = &linker->policy->resolver;
    if (servers->node != NULL && (servers->n_items == 0 || servers->n_items > NAME_SERVERS_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, servers->node->line, servers->node->column,
                  "servers must have 1 to %d addresses", NAME_SERVERS_MAX);
        return;
    }
    resolver->servers = link_alloc(linker, servers->n_items, sizeof(*resolver->servers));
    for (size_t i = 0; i < servers->n_items && resolver->servers != NULL; i++) {
        if (specs[i].node != NULL) {
            resolver->servers[resolver->n_servers++] = link_endpoint(linker, &specs[i].endpoint);
        }
    }
}

/* A key that only Redis gives a meaning. */
static void refuse_without_redis(struct linker *linker, const struct node *store, const char *key)
{
    const struct node *value = node_find(store, span_of_text(key));
    if (value != NULL) {
        diags_add(linker->diags, DIAG_ERROR, value->line, value->column,
                  "\"%s\" in store has no meaning without \"redis\"", key);
    }
}

static void check_store(struct linker *linker)
{
    static const char *const OF_REDIS[] = {
        "cluster",  "user",       "password",  "sentinel_user", "sentinel_password", "prefix",
        "deadline", "on_failure", "instances", "coalesce",      "denial_cache",      "redis_cell"};
    const struct spec_store *spec = &linker->spec->store;
    const struct node *node = spec->place.node;
    if (node != NULL && node_find(node, SPAN("redis")) == NULL) {
        for (size_t i = 0; i < ARRAY_LEN(OF_REDIS); i++) {
            refuse_without_redis(linker, node, OF_REDIS[i]);
        }
    }
    if (spec->secret.text.len > HASH_SECRET_BYTES_MAX) {
        diags_add(linker->diags, DIAG_ERROR, spec->secret.node->line, spec->secret.node->column,
                  "secret must be at most %d bytes", HASH_SECRET_BYTES_MAX);
    }
    if (spec->prefix.node != NULL) {
        (void)link_check_name(linker, "prefix", spec->prefix.text, spec->prefix.node);
    }
}

static void link_store(struct linker *linker)
{
    const struct spec_store *spec = &linker->spec->store;
    check_store(linker);
    linker->policy->store = (struct store_section){
        .kind = spec->redis.n_items > 0 ? STORE_REDIS : STORE_MEMORY,
        .prefix = link_copy(linker, spec->prefix.text),
        .secret = link_copy(linker, spec->secret.text),
        .deadline_us = spec->deadline_us,
        .on_failure = (enum on_failure)spec->on_failure,
        .instances = spec->instances,
        .coalesce = spec->coalesce,
        .denial_cache = spec->denial_cache,
        .memory_bytes = spec->memory_bytes,
        .full = (enum store_full)spec->full,
    };
    link_redis(linker);
}

static void link_log(struct linker *linker)
{
    const struct span with_path = SPAN("syslog:");
    const struct spec_log *spec = &linker->spec->log;
    const struct span to = spec->to.text;
    struct log_section *log = &linker->policy->log;
    log->format = (enum log_format)spec->format;
    log->sample_ppm = spec->sample_ppm;
    if (span_equals(to, SPAN("stdout"))) {
        log->target = LOG_TO_STDOUT;
    } else if (span_equals(to, SPAN("syslog"))) {
        log->target = LOG_TO_SYSLOG;
        log->path = SPAN("/dev/log");
    } else if (span_starts_with(to, with_path)) {
        log->target = LOG_TO_SYSLOG;
        log->path = link_copy(linker, span_of(to.data + with_path.len, to.len - with_path.len));
    } else {
        log->target = LOG_TO_FILE;
        log->path = link_copy(linker, to);
    }
}

void link_settings(struct linker *linker)
{
    struct policy *policy = linker->policy;
    policy->workers = linker->spec->workers;
    policy->trusted_proxies = link_prefixes(linker, &linker->spec->trusted_proxies);
    policy->n_trusted_proxies = linker->spec->trusted_proxies.n_items;
    policy->watch = linker->spec->watch;
    policy->headers = (enum headers_style)linker->spec->headers;
    policy->max = linker->spec->max.values;
    policy->timeouts = linker->spec->timeouts.values;
    link_listeners(linker);
    link_resolver(linker);
    link_store(linker);
    link_log(linker);
}
