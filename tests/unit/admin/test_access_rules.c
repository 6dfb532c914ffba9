#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/access.h"
#include "base/hash.h"
#include "base/log.h"

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
    Suite *suite = suite_create("admin/access_rules");
    TCase *cases = tcase_create("access_rules");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_first_line_of_a_file_is_its_token);
    tcase_add_test(cases, a_file_that_holds_no_token_is_refused);
    tcase_add_test(cases, a_token_that_is_too_long_is_refused_and_not_cut);
    tcase_add_test(cases, a_file_that_is_not_there_is_told);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
