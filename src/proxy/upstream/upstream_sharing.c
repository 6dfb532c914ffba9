/* Which requests share a connection to a server that speaks HTTP/2.
 *
 * Happy path: those of all clients go on one connection, up to the streams that it takes.
 *
 * Failures: the server ends the connection for what it was sent. The requests of the last second
 * may be why, and so may a reset of that time: their clients are remembered, and get connections of
 * their own for a while, as a request does whose head is long.
 *
 * A client does not read its answers. What of them has no room here stays with the server, in
 * memory that it counts by connection. So a connection on which an answer is held back takes no new
 * requests of other clients. Where the server has reset one all the same, the connection takes no
 * more of anybody, and the clients whose answers are still held back then are remembered too.
 *
 * A client leaves requests that its server works on all the same. Where the policy has a
 * max_streams the connection takes no more of anybody either, and ends with its last answer. Of
 * requests that are left there the server is told a few, since it would end the connection for
 * many, which harms others. Answers to the rest are dropped, a window of each at most. A server
 * that does not work on is told of all, but a connection takes a number of resets only.
 *
 * What the proxy gives up itself, as at a time-out, is reset likewise, and makes nobody suspect: a
 * server may be slow to all. But if it ends the connection for that, those clients are remembered
 * of whose requests many were given up there. */

#include "base/clock.h"
#include "base/hash.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_http2_inner.h"
#include "proxy/upstream/upstream_inner.h"
#include "proxy/upstream/upstream_process.h"

enum {
    SUSPECT_US = 1000 * 1000, /* what was sent within this time may have ended a connection */

    /* So long an answer may be held back on a connection that others share: as long as its window
     * may be narrow (HTTP2_NARROW_US). Of a client that reads, 1 MiB takes less at 100 Mbit/s; a
     * longer answer to a slower one has the connection for its client, as by HTTP/1.1. */
    HELD_US = HTTP2_NARROW_US,

    /* Bytes of an answer that wait for its client. A window is opened again by halves, so a server
     * that has more to send has filled more than that; and soon does so again, where the client is
     * what limits it, before few are left. */
    HELD_BYTES_MIN = UPSTREAM_STREAM_WINDOW / 2,
    FEW_BYTES = UPSTREAM_STREAM_WINDOW / 4,

    /* Node does not count the rest of a cut answer as gone before the connection ends. So for this
     * time after a server has had a full one, a cut answer ends its connection, as by HTTP/1.1. */
    FULL_FOR_US = 300 * 1000 * 1000,

    /* Of a connection, for each reset beyond the first. Tomcat's count begins at -100, and ends the
     * connection above 0: 10 for each of our three SETTINGS, 50 for a reset, -20 for a request. */
    REQUESTS_PER_RESET = 4,

    /* After these a connection takes no more requests. With the resets of as many as are under way
     * then it stays below 200, for which Netty ends it if they come within 30 s. */
    RESETS_MAX = 64,

    /* Of a client many requests were given up on a connection, if they are more than one, and of
     * the resets there at least one in so many: the requests of one that ends a connection by its
     * own are most of them, also while others time out there; where a server is slow to all, each
     * of many clients has a few. */
    RESETS_PER_GIVEN_UP = 4,
};

static struct upstream_group *group_of(const struct upstream_http2 *http2)
{
    return http2->connection->server->group;
}

static void note_client(const struct upstream_http2 *http2, const struct address *client)
{
    suspects_add(&group_of(http2)->process->suspects, client, clock_monotonic_us());
}

static void note_suspect(const struct upstream_stream *stream)
{
    note_client(upstream_http2_of(stream), &stream->client);
}

/* --- answers that are held back --- */

/* The row that has the connections of @client. */
static struct list *row_of(struct upstream_server *server, const struct address *client)
{
    const struct hash128 hash = hash_shared(span_of((const char *)client, sizeof(*client)));
    return &server->http2_own[hash.low % UPSTREAM_OWN_ROWS];
}

static bool is_held_long(const struct upstream_stream *stream, uint64_t now_us)
{
    return stream->held_since_us != 0 && now_us - stream->held_since_us >= HELD_US;
}

/* It is not found any more. Its server still knows it, and closes it before its group is freed. */
static void withdraw(struct upstream_http2 *http2)
{
    if (!http2->is_ending) {
        list_remove(&http2->node);
        list_push_front(&http2->connection->server->http2_withdrawn, &http2->node);
    }
}

/* Leave @http2 to the client whose answers are held back there for long, or, if there are several,
 * to nobody. */
static void set_aside_if_held(struct upstream_http2 *http2, uint64_t now_us)
{
    const struct address *holder = NULL;
    bool has_several = false;
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        const struct upstream_stream *stream = upstream_stream_at(node);
        if (is_held_long(stream, now_us)) {
            has_several = holder != NULL && !address_equals(holder, &stream->client);
            holder = &stream->client;
        }
        if (has_several) {
            break;
        }
    }
    if (holder == NULL) {
        return;
    }
    http2->is_set_aside = true;
    if (has_several) {
        withdraw(http2);
        return;
    }
    http2->owner = *holder;
    list_remove(&http2->node);
    list_push_front(row_of(http2->connection->server, holder), &http2->node);
}

static void set_held_aside(struct upstream_server *server)
{
    struct list *node = server->http2.next;
    while (node != &server->http2) {
        struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        node = node->next;
        if (http2->n_held > 0) {
            set_aside_if_held(http2, clock_monotonic_us());
        }
    }
}

/* A connection on which other answers are held back is set aside again by the next request. */
static void end_hold(struct upstream_stream *stream)
{
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    stream->held_since_us = 0;
    http2->n_held--;
    if (http2->is_set_aside && !http2->is_ending && !http2->is_full) {
        list_remove(&http2->node);
        list_push_back(&http2->connection->server->http2, &http2->node);
    }
    http2->is_set_aside = false;
}

void upstream_sharing_on_taken(struct upstream_stream *stream)
{
    const uint64_t n_bytes = stream->is_whole ? 0 : stream->stream.untaken;
    if (stream->held_since_us == 0 && n_bytes >= HELD_BYTES_MIN) {
        stream->held_since_us = clock_monotonic_us();
        upstream_http2_of(stream)->n_held++;
    } else if (stream->held_since_us != 0 && n_bytes < FEW_BYTES) {
        end_hold(stream);
    }
}

/* --- connections that are full --- */

bool upstream_sharing_is_crowded(const struct upstream_stream *stream)
{
    const struct upstream_http2 *http2 = upstream_http2_of(stream);
    return http2_stream_is_too_much(&stream->stream) && !stream->stream.has_answer &&
           (http2->n_streams > 1 || http2->has_carried);
}

/* @http2 ends with its last stream. */
static void retire(struct upstream_http2 *http2)
{
    http2->is_full = true;
    withdraw(http2);
}

static void note_full(struct upstream_http2 *http2)
{
    http2->connection->server->full_us = clock_monotonic_us();
    if (!http2->is_full) {
        retire(http2);
        timer_arm(&http2->full_timer, HELD_US);
    }
}

/* Whether the server has begun with @stream, and does not come to its end. */
static bool is_cut(const struct upstream_stream *stream)
{
    return stream->stream.is_opened && !stream->is_whole && !stream->stream.is_reset_by_peer;
}

static bool may_be_full(const struct upstream_server *server)
{
    return server->full_us != 0 && clock_monotonic_us() - server->full_us < FULL_FOR_US;
}

/* --- requests that are left --- */

/* Whether the server may work on for requests that were reset, so that others wait: the policy says
 * that it works on fewer at a time than it grants. Apache and Tomcat take fewer still behind
 * resets. */
static bool works_on(const struct upstream_server *server)
{
    return server->group->spec->max_streams < UPSTREAM_STREAMS_MAX;
}

/* Whether the proxy has reset @stream, or is about to: before the end of its answer, or of the
 * request. */
static bool is_reset_here(const struct upstream_stream *stream)
{
    return stream->stream.is_opened && !stream->stream.is_reset_by_peer &&
           !(stream->is_whole && stream->stream.is_closed);
}

/* Whether streams of others than @client are under way. */
static bool has_others(const struct upstream_http2 *http2, const struct address *client)
{
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        if (!address_equals(&upstream_stream_at(node)->client, client)) {
            return true;
        }
    }
    return false;
}

/* The place of @client among @leavers, or of the oldest of them. */
static struct upstream_leaver *place_of(struct upstream_leaver *leavers,
                                        const struct address *client)
{
    struct upstream_leaver *oldest = &leavers[0];
    for (size_t i = 0; i < UPSTREAM_LEAVERS_MAX; i++) {
        struct upstream_leaver *leaver = &leavers[i];
        if (leaver->left_us != 0 && address_equals(&leaver->client, client)) {
            return leaver;
        }
        if (leaver->left_us < oldest->left_us) {
            oldest = leaver;
        }
    }
    return oldest;
}

static bool is_recent(uint64_t at_us)
{
    return clock_monotonic_us() - at_us < SUSPECT_US;
}

/* Whether a small piece of the body of @stream, or its trailers, was just sent. A piece may be cut
 * small by the windows of the server. */
static bool has_risky_body(const struct upstream_stream *stream)
{
    return (stream->is_risky_body && is_recent(stream->risky_us)) ||
           is_recent(stream->stream.small_us);
}

/* Whether a stream of @leaver has just been reset: servers take many for an attack. */
static bool has_just_left(const struct upstream_leaver *leaver)
{
    return leaver->left_us != 0 && is_recent(leaver->left_us);
}

/* @stream is reset. */
static void note_leaver(struct upstream_leaver *leavers, const struct upstream_stream *stream)
{
    const struct address *client = &stream->client;
    struct upstream_leaver *leaver = place_of(leavers, client);
    if (leaver->left_us == 0 || !address_equals(&leaver->client, client)) {
        *leaver = (struct upstream_leaver){.client = *client};
    }
    if (!has_just_left(leaver)) {
        leaver->n_recent = 0;
        leaver->is_risky_body = false;
    }
    leaver->left_us = clock_monotonic_us();
    leaver->n++;
    leaver->n_recent++;
    leaver->is_risky_body = leaver->is_risky_body || has_risky_body(stream);
}

/* Whether the server, which works on, is told of one more stream that is reset. */
static bool may_reset(const struct upstream_stream *stream)
{
    const struct upstream_http2 *http2 = upstream_http2_of(stream);
    const uint32_t n_requests = (uint32_t)stream->stream.id / 2; /* before it */
    return http2->n_resets <= n_requests / REQUESTS_PER_RESET ||
           !has_others(http2, &stream->client);
}

/* @stream is about to end. False: its server is not to know. Either way it is none of
 * max_connections any more: what is to be counted until its server has ended it holds a slot. */
static bool note_left(struct upstream_stream *stream)
{
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    const struct upstream_server *server = http2->connection->server;
    const bool is_reset = is_reset_here(stream);
    const bool is_given_up = stream->upstream.is_given_up;
    if (http2->is_ending) {
        return true; /* it ends with its connection, and is not reset */
    }
    http2->has_carried = true;
    if ((is_reset && (works_on(server) || http2->n_resets + 1 >= RESETS_MAX)) ||
        (is_cut(stream) && may_be_full(server))) {
        retire(http2);
    }
    if (is_reset && works_on(server) && !may_reset(stream)) {
        if (!is_given_up) {
            note_suspect(stream);
        }
        return false;
    }
    if (is_reset) {
        note_leaver(is_given_up ? http2->given_up : http2->leavers, stream);
        http2->n_resets++;
    }
    return true;
}

void upstream_sharing_leave(struct upstream_stream *stream)
{
    if (stream->held_since_us != 0) {
        end_hold(stream);
    }
    if (stream->stream.session == NULL) {
        return;
    }
    if (http2_stream_is_too_much(&stream->stream) || note_left(stream)) {
        http2_stream_release(&stream->stream);
    } else {
        http2_stream_drop(&stream->stream);
    }
    upstream_http2_wake(upstream_http2_of(stream));
}

/* The clients whose answers are held back still may be why. */
static void on_full_timer(void *context)
{
    struct upstream_http2 *http2 = context;
    const uint64_t now_us = clock_monotonic_us();
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        const struct upstream_stream *stream = upstream_stream_at(node);
        if (is_held_long(stream, now_us)) {
            note_suspect(stream);
        }
    }
}

void upstream_sharing_init(struct upstream_http2 *http2)
{
    struct upstream_server *server = http2->connection->server;
    timer_init(&http2->full_timer, server->group->env->loop, on_full_timer, http2);
    list_init(&http2->node);
    list_push_front(http2->is_exclusive ? row_of(server, &http2->owner) : &server->http2,
                    &http2->node);
}

void upstream_sharing_close(struct upstream_http2 *http2)
{
    timer_close(&http2->full_timer);
}

/* --- the end of a connection, and why --- */

static bool has_other_leavers(const struct upstream_leaver *leavers, const struct address *client)
{
    for (size_t i = 0; i < UPSTREAM_LEAVERS_MAX; i++) {
        if (has_just_left(&leavers[i]) && !address_equals(&leavers[i].client, client)) {
            return true;
        }
    }
    return false;
}

/* Whether streams of several clients are under way, or were when the latest were reset. */
static bool has_strangers(const struct upstream_http2 *http2)
{
    if (list_is_empty(&http2->streams)) {
        return false;
    }
    const struct address *first = &upstream_stream_at(http2->streams.next)->client;
    return has_others(http2, first) || has_other_leavers(http2->leavers, first) ||
           has_other_leavers(http2->given_up, first);
}

static enum http2_goaway goaway_of(const struct upstream_http2 *http2)
{
    return http2->session != NULL ? http2_session_goaway(http2->session) : HTTP2_GOAWAY_NONE;
}

/* Whether of @leaver, in http2->given_up, so much was given up that this may be why. Where a server
 * is slow to many clients, that is so of few or none of them. */
static bool has_many_given_up(const struct upstream_http2 *http2,
                              const struct upstream_leaver *leaver)
{
    return has_just_left(leaver) && leaver->n > 1 &&
           leaver->n * RESETS_PER_GIVEN_UP >= http2->n_resets;
}

/* Whether nothing that may have ended the connection was sent of @stream in the last second. */
static bool is_old(const struct upstream_stream *stream)
{
    return !is_recent(stream->risky_us) && !is_recent(stream->stream.small_us);
}

/* One stream that a client leaves is no sign that it was too many, as browsers leave some. */
static bool has_left_many(const struct upstream_http2 *http2, const struct address *client)
{
    for (size_t i = 0; i < UPSTREAM_LEAVERS_MAX; i++) {
        const struct upstream_leaver *left = &http2->leavers[i];
        const struct upstream_leaver *given_up = &http2->given_up[i];
        if ((has_just_left(left) && (left->n_recent > 1 || left->is_risky_body) &&
             address_equals(&left->client, client)) ||
            (has_many_given_up(http2, given_up) && address_equals(&given_up->client, client))) {
            return true;
        }
    }
    return false;
}

/* Whether @client has just sent a small piece of a body, or trailers. */
static bool has_sent_risky_body(const struct upstream_http2 *http2, const struct address *client)
{
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        const struct upstream_stream *stream = upstream_stream_at(node);
        if (has_risky_body(stream) && address_equals(&stream->client, client)) {
            return true;
        }
    }
    return false;
}

/* Whether it is likelier that @client had @http2 ended than anybody else: it did what others seldom
 * do, and not only began a request. */
static bool has_ended(const struct upstream_http2 *http2, const struct address *client)
{
    return has_left_many(http2, client) || has_sent_risky_body(http2, client);
}

/* The server has ended the connection with @goaway, and what it was sent last may be the reason:
 * remember whose that was. A connection may end by itself, so without a word of the server only
 * those are suspect that were not alone on it. Of a client that was, or that did more than ask, all
 * requests have ended by its own doing: what is old is no excuse, since a younger request of the
 * same client may be the reason. */
static void suspect(struct upstream_http2 *http2, struct upstream_stream *stream,
                    enum http2_goaway goaway, bool is_alone)
{
    stream->upstream.is_blameless_end = goaway == HTTP2_GOAWAY_FINE;
    if (stream->risky_us == 0 || goaway == HTTP2_GOAWAY_FINE) {
        return;
    }
    stream->upstream.is_own_end = stream->is_one_client &&
                                  (is_alone || has_ended(http2, &stream->client)) &&
                                  !http2_stream_is_unprocessed(&stream->stream);
    stream->upstream.is_old = is_old(stream);
    if (is_old(stream) || (goaway == HTTP2_GOAWAY_NONE && is_alone)) {
        return;
    }
    stream->loss = goaway == HTTP2_GOAWAY_REFUSAL && is_alone ? LOSS_REFUSED : LOSS_SUSPECT;
    note_suspect(stream);
}

/* Those who left the latest requests are suspect also where nobody else is harmed any more:
 * hypercorn answers the others before it ends the connection. Of them the proxy does not know whose
 * were too many. If it were the last alone, clients that leave in turn would end a connection each,
 * and one that leaves a single request behind those of another would be suspect in its place. */
static void suspect_leavers(struct upstream_http2 *http2)
{
    for (size_t i = 0; i < UPSTREAM_LEAVERS_MAX; i++) {
        if (has_just_left(&http2->leavers[i])) {
            note_client(http2, &http2->leavers[i].client);
        }
        if (has_many_given_up(http2, &http2->given_up[i])) {
            note_client(http2, &http2->given_up[i].client);
        }
    }
}

static void suspect_all(struct upstream_http2 *http2, enum http2_goaway goaway, bool is_alone)
{
    if (goaway != HTTP2_GOAWAY_FINE) {
        suspect_leavers(http2);
    }
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        suspect(http2, upstream_stream_at(node), goaway, is_alone);
    }
}

void upstream_sharing_on_end(struct upstream_http2 *http2)
{
    const enum http2_goaway goaway = goaway_of(http2);
    http2->has_failed = goaway == HTTP2_GOAWAY_REFUSAL;
    suspect_all(http2, goaway, !has_strangers(http2));
}

/* As if the server had ended it without a word. The frame may tell less than it seems to: a block
 * of one stream cannot be read for what was wrong with that of another. */
void upstream_sharing_on_fault(struct upstream_http2 *http2, struct upstream_stream *cause)
{
    const bool is_alone = !has_strangers(http2);
    suspect_all(http2, HTTP2_GOAWAY_NONE, is_alone);
    if (cause != NULL) {
        cause->loss = LOSS_PLAIN;
        if (!is_alone) {
            note_suspect(cause);
        }
    }
}

void upstream_sharing_on_reset(struct upstream_stream *stream)
{
    struct upstream_http2 *http2 = upstream_http2_of(stream);
    const enum http2_goaway goaway = goaway_of(http2);
    if (upstream_sharing_is_crowded(stream)) {
        note_full(http2);
    }
    if (goaway >= HTTP2_GOAWAY_ERROR && !http2_stream_is_refused(&stream->stream)) {
        suspect(http2, stream, goaway, !has_strangers(http2));
    }
}

/* --- the choice of a connection --- */

static bool is_narrow(const struct upstream_http2 *http2)
{
    return http2->session != NULL && http2_session_is_narrow(http2->session, clock_monotonic_us());
}

/* Whether the body of @request, with its client's others on connections that clients share, is too
 * much for these. */
static bool has_long_body(const struct upstream_server *server,
                          const struct upstream_request *request)
{
    uint64_t n_bytes = request->body_bytes;
    struct list *node = server->http2.next;
    if (n_bytes > UPSTREAM_SHARED_BODY_MAX) {
        return true;
    }
    while (n_bytes <= UPSTREAM_SHARED_BODIES_MAX && node != &server->http2) {
        const struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        n_bytes += upstream_bodies_of(&http2->bodies, &request->client);
        node = node->next;
    }
    return n_bytes > UPSTREAM_SHARED_BODIES_MAX;
}

const struct address *upstream_http2_owner(const struct upstream_server *server,
                                           struct upstream_request *request)
{
    struct suspects *suspects = &server->group->process->suspects;
    const bool is_alone = request->is_alone || request->is_single ||
                          request->head_bytes > UPSTREAM_SHARED_HEAD_MAX ||
                          suspects_have(suspects, &request->client, clock_monotonic_us());
    request->is_long = !is_alone && request->body_bytes > 0 && has_long_body(server, request);
    return is_alone || request->is_long ? &request->client : NULL;
}

/* Not one that the next client would suffer by: of whose window the server withholds much, or that
 * it may be about to end for resets. */
static enum upstream_rest rest_of(const struct upstream_http2 *http2)
{
    if (!http2->is_exclusive) {
        return REST_SHARED;
    }
    return http2->is_for_bodies && http2->n_resets == 0 && http2_session_is_wide(http2->session)
               ? REST_FOR_BODIES
               : REST_OWN;
}

static size_t n_resting_of(struct upstream_server *server, const struct address *client)
{
    struct list *row = row_of(server, client);
    size_t n = 0;
    for (struct list *node = row->next; node != row; node = node->next) {
        const struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        n += http2->is_resting && address_equals(&http2->owner, client);
    }
    return n;
}

bool upstream_sharing_rest(struct upstream_http2 *http2)
{
    struct upstream_server *server = http2->connection->server;
    http2->rest = rest_of(http2);
    if (server->n_resting[http2->rest] >= UPSTREAM_RESTING_MAX ||
        (http2->rest == REST_OWN &&
         n_resting_of(server, &http2->owner) >= UPSTREAM_CLIENT_RESTING_MAX)) {
        return false;
    }
    if (http2->rest == REST_FOR_BODIES) {
        list_remove(&http2->node);
        list_push_front(&server->http2_for_bodies, &http2->node);
    }
    return true;
}

static bool is_acceptable(struct upstream_http2 *http2, const struct upstream_request *request,
                          enum upstream_use use)
{
    struct upstream *connection = http2->connection;
    const uint32_t granted = connection->server->granted;
    const uint32_t max = connection->server->group->spec->max_streams;
    const size_t most = granted > 0 && granted < max ? granted : max;
    const bool is_single = http2->is_single || request->is_single;
    if (http2->is_ending || http2->is_full || http2->n_streams >= (is_single ? 1 : most)) {
        return false;
    }
    if (http2->session == NULL) {
        return !connection->server->is_http1;
    }
    return use != UPSTREAM_FRESH && http2_session_may_open(http2->session) &&
           upstream_http2_is_current(connection) && upstream_http2_is_read(http2);
}

/* Whether a connection that was at rest may have ended: then what has come of that is read. */
static bool is_doubtful(const struct upstream_http2 *http2, enum upstream_use use)
{
    return use == UPSTREAM_SURE && http2->is_resting &&
           stream_peek(&http2->connection->stream) != STREAM_BLOCKED;
}

/* Whether @request may go on @http2, which may end here. */
static bool is_usable(struct upstream_http2 *http2, const struct upstream_request *request,
                      enum upstream_use use)
{
    struct upstream *connection = http2->connection;
    if (!is_acceptable(http2, request, use)) {
        return false;
    }
    if (!is_doubtful(http2, use)) {
        return true;
    }
    connection->carrier_ops->on_readable(connection); /* it has no streams to end */
    return connection->phase != UPSTREAM_CLOSED && is_acceptable(http2, request, use);
}

/* Whether the bodies on @http2 leave room for that of @request: a quarter of the window at most, so
 * that a server which gathers half of it still grants what it was sent of others while none of
 * these is read. A longer one is alone there, and so is one that is not whole: Tomcat works on 20
 * streams of a connection, whose threads would wait for what the window keeps back. */
static bool has_room_for_body(const struct upstream_http2 *http2,
                              const struct upstream_request *request)
{
    const uint64_t quarter = http2->session != NULL ? http2_session_widest(http2->session) / 4 : 0;
    const uint64_t most =
        quarter > UPSTREAM_SHARED_BODIES_MAX ? quarter : UPSTREAM_SHARED_BODIES_MAX;
    const uint64_t n_bytes = http2->bodies.n_bytes;
    return request->is_call || n_bytes == 0 ||
           (n_bytes <= most && request->body_bytes <= most - n_bytes);
}

/* Whether @http2 is open to @request, of which it may be the client's own: for good, or while it is
 * set aside. */
static bool is_open_to(const struct upstream_http2 *http2, bool is_exclusive,
                       const struct upstream_request *request)
{
    const bool is_own = http2->is_exclusive || http2->is_set_aside;
    return http2->is_exclusive == is_exclusive &&
           (!is_own || address_equals(&http2->owner, &request->client)) &&
           (!request->has_body || (!is_narrow(http2) && has_room_for_body(http2, request)));
}

static struct upstream_http2 *find_in(struct list *connections, bool is_exclusive,
                                      const struct upstream_request *request, enum upstream_use use)
{
    struct upstream_http2 *found = NULL;
    struct list *node = connections->next;
    while (node != connections) {
        struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        node = node->next;
        if (!is_open_to(http2, is_exclusive, request)) {
            continue;
        }
        if ((found == NULL || found->session == NULL) && is_usable(http2, request, use)) {
            found = http2;
        }
    }
    return found;
}

/* A connection at rest that has carried long bodies alone, which its server has read, becomes the
 * client's. NULL: there is none. */
static struct upstream_http2 *take_for_body(struct upstream_server *server,
                                            const struct upstream_request *request,
                                            enum upstream_use use)
{
    struct list *node = server->http2_for_bodies.next;
    while (node != &server->http2_for_bodies) {
        struct upstream_http2 *http2 = CONTAINER_OF(node, struct upstream_http2, node);
        node = node->next;
        if (is_usable(http2, request, use) && http2->liveness.unread_us == 0) {
            http2->owner = request->client;
            list_remove(&http2->node);
            list_push_front(row_of(server, &request->client), &http2->node);
            return http2;
        }
    }
    return NULL;
}

/* A client whose answers are held back stays on their connection: else each answer would take
 * another one from all. */
struct upstream *upstream_http2_find(struct upstream_server *server, const struct address *owner,
                                     const struct upstream_request *request, enum upstream_use use)
{
    set_held_aside(server);
    struct upstream_http2 *found =
        find_in(row_of(server, &request->client), owner != NULL, request, use);
    if (found == NULL && owner == NULL) {
        found = find_in(&server->http2, false, request, use);
    } else if (found == NULL && request->is_long) {
        found = take_for_body(server, request, use);
    }
    if (found == NULL) {
        return NULL;
    }
    upstream_http2_end_rest(found);
    return found->connection;
}
