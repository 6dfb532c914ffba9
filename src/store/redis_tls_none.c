/* A build without TLS to Redis: the policy says so, and nobody comes here. */

#include "store/redis_tls.h"

enum status redis_tls_new(struct span host, struct redis_tls **tls)
{
    (void)host;
    (void)tls;
    return STATUS_INVALID;
}

void redis_tls_free(struct redis_tls *tls)
{
    (void)tls;
}

enum status redis_tls_begin(struct redis_tls *tls, struct redisAsyncContext *redis)
{
    (void)tls;
    (void)redis;
    return STATUS_UNREACHABLE;
}

const char *redis_tls_trouble(struct redis_tls *tls)
{
    (void)tls;
    return NULL;
}

void redis_tls_end(struct redis_tls *tls)
{
    (void)tls;
}
