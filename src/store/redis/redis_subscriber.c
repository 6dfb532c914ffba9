/* Happy path: found ─► connected ─► AUTH and SUBSCRIBE in one write ─► confirmed ─► messages.
 *
 * Failures: not found, no connection, a broken one, an error, a reply that is malformed or too
 * long, silence ─► on_lost, once; then nothing happens until the subscriber is closed. */

#include "store/redis/redis_subscriber.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/redis/redis_connection.h"

enum {
    ANSWER_US = 1000 * 1000,   /* limit to find the endpoint; and to connect and subscribe */
    PING_US = 5 * 1000 * 1000, /* between PINGs */
    SILENCE_US = 12 * 1000 * 1000,
    TROUBLE_BYTES_MAX = 64,
};

static void lose_by(struct redis_subscriber *subscriber, enum redis_fault fault,
                    struct span trouble)
{
    if (subscriber->state != REDIS_SUBSCRIBER_LOST) {
        subscriber->state = REDIS_SUBSCRIBER_LOST;
        timer_disarm(&subscriber->timer);
        redis_connection_close(&subscriber->connection);
        subscriber->handler->on_lost(subscriber->owner, fault, trouble);
    }
}

static void lose(struct redis_subscriber *subscriber)
{
    lose_by(subscriber, REDIS_FAULT_NONE, SPAN(""));
}

/* --- replies and messages --- */

/* Three texts: the kind, the channel, and the message or a number. */
static void take_texts(struct redis_subscriber *subscriber)
{
    const struct redis_texts *texts = &subscriber->texts;
    const struct span kind = redis_texts_get(texts, 0);
    if (span_equals(kind, SPAN("subscribe"))) {
        subscriber->state = REDIS_SUBSCRIBER_LISTENING;
        redis_endpoint_note_good(&subscriber->endpoint);
        timer_arm(&subscriber->timer, PING_US);
        subscriber->handler->on_ready(subscriber->owner);
    } else if (span_equals(kind, SPAN("message")) &&
               span_equals(redis_texts_get(texts, 1), subscriber->channel)) {
        subscriber->handler->on_message(subscriber->owner, redis_texts_get(texts, 2));
    }
}

static void lose_refused(struct redis_subscriber *subscriber, struct span said)
{
    char buffer[TROUBLE_BYTES_MAX];
    struct text trouble = text_of(buffer, sizeof(buffer));
    text_add_literal(&trouble, "it is refused: ");
    text_add(&trouble, redis_fault_code(said));
    lose_by(subscriber, redis_fault_of(said), text_span(&trouble));
}

static void on_message(void *owner, const struct redis_reply *message)
{
    struct redis_subscriber *subscriber = owner;
    switch (message->kind) {
    case REDIS_REPLY_IS_TEXT:
        return; /* AUTH */
    case REDIS_REPLY_IS_NESTED:
        if (subscriber->texts.n == REDIS_TEXTS_MAX) {
            take_texts(subscriber);
        }
        redis_texts_clear(&subscriber->texts);
        return; /* two texts: the reply to PING */
    case REDIS_REPLY_IS_FAULT:
        lose_refused(subscriber, redis_reply_text(message));
        return;
    case REDIS_REPLY_IS_INTS:
    case REDIS_REPLY_IS_STRANGE:
        lose(subscriber);
        return;
    }
}

/* --- connecting --- */

static enum status connect_to(struct redis_subscriber *subscriber)
{
    const struct redis_tls *contexts = subscriber->endpoint.options->contexts;
    if (contexts != NULL) {
        redis_connection_secure(&subscriber->connection, contexts->worker, contexts->servers,
                                redis_endpoint_host(&subscriber->endpoint));
    }
    const enum status status = redis_connection_open(&subscriber->connection,
                                                     redis_endpoint_address(&subscriber->endpoint),
                                                     redis_endpoint_path(&subscriber->endpoint));
    redis_texts_clear(&subscriber->texts);
    return status == STATUS_OK
               ? redis_connection_send(&subscriber->connection, redis_wire_span(&subscriber->hello),
                                       NULL, clock_monotonic_us())
               : status;
}

/* Connect to the current address or, if that fails at once, to the next address of the name. */
static void connect_next(struct redis_subscriber *subscriber)
{
    subscriber->state = REDIS_SUBSCRIBER_CONNECTING;
    timer_arm(&subscriber->timer, ANSWER_US);
    while (connect_to(subscriber) != STATUS_OK) {
        redis_connection_close(&subscriber->connection);
        if (!redis_endpoint_advance(&subscriber->endpoint)) {
            lose(subscriber);
            return;
        }
    }
}

/* The current address has failed: try the next address of the name, if any. */
static void fail_address(struct redis_subscriber *subscriber)
{
    redis_connection_close(&subscriber->connection);
    if (redis_endpoint_advance(&subscriber->endpoint)) {
        connect_next(subscriber);
    } else {
        lose(subscriber);
    }
}

static void on_connection_lost(void *owner, enum redis_fault fault, struct span trouble)
{
    if (fault == REDIS_FAULT_REFUSED) {
        fail_address(owner);
    } else {
        lose_by(owner, fault, trouble);
    }
}

static void on_found(void *owner, enum status status, struct span trouble)
{
    struct redis_subscriber *subscriber = owner;
    (void)trouble;
    if (subscriber->state == REDIS_SUBSCRIBER_LOST) {
        return;
    }
    if (status == STATUS_OK) {
        connect_next(subscriber);
    } else {
        lose(subscriber);
    }
}

static void on_moved(void *owner)
{
    lose(owner);
}

static void seek(struct redis_subscriber *subscriber)
{
    subscriber->state = REDIS_SUBSCRIBER_SEEKING;
    switch (redis_endpoint_ask(&subscriber->endpoint)) {
    case REDIS_ENDPOINT_KNOWN:
        connect_next(subscriber);
        break;
    case REDIS_ENDPOINT_ASKED:
        timer_arm(&subscriber->timer, ANSWER_US);
        break;
    case REDIS_ENDPOINT_NO_MEMORY:
        lose(subscriber);
        break;
    }
}

static void ping(struct redis_subscriber *subscriber)
{
    const uint64_t now_us = clock_monotonic_us();
    if (now_us - subscriber->connection.quiet_since_us > SILENCE_US ||
        redis_connection_send(&subscriber->connection, SPAN("*1\r\n$4\r\nPING\r\n"), NULL,
                              now_us) != STATUS_OK) {
        lose(subscriber);
    } else {
        timer_arm(&subscriber->timer, PING_US);
    }
}

static void on_timer(void *context)
{
    struct redis_subscriber *subscriber = context;
    switch (subscriber->state) {
    case REDIS_SUBSCRIBER_NEW:
        seek(subscriber);
        break;
    case REDIS_SUBSCRIBER_SEEKING:
        lose(subscriber);
        break;
    case REDIS_SUBSCRIBER_CONNECTING:
        fail_address(subscriber);
        break;
    case REDIS_SUBSCRIBER_LISTENING:
        ping(subscriber);
        break;
    case REDIS_SUBSCRIBER_LOST:
        break;
    }
}

/* --- life --- */

static enum status write_hello(struct redis_wire *hello, const struct redis_store_options *options,
                               struct span channel)
{
    const struct span subscribe[] = {SPAN("SUBSCRIBE"), channel};
    const enum status status = redis_wire_add_auth(hello, options->user, options->password);
    return status == STATUS_OK ? redis_wire_add(hello, subscribe, ARRAY_LEN(subscribe)) : status;
}

enum status redis_subscriber_open(struct redis_subscriber *subscriber, struct loop *loop,
                                  const struct redis_store_options *options, struct span channel,
                                  const struct redis_subscriber_handler *handler, void *owner)
{
    static const struct redis_endpoint_handler ENDPOINT_HANDLER = {
        .on_found = on_found,
        .on_moved = on_moved,
    };
    *subscriber = (struct redis_subscriber){.handler = handler, .owner = owner, .channel = channel};
    redis_connection_init(&subscriber->connection, loop, on_connection_lost, subscriber);
    subscriber->connection.on_message = on_message;
    subscriber->connection.reply.listener = &subscriber->texts.listener;
    timer_init(&subscriber->timer, loop, on_timer, subscriber);
    enum status status = write_hello(&subscriber->hello, options, channel);
    if (status == STATUS_OK) {
        status = redis_endpoint_init(&subscriber->endpoint, loop, options, &ENDPOINT_HANDLER,
                                     subscriber);
    }
    if (status != STATUS_OK) {
        timer_close(&subscriber->timer);
        redis_wire_free(&subscriber->hello);
        return status;
    }
    timer_arm(&subscriber->timer, 0);
    return STATUS_OK;
}

void redis_subscriber_close(struct redis_subscriber *subscriber)
{
    redis_connection_free(&subscriber->connection);
    redis_wire_free(&subscriber->hello);
    timer_close(&subscriber->timer);
    redis_endpoint_close(&subscriber->endpoint);
}
