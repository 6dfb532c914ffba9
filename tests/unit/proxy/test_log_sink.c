#include "proxy/log_sink.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[32];
static char path[64];
static struct log_section place;
static struct log_sink sink;
static int fd;

static void open_place(enum log_target target)
{
    place = (struct log_section){.target = target, .path = span_of_text(path)};
    ck_assert_int_eq(log_place_open(&place, &fd), STATUS_OK);
    log_sink_init(&sink, &place, fd);
}

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/sluice-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
}

static void tear_down(void)
{
    char other[80];
    snprintf(other, sizeof(other), "%s.1", path);
    log_place_close(fd);
    unlink(path);
    unlink(other);
    rmdir(folder);
}

static size_t write_lines(const char *lines)
{
    const char *why;
    return log_sink_write(&sink, span_of_text(lines), &why).len;
}

static void assert_file(const char *file, const char *expected)
{
    char bytes[256] = "";
    const int read_fd = open(file, O_RDONLY);
    ck_assert_int_ge(read_fd, 0);
    ck_assert_int_ge(read(read_fd, bytes, sizeof(bytes) - 1), 0);
    ck_assert_str_eq(bytes, expected);
    close(read_fd);
}

START_TEST(a_file_is_appended_to_and_opened_anew_under_the_same_number)
{
    char other[80];
    snprintf(other, sizeof(other), "%s.1", path);
    open_place(LOG_TO_FILE);
    ck_assert_uint_eq(write_lines("one\n"), 0);
    ck_assert_int_eq(rename(path, other), 0);
    ck_assert_uint_eq(write_lines("two\n"), 0);
    log_place_reopen(&place, fd);
    ck_assert_uint_eq(write_lines("three\n"), 0);
    assert_file(other, "one\ntwo\n");
    assert_file(path, "three\n");
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_anew_goes_on)
{
    char other[80];
    snprintf(other, sizeof(other), "%s.1", path);
    open_place(LOG_TO_FILE);
    ck_assert_int_eq(rename(path, other), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    log_place_reopen(&place, fd);
    ck_assert_uint_eq(write_lines("still\n"), 0);
    assert_file(other, "still\n");
    rmdir(path);
}
END_TEST

START_TEST(a_named_pipe_that_nobody_reads_is_an_error_at_once)
{
    place = (struct log_section){.target = LOG_TO_FILE, .path = span_of_text(path)};
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(log_place_open(&place, &fd), STATUS_IO);
    ck_assert_int_eq(fd, -1);
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
    open_place(LOG_TO_SYSLOG);
    ck_assert_uint_eq(write_lines("a=1 b=2\nc=3\n"), 0);
    assert_datagram(listening, "a=1 b=2");
    assert_datagram(listening, "c=3");
    close(listening);
}
END_TEST

START_TEST(a_syslog_that_comes_later_or_again_is_found)
{
    open_place(LOG_TO_SYSLOG);
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

START_TEST(a_syslog_that_does_not_read_loses_lines_and_nobody_waits)
{
    const int listening = listen_as_syslog();
    unsigned n_taken = 0;
    open_place(LOG_TO_SYSLOG);
    while (write_lines("line\n") == 0) {
        ck_assert_uint_lt(++n_taken, 100000);
    }
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
    Suite *suite = suite_create("proxy/log_sink");
    TCase *tcase = tcase_create("sink");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_file_is_appended_to_and_opened_anew_under_the_same_number);
    tcase_add_test(tcase, a_file_that_cannot_be_opened_anew_goes_on);
    tcase_add_test(tcase, a_named_pipe_that_nobody_reads_is_an_error_at_once);
    tcase_add_test(tcase, syslog_gets_each_line_as_a_datagram);
    tcase_add_test(tcase, a_syslog_that_comes_later_or_again_is_found);
    tcase_add_test(tcase, a_syslog_that_does_not_read_loses_lines_and_nobody_waits);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
