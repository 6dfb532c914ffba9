#include "store/redis/redis_reply.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "limit/identical.h"
#include "limit/judge.h"
#include "limit/script_source.h"

/* hiredis passes the length of an array as a size_t since 1.0. */
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
    reply->text_len = kept;
}

/* Count each part, also elements that are not kept: their number may be unbounded. */
static void count_bytes(struct redis_reply *reply, const redisReadTask *task, size_t n)
{
    reply->n_bytes = task->parent == NULL ? n : reply->n_bytes + n;
}

/* Start a reply. Only parts of an array have a parent. */
static void begin(struct redis_reply *reply, enum redis_reply_kind kind)
{
    reply->kind = kind;
    reply->is_nil = false;
    reply->n_ints = 0;
    set_text(reply, "", 0);
}

static void add_int(struct redis_reply *reply, long long value)
{
    if (reply->n_ints == ARRAY_LEN(reply->ints)) {
        reply->kind = REDIS_REPLY_IS_STRANGE;
        return;
    }
    reply->ints[reply->n_ints++] = value;
}

/* Numbers packed by the script: a NUL, with which no other text starts, and then doubles. */
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
            reply->kind = REDIS_REPLY_IS_STRANGE; /* out of range or NaN */
        }
    }
}

/* --- parts of nested replies --- */

/* Report a part of an array to the listener. */
static void report_part(struct redis_reply *reply, const redisReadTask *task,
                        struct redis_part part)
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

static bool is_reported(const struct redis_reply *reply)
{
    return reply->kind == REDIS_REPLY_IS_NESTED;
}

/* If this first element is no integer, the reply becomes nested, provided it has a listener. */
static void begin_reported(struct redis_reply *reply)
{
    if (reply->kind == REDIS_REPLY_IS_INTS && reply->n_ints == 0 && reply->listener != NULL) {
        reply->kind = REDIS_REPLY_IS_NESTED;
    }
}

static void begin_nested(struct redis_reply *reply, const redisReadTask *task)
{
    begin_reported(reply);
    if (is_reported(reply)) {
        report_part(reply, task, (struct redis_part){.kind = REDIS_PART_ARRAY});
    } else {
        reply->kind = REDIS_REPLY_IS_STRANGE;
    }
}

static void take_text(struct redis_reply *reply, const redisReadTask *task, struct span text)
{
    begin_reported(reply);
    if (is_reported(reply) && task->type != REDIS_REPLY_ERROR) {
        report_part(reply, task, (struct redis_part){.kind = REDIS_PART_TEXT, .text = text});
    } else {
        reply->kind = REDIS_REPLY_IS_STRANGE;
    }
}

/* --- functions that hiredis calls --- */

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct redis_reply *reply = reply_of(task);
    count_bytes(reply, task, TEXT_BYTES_MIN + len);
    if (task->parent != NULL) {
        take_text(reply, task, span_of(text, len));
        return reply;
    }
    begin(reply, task->type == REDIS_REPLY_ERROR ? REDIS_REPLY_IS_FAULT : REDIS_REPLY_IS_TEXT);
    if (reply->kind == REDIS_REPLY_IS_TEXT && is_packed(span_of(text, len))) {
        add_packed(reply, span_of(text, len));
    } else {
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
        begin(reply, REDIS_REPLY_IS_INTS);
    }
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct redis_reply *reply = reply_of(task);
    count_bytes(reply, task, PART_BYTES_MIN);
    if (task->parent == NULL) {
        begin(reply, REDIS_REPLY_IS_INTS);
    }
    if (is_reported(reply)) {
        report_part(reply, task, (struct redis_part){.kind = REDIS_PART_INT, .number = value});
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
        begin(reply, REDIS_REPLY_IS_STRANGE);
        reply->is_nil = true;
    }
    if (is_reported(reply)) {
        report_part(reply, task, (struct redis_part){.kind = REDIS_PART_NIL});
    } else {
        reply->kind = REDIS_REPLY_IS_STRANGE;
    }
    return reply;
}

/* struct redis_reply belongs to the connection. */
static void free_object(void *object)
{
    (void)object;
}

void redis_reply_attach(struct redis_reply *reply, struct redisReader *reader)
{
    static redisReplyObjectFunctions functions = {
        .createString = create_string,
        .createArray = create_array,
        .createInteger = create_integer,
        .createNil = create_nil,
        .freeObject = free_object,
    };
    reply->n_bytes = 0;
    reader->fn = &functions;
    reader->privdata = reply;
}

bool redis_reply_is_too_long(const struct redis_reply *reply, const struct redisReader *reader)
{
    const bool is_bounded = reply->listener != NULL && reply->listener->bytes_max > 0;
    size_t bytes_max = REDIS_REPLY_BYTES_MAX;
    if (is_reported(reply)) {
        bytes_max = is_bounded ? reply->listener->bytes_max : (size_t)REDIS_REPLY_NESTED_BYTES_MAX;
    }
    return reader->len - reader->pos > REDIS_REPLY_BYTES_MAX ||
           reader->ridx > REDIS_REPLY_DEPTH_MAX || reply->n_bytes > bytes_max;
}

struct span redis_reply_text(const struct redis_reply *reply)
{
    return span_of(reply->text, reply->text_len);
}

/* --- texts --- */

static void on_text_part(struct redis_listener *listener, const struct redis_part *part)
{
    struct redis_texts *texts = CONTAINER_OF(listener, struct redis_texts, listener);
    if (part->depth != 1) {
        return;
    }
    const size_t i = texts->n++;
    if (i < REDIS_TEXTS_MAX && part->kind == REDIS_PART_TEXT && part->text.len > 0) {
        texts->kept[i].len = part->text.len;
        memcpy(texts->kept[i].bytes, part->text.data, redis_texts_get(texts, i).len);
    }
}

struct span redis_texts_get(const struct redis_texts *texts, size_t i)
{
    const size_t len = texts->kept[i].len;
    return span_of(texts->kept[i].bytes,
                   len < REDIS_TEXT_BYTES_MAX ? len : (size_t)REDIS_TEXT_BYTES_MAX);
}

void redis_texts_clear(struct redis_texts *texts)
{
    texts->listener =
        (struct redis_listener){.on_part = on_text_part, .bytes_max = REDIS_TEXTS_BYTES_MAX};
    texts->n = 0;
    for (size_t i = 0; i < REDIS_TEXTS_MAX; i++) {
        texts->kept[i].len = 0;
    }
}

/* --- replies to decisions --- */

static bool read_one(const struct redis_reply *reply, struct decision *decision)
{
    const size_t n_ints = SCRIPT_HEAD_INTS + decision->n_charges * SCRIPT_INTS_PER_CHARGE;
    const bool has_times = reply->n_ints == n_ints + decision->n_charges;
    if (reply->kind != REDIS_REPLY_IS_INTS || (reply->n_ints != n_ints && !has_times) ||
        reply->ints[0] == LLONG_MIN) {
        return false;
    }
    const uint64_t now_us = (uint64_t)llabs(reply->ints[0]);
    bool allowed = decision->aim != DECISION_DENY;
    const long long *ints = reply->ints + SCRIPT_HEAD_INTS;
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        const long long ticks = has_times ? reply->ints[n_ints + i] : 0;
        if (!script_source_read_verdict(charge->limit, ints, &charge->verdict) ||
            !script_source_read_time(charge->limit, now_us, ticks, &charge->charged_at_us)) {
            return false;
        }
        allowed = allowed && (charge->limit->shadow || charge->verdict.allowed);
        ints += SCRIPT_INTS_PER_CHARGE;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        struct charge *charge = &decision->charges[i];
        charge->charged = decision->aim == DECISION_ADMIT &&
                          judge_charges(&charge->verdict, charge->cost, allowed);
    }
    decision->allowed = allowed;
    return (reply->ints[0] > 0) == allowed;
}

/* Read the reply for a batch of identical requests, and report each answer by on_each. */
static bool begin_identical(struct identical *identical, const struct redis_reply *reply,
                            const struct decision *decision)
{
    struct script_charge charges[LIMITS_PER_ROUTE_MAX];
    if (reply->kind != REDIS_REPLY_IS_INTS) {
        return false;
    }
    for (size_t i = 0; i < decision->n_charges; i++) {
        const struct charge *charge = &decision->charges[i];
        charges[i] = (struct script_charge){
            .limit = charge->limit,
            .cost = charge->cost,
            .edges = charge->edges,
        };
    }
    return identical_begin(identical, decision->batch_size, charges, decision->n_charges,
                           reply->ints, reply->n_ints);
}

static bool read_identical(const struct redis_reply *reply, struct decision *decision)
{
    struct identical identical;
    if (!begin_identical(&identical, reply, decision)) {
        return false;
    }
    for (size_t request = 0; request < decision->batch_size; request++) {
        if (!identical_next(&identical, &decision->allowed)) {
            return false;
        }
        for (size_t i = 0; i < decision->n_charges; i++) {
            decision->charges[i].verdict = identical.verdicts[i];
            decision->charges[i].charged = identical.judged[i].charged;
            decision->charges[i].charged_at_us = identical.charged_at_us[i];
        }
        decision->on_each(decision, request);
    }
    return true;
}

bool redis_answer_read(const struct redis_reply *reply, struct decision *decision)
{
    if (decision->batch_size > 1) {
        return read_identical(reply, decision);
    }
    if (!read_one(reply, decision)) {
        return false;
    }
    if (decision->on_each != NULL) {
        decision->on_each(decision, 0);
    }
    return true;
}

bool redis_answer_read_cell(const struct redis_reply *reply, struct decision *decision)
{
    struct charge *charge = &decision->charges[0];
    if (reply->kind != REDIS_REPLY_IS_INTS || reply->n_ints != CL_THROTTLE_INTS ||
        !cl_throttle_read_verdict(charge->limit, charge->cost, reply->ints, &charge->verdict)) {
        return false;
    }
    decision->allowed = charge->limit->shadow || charge->verdict.allowed;
    charge->charged = judge_charges(&charge->verdict, charge->cost, decision->allowed);
    charge->charged_at_us = 0; /* it is never settled */
    return true;
}
