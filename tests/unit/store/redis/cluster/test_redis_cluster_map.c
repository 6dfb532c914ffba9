/* The map of a cluster, from what its nodes say. */

#include "store/redis/cluster/redis_cluster_map.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

static struct redis_cluster_map map;
static struct redis_reply reply;

/* Read @wire in pieces of @piece bytes; returns what kind of a reply it was. */
static enum redis_reply_kind read_map(const char *wire, size_t piece)
{
    const size_t len = strlen(wire);
    redisReader *reader = redisReaderCreateWithFunctions(NULL);
    redis_cluster_map_init(&map);
    reply = (struct redis_reply){.listener = &map.listener};
    redis_reply_attach(&reply, reader);
    void *got = NULL;
    for (size_t at = 0; at < len; at += piece) {
        const size_t n = len - at < piece ? len - at : piece;
        ck_assert_ptr_null(got);
        ck_assert_int_eq(redisReaderFeed(reader, wire + at, n), REDIS_OK);
        ck_assert_int_eq(redisReaderGetReply(reader, &got), REDIS_OK);
    }
    ck_assert_ptr_eq(got, &reply);
    redisReaderFree(reader);
    return reply.kind;
}

#define NODE(host, port) "*4\r\n" host ":" port "\r\n$2\r\nid\r\n*0\r\n"
#define RANGE(first, last, nodes) ":" first "\r\n:" last "\r\n" nodes
#define A "$9\r\n127.0.0.1\r\n"
#define B "$9\r\n127.0.0.2\r\n"

static const char THREE[] = /* */
    "*3\r\n"
    "*4\r\n" RANGE("0", "5460", NODE(A, "7000") NODE(A, "7003"))     /* */
    "*4\r\n" RANGE("5461", "10922", NODE(B, "7000") NODE(A, "7004")) /* */
    "*3\r\n" RANGE("10923", "16383", NODE(A, "7002"));

static void check_owner(unsigned slot, const char *host, unsigned port)
{
    const uint16_t number = map.owner_of[slot];
    ck_assert_uint_lt(number, map.n_owners);
    ck_assert_str_eq(map.owners[number].host, host);
    ck_assert_uint_eq(map.owners[number].port, port);
}

START_TEST(a_map_is_read_whole_and_byte_by_byte)
{
    const size_t pieces[] = {1, 2, 7, 1000};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        ck_assert_int_eq(read_map(THREE, pieces[i]), REDIS_REPLY_IS_NESTED);
        ck_assert_uint_eq(map.n_owners, 3);
        ck_assert_uint_eq(map.n_owned, REDIS_SLOTS);
        check_owner(0, "127.0.0.1", 7000);
        check_owner(5460, "127.0.0.1", 7000);
        check_owner(5461, "127.0.0.2", 7000);
        check_owner(10922, "127.0.0.2", 7000);
        check_owner(10923, "127.0.0.1", 7002);
        check_owner(16383, "127.0.0.1", 7002);
    }
}
END_TEST

START_TEST(ranges_of_one_owner_are_one_owner)
{
    read_map("*2\r\n*3\r\n" RANGE("0", "0", NODE(A, "1")) "*3\r\n" RANGE("2", "3", NODE(A, "1")),
             1000);
    ck_assert_uint_eq(map.n_owners, 1);
    ck_assert_uint_eq(map.n_owned, 3);
    ck_assert_uint_eq(map.owner_of[1], REDIS_CLUSTER_NOBODY);
}
END_TEST

START_TEST(an_owner_without_a_name_is_the_node_that_was_asked)
{
    static const char *const hosts[] = {"$0\r\n\r\n", "$-1\r\n", "$1\r\n?\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        char wire[256];
        snprintf(wire, sizeof(wire), "*1\r\n*3\r\n:0\r\n:9\r\n*3\r\n%s:7000\r\n$2\r\nid\r\n",
                 hosts[i]);
        read_map(wire, 1);
        check_owner(9, "", 7000);
    }
}
END_TEST

START_TEST(an_empty_cluster_has_no_owners)
{
    ck_assert_int_eq(read_map("*0\r\n", 1), REDIS_REPLY_IS_INTS);
    ck_assert_uint_eq(map.n_owned, 0);
    ck_assert_int_eq(read_map("-ERR This instance has cluster support disabled\r\n", 1),
                     REDIS_REPLY_IS_FAULT);
    ck_assert_uint_eq(map.n_owned, 0);
}
END_TEST

static const struct {
    const char *says;
    const char *range;
} UNSOUND[] = {
    {"a slot below the first", "*3\r\n" RANGE("-1", "5", NODE(A, "1"))},
    {"a slot beyond the last", "*3\r\n" RANGE("0", "16384", NODE(A, "1"))},
    {"a range that ends before it starts", "*3\r\n" RANGE("6", "5", NODE(A, "1"))},
    {"a first slot that is a text", "*3\r\n$1\r\n0\r\n:5\r\n" NODE(A, "1")},
    {"no nodes", "*2\r\n" RANGE("0", "5", "")},
    {"a node that is a text", "*3\r\n" RANGE("0", "5", A)},
    {"a node of nothing", "*3\r\n" RANGE("0", "5", "*0\r\n")},
    {"a port of 0", "*3\r\n" RANGE("0", "5", NODE(A, "0"))},
    {"a port too great", "*3\r\n" RANGE("0", "5", NODE(A, "65536"))},
    {"a port that is a text", "*3\r\n" RANGE("0", "5", "*2\r\n" A "$1\r\n1\r\n")},
    {"a host that is a number", "*3\r\n" RANGE("0", "5", "*2\r\n:1\r\n:1\r\n")},
    {"a host that is an array", "*3\r\n" RANGE("0", "5", "*2\r\n*0\r\n:1\r\n")},
    {"an array for a slot", "*3\r\n*0\r\n:5\r\n" NODE(A, "1")},
    {"a number for a range", ":7\r\n"},
};

START_TEST(a_range_that_makes_no_sense_is_left_out_and_the_others_stand)
{
    char wire[512];
    snprintf(wire, sizeof(wire), "*3\r\n%s%s%s", "*3\r\n" RANGE("6", "6", NODE(A, "1")),
             UNSOUND[_i].range, "*3\r\n" RANGE("7", "7", NODE(B, "1")));
    read_map(wire, 1);
    ck_assert_msg(map.n_owned == 2, "%s", UNSOUND[_i].says);
    check_owner(6, "127.0.0.1", 1);
    check_owner(7, "127.0.0.2", 1);
}
END_TEST

START_TEST(ranges_that_overlap_end_somewhere)
{
    read_map("*3\r\n*3\r\n" RANGE("0", "16383", NODE(A, "1")) /* */
             "*3\r\n" RANGE("0", "16383", NODE(B, "1"))       /* */
             "*3\r\n" RANGE("0", "0", NODE(B, "2")),
             1000);
    ck_assert_uint_eq(map.n_owned, REDIS_SLOTS);
    ck_assert_uint_eq(map.n_owners, 1);
}
END_TEST

START_TEST(slots_of_more_owners_than_fit_have_none)
{
    static char wire[64 * (REDIS_CLUSTER_NODES_MAX + 1)];
    int len = snprintf(wire, sizeof(wire), "*%d\r\n", REDIS_CLUSTER_NODES_MAX + 1);
    for (int i = 0; i <= REDIS_CLUSTER_NODES_MAX; i++) {
        len += snprintf(wire + len, sizeof(wire) - (size_t)len,
                        "*3\r\n:%d\r\n:%d\r\n*2\r\n$1\r\nh\r\n:%d\r\n", i, i, i + 1);
    }
    read_map(wire, 1000);
    ck_assert_uint_eq(map.n_owners, REDIS_CLUSTER_NODES_MAX);
    ck_assert_uint_eq(map.n_owned, REDIS_CLUSTER_NODES_MAX);
    ck_assert_uint_eq(map.owner_of[REDIS_CLUSTER_NODES_MAX], REDIS_CLUSTER_NOBODY);
}
END_TEST

START_TEST(a_host_has_at_most_the_length_of_a_name)
{
    struct redis_cluster_address address = {.host = "before", .port = 1};
    char host[HOST_BYTES_MAX + 1];
    memset(host, 'h', sizeof(host));
    ck_assert(!redis_cluster_address_set(&address, span_of(host, sizeof(host)), 1));
    ck_assert(!redis_cluster_address_set(&address, span_of("a\0b", 3), 1));
    ck_assert_str_eq(address.host, "before");
    ck_assert(redis_cluster_address_set(&address, span_of(host, HOST_BYTES_MAX), 1));
    ck_assert_uint_eq(strlen(address.host), HOST_BYTES_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_cluster_map");
    TCase *tcase = tcase_create("map");
    tcase_add_test(tcase, a_map_is_read_whole_and_byte_by_byte);
    tcase_add_test(tcase, ranges_of_one_owner_are_one_owner);
    tcase_add_test(tcase, an_owner_without_a_name_is_the_node_that_was_asked);
    tcase_add_test(tcase, an_empty_cluster_has_no_owners);
    tcase_add_loop_test(tcase, a_range_that_makes_no_sense_is_left_out_and_the_others_stand, 0,
                        (int)ARRAY_LEN(UNSOUND));
    tcase_add_test(tcase, ranges_that_overlap_end_somewhere);
    tcase_add_test(tcase, slots_of_more_owners_than_fit_have_none);
    tcase_add_test(tcase, a_host_has_at_most_the_length_of_a_name);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
