/* Sentinels as they answer and as they fail: who is asked, and what the owner is told. */

#include "store/redis/sentinel/redis_sentinel.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "support/fake_sentinel.h"
#include "support/iterations.h"

enum { SENTINELS = 3 };

static struct loop *loop;
static struct resolver *resolver;
static struct fake_sentinel sentinels[SENTINELS];
static struct redis_sentinels options;
static struct redis_sentinel sentinel;

/* What the owner was told. */
static struct {
    unsigned n_answers;
    unsigned n_moves;
    struct redis_master master; /* of the latest answer; host "": none */
    char trouble[256];
} reported;

static void on_answer(void *owner, const struct redis_master *master, struct span trouble)
{
    ck_assert_ptr_eq(owner, &reported);
    reported.n_answers++;
    reported.master = master != NULL ? *master : (struct redis_master){0};
    ck_assert_uint_lt(trouble.len, sizeof(reported.trouble));
    memcpy(reported.trouble, trouble.data, trouble.len);
    reported.trouble[trouble.len] = '\0';
}

static void on_moved(void *owner)
{
    ck_assert_ptr_eq(owner, &reported);
    reported.n_moves++;
}

static const struct redis_sentinel_handler HANDLER = {on_answer, on_moved};

static void start(void)
{
    loop = iterations_new_loop();
    ck_assert_int_eq(resolver_new(loop, NULL, &resolver), STATUS_OK);
    memset(&reported, 0, sizeof(reported));
    options = (struct redis_sentinels){.n_hosts = SENTINELS, .master = SPAN("mymaster")};
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels[i] = (struct fake_sentinel){.master_host = "10.0.0.1", .master_port = 6379};
        fake_sentinel_start(&sentinels[i], loop);
        options.hosts[i] = (struct redis_host){SPAN("127.0.0.1"), sentinels[i].port};
    }
    ck_assert_int_eq(
        redis_sentinel_init(&sentinel, loop, resolver, NULL, &options, &HANDLER, &reported),
        STATUS_OK);
}

static void stop(void)
{
    redis_sentinel_close(&sentinel);
    for (size_t i = 0; i < SENTINELS; i++) {
        fake_sentinel_stop(&sentinels[i]);
    }
    iterations_once(loop);
    resolver_free(resolver);
    loop_free(loop);
}

static void ask(void)
{
    const unsigned n_answers = reported.n_answers;
    redis_sentinel_ask(&sentinel);
    ck_assert_uint_eq(reported.n_answers, n_answers); /* never from within */
    iterations_until_count(loop, &reported.n_answers, n_answers + 1);
}

static void assert_reported(const char *host, uint16_t port)
{
    ck_assert_str_eq(reported.master.host, host);
    ck_assert_uint_eq(reported.master.port, port);
}

/* Let the first failover be noticed: the one who is listened to has been asked again. */
static void await_question(struct fake_sentinel *of, unsigned n_asked)
{
    iterations_until_count(loop, &of->n_asked, n_asked);
    iterations_for(loop, 2000);
}

/* --- who is asked --- */

START_TEST(the_first_sentinel_says_where_the_master_is)
{
    ask();
    assert_reported("10.0.0.1", 6379);
    ck_assert_uint_eq(sentinels[0].n_asked, 1);
    ck_assert_uint_eq(sentinels[1].n_accepted + sentinels[2].n_accepted, 0);
}
END_TEST

START_TEST(the_same_connection_serves_for_all_questions)
{
    for (unsigned i = 1; i <= 5; i++) {
        sentinels[0].master_port = (uint16_t)(6379 + i);
        ask();
        assert_reported("10.0.0.1", (uint16_t)(6379 + i));
        ck_assert_uint_eq(sentinels[0].n_asked, i);
    }
    ck_assert_uint_eq(sentinels[0].n_accepted, 1);
    ck_assert_uint_eq(reported.n_moves, 0);
}
END_TEST

START_TEST(a_name_of_the_master_is_told_as_it_is)
{
    sentinels[0].master_host = "redis-2.example.internal";
    ask();
    assert_reported("redis-2.example.internal", 6379);
}
END_TEST

static const enum fake_sentinel_manner FAILING[] = {
    FAKE_SENTINEL_IS_SILENT, FAKE_SENTINEL_KNOWS_NOTHING, FAKE_SENTINEL_REFUSES,
    FAKE_SENTINEL_RAVES,     FAKE_SENTINEL_DOES_NOT_END,  FAKE_SENTINEL_HANGS_UP,
};

START_TEST(one_that_does_not_say_is_passed_over_and_the_one_that_does_is_asked_first_from_then_on)
{
    sentinels[0].manner = FAILING[_i];
    ask();
    assert_reported("10.0.0.1", 6379);
    ck_assert_uint_eq(sentinels[0].n_asked, 1);
    ck_assert_uint_eq(sentinels[1].n_asked, 1);
    ask();
    ck_assert_uint_eq(sentinels[0].n_accepted, 1);
    ck_assert_uint_eq(sentinels[1].n_asked, 2);
    ck_assert_uint_eq(sentinels[2].n_accepted, 0);
}
END_TEST

START_TEST(one_that_nobody_answers_at_is_passed_over)
{
    fake_sentinel_stop(&sentinels[0]);
    ask();
    assert_reported("10.0.0.1", 6379);
    ck_assert_uint_eq(sentinels[1].n_asked, 1);
    fake_sentinel_start(&sentinels[0], loop);
}
END_TEST

START_TEST(sentinels_may_have_names)
{
    options.hosts[0].host = SPAN("localhost");
    ask();
    assert_reported("10.0.0.1", 6379);
    ck_assert_uint_eq(sentinels[0].n_asked, 1);
}
END_TEST

START_TEST(when_none_says_the_owner_hears_why_and_they_are_tried_again)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels[i].manner = FAKE_SENTINEL_KNOWS_NOTHING;
    }
    ask();
    assert_reported("", 0);
    ck_assert_str_eq(reported.trouble, "a sentinel knows no master of that name");
    for (size_t i = 0; i < SENTINELS; i++) {
        ck_assert_uint_eq(sentinels[i].n_asked, 1);
        sentinels[i].manner = FAKE_SENTINEL_TELLS;
    }
    ask();
    assert_reported("10.0.0.1", 6379);
}
END_TEST

START_TEST(one_whose_reply_does_not_end_is_not_waited_for)
{
    sentinels[0].manner = FAKE_SENTINEL_DOES_NOT_END;
    sentinels[1].manner = sentinels[2].manner = FAKE_SENTINEL_LISTS_ON;
    ask();
    ck_assert_str_eq(reported.trouble, "a sentinel: a reply without end");
}
END_TEST

START_TEST(what_a_sentinel_says_in_refusing_stays_out_of_the_trouble)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels[i].manner = FAKE_SENTINEL_REFUSES;
    }
    ask();
    ck_assert_str_eq(reported.trouble, "a sentinel refuses: NOAUTH");
}
END_TEST

START_TEST(nobody_is_told_an_answer_that_was_forgotten)
{
    redis_sentinel_ask(&sentinel);
    redis_sentinel_forget(&sentinel);
    await_question(&sentinels[0], 1);
    ck_assert_uint_eq(reported.n_answers + reported.n_moves, 0);
    ask();
    assert_reported("10.0.0.1", 6379);
}
END_TEST

START_TEST(answers_that_lead_to_no_master_make_another_sentinel_be_asked)
{
    for (unsigned i = 0; i < 3; i++) {
        ask();
        redis_sentinel_note_bad(&sentinel);
    }
    ck_assert_uint_eq(sentinels[0].n_asked, 3);
    sentinels[1].master_host = "10.0.0.2";
    ask();
    assert_reported("10.0.0.2", 6379);
}
END_TEST

START_TEST(answers_are_forgiven_by_one_that_was_good)
{
    for (unsigned i = 0; i < 4; i++) {
        ask();
        redis_sentinel_note_bad(&sentinel);
        redis_sentinel_note_bad(&sentinel);
        redis_sentinel_note_good(&sentinel);
    }
    ck_assert_uint_eq(sentinels[0].n_asked, 4);
    ck_assert_uint_eq(sentinels[0].n_accepted, 1);
}
END_TEST

/* --- news --- */

START_TEST(a_failover_is_told_once_and_the_next_answer_is_the_new_master)
{
    ask();
    sentinels[0].master_host = "10.0.0.2";
    fake_sentinel_report_switch(&sentinels[0], "mymaster");
    fake_sentinel_report_switch(&sentinels[0], "mymaster");
    iterations_until_count(loop, &reported.n_moves, 1);
    ask();
    assert_reported("10.0.0.2", 6379);
    iterations_for(loop, 5000);
    ck_assert_uint_eq(reported.n_moves, 1);
    ck_assert_uint_eq(sentinels[0].n_accepted, 1);
}
END_TEST

START_TEST(a_failover_of_another_master_is_no_news)
{
    ask();
    fake_sentinel_report_switch(&sentinels[0], "mymaster2");
    fake_sentinel_report_switch(&sentinels[0], "mymaste");
    iterations_for(loop, 5000);
    ck_assert_uint_eq(sentinels[0].n_asked, 1);
}
END_TEST

START_TEST(a_failover_to_where_the_master_was_is_no_news)
{
    ask();
    fake_sentinel_report_switch(&sentinels[0], "mymaster");
    await_question(&sentinels[0], 2);
    ck_assert_uint_eq(reported.n_moves, 0);
}
END_TEST

START_TEST(a_sentinel_that_goes_away_is_replaced_without_a_word)
{
    ask();
    fake_sentinel_hang_up(&sentinels[0]);
    await_question(&sentinels[1], 1);
    ck_assert_uint_eq(reported.n_answers, 1);
    ck_assert_uint_eq(reported.n_moves, 0);
    sentinels[1].master_port = 7000;
    fake_sentinel_report_switch(&sentinels[1], "mymaster");
    iterations_until_count(loop, &reported.n_moves, 1);
}
END_TEST

START_TEST(a_failover_that_was_missed_is_told_by_the_next_sentinel)
{
    ask();
    sentinels[1].master_host = "10.0.0.2";
    fake_sentinel_hang_up(&sentinels[0]);
    iterations_until_count(loop, &reported.n_moves, 1);
    ask();
    assert_reported("10.0.0.2", 6379);
}
END_TEST

START_TEST(while_all_are_away_nothing_is_told_and_the_first_that_comes_back_is_listened_to)
{
    ask();
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels[i].manner = FAKE_SENTINEL_HANGS_UP;
        fake_sentinel_hang_up(&sentinels[i]);
    }
    await_question(&sentinels[0], 2); /* a whole round, and then the next */
    ck_assert_uint_eq(reported.n_answers, 1);
    ck_assert_uint_eq(reported.n_moves, 0);
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels[i].manner = FAKE_SENTINEL_TELLS;
        sentinels[i].master_port = 7000;
    }
    iterations_until_count(loop, &reported.n_moves, 1);
}
END_TEST

START_TEST(a_login_is_said_first_and_once_a_connection)
{
    redis_sentinel_close(&sentinel);
    options.user = SPAN("sluice");
    options.password = SPAN("secret");
    ck_assert_int_eq(
        redis_sentinel_init(&sentinel, loop, resolver, NULL, &options, &HANDLER, &reported),
        STATUS_OK);
    ask();
    ask();
    ck_assert_uint_eq(sentinels[0].n_signed_in, 1);
    ck_assert_uint_eq(sentinels[0].n_asked, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_sentinel");
    TCase *asked = tcase_create("asked");
    tcase_add_checked_fixture(asked, start, stop);
    tcase_set_timeout(asked, 60);
    tcase_add_test(asked, the_first_sentinel_says_where_the_master_is);
    tcase_add_test(asked, the_same_connection_serves_for_all_questions);
    tcase_add_test(asked, a_name_of_the_master_is_told_as_it_is);
    tcase_add_loop_test(
        asked,
        one_that_does_not_say_is_passed_over_and_the_one_that_does_is_asked_first_from_then_on, 0,
        (int)ARRAY_LEN(FAILING));
    tcase_add_test(asked, one_that_nobody_answers_at_is_passed_over);
    tcase_add_test(asked, sentinels_may_have_names);
    tcase_add_test(asked, when_none_says_the_owner_hears_why_and_they_are_tried_again);
    tcase_add_test(asked, one_whose_reply_does_not_end_is_not_waited_for);
    tcase_add_test(asked, what_a_sentinel_says_in_refusing_stays_out_of_the_trouble);
    tcase_add_test(asked, nobody_is_told_an_answer_that_was_forgotten);
    tcase_add_test(asked, answers_that_lead_to_no_master_make_another_sentinel_be_asked);
    tcase_add_test(asked, answers_are_forgiven_by_one_that_was_good);
    tcase_add_test(asked, a_login_is_said_first_and_once_a_connection);
    suite_add_tcase(suite, asked);
    TCase *news = tcase_create("news");
    tcase_add_checked_fixture(news, start, stop);
    tcase_set_timeout(news, 60);
    tcase_add_test(news, a_failover_is_told_once_and_the_next_answer_is_the_new_master);
    tcase_add_test(news, a_failover_of_another_master_is_no_news);
    tcase_add_test(news, a_failover_to_where_the_master_was_is_no_news);
    tcase_add_test(news, a_sentinel_that_goes_away_is_replaced_without_a_word);
    tcase_add_test(news, a_failover_that_was_missed_is_told_by_the_next_sentinel);
    tcase_add_test(news,
                   while_all_are_away_nothing_is_told_and_the_first_that_comes_back_is_listened_to);
    suite_add_tcase(suite, news);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
