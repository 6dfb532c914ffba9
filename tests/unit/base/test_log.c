#include "base/log.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* Run @write with stderr in a file and return what came out. */
static char *logged(void (*write_lines)(void))
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);

    ck_assert_ptr_nonnull(file);
    dup2(fileno(file), STDERR_FILENO);
    write_lines();
    dup2(before, STDERR_FILENO);
    close(before);

    size_t bytes = 1 << 20;
    char *text = calloc(1, bytes);
    rewind(file);
    size_t len = fread(text, 1, bytes - 1, file);
    text[len] = '\0';
    fclose(file);
    return text;
}

/* What stands behind the time, which is of a fixed length. */
static const char *behind_time(const char *line)
{
    static const char SHAPE[] = "time=dddd-dd-ddTdd:dd:dd.dddZ ";

    for (size_t i = 0; i < sizeof(SHAPE) - 1; i++) {
        ck_assert_msg(SHAPE[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == SHAPE[i],
                      "%s", line);
    }
    return line + sizeof(SHAPE) - 1;
}

static void one_of_each(void)
{
    log_error("app", "cannot start", "%s", "");
    log_warn("store.redis", "link lost", "err=%s retry_ms=%d", "timeout", 250);
    log_info("net", "listening", "address=%s", "127.0.0.1:80");
    log_debug("net", "unseen", "");
}

START_TEST(lines_are_logfmt_down_to_the_level)
{
    char *text = logged(one_of_each);
    char *rest = text;

    ck_assert_str_eq(behind_time(strsep(&rest, "\n")), "level=error mod=app msg=\"cannot start\"");
    ck_assert_str_eq(behind_time(strsep(&rest, "\n")),
                     "level=warn mod=store.redis msg=\"link lost\" err=timeout retry_ms=250");
    ck_assert_str_eq(behind_time(strsep(&rest, "\n")),
                     "level=info mod=net msg=listening address=127.0.0.1:80");
    ck_assert_str_eq(rest, "");
    free(text);
}
END_TEST

static int n_evaluated;

static int evaluated(void)
{
    return ++n_evaluated;
}

static void below_the_level(void)
{
    log_set_level(LOG_WARN);
    log_info("test", "dropped", "n=%d", evaluated());
    log_write(LOG_INFO, "test", "dropped too", "");
    log_set_level(LOG_DEBUG);
    log_debug("test", "kept", "n=%d", evaluated());
}

START_TEST(below_the_level_arguments_are_not_evaluated)
{
    char *text = logged(below_the_level);

    ck_assert_int_eq(n_evaluated, 1);
    ck_assert_str_eq(behind_time(text), "level=debug mod=test msg=kept n=1\n");
    ck_assert(log_is_on(LOG_DEBUG));
    free(text);
}
END_TEST

static void hostile_and_long(void)
{
    static char huge[10000];

    memset(huge, 'x', sizeof(huge) - 1);
    log_info("test", "a\nb", "raw=%s", "c\nlevel=error\x7f");
    log_info("test", "long", "text=%s", huge);
    log_info("test", huge, "text=short");
}

START_TEST(a_call_is_one_line_whatever_it_is_given)
{
    char *text = logged(hostile_and_long);
    char *rest = text;

    ck_assert_str_eq(behind_time(strsep(&rest, "\n")),
                     "level=info mod=test msg=\"a\\x0ab\" raw=c?level=error?");
    size_t len = strlen(behind_time(strsep(&rest, "\n")));
    ck_assert_uint_lt(len, 4096);
    ck_assert_uint_gt(len, 4000);
    behind_time(strsep(&rest, "\n"));
    ck_assert_str_eq(rest, "");
    free(text);
}
END_TEST

enum { THREADS = 4, LINES = 500 };

static void *write_many(void *name)
{
    for (int i = 0; i < LINES; i++) {
        log_info(name, "many", "i=%d", i);
    }
    return NULL;
}

static void from_threads(void)
{
    static char names[THREADS][2] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, names[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

START_TEST(lines_of_many_threads_do_not_mix)
{
    char *text = logged(from_threads);
    char *rest = text;
    size_t n_lines = 0;

    while (rest[0] != '\0') {
        const char *line = behind_time(strsep(&rest, "\n"));
        ck_assert(span_starts_with(span_of_text(line), SPAN("level=info mod=")));
        ck_assert(strncmp(line + 16, " msg=many i=", 12) == 0);
        n_lines++;
    }
    ck_assert_uint_eq(n_lines, THREADS * LINES);
    free(text);
}
END_TEST

START_TEST(a_gate_lets_one_a_second_through_and_counts_the_others)
{
    struct log_gate gate = {0};
    uint64_t n_held = 99;
    ck_assert(log_gate_pass(&gate, 5000000, &n_held));
    ck_assert_uint_eq(n_held, 0);
    ck_assert(!log_gate_pass(&gate, 5000000, &n_held));
    ck_assert(!log_gate_pass(&gate, 5999999, &n_held));
    ck_assert(log_gate_pass(&gate, 6000000, &n_held));
    ck_assert_uint_eq(n_held, 2);
    ck_assert(log_gate_pass(&gate, 7000000, &n_held));
    ck_assert_uint_eq(n_held, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/log");
    TCase *all = tcase_create("log");

    tcase_add_test(all, lines_are_logfmt_down_to_the_level);
    tcase_add_test(all, below_the_level_arguments_are_not_evaluated);
    tcase_add_test(all, a_call_is_one_line_whatever_it_is_given);
    tcase_add_test(all, lines_of_many_threads_do_not_mix);
    tcase_add_test(all, a_gate_lets_one_a_second_through_and_counts_the_others);
    suite_add_tcase(suite, all);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
