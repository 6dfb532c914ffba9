/* From bytes to a request, and to the resource that answers it. Who may ask is decided once the
 * head is there, before any of the body is waited for. */

#include <stdlib.h>
#include <string.h>

#include "admin/audit.h"
#include "admin/connection_parts.h"

/* --- a request's life --- */

/* Too much is held for others at this door, who do not read: it is not kept. */
static void withdraw(struct admin_request *request)
{
    free(request->content);
    request->content = NULL;
    request->content_bytes = 0;
    request->is_answered = false;
    answer_problem(request, 503, "too many answers wait to be read; ask again");
}

static void on_answer(struct admin_request *request)
{
    struct admin_connection *connection = CONTAINER_OF(request, struct admin_connection, request);
    struct admin_door *door = connection->door;
    if (request->content_bytes > ADMIN_ANSWER_BYTES_FREE &&
        door->answer_bytes + request->content_bytes > ADMIN_ANSWER_BYTES_MAX) {
        withdraw(request);
        return;
    }
    door->answer_bytes += request->content_bytes;
    loop_at_turn_end(connection->door->admin->loop, &connection->answered);
}

static void begin_request(struct admin_connection *connection)
{
    struct admin *admin = connection->door->admin;
    connection->method_bytes = 0;
    connection->target_bytes = 0;
    connection->body_bytes = 0;
    connection->is_head = false;
    connection->has_request = true;
    connection->has_asked = true;
    connection->match = (struct resource_match){.effect = ADMIN_READS};
    connection->verdict = (struct access_verdict){.status = 0};
    connection->request = (struct admin_request){
        .admin = admin,
        .policy = admin->options.take_policy(admin->options.context),
        .on_answer = on_answer,
    };
}

/* --- answers of our own --- */

/* The rest of what is sent is not looked at. */
static enum step refuse(struct admin_connection *connection, uint16_t status, const char *reason)
{
    connection->keep_alive = false;
    connection_set_state(connection, STATE_HANDLE);
    if (reason != NULL) {
        answer_problem(&connection->request, status, "%s", reason);
    } else {
        answer_problem(&connection->request, status, NULL);
    }
    return STEP_WAIT;
}

/* The same where no head says who asks: strangers are told no reason, for a 401 has none. */
static enum step refuse_unread(struct admin_connection *connection, uint16_t status,
                               const char *reason)
{
    const struct access_peer *peer = &connection->peer;
    const bool is_near = peer->is_unix || address_is_loopback(&peer->address);
    return refuse(connection, status, is_near ? reason : NULL);
}

/* --- reading a request --- */

static bool keep_start_line(struct admin_connection *connection, const struct head *head)
{
    const struct span target = head->target.whole;
    connection->method_bytes = head->method.len;
    memcpy(connection->method, head->method.data, head->method.len);
    if (target.len > sizeof(connection->target)) {
        return false;
    }
    memcpy(connection->target, target.data, target.len);
    connection->target_bytes = target.len;
    return true;
}

/* The query within the copy that was kept. */
static struct span kept_query(const struct admin_connection *connection)
{
    const struct span target = span_of(connection->target, connection->target_bytes);
    const size_t mark = span_find(target, '?');
    return mark < target.len ? span_of(target.data + mark + 1, target.len - mark - 1)
                             : span_of(target.data, 0);
}

/* Who waits for a 100 gets it, once it is let in. */
static enum step invite_body(struct admin_connection *connection, const struct head *head)
{
    static char invitation[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec slice = {invitation, sizeof(invitation) - 1};
    if (!head->expect_continue || head->body == BODY_NONE) {
        return STEP_ON;
    }
    return stream_write(&connection->stream, &slice, 1) == STREAM_BROKEN ? STEP_GONE : STEP_ON;
}

static enum step take_head(struct admin_connection *connection, const struct head *head)
{
    struct resource_match *match = &connection->match;
    connection->minor = head->minor;
    connection->keep_alive = head->keep_alive && !connection->door->is_leaving;
    connection->is_head = span_equals(head->method, SPAN("HEAD"));
    connection->body_kind = head->body;
    connection->body_left = head->body == BODY_LENGTH ? head->content_length : 0;
    chunked_decoder_init(&connection->decoder);
    const bool has_room = keep_start_line(connection, head);
    /* One that is too long is judged as one of what there is not. */
    const struct span path = has_room ? head->target.path : span_of(connection->target, 0);
    resource_find(head->method, path, connection->path, connection->allow, match);
    connection->verdict =
        access_judge(&connection->door->admin->rules, &connection->peer, head, match->effect);
    if (connection->verdict.status != 0) {
        return refuse(connection, connection->verdict.status, connection->verdict.reason);
    }
    if (!has_room) {
        return refuse(connection, 414, "the target is longer than any here");
    }
    if (connection->body_left > ADMIN_BODY_BYTES_MAX) {
        return refuse(connection, 413, "the body is longer than any here");
    }
    connection_set_state(connection, STATE_READ_BODY);
    return invite_body(connection, head);
}

static enum step read_head(struct admin_connection *connection)
{
    struct head head;
    size_t consumed;
    if (connection->state == STATE_IDLE) {
        if (connection_unused(connection).len == 0) {
            return STEP_WAIT;
        }
        connection_set_state(connection, STATE_READ_HEAD);
    }
    switch (
        head_parse_request(&connection->parser, connection_unused(connection), &head, &consumed)) {
    case PARSE_PARTIAL:
        return STEP_WAIT;
    case PARSE_BAD:
        begin_request(connection);
        return refuse_unread(connection, head.error.status, head.error.reason);
    case PARSE_DONE:
        break;
    }
    begin_request(connection);
    const enum step step = take_head(connection, &head);
    connection->in_start += consumed;
    return step;
}

static enum step handle(struct admin_connection *connection)
{
    struct admin_request *request = &connection->request;
    const struct resource_match *match = &connection->match;
    connection_set_state(connection, STATE_HANDLE);
    request->method = span_of(connection->method, connection->method_bytes);
    if (connection->is_head) {
        request->method = SPAN("GET");
    }
    request->query = kept_query(connection);
    request->body = span_of(connection->body, connection->body_bytes);
    audit_write_by(request->by, &connection->peer, &connection->verdict);
    memcpy(request->captures, match->captures, sizeof(request->captures));
    if (match->resource != NULL) {
        match->resource->handle(request);
        return STEP_WAIT;
    }
    request->allow = match->allow;
    answer_problem(request, match->status, "%s",
                   match->status == 404   ? "there is nothing here; GET / lists what there is"
                   : match->status == 405 ? "there is no such method here; see Allow"
                                          : match->reason);
    return STEP_WAIT;
}

static bool keep_body(struct admin_connection *connection, struct span content)
{
    if (content.len > sizeof(connection->body) - connection->body_bytes) {
        return false;
    }
    if (content.len > 0) {
        memcpy(connection->body + connection->body_bytes, content.data, content.len);
        connection->body_bytes += content.len;
    }
    return true;
}

static enum step read_length_body(struct admin_connection *connection)
{
    struct span content = connection_unused(connection);
    if (content.len > connection->body_left) {
        content.len = (size_t)connection->body_left;
    }
    (void)!keep_body(connection, content); /* its length was looked at before */
    connection->in_start += content.len;
    connection->body_left -= content.len;
    return connection->body_left == 0 ? handle(connection) : STEP_WAIT;
}

static enum step read_chunked_body(struct admin_connection *connection)
{
    struct http_error error;
    struct span content;
    size_t consumed;
    const enum parse_result result =
        chunked_decode(&connection->decoder, connection->in + connection->in_start,
                       connection->in_end - connection->in_start, &content, &consumed, &error);
    if (result == PARSE_BAD) {
        return refuse(connection, error.status, error.reason);
    }
    if (!keep_body(connection, content)) {
        return refuse(connection, 413, "the body is longer than any here");
    }
    connection->in_start += consumed;
    return result == PARSE_DONE ? handle(connection) : STEP_WAIT;
}

static enum step read_body(struct admin_connection *connection)
{
    return connection->body_kind == BODY_CHUNKED ? read_chunked_body(connection)
                                                 : read_length_body(connection);
}

enum step connection_read(struct admin_connection *connection)
{
    return connection->state == STATE_READ_BODY ? read_body(connection) : read_head(connection);
}

void connection_read_late(struct admin_connection *connection)
{
    static const char REASON[] = "the request did not come in time";
    if (connection->state == STATE_READ_HEAD) {
        begin_request(connection);
        (void)refuse_unread(connection, 408, REASON);
    } else {
        (void)refuse(connection, 408, REASON);
    }
}

void connection_end_request(struct admin_connection *connection)
{
    struct admin_request *request = &connection->request;
    struct admin *admin = connection->door->admin;
    if (!connection->has_request) {
        return;
    }
    connection->has_request = false;
    if (!request->is_answered && request->on_gone != NULL) {
        request->on_gone(request);
    }
    connection->door->answer_bytes -= request->content_bytes;
    free(request->content);
    request->content = NULL;
    if (request->policy != NULL) {
        admin->options.give_policy(admin->options.context, request->policy);
    }
}
