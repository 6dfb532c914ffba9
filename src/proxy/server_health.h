/* How one server is doing, as all workers of a process see it: whether it is in, and with what part
 * of its weight.
 *
 *     IN ── failures in a row ──► EJECTED ── its time is over ──► on TRIAL ── served ──► IN
 *      │                             ▲────────── not served, twice the time ────┘
 *      └─── checks fail ──► OUT ── checks pass ──► IN
 *
 * An ejected server gets one request when its time is over, and is in again when it serves that; if
 * not, it is out for twice as long. Who fails checks is in again when it passes them. What began
 * before a server went out, or came back, says nothing of it any more.
 *
 * The time is an argument, and so are the rules: a reload may change them, and the server stays how
 * it is. Everything is for any thread; a server without a mark takes no lock. */

#ifndef SLUICE_PROXY_SERVER_HEALTH_H
#define SLUICE_PROXY_SERVER_HEALTH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/upstream_spec.h"

enum { SERVER_WHOLE_WEIGHT = 1000 };

struct server_health {
    atomic_uint marks;              /* enum server_mark */
    _Atomic uint64_t next_trial_us; /* of an ejected server: when a request may try it */
    _Atomic uint64_t back_at_us;    /* when it came in last; 0: it was never out */
    _Atomic uint64_t forget_at_us;  /* when its ejections do not count any more */

    pthread_mutex_t lock;    /* of what follows, and of changes of what stands above */
    uint32_t n_failures;     /* in a row, while it is not ejected */
    uint32_t n_ejections;    /* one after another */
    uint64_t out_at_us;      /* when its latest ejection began */
    uint32_t n_check_passes; /* in a row */
    uint32_t n_check_failures;
};

/* What there is to say of a server; none: it is in, and nothing is remembered. */
enum server_mark {
    SERVER_EJECTED = 1 << 0,
    SERVER_FAILS_CHECKS = 1 << 1,
    SERVER_WARMING = 1 << 2,    /* slow_start: not its whole weight yet */
    SERVER_FAILING = 1 << 3,    /* n_failures > 0 */
    SERVER_REMEMBERED = 1 << 4, /* n_ejections > 0 */
};

enum server_standing {
    SERVER_IN,
    SERVER_DUE, /* ejected, and a request may try it: see server_health_claim_trial() */
    SERVER_OUT,
};

/* What a note has changed, for the log: exactly one caller is told of each change. */
enum server_change {
    SERVER_SAME,
    SERVER_WENT_OUT,
    SERVER_CAME_IN,
};

/* STATUS_NO_MEMORY. */
MUST_USE enum status server_health_init(struct server_health *health);
void server_health_close(struct server_health *health);

static inline unsigned server_health_marks(const struct server_health *health)
{
    return atomic_load_explicit(&health->marks, memory_order_acquire);
}

enum server_standing server_health_standing(struct server_health *health, uint64_t now_us);

/* Take the one request that may try a server that is DUE; false: another was first. Whoever has it
 * tells what came of it, or the next one waits for @patience_us. */
MUST_USE bool server_health_claim_trial(struct server_health *health, uint64_t now_us,
                                        uint64_t patience_us);

/* Nothing came of the trial: another may have it. */
void server_health_note_nothing(struct server_health *health, uint64_t now_us);

/* Of SERVER_WHOLE_WEIGHT, from 1: less while it is warming. */
uint32_t server_health_weight(struct server_health *health, const struct upstream_spec *spec,
                              uint64_t now_us);

/* A request that began at @began_us was served. */
enum server_change server_health_note_success(struct server_health *health,
                                              const struct upstream_spec *spec, uint64_t began_us,
                                              uint64_t now_us);

/* A request that began at @began_us was not; @is_trial: it was the one that tries. */
enum server_change server_health_note_failure(struct server_health *health,
                                              const struct upstream_spec *spec, uint64_t began_us,
                                              bool is_trial, uint64_t now_us);

/* A check was made. */
enum server_change server_health_note_check(struct server_health *health,
                                            const struct upstream_spec *spec, bool passed,
                                            uint64_t now_us);

/* No checks are made any more: what they said does not count. */
void server_health_forget_checks(struct server_health *health);

/* How long its latest ejection lasts at least, us. */
uint64_t server_health_out_us(struct server_health *health, const struct upstream_spec *spec);

#endif /* SLUICE_PROXY_SERVER_HEALTH_H */
