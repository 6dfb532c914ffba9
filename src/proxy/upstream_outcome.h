/* What came of asking a server, noted for all workers: who fails again and again is passed over for
 * a while. Where there is one server alone nothing is noted, since nobody could be asked instead.
 * */

#ifndef SLUICE_PROXY_UPSTREAM_OUTCOME_H
#define SLUICE_PROXY_UPSTREAM_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/server_health.h"
#include "proxy/upstream_choice.h"
#include "proxy/upstream_group.h"

enum upstream_outcome {
    OUTCOME_SERVED,
    OUTCOME_UNREACHABLE,  /* at none of its addresses */
    OUTCOME_UNACCEPTED,   /* no connection in time */
    OUTCOME_UNANSWERED,   /* no answer in time */
    OUTCOME_LOST,         /* the connection died before the answer's end */
    OUTCOME_INVALID,      /* an answer that is not HTTP */
    OUTCOME_BAD_GATEWAY,  /* 502, 503 or 504 */
    OUTCOME_INCONCLUSIVE, /* the client left, or the like: nothing is known */
};

/* Note what came of asking @server, the latest of @choice, at @began_us; once for each choice. */
void upstream_outcome_tell(struct upstream_server *server, struct upstream_choice *choice,
                           uint64_t began_us, enum upstream_outcome outcome);

static inline void upstream_outcome_note(struct upstream_server *server,
                                         struct upstream_choice *choice, uint64_t began_us,
                                         enum upstream_outcome outcome)
{
    const bool is_plain =
        outcome == OUTCOME_SERVED && server_health_marks(&server->process->health) == 0;
    if (server->group->spec->n_servers > 1 && !(is_plain && !choice->is_trial)) {
        upstream_outcome_tell(server, choice, began_us, outcome);
    }
}

/* @server went out because of @why, or came in: tell the log, and those who wait for a connection.
 * */
void upstream_outcome_announce(struct upstream_server *server, enum server_change change,
                               const char *why);

#endif /* SLUICE_PROXY_UPSTREAM_OUTCOME_H */
