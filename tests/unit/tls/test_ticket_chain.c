#include "tls/ticket_keys.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { HOUR_S = 3600, HOUR = 500000 };

static struct ticket_chain chain;
static struct ticket_secrets found;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    chain = (struct ticket_chain)TICKET_CHAIN_INIT;
}

static bool read_at(uint32_t now, uint32_t hour)
{
    return ticket_chain_read(&chain, (int64_t)now * HOUR_S + 1800, hour, &found);
}

/* Whether the secret of @hour is @expected at @now. */
static bool is_same(uint32_t now, uint32_t hour, const struct ticket_secrets *expected)
{
    return read_at(now, hour) &&
           memcmp(found.secrets[0], expected->secrets[0], TICKET_SECRET_BYTES) == 0;
}

START_TEST(each_hour_has_a_secret_for_as_long_as_its_tickets_live)
{
    ck_assert(read_at(HOUR, HOUR));
    ck_assert_uint_eq(found.n, 1);
    const struct ticket_secrets first = found;
    ck_assert(is_same(HOUR - 1, HOUR, &first)); /* clocks of threads may differ */
    ck_assert(is_same(HOUR, HOUR, &first));
    ck_assert(is_same(HOUR + 1, HOUR, &first));
    ck_assert(!is_same(HOUR + 1, HOUR + 1, &first));
    ck_assert(is_same(HOUR + 2, HOUR, &first));
    ck_assert(!read_at(HOUR + 3, HOUR));
    ck_assert(read_at(HOUR + 3, HOUR + 3));
    ck_assert(read_at(HOUR + 3, HOUR + 4));
    ck_assert(!read_at(HOUR + 3, HOUR + 5));
}
END_TEST

START_TEST(what_is_kept_gives_no_secret_of_dead_tickets)
{
    ck_assert(read_at(HOUR, HOUR));
    const struct ticket_secrets first = found;
    ck_assert(read_at(HOUR + 3, HOUR + 3));
    ck_assert_uint_eq(chain.hour, HOUR + 1);
    ck_assert_mem_ne(chain.secret, first.secrets[0], TICKET_SECRET_BYTES);
    ck_assert(!read_at(HOUR + 1, HOUR)); /* the clock goes back by less than tickets live */
    ck_assert(read_at(HOUR + 1, HOUR + 1));
}
END_TEST

START_TEST(a_clock_that_is_set_begins_a_chain_anew)
{
    ck_assert(read_at(HOUR, HOUR));
    const struct ticket_secrets first = found;
    ck_assert(read_at(1, 1)); /* back by years */
    ck_assert(read_at(HOUR, HOUR));
    ck_assert(!is_same(HOUR, HOUR, &first));
    ck_assert(read_at(0, 0));
    ck_assert(read_at(UINT32_MAX / HOUR_S, UINT32_MAX / HOUR_S));
}
END_TEST

START_TEST(two_chains_have_nothing_in_common)
{
    ck_assert(read_at(HOUR, HOUR));
    const struct ticket_secrets first = found;
    chain = (struct ticket_chain)TICKET_CHAIN_INIT;
    ck_assert(!is_same(HOUR, HOUR, &first));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ticket_chain");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_test(all, each_hour_has_a_secret_for_as_long_as_its_tickets_live);
    tcase_add_test(all, what_is_kept_gives_no_secret_of_dead_tickets);
    tcase_add_test(all, a_clock_that_is_set_begins_a_chain_anew);
    tcase_add_test(all, two_chains_have_nothing_in_common);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
