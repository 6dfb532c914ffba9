#include "proxy/exchange/exchange_steps.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/exchange/exchange.h"
#include "proxy/log/access_log.h"
#include "support/iterations.h"

#define ID_HEX "00000000000000000000000000000000"
#define ID "id=" ID_HEX " "

enum {
    ALL_PPM = 1000000,
    READ_BYTES = 1024 * 1024,
    TIME_BYTES = sizeof("2026-01-31T12:34:56.789Z") - 1
};

static struct loop *loop;
static struct access_log log_of_test;
static struct log_output *output;
static int pipe_fds[2];
static char read_back[READ_BYTES];

static struct exchange *exchange;
static struct route route;
static struct endpoint endpoint;
static struct upstream_server server;
static struct limit limit;
static const struct policy policy;
static struct exchange_config config = {.policy = &policy};
static struct client client;
static struct proxy_env env = {.log = &log_of_test};

static void set_up(void)
{
    loop = iterations_new_loop();
    ck_assert_int_eq(pipe2(pipe_fds, O_NONBLOCK), 0);
    ck_assert_int_ge(fcntl(pipe_fds[1], F_SETPIPE_SZ, READ_BYTES), 0);
    struct log_sink sink;
    log_sink_of_fd(&sink, pipe_fds[1]);
    ck_assert_int_eq(log_output_new(&sink, &output), STATUS_OK);
    exchange = calloc(1, sizeof(*exchange));
    ck_assert_ptr_nonnull(exchange);
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    route = (struct route){.name = SPAN("route-1")};
    endpoint = (struct endpoint){.text = SPAN("http://127.0.0.1:9000")};
    server = (struct upstream_server){.endpoint = &endpoint};
    limit = (struct limit){.name = SPAN("per-client")};
    ck_assert(address_parse(SPAN("192.0.2.1"), &exchange->peer));
    exchange->admission.decision.charges = exchange->admission.charges;
    exchange->started_us = 1000;
    exchange->config = &config;
    exchange->client = &client;
    exchange->env = &env;
}

static void tear_down(void)
{
    free(exchange);
    close(pipe_fds[0]);
    log_output_close(output);
    loop_free(loop);
}

static void open_sampled_log(enum log_format format, uint32_t sample_ppm)
{
    const struct log_section section = {
        .format = format, .sample_ppm = sample_ppm, .denied_lines = UINT32_MAX};
    ck_assert_int_eq(access_log_init(&log_of_test, loop, output, &section), STATUS_OK);
}

static void open_log(enum log_format format)
{
    open_sampled_log(format, ALL_PPM);
}

/* All that has been written. */
static const char *read_log(void)
{
    size_t len = 0;
    ssize_t n;
    log_output_flush();
    while ((n = read(pipe_fds[0], read_back + len, sizeof(read_back) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    read_back[len] = '\0';
    return read_back;
}

/* The line of @exchange, its time as TIME. */
static const char *line_of(enum log_format format)
{
    open_log(format);
    exchange_log(exchange, 3500);
    access_log_close(&log_of_test);
    char *line = (char *)(uintptr_t)read_log();
    const size_t start = strlen(format == LOG_FORMAT_JSON ? "{\"time\":\"" : "time=");
    if (strlen(line) < start + TIME_BYTES) {
        return line;
    }
    ck_assert_int_eq(line[start + 10], 'T');
    ck_assert_int_eq(line[start + TIME_BYTES - 1], 'Z');
    memcpy(line + start, "TIME", 4);
    memmove(line + start + 4, line + start + TIME_BYTES, strlen(line + start + TIME_BYTES) + 1);
    return line;
}

static void fill_in_request(void)
{
    exchange->request.method = SPAN("GET");
    exchange->request.host = SPAN("a.example");
    exchange->request.target.whole = SPAN("/x?y=1");
    exchange->request.target.path = SPAN("/x");
    exchange->evaluation.view.head = &exchange->request;
    ck_assert(address_parse(SPAN("198.51.100.7"), &exchange->evaluation.view.client));
    exchange->evaluation.route = &route;
    exchange->server = &server;
    exchange->upstream_us = 700;
    exchange->request_bytes = 5;
    exchange->response_bytes = 42;
    exchange->is_response_started = true;
    exchange->out.status = 200;
}

static void fill_in_charge(bool allowed)
{
    struct decision *decision = &exchange->admission.decision;
    decision->n_charges = 1;
    decision->allowed = allowed;
    decision->source = DECISION_REDIS;
    exchange->admission.charges[0] =
        (struct charge){.limit = &limit, .key = SPAN("{a}"), .verdict.allowed = allowed};
    exchange->decide_us = 250;
}

/* --- lines --- */

START_TEST(a_served_request_is_one_line_of_logfmt)
{
    fill_in_request();
    fill_in_charge(true);
    ck_assert_str_eq(line_of(LOG_FORMAT_LOGFMT),
                     "time=TIME client=198.51.100.7 method=GET host=a.example path=/x "
                     "status=200 route=route-1 verdict=allowed source=redis store_us=250 "
                     "upstream=http://127.0.0.1:9000 upstream_us=700 " ID "in=5 out=42 us=2500\n");
}
END_TEST

START_TEST(a_server_of_http_2_is_told)
{
    fill_in_request();
    exchange->is_server_http2 = true;
    ck_assert_ptr_nonnull(strstr(line_of(LOG_FORMAT_LOGFMT), " upstream_us=700 server_http=2 id="));
}
END_TEST

START_TEST(the_same_is_one_object_of_json)
{
    fill_in_request();
    fill_in_charge(true);
    ck_assert_str_eq(
        line_of(LOG_FORMAT_JSON),
        "{\"time\":\"TIME\",\"client\":\"198.51.100.7\",\"method\":\"GET\",\"host\":\"a.example\","
        "\"path\":\"/x\",\"status\":200,\"route\":\"route-1\",\"verdict\":\"allowed\","
        "\"source\":\"redis\",\"store_us\":250,\"upstream\":\"http://127.0.0.1:9000\","
        "\"upstream_us\":700,\"id\":\"" ID_HEX "\",\"in\":5,\"out\":42,\"us\":2500}\n");
}
END_TEST

/* Of the identity "{a}", with no secret. */
#define KEY_HEX "dfab2a588f592962a1051edb9708c73b"

START_TEST(a_denial_names_its_limit_and_who_was_counted)
{
    fill_in_request();
    fill_in_charge(false);
    exchange->server = NULL;
    exchange->out.status = 429;
    exchange->admission.decision.source = DECISION_LOCAL;
    exchange->admission.decision.failure = STATUS_TIMEOUT;
    ck_assert_str_eq(line_of(LOG_FORMAT_LOGFMT),
                     "time=TIME client=198.51.100.7 method=GET host=a.example path=/x "
                     "status=429 route=route-1 verdict=denied limit=per-client "
                     "key=" KEY_HEX " source=local "
                     "failure=\"timed out\" store_us=250 " ID "in=5 out=42 us=2500\n");
}
END_TEST

START_TEST(without_a_decision_the_failure_is_named)
{
    fill_in_request();
    fill_in_charge(false);
    exchange->server = NULL;
    exchange->out.status = 503;
    exchange->admission.decision.status = STATUS_UNREACHABLE;
    exchange->fault = "unreachable";
    ck_assert_str_eq(line_of(LOG_FORMAT_LOGFMT),
                     "time=TIME client=198.51.100.7 method=GET host=a.example path=/x "
                     "status=503 route=route-1 verdict=undecided failure=unreachable store_us=250 "
                     "" ID "in=5 out=42 us=2500 fault=unreachable\n");
}
END_TEST

START_TEST(a_client_that_left_before_the_decision_has_none)
{
    fill_in_request();
    fill_in_charge(false);
    exchange->server = NULL;
    exchange->is_decision_pending = true;
    exchange->is_response_started = false;
    exchange->fault = "the client left";
    ck_assert_str_eq(line_of(LOG_FORMAT_LOGFMT),
                     "time=TIME client=198.51.100.7 method=GET host=a.example path=/x "
                     "status=0 route=route-1 verdict=unknown " ID "in=5 out=42 us=2500 "
                     "fault=\"the client left\"\n");
}
END_TEST

START_TEST(a_request_without_a_head_is_logged_by_its_peer)
{
    ck_assert_str_eq(line_of(LOG_FORMAT_LOGFMT), "time=TIME client=192.0.2.1 status=0 verdict=none "
                                                 "" ID "in=0 out=0 us=2500\n");
}
END_TEST

/* --- times --- */

static uint64_t wall_us;

static uint64_t read_wall_of_test(void)
{
    return wall_us;
}

/* Lines that are added one after another, and what they show. */
static const struct {
    uint64_t now_ms; /* of the monotonic clock */
    uint64_t wall_us;
    const char *time;
} TIMES[] = {
    {5000, 1769862896789999, "2026-01-31T12:34:56.789Z"},
    {5001, 1769862896790999, "2026-01-31T12:34:56.790Z"}, /* another millisecond */
    {5001, 1769862896791000, "2026-01-31T12:34:56.790Z"}, /* the same one */
    {5216, 1769862897005000, "2026-01-31T12:34:57.005Z"}, /* another second */
    {6211, 1769862898000000, "2026-01-31T12:34:58.000Z"},
    {6311, 1769862896100000, "2026-01-31T12:34:56.100Z"}, /* a step back */
    {6312, 1769862896101000, "2026-01-31T12:34:56.101Z"},
    {7000, 1769903999999999, "2026-01-31T23:59:59.999Z"},
    {7001, 1769904000000000, "2026-02-01T00:00:00.000Z"}, /* midnight, and another month */
};

START_TEST(each_line_shows_when_it_was_added)
{
    const enum log_format format = _i == 0 ? LOG_FORMAT_LOGFMT : LOG_FORMAT_JSON;
    open_log(format);
    log_of_test.read_wall_us = read_wall_of_test;
    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        wall_us = TIMES[i].wall_us;
        exchange_log(exchange, TIMES[i].now_ms * 1000);
    }
    access_log_close(&log_of_test);
    const char *line = read_log();
    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        const char *time = line + strlen(format == LOG_FORMAT_JSON ? "{\"time\":\"" : "time=");
        ck_assert_msg(memcmp(time, TIMES[i].time, TIME_BYTES) == 0, "line %zu: %.40s", i, line);
        line = strchr(line, '\n') + 1;
    }
    ck_assert_str_eq(line, "");
}
END_TEST

/* --- what is hostile --- */

static void fill_with_all_bytes(char *bytes)
{
    for (unsigned i = 0; i < 256; i++) {
        bytes[i] = (char)i;
    }
}

START_TEST(no_byte_of_a_client_ends_a_value_or_a_line)
{
    char bytes[256];
    const enum log_format format = _i == 0 ? LOG_FORMAT_LOGFMT : LOG_FORMAT_JSON;
    fill_with_all_bytes(bytes);
    fill_in_request();
    exchange->request.method = span_of(bytes, sizeof(bytes));
    exchange->request.host = span_of(bytes, sizeof(bytes));
    exchange->request.target.path = span_of(bytes, sizeof(bytes));
    const char *line = line_of(format);
    const size_t len = strlen(line);
    unsigned n_open = 0;
    for (size_t i = 0; i + 1 < len; i++) {
        ck_assert_msg((unsigned char)line[i] >= 0x20 && line[i] != 0x7f, "byte %x at %zu",
                      (unsigned char)line[i], i);
        if (line[i] == '\\') {
            i++;
        } else if (line[i] == '"') {
            n_open ^= 1;
        }
    }
    ck_assert_int_eq(line[len - 1], '\n');
    ck_assert_uint_eq(n_open, 0);
    ck_assert_ptr_nonnull(
        strstr(line, format == LOG_FORMAT_JSON ? "\",\"status\":200," : "\" status=200 "));
}
END_TEST

START_TEST(long_values_are_cut_and_the_line_is_whole)
{
    static char large[64 * 1024];
    memset(large, '"', sizeof(large)); /* each takes two bytes */
    fill_in_request();
    exchange->request.method = span_of(large, sizeof(large));
    exchange->request.host = span_of(large, sizeof(large));
    exchange->request.target.path = span_of(large, sizeof(large));
    const char *line = line_of(_i == 0 ? LOG_FORMAT_LOGFMT : LOG_FORMAT_JSON);
    ck_assert_uint_lt(strlen(line), 16 * 1024);
    ck_assert_int_eq(line[strlen(line) - 1], '\n');
    ck_assert_uint_eq(log_output_lost(LOG_KIND_ACCESS), 0);
}
END_TEST

/* The largest a value of 1 KiB can become: six bytes for one, in JSON. */
START_TEST(a_line_of_the_worst_bytes_leaves_room_for_the_others)
{
    static char worst[1024];
    const unsigned n_lines = 20;
    memset(worst, 1, sizeof(worst));
    fill_in_request();
    exchange->request.host = span_of(worst, sizeof(worst));
    exchange->request.target.path = span_of(worst, sizeof(worst));
    open_log(LOG_FORMAT_JSON);
    for (unsigned i = 0; i < n_lines; i++) {
        exchange_log(exchange, 3500);
    }
    access_log_close(&log_of_test);
    ck_assert_uint_eq(log_output_lost(LOG_KIND_ACCESS), 0);
    unsigned n_read = 0;
    for (const char *c = read_log(); *c != '\0'; c++) {
        n_read += *c == '\n';
    }
    ck_assert_uint_eq(n_read, n_lines);
}
END_TEST

/* --- writing --- */

START_TEST(lines_are_gathered_and_written_a_moment_later)
{
    fill_in_request();
    open_log(LOG_FORMAT_LOGFMT);
    exchange_log(exchange, 3500);
    exchange_log(exchange, 3500);
    ck_assert_str_eq(read_log(), "");
    while (log_of_test.lines.len > 0) {
        iterations_for(loop, 1000);
    }
    const char *first_end = strchr(read_log(), '\n');
    ck_assert_ptr_nonnull(first_end);
    ck_assert_ptr_nonnull(strchr(first_end + 1, '\n'));
    access_log_close(&log_of_test);
}
END_TEST

START_TEST(when_it_is_off_nothing_is_written)
{
    fill_in_request();
    ck_assert_str_eq(line_of(LOG_FORMAT_OFF), "");
}
END_TEST

static unsigned count_lines(void)
{
    unsigned n = 0;
    for (const char *at = read_log(); *at != '\0'; at++) {
        n += *at == '\n';
    }
    return n;
}

/* An allowed request through a route. */
static void make_well(void)
{
    exchange->evaluation.route = &route;
    exchange->is_response_started = true;
    exchange->out.status = 200;
    exchange->admission.charges[0] = (struct charge){.limit = &limit, .verdict.allowed = true};
    exchange->admission.decision.n_charges = 1;
    exchange->admission.decision.status = STATUS_OK;
    exchange->admission.decision.allowed = true;
}

static unsigned lines_of_a_thousand(uint32_t sample_ppm)
{
    open_sampled_log(LOG_FORMAT_LOGFMT, sample_ppm);
    for (unsigned i = 0; i < 1000; i++) {
        exchange_log(exchange, 3500);
    }
    access_log_close(&log_of_test);
    return count_lines();
}

START_TEST(of_what_went_well_a_share_has_a_line)
{
    make_well();
    ck_assert_uint_eq(lines_of_a_thousand(100000), 100);
    ck_assert_uint_eq(lines_of_a_thousand(1000), 1);
    ck_assert_uint_eq(lines_of_a_thousand(0), 0);
    ck_assert_uint_eq(lines_of_a_thousand(ALL_PPM), 1000);
    exchange->admission.decision.n_charges = 0;
    ck_assert_uint_eq(lines_of_a_thousand(0), 0);
}
END_TEST

START_TEST(what_is_worth_a_look_always_has_a_line)
{
    make_well();
    exchange->admission.decision.failure = STATUS_TIMEOUT;
    ck_assert_uint_eq(lines_of_a_thousand(0), 1000);
    make_well();
    exchange->admission.decision.failure = STATUS_OK;
    exchange->admission.decision.allowed = false;
    ck_assert_uint_eq(lines_of_a_thousand(0), 1000);
    make_well();
    exchange->out.status = 502;
    ck_assert_uint_eq(lines_of_a_thousand(0), 1000);
    make_well();
    exchange->fault = "the client left";
    ck_assert_uint_eq(lines_of_a_thousand(0), 1000);
    exchange->fault = NULL;
    exchange->evaluation.route = NULL;
    ck_assert_uint_eq(lines_of_a_thousand(0), 1000);
    make_well();
    limit.shadow = true;
    exchange->admission.charges[0].verdict.allowed = false;
    ck_assert_uint_eq(lines_of_a_thousand(0), 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/exchange_log");
    TCase *lines = tcase_create("lines");
    TCase *hostile = tcase_create("hostile");
    TCase *writing = tcase_create("writing");

    tcase_add_checked_fixture(lines, set_up, tear_down);
    tcase_add_test(lines, a_served_request_is_one_line_of_logfmt);
    tcase_add_test(lines, a_server_of_http_2_is_told);
    tcase_add_test(lines, the_same_is_one_object_of_json);
    tcase_add_test(lines, a_denial_names_its_limit_and_who_was_counted);
    tcase_add_test(lines, without_a_decision_the_failure_is_named);
    tcase_add_test(lines, a_client_that_left_before_the_decision_has_none);
    tcase_add_test(lines, a_request_without_a_head_is_logged_by_its_peer);
    tcase_add_loop_test(lines, each_line_shows_when_it_was_added, 0, 2);
    suite_add_tcase(suite, lines);
    tcase_add_checked_fixture(hostile, set_up, tear_down);
    tcase_add_loop_test(hostile, no_byte_of_a_client_ends_a_value_or_a_line, 0, 2);
    tcase_add_loop_test(hostile, long_values_are_cut_and_the_line_is_whole, 0, 2);
    tcase_add_test(hostile, a_line_of_the_worst_bytes_leaves_room_for_the_others);
    suite_add_tcase(suite, hostile);
    tcase_add_checked_fixture(writing, set_up, tear_down);
    tcase_add_test(writing, lines_are_gathered_and_written_a_moment_later);
    tcase_add_test(writing, when_it_is_off_nothing_is_written);
    tcase_add_test(writing, of_what_went_well_a_share_has_a_line);
    tcase_add_test(writing, what_is_worth_a_look_always_has_a_line);
    suite_add_tcase(suite, writing);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
