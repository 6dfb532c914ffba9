/* Happy path: encoded ─► EVAL ─► a reply of integers ─► the admin operation is answered.
 *
 * No reply in time ─► the operation is answered, and a link that has been silent for that long is
 * dropped; struct redis_operation stays until the late reply. An error, a link that is down or is
 * lost ─► answered. No operation is carried out twice. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "store/redis/redis_command.h"
#include "store/redis/redis_store_inner.h"
#include "store/redis_options.h"

enum {
    KEY_BYTES_MAX = NAME_BYTES_MAX + KEY_TEXT_BYTES_MAX + 2 * NAME_BYTES_MAX + 64,
};

/* One admin operation in flight. */
struct redis_operation {
    struct redis_request request;
    struct store_operation *operation; /* NULL: answered, the reply is late */
    struct list node;                  /* in store->operations, until it is sent */
    struct timer deadline;
    struct redis_wire command;
};

static struct redis_operation *pending_of(struct redis_request *request)
{
    return CONTAINER_OF(request, struct redis_operation, request);
}

/* --- commands --- */

static void write_reset_key(struct text *text, struct span prefix,
                            const struct store_operation *operation)
{
    const struct charge charge = {.limit = operation->limit, .key = operation->key};
    redis_key_write(text, prefix, &charge);
}

/* redis-cell has a key of its own. No other limit is asked for that one: a slot of a cluster that
 * is on the move takes no call for a key that is there beside one that is not. */
static enum status write_reset(struct redis_operation *pending)
{
    const struct span prefix = pending->request.store->options.prefix;
    char buffers[2][KEY_BYTES_MAX];
    char channel_bytes[NAME_BYTES_MAX + sizeof(REDIS_CHANNEL_SUFFIX)];
    struct text key = text_of(buffers[0], sizeof(buffers[0]));
    struct text cell = text_of(buffers[1], sizeof(buffers[1]));
    struct text channel = text_of(channel_bytes, sizeof(channel_bytes));
    write_reset_key(&key, prefix, pending->operation);
    write_reset_key(&cell, prefix, pending->operation);
    text_add_literal(&cell, REDIS_CELL_KEY_SUFFIX);
    text_add(&channel, prefix);
    text_add_literal(&channel, REDIS_CHANNEL_SUFFIX);
    if (key.truncated || cell.truncated || channel.truncated) {
        return STATUS_TOO_LARGE;
    }
    const bool by_cell = pending->operation->limit->by_cell;
    struct span words[7] = {SPAN("EVAL"), span_of(reset_script.text, reset_script.len),
                            by_cell ? SPAN("2") : SPAN("1"), text_span(&key)};
    size_t n = 4;
    if (by_cell) {
        words[n++] = text_span(&cell);
    }
    words[n++] = text_span(&channel);
    words[n++] = SPAN(REDIS_CHANNEL_FORGET);
    return redis_wire_add(&pending->command, words, n);
}

static enum status write_call(struct redis_operation *pending)
{
    const struct store_operation *operation = pending->operation;
    struct span words[3 + OPERATION_WORDS_MAX] = {SPAN("EVAL"), operation->source, SPAN("1")};
    memcpy(&words[3], operation->words, operation->n_words * sizeof(words[0]));
    return redis_wire_add(&pending->command, words, 3 + operation->n_words);
}

uint16_t redis_operation_slot(struct span prefix, const struct store_operation *operation)
{
    return operation->kind == OPERATION_RESET
               ? redis_slots_of_charge(prefix, operation->limit, operation->key)
               : redis_slots_of(operation->words[0]);
}

/* --- the answer --- */

static void free_pending(struct redis_operation *pending)
{
    list_remove(&pending->node);
    timer_close(&pending->deadline);
    redis_wire_free(&pending->command);
    free(pending);
}

static void fill(struct store_operation *operation, enum redis_fault fault, bool may_be_done)
{
    operation->status = redis_fault_row(fault)->status;
    operation->fault = fault == REDIS_FAULT_NONE ? NULL : redis_fault_row(fault)->name;
    operation->may_be_done = may_be_done;
}

/* Answer the admin operation; @pending stays, without it. */
static void answer(struct redis_operation *pending, enum redis_fault fault, bool may_be_done)
{
    struct store_operation *operation = pending->operation;
    pending->operation = NULL;
    if (operation != NULL) {
        fill(operation, fault, may_be_done);
        operation->on_done(operation);
    }
}

static void end(struct redis_operation *pending, enum redis_fault fault, bool may_be_done)
{
    answer(pending, fault, may_be_done);
    free_pending(pending);
}

static void on_deadline(void *context)
{
    struct redis_operation *pending = context;
    struct redis_store *store = pending->request.store;
    struct redis_link *link = &store->link;
    const uint64_t silent_us = clock_monotonic_us() - link->connection.quiet_since_us;
    if (!list_is_empty(&pending->node)) {
        end(pending, REDIS_FAULT_DEADLINE, false); /* never sent */
        return;
    }
    pending->request.n_redirections = REDIS_REDIRECTIONS_MAX;
    answer(pending, REDIS_FAULT_DEADLINE, true);
    /* Dropping the link gives the call a NULL reply, which frees @pending. */
    if (redis_link_may_settle(link) && silent_us >= store->answer_us) {
        redis_link_drop(link, REDIS_FAULT_HALF_OPEN, SPAN("no answer to an admin operation"));
    }
}

static bool read_numbers(struct store_operation *operation, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_REPLY_IS_INTS || reply->n_ints == 0 ||
        reply->n_ints > OPERATION_NUMBERS_MAX) {
        return false;
    }
    memcpy(operation->numbers, reply->ints, reply->n_ints * sizeof(operation->numbers[0]));
    return true;
}

static void on_fault(struct redis_request *request, enum redis_fault fault)
{
    end(pending_of(request), fault, false);
}

static void on_lost(struct redis_request *request)
{
    end(pending_of(request), REDIS_FAULT_RESET, true);
}

static void on_reply(struct redis_request *request, const struct redis_reply *reply)
{
    struct redis_operation *pending = pending_of(request);
    struct redis_process *process = request->store->options.process;
    if (pending->operation == NULL) {
        free_pending(pending);
    } else if (!read_numbers(pending->operation, reply)) {
        end(pending, REDIS_FAULT_MALFORMED, true);
    } else {
        if (pending->operation->kind == OPERATION_RESET && process != NULL) {
            redis_process_forget(process); /* this process drops its cached denials at once */
        }
        end(pending, REDIS_FAULT_NONE, false);
    }
}

/* --- sending --- */

/* Send the operation, or queue it for the first attempt to connect. */
static bool send_operation(struct redis_request *request)
{
    struct redis_operation *pending = pending_of(request);
    struct redis_store *store = request->store;
    if (!redis_link_may_settle(&store->link) && !store->link.is_tried) {
        list_push_back(&store->operations, &pending->node);
        return true;
    }
    return redis_request_send(request, redis_wire_span(&pending->command));
}

static struct redis_operation *first_waiting(struct redis_store *store)
{
    return CONTAINER_OF(store->operations.next, struct redis_operation, node);
}

void redis_operations_on_change(struct redis_store *store)
{
    while (!list_is_empty(&store->operations) &&
           (redis_link_may_settle(&store->link) || store->link.is_tried)) {
        struct redis_operation *pending = first_waiting(store);
        list_remove(&pending->node);
        if (!send_operation(&pending->request)) {
            end(pending, redis_request_fault(store), false);
        }
    }
}

void redis_operations_close(struct redis_store *store)
{
    while (!list_is_empty(&store->operations)) {
        end(first_waiting(store), REDIS_FAULT_RESET, false);
    }
}

static enum store_outcome refuse(struct store_operation *operation, enum status status)
{
    operation->status = status;
    operation->fault = NULL;
    return STORE_ANSWERED;
}

enum store_outcome redis_operation_run(struct store *store, struct store_operation *operation)
{
    static const struct redis_request_ops OPS = {
        .send = send_operation,
        .on_reply = on_reply,
        .on_fault = on_fault,
        .on_lost = on_lost,
    };
    struct redis_store *redis = redis_store_of(store);
    struct redis_operation *pending = calloc(1, sizeof(*pending));
    if (pending == NULL) {
        return refuse(operation, STATUS_NO_MEMORY);
    }
    list_init(&pending->node);
    pending->request.store = redis;
    pending->request.ops = &OPS;
    pending->operation = operation;
    timer_init(&pending->deadline, redis->loop, on_deadline, pending);
    const enum status status =
        operation->kind == OPERATION_RESET ? write_reset(pending) : write_call(pending);
    if (status != STATUS_OK) {
        free_pending(pending);
        return refuse(operation, status);
    }
    if (!send_operation(&pending->request)) {
        free_pending(pending);
        fill(operation, redis_request_fault(redis), false);
        return STORE_ANSWERED;
    }
    timer_arm(&pending->deadline, redis->answer_us);
    return STORE_PENDING;
}

uint64_t redis_operation_answer_us(uint64_t deadline_us)
{
    const uint64_t us =
        deadline_us > OPERATION_ANSWER_US_MIN ? deadline_us : OPERATION_ANSWER_US_MIN;
    return us < OPERATION_ANSWER_US_MAX ? us : OPERATION_ANSWER_US_MAX;
}
