/* What one request may have of the window for all requests of a connection to a server.
 *
 * A server opens its windows again as its handlers read. One whose handler does not read would have
 * all of the connection's window, and stop the others. So a stream has at most a third of what is
 * left to them: one has a quarter of the window, two less than a half, and so on, and a rest is
 * always open.
 *
 * Servers gather what was read until it is worth an update: half of a window with many. A stream
 * that is stopped before would wait for an update that never comes. So what a server gathers, which
 * is learnt from its latest updates, is left to each stream, and nobody is stopped until it is
 * known. */

#include "http2/client_session.h"
#include "http2/session_inner.h"

void share_note_update(struct http2_session *session, uint32_t increment)
{
    session->updates[session->n_updates++ % UPDATES] = increment;
}

/* The most that the server has gathered lately, in bytes. */
static int64_t gathered(const struct http2_session *session)
{
    int64_t most = 0;
    if (session->n_updates < UPDATES) {
        return session->send_window_max;
    }
    for (unsigned i = 0; i < UPDATES; i++) {
        most = session->updates[i] > most ? session->updates[i] : most;
    }
    return most;
}

int64_t share_of_window(const struct http2_stream *stream)
{
    const struct http2_session *session = stream->session;
    const int64_t open = session->send_window;
    if (!session->is_client) {
        return open;
    }
    const int64_t unit = gathered(session);
    const int64_t beyond = (int64_t)session->peer_stream_window - stream->send_window - unit;
    const int64_t rest = open > unit ? open - unit : 0;
    const int64_t more = (rest - 3 * beyond) / 4; /* then it has a third of what is left */
    const int64_t share = more > -beyond ? more : -beyond;
    return share < 0 ? 0 : share < open ? share : open;
}

void share_note_window(struct http2_session *session)
{
    const int64_t open = session->send_window;
    session->send_window_max = open > session->send_window_max ? open : session->send_window_max;
    if (open > session->send_window_max / 4) {
        session->narrow_since_us = 0;
    } else if (session->narrow_since_us == 0) {
        session->narrow_since_us = session->now_us;
    }
}

void share_on_update(struct http2_session *session, uint32_t increment)
{
    share_note_update(session, increment);
    share_note_window(session);
    for (size_t i = 0; session->has_held && i < STREAM_BUCKETS; i++) {
        for (struct http2_stream *stream = session->streams[i]; stream != NULL;
             stream = stream->below) {
            send_note_ready(stream);
        }
    }
    session->has_held = false;
}

bool http2_session_is_narrow(const struct http2_session *session, uint64_t now_us)
{
    const uint64_t since_us = session->narrow_since_us;
    return since_us != 0 && now_us >= since_us && now_us - since_us >= HTTP2_NARROW_US;
}
