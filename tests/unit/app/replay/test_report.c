/* The report of a replay, where memory runs out. */

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/replay/replay.h"
#include "base/hash.h"
#include "policy/loader.h"

static const char POLICY[] = "listen: 127.0.0.1:1\n"
                             "upstreams: {api: {servers: [http://127.0.0.1:2]}}\n"
                             "limits:\n"
                             "  rate: {key: client.ip, rate: 1/hour}\n"
                             "routes:\n"
                             "- {match: {path: /**}, limits: [rate], upstream: api}\n";

static const char LOG[] =
    "192.0.2.1 - - [20/Nov/2026:08:00:00 +0000] \"GET /a HTTP/1.1\" 200 1 \"-\" \"-\"\n"
    "192.0.2.1 - - [20/Nov/2026:08:00:01 +0000] \"GET /a HTTP/1.1\" 200 1 \"-\" \"-\"\n"
    "nonsense\n";

static char path[] = "/tmp/sluice-replay-XXXXXX";
static struct policy *policy;
static struct replay *replay;

static void start(void)
{
    static char *const PATHS[] = {path};
    static struct replay_options options;
    char buffer[REPLAY_PROBLEM_BYTES];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct diags diags;
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    diags_init(&diags, "policy.yaml");
    ck_assert_int_eq(loader_load_text(span_of_text(POLICY), NULL, &policy, &diags), STATUS_OK);
    diags_close(&diags);
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, LOG, sizeof(LOG) - 1), sizeof(LOG) - 1);
    close(fd);
    options = (struct replay_options){.paths = PATHS, .n_paths = 1, .format = REPLAY_COMBINED};
    ck_assert_int_eq(replay_open(&options, &replay, &problem), STATUS_OK);
    const struct policy *const policies[] = {policy, policy};
    ck_assert_int_eq(replay_run(replay, policies, 2, 0, &problem), STATUS_OK);
}

static void stop(void)
{
    replay_free(replay);
    policy_free(policy);
    unlink(path);
}

/* Make the report and print it with @print. */
static enum status write_report(enum status (*print)(const json_t *report, FILE *out), FILE *out)
{
    static const char *const PATHS[] = {"a.yaml", "b.yaml"};
    json_t *report = report_make(replay, PATHS);
    const enum status status = report != NULL ? print(report, out) : STATUS_NO_MEMORY;
    json_decref(report);
    return status;
}

static unsigned n_left; /* allocations until one fails; 0: none does */

static void *allocate(size_t bytes)
{
    return n_left > 0 && --n_left == 0 ? NULL : malloc(bytes);
}

static enum status (*const PRINTS[])(const json_t *report, FILE *out) = {report_print_json,
                                                                         report_print_page};

START_TEST(a_report_is_whole_or_there_is_no_memory_for_it)
{
    char *whole = NULL;
    size_t whole_bytes = 0;
    FILE *out = open_memstream(&whole, &whole_bytes);
    ck_assert_int_eq(write_report(PRINTS[_i], out), STATUS_OK);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_uint_gt(whole_bytes, 1000);
    json_set_alloc_funcs(allocate, free);
    bool has_failed = true;
    for (unsigned i = 1; has_failed; i++) {
        char *said = NULL;
        size_t bytes = 0;
        out = open_memstream(&said, &bytes);
        n_left = i;
        const enum status status = write_report(PRINTS[_i], out);
        has_failed = n_left == 0;
        n_left = 0;
        ck_assert_int_eq(fclose(out), 0);
        ck_assert_msg(status == STATUS_OK || (has_failed && status == STATUS_NO_MEMORY),
                      "allocation %u", i);
        ck_assert_msg(strcmp(said, status == STATUS_OK ? whole : "") == 0, "allocation %u", i);
        free(said);
    }
    free(whole);
}
END_TEST

START_TEST(what_cannot_be_written_is_reported)
{
    FILE *full = fopen("/dev/full", "w");
    ck_assert_ptr_nonnull(full);
    setvbuf(full, NULL, _IONBF, 0);
    ck_assert_int_eq(write_report(PRINTS[_i], full), STATUS_IO);
    fclose(full);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("app/report");
    TCase *tcase = tcase_create("report");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_loop_test(tcase, a_report_is_whole_or_there_is_no_memory_for_it, 0,
                        ARRAY_LEN(PRINTS));
    tcase_add_loop_test(tcase, what_cannot_be_written_is_reported, 0, ARRAY_LEN(PRINTS));
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
