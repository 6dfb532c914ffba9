#include "base/log_sink.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[32];
static char path[64];
static struct log_sink sink;

static void open_syslog(void)
{
    ck_assert_int_eq(log_sink_open_syslog(&sink, span_of_text(path)), STATUS_OK);
}

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/sluice-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
}

static void tear_down(void)
{
    log_sink_close(&sink);
    unlink(path);
    rmdir(folder);
}

/* What of @lines is not written, as errno says why. */
static size_t write_lines(const char *lines)
{
    struct span rest = span_of_text(lines);
    while (rest.len > 0) {
        const ssize_t n = log_sink_write(&sink, rest);
        if (n < 0) {
            break;
        }
        rest = span_of(rest.data + n, rest.len - (size_t)n);
    }
    return rest.len;
}

/* --- streams --- */

START_TEST(a_named_pipe_that_nobody_reads_is_an_error_at_once)
{
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(log_sink_open_file(&sink, path), STATUS_IO);
    ck_assert_int_eq(errno, ENXIO);
}
END_TEST

START_TEST(a_file_is_appended_to_with_one_write)
{
    static char many[1024 * 1024];
    memset(many, '\n', sizeof(many));
    ck_assert_int_eq(log_sink_open_file(&sink, path), STATUS_OK);
    ck_assert_int_eq(log_sink_write(&sink, span_of(many, sizeof(many))), sizeof(many));
    log_sink_close(&sink);
    ck_assert_int_eq(log_sink_open_file(&sink, path), STATUS_OK);
    ck_assert_int_eq(log_sink_write(&sink, SPAN("line\n")), 5);
    struct stat stat;
    ck_assert_int_eq(fstat(sink.fd, &stat), 0);
    ck_assert_int_eq(stat.st_size, sizeof(many) + 5);
}
END_TEST

START_TEST(a_pipe_gets_whole_lines_of_at_most_pipe_buf_bytes_with_a_write)
{
    static char lines[2 * PIPE_BUF];
    const struct span all = span_of(lines, sizeof(lines));
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    log_sink_of_fd(&sink, fds[1]);
    memset(lines, 'x', sizeof(lines));
    lines[99] = '\n';
    lines[PIPE_BUF - 1] = '\n';
    lines[sizeof(lines) - 1] = '\n';
    ck_assert_int_eq(log_sink_write(&sink, all), PIPE_BUF);
    lines[PIPE_BUF - 1] = 'x';
    ck_assert_int_eq(log_sink_write(&sink, all), 100);
    lines[99] = 'x';
    ck_assert_int_eq(log_sink_write(&sink, all), sizeof(lines));
    close(fds[0]);
}
END_TEST

START_TEST(two_descriptors_of_one_pipe_are_the_same)
{
    struct log_sink other;
    int fds[2];
    int others[2];
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(pipe(others), 0);
    log_sink_of_fd(&sink, fds[1]);
    log_sink_of_fd(&other, dup(fds[1]));
    ck_assert(log_sink_is_same(&sink, &other));
    log_sink_close(&other);
    log_sink_of_fd(&other, others[1]);
    ck_assert(!log_sink_is_same(&sink, &other));
    log_sink_close(&other);
    close(fds[0]);
    close(others[0]);
}
END_TEST

/* --- syslog --- */

static int listen_as_syslog(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int listening = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path, path, sizeof(path));
    ck_assert_int_eq(bind(listening, (const struct sockaddr *)&address, sizeof(address)), 0);
    return listening;
}

static void assert_datagram(int listening, const char *line)
{
    char bytes[256] = "";
    char tag[32];
    ck_assert_int_gt(recv(listening, bytes, sizeof(bytes) - 1, 0), 0);
    snprintf(tag, sizeof(tag), " sluice[%d]: ", (int)getpid());
    ck_assert_int_eq(strncmp(bytes, "<30>", 4), 0);
    const char *message = strstr(bytes, tag);
    ck_assert_ptr_nonnull(message);
    ck_assert_int_eq(message - bytes, sizeof("<30>Nov 21 09:51:38") - 1);
    ck_assert_str_eq(message + strlen(tag), line);
}

START_TEST(syslog_gets_each_line_as_a_datagram)
{
    const int listening = listen_as_syslog();
    open_syslog();
    ck_assert_uint_eq(write_lines("a=1 b=2\nc=3\n"), 0);
    assert_datagram(listening, "a=1 b=2");
    assert_datagram(listening, "c=3");
    close(listening);
}
END_TEST

START_TEST(a_syslog_that_comes_later_or_again_is_found)
{
    open_syslog();
    ck_assert_uint_eq(write_lines("lost\n"), 5);
    int listening = listen_as_syslog();
    ck_assert_uint_eq(write_lines("one\n"), 0);
    assert_datagram(listening, "one");
    close(listening);
    unlink(path);
    ck_assert_uint_eq(write_lines("lost\n"), 5);
    listening = listen_as_syslog();
    ck_assert_uint_eq(write_lines("two\n"), 0);
    assert_datagram(listening, "two");
    close(listening);
}
END_TEST

START_TEST(a_syslog_that_does_not_read_blocks_no_write)
{
    const int listening = listen_as_syslog();
    unsigned n_taken = 0;
    open_syslog();
    while (write_lines("line\n") == 0) {
        ck_assert_uint_lt(++n_taken, 100000);
    }
    ck_assert_int_eq(errno, EAGAIN);
    for (unsigned i = 0; i < n_taken; i++) {
        assert_datagram(listening, "line");
    }
    ck_assert_uint_eq(write_lines("again\n"), 0);
    assert_datagram(listening, "again");
    close(listening);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/log_sink");
    TCase *tcase = tcase_create("sink");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_named_pipe_that_nobody_reads_is_an_error_at_once);
    tcase_add_test(tcase, a_file_is_appended_to_with_one_write);
    tcase_add_test(tcase, a_pipe_gets_whole_lines_of_at_most_pipe_buf_bytes_with_a_write);
    tcase_add_test(tcase, two_descriptors_of_one_pipe_are_the_same);
    tcase_add_test(tcase, syslog_gets_each_line_as_a_datagram);
    tcase_add_test(tcase, a_syslog_that_comes_later_or_again_is_found);
    tcase_add_test(tcase, a_syslog_that_does_not_read_blocks_no_write);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
