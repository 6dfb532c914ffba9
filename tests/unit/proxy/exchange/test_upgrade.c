#include "proxy/exchange/hop_by_hop.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 8, HEAD_BYTES_MAX = 1024 };

static struct span websocket_alone[] = {{"websocket", 9}};
static struct span several[] = {{"WebSocket", 9}, {"chat/2", 6}};

static const struct route WEBSOCKET = {.upgrades = websocket_alone, .n_upgrades = 1};
static const struct route SEVERAL = {.upgrades = several, .n_upgrades = ARRAY_LEN(several)};
static const struct route NONE = {.n_upgrades = 0};

static struct field request_fields[FIELDS_MAX];
static struct field response_fields[FIELDS_MAX];
static char request_text[HEAD_BYTES_MAX];
static char response_text[HEAD_BYTES_MAX];

/* @start_line, @fields and an empty line, in @buffer. */
static struct span write_head(char *buffer, const char *start_line, const char *fields)
{
    struct text text = text_of(buffer, HEAD_BYTES_MAX);
    text_add(&text, span_of_text(start_line));
    text_add(&text, span_of_text(fields));
    text_add_literal(&text, "\r\n");
    return text_span(&text);
}

static struct head request_with(const char *fields)
{
    struct head_parser parser = {
        .fields = request_fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = HEAD_BYTES_MAX};
    struct head head;
    size_t consumed;
    const struct span text = write_head(request_text, "GET / HTTP/1.1\r\nHost: a\r\n", fields);
    ck_assert_int_eq(head_parse_request(&parser, text, &head, &consumed), PARSE_DONE);
    return head;
}

static struct head response_with(const char *fields)
{
    struct head_parser parser = {
        .fields = response_fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = HEAD_BYTES_MAX};
    struct head head;
    size_t consumed;
    const struct span text = write_head(response_text, "HTTP/1.1 101 x\r\n", fields);
    ck_assert_int_eq(head_parse_response(&parser, text, false, &head, &consumed), PARSE_DONE);
    return head;
}

#define CONNECTION "Connection: upgrade\r\n"

static const struct {
    const struct route *route;
    const char *fields;
    const char *offer; /* "": nothing */
} OFFERS[] = {
    {&WEBSOCKET, CONNECTION "Upgrade: websocket\r\n",
     "Connection: Upgrade\r\nUpgrade: websocket\r\n"},
    {&WEBSOCKET, CONNECTION "Upgrade: WebSocket\r\n",
     "Connection: Upgrade\r\nUpgrade: WebSocket\r\n"},
    {&WEBSOCKET, CONNECTION "Upgrade: h2c, websocket;q=1, websocket\r\n",
     "Connection: Upgrade\r\nUpgrade: websocket\r\n"},
    {&SEVERAL, CONNECTION "Upgrade: chat/1, chat/2\r\nUpgrade: , websocket\r\n",
     "Connection: Upgrade\r\nUpgrade: chat/2, websocket\r\n"},
    {&WEBSOCKET, CONNECTION "Upgrade: h2c\r\n", ""},
    {&WEBSOCKET, CONNECTION "Upgrade: websocket/13\r\n", ""},
    {&WEBSOCKET, CONNECTION, ""},
    {&WEBSOCKET, "Upgrade: websocket\r\n", ""},
    {&NONE, CONNECTION "Upgrade: websocket\r\n", ""},
};

START_TEST(what_may_pass_is_offered_and_nothing_else)
{
    char buffer[HEAD_BYTES_MAX] = "";
    struct text text = text_of(buffer, sizeof(buffer) - 1);
    const struct head request = request_with(OFFERS[_i].fields);
    const bool is_offered = upgrade_write_offer(&request, OFFERS[_i].route, &text);
    buffer[text.len] = '\0';
    ck_assert_str_eq(buffer, OFFERS[_i].offer);
    ck_assert_int_eq(is_offered, strlen(OFFERS[_i].offer) > 0);
}
END_TEST

static const struct {
    const struct route *route;
    const char *request;
    const char *response;
    const char *protocol; /* NULL: it is not taken */
} ANSWERS[] = {
    {&WEBSOCKET, CONNECTION "Upgrade: websocket\r\n", CONNECTION "Upgrade: WEBSOCKET\r\n",
     "WEBSOCKET"},
    {&SEVERAL, CONNECTION "Upgrade: chat/2, websocket\r\n", CONNECTION "Upgrade: chat/2\r\n",
     "chat/2"},
    {&WEBSOCKET, CONNECTION "Upgrade: websocket\r\n", CONNECTION "Upgrade: h2c\r\n", NULL},
    {&WEBSOCKET, CONNECTION "Upgrade: h2c, websocket\r\n", CONNECTION "Upgrade: h2c\r\n", NULL},
    {&SEVERAL, CONNECTION "Upgrade: websocket\r\n", CONNECTION "Upgrade: chat/2\r\n", NULL},
    {&SEVERAL, CONNECTION "Upgrade: chat/2, websocket\r\n",
     CONNECTION "Upgrade: chat/2, websocket\r\n", NULL},
    {&WEBSOCKET, CONNECTION "Upgrade: websocket\r\n",
     CONNECTION "Upgrade: websocket\r\nUpgrade: websocket\r\n", NULL},
    {&WEBSOCKET, CONNECTION "Upgrade: websocket\r\n", "Upgrade: websocket\r\n", NULL},
    {&WEBSOCKET, CONNECTION "Upgrade: websocket\r\n", CONNECTION, NULL},
    {&WEBSOCKET, "Upgrade: websocket\r\n", CONNECTION "Upgrade: websocket\r\n", NULL},
    {&WEBSOCKET, "", CONNECTION "Upgrade: websocket\r\n", NULL},
};

START_TEST(rule_65_a_101_takes_one_protocol_that_was_offered)
{
    struct span protocol = span_of(NULL, 0);
    const struct head request = request_with(ANSWERS[_i].request);
    const struct head response = response_with(ANSWERS[_i].response);
    const char *expected = ANSWERS[_i].protocol;
    ck_assert_int_eq(upgrade_is_taken(&request, ANSWERS[_i].route, &response, &protocol),
                     expected != NULL);
    if (expected != NULL) {
        ck_assert(span_equals(protocol, span_of_text(expected)));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/upgrade");
    TCase *upgrade = tcase_create("upgrade");
    tcase_add_loop_test(upgrade, what_may_pass_is_offered_and_nothing_else, 0, ARRAY_LEN(OFFERS));
    tcase_add_loop_test(upgrade, rule_65_a_101_takes_one_protocol_that_was_offered, 0,
                        ARRAY_LEN(ANSWERS));
    suite_add_tcase(suite, upgrade);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
