#include "store/redis/sentinel/redis_sentinel.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static redisReader *reader;
static struct redis_reply reply;
static struct redis_texts texts;

static void start(void)
{
    reader = redisReaderCreateWithFunctions(NULL);
    ck_assert_ptr_nonnull(reader);
    redis_texts_clear(&texts);
    reply.listener = &texts.listener;
    redis_reply_attach(&reply, reader);
}

static void stop(void)
{
    redisReaderFree(reader);
}

/* What the whole reply @wire says. */
static enum redis_sentinel_word read_reply(const char *wire, struct redis_master *master)
{
    void *got = NULL;
    ck_assert_int_eq(redisReaderFeed(reader, wire, strlen(wire)), REDIS_OK);
    ck_assert_msg(redisReaderGetReply(reader, &got) == REDIS_OK, "%s", wire);
    ck_assert_msg(got != NULL, "%s", wire);
    const enum redis_sentinel_word word =
        redis_sentinel_read(&reply, &texts, SPAN("mymaster"), master);
    redis_texts_clear(&texts);
    return word;
}

#define MESSAGE(channel, payload) "*3\r\n$7\r\nmessage\r\n" channel payload
#define SWITCH "$14\r\n+switch-master\r\n"

static const struct {
    const char *wire;
    enum redis_sentinel_word word;
    const char *host;
    uint16_t port;
} REPLIES[] = {
    {"+OK\r\n", SENTINEL_NOTHING_NEW, "", 0},
    {"*2\r\n$4\r\npong\r\n$0\r\n\r\n", SENTINEL_NOTHING_NEW, "", 0},
    {"*3\r\n$9\r\nsubscribe\r\n" SWITCH ":1\r\n", SENTINEL_NOTHING_NEW, "", 0},
    {"*3\r\n$11\r\nunsubscribe\r\n" SWITCH ":0\r\n", SENTINEL_NOTHING_NEW, "", 0},
    {"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", SENTINEL_NOTHING_NEW, "", 0},
    {"*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n", SENTINEL_MASTER, "10.0.0.1", 6379},
    {"*2\r\n$3\r\n::1\r\n$5\r\n65535\r\n", SENTINEL_MASTER, "::1", 65535},
    {"*2\r\n$12\r\nredis-1.my_x\r\n$1\r\n1\r\n", SENTINEL_MASTER, "redis-1.my_x", 1},
    {"*2\r\n$4\r\npong\r\n$4\r\n6379\r\n", SENTINEL_MASTER, "pong", 6379},
    {"*-1\r\n", SENTINEL_NO_MASTER, "", 0},
    {"$-1\r\n", SENTINEL_NO_MASTER, "", 0},
    {"-ERR No such master with that name\r\n", SENTINEL_REFUSES, "", 0},
    {MESSAGE(SWITCH, "$31\r\nmymaster 10.0.0.1 1 10.0.0.2 22\r\n"), SENTINEL_SWITCHED, "", 0},
    {MESSAGE(SWITCH, "$8\r\nmymaster\r\n"), SENTINEL_SWITCHED, "", 0},
    {MESSAGE(SWITCH, "$10\r\nmymaster2 \r\n"), SENTINEL_NOTHING_NEW, "", 0},
    {MESSAGE(SWITCH, "$9\r\n mymaster\r\n"), SENTINEL_NOTHING_NEW, "", 0},
    {MESSAGE(SWITCH, "$0\r\n\r\n"), SENTINEL_NOTHING_NEW, "", 0},
    {MESSAGE("$6\r\n+sdown\r\n", "$8\r\nmymaster\r\n"), SENTINEL_NOTHING_NEW, "", 0},

    {"*2\r\n$8\r\n10.0.0.1\r\n$1\r\n0\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$8\r\n10.0.0.1\r\n$5\r\n65536\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$8\r\n10.0.0.1\r\n$0\r\n\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$8\r\n10.0.0.1\r\n:6379\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$8\r\n10.0.0.1\r\n$-1\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$3\r\na b\r\n$4\r\n6379\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$3\r\na\nb\r\n$4\r\n6379\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n$2\r\na\"\r\n$4\r\n6379\r\n", SENTINEL_NONSENSE, "", 0},
    {"*1\r\n$8\r\n10.0.0.1\r\n", SENTINEL_NONSENSE, "", 0},
    {"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n", SENTINEL_NONSENSE, "", 0},
    {"*0\r\n", SENTINEL_NONSENSE, "", 0},
    {":1\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n:1\r\n:2\r\n", SENTINEL_NONSENSE, "", 0},
    {"*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n", SENTINEL_NONSENSE, "", 0},
    {"*3\r\n$8\r\npmessage\r\n" SWITCH "$8\r\nmymaster\r\n", SENTINEL_NONSENSE, "", 0},
};

START_TEST(a_reply_says_what_it_says)
{
    struct redis_master master = {0};
    ck_assert_msg(read_reply(REPLIES[_i].wire, &master) == REPLIES[_i].word, "%s",
                  REPLIES[_i].wire);
    ck_assert_str_eq(master.host, REPLIES[_i].host);
    ck_assert_uint_eq(master.port, REPLIES[_i].port);
}
END_TEST

START_TEST(nothing_of_a_reply_is_left_for_the_next)
{
    struct redis_master master = {0};
    for (size_t i = 0; i < ARRAY_LEN(REPLIES); i++) {
        (void)read_reply(REPLIES[i].wire, &master);
        ck_assert_msg(read_reply("*2\r\n$1\r\na\r\n$1\r\n7\r\n", &master) == SENTINEL_MASTER,
                      "after %s", REPLIES[i].wire);
        ck_assert_str_eq(master.host, "a");
    }
}
END_TEST

static enum redis_sentinel_word read_host_of(size_t len, struct redis_master *master)
{
    char host[512];
    char wire[1024];
    memset(host, 'a', len);
    host[len] = '\0';
    snprintf(wire, sizeof(wire), "*2\r\n$%zu\r\n%s\r\n$1\r\n7\r\n", len, host);
    return read_reply(wire, master);
}

START_TEST(a_host_may_be_as_long_as_a_name_and_no_longer)
{
    struct redis_master master;
    ck_assert_int_eq(read_host_of(HOST_BYTES_MAX, &master), SENTINEL_MASTER);
    ck_assert_uint_eq(strlen(master.host), HOST_BYTES_MAX);
    ck_assert_int_eq(read_host_of(HOST_BYTES_MAX + 1, &master), SENTINEL_NONSENSE);
}
END_TEST

START_TEST(a_message_may_be_longer_than_what_is_kept_of_it)
{
    char wire[2048];
    struct redis_master master;
    snprintf(wire, sizeof(wire), MESSAGE(SWITCH, "$1000\r\n%-1000s\r\n"), "mymaster 10.0.0.1");
    ck_assert_int_eq(read_reply(wire, &master), SENTINEL_SWITCHED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_sentinel_reply");
    TCase *take = tcase_create("take");
    tcase_add_checked_fixture(take, start, stop);
    tcase_add_loop_test(take, a_reply_says_what_it_says, 0, (int)ARRAY_LEN(REPLIES));
    tcase_add_test(take, nothing_of_a_reply_is_left_for_the_next);
    tcase_add_test(take, a_host_may_be_as_long_as_a_name_and_no_longer);
    tcase_add_test(take, a_message_may_be_longer_than_what_is_kept_of_it);
    suite_add_tcase(suite, take);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
