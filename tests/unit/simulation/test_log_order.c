#include "simulation/log_order.h"

#include "unit/simulation/log_support.h"

static struct log_order order;
static struct log_blocks blocks;
static struct log_block *block;

static void set_up(void)
{
    ck_assert_int_eq(log_order_init(&order), STATUS_OK);
    block = calloc(1, sizeof(*block));
    ck_assert_ptr_nonnull(block);
    block->n_users = 1;
    blocks = (struct log_blocks){.n_used = 1};
}

static void tear_down(void)
{
    log_order_close(&order);
    ck_assert_uint_eq(block->n_users, 1); /* every line gave it back */
    log_block_release(&blocks, block);
    log_blocks_close(&blocks);
}

static bool add(uint64_t time_us)
{
    *log_order_next(&order) = (struct log_line){.time_us = time_us};
    return log_order_add(&order, block, &blocks);
}

static uint64_t take(void)
{
    struct log_entry *entry = log_order_take(&order);
    ck_assert_ptr_nonnull(entry);
    const uint64_t time_us = entry->line.time_us;
    log_order_release(&order, entry);
    return time_us;
}

START_TEST(the_earliest_comes_first_and_equals_in_their_order)
{
    for (uint64_t i = 0; i < 5; i++) {
        *log_order_next(&order) = (struct log_line){.time_us = 7, .status = (uint16_t)i};
        ck_assert(log_order_add(&order, block, &blocks));
    }
    ck_assert(add(3) && add(9) && add(5));
    ck_assert_uint_eq(take(), 3);
    ck_assert_uint_eq(take(), 5);
    for (uint64_t i = 0; i < 5; i++) {
        struct log_entry *entry = log_order_take(&order);
        ck_assert_uint_eq(entry->line.status, i);
        log_order_release(&order, entry);
    }
    ck_assert_uint_eq(take(), 9);
    ck_assert_ptr_null(log_order_take(&order));
}
END_TEST

START_TEST(what_is_too_late_comes_when_time_has_come_to)
{
    ck_assert(add(10) && add(20));
    ck_assert_uint_eq(take(), 10);
    ck_assert(!add(4));
    ck_assert(add(10));
    ck_assert_uint_eq(order.n_late, 1);
    ck_assert_uint_eq(order.late_us, 6);
    ck_assert_uint_eq(take(), 10);
    ck_assert_uint_eq(take(), 10);
    ck_assert_uint_eq(take(), 20);
}
END_TEST

START_TEST(many_times_its_lines_pass_in_order)
{
    uint64_t random = 1;
    uint64_t last = 0;
    for (unsigned i = 0; i < 4 * LOG_ORDER_LINES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (log_order_is_full(&order)) {
            const uint64_t time = take();
            ck_assert_uint_ge(time, last);
            last = time;
        }
        ck_assert(add(i + LOG_ORDER_LINES - (random >> 40) % (LOG_ORDER_LINES / 2)));
    }
    while (order.n > 0) {
        const uint64_t time = take();
        ck_assert_uint_ge(time, last);
        last = time;
    }
    ck_assert_uint_eq(order.n_late, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trial/log_order");
    TCase *all = tcase_create("order");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, the_earliest_comes_first_and_equals_in_their_order);
    tcase_add_test(all, what_is_too_late_comes_when_time_has_come_to);
    tcase_add_test(all, many_times_its_lines_pass_in_order);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
