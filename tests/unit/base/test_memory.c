/* base/arena and base/pool. */

#include "base/memory.h"

#include <check.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* --- arena --- */

START_TEST(a_small_arena_stays_in_the_callers_chunk)
{
    alignas(max_align_t) char first[256];
    struct arena arena;

    arena_init(&arena, first, sizeof(first));
    char *a = arena_alloc(&arena, 100);
    char *b = arena_alloc(&arena, 100);
    ck_assert(a == first);
    ck_assert(b >= a + 100 && b + 100 <= first + sizeof(first));
    ck_assert_ptr_null(arena.chunks);
    char *c = arena_alloc(&arena, 100);
    ck_assert_ptr_nonnull(c);
    ck_assert_ptr_nonnull(arena.chunks);
    arena_reset(&arena);
    ck_assert_ptr_null(arena.chunks);
    ck_assert(arena_alloc(&arena, 1) == first);
}
END_TEST

START_TEST(every_allocation_is_aligned_for_any_type)
{
    char first[100];
    struct arena arena;

    arena_init(&arena, first + 1, sizeof(first) - 1);
    for (size_t bytes = 0; bytes < 40; bytes++) {
        char *memory = arena_alloc(&arena, bytes);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % alignof(max_align_t), 0);
        memset(memory, 0xee, bytes);
    }
    arena_reset(&arena);
}
END_TEST

START_TEST(an_arena_without_a_first_chunk_starts_on_the_heap)
{
    struct arena arena;

    arena_init(&arena, NULL, 0);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 0));
    ck_assert_ptr_nonnull(arena_alloc(&arena, 1));
    arena_reset(&arena);
    arena_reset(&arena);
}
END_TEST

START_TEST(a_large_allocation_leaves_the_rest_of_the_chunk_in_use)
{
    struct arena arena;

    arena_init(&arena, NULL, 0);
    char *small = arena_alloc(&arena, 16);
    char *large = arena_alloc(&arena, 10 * ARENA_CHUNK_BYTES);
    ck_assert_ptr_nonnull(large);
    memset(large, 0xee, 10 * ARENA_CHUNK_BYTES);
    ck_assert(arena_alloc(&arena, 16) == small + 16);
    arena_reset(&arena);
}
END_TEST

START_TEST(what_nobody_can_have_is_refused)
{
    struct arena arena;

    arena_init(&arena, NULL, 0);
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX));
    ck_assert_ptr_null(arena_calloc(&arena, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(arena_copy(&arena, span_of("", SIZE_MAX)).data);
    ck_assert_ptr_nonnull(arena_calloc(&arena, SIZE_MAX, 0));
    arena_reset(&arena);
}
END_TEST

START_TEST(zeroed_memory_is_zero_even_where_something_was)
{
    alignas(max_align_t) char first[64];
    static const char ZERO[64];
    struct arena arena;

    memset(first, 0xee, sizeof(first));
    arena_init(&arena, first, sizeof(first));
    ck_assert_mem_eq(arena_calloc(&arena, 8, 8), ZERO, 64);
    arena_reset(&arena);
}
END_TEST

START_TEST(a_copy_is_the_bytes_with_a_nul_behind_them)
{
    struct arena arena;

    arena_init(&arena, NULL, 0);
    struct span copy = arena_copy(&arena, SPAN("a\0b"));
    ck_assert_uint_eq(copy.len, 3);
    ck_assert_mem_eq(copy.data, "a\0b", 4);
    copy = arena_copy(&arena, span_of(NULL, 0));
    ck_assert_uint_eq(copy.len, 0);
    ck_assert_str_eq(copy.data, "");
    arena_reset(&arena);
}
END_TEST

/* --- pool --- */

START_TEST(a_block_given_back_is_the_next_one_taken)
{
    struct pool pool;

    pool_init(&pool, 64, 2);
    void *a = pool_take(&pool);
    void *b = pool_take(&pool);
    ck_assert_ptr_ne(a, b);
    memset(a, 0xee, 64);
    ck_assert_uint_eq(pool.n_taken, 2);
    pool_give(&pool, a);
    pool_give(&pool, b);
    ck_assert(pool_take(&pool) == b);
    ck_assert(pool_take(&pool) == a);
    memset(a, 0xee, 64);
    pool_give(&pool, a);
    pool_give(&pool, b);
    pool_close(&pool);
}
END_TEST

START_TEST(no_more_blocks_are_kept_than_agreed)
{
    struct pool pool;
    void *blocks[3];

    pool_init(&pool, sizeof(void *), 2);
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = pool_take(&pool);
    }
    for (size_t i = 0; i < 3; i++) {
        pool_give(&pool, blocks[i]);
    }
    ck_assert_uint_eq(pool.n_free, 2);
    ck_assert_uint_eq(pool.n_taken, 0);
    pool_give(&pool, NULL);
    ck_assert_uint_eq(pool.n_free, 2);
    pool_close(&pool);
}
END_TEST

START_TEST(a_pool_that_keeps_none_still_serves)
{
    struct pool pool;

    pool_init(&pool, 32, 0);
    pool_give(&pool, pool_take(&pool));
    ck_assert_uint_eq(pool.n_free, 0);
    pool_close(&pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/memory");
    TCase *arena = tcase_create("arena");
    TCase *pool = tcase_create("pool");

    tcase_add_test(arena, a_small_arena_stays_in_the_callers_chunk);
    tcase_add_test(arena, every_allocation_is_aligned_for_any_type);
    tcase_add_test(arena, an_arena_without_a_first_chunk_starts_on_the_heap);
    tcase_add_test(arena, a_large_allocation_leaves_the_rest_of_the_chunk_in_use);
    tcase_add_test(arena, what_nobody_can_have_is_refused);
    tcase_add_test(arena, zeroed_memory_is_zero_even_where_something_was);
    tcase_add_test(arena, a_copy_is_the_bytes_with_a_nul_behind_them);
    tcase_add_test(pool, a_block_given_back_is_the_next_one_taken);
    tcase_add_test(pool, no_more_blocks_are_kept_than_agreed);
    tcase_add_test(pool, a_pool_that_keeps_none_still_serves);
    suite_add_tcase(suite, arena);
    suite_add_tcase(suite, pool);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
