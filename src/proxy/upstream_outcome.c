#include "proxy/upstream_outcome.h"

#include "base/clock.h"
#include "base/log.h"
#include "proxy/counting.h"
#include "proxy/upstream_process.h"

static const char *const REASONS[] = {
    [OUTCOME_SERVED] = "",
    [OUTCOME_UNREACHABLE] = "it cannot be reached",
    [OUTCOME_UNACCEPTED] = "it accepts no connection in time",
    [OUTCOME_UNANSWERED] = "it does not answer in time",
    [OUTCOME_LOST] = "it closes connections before its answer is complete",
    [OUTCOME_INVALID] = "its answers are not valid HTTP",
    [OUTCOME_BAD_GATEWAY] = "it answers 502, 503 or 504",
    [OUTCOME_INCONCLUSIVE] = "",
};

static void log_out(struct upstream_server *server, const char *why)
{
    struct server_health *health = &server->process->health;
    const bool is_ejected = (server_health_marks(health) & SERVER_EJECTED) != 0;
    log_warn("proxy.upstream", "server is out", "upstream=%.*s server=%.*s why=\"%s\" until=%s",
             SPAN_ARGS(server->group->spec->name), SPAN_ARGS(server->endpoint->text), why,
             is_ejected ? "trial" : "checks");
}

static void log_in(const struct upstream_server *server)
{
    log_info("proxy.upstream", "server is in", "upstream=%.*s server=%.*s",
             SPAN_ARGS(server->group->spec->name), SPAN_ARGS(server->endpoint->text));
}

void upstream_outcome_announce(struct upstream_server *server, enum server_change change,
                               const char *why)
{
    if (change == SERVER_SAME) {
        return;
    }
    if (change == SERVER_WENT_OUT) {
        counter_up(&counting_server(server)->outages);
        log_out(server, why);
    } else {
        log_in(server);
    }
    if (server->group->is_limited && upstream_queue_is_used(&server->group->process->queue)) {
        upstream_queue_serve(server->group, clock_monotonic_us());
    }
}

void upstream_outcome_tell(struct upstream_server *server, struct upstream_choice *choice,
                           uint64_t began_us, enum upstream_outcome outcome)
{
    struct server_health *health = &server->process->health;
    const uint64_t now_us = clock_monotonic_us();
    const bool is_trial = choice->is_trial;
    enum server_change change = SERVER_SAME;
    choice->is_trial = false;
    if (outcome == OUTCOME_SERVED) {
        change = server_health_note_success(health, server->group->spec, began_us, now_us);
    } else if (outcome != OUTCOME_INCONCLUSIVE) {
        change =
            server_health_note_failure(health, server->group->spec, began_us, is_trial, now_us);
    } else if (is_trial) {
        server_health_note_nothing(health, now_us);
    }
    upstream_outcome_announce(server, change, REASONS[outcome]);
}
