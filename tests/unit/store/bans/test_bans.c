/* Bans in memory: who is found, until when, and what readers see while others change them. */

#include "store/bans.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/compiler.h"
#include "base/text.h"

enum {
    NOW_US = 1000 * 1000,
    HOUR_MS = 3600 * 1000,
};

static const uint64_t HOUR_US = UINT64_C(1000) * HOUR_MS;
static const struct span SECRET = {"secret", 6};

static struct bans *bans;
static struct bans_view view;

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    ck_assert_int_eq(bans_new(4, &bans), STATUS_OK);
    bans_view_init(&view, bans);
}

static void teardown(void)
{
    bans_view_close(&view);
    bans_free(bans);
}

static struct ban ban_of(enum ban_kind kind, const char *limit, const char *identity)
{
    struct ban ban = {
        .kind = kind,
        .limit = span_of_text(limit),
        .identity = span_of_text(identity),
        .until_ms = HOUR_MS,
        .by = SPAN("alice"),
        .reason = SPAN("a test"),
    };
    hash_identity(SECRET, ban.identity, ban.hash);
    return ban;
}

static void put(const struct ban *ban)
{
    ck_assert_int_eq(bans_put(bans, ban, NOW_US + HOUR_US, NOW_US), STATUS_OK);
}

static bool finds(const char *limit, const char *identity, uint64_t now_us, struct ban_found *found)
{
    return bans_view_if_any(&view) != NULL &&
           bans_view_find(&view, span_of_text(limit), span_of_text(identity), SECRET, now_us,
                          found);
}

static bool holds(const char *limit, const char *identity, enum ban_kind wanted)
{
    struct ban_found found;
    return finds(limit, identity, NOW_US, &found) && found.kind == wanted;
}

START_TEST(without_any_there_is_nothing_to_look_in)
{
    ck_assert_ptr_null(bans_view_if_any(&view));
    const struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    put(&ban);
    ck_assert_ptr_nonnull(bans_view_if_any(&view));
    ck_assert(bans_remove(bans, &ban));
    ck_assert_ptr_null(bans_view_if_any(&view));
}
END_TEST

START_TEST(a_ban_is_of_one_limit_and_one_identity)
{
    const struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    put(&ban);
    ck_assert(holds("a", "{x}", BAN_REFUSES));
    ck_assert(!holds("a", "{y}", BAN_REFUSES));
    ck_assert(!holds("b", "{x}", BAN_REFUSES));
    ck_assert(!holds("a{x}", "", BAN_REFUSES));
}
END_TEST

START_TEST(whose_hash_alone_is_known_is_found_too)
{
    struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    ban.identity = SPAN("");
    put(&ban);
    ck_assert(holds("a", "{x}", BAN_REFUSES));
    ck_assert(!holds("a", "{y}", BAN_REFUSES));
}
END_TEST

START_TEST(a_prefix_is_of_all_addresses_in_it_and_the_longest_counts)
{
    const struct ban net = ban_of(BAN_EXEMPTS, "a", "{client.ip:10=10.0.0.0/8}");
    const struct ban part = ban_of(BAN_REFUSES, "a", "{client.ip:11=10.1.0.0/16}");
    const struct ban one = ban_of(BAN_EXEMPTS, "a", "{client.ip:8=10.1.2.3}");
    const struct ban ipv6 = ban_of(BAN_REFUSES, "a", "{client.ip:13=2001:db8::/33}");
    put(&net);
    put(&part);
    put(&one);
    put(&ipv6);
    ck_assert(holds("a", "{client.ip:8=10.9.9.9}", BAN_EXEMPTS));
    ck_assert(holds("a", "{client.ip:8=10.1.2.4}", BAN_REFUSES));
    ck_assert(holds("a", "{client.ip:8=10.1.2.3}", BAN_EXEMPTS));
    ck_assert(holds("a", "{client.ip:20=2001:db8:7fff:ffff::}", BAN_REFUSES));
    ck_assert(!holds("a", "{client.ip:15=2001:db8:8000::}", BAN_REFUSES));
    ck_assert(!holds("a", "{client.ip:8=11.1.2.3}", BAN_EXEMPTS));
    ck_assert(!holds("b", "{client.ip:8=10.9.9.9}", BAN_EXEMPTS));
    ck_assert(!holds("a", "{client.ip:8=10.9.9.9},method:3=GET", BAN_EXEMPTS));
    ck_assert(!holds("a", "{path:8=10.9.9.9}", BAN_EXEMPTS));
    ck_assert(!holds("a", "", BAN_EXEMPTS));
    ck_assert(bans_remove(bans, &one));
    ck_assert(holds("a", "{client.ip:8=10.1.2.3}", BAN_REFUSES));
    ck_assert(bans_remove(bans, &part));
    ck_assert(holds("a", "{client.ip:8=10.1.2.3}", BAN_EXEMPTS));
}
END_TEST

/* The key client.ip/48 has prefixes as its identities: one is banned as itself. */
START_TEST(a_key_by_prefixes_is_found_itself_and_by_shorter_ones)
{
    const struct ban one = ban_of(BAN_REFUSES, "a", "{client.ip:15=2001:db8:1::/48}");
    const struct ban net = ban_of(BAN_EXEMPTS, "a", "{client.ip:13=2001:db8::/33}");
    const struct ban longer = ban_of(BAN_EXEMPTS, "a", "{client.ip:15=2001:db8:1::/56}");
    put(&one);
    put(&net);
    put(&longer);
    ck_assert(holds("a", "{client.ip:15=2001:db8:1::/48}", BAN_REFUSES));
    ck_assert(holds("a", "{client.ip:15=2001:db8:2::/48}", BAN_EXEMPTS));
    ck_assert(bans_remove(bans, &one));
    ck_assert(holds("a", "{client.ip:15=2001:db8:1::/48}", BAN_EXEMPTS));
    ck_assert(bans_remove(bans, &net));
    ck_assert(!holds("a", "{client.ip:15=2001:db8:1::/48}", BAN_EXEMPTS));
}
END_TEST

START_TEST(all_lengths_of_prefixes_are_found)
{
    bans_set_max(bans, 256);
    for (unsigned i = 0; i < 160; i++) {
        char identity[64];
        const unsigned bits = i < 32 ? i : i - 32;
        (void)snprintf(identity, sizeof(identity),
                       i < 32 ? "{client.ip:9=0.0.0.0/%u}" : "{client.ip:4=::/%u}", bits);
        const struct ban ban = ban_of(BAN_REFUSES, "a", identity);
        const char *whom = i < 32 ? "{client.ip:7=0.0.0.0}" : "{client.ip:2=::}";
        ck_assert(!holds("a", whom, BAN_REFUSES));
        put(&ban);
        ck_assert_msg(holds("a", whom, BAN_REFUSES), "%s", identity);
        ck_assert(bans_remove(bans, &ban));
    }
}
END_TEST

static void take_reason(void *context, const struct ban *ban, uint64_t left_us)
{
    *(struct span *)context = ban->identity;
    ck_assert_uint_eq(left_us, HOUR_US);
}

START_TEST(an_entry_is_found_by_its_hash_or_by_the_longest_prefix)
{
    const struct ban net = ban_of(BAN_EXEMPTS, "a", "{client.ip:10=10.0.0.0/8}");
    const struct ban part = ban_of(BAN_REFUSES, "a", "{client.ip:11=10.1.0.0/16}");
    const struct ban one = ban_of(BAN_EXEMPTS, "a", "{client.ip:8=10.1.2.3}");
    struct span found;
    put(&part);
    put(&net);
    ck_assert(bans_find(bans, one.limit, one.hash, one.identity, NOW_US, take_reason, &found));
    ck_assert(span_equals(found, part.identity));
    ck_assert(!bans_find(bans, one.limit, one.hash, SPAN(""), NOW_US, take_reason, &found));
    put(&one);
    ck_assert(bans_find(bans, one.limit, one.hash, SPAN(""), NOW_US, take_reason, &found));
    ck_assert(span_equals(found, one.identity));
    ck_assert(!bans_find(bans, SPAN("b"), one.hash, one.identity, NOW_US, take_reason, &found));
}
END_TEST

START_TEST(it_ends_by_itself)
{
    const struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    struct ban_found found;
    put(&ban);
    ck_assert(finds("a", "{x}", NOW_US + 1, &found));
    ck_assert_uint_eq(found.left_us, HOUR_US - 1);
    ck_assert(!finds("a", "{x}", NOW_US + HOUR_US, &found));
    bans_expire(bans, NOW_US + HOUR_US);
    ck_assert_ptr_null(bans_view_if_any(&view));
    ck_assert_uint_eq(bans_count(bans).n, 0);
}
END_TEST

START_TEST(a_key_has_a_ban_or_an_exemption_and_the_later_one_counts)
{
    struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    put(&ban);
    ban.kind = BAN_EXEMPTS;
    put(&ban);
    ck_assert(holds("a", "{x}", BAN_EXEMPTS));
    ck_assert_uint_eq(bans_count(bans).n, 1);
    ban.kind = BAN_REFUSES;
    ck_assert(!bans_remove(bans, &ban));
    ban.kind = BAN_EXEMPTS;
    ck_assert(bans_remove(bans, &ban));
    ck_assert_uint_eq(bans_count(bans).n, 0);
}
END_TEST

START_TEST(what_is_told_again_as_it_was_keeps_its_end)
{
    struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    struct ban_found found;
    put(&ban);
    ck_assert_int_eq(bans_put(bans, &ban, NOW_US + 2 * HOUR_US, NOW_US), STATUS_OK);
    ck_assert(finds("a", "{x}", NOW_US, &found));
    ck_assert_uint_eq(found.left_us, HOUR_US);
    ban.until_ms++;
    ck_assert_int_eq(bans_put(bans, &ban, NOW_US + 2 * HOUR_US, NOW_US), STATUS_OK);
    ck_assert(finds("a", "{x}", NOW_US, &found));
    ck_assert_uint_eq(found.left_us, 2 * HOUR_US);
}
END_TEST

START_TEST(no_more_than_the_maximum_are_held_and_those_that_ended_make_room)
{
    static const char *const KEYS[] = {"{1}", "{2}", "{3}", "{4}"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const struct ban ban = ban_of(BAN_REFUSES, "a", KEYS[i]);
        put(&ban);
    }
    const struct ban more = ban_of(BAN_REFUSES, "a", "{5}");
    ck_assert_int_eq(bans_put(bans, &more, NOW_US + HOUR_US, NOW_US), STATUS_FULL);
    const struct ban again = ban_of(BAN_EXEMPTS, "a", "{1}");
    put(&again);
    bans_set_max(bans, 5);
    put(&more);
    bans_set_max(bans, 4);
    const struct ban later = ban_of(BAN_REFUSES, "a", "{6}");
    ck_assert_int_eq(bans_put(bans, &later, NOW_US + 2 * HOUR_US, NOW_US + HOUR_US), STATUS_OK);
    ck_assert_uint_eq(bans_count(bans).n, 1);
}
END_TEST

START_TEST(what_has_ended_does_not_hold_though_nothing_was_told_since)
{
    const struct ban ban = ban_of(BAN_REFUSES, "a", "{1}");
    put(&ban);
    ck_assert_uint_eq(bans_count_holding(bans, NOW_US), 1);
    ck_assert_uint_eq(bans_count_holding(bans, NOW_US + HOUR_US), 0);
}
END_TEST

static void count(void *context, const struct ban *ban, uint64_t left_us)
{
    unsigned *n = context;
    ck_assert(span_equals(ban->by, SPAN("alice")));
    ck_assert(span_equals(ban->reason, SPAN("a test")));
    ck_assert_uint_eq(left_us, HOUR_US);
    (*n)++;
}

START_TEST(all_that_hold_are_listed)
{
    unsigned n = 0;
    const struct ban a = ban_of(BAN_REFUSES, "a", "{x}");
    const struct ban b = ban_of(BAN_EXEMPTS, "b", "{x}");
    put(&a);
    put(&b);
    bans_list(bans, NOW_US, count, &n);
    ck_assert_uint_eq(n, 2);
    bans_list(bans, NOW_US + HOUR_US, count, &n);
    ck_assert_uint_eq(n, 2);
}
END_TEST

/* As when the secret has changed: one identity, two hashes. */
START_TEST(of_two_of_one_identity_either_holds_by_itself)
{
    const struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    struct ban other = ban;
    other.hash[0] ^= 1;
    put(&ban);
    put(&other);
    ck_assert(bans_remove(bans, &ban));
    ck_assert(holds("a", "{x}", BAN_REFUSES));
    put(&ban);
    ck_assert(bans_remove(bans, &other));
    ck_assert(holds("a", "{x}", BAN_REFUSES));
    ck_assert(bans_remove(bans, &ban));
    ck_assert(!holds("a", "{x}", BAN_REFUSES));
}
END_TEST

START_TEST(an_identity_that_becomes_known_or_unknown_is_found_all_the_same)
{
    struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    const struct span identity = ban.identity;
    for (unsigned i = 0; i < 10; i++) {
        ban.identity = i % 2 == 0 ? identity : SPAN("");
        put(&ban);
        ck_assert(holds("a", "{x}", BAN_REFUSES));
    }
    ck_assert_uint_eq(bans_count(bans).n, 1);
    ck_assert(bans_remove(bans, &ban));
    ck_assert(!holds("a", "{x}", BAN_REFUSES));
}
END_TEST

/* --- threads --- */

enum {
    N_READERS = 2,
    N_CHANGES = 200,
};

static atomic_bool is_over;

START_TEST(who_has_set_a_ban_is_found_with_it)
{
    struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    struct ban exemption = ban_of(BAN_EXEMPTS, "a", "{y}");
    struct ban_found found;
    put(&ban);
    ck_assert(finds("a", "{x}", NOW_US, &found) && !found.is_by_policy);
    ban.by = SPAN(BAN_BY_POLICY);
    put(&ban);
    ck_assert(finds("a", "{x}", NOW_US, &found) && found.is_by_policy);
    exemption.by = SPAN(BAN_BY_POLICY);
    put(&exemption);
    ck_assert(finds("a", "{y}", NOW_US, &found) && !found.is_by_policy);
}
END_TEST

static void *read_all_the_time(void *unused)
{
    struct bans_view own;
    uintptr_t n_found = 0;
    (void)unused;
    bans_view_init(&own, bans);
    do {
        struct ban_found found;
        n_found += bans_view_if_any(&own) != NULL &&
                   bans_view_find(&own, SPAN("a"), SPAN("{x}"), SECRET, NOW_US, &found);
    } while (!atomic_load(&is_over));
    bans_view_close(&own);
    return (void *)n_found; /* NOLINT(performance-no-int-to-ptr) */
}

START_TEST(readers_look_while_others_change_and_list)
{
    pthread_t readers[N_READERS];
    const struct ban ban = ban_of(BAN_REFUSES, "a", "{x}");
    const struct ban other = ban_of(BAN_REFUSES, "a", "{y}");
    atomic_store(&is_over, false);
    put(&other);
    for (size_t i = 0; i < N_READERS; i++) {
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_all_the_time, NULL), 0);
    }
    for (unsigned i = 0; i < N_CHANGES; i++) {
        unsigned n = 0;
        put(&ban);
        bans_list(bans, NOW_US, count, &n);
        ck_assert_uint_eq(n, 2);
        ck_assert(bans_remove(bans, &ban));
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < N_READERS; i++) {
        pthread_join(readers[i], NULL);
    }
    ck_assert(!holds("a", "{x}", BAN_REFUSES));
    ck_assert(holds("a", "{y}", BAN_REFUSES));
}
END_TEST

START_TEST(ten_thousand_are_found_each)
{
    char name[32];
    bans_set_max(bans, 10000);
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "{%u}", i);
        const struct ban ban = ban_of(i % 2 == 0 ? BAN_REFUSES : BAN_EXEMPTS, "a", name);
        ck_assert_int_eq(bans_put(bans, &ban, NOW_US + HOUR_US, NOW_US), STATUS_OK);
    }
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "{%u}", i);
        ck_assert(holds("a", name, i % 2 == 0 ? BAN_REFUSES : BAN_EXEMPTS));
    }
    ck_assert(!holds("a", "{10000}", BAN_REFUSES));
}
END_TEST

/* --- many --- */

enum { MANY = 40000, MANY_CHANGES = 1000 };

/* Processor time of the changes: each copies a shard, in all a tenth of this. If each looked at all
 * bans, they would take several times as long as this. */
static const uint64_t CHANGES_MAX_US = 2 * 1000 * 1000;

static uint64_t processor_us(void)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static struct ban nth(unsigned i)
{
    static char name[32];
    snprintf(name, sizeof(name), "{%u}", i);
    return ban_of(BAN_REFUSES, "a", name);
}

/* They end one after another, the later ones first. */
static void put_many(unsigned n)
{
    bans_set_max(bans, n);
    for (unsigned i = 0; i < n; i++) {
        const struct ban ban = nth(i);
        ck_assert_int_eq(bans_put(bans, &ban, NOW_US + HOUR_US - i, NOW_US), STATUS_OK);
    }
}

START_TEST(a_change_costs_the_same_however_many_there_are)
{
    put_many(MANY);
    const uint64_t start_us = processor_us();
    for (unsigned i = 0; i < MANY_CHANGES; i++) {
        struct ban ban = nth(i);
        ban.kind = BAN_EXEMPTS;
        put(&ban);
        ck_assert(holds("a", ban.identity.data, BAN_EXEMPTS));
        ck_assert(bans_remove(bans, &ban));
        bans_expire(bans, NOW_US);
        ck_assert(!holds("a", ban.identity.data, BAN_EXEMPTS));
    }
    ck_assert_uint_lt(processor_us() - start_us, CHANGES_MAX_US);
    ck_assert_uint_eq(bans_count(bans).n, MANY - MANY_CHANGES);
}
END_TEST

START_TEST(those_that_end_go_in_the_order_of_their_ends)
{
    enum { N = 1000 };
    put_many(N);
    for (unsigned i = 0; i < N; i += 3) {
        const struct ban ban = nth(i);
        ck_assert(bans_remove(bans, &ban));
    }
    const size_t n = bans_count(bans).n;
    bans_expire(bans, NOW_US + HOUR_US - N + 2);  /* the last two */
    ck_assert_uint_eq(bans_count(bans).n, n - 1); /* one of which was removed */
    for (uint64_t left = N - 2; left-- > 0;) {
        bans_expire(bans, NOW_US + HOUR_US - left);
        ck_assert_uint_eq(bans_count(bans).n, left - (left + 2) / 3);
    }
    ck_assert_ptr_null(bans_view_if_any(&view));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/bans");
    TCase *tcase = tcase_create("bans");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, who_has_set_a_ban_is_found_with_it);
    tcase_add_test(tcase, without_any_there_is_nothing_to_look_in);
    tcase_add_test(tcase, a_ban_is_of_one_limit_and_one_identity);
    tcase_add_test(tcase, whose_hash_alone_is_known_is_found_too);
    tcase_add_test(tcase, a_prefix_is_of_all_addresses_in_it_and_the_longest_counts);
    tcase_add_test(tcase, a_key_by_prefixes_is_found_itself_and_by_shorter_ones);
    tcase_add_test(tcase, all_lengths_of_prefixes_are_found);
    tcase_add_test(tcase, an_entry_is_found_by_its_hash_or_by_the_longest_prefix);
    tcase_add_test(tcase, it_ends_by_itself);
    tcase_add_test(tcase, a_key_has_a_ban_or_an_exemption_and_the_later_one_counts);
    tcase_add_test(tcase, what_is_told_again_as_it_was_keeps_its_end);
    tcase_add_test(tcase, no_more_than_the_maximum_are_held_and_those_that_ended_make_room);
    tcase_add_test(tcase, what_has_ended_does_not_hold_though_nothing_was_told_since);
    tcase_add_test(tcase, all_that_hold_are_listed);
    tcase_add_test(tcase, of_two_of_one_identity_either_holds_by_itself);
    tcase_add_test(tcase, an_identity_that_becomes_known_or_unknown_is_found_all_the_same);
    tcase_add_test(tcase, readers_look_while_others_change_and_list);
    tcase_add_test(tcase, ten_thousand_are_found_each);
    tcase_add_test(tcase, a_change_costs_the_same_however_many_there_are);
    tcase_add_test(tcase, those_that_end_go_in_the_order_of_their_ends);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
