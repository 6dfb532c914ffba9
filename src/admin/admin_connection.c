/* Happy path: READ_HEAD, then the access decision; READ_BODY; HANDLE, until the resource answers;
 * WRITE; the next head. A resource that receives its body is handled first: RECEIVE, until the
 * resource answers.
 *
 *     HANDSHAKE of TLS, if the listener has it
 *         ▼
 *     READ_HEAD ─► READ_BODY ─► HANDLE ─► WRITE ─► READ_HEAD
 *         │ bad head,  │ too large  │ too late │ no more requests
 *         └─ not let in┴──► WRITE ◄─┘          ├──► LINGER
 *                                              └──► STREAM, until the client leaves
 *
 * Failures: the connection is freed if the client breaks it, or if the client reads or writes more
 * slowly than the times below. Each time runs from the beginning of the state, so that single bytes
 * do not extend it; in RECEIVE from the latest piece, in STREAM from the latest line. */

#include "admin/admin_connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/head.h"
#include "http/head_builder.h"
#include "net/stream.h"
#include "store/operation.h"
#include "tls/tls_server.h"
#include "tls/tls_stream.h"

/* The action after a step. */
enum step {
    STEP_ON,   /* run the step of the current state */
    STEP_WAIT, /* wait for the loop */
    STEP_GONE, /* free the connection */
};

#define SECONDS(n) (UINT64_C(1000000) * (n))

/* Long enough for every change to be answered with its outcome. */
#define HANDLE_US SECONDS(30)
_Static_assert(OPERATION_ANSWER_US_MAX <= HANDLE_US / 2, "operations are answered well before");

/* From the end of a body that was received to its answer: resources have bounds of their own. */
#define RECEIVED_US SECONDS(600)

static const uint64_t TIMES_US[N_STATES] = {
    [STATE_HANDSHAKE] = SECONDS(5), [STATE_IDLE] = SECONDS(60),
    [STATE_READ_HEAD] = SECONDS(5), [STATE_READ_BODY] = SECONDS(5),
    [STATE_HANDLE] = HANDLE_US,     [STATE_WRITE] = SECONDS(30),
    [STATE_STREAM] = SECONDS(30),   [STATE_LINGER] = SECONDS(1),
    [STATE_RECEIVE] = SECONDS(30), /* without a piece of the body */
};

/* No other function writes the state. */
static void set_state(struct admin_connection *connection, enum connection_state state)
{
    connection->state = state;
    connection->state_began_us = clock_monotonic_us();
    timer_arm(&connection->timer, TIMES_US[state]);
}

/* The bytes that were read and are not used yet. */
static struct span unused_bytes(const struct admin_connection *connection)
{
    return span_of(connection->in + connection->in_start,
                   connection->in_end - connection->in_start);
}

/* --- a request's life --- */

/* Too much is held for other clients of this listener, which do not read: it is not kept. */
static void withdraw(struct admin_request *request)
{
    free(request->content);
    request->content = NULL;
    request->content_bytes = 0;
    request->is_answered = false;
    request->is_stream = false;
    answer_problem(request, 503, "too many answers wait to be read; ask again");
}

static void on_answer(struct admin_request *request)
{
    struct admin_connection *connection = CONTAINER_OF(request, struct admin_connection, request);
    struct admin_listener *admin_listener = connection->admin_listener;
    if (request->content_bytes > ADMIN_ANSWER_BYTES_FREE &&
        admin_listener->answer_bytes + request->content_bytes > ADMIN_ANSWER_BYTES_MAX) {
        withdraw(request);
        return;
    }
    admin_listener->answer_bytes += request->content_bytes;
    connection->is_viewer = request->is_stream;
    admin_listener->admin->n_viewers += connection->is_viewer;
    loop_at_iteration_end(connection->admin_listener->admin->loop, &connection->answered);
}

static void on_resume(struct admin_request *request)
{
    struct admin_connection *connection = CONTAINER_OF(request, struct admin_connection, request);
    connection->is_held = false;
    if (connection->state == STATE_RECEIVE && !connection->is_received) {
        timer_arm(&connection->timer, TIMES_US[STATE_RECEIVE]);
        stream_want_read(&connection->stream, true);
    }
}

static void begin_request(struct admin_connection *connection)
{
    struct admin *admin = connection->admin_listener->admin;
    if (admin->tls != NULL) {
        const struct stream *stream = &connection->stream;
        tls_note_activity(admin->tls, tls_is_used(stream) ? stream : NULL);
    }
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
        .on_resume = on_resume,
    };
}

/* End the request: it was answered, or the client is gone. Has no effect if none has begun. */
static void end_request(struct admin_connection *connection)
{
    struct admin_request *request = &connection->request;
    struct admin *admin = connection->admin_listener->admin;
    if (!connection->has_request) {
        return;
    }
    connection->has_request = false;
    if (!request->is_answered && request->on_gone != NULL) {
        request->on_gone(request);
    }
    connection->admin_listener->answer_bytes -= request->content_bytes;
    free(request->content);
    request->content = NULL;
    request->content_bytes = 0;
    if (request->policy != NULL) {
        admin->options.give_policy(admin->options.context, request->policy);
    }
}

/* --- a stream of lines --- */

static void end_viewer(struct admin_connection *connection)
{
    connection->admin_listener->admin->n_viewers -= connection->is_viewer;
    connection->is_viewer = false;
    free(connection->kept_line);
    connection->kept_line = NULL;
}

/* Read the next request, or close. */
static void end_exchange(struct admin_connection *connection)
{
    end_viewer(connection);
    if (connection->keep_alive) {
        head_parser_reset(&connection->parser);
        set_state(connection, STATE_IDLE);
    } else {
        stream_shutdown(&connection->stream);
        connection->in_start = connection->in_end;
        set_state(connection, STATE_LINGER);
    }
    stream_want_read(&connection->stream, true);
}

/* Send @line as a chunk: RFC 9112 section 7.1. STEP_GONE: the client is. */
static enum step send_line(struct admin_connection *connection, struct span line)
{
    static char line_end[] = "\r\n";
    char size[CHUNK_SIZE_BYTES];
    struct text chunk = text_of(size, sizeof(size));
    text_add_format(&chunk, "%zx\r\n", line.len);
    struct iovec slices[] = {
        {size, chunk.len}, {(void *)(uintptr_t)line.data, line.len}, {line_end, 2}};
    const bool is_chunked = connection->minor > 0;
    switch (is_chunked ? stream_write(&connection->stream, slices, 3)
                       : stream_write(&connection->stream, &slices[1], 1)) {
    case STREAM_DONE:
        set_state(connection, STATE_STREAM); /* its time begins anew */
        return STEP_WAIT;
    case STREAM_BLOCKED:
        connection->kept_line = stream_copy_kept(&connection->stream);
        return connection->kept_line != NULL ? STEP_WAIT : STEP_GONE;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    return STEP_GONE;
}

/* The head of the answer has been taken. */
static enum step begin_stream(struct admin_connection *connection)
{
    struct admin_request *request = &connection->request;
    char *line = request->content; /* taken over */
    const size_t line_bytes = request->content_bytes;
    connection->admin_listener->answer_bytes -= line_bytes;
    request->content = NULL;
    request->content_bytes = 0;
    const bool is_outdated =
        connection->request.policy != connection->admin_listener->admin->policy;
    end_request(connection); /* the policy may change from now on */
    if (is_outdated || connection->admin_listener->is_leaving) {
        free(line); /* it was let in by rules that hold no longer: it may ask again */
        return STEP_GONE;
    }
    set_state(connection, STATE_STREAM);
    stream_want_read(&connection->stream, true); /* to see its end */
    const enum step step = send_line(connection, span_of(line, line_bytes));
    free(line);
    return step;
}

/* --- writing an answer --- */

static enum step end_answer(struct admin_connection *connection)
{
    if (connection->request.is_stream && !connection->is_head) {
        return begin_stream(connection);
    }
    end_request(connection);
    end_exchange(connection);
    return STEP_ON;
}

/* Write the answer as soon as the stream accepts it. Once: what the kernel does not take at once is
 * kept by the stream. */
static enum step write_answer(struct admin_connection *connection)
{
    loop_task_cancel(&connection->answered); /* a stream that drained may be before it */
    if (connection->state != STATE_WRITE) {
        connection->is_on_its_way = false;
        connection->keep_alive = connection->keep_alive &&
                                 (connection->state != STATE_RECEIVE || connection->is_received);
        set_state(connection, STATE_WRITE);
    }
    if (stream_is_blocked(&connection->stream)) {
        return STEP_WAIT; /* a 100 that is not taken yet */
    }
    const struct admin_request *request = &connection->request;
    const struct answer_head answer = {.keep_alive = connection->keep_alive,
                                       .minor = connection->minor};
    const struct span head = answer_head_write(request, &answer, connection->out_head);
    const struct span content = answer_content_of(request);
    struct iovec slices[] = {
        {connection->out_head, head.len},
        {(void *)(uintptr_t)content.data, content.len},
    };
    const bool has_content = !connection->is_head && !request->is_stream && content.len > 0;
    connection->is_on_its_way = true;
    audit_report(&connection->request, &connection->peer, &connection->verdict, &connection->match,
                 span_of(connection->method, connection->method_bytes));
    switch (stream_write(&connection->stream, slices, has_content ? 2 : 1)) {
    case STREAM_DONE:
        return end_answer(connection);
    case STREAM_BLOCKED:
        return STEP_WAIT;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    return STEP_GONE;
}

/* --- answers of our own --- */

/* The rest of the input is ignored. */
static enum step refuse(struct admin_connection *connection, uint16_t status, const char *reason)
{
    connection->keep_alive = false;
    set_state(connection, STATE_HANDLE);
    if (reason != NULL) {
        answer_problem(&connection->request, status, "%s", reason);
    } else {
        answer_problem(&connection->request, status, NULL);
    }
    return STEP_WAIT;
}

/* The same without a valid head: a peer that is not authorized is told no reason, as in a 401. */
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
    return mark < target.len ? span_from(target, mark + 1) : span_of(target.data, 0);
}

/* Send the 100 that the client expects, once its request is permitted. */
static enum step invite_body(struct admin_connection *connection, const struct head *head)
{
    static char invitation[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec slice = {invitation, sizeof(invitation) - 1};
    if (!head->expect_continue || head->body == BODY_NONE) {
        return STEP_ON;
    }
    return stream_write(&connection->stream, &slice, 1) == STREAM_BROKEN ? STEP_GONE : STEP_ON;
}

/* Ask the resource. */
static void ask(struct admin_connection *connection)
{
    struct admin_request *request = &connection->request;
    const struct resource_match *match = &connection->match;
    request->method = span_of(connection->method, connection->method_bytes);
    if (connection->is_head) {
        request->method = SPAN("GET");
    }
    request->query = kept_query(connection);
    request->body = span_of(connection->body, connection->body_bytes);
    audit_write_by(request->by, &connection->peer, &connection->verdict);
    request->may_change = access_may_change(connection->verdict.title);
    memcpy(request->captures, match->captures, sizeof(request->captures));
    if (match->resource != NULL) {
        match->resource->handle(request);
        return;
    }
    request->allow = match->allow;
    answer_problem(request, match->status, "%s",
                   match->status == 404   ? "there is nothing here; GET / lists what there is"
                   : match->status == 405 ? "there is no such method here; see Allow"
                                          : match->reason);
}

static enum step begin_receiving(struct admin_connection *connection, const struct head *head)
{
    connection->is_received = false;
    connection->is_held = false;
    set_state(connection, STATE_RECEIVE);
    ask(connection);
    return connection->request.is_answered ? STEP_WAIT : invite_body(connection, head);
}

/* Whether the operator is to show a certificate anew by another connection. */
static bool is_to_reconnect(const struct admin_connection *connection)
{
    return tls_is_used(&connection->stream) &&
           tls_server_is_to_reconnect(tls_client_of(&connection->stream));
}

static enum step take_head(struct admin_connection *connection, const struct head *head)
{
    struct resource_match *match = &connection->match;
    connection->minor = head->minor;
    connection->keep_alive =
        head->keep_alive && !connection->admin_listener->is_leaving && !is_to_reconnect(connection);
    connection->is_head = span_equals(head->method, SPAN("HEAD"));
    request_keep_preferences(&connection->request, head);
    const bool has_room = keep_start_line(connection, head);
    /* One that is too long is judged as one of what there is not. */
    const struct span path = has_room ? head->target.path : span_of(connection->target, 0);
    resource_find(head->method, path, connection->path, connection->allow, match);
    connection->verdict = access_judge(&connection->admin_listener->admin->rules, &connection->peer,
                                       head, match->effect);
    if (connection->verdict.status != 0) {
        return refuse(connection, connection->verdict.status, connection->verdict.reason);
    }
    if (connection->verdict.title != ACCESS_BY_NOTHING && match->effect != ADMIN_SHOWS_PAGE) {
        if (connection->known_by == ACCESS_BY_NOTHING) {
            admin_newcomers_let_in(connection->admin_listener->admin, &connection->peer);
        }
        connection->known_by = connection->verdict.title;
    }
    if (!has_room) {
        return refuse(connection, 414, "the target is longer than any here");
    }
    const bool receives = match->effect == ADMIN_RECEIVES;
    if (!body_reader_begin(&connection->reader, head,
                           receives ? ADMIN_RECEIVED_BYTES_MAX : ADMIN_BODY_BYTES_MAX)) {
        return refuse(connection, 413, "the body is longer than any here");
    }
    if (receives) {
        return begin_receiving(connection, head);
    }
    set_state(connection, STATE_READ_BODY);
    return invite_body(connection, head);
}

static enum step read_head(struct admin_connection *connection)
{
    struct head head;
    size_t consumed;
    if (connection->state == STATE_IDLE) {
        if (unused_bytes(connection).len == 0) {
            return STEP_WAIT;
        }
        set_state(connection, STATE_READ_HEAD);
    }
    switch (head_parse_request(&connection->parser, unused_bytes(connection), &head, &consumed)) {
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
    set_state(connection, STATE_HANDLE);
    ask(connection);
    return STEP_WAIT;
}

/* End what the resource has begun, and refuse the rest. */
static enum step give_up(struct admin_connection *connection, uint16_t status, const char *reason)
{
    struct admin_request *request = &connection->request;
    if (request->on_gone != NULL) {
        request->on_gone(request);
        request->on_gone = NULL;
    }
    return refuse(connection, status, reason);
}

/* The resource takes all of @content, whatever it says of more. */
static void pass_on(struct admin_connection *connection, struct span content)
{
    struct admin_request *request = &connection->request;
    timer_arm(&connection->timer, connection->is_received ? RECEIVED_US : TIMES_US[STATE_RECEIVE]);
    connection->is_held = content.len > 0 && !request->on_piece(request, content);
    if (connection->is_received) {
        request->on_body_end(request);
    }
}

static enum step read_body(struct admin_connection *connection)
{
    struct http_error error;
    struct span content;
    size_t consumed;
    const bool receives = connection->state == STATE_RECEIVE;
    if (receives &&
        (connection->is_held || connection->is_received || connection->request.is_answered)) {
        return STEP_WAIT;
    }
    const enum parse_result result = body_reader_take(&connection->reader, unused_bytes(connection),
                                                      &content, &consumed, &error);
    if (result == PARSE_BAD) {
        return give_up(connection, error.status, error.reason);
    }
    connection->in_start += consumed;
    if (receives) {
        connection->is_received = result == PARSE_DONE;
        pass_on(connection, content);
        return STEP_WAIT;
    }
    if (content.len > 0) {
        memcpy(connection->body + connection->body_bytes, content.data, content.len);
        connection->body_bytes += content.len;
    }
    return result == PARSE_DONE ? handle(connection) : STEP_WAIT;
}

static void refuse_late(struct admin_connection *connection)
{
    static const char REASON[] = "the request did not come in time";
    if (connection->state == STATE_READ_HEAD) {
        begin_request(connection);
        (void)refuse_unread(connection, 408, REASON);
    } else {
        (void)give_up(connection, 408, REASON);
    }
}

void admin_connection_free(struct admin_connection *connection)
{
    list_remove(&connection->node);
    connection->admin_listener->n_connections--;
    end_viewer(connection);
    end_request(connection);
    loop_task_cancel(&connection->answered);
    timer_close(&connection->timer);
    stream_close(&connection->stream);
    admin_listener_on_connection_gone(connection->admin_listener);
    free(connection);
}

/* --- loop events --- */

static enum step take_step(struct admin_connection *connection)
{
    switch (connection->state) {
    case STATE_IDLE:
    case STATE_READ_HEAD:
        return read_head(connection);
    case STATE_READ_BODY:
    case STATE_RECEIVE:
        return read_body(connection);
    case STATE_STREAM:
    case STATE_LINGER:
        connection->in_start = connection->in_end;
        break;
    case STATE_HANDSHAKE:
    case STATE_HANDLE:
    case STATE_WRITE:
    case N_STATES:
        break;
    }
    return STEP_WAIT;
}

/* Run steps until one must wait for the loop. The connection may be freed afterwards. */
static void go_on(struct admin_connection *connection, enum step step)
{
    while (step == STEP_ON) {
        step = take_step(connection);
    }
    if (step == STEP_GONE) {
        admin_connection_free(connection);
    }
}

static void on_answered(struct loop_task *task)
{
    struct admin_connection *connection = CONTAINER_OF(task, struct admin_connection, answered);
    go_on(connection, write_answer(connection));
}

static void make_room(struct admin_connection *connection)
{
    const struct span rest = unused_bytes(connection);
    if (connection->in_start > 0) {
        memmove(connection->in, rest.data, rest.len);
        connection->in_start = 0;
        connection->in_end = rest.len;
    }
}

/* While an answer is awaited nothing is read, except to see the end of a client that a process
 * works for. */
static bool wants_bytes(const struct admin_connection *connection)
{
    const struct admin_request *request = &connection->request;
    const bool is_wanted = connection->state == STATE_HANDLE ? request->watches_client
                           : connection->state == STATE_RECEIVE
                               ? !connection->is_held && !request->is_answered
                               : connection->state != STATE_WRITE;
    return is_wanted && unused_bytes(connection).len < IN_BYTES;
}

static void on_readable(void *owner)
{
    struct admin_connection *connection = owner;
    size_t n_read;
    if (!wants_bytes(connection)) {
        stream_want_read(&connection->stream, false);
        return;
    }
    make_room(connection);
    switch (stream_read(&connection->stream, connection->in + connection->in_end,
                        IN_BYTES - connection->in_end, &n_read)) {
    case STREAM_DONE:
        connection->in_end += n_read;
        go_on(connection, STEP_ON);
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    admin_connection_free(connection);
}

static void on_drained(void *owner)
{
    struct admin_connection *connection = owner;
    if (connection->state == STATE_STREAM) {
        free(connection->kept_line);
        connection->kept_line = NULL;
    } else if (connection->state == STATE_WRITE) {
        go_on(connection,
              connection->is_on_its_way ? end_answer(connection) : write_answer(connection));
    }
}

static void answer_late(struct admin_request *request)
{
    if (request->is_answered) {
        return;
    }
    if (request->on_gone != NULL) {
        request->on_gone(request);
        request->on_gone = NULL;
    }
    answer_problem(request, 504, "there was no answer in time");
}

static void on_timer(void *context)
{
    struct admin_connection *connection = context;
    switch (connection->state) {
    case STATE_READ_HEAD:
    case STATE_READ_BODY:
        refuse_late(connection);
        return;
    case STATE_RECEIVE:
        if (connection->is_received || connection->request.is_answered) {
            answer_late(&connection->request);
        } else {
            refuse_late(connection);
        }
        return;
    case STATE_HANDLE:
        answer_late(&connection->request);
        return;
    case STATE_HANDSHAKE:
    case STATE_IDLE:
    case STATE_WRITE:
    case STATE_STREAM: /* it has taken no line for so long */
    case STATE_LINGER:
    case N_STATES:
        break;
    }
    admin_connection_free(connection);
}

static const struct stream_handler HANDLER = {.on_readable = on_readable, .on_drained = on_drained};

/* --- TLS --- */

static enum tls_turn on_hello(void *owner, const struct client_hello *hello,
                              const struct tls_server_entry *entry)
{
    const struct admin_connection *connection = owner;
    (void)hello;
    (void)entry;
    return admin_newcomers_are_many(connection->admin_listener->admin, &connection->peer)
               ? TLS_TURN_LAST
               : TLS_TURN_NEXT;
}

static void on_handshake(void *owner, const struct tls_outcome *outcome)
{
    struct admin_connection *connection = owner;
    uint64_t n_held;
    if (outcome->failure == TLS_FAILURE_NONE) {
        set_state(connection, STATE_IDLE);
        return;
    }
    if (log_gate_pass(&connection->admin_listener->admin->refusals, clock_monotonic_us(),
                      &n_held)) {
        log_warn("admin.tls", "TLS handshake failed", "reason=%s err=\"%s\" times_before=%llu",
                 tls_failure_label(outcome->failure), outcome->reason, (unsigned long long)n_held);
    }
    admin_connection_free(connection);
}

static const struct tls_handler TLS_HANDLER = {.on_hello = on_hello, .on_done = on_handshake};

/* --- life --- */

enum status admin_connection_new(struct admin_listener *admin_listener, int fd,
                                 const struct access_peer *peer)
{
    struct loop *loop = admin_listener->admin->loop;
    struct admin_connection *connection = malloc(sizeof(*connection));
    if (connection == NULL) {
        close(fd);
        return STATUS_NO_MEMORY;
    }
    list_push_back(&admin_listener->connections, &connection->node);
    admin_listener->n_connections++;
    connection->admin_listener = admin_listener;
    connection->peer = *peer;
    connection->known_by = ACCESS_BY_NOTHING;
    admin_newcomers_add(admin_listener->admin, peer);
    connection->began_us = clock_monotonic_us();
    connection->in_start = 0;
    connection->in_end = 0;
    connection->minor = 1;
    connection->has_request = false;
    connection->has_asked = false;
    connection->is_viewer = false;
    connection->kept_line = NULL;
    connection->request = (struct admin_request){.admin = admin_listener->admin};
    connection->parser = (struct head_parser){
        .fields = connection->fields,
        .n_fields_max = FIELDS_MAX,
        .head_bytes_max = HEAD_BYTES_MAX,
    };
    loop_task_init(&connection->answered, on_answered);
    connection->timer = (struct timer){0};
    timer_init(&connection->timer, loop, on_timer, connection);
    struct tls_server *tls = admin_listener->tls;
    enum status status = stream_open(&connection->stream, loop, fd, &HANDLER, connection);
    if (status == STATUS_OK && tls != NULL) {
        status = tls_accept(admin_listener->admin->tls, &connection->stream, tls, span_of(NULL, 0),
                            &TLS_HANDLER);
    }
    if (status != STATUS_OK) {
        admin_connection_free(connection);
        return status;
    }
    set_state(connection, tls != NULL ? STATE_HANDSHAKE : STATE_IDLE);
    return STATUS_OK;
}

void admin_connection_send_line(struct admin_connection *connection, struct span line)
{
    if (!stream_is_blocked(&connection->stream)) {
        go_on(connection, send_line(connection, line));
    }
}

void admin_connection_end_stream(struct admin_connection *connection)
{
    static char last_chunk[] = "0\r\n\r\n";
    struct iovec slice = {last_chunk, sizeof(last_chunk) - 1};
    const bool is_chunked = connection->minor > 0;
    if (stream_is_blocked(&connection->stream) ||
        (is_chunked && stream_write(&connection->stream, &slice, 1) != STREAM_DONE)) {
        admin_connection_free(connection);
        return;
    }
    end_exchange(connection);
}

void admin_connection_await_head(struct admin_connection *connection)
{
    timer_arm(&connection->timer, TIMES_US[STATE_READ_HEAD]);
}
