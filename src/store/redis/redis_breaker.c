/* Happy path: CLOSED; each successful decision resets the count of failures.
 *
 * Failures: REDIS_BREAKER_FAILURES_MAX consecutive failures that count, or one after a long silence
 * ─► OPEN. After a late PONG the probe is repeated soon; after an error, when the back-off has
 * passed. No reply at all for silence_max_us() while OPEN ─► the connection is dropped. A failed
 * trial ─► OPEN. When the client of a trial leaves, the next decision is the trial. Changes are
 * logged; single failures are logged at most once a second. */

#include "store/redis/redis_breaker.h"

#include <assert.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "limit/limit.h"

enum {
    WAIT_MIN_US = 100 * 1000,
    WAIT_MAX_US = 1000 * 1000,
    SILENCE_MIN_US = 1000 * 1000,
};

static const char MODULE[] = "store.redis";

#define TO(state) (1u << REDIS_BREAKER_##state)

static const struct {
    const char *name;
    unsigned next; /* bit set of the states that may follow */
} STATES[] = {
    [REDIS_BREAKER_OFF] = {"off", TO(CLOSED) | TO(TRIAL)},
    [REDIS_BREAKER_CLOSED] = {"closed", TO(OPEN) | TO(OFF)},
    [REDIS_BREAKER_OPEN] = {"open", TO(TRIAL) | TO(CLOSED) | TO(OFF)},
    [REDIS_BREAKER_TRIAL] = {"trial", TO(CLOSED) | TO(OPEN) | TO(OFF)},
};

static void forget_failures(struct redis_breaker *breaker)
{
    breaker->n_failures = 0;
    breaker->n_late = 0;
}

static void set_state(struct redis_breaker *breaker, enum redis_breaker_state next)
{
    assert(STATES[breaker->state].next & (1u << next));

    log_debug(MODULE, "breaker changes", "from=%s to=%s", STATES[breaker->state].name,
              STATES[next].name);
    breaker->state = next;
    breaker->is_trial_under_way = false;
    forget_failures(breaker);
    timer_disarm(&breaker->timer);
}

/* --- silence --- */

static uint64_t silence_max_us(const struct redis_breaker *breaker)
{
    const uint64_t twice_us = breaker->deadline_us * 2;
    return twice_us > SILENCE_MIN_US ? twice_us : SILENCE_MIN_US;
}

static uint64_t quiet_us(const struct redis_breaker *breaker, uint64_t now_us)
{
    const struct redis_connection *connection = breaker->connection;
    return connection->n_awaited == 0 ? 0 : now_us - connection->quiet_since_us;
}

/* --- the log --- */

static void write_address(struct text *text, const struct redis_store_options *options)
{
    if (options->unix_path.len > 0) {
        text_add_literal(text, "unix:");
        text_add(text, options->unix_path);
    } else if (options->sentinels.n_hosts > 0) {
        text_add_literal(text, "master ");
        text_add(text, options->sentinels.master);
    } else {
        const bool is_ipv6 = span_find(options->host, ':') < options->host.len;
        text_add(text, is_ipv6 ? SPAN("[") : SPAN(""));
        text_add(text, options->host);
        text_add(text, is_ipv6 ? SPAN("]") : SPAN(""));
        text_add_format(text, ":%u", options->port);
    }
}

void redis_log_write_place(struct text *text, const struct redis_store_options *options)
{
    static const char *const WORDS[] = {
        [ON_FAILURE_LOCAL] = "local", [ON_FAILURE_ALLOW] = "allow", [ON_FAILURE_DENY] = "deny"};
    char buffer[REDIS_PLACE_BYTES / 4];
    struct text address = text_of(buffer, sizeof(buffer));
    bool is_used[ARRAY_LEN(WORDS)] = {false};
    const char *separator = " on_failure=";
    write_address(&address, options);
    text_add_literal(text, "address=");
    text_add_logfmt(text, text_span(&address));
    for (size_t i = 0; i < options->n_limits; i++) {
        is_used[options->limits[i].on_failure] = true;
    }
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        if (is_used[i]) {
            text_add_format(text, "%s%s", separator, WORDS[i]);
            separator = ",";
        }
    }
}

static void log_failure(struct redis_breaker *breaker, enum log_level level, const char *message,
                        struct span said)
{
    char buffer[REDIS_REPLY_LOGGED_MAX + REDIS_PLACE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_logfmt(&text, said);
    text_add_char(&text, ' ');
    redis_log_write_place(&text, breaker->options);
    log_at(level, MODULE, message, "fault=%s err=%.*s", redis_fault_row(breaker->fault)->name,
           SPAN_ARGS(text_span(&text)));
}

static enum log_level level_of(enum redis_fault fault)
{
    return redis_fault_row(fault)->is_lasting ? LOG_ERROR : LOG_WARN;
}

static void log_single(struct redis_breaker *breaker, struct span said)
{
    uint64_t n_held;
    if (log_gate_pass(&breaker->gate, clock_monotonic_us(), &n_held)) {
        log_failure(breaker, level_of(breaker->fault), "Redis made no decision", said);
    }
}

/* --- opening --- */

static void open_for(struct redis_breaker *breaker, struct span said)
{
    set_state(breaker, REDIS_BREAKER_OPEN);
    breaker->n_openings++;
    breaker->probed_at_us = 0;
    timer_arm(&breaker->timer, redis_backoff_wait(&breaker->backoff));
    if (!breaker->is_reported_open) {
        breaker->is_reported_open = true;
        log_failure(breaker, level_of(breaker->fault), "breaker opened", said);
    }
    breaker->on_change(breaker->owner);
}

static void probe(struct redis_breaker *breaker, uint64_t now_us)
{
    breaker->probed_at_us = now_us;
    if (redis_connection_send(breaker->connection, SPAN("*1\r\n$4\r\nPING\r\n"), &breaker->probe,
                              now_us) != STATUS_OK) {
        breaker->on_useless(breaker->owner, REDIS_FAULT_RESET, SPAN("cannot send a probe"));
    }
}

static void on_refused_probe(struct redis_breaker *breaker, const struct redis_reply *reply)
{
    const struct span said = redis_reply_text(reply);
    breaker->fault = redis_fault_of(said);
    if (redis_fault_row(breaker->fault)->reaction == REDIS_DROP) {
        breaker->on_useless(breaker->owner, breaker->fault, said);
    } else {
        timer_arm(&breaker->timer, redis_backoff_wait(&breaker->backoff));
    }
}

static void on_probe_reply(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_breaker *breaker = CONTAINER_OF(call, struct redis_breaker, probe);
    if (reply == NULL || breaker->state != REDIS_BREAKER_OPEN || breaker->probed_at_us == 0) {
        return;
    }
    const uint64_t took_us = clock_monotonic_us() - breaker->probed_at_us;
    breaker->probed_at_us = 0;
    if (reply->kind == REDIS_REPLY_IS_FAULT) {
        on_refused_probe(breaker, reply);
    } else if (took_us > breaker->deadline_us) {
        timer_arm(&breaker->timer, WAIT_MIN_US); /* alive but slow: probe again */
    } else {
        set_state(breaker, REDIS_BREAKER_TRIAL);
        breaker->on_change(breaker->owner);
    }
}

/* --- timer --- */

static void watch(struct redis_breaker *breaker)
{
    const uint64_t now_us = clock_monotonic_us();
    const uint64_t max_us = silence_max_us(breaker);
    if (quiet_us(breaker, now_us) >= max_us) {
        breaker->on_useless(breaker->owner, REDIS_FAULT_HALF_OPEN, SPAN("silence"));
        return;
    }
    timer_arm(&breaker->timer, max_us - quiet_us(breaker, now_us));
    if (breaker->probed_at_us == 0) {
        probe(breaker, now_us);
    }
}

static void on_timer(void *context)
{
    struct redis_breaker *breaker = context;
    if (breaker->state == REDIS_BREAKER_OPEN) {
        watch(breaker);
    } else if (breaker->state == REDIS_BREAKER_TRIAL) {
        breaker->on_change(breaker->owner); /* the trial was cancelled: the next decision is it */
    }
}

/* --- reports of the owner --- */

bool redis_breaker_note_asked(struct redis_breaker *breaker)
{
    assert(redis_breaker_admits(breaker));

    breaker->is_trial_under_way = breaker->state == REDIS_BREAKER_TRIAL;
    return breaker->is_trial_under_way;
}

void redis_breaker_note_success(struct redis_breaker *breaker)
{
    forget_failures(breaker);
    if (breaker->state == REDIS_BREAKER_CLOSED || breaker->state == REDIS_BREAKER_OFF) {
        return;
    }
    set_state(breaker, REDIS_BREAKER_CLOSED);
    redis_backoff_reset(&breaker->backoff);
    if (breaker->is_reported_open) {
        breaker->is_reported_open = false;
        char buffer[REDIS_PLACE_BYTES];
        struct text place = text_of(buffer, sizeof(buffer));
        redis_log_write_place(&place, breaker->options);
        log_info(MODULE, "breaker closed", "%.*s", SPAN_ARGS(text_span(&place)));
    }
    breaker->on_change(breaker->owner);
}

/* Whether a decision of @client that was in flight at the same time was late, too, and counted. If
 * not, this one is noted. */
static bool was_late(struct redis_breaker *breaker, const struct address *client)
{
    const uint64_t now_us = clock_monotonic_us();
    const struct address late = address_of_client(client);
    for (unsigned i = 0; i < breaker->n_late; i++) {
        if (address_equals(&breaker->late[i].client, &late) &&
            now_us - breaker->late[i].at_us < breaker->deadline_us) {
            return true;
        }
    }
    breaker->late[breaker->n_late++] = (struct redis_late_client){late, now_us};
    return false;
}

static bool does_count(struct redis_breaker *breaker, enum redis_fault fault,
                       const struct address *client)
{
    if (fault == REDIS_FAULT_DEADLINE && client->family != ADDRESS_NONE &&
        breaker->state == REDIS_BREAKER_CLOSED) {
        return !was_late(breaker, client);
    }
    return redis_fault_row(fault)->counts;
}

void redis_breaker_note_failure(struct redis_breaker *breaker, enum redis_fault fault,
                                struct span said, const struct address *client, bool is_trial)
{
    const bool is_running_trial = is_trial && breaker->is_trial_under_way;
    if (breaker->state != REDIS_BREAKER_CLOSED && !is_running_trial) {
        return; /* a decision sent before the state changed: nothing new */
    }
    const bool counts = does_count(breaker, fault, client);
    breaker->fault = fault;
    log_single(breaker, said);
    breaker->n_failures += counts;
    if (counts && (is_running_trial || breaker->n_failures >= REDIS_BREAKER_FAILURES_MAX ||
                   quiet_us(breaker, clock_monotonic_us()) >= silence_max_us(breaker))) {
        open_for(breaker, said);
    } else if (is_running_trial) {
        redis_breaker_note_cancelled(breaker, true); /* the fault concerns this decision alone */
    }
}

void redis_breaker_note_cancelled(struct redis_breaker *breaker, bool is_trial)
{
    if (is_trial && breaker->is_trial_under_way) {
        breaker->is_trial_under_way = false;
        timer_arm(&breaker->timer, 0);
    }
}

/* --- life --- */

void redis_breaker_init(struct redis_breaker *breaker, struct loop *loop)
{
    breaker->probe.on_reply = on_probe_reply;
    breaker->backoff = redis_backoff_of(WAIT_MIN_US, WAIT_MAX_US);
    timer_init(&breaker->timer, loop, on_timer, breaker);
}

void redis_breaker_close(struct redis_breaker *breaker)
{
    timer_close(&breaker->timer);
}

void redis_breaker_start(struct redis_breaker *breaker, bool on_trial)
{
    set_state(breaker, on_trial ? REDIS_BREAKER_TRIAL : REDIS_BREAKER_CLOSED);
}

void redis_breaker_stop(struct redis_breaker *breaker)
{
    if (breaker->state != REDIS_BREAKER_OFF) {
        set_state(breaker, REDIS_BREAKER_OFF);
    }
    breaker->probed_at_us = 0;
}
