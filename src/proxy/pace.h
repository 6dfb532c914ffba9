/* Whether somebody who is waited for moves bytes fast enough. Whoever must send or take a
 * body at a rate is given time in advance, earns more with each byte, and uses it up
 * while he lets others wait.
 *
 * Pure: the clock (monotonic) is an argument. Looked at now and then, not with each byte. */

#ifndef SLUICE_PROXY_PACE_H
#define SLUICE_PROXY_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace_rule {
    uint64_t bytes_per_s; /* 0: there is no least rate */
    uint64_t first_us;    /* what is given in advance */
    uint64_t most_us;     /* a look leaves nobody more than this, however fast he was before it */
};

/* All zero to begin with. */
struct pace {
    uint64_t since_us;   /* when the wait that goes on began; 0: nobody waits */
    uint64_t waited_us;  /* since the last look, but for that one */
    uint64_t left_us;    /* that may still be waited, as of the last look */
    uint64_t seen_bytes; /* in all, by the last look */
    uint64_t looked_us;  /* when that was; 0: there was none */
    uint64_t total_us;   /* waited in all, but for the wait that goes on */
};

/* From now he is waited for, or no more. What is so already stays so. */
void pace_begin_wait(struct pace *pace, uint64_t now_us);
void pace_end_wait(struct pace *pace, uint64_t now_us);

/* Whether the last look is @every_us ago, or there was none. Waits that are each shorter than that
 * are not to stay unseen: ask when one begins or ends. */
bool pace_is_due(const struct pace *pace, uint64_t every_us, uint64_t now_us);

/* How long it was waited in all. */
uint64_t pace_total_us(const struct pace *pace, uint64_t now_us);

/* Take a look: @n_bytes have moved in all. What moved since the last look pays for all that was
 * waited since, which came first is not known: a burst pays for the waits that follow it until the
 * next look, and not beyond most_us for those after that. */
bool pace_is_too_slow(struct pace *pace, const struct pace_rule *rule, uint64_t n_bytes,
                      uint64_t now_us);

#endif /* SLUICE_PROXY_PACE_H */
