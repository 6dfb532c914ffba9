#include "store/redis_reply.h"

#include <string.h>

#include "base/compiler.h"
#include "limit/script_source.h"

/* How hiredis tells the length of an array: as a size_t since 1.0. */
#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif

enum {
    TEXT_BYTES_MIN = 3, /* "+\r\n" */
    PART_BYTES_MIN = 4, /* ":1\r\n" */
};

static struct redis_reply *reply_of(const redisReadTask *task)
{
    return task->privdata;
}

static void set_text(struct redis_reply *reply, const char *text, size_t len)
{
    const size_t kept = len < REDIS_REPLY_TEXT_MAX ? len : REDIS_REPLY_TEXT_MAX;
    memcpy(reply->text, text, kept);
    reply->text[kept] = '\0';
    reply->head.str = reply->text;
    reply->head.len = kept;
}

/* Each part is counted so, also the elements that nobody keeps: there may be no end to them. */
static void count_bytes(struct redis_reply *reply, const redisReadTask *task, size_t n)
{
    reply->n_bytes = task->parent == NULL ? n : reply->n_bytes + n;
}

/* The reply starts. Its parts are told apart by having a parent. */
static void begin(struct redis_reply *reply, int type, enum redis_reply_kind kind)
{
    reply->head = (struct redisReply){.type = type};
    reply->kind = kind;
    reply->n_ints = 0;
    set_text(reply, "", 0);
    if (*reply->n_awaited == 0) {
        static const char message[] = "a reply to nothing";
        reply->head.type = REDIS_REPLY_ERROR;
        reply->kind = REDIS_REPLY_IS_STRANGE;
        set_text(reply, message, sizeof(message) - 1);
    }
}

static void add_int(struct redis_reply *reply, long long value)
{
    if (reply->n_ints == ARRAY_LEN(reply->ints)) {
        reply->kind = REDIS_REPLY_IS_STRANGE;
        return;
    }
    reply->ints[reply->n_ints++] = value;
}

/* Numbers that the script packs: a NUL, which no other text starts with, and doubles. */
static bool is_packed(struct span text)
{
    return text.len > 0 && text.data[0] == '\0';
}

static void add_packed(struct redis_reply *reply, struct span packed)
{
    const size_t n = (packed.len - 1) / SCRIPT_NUMBER_BYTES;
    const bool is_whole = packed.len == 1 + n * SCRIPT_NUMBER_BYTES;
    reply->kind = is_whole ? REDIS_REPLY_IS_INTS : REDIS_REPLY_IS_STRANGE;
    for (size_t i = 0; i < n && reply->kind == REDIS_REPLY_IS_INTS; i++) {
        double number;
        script_source_unpack(packed.data + 1 + i * SCRIPT_NUMBER_BYTES, 1, &number);
        if (number >= -0x1p53 && number <= 0x1p53) {
            add_int(reply, (long long)number);
        } else {
            reply->kind = REDIS_REPLY_IS_STRANGE; /* or no number at all */
        }
    }
}

/* --- parts of nested replies --- */

/* Tell the listener of a part that lies in an array, which is not the reply's own number. */
static void tell_part(struct redis_reply *reply, const redisReadTask *task, struct redis_part part)
{
    const redisReadTask *path[REDIS_PART_DEPTH_MAX];
    for (; task->parent != NULL; task = task->parent) {
        if (part.depth == REDIS_PART_DEPTH_MAX) {
            return; /* too deep */
        }
        path[part.depth++] = task;
    }
    for (size_t i = 0; i < part.depth; i++) {
        part.at[i] = path[part.depth - 1 - i]->idx;
    }
    reply->listener->on_part(reply->listener, &part);
}

static bool is_told(const struct redis_reply *reply)
{
    return reply->kind == REDIS_REPLY_IS_NESTED;
}

/* What the reply starts with is no integer: it is nested from here on, if somebody listens. */
static void begin_told(struct redis_reply *reply)
{
    if (reply->kind == REDIS_REPLY_IS_INTS && reply->n_ints == 0 && reply->listener != NULL) {
        reply->kind = REDIS_REPLY_IS_NESTED;
    }
}

static void begin_nested(struct redis_reply *reply, const redisReadTask *task)
{
    begin_told(reply);
    if (is_told(reply)) {
        tell_part(reply, task, (struct redis_part){.kind = REDIS_PART_ARRAY});
    } else {
        reply->kind = REDIS_REPLY_IS_STRANGE;
    }
}

static void take_text(struct redis_reply *reply, const redisReadTask *task, struct span text)
{
    begin_told(reply);
    if (is_told(reply) && task->type != REDIS_REPLY_ERROR) {
        tell_part(reply, task, (struct redis_part){.kind = REDIS_PART_TEXT, .text = text});
    } else {
        reply->kind = REDIS_REPLY_IS_STRANGE;
    }
}

/* --- what hiredis calls --- */

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct redis_reply *reply = reply_of(task);
    count_bytes(reply, task, TEXT_BYTES_MIN + len);
    if (task->parent != NULL) {
        take_text(reply, task, span_of(text, len));
        return reply;
    }
    begin(reply, task->type,
          task->type == REDIS_REPLY_ERROR ? REDIS_REPLY_IS_FAULT : REDIS_REPLY_IS_TEXT);
    if (reply->kind == REDIS_REPLY_IS_TEXT && is_packed(span_of(text, len))) {
        add_packed(reply, span_of(text, len));
    } else if (reply->kind != REDIS_REPLY_IS_STRANGE) {
        set_text(reply, text, len);
    }
    return reply;
}

static void *create_array(const redisReadTask *task, array_length n_elements)
{
    struct redis_reply *reply = reply_of(task);
    (void)n_elements;
    count_bytes(reply, task, PART_BYTES_MIN);
    if (task->parent != NULL) {
        begin_nested(reply, task);
    } else {
        begin(reply, REDIS_REPLY_ARRAY, REDIS_REPLY_IS_INTS);
    }
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct redis_reply *reply = reply_of(task);
    count_bytes(reply, task, PART_BYTES_MIN);
    if (task->parent == NULL) {
        begin(reply, REDIS_REPLY_INTEGER, REDIS_REPLY_IS_INTS);
    }
    if (is_told(reply)) {
        tell_part(reply, task, (struct redis_part){.kind = REDIS_PART_INT, .number = value});
    } else {
        add_int(reply, value);
    }
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    struct redis_reply *reply = reply_of(task);
    count_bytes(reply, task, PART_BYTES_MIN);
    if (task->parent == NULL) {
        begin(reply, REDIS_REPLY_NIL, REDIS_REPLY_IS_STRANGE);
    }
    if (is_told(reply)) {
        tell_part(reply, task, (struct redis_part){.kind = REDIS_PART_NIL});
    } else {
        reply->kind = REDIS_REPLY_IS_STRANGE;
    }
    return reply;
}

/* The reply is the link's. */
static void free_object(void *object)
{
    (void)object;
}

void redis_reply_attach(struct redis_reply *reply, struct redisReader *reader,
                        const size_t *n_awaited)
{
    static redisReplyObjectFunctions functions = {
        .createString = create_string,
        .createArray = create_array,
        .createInteger = create_integer,
        .createNil = create_nil,
        .freeObject = free_object,
    };
    reply->n_awaited = n_awaited;
    reply->n_bytes = 0;
    reader->fn = &functions;
    reader->privdata = reply;
}

bool redis_reply_is_too_long(const struct redis_reply *reply)
{
    return reply->n_bytes >
           (is_told(reply) ? (size_t)REDIS_REPLY_NESTED_BYTES_MAX : (size_t)REDIS_REPLY_BYTES_MAX);
}

struct span redis_reply_text(const struct redis_reply *reply)
{
    return span_of(reply->text, reply->head.len);
}
