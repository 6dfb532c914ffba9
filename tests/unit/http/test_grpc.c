#include "http/grpc.h"

#include <check.h>
#include <limits.h>
#include <stdlib.h>

START_TEST(the_media_type_of_grpc_is_known)
{
    static const struct {
        const char *type;
        bool is_grpc;
    } STORIES[] = {
        {"application/grpc", true},
        {"APPLICATION/gRPC", true},
        {"application/grpc+proto", true},
        {"application/grpc;x=y", true},
        {"application/grpc-web", false},
        {"application/grpc ", false},
        {"application/grp", false},
        {" application/grpc", false},
        {"", false},
        {"text/plain, application/grpc", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        struct field fields[] = {
            {.name = SPAN("Content-Type"), .value = span_of_text(STORIES[i].type)}};
        const struct head head = {.fields = fields, .n_fields = 1};
        ck_assert_int_eq(grpc_is_type(fields[0].value), STORIES[i].is_grpc);
        ck_assert_int_eq(grpc_is_call(&head), STORIES[i].is_grpc);
    }
}
END_TEST

START_TEST(two_types_are_none)
{
    struct field fields[] = {
        {.name = SPAN("content-type"), .value = SPAN("application/grpc")},
        {.name = SPAN("content-type"), .value = SPAN("application/grpc")},
    };
    const struct head head = {.fields = fields, .n_fields = 2};
    ck_assert(!grpc_is_call(&head));
    ck_assert(!grpc_is_call(&(struct head){.n_fields = 0}));
}
END_TEST

START_TEST(statuses_of_grpc_have_one_of_http)
{
    static const uint16_t STATUSES[] = {
        200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401, 500,
    };
    for (unsigned i = 0; i < ARRAY_LEN(STATUSES); i++) {
        ck_assert_uint_eq(grpc_http_status(i), STATUSES[i]);
    }
    ck_assert_uint_eq(grpc_http_status(UINT_MAX), 500);
}
END_TEST

START_TEST(an_answer_that_ends_with_its_head_has_its_status_there)
{
    static const struct {
        const char *grpc; /* NULL: none */
        uint16_t http;
        unsigned in_head;
        uint16_t stands_for;
    } STORIES[] = {
        {"14", 200, 14, 503}, {"0", 200, 0, 200},
        {"x", 200, 2, 500},   {NULL, 200, 0, 200}, /* its trailers tell */
        {"14", 204, 14, 503}, {"14", 404, 0, 404},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        struct field fields[] = {
            {.name = SPAN("grpc-status"),
             .value = span_of_text(STORIES[i].grpc == NULL ? "" : STORIES[i].grpc)},
        };
        const struct head head = {
            .status = STORIES[i].http,
            .fields = fields,
            .n_fields = STORIES[i].grpc == NULL ? 0 : 1,
        };
        ck_assert_uint_eq(grpc_head_status(&head), STORIES[i].in_head);
        ck_assert_uint_eq(grpc_begun_status(&head), STORIES[i].in_head);
        ck_assert_uint_eq(grpc_answer_status(STORIES[i].http, STORIES[i].in_head),
                          STORIES[i].stands_for);
    }
}
END_TEST

START_TEST(the_status_of_an_answer_of_grpc_is_to_come)
{
    static const struct {
        const char *type, *grpc; /* NULL: none */
        uint16_t http;
        unsigned begun;
    } STORIES[] = {
        {"Application/gRPC+json", NULL, 200, GRPC_NONE},
        {"application/grpc", "0", 200, 0},
        {"application/grpc", "16", 200, 16},
        {"application/grpc", NULL, 204, 0},
        {"application/grpc", NULL, 401, 0},
        {"application/grpc", "16", 304, 0},
        {"application/grpc-web", NULL, 200, 0},
        {"application/json", "16", 200, 16},
        {"application/json", NULL, 200, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        struct field fields[] = {
            {.name = SPAN("Server-Time"), .value = SPAN("1")},
            {.name = SPAN("Content-Type"), .value = span_of_text(STORIES[i].type)},
            {.name = SPAN("Grpc-Status"),
             .value = span_of_text(STORIES[i].grpc == NULL ? "" : STORIES[i].grpc)},
        };
        const struct head head = {
            .status = STORIES[i].http,
            .fields = fields,
            .n_fields = STORIES[i].grpc == NULL ? 2 : 3,
        };
        ck_assert_uint_eq(grpc_begun_status(&head), STORIES[i].begun);
    }
}
END_TEST

START_TEST(statuses_of_http_have_one_of_grpc)
{
    static const struct {
        uint16_t http;
        enum grpc_status grpc;
    } STORIES[] = {
        {400, GRPC_INTERNAL},
        {401, GRPC_UNAUTHENTICATED},
        {403, GRPC_PERMISSION_DENIED},
        {404, GRPC_UNIMPLEMENTED},
        {408, GRPC_UNAVAILABLE},
        {413, GRPC_RESOURCE_EXHAUSTED},
        {417, GRPC_INTERNAL},
        {418, GRPC_UNKNOWN},
        {421, GRPC_UNKNOWN},
        {429, GRPC_RESOURCE_EXHAUSTED},
        {431, GRPC_RESOURCE_EXHAUSTED},
        {500, GRPC_INTERNAL},
        {501, GRPC_UNIMPLEMENTED},
        {502, GRPC_UNAVAILABLE},
        {503, GRPC_UNAVAILABLE},
        {504, GRPC_UNAVAILABLE},
        {508, GRPC_INTERNAL},
        {599, GRPC_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        ck_assert_int_eq(grpc_status_of(STORIES[i].http), STORIES[i].grpc);
    }
}
END_TEST

START_TEST(a_status_is_0_to_16)
{
    static const struct {
        const char *value;
        unsigned status;
    } STORIES[] = {
        {"0", 0},
        {"7", 7},
        {"16", 16},
        {"08", 8},
        {"17", GRPC_UNKNOWN},
        {"99", GRPC_UNKNOWN},
        {"", GRPC_UNKNOWN},
        {"x", GRPC_UNKNOWN},
        {"1x", GRPC_UNKNOWN},
        {"x1", GRPC_UNKNOWN},
        {"-1", GRPC_UNKNOWN},
        {"4294967304", GRPC_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        const struct field fields[] = {
            {.name = SPAN("a"), .value = SPAN("1")},
            {.name = SPAN("Grpc-Status"), .value = span_of_text(STORIES[i].value)},
        };
        ck_assert_uint_eq(grpc_find_status(fields, 2), STORIES[i].status);
        ck_assert_uint_eq(grpc_find_status(fields, 1), GRPC_NONE);
    }
}
END_TEST

START_TEST(binary_fields_are_base64)
{
    static const struct {
        const char *value;
        bool is_valid;
    } VALUES[] = {
        {"", true},        {"YQ", true},      {"YQ==", true},   {"YWI", true},   {"YWI=", true},
        {"YWJj", true},    {"+/+/", true},    {"YWJjYQ", true}, {"=", false},    {"==", false},
        {"Y", false},      {"YQ=", false},    {"YR", false},    {"YR==", false}, {"YWJ", false},
        {"YWJ=", false},   {"Y===", false},   {"YWJj=", false}, {"****", false}, {"_-_-", false},
        {"YQ==YQ", false}, {"YQ, YQ", false}, {"====", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        const struct span value = span_of_text(VALUES[i].value);
        ck_assert_msg(grpc_is_base64(value) == VALUES[i].is_valid, "%s", VALUES[i].value);
    }
    ck_assert(grpc_is_binary(SPAN("x-bin")) && grpc_is_binary(SPAN("X-BIN")));
    ck_assert(!grpc_is_binary(SPAN("bin")) && !grpc_is_binary(SPAN("x-bin-")));
}
END_TEST

START_TEST(padding_makes_no_difference)
{
    static const char *const VALUES[][2] = {
        {"", ""},         {"YQ==", "YQ"},         {"YQ", "YQ"},   {"YWI=", "YWI"},
        {"YWJj", "YWJj"}, {"YWJjYQ==", "YWJjYQ"}, {"YQ=", "YQ="}, {"YR==", "YR=="},
        {"==", "=="},     {"a b=", "a b="},
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        const struct span unpadded = grpc_unpadded(span_of_text(VALUES[i][0]));
        ck_assert_msg(span_equals(unpadded, span_of_text(VALUES[i][1])), "%s", VALUES[i][0]);
    }
}
END_TEST

/* Whether a message has begun that is not whole, and whether one has been whole. */
START_TEST(messages_are_told_apart_however_they_are_cut)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool is_inside, has_whole;
    } STORIES[] = {
        {"", 0, false, false},
        {"\0", 1, true, false},
        {"\0\0\0\0", 4, true, false},
        {"\0\0\0\0\0", 5, false, true}, /* an empty one */
        {"\1\0\0\0\2", 5, true, false},
        {"\0\0\0\0\2a", 6, true, false},
        {"\0\0\0\0\2ab", 7, false, true},
        {"\0\0\0\0\2ab\0", 8, true, true},
        {"\0\0\0\0\0\0\0\0\0\1a\0\0\0\0\2ab", 18, false, true},
        {"\0\0\1\0\1a", 6, true, false},
        {"\0\377\377\377\377a", 6, true, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(STORIES); i++) {
        for (size_t n = 1; n <= STORIES[i].len + 1; n++) {
            struct grpc_messages messages = {0};
            for (size_t at = 0; at < STORIES[i].len; at += n) {
                const size_t rest = STORIES[i].len - at;
                grpc_messages_take(&messages, span_of(STORIES[i].bytes + at, rest < n ? rest : n));
            }
            ck_assert_int_eq(grpc_messages_is_inside(&messages), STORIES[i].is_inside);
            ck_assert_int_eq(messages.has_whole, STORIES[i].has_whole);
        }
    }
}
END_TEST

START_TEST(the_length_of_a_message_has_four_bytes)
{
    struct grpc_messages messages = {0};
    char bytes[257] = {0};
    grpc_messages_take(&messages, span_of("\0\0\0\1\1", 5));
    grpc_messages_take(&messages, span_of(bytes, 256));
    ck_assert(grpc_messages_is_inside(&messages) && !messages.has_whole);
    grpc_messages_take(&messages, span_of(bytes, 1));
    ck_assert(!grpc_messages_is_inside(&messages) && messages.has_whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http/grpc");
    TCase *tcase = tcase_create("grpc");
    tcase_add_test(tcase, the_media_type_of_grpc_is_known);
    tcase_add_test(tcase, two_types_are_none);
    tcase_add_test(tcase, statuses_of_grpc_have_one_of_http);
    tcase_add_test(tcase, an_answer_that_ends_with_its_head_has_its_status_there);
    tcase_add_test(tcase, the_status_of_an_answer_of_grpc_is_to_come);
    tcase_add_test(tcase, statuses_of_http_have_one_of_grpc);
    tcase_add_test(tcase, a_status_is_0_to_16);
    tcase_add_test(tcase, binary_fields_are_base64);
    tcase_add_test(tcase, padding_makes_no_difference);
    tcase_add_test(tcase, messages_are_told_apart_however_they_are_cut);
    tcase_add_test(tcase, the_length_of_a_message_has_four_bytes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
