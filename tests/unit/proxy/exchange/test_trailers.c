#include "proxy/exchange/hop_by_hop.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 8, HEAD_BYTES_MAX = 512 };

static struct field fields[FIELDS_MAX];

static struct head_parser new_parser(void)
{
    return (struct head_parser){
        .fields = fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = HEAD_BYTES_MAX};
}

static const struct {
    const char *request;
    bool wanted;
} REQUESTS[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n", true},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, te\r\nTE: gzip;q=1, Trailers\r\n\r\n", true},
    {"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n", true},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: gzip\r\n\r\n", false},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE:\r\n\r\n", false},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\n\r\n", false},
    {"GET / HTTP/1.0\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n", false},
};

START_TEST(trailers_are_wanted_by_a_client_of_1_1_whose_te_says_so)
{
    struct head_parser parser = new_parser();
    struct head request;
    size_t consumed;
    const struct span text = span_of_text(REQUESTS[_i].request);
    ck_assert_int_eq(head_parse_request(&parser, text, &request, &consumed), PARSE_DONE);
    ck_assert_int_eq(trailers_are_wanted(&request), REQUESTS[_i].wanted);
}
END_TEST

static const struct {
    const char *section;
    const char *kept;
} SECTIONS[] = {
    {"\r\n", ""},
    {"X-T: 1\r\n\r\n", "X-T: 1\r\n"},
    {"X-T:1\r\nServer-Timing: a;dur=1\r\n\r\n", "X-T:1\r\nServer-Timing: a;dur=1\r\n"},
    {"A: 1\r\nContent-Length: 5\r\nB: 2\r\n\r\n", "A: 1\r\nB: 2\r\n"},
    {"transfer-encoding: chunked\r\nB: 2\r\n\r\n", "B: 2\r\n"},
    {"Content_Length: 5\r\nHost: x\r\n\r\n", ""},
    {"Set-Cookie: a=b\r\nWWW-Authenticate: Basic\r\nAuthorization: x\r\nVary: *\r\n\r\n", ""},
    {"Content-Type: a/b\r\nContent-Encoding: gzip\r\nContent-Digest: x\r\n\r\n",
     "Content-Digest: x\r\n"},
    {"X-Named: 1\r\nX-Cost: 9\r\nX-Other: 2\r\n\r\n", "X-Other: 2\r\n"},
    {"x-removed: 1\r\nX-Other: 2\r\n\r\n", "X-Other: 2\r\n"},
    {"Connection: X-T\r\nUpgrade: x\r\nTE: x\r\nTrailer: X\r\nRateLimit: x\r\n\r\n", ""},
};

START_TEST(rule_32_what_may_be_passed_on_is_kept)
{
    static const char RESPONSE[] = "HTTP/1.1 200 OK\r\nConnection: close, x-named\r\n\r\n";
    struct span removed[] = {{"X-Removed", 9}};
    const struct route_edits edits = {.response = {.names = removed, .n_names = 1}};
    const struct route route = {
        .cost = {.kind = COST_RESPONSE_HEADER, .strip = true, .field = SPAN("x-cost")},
        .edits = &edits,
    };
    struct head_parser parser = new_parser();
    struct head response;
    size_t consumed;
    char section[256];
    ck_assert_int_eq(
        head_parse_response(&parser, span_of_text(RESPONSE), false, &response, &consumed),
        PARSE_DONE);
    const size_t len = strlen(SECTIONS[_i].section);
    memcpy(section, SECTIONS[_i].section, len);
    const struct span kept = trailers_keep(section, len, &response, &route);
    ck_assert(span_equals(kept, span_of_text(SECTIONS[_i].kept)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/trailers");
    TCase *trailers = tcase_create("trailers");
    tcase_add_loop_test(trailers, trailers_are_wanted_by_a_client_of_1_1_whose_te_says_so, 0,
                        ARRAY_LEN(REQUESTS));
    tcase_add_loop_test(trailers, rule_32_what_may_be_passed_on_is_kept, 0, ARRAY_LEN(SECTIONS));
    suite_add_tcase(suite, trailers);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
