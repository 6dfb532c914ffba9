#include "admin/access.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define READ_TOKEN "fedcba9876543210fedcba9876543210"
#define WITH_TOKEN "Authorization: Bearer " TOKEN "\r\n"
#define WITH_READ_TOKEN "Authorization: Bearer " READ_TOKEN "\r\n"
#define JSON "Content-Type: application/json\r\n"

#define BYTES "Content-Type: application/octet-stream\r\n"

enum peer {
    LOOPBACK,
    LOOPBACK_6,
    REMOTE,
    SOCKET,
};

/* A request, and what is said to it. */
struct story {
    enum peer peer;
    const char *request; /* its line */
    const char *fields;
    unsigned status; /* 0: let in */
};

static struct access_rules rules_of_two_tokens(void)
{
    static const struct span HOSTS[] = {{"Sluice.Internal", 15}};
    struct access_rules rules = {.hosts = HOSTS, .n_hosts = ARRAY_LEN(HOSTS)};
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    rules.token.is_set = true;
    secret_init(&rules.token.secret, SPAN(TOKEN));
    rules.read_token.is_set = true;
    secret_init(&rules.read_token.secret, SPAN(READ_TOKEN));
    return rules;
}

static struct access_peer peer_of(enum peer kind)
{
    static const char *const ADDRESSES[] = {
        [LOOPBACK] = "127.0.0.1", [LOOPBACK_6] = "::1", [REMOTE] = "192.0.2.7", [SOCKET] = "::"};
    struct access_peer peer = {.is_unix = kind == SOCKET};
    ck_assert(address_parse(span_of_text(ADDRESSES[kind]), &peer.address));
    return peer;
}

static struct access_verdict judge(const struct access_rules *rules, enum peer kind,
                                   const char *request, const char *fields)
{
    char text[1024];
    struct field storage[HEAD_FIELDS_MAX];
    struct head_parser parser = {
        .fields = storage, .n_fields_max = HEAD_FIELDS_MAX, .head_bytes_max = 4096};
    struct head head;
    size_t consumed;
    const int len = snprintf(text, sizeof(text), "%s HTTP/1.1\r\n%s\r\n", request, fields);
    ck_assert_int_eq(head_parse_request(&parser, span_of(text, (size_t)len), &head, &consumed),
                     PARSE_DONE);
    const struct access_peer peer = peer_of(kind);
    const bool reads = text[0] == 'G' || text[0] == 'H';
    const bool receives = strstr(request, " /receives") != NULL;
    const bool is_page = strstr(request, " /ui/") != NULL;
    return access_judge(rules, &peer, &head,
                        is_page                                       ? ADMIN_SHOWS_PAGE
                        : strstr(request, " /reads") != NULL || reads ? ADMIN_READS
                        : receives                                    ? ADMIN_RECEIVES
                                                                      : ADMIN_CHANGES);
}

static void check_stories(const struct story *stories, size_t n_stories)
{
    const struct access_rules rules = rules_of_two_tokens();
    for (size_t i = 0; i < n_stories; i++) {
        const struct story *story = &stories[i];
        const struct access_verdict verdict =
            judge(&rules, story->peer, story->request, story->fields);
        ck_assert_msg(verdict.status == story->status, "%s\n%sgot %u, expected %u", story->request,
                      story->fields, verdict.status, story->status);
    }
}

#define HERE "Host: 127.0.0.1:9900\r\n"

START_TEST(reading_needs_this_machine_a_socket_or_a_token)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "GET /", HERE, 0},
        {LOOPBACK_6, "GET /", "Host: [::1]:9900\r\n", 0},
        {LOOPBACK, "HEAD /", HERE, 0},
        {SOCKET, "GET /", "Host: localhost\r\n", 0},
        {REMOTE, "GET /", HERE, 401},
        {REMOTE, "GET /", HERE WITH_TOKEN, 0},
        {REMOTE, "GET /", HERE WITH_READ_TOKEN, 0},
        {REMOTE, "GET /", HERE "Authorization: bearer  " TOKEN " \r\n", 0},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(changing_needs_a_socket_or_the_token)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "POST /", HERE JSON, 401},
        {LOOPBACK, "DELETE /", HERE, 401},
        {LOOPBACK, "DELETE /", HERE WITH_TOKEN, 0},
        {REMOTE, "POST /", HERE JSON WITH_TOKEN, 0},
        {REMOTE, "POST /", HERE JSON WITH_READ_TOKEN, 403},
        {REMOTE, "POST /", HERE JSON, 401},
        {SOCKET, "POST /", HERE JSON, 0},
        {SOCKET, "DELETE /", "Host: localhost\r\n", 0},
        {SOCKET, "DELETE /", HERE WITH_READ_TOKEN, 0},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(a_token_that_is_none_lets_nobody_in)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "GET /", HERE "Authorization: Bearer wrong\r\n", 401},
        {SOCKET, "GET /", HERE "Authorization: Bearer wrong\r\n", 401},
        {REMOTE, "GET /", HERE "Authorization: Bearer " TOKEN "0\r\n", 401},
        {REMOTE, "GET /", HERE "Authorization: Bearer 123456789abcdef0123456789abcdef\r\n", 401},
        {REMOTE, "GET /", HERE "Authorization: Basic " TOKEN "\r\n", 401},
        {REMOTE, "GET /", HERE "Authorization: " TOKEN "\r\n", 401},
        {REMOTE, "GET /", HERE "Authorization:\r\n", 401},
        {REMOTE, "GET /", HERE "Authorization: Bearer\r\n", 401},
        {REMOTE, "GET /", HERE WITH_TOKEN WITH_TOKEN, 401},
        {REMOTE, "GET /", HERE "Authorization: Bearer " TOKEN ", Bearer x\r\n", 401},
        {REMOTE, "GET /?token=" TOKEN, HERE, 401},
        {REMOTE, "GET /", HERE "Cookie: token=" TOKEN "\r\n", 401},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(without_tokens_none_fits)
{
    const struct access_rules rules = {.n_hosts = 0};
    ck_assert_uint_eq(judge(&rules, REMOTE, "GET /", HERE WITH_TOKEN).status, 401);
    ck_assert_uint_eq(judge(&rules, LOOPBACK, "GET /", HERE WITH_TOKEN).status, 401);
    ck_assert_uint_eq(judge(&rules, LOOPBACK, "GET /", HERE).status, 0);
}
END_TEST

START_TEST(what_a_proxy_of_this_machine_passes_on_is_not_its_own)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "GET /", HERE "X-Forwarded-For: 192.0.2.7\r\n", 401},
        {LOOPBACK, "GET /", HERE "Forwarded: for=192.0.2.7\r\n", 401},
        {LOOPBACK, "GET /", HERE "X-Real-IP: 127.0.0.1\r\n", 401},
        {LOOPBACK, "GET /", HERE "Via: 1.1 sluice\r\n", 401},
        {LOOPBACK, "GET /", HERE "X-Forwarded-Host: a\r\n", 401},
        {LOOPBACK, "GET /", HERE "X-Forwarded-Proto: https\r\n", 401},
        {LOOPBACK, "GET /", HERE "X-Forwarded-For: 192.0.2.7\r\n" WITH_TOKEN, 0},
        {SOCKET, "GET /", HERE "X-Forwarded-For: 192.0.2.7\r\n", 401},
        {SOCKET, "DELETE /", HERE "Via: 1.1 sluice\r\n", 401},
        {SOCKET, "DELETE /", HERE "Via: 1.1 sluice\r\n" WITH_TOKEN, 0},
        {SOCKET, "DELETE /", HERE "Via: 1.1 sluice\r\n" WITH_READ_TOKEN, 403},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(a_name_that_is_not_ours_is_misdirected)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "GET /", "Host: localhost\r\n", 0},
        {LOOPBACK, "GET /", "Host: LOCALHOST.:9900\r\n", 0},
        {LOOPBACK, "GET /", "Host: sluice.internal:80\r\n", 0},
        {LOOPBACK, "GET /", "Host: 192.0.2.1\r\n", 0},
        {LOOPBACK, "GET /", "Host: evil.example\r\n", 421},
        {LOOPBACK, "GET /", "Host: localhost.evil.example\r\n", 421},
        {LOOPBACK, "GET /", "Host: evil.localhost\r\n", 421},
        {LOOPBACK, "GET /", "Host: a.sluice.internal\r\n", 421},
        {LOOPBACK, "GET /", "Host: 127.0.0.1.evil.example\r\n", 421},
        {LOOPBACK, "GET /", "Host:\r\n", 421},
        {LOOPBACK, "GET http://evil.example/", "Host: localhost\r\n", 421},
        {REMOTE, "DELETE /", "Host: evil.example\r\n" WITH_TOKEN, 421},
        {REMOTE, "GET /", "Host: evil.example\r\n", 401},
        {SOCKET, "GET /", "Host: x\r\n", 421},
        {SOCKET, "DELETE /", "Host: evil.example\r\n", 421},
        {SOCKET, "DELETE /", "Host: sluice.internal\r\n", 0},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(what_a_page_of_others_sends_is_refused)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "GET /", HERE "Origin: https://evil.example\r\n", 403},
        {LOOPBACK, "GET /", HERE "Origin: null\r\n", 403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: cross-site\r\n", 403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: same-site\r\n", 403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: same-origin\r\nOrigin: http://127.0.0.1\r\n",
         403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: same-origin\r\n",
         403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: same-origin, same-origin\r\n", 403},
        {LOOPBACK, "GET /",
         HERE "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
              "Sec-Fetch-Dest: document\r\n",
         403},
        {LOOPBACK, "GET /", "Host: evil.example\r\nSec-Fetch-Site: same-origin\r\n", 421},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: none\r\n", 0},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", 0},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", 403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Site: none\r\nOrigin: null\r\n", 403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Mode: no-cors\r\n", 403},
        {LOOPBACK, "GET /", HERE "Sec-Fetch-Dest: image\r\n", 403},
        {SOCKET, "POST /", HERE JSON "Origin: http://127.0.0.1:9901\r\n", 403},
        {SOCKET, "POST /", HERE JSON "Origin: ftp://127.0.0.1:9900\r\n", 403},
        {SOCKET, "POST /",
         HERE JSON "Origin: http://127.0.0.1:9900\r\nOrigin: http://127.0.0.1:9900\r\n", 403},
        {SOCKET, "POST /", HERE JSON "Sec-Fetch-Site: none\r\n", 403},
        {SOCKET, "POST /", HERE JSON "Sec-Fetch-User: ?1\r\n", 403},
        {LOOPBACK, "DELETE /", HERE WITH_TOKEN "Origin: null\r\n", 403},
        {LOOPBACK, "OPTIONS /", HERE "Origin: null\r\n", 401},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

#define OF_PAGE "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"

START_TEST(our_own_page_may_ask)
{
    static const struct story STORIES[] = {
        {LOOPBACK, "GET /", HERE OF_PAGE, 0},
        {LOOPBACK, "GET /", HERE OF_PAGE "Origin: http://127.0.0.1:9900\r\n", 0},
        {LOOPBACK, "POST /", HERE OF_PAGE JSON, 401},
        {LOOPBACK, "POST /", HERE OF_PAGE JSON WITH_TOKEN "Origin: http://127.0.0.1:9900\r\n", 0},
        {REMOTE, "GET /", HERE OF_PAGE, 401},
        {REMOTE, "GET /", HERE OF_PAGE WITH_TOKEN, 0},
        /* over plain HTTP, where browsers leave the others out */
        {REMOTE, "POST /", HERE JSON WITH_TOKEN "Origin: http://127.0.0.1:9900\r\n", 0},
        {REMOTE, "POST /", HERE JSON WITH_TOKEN "Origin: HTTP://127.0.0.1:9900\r\n", 403},
        {REMOTE, "POST /", HERE OF_PAGE WITH_TOKEN, 415},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(the_page_itself_needs_no_token)
{
    static const struct story STORIES[] = {
        {REMOTE, "GET /ui/", HERE, 0},
        {REMOTE, "GET /ui/", HERE WITH_READ_TOKEN, 0},
        {REMOTE, "GET /ui/app.js", HERE OF_PAGE, 0},
        {REMOTE, "GET /ui/", HERE "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n", 0},
        {REMOTE, "GET /ui/",
         HERE "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
              "Sec-Fetch-Dest: document\r\n",
         0},
        {REMOTE, "GET /ui/",
         HERE "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
              "Sec-Fetch-Dest: iframe\r\n",
         403},
        {REMOTE, "GET /ui/app.js", HERE "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
         403},
        {REMOTE, "GET /ui/", "Host: evil.example\r\n", 421},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

START_TEST(a_change_has_a_type_that_no_form_has)
{
    static const struct story STORIES[] = {
        {SOCKET, "POST /", HERE, 415},
        {SOCKET, "POST /", HERE "Content-Type: text/plain\r\n", 415},
        {SOCKET, "POST /", HERE "Content-Type: application/x-www-form-urlencoded\r\n", 415},
        {SOCKET, "POST /", HERE "Content-Type: text/plain, application/json\r\n", 415},
        {SOCKET, "POST /", HERE JSON "Content-Type: text/plain\r\n", 415},
        {SOCKET, "POST /", HERE "Content-Type: Application/JSON ; charset=utf-8\r\n", 0},
        {SOCKET, "DELETE /", HERE "Content-Length: 1\r\n", 415},
        {SOCKET, "PUT /", HERE, 415},
        {SOCKET, "POST /reads", HERE "Content-Type: text/plain\r\n", 415},
        {SOCKET, "POST /reads", HERE JSON, 0},
        {LOOPBACK, "POST /reads", HERE JSON, 0},
        {SOCKET, "POST /receives", HERE JSON, 415},
        {SOCKET, "POST /receives", HERE, 415},
        {SOCKET, "POST /receives", HERE "Content-Type: text/plain\r\n", 415},
        {SOCKET, "POST /receives", HERE BYTES "Content-Type: text/plain\r\n", 415},
        {SOCKET, "POST /receives", HERE BYTES, 0},
        {SOCKET, "POST /", HERE BYTES, 415},
        {LOOPBACK, "POST /receives", HERE BYTES, 401},
        {REMOTE, "POST /receives", HERE BYTES WITH_READ_TOKEN, 403},
        {REMOTE, "POST /receives", HERE BYTES WITH_TOKEN, 0},
    };
    check_stories(STORIES, ARRAY_LEN(STORIES));
}
END_TEST

/* --- access rules --- */

static char path[] = "/tmp/sluice-token-XXXXXX";

static void write_token(const char *contents)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(contents, file);
    fclose(file);
}

static void set_up(void)
{
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    log_set_level(LOG_ERROR);
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void tear_down(void)
{
    unlink(path);
}

static enum status load(struct access_rules *rules)
{
    const struct admin_section section = {.token.path = span_of_text(path)};
    return access_rules_load(&section, rules);
}

START_TEST(the_first_line_of_a_file_is_its_token)
{
    struct access_rules rules;
    write_token("0123456789abcdef\r\nnot this\n");
    ck_assert_int_eq(load(&rules), STATUS_OK);
    ck_assert(rules.token.is_set);
    ck_assert(!rules.read_token.is_set);
    ck_assert(secret_matches(&rules.token.secret, SPAN("0123456789abcdef")));
    ck_assert(!secret_matches(&rules.token.secret, SPAN("0123456789abcdeF")));
    write_token("0123456789abcdef");
    ck_assert_int_eq(load(&rules), STATUS_OK);
}
END_TEST

START_TEST(a_file_that_holds_no_token_is_refused)
{
    static const char *const BAD[] = {"", "\n", "short\n", "with a space in it all\n",
                                      "\t0123456789abcdef\n"};
    struct access_rules rules;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        write_token(BAD[i]);
        ck_assert_int_ne(load(&rules), STATUS_OK);
        ck_assert(!rules.token.is_set);
    }
}
END_TEST

START_TEST(a_token_that_is_too_long_is_refused_and_not_cut)
{
    struct access_rules rules;
    char line[ADMIN_TOKEN_BYTES_MAX + 16];
    memset(line, 'x', sizeof(line));
    line[ADMIN_TOKEN_BYTES_MAX] = '\0';
    write_token(line);
    ck_assert_int_eq(load(&rules), STATUS_OK);
    line[ADMIN_TOKEN_BYTES_MAX] = 'x';
    line[ADMIN_TOKEN_BYTES_MAX + 1] = '\0';
    write_token(line);
    ck_assert_int_ne(load(&rules), STATUS_OK);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_told)
{
    struct access_rules rules;
    unlink(path);
    ck_assert_int_eq(load(&rules), STATUS_IO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admin/access");
    TCase *cases = tcase_create("access");
    tcase_add_test(cases, reading_needs_this_machine_a_socket_or_a_token);
    tcase_add_test(cases, changing_needs_a_socket_or_the_token);
    tcase_add_test(cases, a_token_that_is_none_lets_nobody_in);
    tcase_add_test(cases, without_tokens_none_fits);
    tcase_add_test(cases, what_a_proxy_of_this_machine_passes_on_is_not_its_own);
    tcase_add_test(cases, a_name_that_is_not_ours_is_misdirected);
    tcase_add_test(cases, what_a_page_of_others_sends_is_refused);
    tcase_add_test(cases, our_own_page_may_ask);
    tcase_add_test(cases, the_page_itself_needs_no_token);
    tcase_add_test(cases, a_change_has_a_type_that_no_form_has);
    suite_add_tcase(suite, cases);
    TCase *access_rules_tests = tcase_create("access_rules");
    tcase_add_checked_fixture(access_rules_tests, set_up, tear_down);
    tcase_add_test(access_rules_tests, the_first_line_of_a_file_is_its_token);
    tcase_add_test(access_rules_tests, a_file_that_holds_no_token_is_refused);
    tcase_add_test(access_rules_tests, a_token_that_is_too_long_is_refused_and_not_cut);
    tcase_add_test(access_rules_tests, a_file_that_is_not_there_is_told);
    suite_add_tcase(suite, access_rules_tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
