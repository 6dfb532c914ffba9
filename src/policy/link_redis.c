#include "policy/link.h"

static void refuse(struct linker *linker, const struct node *node, const char *problem)
{
    diags_add(linker->diags, DIAG_ERROR, node->line, node->column, "%s", problem);
}

/* All URLs of `redis` as one. False: told, or there is none. */
static bool join_urls(struct linker *linker, struct redis_url *url)
{
    const struct section_items *items = &linker->spec->store.redis;
    const struct spec_redis *specs = items->items;
    if (items->node != NULL && items->n_items == 0) {
        refuse(linker, items->node, "redis must have at least one address");
        return false;
    }
    for (size_t i = 0; i < items->n_items; i++) {
        char buffer[256];
        struct text problem = text_of(buffer, sizeof(buffer));
        if (specs[i].node == NULL) {
            return false;
        }
        if (i == 0) {
            *url = specs[i].url;
        } else if (!redis_url_join(url, &specs[i].url, &problem)) {
            diags_add(linker->diags, DIAG_ERROR, specs[i].node->line, specs[i].node->column,
                      "redis: %.*s", SPAN_ARGS(text_span(&problem)));
            return false;
        }
    }
    return items->n_items > 0;
}

/* Why `cluster: true` does not go with @url, or NULL. */
static const char *why_no_cluster(const struct redis_url *url)
{
    if (url->kind == REDIS_SENTINEL) {
        return "a cluster has no sentinels: give redis the addresses of its nodes";
    }
    if (url->endpoints[0].unix_path.len > 0) {
        return "no socket leads to a cluster: give redis the address of a node";
    }
    return url->database != 0 ? "a cluster has database 0 alone: leave the database out of redis"
                              : NULL;
}

/* `cluster`, where it stands. False: it does not go with @url, and that was told. */
static bool apply_cluster(struct linker *linker, struct redis_url *url)
{
    const struct node *node = node_find(linker->spec->store.place.node, SPAN("cluster"));
    const char *problem = NULL;
    if (node == NULL) {
        return true;
    }
    if (linker->spec->store.cluster) {
        problem = why_no_cluster(url);
        url->kind = REDIS_CLUSTER;
    } else if (url->kind == REDIS_CLUSTER) {
        problem = "several addresses in redis are a cluster: leave one of them, or leave "
                  "\"cluster: false\" out";
    }
    if (problem != NULL) {
        refuse(linker, node, problem);
    }
    return problem == NULL;
}

/* An empty text is what a variable of the environment that is not set leaves. */
static void refuse_without_sentinel(struct linker *linker, const char *key,
                                    const struct spec_text *value)
{
    if (value->text.len > 0) {
        diags_add(linker->diags, DIAG_ERROR, value->node->line, value->node->column,
                  "\"%s\" in store has no meaning without redis+sentinel:// in redis", key);
    }
}

static void check_users(struct linker *linker, const struct store_section *store)
{
    const struct spec_store *spec = &linker->spec->store;
    if (spec->user.text.len > 0 && store->password.len == 0) {
        refuse(linker, spec->user.node, "user needs a password: without one nobody logs in");
    }
    if (spec->sentinel_user.text.len > 0 && store->sentinel_password.len == 0) {
        refuse(linker, spec->sentinel_user.node,
               "sentinel_user needs a sentinel_password: without one nobody logs in");
    }
}

static void link_endpoints(struct linker *linker, const struct redis_url *url,
                           struct redis_section *redis)
{
    redis->kind = url->kind;
    redis->tls = url->tls;
    redis->master = link_copy(linker, url->master);
    redis->n_endpoints = url->n_endpoints;
    for (size_t i = 0; i < url->n_endpoints; i++) {
        redis->endpoints[i] = link_endpoint(linker, &url->endpoints[i]);
    }
}

void link_redis(struct linker *linker)
{
    const struct spec_store *spec = &linker->spec->store;
    struct store_section *store = &linker->policy->store;
    struct redis_url url = {0};
    if (!join_urls(linker, &url) || !apply_cluster(linker, &url)) {
        return;
    }
    if (url.kind != REDIS_SENTINEL) {
        refuse_without_sentinel(linker, "sentinel_user", &spec->sentinel_user);
        refuse_without_sentinel(linker, "sentinel_password", &spec->sentinel_password);
    }
    link_endpoints(linker, &url, &store->redis);
    store->user = link_copy(linker, spec->user.text.len > 0 ? spec->user.text : url.login.user);
    store->password =
        link_copy(linker, spec->password.text.len > 0 ? spec->password.text : url.login.password);
    store->sentinel_user = link_copy(linker, spec->sentinel_user.text);
    store->sentinel_password = link_copy(linker, spec->sentinel_password.text);
    store->database = url.database;
    check_users(linker, store);
}
