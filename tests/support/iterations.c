#include "support/iterations.h"

#include <check.h>

enum { PATIENCE_US = 10 * 1000 * 1000 };

struct loop *iterations_new_loop(void)
{
    struct loop *loop = NULL;
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    return loop;
}

void iterations_once(struct loop *loop)
{
    ck_assert_int_eq(loop_iteration(loop, false), STATUS_OK);
}

/* A turn waits for something to be ready: the timer is there so that it comes. */
static void wait_for_events(struct loop *loop)
{
    ck_assert_int_eq(loop_iteration(loop, true), STATUS_OK);
}

static void set_flag(void *context)
{
    *(bool *)context = true;
}

struct counted {
    const unsigned *count;
    unsigned wanted;
};

static bool is_set(const void *context)
{
    return *(const bool *)context;
}

static bool is_reached(const void *context)
{
    const struct counted *counted = context;
    return *counted->count >= counted->wanted;
}

/* False: @us have passed first. */
static bool turn_until(struct loop *loop, bool (*holds)(const void *), const void *context,
                       uint64_t us)
{
    bool is_late = false;
    struct timer patience;
    timer_init(&patience, loop, set_flag, &is_late);
    timer_arm(&patience, us);
    while (!holds(context) && !is_late) {
        wait_for_events(loop);
    }
    timer_close(&patience);
    return holds(context);
}

void iterations_until(struct loop *loop, const bool *flag)
{
    ck_assert_msg(turn_until(loop, is_set, flag, PATIENCE_US), "waited in vain");
}

void iterations_until_count(struct loop *loop, const unsigned *count, unsigned wanted)
{
    const struct counted counted = {count, wanted};
    ck_assert_msg(turn_until(loop, is_reached, &counted, PATIENCE_US),
                  "waited in vain: %u of %u came", *count, wanted);
}

void iterations_for(struct loop *loop, uint64_t us)
{
    const bool never = false;
    ck_assert(!turn_until(loop, is_set, &never, us));
}
