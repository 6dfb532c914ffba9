#include "store/redis_handshake.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/redis_command.h"

enum { AUTH_FAULT_BYTES_MAX = 64 };

/* False, and the failure told, when @reply is no text. */
static bool is_good(struct redis_handshake *handshake, const struct redis_reply *reply)
{
    switch (reply->kind) {
    case REDIS_REPLY_IS_TEXT:
        return true;
    case REDIS_REPLY_IS_FAULT:
        handshake->on_end(handshake->owner, redis_fault_of(redis_reply_text(reply)),
                          redis_reply_text(reply));
        return false;
    case REDIS_REPLY_IS_INTS:
    case REDIS_REPLY_IS_NESTED:
    case REDIS_REPLY_IS_STRANGE:
        break;
    }
    handshake->on_end(handshake->owner, REDIS_FAULT_MALFORMED,
                      SPAN("the handshake is answered with nonsense"));
    return false;
}

/* A server that does not know AUTH sends its arguments back in the error, the password too: of that
 * text only the code in front is told. */
static void on_auth_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_handshake *handshake = CONTAINER_OF(call, struct redis_handshake, auth_call);
    if (reply != NULL && reply->kind == REDIS_REPLY_IS_FAULT) {
        char buffer[AUTH_FAULT_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        const struct span fault = redis_reply_text(reply);
        const struct span code = span_of(fault.data, span_find(fault, ' '));
        text_add_literal(&text, "AUTH is refused: ");
        text_add(&text, code);
        handshake->on_end(handshake->owner, redis_fault_of(fault), text_span(&text));
    } else if (reply != NULL) {
        (void)is_good(handshake, reply);
    }
}

static void on_select_reply(struct redis_call *call, const struct redis_reply *reply)
{
    if (reply != NULL) {
        (void)is_good(CONTAINER_OF(call, struct redis_handshake, select_call), reply);
    }
}

/* ROLE is answered with a list whose first element is the role. */
static void on_role_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_handshake *handshake = CONTAINER_OF(listener, struct redis_handshake, listener);
    if (part->depth == 1 && part->at[0] == 0) {
        handshake->is_master =
            part->kind == REDIS_PART_TEXT && span_equals(part->text, SPAN("master"));
    }
}

static void on_role_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_handshake *handshake = CONTAINER_OF(call, struct redis_handshake, role_call);
    if (reply == NULL) {
        return;
    }
    if (reply->kind != REDIS_REPLY_IS_NESTED) {
        if (is_good(handshake, reply)) {
            handshake->on_end(handshake->owner, REDIS_FAULT_MALFORMED,
                              SPAN("ROLE is answered with nonsense"));
        }
    } else if (!handshake->is_master) {
        handshake->on_end(handshake->owner, REDIS_FAULT_READONLY,
                          SPAN("a replica is where the sentinels say the master is"));
    }
}

static void on_load_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_handshake *handshake = CONTAINER_OF(call, struct redis_handshake, load_call);
    if (reply == NULL || !is_good(handshake, reply)) {
        return;
    }
    const struct span sha = redis_reply_text(reply);
    if (sha.len == REDIS_SHA_BYTES) {
        handshake->on_end(handshake->owner, REDIS_FAULT_NONE, sha);
    } else {
        handshake->on_end(handshake->owner, REDIS_FAULT_MALFORMED,
                          SPAN("SCRIPT LOAD is answered with nonsense"));
    }
}

static enum status send_words(struct redis_connection *connection, const struct span *words,
                              size_t n_words, struct redis_call *call)
{
    char *command;
    size_t len;
    enum status status = redis_command_write_words(words, n_words, &command, &len);
    if (status == STATUS_OK) {
        status =
            redis_connection_send(connection, span_of(command, len), call, clock_monotonic_us());
        free(command);
    }
    return status;
}

static enum status send_auth(struct redis_handshake *handshake, struct redis_connection *connection,
                             const struct redis_store_options *options)
{
    const struct span with_user[] = {SPAN("AUTH"), options->user, options->password};
    const struct span without[] = {SPAN("AUTH"), options->password};
    if (options->password.len == 0) {
        return STATUS_OK;
    }
    handshake->auth_call.on_reply = on_auth_reply;
    return options->user.len > 0
               ? send_words(connection, with_user, ARRAY_LEN(with_user), &handshake->auth_call)
               : send_words(connection, without, ARRAY_LEN(without), &handshake->auth_call);
}

static enum status send_select(struct redis_handshake *handshake,
                               struct redis_connection *connection, uint32_t database)
{
    char digits[16];
    struct text number = text_of(digits, sizeof(digits));
    if (database == 0) {
        return STATUS_OK;
    }
    text_add_u64(&number, database);
    const struct span words[] = {SPAN("SELECT"), text_span(&number)};
    handshake->select_call.on_reply = on_select_reply;
    return send_words(connection, words, ARRAY_LEN(words), &handshake->select_call);
}

static enum status send_load(struct redis_handshake *handshake)
{
    const struct span words[] = {SPAN("SCRIPT"), SPAN("LOAD"), handshake->source};
    handshake->load_call.on_reply = on_load_reply;
    return send_words(handshake->connection, words, ARRAY_LEN(words), &handshake->load_call);
}

static void on_time_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_handshake *handshake = CONTAINER_OF(call, struct redis_handshake, time_call);
    handshake->connection->reply.listener = handshake->owners_listener;
    if (reply == NULL) {
        return;
    }
    if (reply->kind != REDIS_REPLY_IS_NESTED) {
        if (is_good(handshake, reply)) {
            handshake->on_end(handshake->owner, REDIS_FAULT_MALFORMED,
                              SPAN("TIME is answered with nonsense"));
        }
    } else if (send_load(handshake) != STATUS_OK) {
        handshake->on_end(handshake->owner, REDIS_FAULT_RESET, SPAN("cannot send the script"));
    }
}

static enum status send_time(struct redis_handshake *handshake)
{
    const struct span words[] = {SPAN("TIME")};
    handshake->time_call.on_reply = on_time_reply;
    return send_words(handshake->connection, words, ARRAY_LEN(words), &handshake->time_call);
}

/* Sentinels may lead to a master that is none any more. */
static enum status send_role(struct redis_handshake *handshake, struct redis_connection *connection)
{
    const struct span words[] = {SPAN("ROLE")};
    handshake->is_master = false;
    handshake->role_call.on_reply = on_role_reply;
    return send_words(connection, words, ARRAY_LEN(words), &handshake->role_call);
}

enum status redis_handshake_send(struct redis_handshake *handshake,
                                 struct redis_connection *connection,
                                 const struct redis_store_options *options, struct span source)
{
    handshake->connection = connection;
    handshake->source = source;
    handshake->listener.on_part = on_role_part;
    if (connection->reply.listener != &handshake->listener) {
        handshake->owners_listener = connection->reply.listener;
    }
    connection->reply.listener = &handshake->listener;
    enum status status = send_auth(handshake, connection, options);
    if (status == STATUS_OK) {
        status = send_select(handshake, connection, options->database);
    }
    if (status == STATUS_OK && options->sentinels.n_hosts > 0) {
        status = send_role(handshake, connection);
    }
    if (status == STATUS_OK) {
        status = redis_cell_probe(&handshake->cell, connection, options);
    }
    return status == STATUS_OK ? send_time(handshake) : status;
}
