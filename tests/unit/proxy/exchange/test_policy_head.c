#include "proxy/request_evaluate.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/text.h"

enum { FIELDS_MAX = 16 };

static struct field fields[FIELDS_MAX];
static struct head head;
static struct arena arena;

static void set_up(void)
{
    arena_init(&arena, NULL, 0);
}

static void tear_down(void)
{
    arena_reset(&arena);
}

/* Read "name: value" lines into head. */
static void read_fields(const char *lines)
{
    static char bytes[1024];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = sizeof(bytes)};
    struct text text = text_of(bytes, sizeof(bytes));
    size_t consumed;
    text_add_format(&text, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", lines);
    ck_assert(!text.truncated);
    ck_assert_int_eq(head_parse_request(&parser, text_span(&text), &head, &consumed), PARSE_DONE);
}

/* The fields of @made but Host, as lines. */
static const char *lines_of(const struct head *made)
{
    static char bytes[1024];
    struct text text = text_of(bytes, sizeof(bytes));
    for (size_t i = 0; i < made->n_fields; i++) {
        const struct field *field = &made->fields[i];
        ck_assert(head_has(made, field->id));
        if (field->id != FIELD_HOST) {
            text_add_format(&text, "%.*s: %.*s\r\n", SPAN_ARGS(field->name),
                            SPAN_ARGS(field->value));
        }
    }
    text_add_char(&text, '\0');
    ck_assert(!text.truncated);
    return bytes;
}

#define OTHERS "X-Real-IP: 1.1.1.1\r\nX-Forwarded: a\r\nx_own.id: b\r\nCookie: c=d\r\n"

static const struct {
    bool peer_is_trusted;
    const char *sent;
    const char *read; /* NULL: all */
} HEADS[] = {
    {false, OTHERS, NULL},
    {false,
     "X-Forwarded-For: 1.1.1.1\r\nx-forwarded-proto: https\r\nX-Forwarded-Host: a\r\n" OTHERS
     "X-Forwarded-Port: 1\r\nx_forwarded.prefix: /\r\nforwarded: for=a\r\nX-Request-ID: r\r\n",
     OTHERS},
    {false, "X-Forwarded-For: 1.1.1.1\r\n", ""},
    {true, OTHERS, NULL},
    {true,
     "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\n" OTHERS
     "X-Forwarded-Port: 1\r\nX-Request-ID: r\r\n",
     NULL},
    {true, "Forwarded: for=1.1.1.1\r\nForwarded: for=10.0.0.1\r\n", NULL},
    /* the list that does not name the client */
    {true, "Forwarded: for=a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 10.0.0.1\r\n",
     "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 10.0.0.1\r\n"},
    {true, "X-Forwarded-For: ,\r\nForwarded: for=1.1.1.1\r\n", "Forwarded: for=1.1.1.1\r\n"},
    /* ids that are not passed on */
    {true, "X-Request-ID: r<1>\r\nX-A: 1\r\n", "X-A: 1\r\n"},
    {true, "X-Request-ID: r1\r\nX-A: 1\r\nX-Request-ID: r1\r\n", "X-A: 1\r\n"},
};

START_TEST(a_field_that_servers_get_otherwise_is_absent)
{
    read_fields(HEADS[_i].sent);
    const struct head *made = policy_head_make(&head, HEADS[_i].peer_is_trusted, &arena);
    if (HEADS[_i].read == NULL) {
        ck_assert_ptr_eq(made, &head);
    } else {
        ck_assert_ptr_ne(made, &head);
        ck_assert_str_eq(lines_of(made), HEADS[_i].read);
    }
    ck_assert(span_equals(made->host, SPAN("a")));
}
END_TEST

START_TEST(what_is_absent_is_not_known)
{
    read_fields("X-Forwarded-For: 1.1.1.1\r\nX-Request-ID: r\r\nVia: 1.1 a\r\n");
    const struct head *made = policy_head_make(&head, false, &arena);
    ck_assert(!head_has(made, FIELD_X_FORWARDED_FOR) && !head_has(made, FIELD_X_REQUEST_ID));
    ck_assert(head_has(made, FIELD_VIA));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/policy_head");
    TCase *tcase = tcase_create("policy_head");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_field_that_servers_get_otherwise_is_absent, 0,
                        (int)ARRAY_LEN(HEADS));
    tcase_add_test(tcase, what_is_absent_is_not_known);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
