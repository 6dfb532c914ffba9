/* Happy path: find the endpoint ─► connect ─► the handshake (AUTH, SELECT and TIME in one write,
 * then SCRIPT LOAD) ─► UP.
 *
 * Failures: no address, refused, no handshake in time, a wrong password, a broken connection, a
 * malformed reply, a server that is not the master ─► DOWN, and a new attempt after the back-off.
 * While UP the breaker handles failed decisions. Each change is logged once. */

#include "store/redis/redis_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "store/redis/redis_connection.h"

enum {
    HANDSHAKE_US = 1000 * 1000, /* limit to find the endpoint, and again for each address */
    WAIT_MIN_US = 50 * 1000,
    WAIT_MAX_US = 1000 * 1000,
};

static const char MODULE[] = "store.redis";

#define TO(state) (1u << REDIS_LINK_##state)

static const struct {
    const char *name;
    unsigned next; /* bit set of the states that may follow */
} STATES[] = {
    [REDIS_LINK_DOWN] = {"down", TO(RESOLVING) | TO(CONNECTING)},
    [REDIS_LINK_RESOLVING] = {"resolving", TO(CONNECTING) | TO(DOWN)},
    [REDIS_LINK_CONNECTING] = {"connecting", TO(UP) | TO(DOWN)},
    [REDIS_LINK_UP] = {"up", TO(DOWN)},
};

/* Update the meters to the state of the link and its breaker. */
static void show(struct redis_link *link)
{
    const struct redis_breaker *breaker = &link->breaker;
    const bool is_up = link->state == REDIS_LINK_UP;
    const bool is_open =
        is_up && (breaker->state == REDIS_BREAKER_OPEN || breaker->state == REDIS_BREAKER_TRIAL);
    /* A negative difference wraps, and the sum is correct. */
    counter_add(&link->meters->links_up, (uint64_t)is_up - link->shown.is_up);
    counter_add(&link->meters->breakers_open, (uint64_t)is_open - link->shown.is_breaker_open);
    counter_add(&link->meters->openings, breaker->n_openings - link->shown.n_openings);
    link->shown.is_up = is_up;
    link->shown.is_breaker_open = is_open;
    link->shown.n_openings = breaker->n_openings;
}

/* Remove the link from the meters. */
static void hide(struct redis_link *link)
{
    counter_down(&link->meters->links);
    counter_add(&link->meters->links_up, 0 - (uint64_t)link->shown.is_up);
    counter_add(&link->meters->breakers_open, 0 - (uint64_t)link->shown.is_breaker_open);
}

static void set_state(struct redis_link *link, enum redis_link_state next, uint64_t timer_us)
{
    assert(STATES[link->state].next & (1u << next));

    log_debug(MODULE, "link changes", "from=%s to=%s", STATES[link->state].name, STATES[next].name);
    link->state = next;
    show(link);
    if (timer_us == UINT64_MAX) {
        timer_disarm(&link->timer);
    } else {
        timer_arm(&link->timer, timer_us);
    }
}

/* --- the log --- */

static void log_trouble(struct redis_link *link, enum log_level level, const char *message,
                        struct span trouble)
{
    char buffer[REDIS_REPLY_LOGGED_MAX + REDIS_PLACE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    const int len =
        (int)(trouble.len < sizeof(link->trouble) ? trouble.len : sizeof(link->trouble) - 1);
    if (link->is_quiet ||
        span_equals(span_of_text(link->trouble), span_of(trouble.data, (size_t)len))) {
        return;
    }
    snprintf(link->trouble, sizeof(link->trouble), "%.*s", len, trouble.data);
    text_add_logfmt(&text, span_of(trouble.data, (size_t)len));
    text_add_char(&text, ' ');
    redis_log_write_place(&text, link->options);
    log_at(level, MODULE, message, "err=%.*s", SPAN_ARGS(text_span(&text)));
}

/* The link was dropped because of an error reply: it is logged as up only after a decision. */
static bool is_sent_away(const struct redis_link *link)
{
    return link->trouble[0] != '\0' && redis_fault_row(link->fault)->code != NULL;
}

static void log_up(struct redis_link *link)
{
    link->trouble[0] = '\0';
    if (!link->is_quiet) {
        char buffer[REDIS_PLACE_BYTES];
        struct text place = text_of(buffer, sizeof(buffer));
        redis_log_write_place(&place, link->options);
        log_info(MODULE, "link up", "%.*s", SPAN_ARGS(text_span(&place)));
    }
}

/* --- down --- */

/* A further address of the name is tried. If nobody is there, what a server at an earlier one said
 * is the reason for the log. */
static void note_earlier(struct redis_link *link, struct span trouble)
{
    if (link->connection.was_reached) {
        const int len =
            (int)(trouble.len < sizeof(link->earlier) ? trouble.len : sizeof(link->earlier) - 1);
        (void)snprintf(link->earlier, sizeof(link->earlier), "%.*s", len, trouble.data);
    }
}

/* The connection is lost or could not be made. A further address is tried at once. */
static void go_down(struct redis_link *link, enum redis_fault fault, struct span trouble)
{
    const bool was_made = link->state == REDIS_LINK_UP;
    link->fault = fault;
    link->is_troubled = true;
    link->takes_turns = link->takes_turns || (!was_made && link->is_free);
    redis_breaker_stop(&link->breaker);
    redis_target_note(link->target, false);
    if (!was_made && redis_endpoint_advance(&link->endpoint)) {
        note_earlier(link, trouble);
        set_state(link, REDIS_LINK_DOWN, 0);
        return;
    }
    if (!link->connection.was_reached && link->earlier[0] != '\0') {
        trouble = span_of_text(link->earlier);
    }
    redis_endpoint_forget(&link->endpoint);
    set_state(link, REDIS_LINK_DOWN, redis_backoff_wait(&link->backoff));
    if (!was_made && redis_fault_row(fault)->is_lasting) {
        log_trouble(link, LOG_ERROR,
                    "Redis refuses the handshake: check user, password, database and rights",
                    trouble);
    } else {
        log_trouble(link, LOG_WARN, was_made ? "link lost" : "no link", trouble);
    }
    link->earlier[0] = '\0';
    link->is_tried = true;
    link->on_change(link->owner);
}

static void on_lost(void *owner, enum redis_fault why, struct span trouble)
{
    go_down(owner, why, trouble);
}

void redis_link_drop(struct redis_link *link, enum redis_fault fault, struct span trouble)
{
    if (redis_connection_is_open(&link->connection)) {
        go_down(link, fault, trouble);
        redis_connection_close(&link->connection);
    }
}

/* --- handshake --- */

static void on_handshake_end(void *owner, enum redis_fault fault, struct span text)
{
    struct redis_link *link = owner;
    if (fault != REDIS_FAULT_NONE) {
        redis_link_drop(link, fault, text);
        return;
    }
    set_state(link, REDIS_LINK_UP, UINT64_MAX);
    link->takes_turns = false;
    redis_endpoint_note_good(&link->endpoint);
    redis_breaker_start(&link->breaker, link->is_troubled);
    show(link);
    if (!is_sent_away(link)) {
        log_up(link);
    }
    link->is_tried = true;
    link->on_change(link->owner);
}

/* --- finding and connecting --- */

static void connect_next(struct redis_link *link)
{
    link->n_connects++;
    counter_up(&link->meters->connects);
    set_state(link, REDIS_LINK_CONNECTING, HANDSHAKE_US);

    if (link->options->contexts != NULL) {
        redis_connection_secure(&link->connection, link->options->contexts->worker,
                                link->options->contexts->servers,
                                redis_endpoint_host(&link->endpoint));
    }
    enum status status =
        redis_connection_open(&link->connection, redis_endpoint_address(&link->endpoint),
                              redis_endpoint_path(&link->endpoint));
    if (status != STATUS_OK) {
        go_down(link, REDIS_FAULT_REFUSED, span_of_text(link->connection.trouble));
        return;
    }
    status =
        redis_handshake_send(&link->handshake, &link->connection, link->options, &link->source);
    if (status != STATUS_OK) {
        redis_link_drop(link, REDIS_FAULT_RESET, SPAN("cannot send the handshake"));
    }
}

/* Wait until the shared limit of connection attempts admits this link. While other links to this
 * Redis work, it connects at once; but after it alone was refused it waits for its turn. */
static void connect_in_turn(struct redis_link *link)
{
    link->is_free = link->is_tried && !link->takes_turns && redis_target_has_worked(link->target);
    const uint64_t wait_us =
        redis_target_may_connect(link->target, link->takes_turns, clock_monotonic_us());
    if (wait_us == 0) {
        connect_next(link);
    } else if (link->state == REDIS_LINK_DOWN) {
        timer_arm(&link->timer, wait_us);
    } else {
        set_state(link, REDIS_LINK_DOWN, wait_us);
    }
}

static void on_found(void *owner, enum status status, struct span trouble)
{
    struct redis_link *link = owner;
    if (status == STATUS_OK) {
        connect_in_turn(link);
    } else {
        go_down(link, REDIS_FAULT_NOT_FOUND, trouble);
    }
}

static void try_again(struct redis_link *link)
{
    switch (redis_endpoint_ask(&link->endpoint)) {
    case REDIS_ENDPOINT_KNOWN:
        connect_in_turn(link);
        break;
    case REDIS_ENDPOINT_ASKED:
        set_state(link, REDIS_LINK_RESOLVING, HANDSHAKE_US);
        break;
    case REDIS_ENDPOINT_NO_MEMORY:
        set_state(link, REDIS_LINK_RESOLVING, HANDSHAKE_US);
        go_down(link, REDIS_FAULT_NOT_FOUND, SPAN("out of memory"));
        break;
    }
}

/* The server that is connected or tried is no longer the master. */
static void on_moved(void *owner)
{
    struct redis_link *link = owner;
    redis_backoff_reset(&link->backoff);
    redis_link_drop(link, REDIS_FAULT_SWITCHED, SPAN("a sentinel names another master"));
    if (link->state == REDIS_LINK_DOWN) {
        timer_arm(&link->timer, WAIT_MIN_US);
    }
}

static void give_up_seeking(struct redis_link *link)
{
    go_down(link, REDIS_FAULT_NOT_FOUND, SPAN("the address of Redis is not known in time"));
}

static void give_up(struct redis_link *link)
{
    go_down(link, REDIS_FAULT_HALF_OPEN, SPAN("no answer to the handshake"));
    redis_connection_close(&link->connection);
}

/* --- decisions --- */

static void on_breaker_change(void *owner)
{
    struct redis_link *link = owner;
    show(link);
    link->on_change(link->owner);
}

static void on_useless(void *owner, enum redis_fault fault, struct span trouble)
{
    redis_link_drop(owner, fault, trouble);
}

void redis_link_note_success(struct redis_link *link)
{
    if (link->is_troubled) {
        link->is_troubled = false;
        redis_target_note(link->target, true);
    }
    redis_backoff_reset(&link->backoff);
    if (link->trouble[0] != '\0') {
        log_up(link);
    }
    redis_breaker_note_success(&link->breaker);
}

enum redis_link_readiness redis_link_readiness(const struct redis_link *link)
{
    if (link->state != REDIS_LINK_UP) {
        return link->is_tried ? REDIS_LINK_FAILS : REDIS_LINK_WAIT;
    }
    if (redis_breaker_admits(&link->breaker)) {
        return REDIS_LINK_READY;
    }
    return link->breaker.state == REDIS_BREAKER_OPEN ? REDIS_LINK_FAILS : REDIS_LINK_WAIT;
}

enum redis_fault redis_link_fault(const struct redis_link *link)
{
    return link->state == REDIS_LINK_UP ? link->breaker.fault : link->fault;
}

/* --- the link --- */

static void on_timer(void *context)
{
    struct redis_link *link = context;
    switch (link->state) {
    case REDIS_LINK_DOWN:
        try_again(link);
        break;
    case REDIS_LINK_RESOLVING:
        give_up_seeking(link);
        break;
    case REDIS_LINK_CONNECTING:
        give_up(link);
        break;
    case REDIS_LINK_UP:
        break;
    }
}

enum status redis_link_init(struct redis_link *link, struct loop *loop,
                            const struct redis_store_options *options, struct span source,
                            struct store_node_meters *meters, void (*on_change)(void *owner),
                            void *owner)
{
    static const struct redis_endpoint_handler ENDPOINT_HANDLER = {
        .on_found = on_found,
        .on_moved = on_moved,
    };
    *link = (struct redis_link){
        .loop = loop,
        .options = options,
        .target = redis_process_target(options->process, options),
        .source = source,
        .meters = meters,
        .on_change = on_change,
        .owner = owner,
        .handshake = {.on_end = on_handshake_end, .owner = link},
        .breaker = {.connection = &link->connection,
                    .options = options,
                    .deadline_us = options->deadline_us,
                    .on_change = on_breaker_change,
                    .on_useless = on_useless,
                    .owner = link},
        .backoff = redis_backoff_of(WAIT_MIN_US, WAIT_MAX_US),
    };
    redis_connection_init(&link->connection, loop, on_lost, link);
    timer_init(&link->timer, loop, on_timer, link);
    redis_breaker_init(&link->breaker, loop);
    const enum status status =
        redis_endpoint_init(&link->endpoint, loop, options, &ENDPOINT_HANDLER, link);
    if (status != STATUS_OK) {
        redis_breaker_close(&link->breaker);
        timer_close(&link->timer);
        return status;
    }
    counter_up(&link->meters->links);
    timer_arm(&link->timer, 0);
    return STATUS_OK;
}

void redis_link_close(struct redis_link *link)
{
    hide(link);
    redis_connection_free(&link->connection);
    timer_close(&link->timer);
    redis_breaker_close(&link->breaker);
    redis_endpoint_close(&link->endpoint);
}

enum status redis_link_send(struct redis_link *link, struct span command, struct redis_call *call,
                            uint64_t now_us)
{
    assert(redis_link_may_settle(link));
    return redis_connection_send(&link->connection, command, call, now_us);
}

static void ignore_reply(struct redis_call *call, const struct redis_reply *reply)
{
    (void)call;
    (void)reply;
}

enum status redis_link_send_unanswered(struct redis_link *link, struct span command,
                                       uint64_t now_us)
{
    static struct redis_call call = {.on_reply = ignore_reply};
    return redis_link_send(link, command, &call, now_us);
}

enum status redis_link_send_asking(struct redis_link *link, uint64_t now_us)
{
    return redis_link_send_unanswered(link, SPAN("*1\r\n$6\r\nASKING\r\n"), now_us);
}
