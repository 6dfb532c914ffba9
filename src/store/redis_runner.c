/* Happy path: written ─► EVAL ─► a reply of integers ─► the errand is answered.
 *
 * MOVED, ASK ─► to the node that is named, a few times. No reply in time ─► answered, and a
 * link that has been silent for so long is dropped; what is left waits for its late reply. Another
 * error, a link that is down or is lost ─► answered. Nothing is sent twice. */

#include "store/redis_runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "net/loop.h"
#include "store/redis_command.h"
#include "store/redis_scripts.h"
#include "store/redis_slots.h"

enum {
    REDIRECTIONS_MAX = 4,
    KEY_BYTES_MAX = NAME_BYTES_MAX + KEY_TEXT_BYTES_MAX + 2 * NAME_BYTES_MAX + 64,
};

struct redis_trip {
    struct redis_call call;
    struct redis_runner *runner;
    struct store_errand *errand; /* NULL: answered, and its reply is late */
    struct list node;            /* in runner->waiting, until it is sent */
    bool asking;                 /* goes behind ASKING */
    struct timer deadline;
    unsigned n_redirections;
    char *command; /* owned; RESP */
    size_t command_bytes;
};

/* --- what is sent --- */

static void write_reset_key(struct text *text, struct span prefix,
                            const struct store_errand *errand)
{
    const struct charge charge = {.limit = errand->limit, .key = errand->key};
    redis_store_write_key(text, prefix, &charge);
}

/* Both forms of the state of a limit that redis-cell may judge. */
static enum status write_reset(struct redis_trip *trip, const struct redis_runner *runner)
{
    char buffers[2][KEY_BYTES_MAX];
    char channel_bytes[NAME_BYTES_MAX + sizeof(REDIS_CHANNEL_SUFFIX)];
    struct text key = text_of(buffers[0], sizeof(buffers[0]));
    struct text cell = text_of(buffers[1], sizeof(buffers[1]));
    struct text channel = text_of(channel_bytes, sizeof(channel_bytes));
    write_reset_key(&key, runner->prefix, trip->errand);
    write_reset_key(&cell, runner->prefix, trip->errand);
    text_add_literal(&cell, REDIS_CELL_KEY_SUFFIX);
    text_add(&channel, runner->prefix);
    text_add_literal(&channel, REDIS_CHANNEL_SUFFIX);
    if (key.truncated || cell.truncated || channel.truncated) {
        return STATUS_TOO_LARGE;
    }
    const struct span words[] = {
        SPAN("EVAL"),
        span_of(reset_script.text, reset_script.len),
        SPAN("2"),
        text_span(&key),
        text_span(&cell),
        text_span(&channel),
        SPAN(REDIS_CHANNEL_FORGET),
    };
    return redis_command_write_words(words, ARRAY_LEN(words), &trip->command, &trip->command_bytes);
}

static enum status write_call(struct redis_trip *trip)
{
    const struct store_errand *errand = trip->errand;
    struct span words[3 + ERRAND_WORDS_MAX] = {SPAN("EVAL"), errand->source, SPAN("1")};
    memcpy(&words[3], errand->words, errand->n_words * sizeof(words[0]));
    return redis_command_write_words(words, 3 + errand->n_words, &trip->command,
                                     &trip->command_bytes);
}

uint16_t redis_runner_slot(struct span prefix, const struct store_errand *errand)
{
    return errand->kind == ERRAND_RESET ? redis_slots_of_charge(prefix, errand->limit, errand->key)
                                        : redis_slots_of(errand->words[0]);
}

/* --- the answer --- */

static void free_trip(struct redis_trip *trip)
{
    list_remove(&trip->node);
    timer_close(&trip->deadline);
    free(trip->command);
    free(trip);
}

static void fill(struct store_errand *errand, enum redis_fault fault)
{
    errand->status = redis_fault_row(fault)->status;
    errand->fault = fault == REDIS_FAULT_NONE ? NULL : redis_fault_row(fault)->name;
    errand->may_be_done = false;
}

/* The trip goes on without its errand, if it goes on. */
static void answer(struct redis_trip *trip, enum redis_fault fault, bool may_be_done)
{
    struct store_errand *errand = trip->errand;
    trip->errand = NULL;
    trip->runner->n_awaited--;
    fill(errand, fault);
    errand->may_be_done = may_be_done;
    errand->on_done(errand);
}

void redis_trip_fail(struct redis_trip *trip, enum redis_fault fault)
{
    if (trip->errand != NULL) {
        answer(trip, fault, false);
    }
    free_trip(trip);
}

/* It was sent, and nobody can say what became of it. */
static void fail_unsure(struct redis_trip *trip, enum redis_fault fault)
{
    if (trip->errand != NULL) {
        answer(trip, fault, true);
    }
    free_trip(trip);
}

static void on_deadline(void *context)
{
    struct redis_trip *trip = context;
    struct redis_link *link = trip->runner->link;
    const uint64_t answer_us = trip->runner->answer_us;
    const uint64_t silent_us = clock_monotonic_us() - link->connection.quiet_since_us;
    if (!list_is_empty(&trip->node)) {
        redis_trip_fail(trip, REDIS_FAULT_DEADLINE); /* never sent */
        return;
    }
    answer(trip, REDIS_FAULT_DEADLINE, true);
    /* The trip may be gone with what follows: its reply is NULL then. */
    if (redis_link_may_settle(link) && silent_us >= answer_us) {
        redis_link_drop(link, REDIS_FAULT_HALF_OPEN, SPAN("no answer to an operator's errand"));
    }
}

static bool read_numbers(struct store_errand *errand, const struct redis_reply *reply)
{
    if (reply->kind != REDIS_REPLY_IS_INTS || reply->n_ints == 0 ||
        reply->n_ints > ERRAND_NUMBERS_MAX) {
        return false;
    }
    memcpy(errand->numbers, reply->ints, reply->n_ints * sizeof(errand->numbers[0]));
    return true;
}

static void on_fault(struct redis_trip *trip, struct span text)
{
    struct redis_runner *runner = trip->runner;
    const enum redis_fault fault = redis_fault_of(text);
    const enum redis_reaction reaction = redis_fault_row(fault)->reaction;
    if (reaction == REDIS_REDIRECT && trip->errand != NULL && runner->on_redirect != NULL &&
        trip->n_redirections++ < REDIRECTIONS_MAX) {
        runner->on_redirect(runner->owner, trip, fault, text);
        return;
    }
    if (reaction == REDIS_DROP) {
        redis_link_drop(runner->link, fault, text);
    }
    redis_trip_fail(trip, fault);
}

/* Whoever hears of a reset forgets: this process at once. */
static void note_done(const struct redis_trip *trip)
{
    if (trip->errand->kind == ERRAND_RESET && trip->runner->process != NULL) {
        redis_process_forget(trip->runner->process);
    }
}

static void on_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_trip *trip = CONTAINER_OF(call, struct redis_trip, call);
    if (reply == NULL) {
        fail_unsure(trip, REDIS_FAULT_RESET);
    } else if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_fault(trip, redis_reply_text(reply));
    } else if (trip->errand == NULL) {
        free_trip(trip);
    } else if (!read_numbers(trip->errand, reply)) {
        fail_unsure(trip, REDIS_FAULT_MALFORMED);
    } else {
        note_done(trip);
        redis_trip_fail(trip, REDIS_FAULT_NONE);
    }
}

/* --- sending --- */

static bool send_now(struct redis_trip *trip)
{
    struct redis_link *link = trip->runner->link;
    const uint64_t now_us = clock_monotonic_us();
    return redis_link_may_settle(link) &&
           (!trip->asking || redis_link_send_asking(link, now_us) == STATUS_OK) &&
           redis_link_send(link, span_of(trip->command, trip->command_bytes), &trip->call,
                           now_us) == STATUS_OK;
}

/* Send @trip, or let it wait. False: it can be neither. */
static bool depart(struct redis_trip *trip)
{
    const struct redis_link *link = trip->runner->link;
    if (!redis_link_may_settle(link) && !link->is_tried) {
        list_push_back(&trip->runner->waiting, &trip->node);
        return true;
    }
    return send_now(trip);
}

/* Why nothing could be sent. */
static enum redis_fault fault_of(const struct redis_link *link)
{
    const enum redis_fault fault = redis_link_fault(link);
    return fault != REDIS_FAULT_NONE ? fault : REDIS_FAULT_RESET;
}

void redis_runner_on_change(struct redis_runner *runner)
{
    while (!list_is_empty(&runner->waiting) &&
           (redis_link_may_settle(runner->link) || runner->link->is_tried)) {
        struct redis_trip *trip = CONTAINER_OF(runner->waiting.next, struct redis_trip, node);
        list_remove(&trip->node);
        if (!send_now(trip)) {
            redis_trip_fail(trip, fault_of(runner->link));
        }
    }
}

void redis_runner_close(struct redis_runner *runner)
{
    while (!list_is_empty(&runner->waiting)) {
        redis_trip_fail(CONTAINER_OF(runner->waiting.next, struct redis_trip, node),
                        REDIS_FAULT_RESET);
    }
}

static enum store_outcome refuse(struct store_errand *errand, enum status status)
{
    errand->status = status;
    errand->fault = NULL;
    return STORE_ANSWERED;
}

enum store_outcome redis_runner_run(struct redis_runner *runner, struct store_errand *errand)
{
    struct redis_trip *trip = calloc(1, sizeof(*trip));
    if (trip == NULL) {
        return refuse(errand, STATUS_NO_MEMORY);
    }
    list_init(&trip->node);
    trip->call.on_reply = on_reply;
    trip->runner = runner;
    trip->errand = errand;
    enum status status =
        errand->kind == ERRAND_RESET ? write_reset(trip, runner) : write_call(trip);
    if (status == STATUS_OK) {
        status = timer_init(&trip->deadline, runner->loop, on_deadline, trip);
    }
    if (status != STATUS_OK) {
        free_trip(trip);
        return refuse(errand, status);
    }
    if (!depart(trip)) {
        free_trip(trip);
        fill(errand, fault_of(runner->link));
        return STORE_ANSWERED;
    }
    runner->n_awaited++;
    timer_arm(&trip->deadline, runner->answer_us);
    return STORE_PENDING;
}

static uint64_t answer_us(uint64_t deadline_us)
{
    const uint64_t us = deadline_us > ERRAND_ANSWER_US_MIN ? deadline_us : ERRAND_ANSWER_US_MIN;
    return us < ERRAND_ANSWER_US_MAX ? us : ERRAND_ANSWER_US_MAX;
}

void redis_runner_init(struct redis_runner *runner, struct loop *loop, struct redis_link *link,
                       const struct redis_store_options *options)
{
    *runner = (struct redis_runner){
        .loop = loop,
        .link = link,
        .prefix = options->prefix,
        .process = options->process,
        .answer_us = answer_us(options->deadline_us),
    };
    list_init(&runner->waiting);
}

void redis_runner_forward(struct redis_runner *runner, struct redis_trip *trip, bool asking)
{
    trip->runner->n_awaited--;
    runner->n_awaited++;
    trip->runner = runner;
    trip->asking = asking;
    if (!depart(trip)) {
        redis_trip_fail(trip, fault_of(runner->link));
    }
}
