/* Happy path:
 *
 *   open what the process needs for the policy
 *   ─► each worker makes what it needs, beside what it has
 *   ─► all workers are ready
 *   ─► close unix sockets, with their files, and given sockets that the new policy does not name;
 *      workers still accept from their own copies
 *   ─► each worker turns to the policy, as a whole, between two requests
 *   ─► free what only the old policy had of the process
 *
 * Failures: if another process listens on an address, a log file cannot be opened, or there is no
 * memory, nothing has changed. A store or a name that does not answer is waited for until the
 * deadline; then the change goes on. A worker that does not answer is waited for without limit,
 * and the log says so. No worker turns before all have made what they need, so that none is under
 * a policy that another may not come under. */

#include <assert.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/server.h"
#include "proxy/server/server_inner.h"

/* For workers to be ready; after that, between two log lines about them. */
enum { PATIENCE_US = 3 * 1000 * 1000 };

static const char MODULE[] = "proxy.server";

/* --- the beginning --- */

/* Make sockets for all workers; on failure for none. */
static enum status make_offers(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        struct worker_offer *offer = &server->workers[i].change.offer;
        offer->generation = server->next.generation; /* a reference follows: join_all() */
        enum status status = server_resources_offer(&server->next, false, offer);
        if (status == STATUS_OK) {
            status = worker_make_tls(&server->workers[i], offer);
            if (status != STATUS_OK) {
                listening_close_offers(offer->listeners, offer->n_listeners);
                worker_drop_clients(offer);
            }
        }
        if (status != STATUS_OK) {
            offer->generation = NULL;
            while (i-- > 0) {
                worker_drop_clients(&server->workers[i].change.offer);
                server->workers[i].change.offer.generation = NULL;
                listening_close_offers(server->workers[i].change.offer.listeners,
                                       offer->n_listeners);
            }
            return status;
        }
    }
    return STATUS_OK;
}

static void join_all(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        server->workers[i].change.offer.generation =
            config_generation_acquire(server->next.generation);
    }
}

static void order_all(struct server *server, enum worker_order order)
{
    server->deadline_us = clock_monotonic_us() + PATIENCE_US;
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_change_order(&server->workers[i], order);
    }
}

enum status server_change_begin(struct server *server, const struct server_generation *generation)
{
    assert(server->phase == CHANGE_NONE);
    enum status status = server_resources_open(&server->next, generation, &server->now);
    if (status != STATUS_OK) {
        return status;
    }
    status = make_offers(server);
    if (status != STATUS_OK) {
        server_resources_discard(&server->next, &server->now);
        return status;
    }
    join_all(server);
    server->phase = CHANGE_PREPARES;
    order_all(server, WORKER_PREPARE);
    return STATUS_OK;
}

int server_change_fd(const struct server *server)
{
    return server->shared.change_fd;
}

/* --- the end --- */

static unsigned count(const struct server *server, enum worker_answer answer)
{
    unsigned n = 0;
    for (unsigned i = 0; i < server->n_workers; i++) {
        n += worker_change_answer(&server->workers[i]) == answer;
    }
    return n;
}

/* Close the sockets that no worker has taken over. */
static void close_offers(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        struct worker_offer *offer = &server->workers[i].change.offer;
        worker_drop_clients(offer);
        listening_close_offers(offer->listeners, offer->n_listeners);
    }
}

static void let_go(struct server *server)
{
    close_offers(server);
    config_generation_release(server->next.generation);
    server->next.generation = NULL;
    server_resources_discard(&server->next, &server->now);
    server->phase = CHANGE_NONE;
}

static enum change_progress finish(struct server *server)
{
    struct server_resources before = server->now;
    pthread_mutex_lock(&server->lock);
    server->now = server->next;
    pthread_mutex_unlock(&server->lock);
    server->next = (struct server_resources){.generation = NULL};
    server->phase = CHANGE_NONE;
    listening_log(&server->now.listening);
    listening_succeed(&before.listening, &server->now.listening);
    if (before.log != server->now.log) {
        log_output_close(before.log);
    }
    connection_limits_check(server->now.generation->policy);
    config_generation_release(before.generation);
    return CHANGE_IS_DONE;
}

/* --- on the way --- */

/* Wait for @n workers, whose answer is due. */
static enum change_progress wait_for_workers(struct server *server, unsigned n, uint64_t now_us)
{
    if (now_us >= server->deadline_us) {
        server->deadline_us = now_us + PATIENCE_US;
        log_warn(MODULE, "a worker does not answer: the change to another policy waits for it",
                 "workers=%u silent=%u", server->n_workers, n);
    }
    return CHANGE_IS_PENDING;
}

static enum change_progress go_on_preparing(struct server *server, uint64_t now_us)
{
    /* Silent workers are counted first: one of them may answer between the counts. */
    const unsigned n_silent = count(server, WORKER_IS_SILENT);
    const unsigned n_ready = count(server, WORKER_IS_READY);
    if (count(server, WORKER_FAILED) > 0) {
        log_error(MODULE, "no memory for another policy", "%s", "");
        server->phase = CHANGE_DROPS;
        order_all(server, WORKER_DROP);
        return CHANGE_IS_PENDING;
    }
    if (n_silent > 0) {
        return wait_for_workers(server, n_silent, now_us);
    }
    if (n_ready < server->n_workers && now_us < server->deadline_us) {
        return CHANGE_IS_PENDING;
    }
    if (n_ready < server->n_workers) {
        log_warn(MODULE, "not all is ready for another policy, which is in force all the same",
                 "workers=%u ready=%u hint=\"see what the log says of the store and of names\"",
                 server->n_workers, n_ready);
    }
    server->phase = CHANGE_TURNS;
    listening_close(&server->now.listening, &server->next.listening);
    order_all(server, WORKER_SWITCH);
    return CHANGE_IS_PENDING;
}

enum change_progress server_change_go_on(struct server *server, uint64_t now_us)
{
    uint64_t n_answers;
    unsigned n_left;
    (void)!read(server->shared.change_fd, &n_answers, sizeof(n_answers));
    switch (server->phase) {
    case CHANGE_NONE:
        return CHANGE_IS_NONE;
    case CHANGE_PREPARES:
        return go_on_preparing(server, now_us);
    case CHANGE_TURNS:
        n_left = server->n_workers - count(server, WORKER_SWITCHED);
        return n_left == 0 ? finish(server) : wait_for_workers(server, n_left, now_us);
    case CHANGE_DROPS:
        n_left = server->n_workers - count(server, WORKER_DROPPED);
        if (n_left > 0) {
            return wait_for_workers(server, n_left, now_us);
        }
        let_go(server);
        return CHANGE_IS_FAILED;
    }
    return CHANGE_IS_NONE;
}

uint64_t server_change_patience_us(const struct server *server, uint64_t now_us)
{
    if (server->phase == CHANGE_NONE) {
        return UINT64_MAX;
    }
    return server->deadline_us > now_us ? server->deadline_us - now_us : 0;
}

void server_change_abandon(struct server *server)
{
    listening_close(&server->next.listening, NULL);
    if (server->phase == CHANGE_PREPARES) {
        order_all(server, WORKER_DROP);
    }
}

void server_change_close(struct server *server)
{
    if (server->phase != CHANGE_NONE) {
        let_go(server);
    }
}
