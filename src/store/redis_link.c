/* Happy path: connect ─► the handshake in one write (AUTH, SELECT, SCRIPT LOAD, whose reply names the
 * script) ─► UP.
 *
 * Failures: no address, refused, no handshake in time, a password that is wrong, a broken connection, a
 * reply that makes no sense, a server that is not the one ─► DOWN, and again after the back-off. No
 * reply to several decisions in a row ─► SUSPECT: a PING after a while; answered as quickly as a
 * decision must be ─► UP; late ─► PING again; silence ─► DOWN. The log is told once per change. */

#include "store/redis_link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

enum {
    HANDSHAKE_US = 1000 * 1000, /* to resolve, and again for each address */
    RETRY_MIN_US = 50 * 1000,
    RETRY_MAX_US = 1000 * 1000,
    PROBE_MIN_US = 100 * 1000,
    PROBE_MAX_US = 1000 * 1000,
    SILENCE_MIN_US = 1000 * 1000,
    TIMEOUTS_MAX = 5,
    LOGGED_TEXT_MAX = 600,
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
    [REDIS_LINK_UP] = {"up", TO(SUSPECT) | TO(DOWN)},
    [REDIS_LINK_SUSPECT] = {"suspect", TO(UP) | TO(DOWN)},
};

/* A random length between half of @delay_us and all of it: proxies that lost the same Redis do not
 * come back at one instant. */
static uint64_t jitter(uint64_t delay_us)
{
    uint64_t random;
    hash_random(&random, sizeof(random));
    return delay_us / 2 + random % (delay_us / 2 + 1);
}

static uint64_t next_delay(uint64_t *delay_us, uint64_t max_us)
{
    const uint64_t now = *delay_us;
    *delay_us = now * 2 < max_us ? now * 2 : max_us;
    return jitter(now);
}

static void set_state(struct redis_link *link, enum redis_link_state next, uint64_t timer_us)
{
    assert(STATES[link->state].next & (1u << next));

    log_debug(MODULE, "link changes", "from=%s to=%s", STATES[link->state].name, STATES[next].name);
    link->state = next;
    if (timer_us == UINT64_MAX) {
        timer_disarm(&link->timer);
    } else {
        timer_arm(&link->timer, timer_us);
    }
}

static void settle(struct redis_link *link)
{
    if (!link->settled) {
        link->settled = true;
        link->on_settled(link->owner);
    }
}

/* --- the log --- */

static void log_trouble(struct redis_link *link, enum log_level level, const char *message,
                        struct span trouble)
{
    char buffer[LOGGED_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    const int len =
        (int)(trouble.len < sizeof(link->trouble) ? trouble.len : sizeof(link->trouble) - 1);
    if (span_equals(span_of_text(link->trouble), span_of(trouble.data, (size_t)len))) {
        return;
    }
    snprintf(link->trouble, sizeof(link->trouble), "%.*s", len, trouble.data);
    text_add_logfmt(&text, span_of(trouble.data, (size_t)len));
    log_at(level, MODULE, message, "err=%.*s", SPAN_ARGS(text_span(&text)));
}

static void log_well(struct redis_link *link, const char *message)
{
    link->trouble[0] = '\0';
    log_info(MODULE, message, "%s", "");
}

/* --- down --- */

/* The connection is gone, or there was none. A further address is tried at once. */
static void go_down(struct redis_link *link, enum redis_fault fault, struct span trouble)
{
    const bool was_made = link->state == REDIS_LINK_UP || link->state == REDIS_LINK_SUSPECT;
    link->fault = fault;
    link->probed_at_us = 0;
    if (!was_made && redis_place_advance(&link->place)) {
        set_state(link, REDIS_LINK_DOWN, 0);
        return;
    }
    redis_place_forget(&link->place);
    set_state(link, REDIS_LINK_DOWN, next_delay(&link->retry_us, RETRY_MAX_US));
    if (!was_made && redis_fault_row(fault)->is_lasting) {
        log_trouble(link, LOG_ERROR,
                    "Redis refuses the handshake: check user, password, database and rights",
                    trouble);
    } else {
        log_trouble(link, LOG_WARN, was_made ? "link lost" : "no link", trouble);
    }
    settle(link);
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
    memcpy(link->sha, text.data, sizeof(link->sha));
    link->n_timeouts = 0;
    set_state(link, REDIS_LINK_UP, UINT64_MAX);
    log_well(link, "link up");
    settle(link);
}

/* --- finding and connecting --- */

static void connect_next(struct redis_link *link)
{
    link->n_connects++;
    set_state(link, REDIS_LINK_CONNECTING, HANDSHAKE_US);

    enum status status = redis_connection_open(&link->connection, redis_place_address(&link->place),
                                               redis_place_path(&link->place));
    if (status != STATUS_OK) {
        go_down(link, REDIS_FAULT_REFUSED, span_of_text(strerror(errno)));
        return;
    }
    status = redis_handshake_send(&link->handshake, &link->connection, link->options, link->source);
    if (status != STATUS_OK) {
        redis_link_drop(link, REDIS_FAULT_RESET, SPAN("cannot send the handshake"));
    }
}

static void on_found(void *owner, enum status status, struct span trouble)
{
    struct redis_link *link = owner;
    if (status == STATUS_OK) {
        connect_next(link);
    } else {
        go_down(link, REDIS_FAULT_NOT_FOUND, trouble);
    }
}

static void try_again(struct redis_link *link)
{
    switch (redis_place_ask(&link->place)) {
    case REDIS_PLACE_KNOWN:
        connect_next(link);
        break;
    case REDIS_PLACE_ASKED:
        set_state(link, REDIS_LINK_RESOLVING, HANDSHAKE_US);
        break;
    case REDIS_PLACE_NO_MEMORY:
        set_state(link, REDIS_LINK_RESOLVING, HANDSHAKE_US);
        go_down(link, REDIS_FAULT_NOT_FOUND, SPAN("out of memory"));
        break;
    }
}

static void give_up(struct redis_link *link)
{
    go_down(link, REDIS_FAULT_HALF_OPEN, SPAN("no answer to the handshake"));
    redis_connection_close(&link->connection);
}

/* --- the breaker --- */

static uint64_t silence_max_us(const struct redis_link *link)
{
    const uint64_t twice_us = link->options->deadline_us * 2;
    return twice_us > SILENCE_MIN_US ? twice_us : SILENCE_MIN_US;
}

static uint64_t quiet_us(const struct redis_link *link, uint64_t now_us)
{
    if (link->connection.n_awaited == 0) {
        return 0;
    }
    return now_us - link->connection.quiet_since_us;
}

static void probe(struct redis_link *link);

static void on_probe_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_link *link = CONTAINER_OF(call, struct redis_link, probe_call);
    if (reply == NULL || link->state != REDIS_LINK_SUSPECT) {
        return;
    }
    const uint64_t took_us = clock_monotonic_us() - link->probed_at_us;
    link->probed_at_us = 0;
    if (took_us > link->options->deadline_us) {
        probe(link); /* it lives: is it quick, too? */
        return;
    }
    link->n_timeouts = 0;
    set_state(link, REDIS_LINK_UP, UINT64_MAX);
    log_well(link, "replies come in time again");
}

static void probe(struct redis_link *link)
{
    link->probe_call.on_reply = on_probe_reply;
    link->probed_at_us = clock_monotonic_us();
    if (redis_connection_send(&link->connection, SPAN("*1\r\n$4\r\nPING\r\n"), &link->probe_call,
                              link->probed_at_us) != STATUS_OK) {
        redis_link_drop(link, REDIS_FAULT_RESET, SPAN("cannot send a probe"));
    }
}

static void watch_suspect(struct redis_link *link)
{
    const uint64_t now_us = clock_monotonic_us();
    const uint64_t max_us = silence_max_us(link);
    if (quiet_us(link, now_us) >= max_us) {
        redis_link_drop(link, REDIS_FAULT_HALF_OPEN, SPAN("silence"));
        return;
    }
    timer_arm(&link->timer, max_us - quiet_us(link, now_us));
    if (link->probed_at_us == 0) {
        probe(link);
    }
}

void redis_link_note_timeout(struct redis_link *link, uint64_t now_us)
{
    link->n_timeouts++;
    if (link->state != REDIS_LINK_UP) {
        return;
    }
    if (link->n_timeouts >= TIMEOUTS_MAX || quiet_us(link, now_us) >= silence_max_us(link)) {
        set_state(link, REDIS_LINK_SUSPECT, next_delay(&link->probe_us, PROBE_MAX_US));
        link->fault = REDIS_FAULT_DEADLINE;
        log_trouble(link, LOG_WARN, "replies do not come in time", SPAN("timed out"));
    }
}

void redis_link_note_success(struct redis_link *link)
{
    link->n_timeouts = 0;
    link->retry_us = RETRY_MIN_US;
    link->probe_us = PROBE_MIN_US;
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
    case REDIS_LINK_CONNECTING:
        give_up(link);
        break;
    case REDIS_LINK_SUSPECT:
        watch_suspect(link);
        break;
    case REDIS_LINK_UP:
        break;
    }
}

enum status redis_link_init(struct redis_link *link, struct loop *loop,
                            const struct redis_store_options *options, struct span source,
                            void (*on_settled)(void *owner), void *owner)
{
    *link = (struct redis_link){
        .loop = loop,
        .options = options,
        .source = source,
        .on_settled = on_settled,
        .owner = owner,
        .handshake = {.on_end = on_handshake_end, .owner = link},
        .retry_us = RETRY_MIN_US,
        .probe_us = PROBE_MIN_US,
        .fault = REDIS_FAULT_REFUSED,
    };
    redis_connection_init(&link->connection, loop, on_lost, link);
    enum status status = timer_init(&link->timer, loop, on_timer, link);
    if (status != STATUS_OK) {
        return status;
    }
    status = redis_place_init(&link->place, loop, options, on_found, link);
    if (status != STATUS_OK) {
        timer_close(&link->timer);
        return status;
    }
    timer_arm(&link->timer, 0);
    return STATUS_OK;
}

void redis_link_close(struct redis_link *link)
{
    redis_connection_close(&link->connection);
    timer_close(&link->timer);
    redis_place_close(&link->place);
}

enum status redis_link_send(struct redis_link *link, struct span command, struct redis_call *call,
                            uint64_t now_us)
{
    assert(link->state == REDIS_LINK_UP);
    return redis_connection_send(&link->connection, command, call, now_us);
}
