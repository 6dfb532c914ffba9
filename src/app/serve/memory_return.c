#include "app/serve/memory_return.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"

enum {
    MUCH_BYTES = 64 * 1024 * 1024,
    STATM_BYTES = 128,
    MIB = 1024 * 1024,
    US_PER_MS = 1000,
};

/* 0: unknown. */
static uint64_t read_resident(void)
{
    char text[STATM_BYTES];
    struct span piece;
    uint64_t n_pages = 0;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
    if (fd >= 0) {
        close(fd);
    }
    struct span rest = span_of(text, n > 0 ? (size_t)n : 0);
    const bool is_read = span_split(&rest, ' ', &piece) && span_split(&rest, ' ', &piece) &&
                         span_to_u64(piece, UINT32_MAX, &n_pages);
    return is_read ? n_pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static bool has_grown(const struct memory_return *state, uint64_t resident)
{
    return resident >= state->kept + MUCH_BYTES;
}

bool memory_return_is_worth(const struct memory_return *state, const struct memory_use *use)
{
    return has_grown(state, use->resident) && use->free >= MUCH_BYTES && use->free > use->taken;
}

static void return_memory(struct memory_return *state, const struct memory_use *use,
                          uint64_t now_us)
{
    malloc_trim(0);
    state->kept = read_resident();
    log_info("app.run", "memory was returned to the system",
             "before_mib=%llu after_mib=%llu ms=%llu", (unsigned long long)(use->resident / MIB),
             (unsigned long long)(state->kept / MIB),
             (unsigned long long)((clock_monotonic_us() - now_us) / US_PER_MS));
}

void memory_return_check(struct memory_return *state, uint64_t now_us)
{
    if (now_us < state->due_us) {
        return;
    }
    state->due_us = now_us + MEMORY_RETURN_PERIOD_US;
    struct memory_use use = {.resident = read_resident()};
    if (state->kept == 0 || use.resident < state->kept) {
        state->kept = use.resident;
    }
    if (!has_grown(state, use.resident)) {
        return; /* mallinfo2() takes the locks of the arenas, too */
    }
    const struct mallinfo2 info = mallinfo2();
    use.taken = info.uordblks;
    use.free = info.fordblks;
    if (memory_return_is_worth(state, &use)) {
        return_memory(state, &use, now_us);
    }
}

uint64_t memory_return_patience_us(const struct memory_return *state, uint64_t now_us)
{
    return state->due_us > now_us ? state->due_us - now_us : 0;
}
