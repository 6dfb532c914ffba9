/* Which requests share a connection to a server that speaks HTTP/2.
 *
 * Happy path: those of all clients go on one connection, up to the streams that it takes.
 *
 * Failures: the server ends the connection for what it was sent. The requests of the last second
 * may be why: their clients are remembered, and get connections of their own for a while, as a
 * request does whose head is long. */

#include "base/clock.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_http2_inner.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"

enum {
    SUSPECT_US = 1000 * 1000, /* a request whose fields are younger may have ended a connection */
};

/* --- the end of a connection, and why --- */

/* Whether streams of several clients are under way. */
static bool has_strangers(const struct upstream_http2 *http2)
{
    const struct list *first = http2->streams.next;
    for (const struct list *node = first; node != &http2->streams; node = node->next) {
        if (!address_equals(&upstream_stream_at((struct list *)(uintptr_t)node)->client,
                            &upstream_stream_at((struct list *)(uintptr_t)first)->client)) {
            return true;
        }
    }
    return false;
}

/* The server has ended the connection, and what it was sent last may be the reason: remember whose
 * that was. A connection may end by itself, so without a word of the server only those are suspect
 * that were not alone on it. */
static void suspect(struct upstream_http2 *http2, struct upstream_stream *stream, bool is_alone)
{
    const uint64_t now_us = clock_monotonic_us();
    const enum http2_goaway goaway =
        http2->session != NULL ? http2_session_goaway(http2->session) : HTTP2_GOAWAY_NONE;
    if (stream->risky_us == 0 || now_us - stream->risky_us >= SUSPECT_US ||
        goaway == HTTP2_GOAWAY_FINE || (goaway == HTTP2_GOAWAY_NONE && is_alone)) {
        return;
    }
    stream->loss = goaway == HTTP2_GOAWAY_REFUSAL && is_alone ? LOSS_REFUSED : LOSS_SUSPECT;
    suspects_add(&http2->connection->server->group->process->suspects, &stream->client, now_us);
}

void upstream_sharing_on_end(struct upstream_http2 *http2)
{
    const bool is_alone = !has_strangers(http2);
    http2->has_failed =
        http2->session != NULL && http2_session_goaway(http2->session) == HTTP2_GOAWAY_REFUSAL;
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        suspect(http2, upstream_stream_at(node), is_alone);
    }
}

void upstream_sharing_on_reset(struct upstream_stream *stream)
{
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    if (http2_session_goaway(http2->session) >= HTTP2_GOAWAY_ERROR &&
        !http2_stream_is_refused(&stream->stream)) {
        suspect(http2, stream, !has_strangers(http2));
    }
}

/* --- the choice of a connection --- */

const struct address *upstream_http2_owner(const struct upstream_server *server,
                                           const struct upstream_request *request)
{
    struct suspects *suspects = &server->group->process->suspects;
    return request->head_bytes > UPSTREAM_SHARED_HEAD_MAX ||
                   suspects_have(suspects, &request->client, clock_monotonic_us())
               ? &request->client
               : NULL;
}

static bool is_owned_by(const struct upstream_http2 *http2, const struct address *owner)
{
    return owner == NULL ? !http2->is_exclusive
                         : http2->is_exclusive && address_equals(&http2->owner, owner);
}

static bool is_acceptable(struct upstream_http2 *http2, enum upstream_use use)
{
    struct upstream *connection = http2->connection;
    const uint32_t granted = connection->server->granted;
    const size_t most =
        granted > 0 && granted < UPSTREAM_STREAMS_MAX ? granted : UPSTREAM_STREAMS_MAX;
    if (http2->is_ending || http2->n_streams >= most) {
        return false;
    }
    if (http2->session == NULL) {
        return !connection->server->is_http1;
    }
    return use != UPSTREAM_FRESH && http2_session_may_open(http2->session) &&
           upstream_http2_is_current(connection);
}

/* Whether a connection that was at rest may have ended: then what has come of that is read. */
static bool is_doubtful(const struct upstream_http2 *http2, enum upstream_use use)
{
    return use == UPSTREAM_SURE && http2->is_resting &&
           stream_peek(&http2->connection->stream) != STREAM_BLOCKED;
}

static bool is_narrow(const struct upstream_http2 *http2)
{
    return http2->session != NULL && http2_session_is_narrow(http2->session, clock_monotonic_us());
}

struct upstream *upstream_http2_find(struct upstream_server *server, const struct address *owner,
                                     enum upstream_use use, bool has_body)
{
    struct upstream_http2 *found = NULL;
    struct list *node = server->http2.next;
    while (node != &server->http2) {
        struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        node = node->next;
        if (!is_owned_by(http2, owner) || (has_body && is_narrow(http2))) {
            continue;
        }
        if (is_acceptable(http2, use) && is_doubtful(http2, use)) {
            http2->connection->carrier_ops->on_readable(
                http2->connection); /* it has no streams to end */
        }
        if (http2->connection->phase != UPSTREAM_CLOSED && is_acceptable(http2, use) &&
            (found == NULL || found->session == NULL)) {
            found = http2;
        }
    }
    if (found == NULL) {
        return NULL;
    }
    upstream_http2_end_rest(found);
    return found->connection;
}
