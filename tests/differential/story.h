/* Stories to be played in C and in Lua: some limits with parameters up to the exact bound, a few
 * keys of each, and what happens to them.
 *
 * Costs run from none to the greatest; time stands still, creeps, stops just before and just when
 * something comes back, jumps ahead by years and steps back by less and by more than a second. Some
 * begin with a burst, and go on when a part of it has left the period. What was charged is
 * corrected, slots are renewed and given back, limits are shadows or count denied requests, the
 * policy raises and lowers them, and some requests are judged alone or denied by others. */

#ifndef SLUICE_TESTS_DIFFERENTIAL_STORY_H
#define SLUICE_TESTS_DIFFERENTIAL_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/limit.h"
#include "store/store.h"

enum {
    STORY_LIMITS = 5,
    STORY_POLICIES = 3,
    STORY_KEYS = 2,
    STORY_STEPS = 50,
    STORY_IDENTICAL = 12,
    STORY_KEY_BYTES = 48,
};

/* One decision, some alike, or one settlement of something that an earlier one charged. */
struct step {
    uint64_t now_us;
    const struct limit *limits; /* as the policy has them just then */
    bool settles;
    enum decision_aim aim;
    size_t n_charges;
    size_t key[STORY_LIMITS]; /* of each charge; its limit has the charge's number */
    uint32_t cost[STORY_LIMITS];
    uint64_t slot[STORY_LIMITS];
    uint64_t edges[STORY_LIMITS][LIMIT_EDGES];
    size_t
        batch_size; /* requests that this step decides, one after another: one call of the script */
    struct verdict expected[STORY_IDENTICAL][STORY_LIMITS];
    bool allowed[STORY_IDENTICAL];
    uint64_t charged_at_us[STORY_LIMITS]; /* of the first request */
    size_t of;                            /* settles: the number of the limit, its key is key[0] */
    struct settlement settlement;
    bool is_gone; /* it is to renew a slot that the script does not renew */
};

struct story {
    struct limit limits[STORY_POLICIES][STORY_LIMITS]; /* the first, and after a change */
    size_t n_limits;
    uint32_t burst_cost; /* the greatest of a request of the burst that may begin it */
    char keys[STORY_LIMITS][STORY_KEYS][STORY_KEY_BYTES];
    struct step steps[STORY_STEPS];
};

struct tally {
    uint64_t n_decisions;
    uint64_t n_allowed;
    uint64_t n_never;
    uint64_t n_settled;
    uint64_t batch_size; /* of the decisions, those that had others alike beside them */
    uint64_t n_back;     /* steps back by a second or less */
    uint64_t n_followed; /* by more */
    uint64_t n_slow;     /* stories told in vain */
};

/* Tell the story of this @number, of @only or of all algorithms, and what
 * the C says to each step. */
void story_make(struct story *story, const struct algorithm *only, uint64_t number,
                struct tally *tally);

#endif /* SLUICE_TESTS_DIFFERENTIAL_STORY_H */
