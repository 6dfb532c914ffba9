#include "base/log_output.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { LINE_BYTES = 1000, READ_BYTES = 64 * 1024 * 1024, THREADS = 4 };

static int fds[2];       /* a pipe that is an output of the access log */
static int error_fds[2]; /* stderr, while a test runs */
static int stderr_before;
static struct log_output *output;
static char *bytes; /* that were read */

static void set_up(void)
{
    struct log_sink sink;
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(pipe(error_fds), 0);
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    stderr_before = dup(STDERR_FILENO);
    dup2(error_fds[1], STDERR_FILENO);
    close(error_fds[1]);
    ck_assert_int_eq(log_output_start(), STATUS_OK);
    log_sink_of_fd(&sink, fds[1]);
    ck_assert_int_eq(log_output_new(&sink, &output), STATUS_OK);
    bytes = malloc(READ_BYTES);
    ck_assert_ptr_nonnull(bytes);
}

static void tear_down(void)
{
    close(error_fds[0]); /* blocked threads go on */
    close(fds[0]);
    log_output_stop();
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    free(bytes);
}

/* What comes up to and with a line that contains @last, as text. */
static const char *read_through(int fd, const char *last)
{
    size_t len = 0;
    bytes[0] = '\0';
    for (;;) {
        const char *found = strstr(bytes, last);
        if (found != NULL && strchr(found, '\n') != NULL) {
            return bytes;
        }
        const ssize_t n = read(fd, bytes + len, READ_BYTES - 1 - len);
        ck_assert_int_gt(n, 0);
        len += (size_t)n;
        bytes[len] = '\0';
    }
}

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

/* Of the lines that say so in @text, the sum of what was lost of the log @name. */
static uint64_t sum_lost(const char *text, const char *name)
{
    char start[64];
    uint64_t sum = 0;
    snprintf(start, sizeof(start), "msg=\"lines lost\" log=%s lines=", name);
    for (const char *at = strstr(text, start); at != NULL; at = strstr(at + 1, start)) {
        sum += strtoull(at + strlen(start), NULL, 10);
    }
    return sum;
}

static void append_long(unsigned n)
{
    char line[LINE_BYTES];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    for (unsigned i = 0; i < n; i++) {
        log_output_append(output, span_of(line, sizeof(line)));
    }
}

START_TEST(lines_are_written_in_order)
{
    log_output_append(output, SPAN("one\n"));
    log_output_append(output, SPAN("two\nthree\n"));
    log_output_append(output, SPAN("four\n"));
    ck_assert_str_eq(read_through(fds[0], "four"), "one\ntwo\nthree\nfour\n");
}
END_TEST

START_TEST(what_the_queue_of_the_access_log_has_no_room_for_is_reported)
{
    const unsigned n_lines = 12000; /* the two buffers hold 8,388 */
    append_long(n_lines);
    const uint64_t n_lost = log_output_lost(LOG_KIND_ACCESS);
    ck_assert_uint_gt(n_lost, 3000);
    for (unsigned n_read = 0; n_read < (n_lines - n_lost) * LINE_BYTES;) {
        const ssize_t n = read(fds[0], bytes, READ_BYTES);
        ck_assert_int_gt(n, 0);
        n_read += (unsigned)n;
    }
    uint64_t n_reported = 0;
    while (n_reported < n_lost) { /* at once, and the rest a second later */
        const char *text = read_through(error_fds[0], "lines lost");
        ck_assert_ptr_nonnull(strstr(text, "level=warn mod=log "));
        ck_assert_ptr_nonnull(strstr(text, " err=\"the reader is too slow\"\n"));
        n_reported += sum_lost(text, "access");
    }
    ck_assert_uint_eq(n_reported, n_lost);
    ck_assert_uint_eq(log_output_lost(LOG_KIND_PROGRAM), 0);
    log_output_append(output, SPAN("again\n"));
    ck_assert_ptr_nonnull(read_through(fds[0], "again"));
}
END_TEST

START_TEST(what_the_queue_of_the_program_has_no_room_for_is_reported_where_it_is_missing)
{
    const unsigned n_lines = 10000;
    for (unsigned i = 0; i < n_lines; i++) {
        log_info("test", "line", "i=%u", i);
    }
    const uint64_t n_lost = log_output_lost(LOG_KIND_PROGRAM);
    ck_assert_uint_gt(n_lost, 0);
    /* The thread may have written a part before the queue was full: then there is more than one
     * report, and lines follow the first. */
    size_t len = 0;
    do {
        const ssize_t n = read(error_fds[0], bytes + len, READ_BYTES - 1 - len);
        ck_assert_int_gt(n, 0);
        len += (size_t)n;
        bytes[len] = '\0';
    } while (bytes[len - 1] != '\n' ||
             count(bytes, "msg=line") + sum_lost(bytes, "program") < n_lines);
    ck_assert_uint_eq(sum_lost(bytes, "program"), n_lost);
    ck_assert_uint_eq(count(bytes, "msg=line") + n_lost, n_lines);
    log_info("test", "again", "%s", "");
    ck_assert_uint_eq(sum_lost(read_through(error_fds[0], "msg=again"), "program"), 0);
}
END_TEST

START_TEST(lines_that_cannot_be_written_are_counted_and_reported)
{
    close(fds[0]);
    signal(SIGPIPE, SIG_DFL); /* the thread takes no signals */
    log_output_append(output, SPAN("one\ntwo\n"));
    const char *text = read_through(error_fds[0], "lines lost");
    ck_assert_ptr_nonnull(strstr(text, "log=access lines=2 err=\"Broken pipe\"\n"));
    ck_assert_uint_eq(log_output_lost(LOG_KIND_ACCESS), 2);
}
END_TEST

START_TEST(after_a_part_of_a_line_the_next_one_starts_afresh)
{
    char file[] = "/tmp/sluice-log-XXXXXX";
    struct log_sink sink;
    const int file_fd = mkstemp(file);
    ck_assert_int_ge(file_fd, 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
    const struct rlimit large = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    log_sink_of_fd(&sink, file_fd);
    log_output_close(output);
    ck_assert_int_eq(log_output_new(&sink, &output), STATUS_OK);
    log_output_append(output, SPAN("one\ntwo\nthree\n"));
    log_output_flush();
    ck_assert_uint_eq(log_output_lost(LOG_KIND_ACCESS), 1);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &large), 0);
    log_output_append(output, SPAN("four\n"));
    log_output_flush();
    ck_assert_int_eq(pread(file_fd, bytes, READ_BYTES, 0), 16);
    bytes[16] = '\0';
    ck_assert_str_eq(bytes, "one\ntwo\nth\nfour\n");
    unlink(file);
}
END_TEST

START_TEST(a_stop_waits_for_a_second_and_nothing_blocks_afterwards)
{
    for (unsigned i = 0; i < 2000; i++) {
        log_info("test", "line", "i=%u", i);
    }
    const uint64_t started_us = clock_monotonic_us();
    log_output_stop();
    const uint64_t us = clock_monotonic_us() - started_us;
    ck_assert_uint_ge(us, 900 * 1000);
    ck_assert_uint_lt(us, 5 * 1000 * 1000);
    for (unsigned i = 0; i < 10000; i++) {
        log_info("test", "dropped", "i=%u", i);
    }
}
END_TEST

START_TEST(a_stop_writes_everything_for_a_reader_that_reads)
{
    log_info("test", "first", "%s", "");
    log_info("test", "last", "%s", "");
    log_output_append(output, SPAN("line\n"));
    log_output_stop();
    struct pollfd ready = {.fd = error_fds[0], .events = POLLIN};
    ck_assert_int_eq(poll(&ready, 1, 0), 1);
    ck_assert_ptr_nonnull(strstr(read_through(error_fds[0], "last"), "msg=first"));
    ck_assert_str_eq(read_through(fds[0], "line"), "line\n");
}
END_TEST

START_TEST(an_output_whose_reader_stands_still_closes_after_a_second)
{
    const unsigned n_lines = 1000;
    append_long(n_lines);
    const uint64_t started_us = clock_monotonic_us();
    log_output_close(output);
    ck_assert_uint_lt(clock_monotonic_us() - started_us, 900 * 1000);
    size_t len = 0;
    ssize_t n;
    struct pollfd ready = {.fd = fds[1], .events = POLLOUT};
    while (poll(&ready, 1, 10) == 0) { /* until it is closed: POLLNVAL */
    }
    while ((n = read(fds[0], bytes + len, READ_BYTES - len)) > 0) {
        len += (size_t)n;
    }
    ck_assert_uint_eq(len / LINE_BYTES + log_output_lost(LOG_KIND_ACCESS), n_lines);
}
END_TEST

START_TEST(where_stdout_is_stderr_one_thread_writes_both)
{
    struct log_output *shared;
    struct log_output *other;
    const int stdout_before = dup(STDOUT_FILENO);
    dup2(fds[1], STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    ck_assert_int_eq(log_output_of_stdout(&shared), STATUS_OK);
    ck_assert_int_eq(log_output_of_stdout(&other), STATUS_OK);
    ck_assert_ptr_eq(shared, other);
    log_output_close(shared); /* stays */
    for (unsigned i = 0; i < 100; i++) {
        log_info("test", "line", "i=%u", i);
        log_output_append(shared, SPAN("access\n"));
    }
    log_output_flush();
    log_output_append(shared, SPAN("last\n"));
    const char *text = read_through(error_fds[0], "\nlast");
    ck_assert_uint_eq(count(text, "access\n"), 100);
    ck_assert_uint_eq(count(text, "time="), 100);
    dup2(stdout_before, STDOUT_FILENO);
    close(stdout_before);
}
END_TEST

/* --- many threads --- */

static void *append_many(void *name)
{
    for (unsigned i = 0; i < 1000; i++) {
        log_output_append(output, span_of_text(name));
        log_info("test", "line", "%s", "");
    }
    return NULL;
}

START_TEST(lines_of_many_threads_stay_whole)
{
    static char names[THREADS][4] = {"aa\n", "bb\n", "cc\n", "dd\n"};
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, append_many, names[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    log_output_append(output, SPAN("last\n"));
    const char *text = read_through(fds[0], "last");
    ck_assert_uint_eq(strlen(text), THREADS * 1000 * 3 + 5);
    for (const char *line = text; line[0] != 'l'; line += 3) {
        ck_assert(line[0] == line[1] && line[2] == '\n');
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/log_output");
    TCase *tcase = tcase_create("output");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, lines_are_written_in_order);
    tcase_add_test(tcase, what_the_queue_of_the_access_log_has_no_room_for_is_reported);
    tcase_add_test(tcase,
                   what_the_queue_of_the_program_has_no_room_for_is_reported_where_it_is_missing);
    tcase_add_test(tcase, lines_that_cannot_be_written_are_counted_and_reported);
    tcase_add_test(tcase, after_a_part_of_a_line_the_next_one_starts_afresh);
    tcase_add_test(tcase, a_stop_waits_for_a_second_and_nothing_blocks_afterwards);
    tcase_add_test(tcase, a_stop_writes_everything_for_a_reader_that_reads);
    tcase_add_test(tcase, an_output_whose_reader_stands_still_closes_after_a_second);
    tcase_add_test(tcase, where_stdout_is_stderr_one_thread_writes_both);
    tcase_add_test(tcase, lines_of_many_threads_stay_whole);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
