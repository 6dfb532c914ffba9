#include "proxy/upstream/server_health.h"

#include <assert.h>

enum status server_health_init(struct server_health *health)
{
    *health = (struct server_health){.n_failures = 0};
    return pthread_mutex_init(&health->lock, NULL) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

void server_health_close(struct server_health *health)
{
    pthread_mutex_destroy(&health->lock);
}

static bool has_mark(const struct server_health *health, enum server_mark mark)
{
    return (server_health_marks(health) & mark) != 0;
}

static void set_mark(struct server_health *health, enum server_mark mark, bool is_set)
{
    if (is_set) {
        atomic_fetch_or_explicit(&health->marks, mark, memory_order_release);
    } else {
        atomic_fetch_and_explicit(&health->marks, ~(unsigned)mark, memory_order_release);
    }
}

static uint64_t read_us(const _Atomic uint64_t *time_us)
{
    return atomic_load_explicit(time_us, memory_order_relaxed);
}

static void write_us(_Atomic uint64_t *time_us, uint64_t us)
{
    atomic_store_explicit(time_us, us, memory_order_relaxed);
}

/* --- questions --- */

enum server_state server_health_state(struct server_health *health, uint64_t now_us)
{
    const unsigned marks = server_health_marks(health);
    if ((marks & SERVER_OUT_MARKS) == 0) {
        return SERVER_UP;
    }
    if ((marks & SERVER_FAILS_CHECKS) != 0 || now_us < read_us(&health->next_probe_us)) {
        return SERVER_DOWN;
    }
    return SERVER_PROBE_DUE;
}

bool server_health_claim_trial(struct server_health *health, uint64_t now_us, uint64_t patience_us)
{
    uint64_t due_us = read_us(&health->next_probe_us);
    return now_us >= due_us && atomic_compare_exchange_strong_explicit(
                                   &health->next_probe_us, &due_us, now_us + patience_us,
                                   memory_order_relaxed, memory_order_relaxed);
}

void server_health_note_nothing(struct server_health *health, uint64_t now_us)
{
    write_us(&health->next_probe_us, now_us);
}

uint32_t server_health_weight(struct server_health *health, const struct upstream_spec *spec,
                              uint64_t now_us)
{
    if (!has_mark(health, SERVER_WARMING)) {
        return SERVER_WHOLE_WEIGHT;
    }
    const uint64_t back_at_us = read_us(&health->back_at_us);
    const uint64_t warm_us = now_us > back_at_us ? now_us - back_at_us : 0;
    if (warm_us >= spec->slow_start_us) {
        set_mark(health, SERVER_WARMING, false);
        return SERVER_WHOLE_WEIGHT;
    }
    const uint64_t weight = warm_us * SERVER_WHOLE_WEIGHT / spec->slow_start_us;
    return weight < SERVER_WHOLE_WEIGHT / 100 ? SERVER_WHOLE_WEIGHT / 100 : (uint32_t)weight;
}

/* --- changes; the lock is held --- */

static uint64_t length_of_ejection_us(const struct server_health *health,
                                      const struct upstream_spec *spec)
{
    const struct eject_spec *eject = &spec->eject;
    uint64_t us = eject->for_us;
    for (uint32_t i = 1; i < health->n_ejections && us < eject->max_us; i++) {
        us *= 2;
    }
    return us < eject->max_us ? us : eject->max_us;
}

static void eject(struct server_health *health, const struct upstream_spec *spec, uint64_t now_us)
{
    health->n_ejections += health->n_ejections < UINT32_MAX;
    health->n_failures = 0;
    health->n_check_passes = 0;
    health->out_at_us = now_us;
    write_us(&health->next_probe_us, now_us + length_of_ejection_us(health, spec));
    set_mark(health, SERVER_REMEMBERED, true);
    set_mark(health, SERVER_FAILING, false);
    set_mark(health, SERVER_EJECTED, true);
}

static void forget_failures(struct server_health *health)
{
    health->n_failures = 0;
    set_mark(health, SERVER_FAILING, false);
}

/* It was down and is up now. */
static void recover(struct server_health *health, const struct upstream_spec *spec, uint64_t now_us)
{
    write_us(&health->back_at_us, now_us);
    write_us(&health->forget_at_us, now_us + length_of_ejection_us(health, spec));
    forget_failures(health);
    set_mark(health, SERVER_WARMING, spec->slow_start_us > 0);
}

static void forget_ejections(struct server_health *health, uint64_t now_us)
{
    if (!has_mark(health, SERVER_EJECTED) && now_us >= read_us(&health->forget_at_us)) {
        health->n_ejections = 0;
        set_mark(health, SERVER_REMEMBERED, false);
    }
}

static enum server_change serve(struct server_health *health, const struct upstream_spec *spec,
                                uint64_t began_us, uint64_t now_us)
{
    if (!has_mark(health, SERVER_EJECTED)) {
        forget_failures(health);
        forget_ejections(health, now_us);
        return SERVER_SAME;
    }
    if (began_us < health->out_at_us) {
        return SERVER_SAME;
    }
    set_mark(health, SERVER_EJECTED, false);
    recover(health, spec, now_us);
    return has_mark(health, SERVER_FAILS_CHECKS) ? SERVER_SAME : SERVER_RECOVERED;
}

static void add_failure(struct server_health *health, uint32_t client, uint64_t now_us)
{
    if (health->n_failures == 0) {
        health->failed_client = client;
        health->failing_us = now_us;
    } else if (client != health->failed_client) {
        health->failed_client = SERVER_ANY_CLIENT;
    }
    health->n_failures++;
    set_mark(health, SERVER_FAILING, true);
}

/* Whether the failures in a row are enough. A single one that is enough is of one client always. */
static bool is_failing(const struct server_health *health, const struct eject_spec *eject,
                       uint64_t now_us)
{
    return health->n_failures >= eject->failures &&
           (eject->failures == 1 || health->failed_client == SERVER_ANY_CLIENT ||
            now_us >= health->failing_us + SERVER_ONE_CLIENT_US);
}

static enum server_change fail(struct server_health *health, const struct upstream_spec *spec,
                               uint64_t began_us, uint32_t client, bool is_probe, uint64_t now_us)
{
    const bool was_in = (server_health_marks(health) & SERVER_OUT_MARKS) == 0;
    if (has_mark(health, SERVER_EJECTED)) {
        if (is_probe) {
            eject(health, spec, now_us);
        }
        return SERVER_SAME;
    }
    if (began_us < read_us(&health->back_at_us) || spec->eject.failures == 0) {
        return SERVER_SAME;
    }
    add_failure(health, client, now_us);
    if (!is_failing(health, &spec->eject, now_us)) {
        return SERVER_SAME;
    }
    eject(health, spec, now_us);
    return was_in ? SERVER_WENT_DOWN : SERVER_SAME;
}

static enum server_change pass_check(struct server_health *health, const struct upstream_spec *spec,
                                     uint64_t now_us)
{
    health->n_check_failures = 0;
    health->n_check_passes += health->n_check_passes < UINT32_MAX;
    if (health->n_check_passes < spec->health.rise) {
        return SERVER_SAME;
    }
    if (!has_mark(health, SERVER_FAILS_CHECKS)) {
        write_us(&health->next_probe_us, now_us); /* if it is ejected: a probe is due now */
        return SERVER_SAME;
    }
    set_mark(health, SERVER_EJECTED, false); /* passed checks end an ejection, too */
    set_mark(health, SERVER_FAILS_CHECKS, false);
    recover(health, spec, now_us);
    return SERVER_RECOVERED;
}

static enum server_change fail_check(struct server_health *health, const struct upstream_spec *spec)
{
    const bool was_in = (server_health_marks(health) & SERVER_OUT_MARKS) == 0;
    health->n_check_passes = 0;
    health->n_check_failures += health->n_check_failures < UINT32_MAX;
    if (health->n_check_failures < spec->health.fall) {
        return SERVER_SAME;
    }
    set_mark(health, SERVER_FAILS_CHECKS, true);
    return was_in ? SERVER_WENT_DOWN : SERVER_SAME;
}

/* --- notes --- */

/* Whether a success changes nothing. Called without the lock. */
static bool is_no_news(const struct server_health *health, uint64_t now_us)
{
    const unsigned marks = server_health_marks(health);
    const unsigned news = marks & (SERVER_EJECTED | SERVER_FAILING);
    return news == 0 &&
           ((marks & SERVER_REMEMBERED) == 0 || now_us < read_us(&health->forget_at_us));
}

enum server_change server_health_note_success(struct server_health *health,
                                              const struct upstream_spec *spec, uint64_t began_us,
                                              uint64_t now_us)
{
    if (is_no_news(health, now_us)) {
        return SERVER_SAME;
    }
    pthread_mutex_lock(&health->lock);
    const enum server_change change = serve(health, spec, began_us, now_us);
    pthread_mutex_unlock(&health->lock);
    return change;
}

enum server_change server_health_note_failure(struct server_health *health,
                                              const struct upstream_spec *spec, uint64_t began_us,
                                              uint32_t client, bool is_probe, uint64_t now_us)
{
    pthread_mutex_lock(&health->lock);
    const enum server_change change = fail(health, spec, began_us, client, is_probe, now_us);
    pthread_mutex_unlock(&health->lock);
    return change;
}

bool server_health_counts_timeout(struct server_health *health, uint64_t began_us)
{
    const uint64_t latest_us = read_us(&health->timeout_us);
    const uint64_t apart_us = began_us > latest_us ? began_us - latest_us : latest_us - began_us;
    if (latest_us != 0 && apart_us < SERVER_TIMEOUTS_APART_US) {
        return false;
    }
    write_us(&health->timeout_us, began_us);
    return true;
}

enum server_change server_health_note_check(struct server_health *health,
                                            const struct upstream_spec *spec, bool passed,
                                            uint64_t now_us)
{
    pthread_mutex_lock(&health->lock);
    const enum server_change change =
        passed ? pass_check(health, spec, now_us) : fail_check(health, spec);
    pthread_mutex_unlock(&health->lock);
    return change;
}

void server_health_forget_checks(struct server_health *health)
{
    if (has_mark(health, SERVER_FAILS_CHECKS)) {
        pthread_mutex_lock(&health->lock);
        health->n_check_failures = 0;
        set_mark(health, SERVER_FAILS_CHECKS, false);
        pthread_mutex_unlock(&health->lock);
    }
}
