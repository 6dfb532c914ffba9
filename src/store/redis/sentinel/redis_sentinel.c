/* Happy path: asked ─► the sentinel's name is resolved ─► it reports the master's address ─► the
 * connection stays subscribed, with a PING every few seconds. Later messages answer the next
 * question or announce a failover.
 *
 * Failures: a sentinel that cannot be reached, is silent, answers with an error or knows no such
 * master ─► the next one; all of them ─► reported to the owner, and tried again after the back-off;
 * several consecutive answers that lead to no master ─► the next sentinel, which may know more. A
 * failover that is announced twice is followed once: only a changed address counts. */

#include "store/redis/sentinel/redis_sentinel.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "store/redis/redis_connection.h"

enum {
    ANSWER_US = 500 * 1000, /* to resolve a sentinel's name, and again for each address to answer */
    QUIET_US = 5 * 1000 * 1000, /* between pings */
    PONG_US = 1000 * 1000,
    RETRY_MIN_US = 100 * 1000,
    RETRY_MAX_US = 5 * 1000 * 1000,
    BAD_ANSWERS_MAX = 3,
    TROUBLE_MAX = 64 + REDIS_REPLY_TEXT_MAX,
    TROUBLE_LOGGED_MAX = 4 * TROUBLE_MAX + 3, /* as a logfmt value, and a NUL */
};

static const char MODULE[] = "store.sentinel";

#define TO(state) (1u << REDIS_SENTINEL_##state)

static const struct {
    const char *name;
    unsigned next; /* bit set of the states that may follow */
} STATES[] = {
    [REDIS_SENTINEL_IDLE] = {"idle", TO(DOWN)},
    [REDIS_SENTINEL_DOWN] = {"down", TO(DOWN) | TO(RESOLVING) | TO(ASKING)},
    [REDIS_SENTINEL_RESOLVING] = {"resolving", TO(DOWN) | TO(ASKING)},
    [REDIS_SENTINEL_ASKING] = {"asking", TO(DOWN) | TO(WATCHING)},
    [REDIS_SENTINEL_WATCHING] = {"watching", TO(DOWN) | TO(ASKING)},
};

static void set_state(struct redis_sentinel *sentinel, enum redis_sentinel_state next,
                      uint64_t timer_us)
{
    assert(STATES[sentinel->state].next & (1u << next));

    log_debug(MODULE, "sentinel changes", "from=%s to=%s", STATES[sentinel->state].name,
              STATES[next].name);
    sentinel->state = next;
    sentinel->pinged_at_us = 0;
    timer_arm(&sentinel->timer, timer_us);
}

/* --- reading --- */

static bool is_host(struct span host)
{
    for (size_t i = 0; i < host.len; i++) {
        const char c = host.data[i];
        if (!ascii_is_alphanumeric(c) && c != '.' && c != '-' && c != '_' && c != ':') {
            return false;
        }
    }
    return host.len > 0;
}

/* Two texts: a host and a port, or "pong" and an empty text. */
static enum redis_sentinel_word read_pair(const struct redis_texts *texts,
                                          struct redis_master *master)
{
    uint64_t port;
    const struct span host = redis_texts_get(texts, 0);
    if (span_equals(host, SPAN("pong")) && texts->kept[1].len == 0) {
        return SENTINEL_NOTHING_NEW;
    }
    if (texts->kept[0].len > HOST_BYTES_MAX || !is_host(host) ||
        !span_to_u64(redis_texts_get(texts, 1), UINT16_MAX, &port) || port == 0) {
        return SENTINEL_NONSENSE;
    }
    memcpy(master->host, host.data, host.len);
    master->host[host.len] = '\0';
    master->port = (uint16_t)port;
    return SENTINEL_MASTER;
}

/* Three texts: the kind, the channel, and `NAME FROM-HOST FROM-PORT TO-HOST TO-PORT`. */
static enum redis_sentinel_word read_message(const struct redis_texts *texts, struct span name)
{
    const struct span kind = redis_texts_get(texts, 0);
    const struct span payload = redis_texts_get(texts, 2);
    if (span_equals(kind, SPAN("subscribe")) || span_equals(kind, SPAN("unsubscribe"))) {
        return SENTINEL_NOTHING_NEW;
    }
    if (!span_equals(kind, SPAN("message"))) {
        return SENTINEL_NONSENSE;
    }
    const struct span of = span_of(payload.data, span_find(payload, ' '));
    return span_equals(redis_texts_get(texts, 1), SPAN(SENTINEL_SWITCH_CHANNEL)) &&
                   span_equals(of, name)
               ? SENTINEL_SWITCHED
               : SENTINEL_NOTHING_NEW;
}

enum redis_sentinel_word redis_sentinel_read(const struct redis_reply *reply,
                                             const struct redis_texts *texts, struct span name,
                                             struct redis_master *master)
{
    switch (reply->kind) {
    case REDIS_REPLY_IS_TEXT:
        return SENTINEL_NOTHING_NEW;
    case REDIS_REPLY_IS_FAULT:
        return SENTINEL_REFUSES;
    case REDIS_REPLY_IS_NESTED:
        if (texts->n == 2) {
            return read_pair(texts, master);
        }
        return texts->n == 3 ? read_message(texts, name) : SENTINEL_NONSENSE;
    case REDIS_REPLY_IS_STRANGE:
        return reply->is_nil ? SENTINEL_NO_MASTER : SENTINEL_NONSENSE;
    case REDIS_REPLY_IS_INTS:
        break;
    }
    return SENTINEL_NONSENSE;
}

/* --- answers --- */

static void answer(struct redis_sentinel *sentinel, const struct redis_master *master,
                   struct span trouble)
{
    if (sentinel->is_asked) {
        sentinel->is_asked = false;
        sentinel->handler->on_answer(sentinel->owner, master, trouble);
    }
}

static void note_away(struct redis_sentinel *sentinel, struct span trouble)
{
    char buffer[TROUBLE_LOGGED_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    if (sentinel->is_away) {
        return;
    }
    sentinel->is_away = true;
    text_add_logfmt(&text, trouble);
    log_warn(MODULE, "no sentinel answers: a failover will not be noticed before it hurts",
             "err=%.*s", SPAN_ARGS(text_span(&text)));
}

static void note_back(struct redis_sentinel *sentinel)
{
    if (sentinel->is_away) {
        sentinel->is_away = false;
        log_info(MODULE, "a sentinel answers again", "%s", "");
    }
}

/* --- the next sentinel --- */

/* False: all hosts have been tried. */
static bool advance(struct redis_sentinel *sentinel)
{
    if (++sentinel->next < sentinel->n_addresses) {
        return true;
    }
    sentinel->at = (sentinel->at + 1) % sentinel->options->n_hosts;
    sentinel->next = 0;
    sentinel->n_addresses = 0;
    return ++sentinel->n_tried < sentinel->options->n_hosts;
}

/* The current sentinel has failed: go on to the next. */
static void fail(struct redis_sentinel *sentinel, struct span trouble)
{
    redis_connection_close(&sentinel->connection);
    sentinel->n_bad = 0;
    if (advance(sentinel)) {
        const bool is_urgent = sentinel->is_asked;
        set_state(sentinel, REDIS_SENTINEL_DOWN,
                  is_urgent ? 0 : redis_backoff_wait(&sentinel->backoff));
        return;
    }
    sentinel->n_tried = 0;
    set_state(sentinel, REDIS_SENTINEL_DOWN, redis_backoff_wait(&sentinel->backoff));
    note_away(sentinel, trouble);
    answer(sentinel, NULL, trouble);
}

static void on_lost(void *owner, enum redis_fault why, struct span said)
{
    char buffer[TROUBLE_MAX];
    struct text trouble = text_of(buffer, sizeof(buffer));
    (void)why;
    text_add_literal(&trouble, "a sentinel: ");
    text_add(&trouble, said);
    fail(owner, text_span(&trouble));
}

static bool send_to(struct redis_sentinel *sentinel, struct span commands)
{
    return redis_connection_send(&sentinel->connection, commands, NULL, clock_monotonic_us()) ==
           STATUS_OK;
}

static void open_next(struct redis_sentinel *sentinel)
{
    set_state(sentinel, REDIS_SENTINEL_ASKING, ANSWER_US);
    redis_texts_clear(&sentinel->texts);
    if (sentinel->options->contexts != NULL) {
        redis_connection_secure(&sentinel->connection, sentinel->options->contexts->worker,
                                sentinel->options->contexts->sentinels,
                                sentinel->options->hosts[sentinel->at].host);
    }
    if (redis_connection_open(&sentinel->connection, &sentinel->addresses[sentinel->next], NULL) !=
        STATUS_OK) {
        on_lost(sentinel, REDIS_FAULT_REFUSED, span_of_text(sentinel->connection.trouble));
    } else if (!send_to(sentinel, redis_wire_span(&sentinel->hello))) {
        fail(sentinel, SPAN("out of memory"));
    }
}

static void on_resolved(void *context, const struct resolver_answer *answer)
{
    struct redis_sentinel *sentinel = context;
    sentinel->query = NULL;
    if (answer->status != STATUS_OK) {
        fail(sentinel, SPAN("a sentinel's name is not known"));
        return;
    }
    memcpy(sentinel->addresses, answer->addresses,
           answer->n_addresses * sizeof(answer->addresses[0]));
    sentinel->n_addresses = answer->n_addresses;
    open_next(sentinel);
}

static void resolve(struct redis_sentinel *sentinel)
{
    const struct redis_host *host = &sentinel->options->hosts[sentinel->at];
    if (resolver_read_address(host->host, host->port, &sentinel->addresses[0])) {
        sentinel->n_addresses = 1;
        open_next(sentinel);
        return;
    }
    set_state(sentinel, REDIS_SENTINEL_RESOLVING, ANSWER_US);
    if (resolver_ask(sentinel->resolver, host->host, host->port, on_resolved, sentinel,
                     &sentinel->query) != STATUS_OK) {
        fail(sentinel, SPAN("out of memory"));
    }
}

static void try_next(struct redis_sentinel *sentinel)
{
    const uint64_t wait_us =
        redis_target_may_connect(sentinel->target, false, clock_monotonic_us());
    if (wait_us > 0) {
        set_state(sentinel, REDIS_SENTINEL_DOWN, wait_us);
    } else if (sentinel->n_addresses > 0) {
        open_next(sentinel);
    } else {
        resolve(sentinel);
    }
}

/* --- a sentinel's messages --- */

static bool is_reported(const struct redis_sentinel *sentinel, const struct redis_master *master)
{
    return sentinel->reported.port == master->port &&
           span_equals(span_of_text(sentinel->reported.host), span_of_text(master->host));
}

static void on_master(struct redis_sentinel *sentinel, const struct redis_master *master)
{
    if (sentinel->state != REDIS_SENTINEL_ASKING) {
        return; /* not asked for */
    }
    set_state(sentinel, REDIS_SENTINEL_WATCHING, QUIET_US);
    redis_backoff_reset(&sentinel->backoff);
    sentinel->n_tried = 0;
    note_back(sentinel);
    if (sentinel->is_asked) {
        sentinel->reported = *master;
        answer(sentinel, master, SPAN(""));
    } else if (sentinel->reported.host[0] != '\0' && !is_reported(sentinel, master)) {
        sentinel->handler->on_moved(sentinel->owner);
    }
}

static void ask_again(struct redis_sentinel *sentinel)
{
    const bool is_sent = send_to(sentinel, redis_wire_span(&sentinel->again));
    set_state(sentinel, REDIS_SENTINEL_ASKING, is_sent ? ANSWER_US : 0);
}

static void fail_refused(struct redis_sentinel *sentinel, struct span said)
{
    char buffer[TROUBLE_MAX];
    struct text trouble = text_of(buffer, sizeof(buffer));
    text_add_literal(&trouble, "a sentinel refuses: ");
    text_add(&trouble, redis_fault_code(said));
    fail(sentinel, text_span(&trouble));
}

static void on_message(void *owner, const struct redis_reply *reply)
{
    struct redis_sentinel *sentinel = owner;
    struct redis_master master;
    const enum redis_sentinel_word word =
        redis_sentinel_read(reply, &sentinel->texts, sentinel->options->master, &master);
    redis_texts_clear(&sentinel->texts);
    switch (word) {
    case SENTINEL_NOTHING_NEW:
        break;
    case SENTINEL_MASTER:
        on_master(sentinel, &master);
        break;
    case SENTINEL_NO_MASTER:
        fail(sentinel, SPAN("a sentinel knows no master of that name"));
        break;
    case SENTINEL_SWITCHED:
        if (sentinel->state == REDIS_SENTINEL_WATCHING) {
            ask_again(sentinel);
        }
        break;
    case SENTINEL_REFUSES:
        fail_refused(sentinel, redis_reply_text(reply));
        break;
    case SENTINEL_NONSENSE:
        fail(sentinel, SPAN("a sentinel talks nonsense"));
        break;
    }
}

/* --- timer --- */

static void watch(struct redis_sentinel *sentinel)
{
    const bool is_silent =
        sentinel->pinged_at_us > 0 && sentinel->connection.quiet_since_us < sentinel->pinged_at_us;
    if (is_silent) {
        fail(sentinel, SPAN("a sentinel is silent"));
    } else if (sentinel->pinged_at_us > 0) {
        sentinel->pinged_at_us = 0;
        timer_arm(&sentinel->timer, QUIET_US);
    } else if (send_to(sentinel, SPAN("*1\r\n$4\r\nPING\r\n"))) {
        sentinel->pinged_at_us = clock_monotonic_us();
        timer_arm(&sentinel->timer, PONG_US);
    } else {
        fail(sentinel, SPAN("out of memory"));
    }
}

static void give_up(struct redis_sentinel *sentinel)
{
    if (sentinel->query != NULL) {
        resolver_cancel(sentinel->query);
        sentinel->query = NULL;
    }
    fail(sentinel, SPAN("a sentinel does not answer in time"));
}

static void on_timer(void *context)
{
    struct redis_sentinel *sentinel = context;
    switch (sentinel->state) {
    case REDIS_SENTINEL_DOWN:
        try_next(sentinel);
        break;
    case REDIS_SENTINEL_RESOLVING:
    case REDIS_SENTINEL_ASKING:
        give_up(sentinel);
        break;
    case REDIS_SENTINEL_WATCHING:
        watch(sentinel);
        break;
    case REDIS_SENTINEL_IDLE:
        break;
    }
}

/* --- for the owner --- */

void redis_sentinel_ask(struct redis_sentinel *sentinel)
{
    sentinel->is_asked = true;
    switch (sentinel->state) {
    case REDIS_SENTINEL_IDLE:
        set_state(sentinel, REDIS_SENTINEL_DOWN, 0);
        break;
    case REDIS_SENTINEL_DOWN:
        timer_arm(&sentinel->timer, 0);
        break;
    case REDIS_SENTINEL_WATCHING:
        ask_again(sentinel);
        break;
    case REDIS_SENTINEL_RESOLVING:
    case REDIS_SENTINEL_ASKING:
        break; /* the answer is on its way */
    }
}

void redis_sentinel_forget(struct redis_sentinel *sentinel)
{
    sentinel->is_asked = false;
}

void redis_sentinel_note_good(struct redis_sentinel *sentinel)
{
    sentinel->n_bad = 0;
}

void redis_sentinel_note_bad(struct redis_sentinel *sentinel)
{
    const bool has_others =
        sentinel->options->n_hosts > 1 || sentinel->next + 1 < sentinel->n_addresses;
    if (++sentinel->n_bad >= BAD_ANSWERS_MAX && has_others &&
        sentinel->state == REDIS_SENTINEL_WATCHING) {
        fail(sentinel, SPAN("a sentinel names a master that is none"));
    }
}

static enum status add_question(struct redis_wire *wire, struct span master)
{
    const struct span where[] = {SPAN("SENTINEL"), SPAN("GET-MASTER-ADDR-BY-NAME"), master};
    const struct span subscribe[] = {SPAN("SUBSCRIBE"), SPAN(SENTINEL_SWITCH_CHANNEL)};
    const enum status status = redis_wire_add(wire, where, ARRAY_LEN(where));
    return status == STATUS_OK ? redis_wire_add(wire, subscribe, ARRAY_LEN(subscribe)) : status;
}

static enum status write_questions(struct redis_sentinel *sentinel)
{
    const struct redis_sentinels *options = sentinel->options;
    struct redis_wire *hello = &sentinel->hello;
    const struct span leave[] = {SPAN("UNSUBSCRIBE"), SPAN(SENTINEL_SWITCH_CHANNEL)};
    enum status status = redis_wire_add_auth(hello, options->user, options->password);
    if (status == STATUS_OK) {
        status = add_question(hello, options->master);
    }
    if (status == STATUS_OK) {
        status = redis_wire_add(&sentinel->again, leave, ARRAY_LEN(leave));
    }
    return status == STATUS_OK ? add_question(&sentinel->again, options->master) : status;
}

enum status redis_sentinel_init(struct redis_sentinel *sentinel, struct loop *loop,
                                struct resolver *resolver, struct redis_target *target,
                                const struct redis_sentinels *options,
                                const struct redis_sentinel_handler *handler, void *owner)
{
    *sentinel = (struct redis_sentinel){
        .options = options,
        .resolver = resolver,
        .target = target,
        .handler = handler,
        .owner = owner,
        .backoff = redis_backoff_of(RETRY_MIN_US, RETRY_MAX_US),
    };
    redis_connection_init(&sentinel->connection, loop, on_lost, sentinel);
    sentinel->connection.on_message = on_message;
    sentinel->connection.reply.listener = &sentinel->texts.listener;
    timer_init(&sentinel->timer, loop, on_timer, sentinel);
    const enum status status = write_questions(sentinel);
    if (status != STATUS_OK) {
        redis_sentinel_close(sentinel);
    }
    return status;
}

void redis_sentinel_close(struct redis_sentinel *sentinel)
{
    if (sentinel->options == NULL) {
        return;
    }
    if (sentinel->query != NULL) {
        resolver_cancel(sentinel->query);
    }
    redis_connection_free(&sentinel->connection);
    redis_wire_free(&sentinel->hello);
    redis_wire_free(&sentinel->again);
    timer_close(&sentinel->timer);
}
