/* Bans as Redis holds them: what is written is read, and what is something else is refused. */

#include "store/bans/ban_record.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

#define FIELD "per-client:2bd806c97f0e00af1a1fc3328fa763a9"

START_TEST(what_is_written_is_read)
{
    char field_bytes[BAN_FIELD_BYTES_MAX];
    char value_bytes[512];
    struct text field = text_of(field_bytes, sizeof(field_bytes));
    struct text value = text_of(value_bytes, sizeof(value_bytes));
    struct ban read;
    const struct ban ban = {
        .kind = BAN_EXEMPTS,
        .limit = SPAN("per-client"),
        .hash = {0x2b, 0xd8, 0x06, 0xc9, 0x7f, 0x0e, 0x00, 0xaf, 0x1a, 0x1f, 0xc3, 0x32, 0x8f, 0xa7,
                 0x63, 0xa9},
        .identity = SPAN("{client.ip:9=192.0.2.1}"),
        .until_ms = 1764000600000,
        .set_ms = 1764000000000,
        .by = SPAN("alice of ops"),
        .reason = SPAN("asks too often"),
    };
    ban_record_write_field(ban.limit, ban.hash, &field);
    ck_assert(span_equals(text_span(&field), SPAN(FIELD)));
    text_add_literal(&value, "exempt 1764000600000 1764000000000 ");
    ban_record_write_rest(&ban, &value);
    ck_assert(ban_record_read(text_span(&field), text_span(&value), &read));
    ck_assert_int_eq(read.kind, BAN_EXEMPTS);
    ck_assert(span_equals(read.limit, ban.limit));
    ck_assert_mem_eq(read.hash, ban.hash, sizeof(ban.hash));
    ck_assert(span_equals(read.identity, ban.identity));
    ck_assert_uint_eq(read.until_ms, ban.until_ms);
    ck_assert_uint_eq(read.set_ms, ban.set_ms);
    ck_assert(span_equals(read.by, SPAN("alice_of_ops")));
    ck_assert(span_equals(read.reason, ban.reason));
}
END_TEST

START_TEST(what_is_not_known_is_empty)
{
    struct ban read;
    ck_assert(ban_record_read(SPAN(FIELD), SPAN("ban 2 1 - - "), &read));
    ck_assert_int_eq(read.kind, BAN_REFUSES);
    ck_assert_uint_eq(read.by.len + read.identity.len + read.reason.len, 0);
}
END_TEST

START_TEST(what_is_something_else_is_refused)
{
    static const struct {
        const char *field;
        const char *value;
    } OTHERS[] = {
        {"", "ban 2 1 - - "},
        {"2bd806c97f0e00af1a1fc3328fa763a9", "ban 2 1 - - "},
        {":2bd806c97f0e00af1a1fc3328fa763a9", "ban 2 1 - - "},
        {"a-2bd806c97f0e00af1a1fc3328fa763a9", "ban 2 1 - - "},
        {"a:2Bd806c97f0e00af1a1fc3328fa763a9", "ban 2 1 - - "},
        {"a:gbd806c97f0e00af1a1fc3328fa763a9", "ban 2 1 - - "},
        {FIELD, ""},
        {FIELD, "ban"},
        {FIELD, "ban 2 1 - -"},
        {FIELD, "bans 2 1 - - "},
        {FIELD, "ban x 1 - - "},
        {FIELD, "ban 2 -1 - - "},
        {FIELD, "ban 99999999999999999999 1 - - "},
        {FIELD, "ban 2 1  - "},
    };
    struct ban read;
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++) {
        ck_assert_msg(
            !ban_record_read(span_of_text(OTHERS[i].field), span_of_text(OTHERS[i].value), &read),
            "%s %s", OTHERS[i].field, OTHERS[i].value);
    }
}
END_TEST

START_TEST(what_is_too_long_is_refused)
{
    static char long_name[NAME_BYTES_MAX + 34];
    static char long_reason[BAN_REASON_BYTES_MAX + 13];
    struct ban read;
    memset(long_name, 'a', sizeof(long_name));
    long_name[NAME_BYTES_MAX + 1] = ':';
    ck_assert(!ban_record_read(span_of(long_name, sizeof(long_name)), SPAN("ban 2 1 - - "), &read));
    ck_assert(ban_record_read(span_of(long_name + 1, sizeof(long_name) - 1), SPAN("ban 2 1 - - "),
                              &read));
    memset(long_reason, 'a', sizeof(long_reason));
    memcpy(long_reason, "ban 2 1 - - ", 12);
    ck_assert(!ban_record_read(SPAN(FIELD), span_of(long_reason, sizeof(long_reason)), &read));
    ck_assert(ban_record_read(SPAN(FIELD), span_of(long_reason, sizeof(long_reason) - 1), &read));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store/ban_record");
    TCase *tcase = tcase_create("record");
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_test(tcase, what_is_not_known_is_empty);
    tcase_add_test(tcase, what_is_something_else_is_refused);
    tcase_add_test(tcase, what_is_too_long_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *executor = srunner_create(suite);
    srunner_run_all(executor, CK_ENV);
    const int failed = srunner_ntests_failed(executor);
    srunner_free(executor);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
