/* Happy path: what the process needs for the policy is opened ─► each worker makes what it needs,
 * beside what it has ─► all are ready ─► unix sockets, with their files, and given ones that the
 * new policy does not name are closed, but for what each worker has of them and still accepts from
 * ─► each turns, as a whole, between two requests ─► what else the old policy had of the process,
 * and the new one has not, is let go.
 *
 * Failures: an address that somebody else listens on, a log file that cannot be opened, no memory:
 * nothing has changed. A store or a name that nobody answers for is waited for so long, and then
 * as good as any. A worker that does not answer is waited for as long as it takes, and the log
 * says so: until it has made what it needs, none turns, so that none is under a policy that
 * another may not come under. */

#include <assert.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/server_inner.h"

enum {
    PATIENCE_US = 3 * 1000 * 1000
}; /* until workers are ready; then, from line to line of the log */

static const char MODULE[] = "proxy.server";

/* --- the beginning --- */

/* Sockets for all workers; on failure for none. */
static enum status make_offers(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        struct worker_offer *offer = &server->workers[i].change.offer;
        const enum status status = server_outfit_offer(&server->next, false, offer);
        if (status != STATUS_OK) {
            while (i-- > 0) {
                worker_offer_close(&server->workers[i].change.offer, offer->n_listeners);
            }
            return status;
        }
    }
    return STATUS_OK;
}

static void join_all(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        server->workers[i].change.offer.edition = edition_join(server->next.edition);
    }
}

static void order_all(struct server *server, enum worker_order order)
{
    server->deadline_us = clock_monotonic_us() + PATIENCE_US;
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_change_order(&server->workers[i], order);
    }
}

enum status server_change_begin(struct server *server, const struct server_edition *edition)
{
    assert(server->phase == CHANGE_NONE);
    enum status status = server_outfit_open(&server->next, edition, &server->now);
    if (status != STATUS_OK) {
        return status;
    }
    status = make_offers(server);
    if (status != STATUS_OK) {
        server_outfit_discard(&server->next, &server->now);
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

/* The sockets of workers that have not turned are nobody's. */
static void close_offers(struct server *server)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        const struct worker_offer *offer = &server->workers[i].change.offer;
        worker_offer_close(offer, offer->n_listeners);
    }
}

static void let_go(struct server *server)
{
    close_offers(server);
    edition_leave(server->next.edition);
    server->next.edition = NULL;
    server_outfit_discard(&server->next, &server->now);
    server->phase = CHANGE_NONE;
}

static enum change_progress finish(struct server *server)
{
    struct server_outfit before = server->now;
    pthread_mutex_lock(&server->lock);
    server->now = server->next;
    pthread_mutex_unlock(&server->lock);
    server->next = (struct server_outfit){.edition = NULL};
    server->phase = CHANGE_NONE;
    listening_log(&server->now.listening);
    listening_succeed(&before.listening, &server->now.listening);
    if (before.log != server->now.log) {
        log_output_close(before.log);
    }
    entrance_check(server->now.edition->policy);
    edition_leave(before.edition);
    return CHANGE_IS_DONE;
}

/* --- on the way --- */

/* For @n of them, whose answer is due. */
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
    /* Counted before all that silent ones may become. */
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
    listening_part(&server->now.listening, &server->next.listening);
    order_all(server, WORKER_TURN);
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
        n_left = server->n_workers - count(server, WORKER_TURNED);
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
    listening_close(&server->next.listening);
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
