#include "store/redis_sentinel_reply.h"

#include <string.h>

static void on_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_sentinel_reply *reply =
        CONTAINER_OF(listener, struct redis_sentinel_reply, listener);
    if (part->depth != 1) {
        return;
    }
    const size_t i = reply->n_texts++;
    if (i < SENTINEL_TEXTS_MAX && part->kind == REDIS_PART_TEXT) {
        const size_t kept = part->text.len < HOST_BYTES_MAX ? part->text.len : HOST_BYTES_MAX;
        memcpy(reply->texts[i].bytes, part->text.data, kept);
        reply->texts[i].bytes[kept] = '\0';
        reply->texts[i].len = part->text.len;
    }
}

static void forget(struct redis_sentinel_reply *reply)
{
    reply->n_texts = 0;
    for (size_t i = 0; i < SENTINEL_TEXTS_MAX; i++) {
        reply->texts[i].bytes[0] = '\0';
        reply->texts[i].len = 0;
    }
}

void redis_sentinel_reply_attach(struct redis_sentinel_reply *reply, struct redisReader *reader)
{
    *reply = (struct redis_sentinel_reply){.listener = {.on_part = on_part}, .n_awaited = 1};
    redis_reply_attach(&reply->reply, reader, &reply->n_awaited);
    reply->reply.listener = &reply->listener;
}

static struct span text_at(const struct redis_sentinel_reply *reply, size_t i)
{
    const size_t len = reply->texts[i].len;
    return span_of(reply->texts[i].bytes, len < HOST_BYTES_MAX ? len : HOST_BYTES_MAX);
}

static bool is_host(struct span host)
{
    for (size_t i = 0; i < host.len; i++) {
        const char c = host.data[i];
        const char lower = ascii_lower(c);
        const bool word = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        if (!word && c != '.' && c != '-' && c != '_' && c != ':') {
            return false;
        }
    }
    return host.len > 0;
}

/* Two texts: a host and a port, or "pong" and nothing. */
static enum redis_sentinel_word read_pair(const struct redis_sentinel_reply *reply,
                                          struct redis_master *master)
{
    uint64_t port;
    const struct span host = text_at(reply, 0);
    if (span_equals(host, SPAN("pong")) && reply->texts[1].len == 0) {
        return SENTINEL_NOTHING_NEW;
    }
    if (reply->texts[0].len > HOST_BYTES_MAX || !is_host(host) ||
        !span_to_u64(text_at(reply, 1), UINT16_MAX, &port) || port == 0) {
        return SENTINEL_NONSENSE;
    }
    memcpy(master->host, reply->texts[0].bytes, host.len + 1);
    master->port = (uint16_t)port;
    return SENTINEL_MASTER;
}

/* Three texts: of a channel. The payload is `NAME FROM-HOST FROM-PORT TO-HOST TO-PORT`. */
static enum redis_sentinel_word read_message(const struct redis_sentinel_reply *reply,
                                             struct span name)
{
    const struct span kind = text_at(reply, 0);
    const struct span payload = text_at(reply, 2);
    if (span_equals(kind, SPAN("subscribe")) || span_equals(kind, SPAN("unsubscribe"))) {
        return SENTINEL_NOTHING_NEW;
    }
    if (!span_equals(kind, SPAN("message"))) {
        return SENTINEL_NONSENSE;
    }
    const struct span of = span_of(payload.data, span_find(payload, ' '));
    return span_equals(text_at(reply, 1), SPAN(SENTINEL_SWITCH_CHANNEL)) && span_equals(of, name)
               ? SENTINEL_SWITCHED
               : SENTINEL_NOTHING_NEW;
}

static enum redis_sentinel_word read_word(const struct redis_sentinel_reply *reply,
                                          struct span name, struct redis_master *master)
{
    switch (reply->reply.kind) {
    case REDIS_REPLY_IS_TEXT:
        return SENTINEL_NOTHING_NEW;
    case REDIS_REPLY_IS_FAULT:
        return SENTINEL_REFUSES;
    case REDIS_REPLY_IS_NESTED:
        if (reply->n_texts == 2) {
            return read_pair(reply, master);
        }
        return reply->n_texts == 3 ? read_message(reply, name) : SENTINEL_NONSENSE;
    case REDIS_REPLY_IS_STRANGE:
        return reply->reply.head.type == REDIS_REPLY_NIL ? SENTINEL_NO_MASTER : SENTINEL_NONSENSE;
    case REDIS_REPLY_IS_INTS:
        break;
    }
    return SENTINEL_NONSENSE;
}

enum redis_sentinel_word redis_sentinel_reply_take(struct redis_sentinel_reply *reply,
                                                   struct span name, struct redis_master *master)
{
    const enum redis_sentinel_word word = read_word(reply, name, master);
    forget(reply);
    return word;
}
