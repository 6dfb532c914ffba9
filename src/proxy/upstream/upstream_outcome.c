#include "proxy/upstream/upstream_outcome.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_queue.h"

_Static_assert((int)OUTCOME_BAD_VALUE - (int)OUTCOME_UNREACHABLE == (int)METER_BAD_VALUE,
               "failures are counted in this order");

static const char *const REASONS[] = {
    [OUTCOME_SERVED] = "",
    [OUTCOME_UNREACHABLE] = "it cannot be reached",
    [OUTCOME_UNACCEPTED] = "it accepts no connection in time",
    [OUTCOME_INSECURE] = "TLS handshakes with it fail",
    [OUTCOME_UNANSWERED] = "it does not answer in time",
    [OUTCOME_LOST] = "it closes connections before its answer is complete",
    [OUTCOME_INVALID] = "its answers are not valid HTTP",
    [OUTCOME_BAD_GATEWAY] = "it answers 502, 503 or 504",
    [OUTCOME_LARGE_HEAD] = "",
    [OUTCOME_BAD_VALUE] = "",
    [OUTCOME_INCONCLUSIVE] = "",
};

void upstream_outcome_announce(struct upstream_server *server, enum server_change change,
                               const char *why)
{
    const unsigned marks = server_health_marks(&server->process->health);
    if (change == SERVER_SAME) {
        return;
    }
    if (change == SERVER_WENT_DOWN) {
        counter_up(&upstream_server_meters(server)->outages);
        log_warn("proxy.upstream", "server is down",
                 "upstream=%.*s server=%.*s why=\"%s\" until=%s%s",
                 SPAN_ARGS(server->group->spec->name), SPAN_ARGS(server->endpoint->text), why,
                 (marks & SERVER_EJECTED) != 0 ? "probe" : "checks",
                 upstream_choice_all_down(server->group, clock_monotonic_us())
                     ? " in_use=\"no server of the upstream is up\""
                     : "");
    } else {
        log_info("proxy.upstream", "server is up", "upstream=%.*s server=%.*s",
                 SPAN_ARGS(server->group->spec->name), SPAN_ARGS(server->endpoint->text));
    }
    if (server->group->is_limited && upstream_queue_is_used(&server->group->process->queue)) {
        upstream_queue_serve(server->group, clock_monotonic_us());
    }
}

/* What a request failed for that had a connection may be what it says. */
static uint32_t client_of(enum upstream_outcome outcome, const struct address *client)
{
    if (outcome < OUTCOME_UNANSWERED) {
        return SERVER_ANY_CLIENT;
    }
    const struct address known = address_of_client(client);
    return (uint32_t)hash_shared(span_of((const char *)&known, sizeof(known))).low | 1;
}

void upstream_outcome_report(struct upstream_server *server, struct upstream_choice *choice,
                             const struct address *client, uint64_t began_us,
                             enum upstream_outcome outcome)
{
    struct server_health *health = &server->process->health;
    const uint64_t now_us = clock_monotonic_us();
    const bool is_probe = choice->is_probe;
    enum server_change change = SERVER_SAME;
    choice->is_probe = false;
    if (outcome == OUTCOME_SERVED) {
        change = server_health_note_success(health, server->group->spec, began_us, now_us);
    } else if (outcome == OUTCOME_UNANSWERED && !is_probe &&
               !server_health_counts_timeout(health, began_us)) {
        change = SERVER_SAME;
    } else if (outcome < OUTCOME_LARGE_HEAD) {
        change = server_health_note_failure(health, server->group->spec, began_us,
                                            client_of(outcome, client), is_probe, now_us);
    } else if (is_probe) {
        server_health_note_nothing(health, now_us);
    }
    upstream_outcome_announce(server, change, REASONS[outcome]);
}
