#include "store/memory/memory_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_LINES = 1000, N_BLOCKS_MAX = 400, N_STEPS = 100000 };

static _Alignas(64) char memory[N_LINES * (MEMORY_LINE_BYTES + 1)];
static struct memory_heap heap;

static void setup(void)
{
    memset(memory, 0, sizeof(memory));
    memory_heap_init(&heap, memory, sizeof(memory));
}

struct block {
    uint32_t line;
    unsigned order;
    int mark;
};

/* Every byte of the block says whose it is. */
static void mark(const struct block *block)
{
    memset(memory_heap_bytes(&heap, block->line), block->mark,
           (size_t)MEMORY_LINE_BYTES << block->order);
}

static bool is_whole(const struct block *block)
{
    const char *bytes = memory_heap_bytes(&heap, block->line);
    const size_t n = (size_t)MEMORY_LINE_BYTES << block->order;
    for (size_t i = 0; i < n; i += MEMORY_LINE_BYTES / 2) {
        if (bytes[i] != (char)block->mark) {
            return false;
        }
    }
    return bytes[n - 1] == (char)block->mark;
}

START_TEST(an_order_is_the_least_that_holds_the_bytes)
{
    static const struct {
        size_t bytes;
        unsigned order;
    } CASES[] = {{1, 0}, {64, 0}, {65, 1}, {128, 1}, {129, 2}, {4096, 6}, {4097, 7}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        ck_assert_uint_eq(memory_heap_order(CASES[i].bytes), CASES[i].order);
    }
}
END_TEST

START_TEST(all_lines_can_be_taken_and_come_back_as_large_blocks)
{
    static uint32_t lines[N_LINES];
    for (size_t i = 0; i < N_LINES; i++) {
        lines[i] = memory_heap_take(&heap, 0);
        ck_assert_uint_lt(lines[i], N_LINES);
    }
    ck_assert_uint_eq(memory_heap_take(&heap, 0), MEMORY_NO_LINE);
    ck_assert_uint_eq(heap.n_taken, N_LINES);
    for (size_t i = 0; i < N_LINES; i++) {
        memory_heap_give(&heap, lines[(i * 7) % N_LINES]);
    }
    ck_assert_uint_eq(heap.n_taken, 0);
    ck_assert_uint_ne(memory_heap_take(&heap, 9), MEMORY_NO_LINE);
    ck_assert_uint_eq(memory_heap_take(&heap, 9), MEMORY_NO_LINE);
    ck_assert_uint_eq(memory_heap_take(&heap, MEMORY_ORDERS), MEMORY_NO_LINE);
}
END_TEST

START_TEST(what_is_held_is_not_taken_until_it_is_given_back)
{
    const uint32_t taken = memory_heap_take(&heap, 9);
    memory_heap_hold(&heap, taken);
    ck_assert_uint_eq(heap.n_taken, 0);
    ck_assert_uint_eq(memory_heap_take(&heap, 9), MEMORY_NO_LINE);
    memory_heap_give(&heap, taken);
    memory_heap_hold(&heap, taken);
    ck_assert_uint_eq(memory_heap_take(&heap, 9), MEMORY_NO_LINE);
    memory_heap_give(&heap, taken);
    ck_assert_uint_eq(memory_heap_take(&heap, 9), taken);
}
END_TEST

static struct block blocks[N_BLOCKS_MAX];
static size_t n_blocks;

static void take_one(int step)
{
    struct block block = {.order = (unsigned)rand() % 6, .mark = step % 127 + 1};
    block.line = n_blocks < N_BLOCKS_MAX ? memory_heap_take(&heap, block.order) : MEMORY_NO_LINE;
    if (block.line != MEMORY_NO_LINE) {
        ck_assert_uint_eq(block.line % (1U << block.order), 0);
        mark(&block);
        blocks[n_blocks++] = block;
    }
}

static void extend_one(void)
{
    struct block *block = &blocks[(size_t)rand() % n_blocks];
    ck_assert(is_whole(block));
    const uint32_t line = memory_heap_extend(&heap, block->line);
    if (line != MEMORY_NO_LINE) {
        block->line = line;
        block->order++;
        mark(block);
    }
}

static void give_one(void)
{
    const size_t i = (size_t)rand() % n_blocks;
    ck_assert(is_whole(&blocks[i]));
    const uint32_t last = blocks[i].line + (1U << blocks[i].order) - 1;
    ck_assert_uint_eq(memory_heap_block_at(&heap, last), blocks[i].line);
    memory_heap_give(&heap, blocks[i].line);
    blocks[i] = blocks[--n_blocks];
}

START_TEST(blocks_never_overlap_whatever_is_taken_extended_and_given_back)
{
    srand(1);
    n_blocks = 0;
    for (int step = 0; step < N_STEPS; step++) {
        const int what = rand() % 8;
        if (what < 4 || n_blocks == 0) {
            take_one(step);
        } else if (what == 4) {
            extend_one();
        } else {
            give_one();
        }
    }
    while (n_blocks > 0) {
        give_one();
    }
    ck_assert_uint_eq(heap.n_taken, 0);
    ck_assert_uint_ne(memory_heap_take(&heap, 9), MEMORY_NO_LINE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/memory_heap");
    TCase *tcase = tcase_create("blocks");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, an_order_is_the_least_that_holds_the_bytes);
    tcase_add_test(tcase, all_lines_can_be_taken_and_come_back_as_large_blocks);
    tcase_add_test(tcase, what_is_held_is_not_taken_until_it_is_given_back);
    tcase_add_test(tcase, blocks_never_overlap_whatever_is_taken_extended_and_given_back);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
