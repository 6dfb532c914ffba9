/* The store: the endpoints and login of Redis, and what only some stores have. */

#include "base/hash.h"
#include "policy/compile/compile.h"

/* --- Redis --- */

/* Join all URLs of `redis`. False: an error is reported, or there is no URL. */
static bool join_urls(struct compiler *compiler, struct redis_url *url)
{
    const struct section_items *items = &compiler->spec->store.redis;
    const struct spec_redis *specs = items->items;
    if (items->node != NULL && items->n_items == 0) {
        node_error(compiler->diags, items->node, "redis must have at least one address");
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
            node_error(compiler->diags, specs[i].node, "redis: %.*s",
                       SPAN_ARGS(text_span(&problem)));
            return false;
        }
    }
    return items->n_items > 0;
}

/* Why `cluster: true` is invalid with @url, or NULL. */
static const char *why_no_cluster(const struct redis_url *url)
{
    if (url->kind == REDIS_SENTINEL) {
        return "a cluster has no sentinels: give redis the addresses of its nodes";
    }
    if (url->endpoints[0].unix_path.len > 0) {
        return "no socket leads to a cluster: give redis the address of a node";
    }
    return url->database != 0 ? "a cluster has only database 0: leave the database out of redis"
                              : NULL;
}

/* Apply `cluster` if it is given. False: it is invalid with @url; the error is reported. */
static bool apply_cluster(struct compiler *compiler, struct redis_url *url)
{
    const struct node *node = node_find(compiler->spec->store.position.node, SPAN("cluster"));
    const char *problem = NULL;
    if (node == NULL) {
        return true;
    }
    if (compiler->spec->store.cluster) {
        problem = why_no_cluster(url);
        url->kind = REDIS_CLUSTER;
    } else if (url->kind == REDIS_CLUSTER) {
        problem = "several addresses in redis are a cluster: leave one of them, or leave "
                  "\"cluster: false\" out";
    }
    if (problem != NULL) {
        node_error(compiler->diags, node, "%s", problem);
    }
    return problem == NULL;
}

/* An unset environment variable gives an empty text. */
static void refuse_without_sentinel(struct compiler *compiler, const char *key,
                                    const struct spec_text *value)
{
    if (value->text.len > 0) {
        node_error(compiler->diags, value->node,
                   "\"%s\" in store has no meaning without redis+sentinel:// in redis", key);
    }
}

static void check_users(struct compiler *compiler, const struct store_section *store)
{
    const struct spec_store *spec = &compiler->spec->store;
    if (spec->user.text.len > 0 && store->password.len == 0) {
        node_error(compiler->diags, spec->user.node,
                   "user needs a password: without one the login fails");
    }
    if (spec->sentinel_user.text.len > 0 && store->sentinel_password.len == 0) {
        node_error(compiler->diags, spec->sentinel_user.node,
                   "sentinel_user needs a sentinel_password: without one the login fails");
    }
}

static void compile_endpoints(struct compiler *compiler, const struct redis_url *url,
                              struct redis_section *redis)
{
    redis->kind = url->kind;
    redis->master = compile_copy(compiler, url->master);
    redis->n_endpoints = url->n_endpoints;
    for (size_t i = 0; i < url->n_endpoints; i++) {
        redis->endpoints[i] = compile_endpoint(compiler, &url->endpoints[i]);
    }
}

static void compile_redis(struct compiler *compiler)
{
    const struct spec_store *spec = &compiler->spec->store;
    struct store_section *store = &compiler->policy->store;
    struct redis_url url = {0};
    if (!join_urls(compiler, &url) || !apply_cluster(compiler, &url)) {
        return;
    }
    if (url.kind != REDIS_SENTINEL) {
        refuse_without_sentinel(compiler, "sentinel_user", &spec->sentinel_user);
        refuse_without_sentinel(compiler, "sentinel_password", &spec->sentinel_password);
    }
    compile_endpoints(compiler, &url, &store->redis);
    store->user =
        compile_copy(compiler, spec->user.text.len > 0 ? spec->user.text : url.login.user);
    store->password = compile_copy(compiler, spec->password.text.len > 0 ? spec->password.text
                                                                         : url.login.password);
    store->sentinel_user = compile_copy(compiler, spec->sentinel_user.text);
    store->sentinel_password = compile_copy(compiler, spec->sentinel_password.text);
    store->database = url.database;
    compile_redis_tls(compiler, url.tls, &store->redis);
    check_users(compiler, store);
}

/* --- the section --- */

static void check_store(struct compiler *compiler)
{
    const struct spec_store *spec = &compiler->spec->store;
    const struct section *section = SECTIONS_STORE.section;
    const struct node *store = spec->position.node;
    const bool has_redis = node_find(store, SPAN("redis")) != NULL;
    for (size_t i = 0; i < section->n_fields && !has_redis; i++) {
        const struct section_field *field = &section->fields[i];
        const struct node *value = node_find(store, span_of_text(field->key));
        if (value != NULL && field->presence == KEY_WITH_REDIS) {
            node_error(compiler->diags, value, "\"%s\" in store has no meaning without \"redis\"",
                       field->key);
        }
    }
    if (spec->secret.text.len > HASH_SECRET_BYTES_MAX) {
        node_error(compiler->diags, spec->secret.node, "secret must be at most %d bytes",
                   HASH_SECRET_BYTES_MAX);
    }
    if (spec->prefix.node != NULL) {
        (void)compile_check_name(compiler, "prefix", spec->prefix.text, spec->prefix.node);
    }
}

void compile_store(struct compiler *compiler)
{
    const struct spec_store *spec = &compiler->spec->store;
    struct store_section *store = &compiler->policy->store;
    check_store(compiler);
    *store = spec->values;
    store->kind = spec->redis.n_items > 0 ? STORE_REDIS : STORE_MEMORY;
    store->prefix = compile_copy(compiler, spec->prefix.text);
    store->secret = compile_copy(compiler, spec->secret.text);
    compile_redis(compiler);
}
