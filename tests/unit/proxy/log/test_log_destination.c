#include "proxy/log/access_log.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];
static char path[64];
static char other[80];
static struct log_section place;
static struct log_output *output;

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/sluice-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
    snprintf(other, sizeof(other), "%s.1", path);
    place = (struct log_section){.target = LOG_TO_FILE, .path = span_of_text(path)};
}

static void tear_down(void)
{
    log_output_close(output);
    log_output_stop();
    unlink(path);
    unlink(other);
    rmdir(folder);
}

static void open_log(void)
{
    ck_assert_int_eq(log_destination_open(&place, &output), STATUS_OK);
    ck_assert_ptr_nonnull(output);
}

static void write_line(const char *line)
{
    log_output_append(output, span_of_text(line));
    log_output_flush();
}

static void assert_file(const char *file, const char *expected)
{
    char bytes[256] = "";
    const int fd = open(file, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(read(fd, bytes, sizeof(bytes) - 1), 0);
    ck_assert_str_eq(bytes, expected);
    close(fd);
}

START_TEST(a_file_that_was_renamed_is_opened_anew)
{
    open_log();
    write_line("one\n");
    ck_assert_int_eq(rename(path, other), 0);
    write_line("two\n");
    log_destination_reopen(&place, output);
    write_line("three\n");
    assert_file(other, "one\ntwo\n");
    assert_file(path, "three\n");
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_anew_goes_on)
{
    open_log();
    ck_assert_int_eq(rename(path, other), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    log_destination_reopen(&place, output);
    write_line("still\n");
    assert_file(other, "still\n");
    rmdir(path);
}
END_TEST

START_TEST(a_place_that_cannot_be_opened_is_an_error)
{
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(log_destination_open(&place, &output), STATUS_IO);
    ck_assert_ptr_null(output);
    rmdir(path);
}
END_TEST

START_TEST(a_log_that_is_off_has_no_output)
{
    place.format = LOG_FORMAT_OFF;
    ck_assert_int_eq(log_destination_open(&place, &output), STATUS_OK);
    ck_assert_ptr_null(output);
    log_destination_reopen(&place, output);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/log_destination");
    TCase *tcase = tcase_create("place");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_file_that_was_renamed_is_opened_anew);
    tcase_add_test(tcase, a_file_that_cannot_be_opened_anew_goes_on);
    tcase_add_test(tcase, a_place_that_cannot_be_opened_is_an_error);
    tcase_add_test(tcase, a_log_that_is_off_has_no_output);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
