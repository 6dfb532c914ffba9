#include "proxy/downstream_body.h"

#include "proxy/downstream.h"
#include "proxy/exchange_pipe.h"

/* Hand over one piece, or what is in the pipe. False: no more is wanted, and the exchange may be
 * over. */
static bool hand_over(struct downstream *downstream, bool is_piped, struct span piece, bool last)
{
    downstream->wants_body = false; /* before the call: it may end this exchange */
    if (!(is_piped ? exchange_on_pipe(downstream->exchange, downstream->inbox.pipe)
                   : exchange_on_body(downstream->exchange, piece, last))) {
        return false;
    }
    downstream->wants_body = true;
    return true;
}

void downstream_pump(struct client *client)
{
    struct downstream *downstream = CONTAINER_OF(client, struct downstream, client);
    downstream->wants_body = true;
    inbox_end_turn(&downstream->inbox); /* of the last one, if that was blocked */
    for (unsigned i = 0; i < PUMP_READS_MAX; i++) {
        struct span piece = span_of(NULL, 0);
        bool last;
        downstream->inbox.takes_pipe =
            inbox_wants_pipe(&downstream->inbox) &&
            exchange_takes_pipe(downstream->exchange, downstream->inbox.pipe != NULL);
        const enum inbox_result result = inbox_next(&downstream->inbox, &piece, &last);
        if (result == INBOX_PIECE || result == INBOX_PIPED) {
            if (!hand_over(downstream, result == INBOX_PIPED, piece, last)) {
                return;
            }
            i += result == INBOX_PIPED ? PIPE_READS - 1 : 0;
        } else if (result == INBOX_END) {
            (void)hand_over(downstream, false, span_of(NULL, 0), true);
            return;
        } else if (result == INBOX_CUT) {
            exchange_on_client_gone(downstream->exchange);
            return;
        } else if (result == INBOX_BAD) {
            exchange_on_bad_body(downstream->exchange, &downstream->inbox.error);
            return;
        } else {
            downstream->wants_body = exchange_on_body_blocked(downstream->exchange);
            break;
        }
    }
    inbox_end_turn(&downstream->inbox);
    stream_want_read(&downstream->stream, true);
}
