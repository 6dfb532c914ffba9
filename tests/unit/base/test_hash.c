#include "base/hash.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void setup(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
}

/* The vectors of the SipHash authors: key 00 … 0f, input 00, 01, … of _i bytes. */
static const uint8_t VECTORS[][16] = {
    {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
     0x93},
    {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
     0x45},
    {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff,
     0xe4},
};

START_TEST(the_table_hash_is_siphash_2_4_with_128_bits)
{
    static const char INPUT[] = {0, 1, 2, 3};
    struct hash_key key;

    for (uint8_t i = 0; i < HASH_KEY_BYTES; i++) {
        key.bytes[i] = i;
    }
    struct hash128 hash = hash_table(&key, span_of(INPUT, (size_t)_i));
    ck_assert_mem_eq(&hash, VECTORS[_i], sizeof(hash));
}
END_TEST

START_TEST(two_tables_hash_differently)
{
    struct hash_key a = hash_key_new();
    struct hash_key b = hash_key_new();
    struct hash128 under_a = hash_table(&a, SPAN("key"));
    struct hash128 again = hash_table(&a, SPAN("key"));
    struct hash128 under_b = hash_table(&b, SPAN("key"));
    struct hash128 empty = hash_table(&a, span_of(NULL, 0));

    ck_assert_mem_eq(&under_a, &again, sizeof(again));
    ck_assert_mem_ne(&under_a, &under_b, sizeof(under_b));
    ck_assert_mem_ne(&under_a, &empty, sizeof(empty));
}
END_TEST

START_TEST(tables_that_share_a_hash_find_one_text_alike_until_the_process_ends)
{
    const struct hash_key other = hash_key_new();
    const struct hash128 first = hash_shared(SPAN("key"));
    const struct hash128 another = hash_shared(SPAN("kez"));
    const struct hash128 elsewhere = hash_table(&other, SPAN("key"));
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    const struct hash128 again = hash_shared(SPAN("key"));

    ck_assert_mem_eq(&first, &again, sizeof(again));
    ck_assert_mem_ne(&first, &another, sizeof(another));
    ck_assert_mem_ne(&first, &elsewhere, sizeof(elsewhere));
}
END_TEST

START_TEST(nothing_is_hashed_under_a_secret_that_nobody_has_drawn)
{
    (void)hash_shared(SPAN("key"));
}
END_TEST

START_TEST(identities_depend_on_every_byte_of_secret_and_text)
{
    static const struct {
        struct span secret;
        struct span text;
    } DISTINCT[] = {
        {{"", 0}, {"", 0}},     {{"", 0}, {"a", 1}},  {{"a", 1}, {"", 0}},
        {{"a", 1}, {"b", 1}},   {{"ab", 2}, {"", 0}}, {{"a\0", 2}, {"b", 1}},
        {{"a", 1}, {"b\0", 2}}, {{"A", 1}, {"b", 1}}, {{"\0", 1}, {"", 0}},
    };
    uint8_t out[9][HASH_IDENTITY_BYTES];

    for (size_t i = 0; i < 9; i++) {
        hash_identity(DISTINCT[i].secret, DISTINCT[i].text, out[i]);
        for (size_t j = 0; j < i; j++) {
            ck_assert_mem_ne(out[i], out[j], HASH_IDENTITY_BYTES);
        }
    }
}
END_TEST

START_TEST(a_secret_may_have_any_length)
{
    static const char SECRET[64] = "correct horse battery staple";
    uint8_t before[HASH_IDENTITY_BYTES] = {0};
    uint8_t now[HASH_IDENTITY_BYTES];

    for (size_t len = 0; len <= sizeof(SECRET); len++) {
        hash_identity(span_of(SECRET, len), SPAN("api-key"), now);
        ck_assert_mem_ne(now, before, sizeof(now));
        memcpy(before, now, sizeof(now));
    }
}
END_TEST

/* Proxies of different versions share Redis: the value is part of the format. */
/* Test case 3 of RFC 5869, appendix A. */
START_TEST(bytes_are_derived_as_by_hkdf)
{
    static const uint8_t EXPECTED[] = {
        0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c,
        0x5a, 0x31, 0xb8, 0xa1, 0x1f, 0x5c, 0x5e, 0xe1, 0x87, 0x9e, 0xc3, 0x45, 0x4e, 0x5f,
        0x3c, 0x73, 0x8d, 0x2d, 0x9d, 0x20, 0x13, 0x95, 0xfa, 0xa4, 0xb6, 0x1a, 0x96, 0xc8};
    char secret[22];
    uint8_t out[sizeof(EXPECTED)];

    memset(secret, 0x0b, sizeof(secret));
    hash_derive(span_of(secret, sizeof(secret)), span_of(NULL, 0), out, sizeof(out));
    ck_assert_mem_eq(out, EXPECTED, sizeof(out));
    hash_derive(span_of(secret, sizeof(secret)), SPAN("x"), out, 1);
    ck_assert_uint_ne(out[0], EXPECTED[0]);
    ck_assert_uint_eq(out[1], EXPECTED[1]);
}
END_TEST

START_TEST(the_identity_of_a_text_never_changes)
{
    static const uint8_t EXPECTED[HASH_IDENTITY_BYTES] = {0x0e, 0xb1, 0xb9, 0x6d, 0x28, 0x2c,
                                                          0x16, 0x97, 0x5d, 0x01, 0x63, 0x31,
                                                          0x21, 0x3c, 0xe3, 0x7a};
    uint8_t now[HASH_IDENTITY_BYTES];

    hash_identity(SPAN("secret"), SPAN("api-key"), now);
    ck_assert_mem_eq(now, EXPECTED, sizeof(now));
}
END_TEST

START_TEST(random_bytes_fill_what_they_are_asked_to)
{
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};

    hash_random(a, sizeof(a));
    hash_random(b, sizeof(b));
    ck_assert_mem_ne(a, b, sizeof(a));
    hash_random(a, 0);
}
END_TEST

START_TEST(clocks_run_forward_in_microseconds)
{
    uint64_t start = clock_monotonic_us();

    ck_assert_uint_ge(clock_monotonic_us(), start);
    ck_assert_uint_gt(clock_wall_us(), UINT64_C(1700000000) * 1000000);
    ck_assert_uint_lt(clock_wall_us(), UINT64_C(10000000000) * 1000000);
}
END_TEST

/* --- random stream --- */

enum { PIECE_BYTES = 16, N_PIECES = 1000, N_BUCKETS = 256 };

static struct random_stream stream;

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    random_stream_init(&stream);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, PIECE_BYTES);
}

START_TEST(no_piece_comes_twice_within_a_block_or_across_blocks)
{
    static uint8_t pieces[N_PIECES][PIECE_BYTES];
    for (size_t i = 0; i < N_PIECES; i++) {
        random_stream_take(&stream, pieces[i], PIECE_BYTES);
    }
    qsort(pieces, N_PIECES, PIECE_BYTES, compare);
    for (size_t i = 1; i < N_PIECES; i++) {
        ck_assert_int_ne(memcmp(pieces[i - 1], pieces[i], PIECE_BYTES), 0);
    }
}
END_TEST

START_TEST(each_byte_takes_every_value)
{
    unsigned n[N_BUCKETS] = {0};
    uint8_t piece[PIECE_BYTES];
    for (size_t i = 0; i < N_PIECES; i++) {
        random_stream_take(&stream, piece, PIECE_BYTES);
        for (size_t j = 0; j < PIECE_BYTES; j++) {
            n[piece[j]]++;
        }
    }
    for (size_t i = 0; i < N_BUCKETS; i++) { /* 62.5 each on average */
        ck_assert_uint_ge(n[i], 15);
        ck_assert_uint_le(n[i], 150);
    }
}
END_TEST

START_TEST(two_streams_differ)
{
    struct random_stream other;
    uint8_t a[PIECE_BYTES];
    uint8_t b[PIECE_BYTES];
    random_stream_init(&other);
    random_stream_take(&stream, a, sizeof(a));
    random_stream_take(&other, b, sizeof(b));
    ck_assert_mem_ne(a, b, sizeof(a));
}
END_TEST

START_TEST(the_stream_keeps_neither_what_it_gave_nor_the_key_that_made_it)
{
    uint8_t key[RANDOM_STREAM_KEY_BYTES];
    uint8_t piece[PIECE_BYTES];
    memcpy(key, stream.block, sizeof(key));
    random_stream_take(&stream, piece, sizeof(piece));
    ck_assert_ptr_null(memmem(&stream, sizeof(stream), key, sizeof(key)));
    ck_assert_ptr_null(memmem(&stream, sizeof(stream), piece, sizeof(piece)));
}
END_TEST

START_TEST(the_longest_piece_is_a_block_without_its_key)
{
    uint8_t bytes[RANDOM_STREAM_BYTES - RANDOM_STREAM_KEY_BYTES];
    random_stream_take(&stream, bytes, sizeof(bytes));
    ck_assert_uint_eq(stream.n_used, RANDOM_STREAM_BYTES);
    random_stream_take(&stream, bytes, 0);
    random_stream_take(&stream, bytes, 1);
    ck_assert_uint_eq(stream.n_used, RANDOM_STREAM_KEY_BYTES + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/hash");
    TCase *hash = tcase_create("hash");
    TCase *clock = tcase_create("clock");
    TCase *forgotten = tcase_create("without hash_setup()");

    tcase_add_checked_fixture(hash, setup, NULL);
    tcase_add_loop_test(hash, the_table_hash_is_siphash_2_4_with_128_bits, 0, ARRAY_LEN(VECTORS));
    tcase_add_test(hash, two_tables_hash_differently);
    tcase_add_test(hash, tables_that_share_a_hash_find_one_text_alike_until_the_process_ends);
    tcase_add_test(hash, identities_depend_on_every_byte_of_secret_and_text);
    tcase_add_test(hash, a_secret_may_have_any_length);
    tcase_add_test(hash, bytes_are_derived_as_by_hkdf);
    tcase_add_test(hash, the_identity_of_a_text_never_changes);
    tcase_add_test(hash, random_bytes_fill_what_they_are_asked_to);
    tcase_add_test(clock, clocks_run_forward_in_microseconds);
    tcase_add_test_raise_signal(forgotten, nothing_is_hashed_under_a_secret_that_nobody_has_drawn,
                                SIGABRT);
    suite_add_tcase(suite, forgotten);
    suite_add_tcase(suite, hash);
    suite_add_tcase(suite, clock);
    TCase *random_stream_tests = tcase_create("random_stream");

    tcase_add_checked_fixture(random_stream_tests, set_up, NULL);
    tcase_add_test(random_stream_tests, no_piece_comes_twice_within_a_block_or_across_blocks);
    tcase_add_test(random_stream_tests, each_byte_takes_every_value);
    tcase_add_test(random_stream_tests, two_streams_differ);
    tcase_add_test(random_stream_tests,
                   the_stream_keeps_neither_what_it_gave_nor_the_key_that_made_it);
    tcase_add_test(random_stream_tests, the_longest_piece_is_a_block_without_its_key);
    suite_add_tcase(suite, random_stream_tests);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
