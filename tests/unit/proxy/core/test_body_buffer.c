#include "proxy/core/body_buffer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "proxy/core/proxy_env.h"
#include "proxy/meters.h"
#include "support/iterations.h"

enum {
    N_BLOCKS = 32, /* of all buffers */
    SHARE = N_BLOCKS / BODY_BUFFER_SHARES,
    MAX = N_BLOCKS * SMALL_BLOCK_BYTES,
};

static struct body_budget budget;
static struct meters *meters;
static struct proxy_env env;
static struct body_buffer buffers[N_BLOCKS + 2];
static const char BYTES[SMALL_BLOCK_BYTES];
static unsigned n_served;
static struct body_buffer *served[N_BLOCKS];

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(meters_new(0, &meters), STATUS_OK);
    env = (struct proxy_env){.loop = iterations_new_loop(), .meters = meters_of_worker(meters, 0)};
    body_budget_init(&budget);
    body_buffers_init(&env.body_buffers, &budget, &env.meters->buffered_bytes, env.loop);
    env.body_buffers.max_bytes = MAX;
    n_served = 0;
}

/* All buffers are closed: nothing is counted any more. */
static void tear_down(void)
{
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), 0);
    body_buffers_close(&env.body_buffers);
    body_budget_close(&budget);
    loop_free(env.loop);
    meters_free(meters);
}

static void on_room(struct body_buffer *buffer)
{
    served[n_served++] = buffer;
}

/* A buffer for @room_bytes of @client; NULL: of a client that is not known. */
static struct body_buffer *open_buffer(unsigned i, const char *client, uint64_t room_bytes)
{
    struct body_buffer *buffer = &buffers[i];
    *buffer = (struct body_buffer){
        .buffers = &env.body_buffers, .room_bytes = room_bytes, .on_room = on_room};
    if (client != NULL) {
        ck_assert(address_parse(span_of_text(client), &buffer->client));
    }
    body_buffer_open(buffer);
    return buffer;
}

static void fill(struct body_buffer *buffer, unsigned n_blocks)
{
    for (unsigned i = 0; i < n_blocks; i++) {
        ck_assert_uint_eq(body_buffer_room(buffer), SMALL_BLOCK_BYTES);
        body_buffer_add(buffer, span_of(BYTES, SMALL_BLOCK_BYTES));
    }
}

START_TEST(bytes_go_out_in_their_order_and_their_blocks_come_back)
{
    struct body_buffer *buffer = open_buffer(0, "192.0.2.1", SMALL_BLOCK_BYTES + 3);
    struct span pieces[3];
    ck_assert(body_buffer_is_empty(buffer));
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 3), 0);
    ck_assert_uint_eq(body_buffer_room(buffer), SMALL_BLOCK_BYTES);
    body_buffer_add(buffer, SPAN("ab"));
    ck_assert_uint_eq(body_buffer_room(buffer), SMALL_BLOCK_BYTES - 2);
    body_buffer_add(buffer, span_of(BYTES, SMALL_BLOCK_BYTES - 2));
    ck_assert_uint_eq(body_buffer_room(buffer), 3);
    body_buffer_add(buffer, SPAN("xyz"));
    ck_assert_uint_eq(body_buffer_room(buffer), 0);
    ck_assert(!body_buffer_is_waiting(buffer));
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), 2 * SMALL_BLOCK_BYTES);
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 1), 1);
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 3), 2);
    ck_assert_uint_eq(pieces[0].len, SMALL_BLOCK_BYTES);
    ck_assert_int_eq(memcmp(pieces[0].data, "ab", 2), 0);
    ck_assert(span_equals(pieces[1], SPAN("xyz")));
    body_buffer_pass(buffer);
    body_buffer_drop_passed(buffer);
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 3), 1);
    ck_assert(span_equals(pieces[0], SPAN("xyz")));
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), SMALL_BLOCK_BYTES);
    body_buffer_close(buffer);
}
END_TEST

START_TEST(a_block_in_which_nothing_has_come_is_returned)
{
    struct body_buffer *buffer = open_buffer(0, NULL, MAX);
    ck_assert_uint_gt(body_buffer_room(buffer), 0);
    body_buffer_trim(buffer);
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), 0);
    ck_assert_uint_gt(body_buffer_room(buffer), 0);
    body_buffer_add(buffer, SPAN("x"));
    body_buffer_trim(buffer);
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), SMALL_BLOCK_BYTES);
    body_buffer_close(buffer);
}
END_TEST

START_TEST(a_client_has_an_eighth_and_others_do_not_wait_behind_it)
{
    struct body_buffer *one = open_buffer(0, "2001:db8:1:2::1", MAX);
    struct body_buffer *same = open_buffer(1, "2001:db8:1:2::2", MAX);
    struct body_buffer *other = open_buffer(2, "2001:db8:2::1", MAX);
    fill(one, SHARE);
    ck_assert_uint_eq(body_buffer_room(same), 0);
    ck_assert(body_buffer_is_waiting(same));
    ck_assert_int_eq(same->lack, BODY_BUFFER_SHARE);
    fill(other, SHARE); /* at once */
    body_buffer_pass(one);
    body_buffer_drop_passed(one);
    iterations_until_count(env.loop, &n_served, 1);
    ck_assert_ptr_eq(served[0], same);
    ck_assert(!body_buffer_is_waiting(same));
    ck_assert_uint_eq(body_buffer_room(same), SMALL_BLOCK_BYTES);
    body_buffer_close(one);
    body_buffer_close(same);
    body_buffer_close(other);
}
END_TEST

START_TEST(clients_leave_blocks_to_others_when_few_are_free)
{
    char name[] = "192.0.2.0";
    unsigned n_left = N_BLOCKS;
    for (unsigned i = 0; n_left > 0; i++) {
        name[sizeof(name) - 2] = (char)('0' + i);
        struct body_buffer *buffer = open_buffer(i, name, MAX);
        const unsigned n = i < 7 ? SHARE : (n_left + 1) / 2;
        fill(buffer, n);
        n_left -= n;
        ck_assert_uint_eq(body_buffer_room(buffer), 0);
        ck_assert_int_eq(buffer->lack, n_left > 0 ? BODY_BUFFER_SHARE : BODY_BUFFER_FULL);
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (buffers[i].buffers != NULL) {
            body_buffer_close(&buffers[i]);
        }
    }
}
END_TEST

START_TEST(a_share_goes_to_the_oldest_buffer_of_its_client)
{
    struct body_buffer *one = open_buffer(0, "2001:db8:1::", MAX);
    struct body_buffer *older = open_buffer(1, "2001:db8:1::", MAX);
    struct body_buffer *later = open_buffer(2, "2001:db8:1::", MAX);
    fill(one, SHARE);
    ck_assert_uint_eq(body_buffer_room(older), 0);
    body_buffer_pass(one);
    body_buffer_drop_passed(one);
    ck_assert_uint_eq(body_buffer_room(later), 0);
    ck_assert_int_eq(later->lack, BODY_BUFFER_SHARE);
    iterations_until_count(env.loop, &n_served, 1);
    ck_assert_ptr_eq(served[0], older);
    ck_assert(body_buffer_is_waiting(later));
    body_buffer_close(one);
    body_buffer_close(older);
    body_buffer_close(later);
}
END_TEST

START_TEST(all_buffers_together_have_no_more_and_the_oldest_waits_least)
{
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        fill(open_buffer(i, NULL, MAX), 1);
    }
    struct body_buffer *first = open_buffer(N_BLOCKS, NULL, MAX);
    struct body_buffer *second = open_buffer(N_BLOCKS + 1, "192.0.2.1", MAX);
    ck_assert_uint_eq(body_buffer_room(first), 0);
    ck_assert_int_eq(first->lack, BODY_BUFFER_FULL);
    ck_assert_uint_eq(body_buffer_room(second), 0);
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), MAX);
    body_buffer_close(&buffers[0]);
    iterations_until_count(env.loop, &n_served, 1);
    ck_assert_ptr_eq(served[0], first);
    ck_assert(body_buffer_is_waiting(second));
    body_buffer_close(second); /* waits no longer */
    for (unsigned i = 1; i <= N_BLOCKS; i++) {
        body_buffer_close(&buffers[i]);
    }
}
END_TEST

START_TEST(clients_that_wait_are_served_in_turn)
{
    for (unsigned i = 0; i < N_BLOCKS - 5; i++) {
        fill(open_buffer(i, NULL, MAX), 1);
    }
    struct body_buffer *full = open_buffer(N_BLOCKS - 5, NULL, MAX);
    struct body_buffer *many[3];
    fill(full, 5);
    for (unsigned i = 0; i < 3; i++) {
        many[i] = open_buffer(N_BLOCKS - 4 + i, "192.0.2.1", MAX);
        ck_assert_uint_eq(body_buffer_room(many[i]), 0);
    }
    struct body_buffer *other = open_buffer(N_BLOCKS - 1, "192.0.2.2", MAX);
    ck_assert_uint_eq(body_buffer_room(other), 0);
    body_buffer_pass_all(full);
    body_buffer_drop_passed(full);
    iterations_until_count(env.loop, &n_served, 3);
    ck_assert_ptr_eq(served[0], many[0]);
    ck_assert_ptr_eq(served[1], other);
    ck_assert_ptr_eq(served[2], many[1]);
    ck_assert(body_buffer_is_waiting(many[2]));
    body_buffer_close(other);
    for (unsigned i = 0; i < N_BLOCKS - 1; i++) {
        body_buffer_close(&buffers[i]);
    }
}
END_TEST

START_TEST(those_that_wait_have_room_when_there_may_be_more)
{
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        fill(open_buffer(i, NULL, MAX), 1);
    }
    struct body_buffer *waiting = open_buffer(N_BLOCKS, NULL, MAX);
    ck_assert_uint_eq(body_buffer_room(waiting), 0);
    env.body_buffers.max_bytes = 2 * MAX; /* a reload */
    iterations_until_count(env.loop, &n_served, 1);
    ck_assert_ptr_eq(served[0], waiting);
    for (unsigned i = 0; i <= N_BLOCKS; i++) {
        body_buffer_close(&buffers[i]);
    }
}
END_TEST

START_TEST(bytes_that_were_passed_on_can_be_passed_on_again)
{
    struct body_buffer *buffer = open_buffer(0, NULL, MAX);
    struct span pieces[4];
    fill(buffer, 2);
    body_buffer_pass(buffer);
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 4), 1);
    body_buffer_pass(buffer);
    ck_assert(body_buffer_is_passed(buffer));
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 4), 0);
    ck_assert_uint_eq(body_buffer_spare_room(buffer), SMALL_BLOCK_BYTES);
    body_buffer_add(buffer, SPAN("xyz"));
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 4), 1);
    body_buffer_pass_all(buffer);
    body_buffer_rewind(buffer);
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 4), 3);
    ck_assert(span_equals(pieces[2], SPAN("xyz")));
    body_buffer_pass(buffer);
    body_buffer_drop_passed(buffer);
    ck_assert_int_eq(body_buffer_front(buffer, pieces, 4), 2);
    ck_assert_uint_eq(counter_read(&env.meters->buffered_bytes), 2 * SMALL_BLOCK_BYTES);
    body_buffer_close(buffer);
}
END_TEST

START_TEST(spare_blocks_are_half_of_all_and_none_is_waited_for)
{
    struct body_buffer *spare = open_buffer(0, NULL, MAX);
    for (unsigned i = 0; i < N_BLOCKS / 2; i++) {
        ck_assert(body_buffer_may_stay(spare));
        ck_assert_uint_eq(body_buffer_spare_room(spare), SMALL_BLOCK_BYTES);
        body_buffer_add(spare, span_of(BYTES, SMALL_BLOCK_BYTES));
    }
    ck_assert(body_buffer_may_stay(spare));
    ck_assert_uint_eq(body_buffer_spare_room(spare), 0);
    ck_assert(!body_buffer_is_waiting(spare));
    struct body_buffer *other = open_buffer(1, NULL, MAX);
    fill(other, N_BLOCKS / 2);
    ck_assert(!body_buffer_may_stay(spare));
    body_buffer_close(spare);
    body_buffer_close(other);
}
END_TEST

START_TEST(spare_blocks_of_a_client_are_half_of_its_share_and_no_other_client_s_matter)
{
    struct body_buffer *spare = open_buffer(0, "2001:db8:1:2::1", MAX);
    struct body_buffer *same = open_buffer(1, "2001:db8:1:2::2", MAX);
    for (unsigned i = 0; i < SHARE / 2; i++) {
        ck_assert_uint_eq(body_buffer_spare_room(spare), SMALL_BLOCK_BYTES);
        body_buffer_add(spare, span_of(BYTES, SMALL_BLOCK_BYTES));
    }
    ck_assert_uint_eq(body_buffer_spare_room(spare), 0);
    ck_assert(body_buffer_may_stay(spare));
    fill(same, SHARE - SHARE / 2);
    ck_assert(!body_buffer_may_stay(spare));
    ck_assert_uint_eq(body_buffer_room(same), 0); /* it waits */
    struct body_buffer *other = open_buffer(2, "2001:db8:2::1", MAX);
    ck_assert_uint_eq(body_buffer_spare_room(other), SMALL_BLOCK_BYTES);
    ck_assert(body_buffer_may_stay(other));
    body_buffer_close(same);
    body_buffer_close(spare);
    body_buffer_close(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("body_buffer");
    TCase *tests = tcase_create("body_buffer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, bytes_go_out_in_their_order_and_their_blocks_come_back);
    tcase_add_test(tests, a_block_in_which_nothing_has_come_is_returned);
    tcase_add_test(tests, a_client_has_an_eighth_and_others_do_not_wait_behind_it);
    tcase_add_test(tests, clients_leave_blocks_to_others_when_few_are_free);
    tcase_add_test(tests, a_share_goes_to_the_oldest_buffer_of_its_client);
    tcase_add_test(tests, all_buffers_together_have_no_more_and_the_oldest_waits_least);
    tcase_add_test(tests, clients_that_wait_are_served_in_turn);
    tcase_add_test(tests, those_that_wait_have_room_when_there_may_be_more);
    tcase_add_test(tests, bytes_that_were_passed_on_can_be_passed_on_again);
    tcase_add_test(tests, spare_blocks_are_half_of_all_and_none_is_waited_for);
    tcase_add_test(tests,
                   spare_blocks_of_a_client_are_half_of_its_share_and_no_other_client_s_matter);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
