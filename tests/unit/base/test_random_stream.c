#include "base/random_stream.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

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
    Suite *suite = suite_create("base/random_stream");
    TCase *all = tcase_create("random_stream");

    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_test(all, no_piece_comes_twice_within_a_block_or_across_blocks);
    tcase_add_test(all, each_byte_takes_every_value);
    tcase_add_test(all, two_streams_differ);
    tcase_add_test(all, the_stream_keeps_neither_what_it_gave_nor_the_key_that_made_it);
    tcase_add_test(all, the_longest_piece_is_a_block_without_its_key);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
