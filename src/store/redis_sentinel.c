/* Happy path: asked ─► the sentinel's name is resolved ─► it says where the master is ─► it is
 * listened to, and pinged now and then; what it says later is an answer to the next question, or
 * news.
 *
 * Failures: a sentinel that cannot be reached, is silent, refuses or knows no such master ─► the
 * next one; all of them ─► whoever asked is told, and they are tried again after a while; one whose
 * answers lead to no master, several times ─► the next one, which may know more. A failover that is
 * told twice is followed once, since what counts is whether the answer has changed. */

#include "store/redis_sentinel.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

enum {
    ANSWER_US = 500 * 1000, /* to resolve a sentinel's name, and again for each address to answer */
    QUIET_US = 5 * 1000 * 1000, /* between pings */
    PONG_US = 1000 * 1000,
    RETRY_MIN_US = 100 * 1000,
    RETRY_MAX_US = 5 * 1000 * 1000,
    BAD_ANSWERS_MAX = 3,
    TROUBLE_LOGGED_MAX = 4 * REDIS_SENTINEL_TROUBLE_MAX + 3, /* as a logfmt value, and a NUL */
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

/* --- the next one --- */

/* False: that was the last host. */
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

/* This sentinel is of no use. */
static void fail(struct redis_sentinel *sentinel, struct span trouble)
{
    redis_sentinel_talk_close(&sentinel->talk);
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

static void open_next(struct redis_sentinel *sentinel)
{
    set_state(sentinel, REDIS_SENTINEL_ASKING, ANSWER_US);
    if (redis_sentinel_talk_open(&sentinel->talk, &sentinel->addresses[sentinel->next]) !=
        STATUS_OK) {
        fail(sentinel, SPAN("a sentinel cannot be reached"));
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

/* --- what a sentinel says --- */

static bool is_told(const struct redis_sentinel *sentinel, const struct redis_master *master)
{
    return sentinel->told.port == master->port &&
           span_equals(span_of_text(sentinel->told.host), span_of_text(master->host));
}

static void on_master(void *owner, const struct redis_master *master)
{
    struct redis_sentinel *sentinel = owner;
    if (sentinel->state != REDIS_SENTINEL_ASKING) {
        return; /* an answer to nothing */
    }
    set_state(sentinel, REDIS_SENTINEL_WATCHING, QUIET_US);
    redis_backoff_reset(&sentinel->backoff);
    sentinel->n_tried = 0;
    note_back(sentinel);
    if (sentinel->is_asked) {
        sentinel->told = *master;
        answer(sentinel, master, SPAN(""));
    } else if (sentinel->told.host[0] != '\0' && !is_told(sentinel, master)) {
        sentinel->handler->on_moved(sentinel->owner);
    }
}

static void ask_again(struct redis_sentinel *sentinel)
{
    const bool is_sent = redis_sentinel_talk_ask(&sentinel->talk);
    set_state(sentinel, REDIS_SENTINEL_ASKING, is_sent ? ANSWER_US : 0);
}

static void on_switched(void *owner)
{
    struct redis_sentinel *sentinel = owner;
    if (sentinel->state == REDIS_SENTINEL_WATCHING) {
        ask_again(sentinel);
    }
}

static void on_end(void *owner, struct span trouble)
{
    fail(owner, trouble);
}

/* --- time passes --- */

static void watch(struct redis_sentinel *sentinel)
{
    const bool is_silent =
        sentinel->pinged_at_us > 0 && sentinel->talk.heard_at_us < sentinel->pinged_at_us;
    if (is_silent) {
        fail(sentinel, SPAN("a sentinel is silent"));
    } else if (sentinel->pinged_at_us > 0) {
        sentinel->pinged_at_us = 0;
        timer_arm(&sentinel->timer, QUIET_US);
    } else if (redis_sentinel_talk_ping(&sentinel->talk)) {
        sentinel->pinged_at_us = clock_monotonic_us();
        timer_arm(&sentinel->timer, PONG_US);
    } else {
        fail(sentinel, SPAN("a sentinel takes nothing"));
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

enum status redis_sentinel_init(struct redis_sentinel *sentinel, struct loop *loop,
                                struct resolver *resolver, struct redis_target *target,
                                const struct redis_sentinels *options,
                                const struct redis_sentinel_handler *handler, void *owner)
{
    static const struct redis_sentinel_talk_handler TALK_HANDLER = {
        .on_master = on_master,
        .on_switched = on_switched,
        .on_end = on_end,
    };
    *sentinel = (struct redis_sentinel){
        .options = options,
        .resolver = resolver,
        .target = target,
        .handler = handler,
        .owner = owner,
        .backoff = redis_backoff_of(RETRY_MIN_US, RETRY_MAX_US),
    };
    enum status status = timer_init(&sentinel->timer, loop, on_timer, sentinel);
    if (status != STATUS_OK) {
        return status;
    }
    status = redis_sentinel_talk_init(&sentinel->talk, loop, options, &TALK_HANDLER, sentinel);
    if (status != STATUS_OK) {
        timer_close(&sentinel->timer);
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
    redis_sentinel_talk_free(&sentinel->talk);
    timer_close(&sentinel->timer);
}
