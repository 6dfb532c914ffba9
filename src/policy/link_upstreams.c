#include "policy/link.h"

enum { PROBLEM_BYTES_MAX = 256 };

/* Whether server number @i is one before it: equal in host and port, however written. */
static bool is_repeated(struct linker *linker, const struct spec_server *specs, size_t i)
{
    const struct endpoint *endpoint = &specs[i].url.endpoint;
    for (size_t j = 0; j < i; j++) {
        const struct endpoint *other = &specs[j].url.endpoint;
        if (specs[j].url.node != NULL && other->port == endpoint->port &&
            span_equals_ignore_case(other->host, endpoint->host) &&
            span_equals(other->unix_path, endpoint->unix_path)) {
            char buffer[PROBLEM_BYTES_MAX];
            struct text problem = text_of(buffer, sizeof(buffer));
            text_add_literal(&problem, " stands twice; a server that is to get more than the "
                                       "others has {url: ..., weight: 2}");
            link_report(linker, specs[i].url.node, "server", &problem);
            return true;
        }
    }
    return false;
}

static void link_servers(struct linker *linker, const struct spec_upstream *spec,
                         struct upstream_spec *upstream)
{
    const struct section_items *servers = &spec->servers;
    const struct spec_server *specs = servers->items;
    if (servers->node != NULL && (servers->n_items == 0 || servers->n_items > POLICY_SERVERS_MAX)) {
        diags_add(linker->diags, DIAG_ERROR, servers->node->line, servers->node->column,
                  "servers must have 1 to %d URLs", POLICY_SERVERS_MAX);
        return;
    }
    upstream->servers = link_alloc(linker, servers->n_items, sizeof(*upstream->servers));
    for (size_t i = 0; i < servers->n_items && upstream->servers != NULL; i++) {
        if (specs[i].url.node != NULL && !is_repeated(linker, specs, i)) {
            upstream->servers[upstream->n_servers++] = (struct server_spec){
                .endpoint = link_endpoint(linker, &specs[i].url.endpoint),
                .weight = specs[i].weight,
            };
        }
    }
}

static void link_balance_key(struct linker *linker, const struct spec_upstream *spec,
                             struct upstream_spec *upstream)
{
    const struct key *key = &spec->balance.key;
    upstream->balance = spec->balance.kind;
    upstream->balance_key.parts =
        link_alloc(linker, key->n_parts, sizeof(*upstream->balance_key.parts));
    for (size_t i = 0; i < key->n_parts && upstream->balance_key.parts != NULL; i++) {
        link_key_part(linker, &key->parts[i], &upstream->balance_key.parts[i]);
        upstream->balance_key.n_parts++;
    }
}

static void link_health(struct linker *linker, const struct spec_health *spec,
                        struct health_spec *health)
{
    const struct spec_answer *answers = spec->status.items;
    *health = (struct health_spec){
        .path = link_copy(linker, spec->path.text),
        .interval_us = spec->interval_us,
        .timeout_us = spec->timeout_us,
        .fall = spec->fall,
        .rise = spec->rise,
    };
    if (spec->status.node == NULL) {
        answer_set_add(&health->status, 200, 299);
    } else if (spec->status.n_items == 0) {
        diags_add(linker->diags, DIAG_ERROR, spec->status.node->line, spec->status.node->column,
                  "status must name at least one answer");
    }
    for (size_t i = 0; i < spec->status.n_items; i++) {
        if (answers[i].node != NULL && (answers[i].end != ANSWER_WHOLE || answers[i].first < 200)) {
            char buffer[PROBLEM_BYTES_MAX];
            struct text problem = text_of(buffer, sizeof(buffer));
            text_add_literal(&problem, ": a check ends with an answer, from 200 to 599");
            link_report(linker, answers[i].node, "status", &problem);
        } else if (answers[i].node != NULL) {
            answer_set_add(&health->status, answers[i].first, answers[i].last);
        }
    }
}

/* What is said of one server among others where there is one alone; that it is off may be said. */
static void warn_of_one(struct linker *linker, const struct spec_upstream *spec)
{
    const struct {
        const char *key;
        bool is_off;
    } said[] = {
        {"eject", spec->eject.values.failures == 0},
        {"slow_start", spec->slow_start_us == 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(said) && spec->servers.n_items == 1; i++) {
        const struct node *node = node_find(spec->place.node, span_of_text(said[i].key));
        if (node != NULL && !said[i].is_off) {
            diags_warn(linker->diags, warning_name(WARNING_NO_EFFECT), node->line, node->column,
                       "%s has no effect where there is one server alone", said[i].key);
        }
    }
}

static void link_eject(struct linker *linker, const struct spec_eject *spec,
                       struct eject_spec *eject)
{
    *eject = spec->values;
    if (eject->max_us < eject->for_us) {
        diags_add(linker->diags, DIAG_ERROR, spec->place.node->line, spec->place.node->column,
                  "eject: max must not be less than for");
    }
}

static void link_queue(struct linker *linker, const struct spec_upstream *spec,
                       struct upstream_spec *upstream)
{
    const struct node *node =
        spec->place.node != NULL ? node_find(spec->place.node, SPAN("queue")) : NULL;
    upstream->max_connections = spec->max_connections;
    upstream->queue = spec->queue.values;
    if (node != NULL && node_find(spec->place.node, SPAN("max_connections")) == NULL) {
        diags_add(linker->diags, DIAG_ERROR, node->line, node->column,
                  "queue has no meaning without \"max_connections\" beside it");
    }
}

static void link_host(struct linker *linker, const struct spec_upstream *spec,
                      struct upstream_spec *upstream)
{
    if (span_equals(spec->host.text, SPAN("preserve"))) {
        upstream->host = UPSTREAM_HOST_PRESERVE;
    } else if (span_equals(spec->host.text, SPAN("server"))) {
        upstream->host = UPSTREAM_HOST_SERVER;
    } else {
        upstream->host = UPSTREAM_HOST_NAME;
        upstream->host_name = link_copy(linker, spec->host.text);
    }
}

void link_upstreams(struct linker *linker)
{
    const struct section_items *items = &linker->spec->upstreams;
    const struct spec_upstream *specs = items->items;
    struct policy *policy = linker->policy;
    if (items->n_items > POLICY_UPSTREAMS_MAX) {
        diags_add(linker->diags, DIAG_ERROR, items->node->line, items->node->column,
                  "more than %d upstreams", POLICY_UPSTREAMS_MAX);
    }
    policy->upstreams = link_alloc(linker, items->n_items, sizeof(*policy->upstreams));
    if (policy->upstreams == NULL) {
        return;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        struct upstream_spec *upstream = &policy->upstreams[i];
        (void)link_check_name(linker, "upstream", specs[i].place.name, specs[i].place.name_node);
        upstream->name = link_copy(linker, specs[i].place.name);
        upstream->index = (uint32_t)i;
        upstream->connect_us = specs[i].timeout.connect_us;
        upstream->response_us = specs[i].timeout.response_us;
        upstream->idle_us = specs[i].timeout.idle_us;
        upstream->retries = specs[i].retries;
        upstream->reuse_after_head = specs[i].reuse_after_head;
        link_servers(linker, &specs[i], upstream);
        link_balance_key(linker, &specs[i], upstream);
        link_health(linker, &specs[i].health, &upstream->health);
        link_eject(linker, &specs[i].eject, &upstream->eject);
        upstream->slow_start_us = specs[i].slow_start_us;
        link_queue(linker, &specs[i], upstream);
        warn_of_one(linker, &specs[i]);
        link_host(linker, &specs[i], upstream);
    }
    policy->n_upstreams = items->n_items;
}
