#include "store/redis_fault.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum { MANUAL_BYTES_MAX = 256 * 1024, COLUMNS = 5 };

/* --- what errors mean --- */

static const struct {
    const char *text;
    enum redis_fault fault;
} FAULTS[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", REDIS_FAULT_NOSCRIPT},
    {"READONLY You can't write against a read only replica.", REDIS_FAULT_READONLY},
    {"MASTERDOWN Link with MASTER is down", REDIS_FAULT_MASTERDOWN},
    {"MOVED 3999 127.0.0.1:6381", REDIS_FAULT_MOVED},
    {"ASK 3999 127.0.0.1:6381", REDIS_FAULT_ASK},
    {"TRYAGAIN Multiple keys request during rehashing of slot", REDIS_FAULT_TRYAGAIN},
    {"CROSSSLOT Keys in request don't hash to the same slot", REDIS_FAULT_CROSSSLOT},
    {"CLUSTERDOWN The cluster is down", REDIS_FAULT_CLUSTERDOWN},
    {"LOADING Redis is loading the dataset in memory", REDIS_FAULT_LOADING},
    {"BUSY Redis is busy running a script.", REDIS_FAULT_BUSY},
    {"OOM command not allowed when used memory > 'maxmemory'.", REDIS_FAULT_OOM},
    {"MISCONF Redis is configured to save RDB snapshots", REDIS_FAULT_MISCONF},
    {"NOREPLICAS Not enough good replicas to write.", REDIS_FAULT_NOREPLICAS},
    {"NOAUTH Authentication required.", REDIS_FAULT_NOAUTH},
    {"WRONGPASS invalid username-password pair", REDIS_FAULT_WRONGPASS},
    {"NOPERM User limiter has no permissions", REDIS_FAULT_NOPERM},
    {"WRONGTYPE Operation against a key", REDIS_FAULT_WRONGTYPE},
    {"CLOCK the clocks of Redis and of the proxy differ", REDIS_FAULT_CLOCK},
    {"ERR max number of clients reached", REDIS_FAULT_OTHER},
    {"OOM", REDIS_FAULT_OOM},
    {"ASKING", REDIS_FAULT_OTHER},
    {"BUSYGROUP Consumer Group name already exists", REDIS_FAULT_OTHER},
    {"", REDIS_FAULT_OTHER},
};

START_TEST(each_error_is_known_by_its_first_word)
{
    ck_assert_int_eq(redis_fault_of(span_of_text(FAULTS[_i].text)), FAULTS[_i].fault);
}
END_TEST

#define WRAPPED "ERR Error running script (call to f_8f55ae4a3be429c6d38c5d5db3e80edf89197b64): "

/* What Redis 5 and 6 say of errors within a script. */
static const struct {
    const char *text;
    enum redis_fault fault;
} WRAPPED_FAULTS[] = {
    {WRAPPED "@user_script:41: @user_script: 41: -OOM command not allowed when used memory > "
             "'maxmemory'.   ",
     REDIS_FAULT_OOM},
    {WRAPPED
     "@user_script:4: @user_script: 4: -READONLY You can't write against a read only replica.",
     REDIS_FAULT_READONLY},
    {WRAPPED "@user_script:1: @user_script: 1: -MISCONF Redis is configured to save RDB snapshots",
     REDIS_FAULT_MISCONF},
    {WRAPPED "@user_script:123: @user_script: 123: -NOREPLICAS Not enough good replicas to write.",
     REDIS_FAULT_NOREPLICAS},
    {WRAPPED
     "@user_script:1: @user_script: 1: -NOPERM The user executing the script can't run this",
     REDIS_FAULT_NOPERM},
    {WRAPPED "@user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value",
     REDIS_FAULT_WRONGTYPE},
    {WRAPPED "@user_script:1: OOM", REDIS_FAULT_OOM},

    /* They would have a call made again that may have charged already. */
    {WRAPPED "@user_script:1: @user_script: 1: -MOVED 3999 127.0.0.1:6381", REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:1: @user_script: 1: -ASK 3999 127.0.0.1:6381", REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:1: @user_script: 1: -TRYAGAIN Multiple keys request", REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:1: @user_script: 1: -NOSCRIPT No matching script.", REDIS_FAULT_OTHER},

    {WRAPPED "@user_script:12: attempt to compare nil with number", REDIS_FAULT_OTHER},
    {WRAPPED
     "@user_script:12: @user_script: 12: Lua script attempted to access a non local key in a "
     "cluster node",
     REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:12: said: OOM", REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:OOM", REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:1:", REDIS_FAULT_OTHER},
    {WRAPPED "@user_script:", REDIS_FAULT_OTHER},
    {WRAPPED "-OOM command not allowed", REDIS_FAULT_OTHER},
    {"ERR Error running script (call to f_", REDIS_FAULT_OTHER},
    {"ERR @user_script:1: OOM", REDIS_FAULT_OTHER},
    {"ERR -OOM", REDIS_FAULT_OTHER},
};

START_TEST(an_error_within_a_script_is_known_by_what_the_command_said)
{
    ck_assert_int_eq(redis_fault_of(span_of_text(WRAPPED_FAULTS[_i].text)),
                     WRAPPED_FAULTS[_i].fault);
}
END_TEST

static const struct {
    const char *text;
    uint16_t slot;
    const char *host; /* NULL: nonsense */
    uint16_t port;
} REDIRECTS[] = {
    {"MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", 6381},
    {"ASK 0 redis.example:1", 0, "redis.example", 1},
    {"MOVED 16383 ::1:6381", 16383, "::1", 6381},
    {"MOVED 1 :65535", 1, "", 65535},
    {"MOVED 16384 127.0.0.1:6381", 0, NULL, 0},
    {"MOVED -1 127.0.0.1:6381", 0, NULL, 0},
    {"MOVED 1 127.0.0.1:65536", 0, NULL, 0},
    {"MOVED 1 127.0.0.1:0", 0, NULL, 0},
    {"MOVED 1 127.0.0.1:", 0, NULL, 0},
    {"MOVED 1 127.0.0.1", 0, NULL, 0},
    {"MOVED 1 ", 0, NULL, 0},
    {"MOVED 1", 0, NULL, 0},
    {"MOVED", 0, NULL, 0},
    {"", 0, NULL, 0},
};

START_TEST(a_redirection_tells_slot_and_node_or_nothing)
{
    struct redis_redirect redirect;
    const bool is_read = redis_fault_read_redirect(span_of_text(REDIRECTS[_i].text), &redirect);
    ck_assert_int_eq(is_read, REDIRECTS[_i].host != NULL);
    if (is_read) {
        ck_assert_uint_eq(redirect.slot, REDIRECTS[_i].slot);
        ck_assert(span_equals(redirect.host, span_of_text(REDIRECTS[_i].host)));
        ck_assert_uint_eq(redirect.port, REDIRECTS[_i].port);
    }
}
END_TEST

/* --- the table and the manual --- */

static const char *const REACTIONS[] = {
    [REDIS_SEND_SCRIPT] = "sends the call again, once, with the script in it",
    [REDIS_REDIRECT] = "asks the node that has the keys, where it knows of a cluster",
    [REDIS_FAIL] = "fails the decision",
    [REDIS_DROP] = "drops the link and makes it again",
    [REDIS_IGNORE] = "ignores it",
};

/* The rows of the manual's table, one after the other. */
static struct span next_row(struct span *rest)
{
    struct span line;
    while (span_split(rest, '\n', &line)) {
        if (span_starts_with(line, SPAN("| `"))) {
            return line;
        }
    }
    return SPAN("");
}

/* The cells of @row; fails the test when there are not as many. */
static void cut(struct span row, struct span cells[COLUMNS])
{
    struct span piece;
    ck_assert(span_split(&row, '|', &piece));
    for (size_t i = 0; i < COLUMNS; i++) {
        ck_assert(span_split(&row, '|', &piece));
        cells[i] = span_trim(piece);
    }
}

static struct span code_in(struct span cell)
{
    struct span piece;
    if (!span_starts_with(cell, SPAN("`"))) {
        return SPAN("");
    }
    ck_assert(span_split(&cell, '`', &piece) && span_split(&cell, '`', &piece));
    return piece;
}

static void compare(struct span row, const struct redis_fault_row *fault)
{
    struct span cells[COLUMNS];
    cut(row, cells);
    ck_assert_msg(span_equals(code_in(cells[0]), span_of_text(fault->name)),
                  "the row of %s is %.*s", fault->name, SPAN_ARGS(row));
    ck_assert_msg(span_equals(code_in(cells[1]), span_of_text(fault->code ? fault->code : "")),
                  "%s: its code", fault->name);
    ck_assert_msg(span_starts_with(cells[2], span_of_text(REACTIONS[fault->reaction])),
                  "%s: what sluice does", fault->name);
    ck_assert_msg(span_equals(cells[3], fault->counts ? SPAN("yes") : SPAN("no")),
                  "%s: whether it counts", fault->name);
    ck_assert_msg(span_equals(cells[4], fault->is_lasting ? SPAN("no") : SPAN("yes")),
                  "%s: whether it heals", fault->name);
}

START_TEST(the_manual_shows_the_table_row_by_row)
{
    static char manual[MANUAL_BYTES_MAX];
    FILE *file = fopen(PROJECT_DIR "/docs/redis.md", "r");
    ck_assert_ptr_nonnull(file);
    const size_t len = fread(manual, 1, sizeof(manual), file);
    fclose(file);
    const char *chapter = strstr(manual, "| fault |");
    ck_assert(len < sizeof(manual) && chapter != NULL);
    struct span rest = span_of_text(chapter);
    for (int i = REDIS_FAULT_NONE + 1; i < REDIS_FAULT_COUNT; i++) {
        compare(next_row(&rest), redis_fault_row((enum redis_fault)i));
    }
}
END_TEST

START_TEST(every_failure_fails_the_decision)
{
    for (int i = REDIS_FAULT_NONE + 1; i < REDIS_FAULT_COUNT; i++) {
        ck_assert_int_ne(redis_fault_row((enum redis_fault)i)->status, STATUS_OK);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/redis_fault");
    TCase *tcase = tcase_create("faults");
    tcase_add_loop_test(tcase, each_error_is_known_by_its_first_word, 0, (int)ARRAY_LEN(FAULTS));
    tcase_add_loop_test(tcase, an_error_within_a_script_is_known_by_what_the_command_said, 0,
                        (int)ARRAY_LEN(WRAPPED_FAULTS));
    tcase_add_loop_test(tcase, a_redirection_tells_slot_and_node_or_nothing, 0,
                        (int)ARRAY_LEN(REDIRECTS));
    tcase_add_test(tcase, the_manual_shows_the_table_row_by_row);
    tcase_add_test(tcase, every_failure_fails_the_decision);
    suite_add_tcase(suite, tcase);

    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
