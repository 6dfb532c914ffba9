#include "simulation/log_reader.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "simulation/log_line.h"
#include "unit/simulation/log_support.h"

static struct log_blocks blocks;
static struct log_reader reader;

/* A log that holds @n times @line and then @rest. */
static void open_log(const char *line, size_t n, const char *rest)
{
    const int fd = memfd_create("log", MFD_CLOEXEC);
    FILE *file = fdopen(fd, "w");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < n; i++) {
        fputs(line, file);
    }
    fputs(rest, file);
    const int mine = dup(fd);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(lseek(mine, 0, SEEK_SET), 0);
    blocks = (struct log_blocks){.n_used = 0};
    log_reader_init(&reader, mine, &blocks);
}

static void close_log(void)
{
    log_reader_close(&reader);
    ck_assert_uint_eq(blocks.n_used, 0);
    log_blocks_close(&blocks);
}

static void check_line(const char *text)
{
    char *line = NULL;
    size_t len = 0;
    ck_assert_int_eq(log_reader_next(&reader, &line, &len), LOG_NEXT_LINE);
    ck_assert_span_eq(span_of(line, len), text);
}

/* How many of the next @n lines are @text: an assertion for each of many takes long. */
static size_t count_lines(const char *text, size_t n)
{
    size_t batch_size = 0;
    for (size_t i = 0; i < n; i++) {
        char *line = NULL;
        size_t len = 0;
        batch_size += log_reader_next(&reader, &line, &len) == LOG_NEXT_LINE &&
                      span_equals(span_of(line, len), span_of_text(text));
    }
    return batch_size;
}

static void check_end(void)
{
    char *line = NULL;
    size_t len = 0;
    ck_assert_int_eq(log_reader_next(&reader, &line, &len), LOG_NEXT_END);
    ck_assert_int_eq(log_reader_next(&reader, &line, &len), LOG_NEXT_END);
}

START_TEST(lines_end_with_or_without_a_carriage_return_and_the_last_with_nothing)
{
    open_log("one\r\n", 1, "two\n\nthree");
    check_line("one");
    check_line("two");
    check_line("");
    check_line("three");
    check_end();
    ck_assert_uint_eq(reader.n_lines, 4);
    close_log();
}
END_TEST

START_TEST(an_empty_log_has_no_line)
{
    open_log("", 0, "");
    check_end();
    close_log();
}
END_TEST

/* Blocks end in the middle of lines, at their end, and before it. */
START_TEST(lines_go_on_from_one_block_into_the_next)
{
    static const char *const LINES[] = {"0123456789abcde\n", "0123456789abcd\n",
                                        "0123456789abc\r\n"};
    static const char *const TEXTS[] = {"0123456789abcde", "0123456789abcd", "0123456789abc"};
    const size_t n = 3 * LOG_BLOCK_BYTES / strlen(LINES[_i]);
    open_log(LINES[_i], n, "end");
    ck_assert_uint_eq(count_lines(TEXTS[_i], n), n);
    check_line("end");
    check_end();
    ck_assert_uint_eq(reader.n_bytes, n * strlen(LINES[_i]) + 3);
    close_log();
}
END_TEST

START_TEST(a_block_stays_while_a_line_of_it_is_wanted)
{
    char *line = NULL;
    size_t len = 0;
    open_log("0123456789abcde\n", 3 * LOG_BLOCK_BYTES / 16, "");
    ck_assert_int_eq(log_reader_next(&reader, &line, &len), LOG_NEXT_LINE);
    struct log_block *first = reader.block;
    first->n_users++;
    const size_t n = 3 * LOG_BLOCK_BYTES / 16 - 1;
    ck_assert_uint_eq(count_lines("0123456789abcde", n), n);
    ck_assert_span_eq(span_of(line, len), "0123456789abcde");
    log_block_release(&blocks, first);
    check_end();
    close_log();
}
END_TEST

/* How often "0123456789abcdef" stands in a line: in less than a block, in one, and in several. */
static const size_t N_PIECES[] = {LOG_BLOCK_BYTES / 16 - 1, LOG_BLOCK_BYTES / 16,
                                  LOG_BLOCK_BYTES / 16 + 1, 3 * LOG_BLOCK_BYTES / 16,
                                  3 * LOG_BLOCK_BYTES / 16 + 5};

static void check_too_long(void)
{
    char *line = NULL;
    size_t len = 0;
    ck_assert_int_eq(log_reader_next(&reader, &line, &len), LOG_NEXT_TOO_LONG);
    ck_assert_uint_gt(len, LOG_LINE_BYTES_MAX);
    ck_assert_span_eq(span_of(line, 16), "0123456789abcdef");
}

START_TEST(what_is_longer_than_a_line_may_be_is_one_line)
{
    open_log("0123456789abcdef", N_PIECES[_i], "\nnext\n");
    check_too_long();
    check_line("next");
    check_end();
    ck_assert_uint_eq(reader.n_lines, 2);
    close_log();
}
END_TEST

START_TEST(what_is_too_long_may_end_with_the_log)
{
    open_log("0123456789abcdef", N_PIECES[_i], "");
    check_too_long();
    check_end();
    ck_assert_uint_eq(reader.n_bytes, 16 * N_PIECES[_i]);
    close_log();
}
END_TEST

START_TEST(to_peek_takes_nothing_away)
{
    const char *bytes = NULL;
    size_t len = 0;
    open_log("one\n", 2, "");
    ck_assert_int_eq(log_reader_peek(&reader, &bytes, &len), STATUS_OK);
    ck_assert_span_eq(span_of(bytes, len), "one\none\n");
    check_line("one");
    check_line("one");
    check_end();
    close_log();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trial/log_reader");
    TCase *all = tcase_create("read");
    tcase_add_test(all, lines_end_with_or_without_a_carriage_return_and_the_last_with_nothing);
    tcase_add_test(all, an_empty_log_has_no_line);
    tcase_add_loop_test(all, lines_go_on_from_one_block_into_the_next, 0, 3);
    tcase_add_test(all, a_block_stays_while_a_line_of_it_is_wanted);
    tcase_add_loop_test(all, what_is_longer_than_a_line_may_be_is_one_line, 0, 5);
    tcase_add_loop_test(all, what_is_too_long_may_end_with_the_log, 0, 5);
    tcase_add_test(all, to_peek_takes_nothing_away);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
