#include "store/memory/memory_clock.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/log.h"

static const char MODULE[] = "store.memory";

enum {
    LOOK_US = 1000 * 1000,
    JITTER_US = 1000,       /* the clocks are read one after another: ignore smaller changes */
    LOGGED_US = 100 * 1000, /* the smallest step that is logged */
    US_PER_MS = 1000,
    MS_PER_S = 1000,
};

static void read_machine(void *context, struct clock_reading *reading)
{
    (void)context;
    clock_read(reading);
}

static struct clock_reading read_clocks(const struct memory_clock *clock)
{
    struct clock_reading reading;
    clock->read(clock->context, &reading);
    return reading;
}

static void set(_Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

void memory_clock_init(struct memory_clock *clock, memory_clock_read read, void *context)
{
    clock->read = read != NULL ? read : read_machine;
    clock->context = context;
    pthread_mutex_init(&clock->lock, NULL); /* a plain mutex: cannot fail on Linux */
    const struct clock_reading reading = read_clocks(clock);
    const uint64_t lead_us = reading.wall_us - reading.monotonic_us;
    clock->boot_lead_us = reading.wall_us - reading.boot_us;
    set(&clock->state_lead_us, lead_us);
    set(&clock->wall_lead_us, lead_us);
    set(&clock->due_us, reading.monotonic_us + LOOK_US);
}

void memory_clock_close(struct memory_clock *clock)
{
    pthread_mutex_destroy(&clock->lock);
}

uint64_t memory_clock_monotonic_us(const struct memory_clock *clock)
{
    return clock->read == read_machine ? clock_monotonic_us() : read_clocks(clock).monotonic_us;
}

/* The difference between @now_us and @lead_us; 0 if it is within jitter. */
static int64_t behind(const _Atomic uint64_t *lead_us, uint64_t now_us)
{
    const int64_t by_us = (int64_t)(now_us - atomic_load_explicit(lead_us, memory_order_relaxed));
    return by_us >= -JITTER_US && by_us <= JITTER_US ? 0 : by_us;
}

/* Returns the length of a suspension that has ended, or 0. The boot clock is never set. */
static int64_t follow_boot_clock(struct memory_clock *clock, const struct clock_reading *reading)
{
    const uint64_t lead_us = reading->boot_us + clock->boot_lead_us - reading->monotonic_us;
    const int64_t by_us = behind(&clock->state_lead_us, lead_us);
    if (by_us <= 0) {
        return 0;
    }
    set(&clock->state_lead_us, lead_us);
    if (by_us >= LOGGED_US) {
        log_info(MODULE, "the machine was suspended: that time has passed for limits too",
                 "for_s=%" PRId64, by_us / US_PER_MS / MS_PER_S);
    }
    return by_us;
}

/* Returns how far the wall clock has moved against the monotonic one. */
static int64_t follow_wall_clock(struct memory_clock *clock, const struct clock_reading *reading)
{
    const uint64_t lead_us = reading->wall_us - reading->monotonic_us;
    const int64_t by_us = behind(&clock->wall_lead_us, lead_us);
    if (by_us != 0) {
        set(&clock->wall_lead_us, lead_us);
    }
    return by_us;
}

/* The caller holds the lock. */
static void follow(struct memory_clock *clock)
{
    const struct clock_reading reading = read_clocks(clock);
    const int64_t suspended_us = follow_boot_clock(clock, &reading);
    const int64_t step_us = follow_wall_clock(clock, &reading) - suspended_us;
    set(&clock->due_us, reading.monotonic_us + LOOK_US);
    if (step_us > -LOGGED_US && step_us < LOGGED_US) {
        return;
    }
    const int64_t step_ms = (step_us < 0 ? -step_us : step_us) / US_PER_MS;
    log_warn(MODULE, "the wall clock was set: windows that start at its times follow it",
             "by_s=%s%" PRId64 ".%03" PRId64, step_us < 0 ? "-" : "", step_ms / MS_PER_S,
             step_ms % MS_PER_S);
}

void memory_clock_follow(struct memory_clock *clock)
{
    pthread_mutex_lock(&clock->lock);
    follow(clock);
    pthread_mutex_unlock(&clock->lock);
}

void memory_clock_refresh(struct memory_clock *clock)
{
    if (pthread_mutex_trylock(&clock->lock) == 0) {
        follow(clock);
        pthread_mutex_unlock(&clock->lock);
    }
}
