#include "admin/child.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"

enum { MIB = 1024 * 1024 };

/* Sanitizers need more address space than any limit gives them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_LIMIT "unlimited"
#else
#define MEMORY_LIMIT "524288" /* KiB */
#endif

struct story {
    struct child_set set;
    struct loop *loop;
    struct child *child;
    char *output;
    size_t output_bytes;
    char errors[CHILD_ERRORS_BYTES_MAX + 1];
    enum child_end end;
    int code;
    size_t n_ends;
    size_t bytes_left; /* of the input, in pieces */
};

static void on_end(void *context, struct child_outcome *outcome)
{
    struct story *story = context;
    story->n_ends++;
    story->output = outcome->output;
    story->output_bytes = outcome->output_bytes;
    outcome->output = NULL;
    memcpy(story->errors, outcome->errors.data, outcome->errors.len);
    story->errors[outcome->errors.len] = '\0';
    story->end = outcome->end;
    story->code = outcome->code;
    loop_stop(story->loop);
}

static void write_more(void *context)
{
    static const char PIECE[10000];
    struct story *story = context;
    while (story->bytes_left > 0) {
        const size_t n = story->bytes_left < sizeof(PIECE) ? story->bytes_left : sizeof(PIECE);
        story->bytes_left -= n;
        if (!child_write(story->child, span_of(PIECE, n))) {
            return;
        }
    }
    child_end_input(story->child);
}

static struct child_order order_of(struct story *story, char *const *arguments)
{
    return (struct child_order){
        .program = "/bin/sh",
        .arguments = arguments,
        .output_bytes_max = MIB,
        .memory_bytes = (uint64_t)512 * MIB,
        .cpu_s = 20,
        .time_us = 20 * 1000000,
        .on_room = write_more,
        .on_end = on_end,
        .context = story,
    };
}

static void begin(struct story *story)
{
    memset(story, 0, sizeof(*story));
    ck_assert_int_eq(loop_new(&story->loop), STATUS_OK);
    child_set_init(&story->set, story->loop);
}

static void end(struct story *story)
{
    child_set_close(&story->set);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* not even a zombie is left */
    ck_assert_int_eq(errno, ECHILD);
    loop_free(story->loop);
    free(story->output);
}

static void start(struct story *story, const struct child_order *order)
{
    ck_assert_int_eq(child_start(&story->set, order, &story->child), STATUS_OK);
}

static void run(struct story *story, const char *script)
{
    char *const arguments[] = {"sh", "-c", (char *)(uintptr_t)script, NULL};
    const struct child_order order = order_of(story, arguments);
    start(story, &order);
    ck_assert_int_eq(loop_run(story->loop), STATUS_OK);
    ck_assert_uint_eq(story->n_ends, 1);
}

START_TEST(its_output_errors_and_status_are_reported)
{
    struct story story;
    begin(&story);
    run(&story, "echo out; echo err >&2; cat; exit 3"); /* its input is empty */
    ck_assert_int_eq(story.end, CHILD_EXITED);
    ck_assert_int_eq(story.code, 3);
    ck_assert_uint_eq(story.output_bytes, 4);
    ck_assert_int_eq(memcmp(story.output, "out\n", 4), 0);
    ck_assert_str_eq(story.errors, "err\n");
    end(&story);
}
END_TEST

START_TEST(a_long_input_passes_with_back_pressure)
{
    struct story story;
    char *const arguments[] = {"sh", "-c", "wc -c", NULL};
    begin(&story);
    story.bytes_left = 5 * MIB;
    struct child_order order = order_of(&story, arguments);
    order.has_input = true;
    start(&story, &order);
    write_more(&story);
    ck_assert_uint_gt(story.bytes_left, 0); /* more than the kernel keeps */
    ck_assert_int_eq(loop_run(story.loop), STATUS_OK);
    ck_assert_uint_eq(strtoul(story.output, NULL, 10), 5 * MIB);
    end(&story);
}
END_TEST

START_TEST(input_that_is_not_read_does_not_stop_it)
{
    struct story story;
    char *const arguments[] = {"sh", "-c", "exit 7", NULL};
    begin(&story);
    story.bytes_left = 5 * MIB;
    struct child_order order = order_of(&story, arguments);
    order.has_input = true;
    start(&story, &order);
    write_more(&story);
    ck_assert_int_eq(loop_run(story.loop), STATUS_OK);
    ck_assert_int_eq(story.code, 7);
    end(&story);
}
END_TEST

START_TEST(files_are_inherited_and_nothing_else)
{
    struct story story;
    char *const arguments[] = {
        "sh", "-c", "cat /proc/self/fd/3 /proc/self/fd/4; ls /proc/self/fd | tr '\\n' ' '", NULL};
    begin(&story);
    const int files[] = {child_file_of(SPAN("one ")), child_file_of(SPAN("two "))};
    ck_assert_int_gt(files[0], CHILD_FIRST_FILE + CHILD_FILES_MAX - 1);
    struct child_order order = order_of(&story, arguments);
    order.files = files;
    order.n_files = ARRAY_LEN(files);
    start(&story, &order);
    child_file_close(files[0]);
    child_file_close(files[1]);
    ck_assert_int_eq(loop_run(story.loop), STATUS_OK);
    const struct span output = span_of(story.output, story.output_bytes);
    ck_assert_msg(span_equals(output, SPAN("one two 0 1 2 3 4 5 ")), "%.*s", SPAN_ARGS(output));
    ck_assert_str_eq(child_file_path(0), "/proc/self/fd/3");
    ck_assert_str_eq(child_file_path(1), "/proc/self/fd/4");
    end(&story);
}
END_TEST

START_TEST(errors_are_kept_up_to_a_bound)
{
    struct story story;
    begin(&story);
    run(&story, "i=0; while [ $i -lt 2000 ]; do echo 12345678 >&2; i=$((i+1)); done");
    ck_assert_int_eq(story.end, CHILD_EXITED);
    ck_assert_uint_eq(strlen(story.errors), CHILD_ERRORS_BYTES_MAX);
    end(&story);
}
END_TEST

START_TEST(too_much_output_ends_it)
{
    struct story story;
    begin(&story);
    run(&story, "exec cat /dev/zero");
    ck_assert_int_eq(story.end, CHILD_TOO_LONG);
    ck_assert_uint_eq(story.output_bytes, MIB);
    end(&story);
}
END_TEST

START_TEST(its_deadline_ends_it)
{
    struct story story;
    char *const arguments[] = {"sh", "-c", "exec cat", NULL};
    begin(&story);
    struct child_order order = order_of(&story, arguments);
    order.has_input = true; /* which never ends */
    order.time_us = 50000;
    start(&story, &order);
    ck_assert_int_eq(loop_run(story.loop), STATUS_OK);
    ck_assert_int_eq(story.end, CHILD_LATE);
    end(&story);
}
END_TEST

START_TEST(a_signal_is_reported)
{
    struct story story;
    begin(&story);
    run(&story, "kill -9 $$");
    ck_assert_int_eq(story.end, CHILD_KILLED);
    ck_assert_int_eq(story.code, SIGKILL);
    end(&story);
}
END_TEST

START_TEST(it_has_limits)
{
    struct story story;
    char *const arguments[] = {"sh", "-c", "read x; ulimit -c; ulimit -t; ulimit -v", NULL};
    begin(&story);
    story.bytes_left = 0;
    struct child_order order = order_of(&story, arguments);
    order.has_input = true; /* it reads on until its limits are set */
    order.cpu_s = 17;
    start(&story, &order);
    child_end_input(story.child);
    ck_assert_int_eq(loop_run(story.loop), STATUS_OK);
    const struct span output = span_of(story.output, story.output_bytes);
    ck_assert_msg(span_equals(output, SPAN("0\n17\n" MEMORY_LIMIT "\n")), "%.*s",
                  SPAN_ARGS(output));
    end(&story);
}
END_TEST

START_TEST(an_abandoned_child_is_killed_without_an_event)
{
    struct story story;
    char *const arguments[] = {"sh", "-c", "exec cat", NULL};
    begin(&story);
    struct child_order order = order_of(&story, arguments);
    order.has_input = true;
    start(&story, &order);
    child_abandon(story.child);
    child_abandon(NULL);
    while (!list_is_empty(&story.set.children)) {
        ck_assert_int_eq(loop_iteration(story.loop, true), STATUS_OK);
    }
    ck_assert_uint_eq(story.n_ends, 0);
    end(&story);
}
END_TEST

START_TEST(the_end_of_the_set_is_the_end_of_all)
{
    struct story story;
    char *const arguments[] = {"sh", "-c", "exec cat", NULL};
    begin(&story);
    struct child_order order = order_of(&story, arguments);
    order.has_input = true;
    start(&story, &order);
    start(&story, &order);
    end(&story);
    ck_assert_uint_eq(story.n_ends, 0);
}
END_TEST

START_TEST(a_program_that_is_not_there_is_not_started)
{
    struct story story;
    char *const arguments[] = {"none", NULL};
    begin(&story);
    struct child_order order = order_of(&story, arguments);
    order.program = "/no/such/program";
    ck_assert_int_eq(child_start(&story.set, &order, &story.child), STATUS_IO);
    ck_assert(list_is_empty(&story.set.children));
    end(&story);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("child");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    signal(SIGPIPE, SIG_IGN);
    tcase_add_test(tests, its_output_errors_and_status_are_reported);
    tcase_add_test(tests, a_long_input_passes_with_back_pressure);
    tcase_add_test(tests, input_that_is_not_read_does_not_stop_it);
    tcase_add_test(tests, files_are_inherited_and_nothing_else);
    tcase_add_test(tests, errors_are_kept_up_to_a_bound);
    tcase_add_test(tests, too_much_output_ends_it);
    tcase_add_test(tests, its_deadline_ends_it);
    tcase_add_test(tests, a_signal_is_reported);
    tcase_add_test(tests, it_has_limits);
    tcase_add_test(tests, an_abandoned_child_is_killed_without_an_event);
    tcase_add_test(tests, the_end_of_the_set_is_the_end_of_all);
    tcase_add_test(tests, a_program_that_is_not_there_is_not_started);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
