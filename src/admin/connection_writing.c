/* From an answer to bytes. */

#include "admin/audit.h"
#include "admin/connection_parts.h"
#include "base/clock.h"
#include "http/message.h"

static struct span write_head(struct admin_connection *connection)
{
    const struct admin_request *request = &connection->request;
    struct text head = text_of(connection->out_head, sizeof(connection->out_head));
    char date[MESSAGE_DATE_BYTES];
    message_write_date(date, clock_wall_us());
    message_write_status_line(&head, request->status);
    message_write_field(&head, SPAN("Date"), span_of(date, sizeof(date)));
    message_write_field(&head, SPAN("Server"), SPAN("sluice"));
    message_write_field(&head, SPAN("Cache-Control"), SPAN("no-store"));
    /* Nothing here is for pages, not even as an image. */
    message_write_field(&head, SPAN("Cross-Origin-Resource-Policy"), SPAN("same-origin"));
    message_write_field(&head, SPAN("X-Content-Type-Options"), SPAN("nosniff"));
    if (request->status == 401) {
        message_write_field(&head, SPAN("WWW-Authenticate"), SPAN("Bearer realm=\"sluice\""));
    }
    if (request->status == 405) {
        message_write_field(&head, SPAN("Allow"), request->allow);
    }
    if (request->content_bytes > 0) {
        message_write_field(&head, SPAN("Content-Type"), request->content_type);
    }
    if (request->status != 204) {
        message_write_field_u64(&head, SPAN("Content-Length"), request->content_bytes);
    }
    if (!connection->keep_alive) {
        message_write_field(&head, SPAN("Connection"), SPAN("close"));
    } else if (connection->minor == 0) {
        message_write_field(&head, SPAN("Connection"), SPAN("keep-alive"));
    }
    text_add_literal(&head, "\r\n");
    return text_span(&head);
}

enum step connection_end_answer(struct admin_connection *connection)
{
    connection_end_request(connection);
    if (connection->keep_alive) {
        head_parser_reset(&connection->parser);
        connection_set_state(connection, STATE_IDLE);
    } else {
        stream_shutdown(&connection->stream);
        connection->in_start = connection->in_end;
        connection_set_state(connection, STATE_LINGER);
    }
    stream_want_read(&connection->stream, true);
    return STEP_ON;
}

/* Once: what the kernel does not take at once is kept by the stream. */
enum step connection_write(struct admin_connection *connection)
{
    loop_task_cancel(&connection->answered); /* a stream that drained may be before it */
    if (connection->state != STATE_WRITE) {
        connection->is_on_its_way = false;
        connection_set_state(connection, STATE_WRITE);
    }
    if (stream_is_blocked(&connection->stream)) {
        return STEP_WAIT; /* a 100 that is not taken yet */
    }
    const struct admin_request *request = &connection->request;
    const struct span head = write_head(connection);
    struct iovec slices[] = {
        {connection->out_head, head.len},
        {request->content, request->content_bytes},
    };
    const bool has_content = !connection->is_head && request->content_bytes > 0;
    connection->is_on_its_way = true;
    audit_tell(&connection->request, &connection->peer, &connection->verdict, &connection->match,
               span_of(connection->method, connection->method_bytes));
    switch (stream_write(&connection->stream, slices, has_content ? 2 : 1)) {
    case STREAM_DONE:
        return connection_end_answer(connection);
    case STREAM_BLOCKED:
        return STEP_WAIT;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    return STEP_GONE;
}
