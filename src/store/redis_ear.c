/* Happy path: found ─► connected ─► AUTH and SUBSCRIBE in one write ─► told so ─► messages.
 *
 * Failures: not found, no connection, a broken one, an error, nonsense, a reply without end,
 * silence ─► lost, once, and nothing more is done until it is closed. */

#include "store/redis_ear.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "net/unix_socket.h"
#include "store/redis_command.h"

enum {
    READ_BYTES = 4096,
    REPLY_BYTES_MAX = 64 * 1024,
    ANSWER_US = 1000 * 1000,   /* to be found, to connect and to be subscribed, each */
    PING_US = 5 * 1000 * 1000, /* how often it is asked whether it is there */
    SILENCE_US = 12 * 1000 * 1000,
    TROUBLE_BYTES_MAX = 64,
};

static void lose_by(struct redis_ear *ear, enum redis_fault fault, struct span trouble)
{
    if (ear->is_lost) {
        return;
    }
    ear->is_lost = true;
    timer_disarm(&ear->timer);
    stream_close(&ear->stream);
    ear->handler->on_lost(ear->owner, fault, trouble);
}

static void lose(struct redis_ear *ear, struct span trouble)
{
    lose_by(ear, REDIS_FAULT_NONE, trouble);
}

static bool say(struct redis_ear *ear, struct span words)
{
    const struct iovec slice = {.iov_base = (void *)(uintptr_t)words.data, .iov_len = words.len};
    if (stream_is_blocked(&ear->stream)) {
        return false;
    }
    const enum stream_result result = stream_write(&ear->stream, &slice, 1);
    return result == STREAM_DONE || result == STREAM_BLOCKED;
}

/* --- what comes --- */

static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_ear *ear = CONTAINER_OF(listener, struct redis_ear, listener);
    if (part->depth != 1) {
        return;
    }
    const size_t i = ear->n_texts++;
    if (i < REDIS_EAR_TEXTS) {
        const struct span text = part->kind == REDIS_PART_TEXT ? part->text : SPAN("");
        ear->texts[i].len = text.len < REDIS_EAR_TEXT_BYTES ? text.len : REDIS_EAR_TEXT_BYTES;
        if (text.len > 0) {
            memcpy(ear->texts[i].bytes, text.data, ear->texts[i].len);
        }
    }
}

static struct span text_at(const struct redis_ear *ear, size_t i)
{
    return span_of(ear->texts[i].bytes, ear->texts[i].len);
}

/* Of three texts: what happened, the channel, and what was said or a number. */
static void take_message(struct redis_ear *ear)
{
    if (span_equals(text_at(ear, 0), SPAN("subscribe"))) {
        ear->is_listening = true;
        redis_place_note_good(&ear->place);
        timer_arm(&ear->timer, PING_US);
        ear->handler->on_ready(ear->owner);
    } else if (span_equals(text_at(ear, 0), SPAN("message")) &&
               span_equals(text_at(ear, 1), ear->channel)) {
        ear->handler->on_message(ear->owner, text_at(ear, 2));
    }
}

/* A server that does not know AUTH sends its arguments back in the error: only the code is told. */
static void lose_refused(struct redis_ear *ear)
{
    char buffer[TROUBLE_BYTES_MAX];
    struct text trouble = text_of(buffer, sizeof(buffer));
    const struct span said = redis_reply_text(&ear->reply);
    text_add_literal(&trouble, "it is refused: ");
    text_add(&trouble, span_of(said.data, span_find(said, ' ')));
    lose_by(ear, redis_fault_of(said), text_span(&trouble));
}

static void take_reply(struct redis_ear *ear)
{
    const size_t n_texts = ear->n_texts;
    ear->n_texts = 0;
    switch (ear->reply.kind) {
    case REDIS_REPLY_IS_TEXT:
        return; /* AUTH */
    case REDIS_REPLY_IS_NESTED:
        if (n_texts == REDIS_EAR_TEXTS) {
            take_message(ear);
        }
        return; /* PING has two texts */
    case REDIS_REPLY_IS_FAULT:
        lose_refused(ear);
        return;
    case REDIS_REPLY_IS_INTS:
    case REDIS_REPLY_IS_STRANGE:
        lose(ear, SPAN("Redis talks nonsense"));
        return;
    }
}

static void take_replies(struct redis_ear *ear)
{
    while (!ear->is_lost) {
        void *reply = NULL;
        if (redisReaderGetReply(ear->reader, &reply) != REDIS_OK) {
            lose(ear, SPAN("Redis talks nonsense"));
        } else if (reply == NULL) {
            return;
        } else {
            take_reply(ear);
        }
    }
}

static void on_readable(void *owner)
{
    struct redis_ear *ear = owner;
    char bytes[READ_BYTES];
    size_t n_read;
    const enum stream_result result = stream_read(&ear->stream, bytes, sizeof(bytes), &n_read);
    if (result == STREAM_BLOCKED) {
        return;
    }
    if (result != STREAM_DONE) {
        lose(ear, SPAN("the connection broke"));
        return;
    }
    ear->heard_us = clock_monotonic_us();
    if (redisReaderFeed(ear->reader, bytes, n_read) != REDIS_OK) {
        lose(ear, SPAN("out of memory"));
        return;
    }
    take_replies(ear);
    if (!ear->is_lost && (ear->reader->len - ear->reader->pos > REPLY_BYTES_MAX ||
                          ear->reply.n_bytes > REPLY_BYTES_MAX)) {
        lose(ear, SPAN("a message without end"));
    }
}

/* --- connecting --- */

static void go_there(struct redis_ear *ear);

/* Not there: a name may have further addresses. */
static void fail_there(struct redis_ear *ear, struct span trouble)
{
    stream_close(&ear->stream);
    if (redis_place_advance(&ear->place)) {
        go_there(ear);
    } else {
        lose(ear, trouble);
    }
}

static void on_drained(void *owner)
{
    struct redis_ear *ear = owner;
    if (!ear->stream.connecting) {
        return;
    }
    if (stream_connect_status(&ear->stream) != STATUS_OK) {
        fail_there(ear, SPAN("no connection"));
    } else if (!say(ear, span_of(ear->hello, ear->hello_bytes))) {
        lose(ear, SPAN("Redis takes nothing"));
    }
}

static enum status connect_to(struct redis_ear *ear)
{
    static const struct stream_handler HANDLER = {
        .on_readable = on_readable,
        .on_drained = on_drained,
    };
    const struct resolver_address *address = redis_place_address(&ear->place);
    if (address != NULL) {
        return stream_connect(&ear->stream, ear->loop, &address->sockaddr.any, address->bytes,
                              &HANDLER, ear);
    }
    const struct span path = span_of_text(redis_place_path(&ear->place));
    const struct sockaddr_un local = unix_socket_address(path);
    return stream_connect(&ear->stream, ear->loop, (const struct sockaddr *)(const void *)&local,
                          sizeof(local), &HANDLER, ear);
}

static void go_there(struct redis_ear *ear)
{
    timer_arm(&ear->timer, ANSWER_US);
    if (connect_to(ear) != STATUS_OK) {
        fail_there(ear, SPAN("no connection"));
    }
}

static void on_found(void *owner, enum status status, struct span trouble)
{
    struct redis_ear *ear = owner;
    if (ear->is_lost) {
        return;
    }
    if (status == STATUS_OK) {
        go_there(ear);
    } else {
        lose(ear, trouble);
    }
}

static void on_moved(void *owner)
{
    lose(owner, SPAN("a sentinel names another master"));
}

static void seek(struct redis_ear *ear)
{
    switch (redis_place_ask(&ear->place)) {
    case REDIS_PLACE_KNOWN:
        go_there(ear);
        break;
    case REDIS_PLACE_ASKED:
        timer_arm(&ear->timer, ANSWER_US);
        break;
    case REDIS_PLACE_NO_MEMORY:
        lose(ear, SPAN("out of memory"));
        break;
    }
}

/* It is time to begin, too long has nothing come of it, or it is to be
 * asked whether it is there. */
static void on_timer(void *context)
{
    struct redis_ear *ear = context;
    if (ear->hello_bytes > 0 && ear->heard_us == 0) {
        ear->heard_us = clock_monotonic_us();
        seek(ear);
    } else if (!ear->is_listening && ear->stream.fd >= 0) {
        fail_there(ear, SPAN("no answer in time"));
    } else if (!ear->is_listening) {
        lose(ear, SPAN("no answer in time"));
    } else if (clock_monotonic_us() - ear->heard_us > SILENCE_US ||
               !say(ear, SPAN("*1\r\n$4\r\nPING\r\n"))) {
        lose(ear, SPAN("Redis is silent"));
    } else {
        timer_arm(&ear->timer, PING_US);
    }
}

/* --- life --- */

static enum status add_words(struct redis_ear *ear, const struct span *words, size_t n_words)
{
    char *command;
    size_t len;
    const enum status status = redis_command_write_words(words, n_words, &command, &len);
    if (status != STATUS_OK) {
        return status;
    }
    char *grown = realloc(ear->hello, ear->hello_bytes + len);
    if (grown != NULL) {
        memcpy(grown + ear->hello_bytes, command, len);
        ear->hello = grown;
        ear->hello_bytes += len;
    }
    free(command);
    return grown != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status write_hello(struct redis_ear *ear)
{
    const struct redis_store_options *options = ear->options;
    const struct span with_user[] = {SPAN("AUTH"), options->user, options->password};
    const struct span without[] = {SPAN("AUTH"), options->password};
    const struct span subscribe[] = {SPAN("SUBSCRIBE"), ear->channel};
    enum status status = STATUS_OK;
    if (options->password.len > 0) {
        status = options->user.len > 0 ? add_words(ear, with_user, ARRAY_LEN(with_user))
                                       : add_words(ear, without, ARRAY_LEN(without));
    }
    return status == STATUS_OK ? add_words(ear, subscribe, ARRAY_LEN(subscribe)) : status;
}

static enum status make_reader(struct redis_ear *ear)
{
    ear->reader = redisReaderCreateWithFunctions(NULL);
    if (ear->reader == NULL) {
        return STATUS_NO_MEMORY;
    }
    redis_reply_attach(&ear->reply, ear->reader, &ear->n_awaited);
    ear->reply.listener = &ear->listener;
    return STATUS_OK;
}

enum status redis_ear_open(struct redis_ear *ear, struct loop *loop,
                           const struct redis_store_options *options, struct span channel,
                           const struct redis_ear_handler *handler, void *owner)
{
    static const struct redis_place_handler PLACE_HANDLER = {
        .on_found = on_found,
        .on_moved = on_moved,
    };
    *ear = (struct redis_ear){
        .options = options,
        .handler = handler,
        .owner = owner,
        .loop = loop,
        .channel = channel,
        .stream = {.fd = -1},
        .listener = {.on_part = on_part},
        .n_awaited = 1,
    };
    enum status status = write_hello(ear);
    if (status == STATUS_OK) {
        status = make_reader(ear);
    }
    if (status == STATUS_OK) {
        status = timer_init(&ear->timer, loop, on_timer, ear);
    }
    if (status == STATUS_OK) {
        status = redis_place_init(&ear->place, loop, options, &PLACE_HANDLER, ear);
    }
    if (status != STATUS_OK) {
        ear->place = (struct redis_place){.options = options};
        redis_ear_close(ear);
        return status;
    }
    timer_arm(&ear->timer, 0);
    return STATUS_OK;
}

void redis_ear_close(struct redis_ear *ear)
{
    stream_close(&ear->stream);
    if (ear->reader != NULL) {
        redisReaderFree(ear->reader);
        ear->reader = NULL;
    }
    timer_close(&ear->timer);
    redis_place_close(&ear->place);
    free(ear->hello);
    ear->hello = NULL;
}
