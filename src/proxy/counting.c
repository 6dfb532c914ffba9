/* Where a request is counted: what its limits said when the store has answered, the
 * rest with its log line. */

#include "proxy/counting.h"

#include <stdlib.h>

#include "proxy/worker.h"

struct upstream_meters *counting_upstream(const struct exchange *exchange)
{
    return counter_table_at(&exchange->worker->meters->upstreams, exchange->route->upstream->meter);
}

struct server_meters *counting_server(const struct upstream_server *server)
{
    return counter_table_at(&server->group->worker->meters->servers, server->spec->meter);
}

/* --- offenders --- */

/* NULL: there are as many as may be, or no memory. */
COLD static struct heavy_hitters *make_top(struct worker_meters *meters, struct limit_meters *limit)
{
    struct heavy_hitters *top = meters->n_tops < METER_TOPS_MAX ? calloc(1, sizeof(*top)) : NULL;
    if (top != NULL) {
        meters->n_tops++;
        atomic_store_explicit(&limit->top, top, memory_order_release);
    }
    return top;
}

static struct heavy_hitters *top_of(struct limit_meters *limit)
{
    return atomic_load_explicit(&limit->top, memory_order_relaxed);
}

static void note_denied(struct worker_meters *meters, struct limit_meters *limit,
                        struct admission *admission, size_t i)
{
    struct heavy_hitters *top = top_of(limit);
    if (top == NULL) {
        top = make_top(meters, limit);
    }
    if (top != NULL) {
        heavy_hitters_deny(top, charges_keep_hash(admission->charges, i), admission->charges[i].key,
                           admission->decision.now_us);
    }
}

/* How many allowed ones to pass over: as many as METER_TOP_SAMPLING says on average, but nobody can
 * know which is the next (xorshift64). */
static uint32_t draw_gap(struct worker_meters *meters)
{
    meters->chance ^= meters->chance << 13;
    meters->chance ^= meters->chance >> 7;
    meters->chance ^= meters->chance << 17;
    return 1 + (uint32_t)((meters->chance >> 32) % (2 * METER_TOP_SAMPLING - 1));
}

static void note_allowed(struct worker_meters *meters, const struct limit_meters *limit,
                         const struct charge *charge)
{
    struct heavy_hitters *top = atomic_load_explicit(&limit->top, memory_order_relaxed);
    if (LIKELY(top == NULL) || --meters->sample_after > 0) {
        return;
    }
    meters->sample_after = draw_gap(meters);
    heavy_hitters_allow(top, charge_hash(charge), METER_TOP_SAMPLING);
}

/* --- a decision --- */

static enum meter_saying saying_of(const struct admission *admission, size_t i)
{
    if (admission_is_shadow_denial(admission, i)) {
        return METER_LIMIT_WOULD_DENY;
    }
    return admission->charges[i].verdict.allowed ? METER_LIMIT_ALLOWED : METER_LIMIT_DENIED;
}

static void note_charge(struct worker_meters *meters, struct admission *admission, size_t i)
{
    const struct decision *decision = &admission->decision;
    const struct charge *charge = &admission->charges[i];
    struct limit_meters *limit = counter_table_at(&meters->limits, charge->limit->meter);
    const enum meter_saying saying = saying_of(admission, i);
    if (admission_speaks(admission, i)) { /* a request counts once for a limit */
        counter_up(&limit->decisions[saying][decision->source]);
    }
    if (saying == METER_LIMIT_ALLOWED) {
        note_allowed(meters, limit, charge);
    } else {
        note_denied(meters, limit, admission, i);
    }
}

void counting_note_decision(struct exchange *exchange)
{
    struct worker_meters *meters = exchange->worker->meters;
    const struct decision *decision = &exchange->admission.decision;
    if (decision->source != DECISION_BAN) {
        latency_add(&meters->decision, exchange->decide_us);
    }
    if (decision->status != STATUS_OK) {
        return;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        if (!decision->charges[i].untold) {
            note_charge(meters, &exchange->admission, i);
        }
    }
}

/* --- the end --- */

static enum meter_verdict verdict_of(const struct exchange *exchange)
{
    const struct decision *decision = &exchange->admission.decision;
    if (exchange->admission.lacked != NULL) {
        return METER_DENIED;
    }
    if (decision->n_charges == 0) {
        return METER_NONE;
    }
    if (exchange->is_decision_pending) {
        return METER_UNKNOWN;
    }
    if (decision->status != STATUS_OK) {
        return METER_UNDECIDED;
    }
    return decision->allowed ? METER_ALLOWED : METER_DENIED;
}

static size_t class_of(const struct exchange *exchange)
{
    const size_t class = exchange->is_response_started ? exchange->out.status / 100U : 0;
    return class < METER_CLASSES ? class : 0;
}

void counting_note_end(const struct exchange *exchange, uint64_t now_us)
{
    struct worker_meters *meters = exchange->worker->meters;
    struct route_meters *route = counter_table_at(
        &meters->routes, exchange->route != NULL ? exchange->route->meter : METER_NO_ROUTE);
    counter_up(&route->requests[class_of(exchange)][verdict_of(exchange)]);
    latency_add(&meters->total, now_us - exchange->started_us);
    counter_add(&meters->request_bytes, exchange->request_bytes);
    counter_add(&meters->response_bytes, exchange->response_bytes);
}

/* --- a server --- */

void counting_note_failure(const struct exchange *exchange, enum upstream_outcome outcome)
{
    static const enum meter_failure FAILURES[] = {
        [OUTCOME_UNREACHABLE] = METER_UNREACHABLE, [OUTCOME_UNACCEPTED] = METER_UNACCEPTED,
        [OUTCOME_UNANSWERED] = METER_UNANSWERED,   [OUTCOME_LOST] = METER_LOST,
        [OUTCOME_INVALID] = METER_INVALID,         [OUTCOME_BAD_GATEWAY] = METER_BAD_GATEWAY,
    };
    if (outcome != OUTCOME_INCONCLUSIVE) {
        counter_up(&counting_server(exchange->server)->failures[FAILURES[outcome]]);
    }
}
