#include "policy/load/endpoint.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

static const struct {
    const char *text;
    const char *host; /* NULL: refused */
    uint16_t port;
} LISTEN[] = {
    {"127.0.0.1:8080", "127.0.0.1", 8080},
    {"0.0.0.0:0", "0.0.0.0", 0},
    {"[::]:8080", "::", 8080},
    {"[2001:db8::1]:65535", "2001:db8::1", 65535},
    {"localhost:80", "127.0.0.1", 80},
    {"", NULL, 0},
    {"8080", NULL, 0},
    {":8080", NULL, 0},
    {"127.0.0.1", NULL, 0},
    {"127.0.0.1:", NULL, 0},
    {"127.0.0.1:65536", NULL, 0},
    {"127.0.0.1:+1", NULL, 0},
    {"127.0.0.1:80 ", NULL, 0},
    {"127.0.0:80", NULL, 0},
    {"example.com:80", NULL, 0},
    {"::1:8080", NULL, 0},
    {"[::1]", NULL, 0},
    {"[::1]8080", NULL, 0},
    {"[127.0.0.1]:8080", NULL, 0},
    {"[]:8080", NULL, 0},
    {"[:8080", NULL, 0},
    {"unix:/run/sluice.sock", "", 0},
    {"unix:run/sluice.sock", NULL, 0},
    {"unix:/", NULL, 0},
    {"unix:", NULL, 0},
    {"unix:@abstract", NULL, 0},
};

START_TEST(listening_wants_an_address_and_a_port)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct endpoint endpoint;
    const bool sound = endpoint_parse_listen(span_of_text(LISTEN[_i].text), &endpoint, &problem);
    ck_assert_msg(sound == (LISTEN[_i].host != NULL), "%s", LISTEN[_i].text);
    ck_assert((problem.len > 0) == !sound);
    if (sound) {
        ck_assert(span_equals(endpoint.host, span_of_text(LISTEN[_i].host)));
        ck_assert_uint_eq(endpoint.port, LISTEN[_i].port);
        ck_assert((endpoint.unix_path.len > 0) == (endpoint.host.len == 0));
        ck_assert(span_equals(endpoint.text, span_of_text(LISTEN[_i].text)));
    }
}
END_TEST

static const struct {
    const char *text;
    const char *host; /* NULL: refused */
    uint16_t port;
    bool is_https;
} SERVERS[] = {
    {"http://127.0.0.1:9000", "127.0.0.1", 9000, false},
    {"http://api.internal", "api.internal", 80, false},
    {"http://api.internal/", "api.internal", 80, false},
    {"HTTP://[::1]:9000", "::1", 9000, false},
    {"http://my_service:9000/", "my_service", 9000, false},
    {"127.0.0.1:9000", NULL, 0, false},
    {"http:/127.0.0.1", NULL, 0, false},
    {"http://", NULL, 0, false},
    {"http://:9000", NULL, 0, false},
    {"http://a:0", NULL, 0, false},
    {"http://user@a", NULL, 0, false},
    {"http://a/base", NULL, 0, false},
    {"http://a?x", NULL, 0, false},
    {"https://a", "a", 443, true},
    {"HTTPS://[::1]:8443/", "::1", 8443, true},
    {"https://a/base", NULL, 0, false},
    {"https://", NULL, 0, false},
    {"http+unix:///run/a", NULL, 0, false},
    {"unix:/run/a", "", 0, false},
    {"unix:a", NULL, 0, false},
    {"ftp://a", NULL, 0, false},
};

START_TEST(a_server_is_an_http_url_without_a_path)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer));
    struct endpoint endpoint;
    const bool sound = endpoint_parse_server(span_of_text(SERVERS[_i].text), &endpoint, &problem);
    ck_assert_msg(sound == (SERVERS[_i].host != NULL), "%s", SERVERS[_i].text);
    ck_assert((problem.len > 0) == !sound);
    if (sound) {
        ck_assert(span_equals(endpoint.host, span_of_text(SERVERS[_i].host)));
        ck_assert_uint_eq(endpoint.port, SERVERS[_i].port);
        ck_assert_int_eq(endpoint.is_https, SERVERS[_i].is_https);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/endpoint");
    TCase *tcase = tcase_create("parse");
    tcase_add_loop_test(tcase, listening_wants_an_address_and_a_port, 0, (int)ARRAY_LEN(LISTEN));
    tcase_add_loop_test(tcase, a_server_is_an_http_url_without_a_path, 0, (int)ARRAY_LEN(SERVERS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
