#include "http2/budget.h"

enum {
    UNIT_US = 1000 * 1000 / BUDGET_UNITS_PER_S,
    FRAMES_PER_S = 10, /* SETTINGS and PRIORITY that are free */
    FRAME_US = 1000 * 1000 / FRAMES_PER_S,
    PRIORITIES_PER_STREAM = 4,
    WINDOWS_FREE = 10,
    WINDOWS_PER_STREAM = 10,
    WINDOWS_PER_DATA = 2,
    WINDOW_BYTES = 256, /* an increment of this is no abuse */
    PINGS_FREE = 10,
    BYTES_PER_PING = 16 * 1024,
    REPEATED_FREE = 4 * 1024, /* of a head: more than clients have in fields that stay the same */
    REPEATED_PATH_FREE = 512,
    REPEATED_PATH_WEIGHT = 8, /* a path is read as many servers would read it */
    REPEATED_PER_UNIT = 8 * 1024,
};

void budget_init(struct budget *budget, bool is_shared, uint64_t now_us)
{
    *budget = (struct budget){
        .at_us = now_us, .is_shared = is_shared, .n_windows = WINDOWS_FREE, .n_pings = PINGS_FREE};
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

void budget_refill(struct budget *budget, uint64_t now_us)
{
    const uint64_t passed_us = less(now_us, budget->at_us);
    budget->at_us += passed_us;
    budget->spent_us = less(budget->spent_us, passed_us);
    budget->peer_us = less(budget->peer_us, passed_us);
    budget->frames_us = less(budget->frames_us, passed_us);
}

enum budget_state budget_state(const struct budget *budget)
{
    const uint64_t all_us = (uint64_t)BUDGET_UNITS * UNIT_US;
    const uint64_t ending_us = budget->is_shared ? budget->peer_us : budget->spent_us;
    return ending_us >= all_us                  ? BUDGET_SPENT
           : budget->spent_us >= all_us / 4 * 3 ? BUDGET_LOW
                                                : BUDGET_FINE;
}

/* Whether a proxy passes on what a client does so. All else is between the proxy and us. */
static bool is_of_request(enum http2_abuse kind)
{
    return kind == HTTP2_ABUSE_RESET || kind == HTTP2_ABUSE_FIELD || kind == HTTP2_ABUSE_REPEATED;
}

void budget_spend(struct budget *budget, enum http2_abuse kind, unsigned units)
{
    budget->spent_us += (uint64_t)units * UNIT_US;
    budget->peer_us += is_of_request(kind) ? 0 : (uint64_t)units * UNIT_US;
    budget->counts[kind] += units;
}

void budget_on_stream(struct budget *budget)
{
    budget->n_windows += WINDOWS_PER_STREAM;
    budget->n_priorities += PRIORITIES_PER_STREAM;
}

static void remember(struct budget *budget, bool is_early_reset)
{
    uint8_t *const bits = &budget->resets[budget->next_stream / 8];
    const uint8_t bit = (uint8_t)(1U << budget->next_stream % 8);
    const bool was = (*bits & bit) != 0;
    budget->n_resets = (uint8_t)(budget->n_resets + is_early_reset - was);
    *bits = (uint8_t)(is_early_reset ? *bits | bit : *bits & ~bit);
    budget->next_stream = (uint8_t)((budget->next_stream + 1) % BUDGET_STREAMS);
}

void budget_on_early_reset(struct budget *budget, uint64_t age_us)
{
    remember(budget, true);
    if (age_us <= BUDGET_RESET_US || budget->n_resets > BUDGET_STREAMS / 2) {
        budget_spend(budget, HTTP2_ABUSE_RESET, 1);
    }
}

void budget_on_end(struct budget *budget, bool is_well)
{
    remember(budget, false);
    if (is_well) {
        budget->spent_us = less(budget->spent_us, UNIT_US);
        budget->peer_us = less(budget->peer_us, UNIT_US);
    }
}

uint64_t budget_repeated(uint64_t bytes, uint64_t path_bytes)
{
    const uint64_t of_path = path_bytes < bytes ? path_bytes : bytes;
    return less(bytes, REPEATED_FREE) + less(of_path, REPEATED_PATH_FREE) * REPEATED_PATH_WEIGHT;
}

void budget_on_repeated(struct budget *budget, uint64_t weighed)
{
    budget->repeated += weighed;
    const uint64_t units = budget->repeated / REPEATED_PER_UNIT;
    if (units > 0) {
        budget->repeated %= REPEATED_PER_UNIT;
        budget_spend(budget, HTTP2_ABUSE_REPEATED, (unsigned)units);
    }
}

void budget_on_settings(struct budget *budget)
{
    if (budget->frames_us > (FRAMES_PER_S - 1) * FRAME_US) {
        budget_spend(budget, HTTP2_ABUSE_SETTINGS, 1);
    } else {
        budget->frames_us += FRAME_US;
    }
}

/* Browsers set the priority of a stream again as its page is laid out. */
void budget_on_priority(struct budget *budget)
{
    if (budget->n_priorities > 0) {
        budget->n_priorities--;
    } else {
        budget_on_settings(budget);
    }
}

void budget_on_window_update(struct budget *budget, uint32_t increment)
{
    if (budget->n_windows > 0) {
        budget->n_windows--;
    } else if (increment < WINDOW_BYTES) {
        budget_spend(budget, HTTP2_ABUSE_WINDOW, 1);
    }
}

void budget_on_ping(struct budget *budget)
{
    if (budget->n_pings > 0) {
        budget->n_pings--;
    } else if (budget->moved >= BYTES_PER_PING) {
        budget->moved -= BYTES_PER_PING;
    } else {
        budget_spend(budget, HTTP2_ABUSE_PING, 1);
    }
}

void budget_on_data_sent(struct budget *budget, uint64_t bytes)
{
    budget->n_windows += WINDOWS_PER_DATA;
    budget->moved += bytes;
}

void budget_on_data(struct budget *budget, uint64_t bytes)
{
    budget->moved += bytes;
}
