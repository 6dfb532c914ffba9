#include "store/redis/redis_handshake.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/redis/redis_command.h"

enum { AUTH_FAULT_BYTES_MAX = 64 };

static const char MODULE[] = "store.redis";

/* --- redis-cell --- */

/* A link of this process has logged that redis-cell is missing. */
static atomic_bool was_reported;

static bool is_unknown(struct span text)
{
    return span_starts_with(text, SPAN("ERR unknown command"));
}

/* A user without permission cannot use the command either. */
static bool is_missing(struct span text)
{
    return is_unknown(text) || span_starts_with(text, SPAN("NOPERM"));
}

static void set_missing(struct redis_cell *cell, struct span text)
{
    char buffer[REDIS_REPLY_LOGGED_MAX];
    struct text logged = text_of(buffer, sizeof(buffer));
    cell->is_there = false;
    if (!atomic_exchange(&was_reported, true)) {
        text_add_logfmt(&logged, text);
        log_warn(MODULE, "no redis-cell here: gcra limits are decided by the script", "err=%.*s",
                 SPAN_ARGS(text_span(&logged)));
    }
}

/* The probe has no arguments: a server with the command answers with another error. */
static void on_probe_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_cell *cell = CONTAINER_OF(call, struct redis_cell, call);
    if (reply == NULL) {
        return;
    }
    if (reply->kind != REDIS_REPLY_IS_FAULT || is_missing(redis_reply_text(reply))) {
        set_missing(cell, redis_reply_text(reply));
        return;
    }
    cell->is_there = true;
    atomic_store(&was_reported, false);
}

static bool is_wanted(const struct redis_store_options *options)
{
    for (size_t i = 0; i < options->n_limits; i++) {
        if (options->limits[i].by_cell) {
            return true;
        }
    }
    return false;
}

enum status redis_cell_probe(struct redis_cell *cell, struct redis_connection *connection,
                             const struct redis_store_options *options)
{
    cell->is_there = false;
    if (!is_wanted(options)) {
        return STATUS_OK;
    }
    cell->call.on_reply = on_probe_reply;
    return redis_connection_send(connection, SPAN("*1\r\n$11\r\nCL.THROTTLE\r\n"), &cell->call,
                                 clock_monotonic_us());
}

bool redis_cell_takes(const struct redis_cell *cell, const struct decision *decision)
{
    return cell->is_there && decision->aim == DECISION_ADMIT && decision->n_charges == 1 &&
           decision->charges[0].limit->by_cell;
}

bool redis_cell_is_lost(struct redis_cell *cell, struct span text)
{
    if (is_unknown(text)) {
        set_missing(cell, text);
    }
    return is_unknown(text);
}

/* --- replies --- */

static void end(struct redis_handshake *handshake, enum redis_fault fault, struct span text)
{
    handshake->on_end(handshake->owner, fault, text);
}

/* Whether @reply is of @kind. If not, the failure has been reported. @trouble: why a text is a
 * failure. */
static bool is_good(struct redis_handshake *handshake, const struct redis_reply *reply,
                    enum redis_reply_kind kind, struct span trouble)
{
    const struct span text = redis_reply_text(reply);
    if (reply->kind == kind) {
        return true;
    }
    if (reply->kind == REDIS_REPLY_IS_FAULT) {
        end(handshake, redis_fault_of(text), text);
    } else if (reply->kind == REDIS_REPLY_IS_TEXT) {
        end(handshake, REDIS_FAULT_MALFORMED, trouble);
    } else {
        end(handshake, REDIS_FAULT_MALFORMED, SPAN("the handshake is answered with nonsense"));
    }
    return false;
}

static void read_select(struct redis_handshake *handshake, const struct redis_reply *reply)
{
    (void)is_good(handshake, reply, REDIS_REPLY_IS_TEXT, SPAN(""));
}

static void read_auth(struct redis_handshake *handshake, const struct redis_reply *reply)
{
    char buffer[AUTH_FAULT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (reply->kind == REDIS_REPLY_IS_FAULT) {
        text_add_literal(&text, "AUTH is refused: ");
        text_add(&text, redis_fault_code(redis_reply_text(reply)));
        end(handshake, redis_fault_of(redis_reply_text(reply)), text_span(&text));
    } else {
        read_select(handshake, reply);
    }
}

/* The first element of the reply to ROLE is the role. */
static void on_role_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_handshake *handshake = CONTAINER_OF(listener, struct redis_handshake, listener);
    if (part->depth == 1 && part->at[0] == 0) {
        handshake->is_master =
            part->kind == REDIS_PART_TEXT && span_equals(part->text, SPAN("master"));
    }
}

static void read_role(struct redis_handshake *handshake, const struct redis_reply *reply)
{
    if (is_good(handshake, reply, REDIS_REPLY_IS_NESTED, SPAN("ROLE is answered with nonsense")) &&
        !handshake->is_master) {
        end(handshake, REDIS_FAULT_READONLY,
            SPAN("a replica is where the sentinels say the master is"));
    }
}

static void read_load(struct redis_handshake *handshake, const struct redis_reply *reply)
{
    const struct span sha = redis_reply_text(reply);
    if (!is_good(handshake, reply, REDIS_REPLY_IS_TEXT, SPAN(""))) {
        return;
    }
    if (sha.len == REDIS_SHA_BYTES) {
        end(handshake, REDIS_FAULT_NONE, SPAN(""));
    } else {
        end(handshake, REDIS_FAULT_MALFORMED, SPAN("SCRIPT LOAD is answered with nonsense"));
    }
}

/* --- commands --- */

typedef void (*reply_reader)(struct redis_handshake *handshake, const struct redis_reply *reply);

/* Send the command in @wire, if any, and free @wire. @status: whether it could be written. */
static enum status send_wire(struct redis_handshake *handshake, struct redis_wire *wire,
                             enum status status, reply_reader reader)
{
    if (status == STATUS_OK && wire->len > 0) {
        status = redis_connection_send(handshake->connection, redis_wire_span(wire),
                                       &handshake->call, clock_monotonic_us());
        if (status == STATUS_OK) {
            handshake->readers[handshake->n_sent++] = reader;
        }
    }
    redis_wire_free(wire);
    return status;
}

static enum status send_words(struct redis_handshake *handshake, const struct span *words,
                              size_t n_words, reply_reader reader)
{
    struct redis_wire wire = {0};
    return send_wire(handshake, &wire, redis_wire_add(&wire, words, n_words), reader);
}

static enum status send_auth(struct redis_handshake *handshake,
                             const struct redis_store_options *options)
{
    struct redis_wire wire = {0};
    return send_wire(handshake, &wire, redis_wire_add_auth(&wire, options->user, options->password),
                     read_auth);
}

static enum status send_select(struct redis_handshake *handshake, uint32_t database)
{
    char digits[16];
    struct text number = text_of(digits, sizeof(digits));
    if (database == 0) {
        return STATUS_OK;
    }
    text_add_u64(&number, database);
    const struct span words[] = {SPAN("SELECT"), text_span(&number)};
    return send_words(handshake, words, ARRAY_LEN(words), read_select);
}

static void read_time(struct redis_handshake *handshake, const struct redis_reply *reply)
{
    const struct span words[] = {SPAN("SCRIPT"), SPAN("LOAD"), *handshake->source};
    handshake->connection->reply.listener = handshake->owners_listener;
    if (is_good(handshake, reply, REDIS_REPLY_IS_NESTED, SPAN("TIME is answered with nonsense")) &&
        send_words(handshake, words, ARRAY_LEN(words), read_load) != STATUS_OK) {
        end(handshake, REDIS_FAULT_RESET, SPAN("cannot send the script"));
    }
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_handshake *handshake = CONTAINER_OF(call, struct redis_handshake, call);
    const reply_reader reader = handshake->readers[handshake->n_answered++];
    if (reply != NULL) {
        reader(handshake, reply);
    } else {
        handshake->connection->reply.listener = handshake->owners_listener;
    }
}

enum status redis_handshake_send(struct redis_handshake *handshake,
                                 struct redis_connection *connection,
                                 const struct redis_store_options *options,
                                 const struct span *source)
{
    handshake->connection = connection;
    handshake->source = source;
    handshake->call.on_reply = on_reply;
    handshake->n_sent = handshake->n_answered = 0;
    handshake->listener.on_part = on_role_part;
    handshake->is_master = false;
    if (connection->reply.listener != &handshake->listener) {
        handshake->owners_listener = connection->reply.listener;
    }
    connection->reply.listener = &handshake->listener;
    enum status status = send_auth(handshake, options);
    if (status == STATUS_OK) {
        status = send_select(handshake, options->database);
    }
    if (status == STATUS_OK && options->sentinels.n_hosts > 0) {
        /* The address that sentinels report may belong to a former master. */
        status = send_words(handshake, &SPAN("ROLE"), 1, read_role);
    }
    if (status == STATUS_OK) {
        status = redis_cell_probe(&handshake->cell, connection, options);
    }
    return status == STATUS_OK ? send_words(handshake, &SPAN("TIME"), 1, read_time) : status;
}
