#include "store/redis/redis_connection.h"

#include <stdlib.h>

#include "base/log.h"
#include "store/redis_options.h"
#include "tls/tls_client.h"
#include "tls/tls_stream.h"

static enum status make_context(struct redis_tls *tls, struct tls_client_config *config,
                                struct tls_client_context **context)
{
    struct certificate_problem problem = {.text = ""};
    if (config == NULL) {
        return STATUS_OK;
    }
    const enum status status =
        tls_client_context_new(tls_worker_library(tls->worker), config, context, &problem);
    if (status == STATUS_INVALID) {
        log_error("store.redis", "no TLS", "err=\"%s\"", problem.text);
    }
    return status;
}

static void release(struct redis_tls *tls)
{
    if (--tls->n_references == 0) {
        tls_client_context_release(tls->servers);
        tls_client_context_release(tls->sentinels);
        tls_worker_free(tls->worker);
        free(tls);
    }
}

static enum status make(struct loop *loop, struct redis_store_options *options)
{
    struct redis_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return STATUS_NO_MEMORY;
    }
    tls->n_references = 1;
    enum status status = tls_worker_new(loop, &tls->worker);
    if (status == STATUS_OK) {
        status = make_context(tls, options->tls, &tls->servers);
    }
    if (status == STATUS_OK) {
        status = make_context(tls, options->sentinels.tls, &tls->sentinels);
    }
    if (status != STATUS_OK) {
        release(tls);
        return status;
    }
    options->contexts = options->sentinels.contexts = tls;
    return STATUS_OK;
}

enum status redis_tls_open(struct loop *loop, struct redis_store_options *options)
{
    if (options->contexts != NULL) {
        options->contexts->n_references++;
        return STATUS_OK;
    }
    return options->tls == NULL && options->sentinels.tls == NULL ? STATUS_OK : make(loop, options);
}

void redis_tls_close(struct redis_store_options *options)
{
    if (options->contexts != NULL) {
        release(options->contexts);
        options->contexts = options->sentinels.contexts = NULL;
    }
}
