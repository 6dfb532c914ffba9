#include "tls/ticket_keys.h"

#include <check.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { HOUR_S = 3600, NOW_S = 500000 * HOUR_S + 1000 };

#define DIGITS_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define DIGITS_B "FFeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

static struct ticket_secrets secrets;
static unsigned char identity[TICKET_IDENTITY_BYTES];

static void parse(const char *text, struct ticket_secrets *out)
{
    size_t line;
    ck_assert(ticket_secrets_parse(span_of_text(text), out, &line));
}

static void set_up(void)
{
    const struct span names[] = {SPAN("a.example.com"), SPAN("b.example.com")};
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    parse(DIGITS_A "\n", &secrets);
    ticket_identity(names, 2, 0, span_of(NULL, 0), identity);
}

/* Whether a ticket of @then_s can be read at @now_s. */
static bool is_read(int64_t then_s, int64_t now_s, bool *is_current)
{
    struct ticket_key made;
    struct ticket_key found;
    ticket_key_to_encrypt(&secrets, identity, then_s, &made);
    if (!ticket_key_to_decrypt(&secrets, identity, made.name, now_s, &found, is_current)) {
        return false;
    }
    ck_assert_mem_eq(&made, &found, sizeof(made));
    return true;
}

/* --- secrets --- */

START_TEST(a_secret_is_64_digits_of_either_case)
{
    static const unsigned char BEGIN_A[] = {0x00, 0x01, 0x02};
    static const unsigned char BEGIN_B[] = {0xff, 0xee, 0xdd};
    parse("# first, then second\n\n  " DIGITS_A " \r\n\t\n" DIGITS_B, &secrets);
    ck_assert_uint_eq(secrets.n, 2);
    ck_assert_mem_eq(secrets.secrets[0], BEGIN_A, sizeof(BEGIN_A));
    ck_assert_mem_eq(secrets.secrets[1], BEGIN_B, sizeof(BEGIN_B));
    ck_assert_uint_eq(secrets.secrets[0][31], 0x1f);
}
END_TEST

static const struct {
    const char *text;
    size_t line;
} BAD_FILES[] = {
    {"", 0},
    {"\n\n# nothing\n", 0},
    {"abc", 1},
    {DIGITS_A "0", 1},
    {"\n" DIGITS_A "\n" DIGITS_A " " DIGITS_A "\n", 3},
    {DIGITS_A "\n#\n"
              "g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
     3},
    {":00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 1},
    {"\xff"
     "00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
     1},
    {"0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 1},
};

START_TEST(a_bad_line_is_named_and_no_secret_kept)
{
    static const struct ticket_secrets NONE;
    size_t line = 99;
    ck_assert(!ticket_secrets_parse(span_of_text(BAD_FILES[_i].text), &secrets, &line));
    ck_assert_uint_eq(line, BAD_FILES[_i].line);
    ck_assert_mem_eq(&secrets, &NONE, sizeof(NONE));
}
END_TEST

START_TEST(a_file_has_eight_secrets_at_most)
{
    char text[(TICKET_SECRETS_MAX + 1) * sizeof(DIGITS_A)];
    size_t line = 99;
    for (size_t i = 0; i <= TICKET_SECRETS_MAX; i++) {
        memcpy(text + i * sizeof(DIGITS_A), DIGITS_A "\n", sizeof(DIGITS_A));
    }
    ck_assert(ticket_secrets_parse(span_of(text, TICKET_SECRETS_MAX * sizeof(DIGITS_A)), &secrets,
                                   &line));
    ck_assert_uint_eq(secrets.n, TICKET_SECRETS_MAX);
    ck_assert(!ticket_secrets_parse(span_of(text, sizeof(text)), &secrets, &line));
    ck_assert_uint_eq(line, 0);
}
END_TEST

/* --- identity --- */

START_TEST(all_parts_of_an_identity_count)
{
    const struct span one[] = {SPAN("ab"), SPAN("c")};
    const struct span other[] = {SPAN("a"), SPAN("bc")};
    unsigned char made[6][TICKET_IDENTITY_BYTES];
    unsigned char again[TICKET_IDENTITY_BYTES];
    ticket_identity(one, 2, 0, span_of(NULL, 0), made[0]);
    ticket_identity(other, 2, 0, span_of(NULL, 0), made[1]);
    ticket_identity(one, 1, 0, span_of(NULL, 0), made[2]);
    ticket_identity(one, 2, 1, span_of(NULL, 0), made[3]);
    ticket_identity(one, 2, 1, SPAN("digest"), made[4]);
    ticket_identity(one, 2, 0, SPAN("digest"), made[5]);
    for (size_t i = 0; i < ARRAY_LEN(made); i++) {
        for (size_t j = 0; j < i; j++) {
            ck_assert_mem_ne(made[i], made[j], TICKET_IDENTITY_BYTES);
        }
    }
    ticket_identity(one, 2, 1, SPAN("digest"), again);
    ck_assert_mem_eq(again, made[4], TICKET_IDENTITY_BYTES);
}
END_TEST

/* --- hours --- */

START_TEST(a_ticket_is_read_for_two_hours_after_the_one_it_is_of)
{
    bool is_current;
    for (int64_t age = 0; age <= 2; age++) {
        ck_assert(is_read(NOW_S - age * HOUR_S, NOW_S, &is_current));
        ck_assert_int_eq(is_current, age == 0);
    }
    ck_assert(!is_read(NOW_S - 3 * (int64_t)HOUR_S, NOW_S, &is_current));
}
END_TEST

START_TEST(a_ticket_of_a_clock_ahead_is_read_for_an_hour)
{
    bool is_current;
    ck_assert(is_read(NOW_S + HOUR_S, NOW_S, &is_current) && !is_current);
    ck_assert(!is_read(NOW_S + 2 * HOUR_S, NOW_S, &is_current));
}
END_TEST

START_TEST(a_ticket_is_read_for_its_whole_life_whenever_it_was_made)
{
    bool is_current;
    for (int64_t at = 0; at < HOUR_S; at += 599) {
        const int64_t then_s = 400000 * (int64_t)HOUR_S + at;
        ck_assert(is_read(then_s, then_s + TICKET_LIFETIME_S, &is_current));
        ck_assert(!is_read(then_s, then_s + 4 * (int64_t)HOUR_S, &is_current));
    }
}
END_TEST

START_TEST(a_key_lasts_until_the_hour_ends)
{
    struct ticket_key first;
    struct ticket_key last;
    struct ticket_key next;
    ticket_key_to_encrypt(&secrets, identity, 7 * HOUR_S, &first);
    ticket_key_to_encrypt(&secrets, identity, 8 * HOUR_S - 1, &last);
    ticket_key_to_encrypt(&secrets, identity, 8 * HOUR_S, &next);
    ck_assert_mem_eq(&first, &last, sizeof(first));
    ck_assert_mem_ne(first.name, next.name, sizeof(first.name));
    ck_assert_mem_ne(first.cipher_key, next.cipher_key, TICKET_KEY_BYTES);
    ck_assert_mem_ne(first.mac_key, next.mac_key, TICKET_KEY_BYTES);
    ck_assert_mem_ne(first.cipher_key, first.mac_key, TICKET_KEY_BYTES);
}
END_TEST

START_TEST(a_clock_before_1970_is_at_its_beginning)
{
    bool is_current;
    ck_assert(is_read(-5, 100, &is_current) && is_current);
    ck_assert(is_read(INT64_MIN, 0, &is_current) && is_current);
}
END_TEST

/* --- who reads whose --- */

START_TEST(another_identity_has_no_key_for_it)
{
    struct ticket_key made;
    struct ticket_key key;
    unsigned char other[TICKET_IDENTITY_BYTES];
    const struct span name = SPAN("a.example.com");
    bool is_current;
    ticket_identity(&name, 1, 1, SPAN("ca"), other);
    ticket_key_to_encrypt(&secrets, identity, NOW_S, &made);
    ck_assert(!ticket_key_to_decrypt(&secrets, other, made.name, NOW_S, &key, &is_current));
}
END_TEST

START_TEST(a_failed_search_leaves_no_key_behind)
{
    static const struct ticket_key NONE;
    unsigned char name[TICKET_NAME_BYTES];
    struct ticket_key key;
    bool is_current;
    ticket_key_to_encrypt(&secrets, identity, NOW_S, &key);
    memcpy(name, key.name, sizeof(name));
    name[TICKET_NAME_BYTES - 1] ^= 1;
    ck_assert(!ticket_key_to_decrypt(&secrets, identity, name, NOW_S, &key, &is_current));
    ck_assert_mem_eq(&key, &NONE, sizeof(key));
}
END_TEST

START_TEST(the_first_secret_encrypts_and_all_decrypt)
{
    struct ticket_secrets before;
    struct ticket_secrets between;
    struct ticket_secrets after;
    struct ticket_key old;
    struct ticket_key new;
    struct ticket_key found;
    bool is_current;
    parse(DIGITS_A, &before);
    parse(DIGITS_B "\n" DIGITS_A, &between);
    parse(DIGITS_B, &after);
    ticket_key_to_encrypt(&before, identity, NOW_S, &old);
    ticket_key_to_encrypt(&between, identity, NOW_S, &new);
    ck_assert_mem_ne(old.name, new.name, sizeof(old.name));
    ck_assert(ticket_key_to_decrypt(&between, identity, old.name, NOW_S, &found, &is_current));
    ck_assert(!is_current);
    ck_assert_mem_eq(&found, &old, sizeof(old));
    ck_assert(ticket_key_to_decrypt(&between, identity, new.name, NOW_S, &found, &is_current));
    ck_assert(is_current);
    ck_assert(ticket_key_to_decrypt(&after, identity, new.name, NOW_S, &found, &is_current));
    ck_assert(!ticket_key_to_decrypt(&after, identity, old.name, NOW_S, &found, &is_current));
    ck_assert(!ticket_key_to_decrypt(&before, identity, new.name, NOW_S, &found, &is_current));
}
END_TEST

/* --- as OpenSSL derives --- */

static void derive_by_openssl(const void *secret, size_t secret_len, const void *info,
                              size_t info_len, unsigned char *out, size_t len)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          secret_len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info, info_len),
        OSSL_PARAM_construct_end(),
    };
    ck_assert_int_eq(EVP_KDF_derive(context, out, len, params), 1);
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
}

START_TEST(a_key_is_what_openssl_derives_of_secret_hour_and_identity)
{
    unsigned char info[20 + 4 + TICKET_IDENTITY_BYTES] = "sluice ticket key 1";
    static const unsigned char HOUR[] = {0x00, 0x07, 0xa1, 0x20}; /* 500,000 */
    unsigned char derived[12 + 32 + 32];
    struct ticket_key key;
    memcpy(info + 20, HOUR, sizeof(HOUR));
    memcpy(info + 24, identity, TICKET_IDENTITY_BYTES);
    derive_by_openssl(secrets.secrets[0], TICKET_SECRET_BYTES, info, sizeof(info), derived,
                      sizeof(derived));
    ticket_key_to_encrypt(&secrets, identity, NOW_S, &key);
    ck_assert_mem_eq(key.name, HOUR, 4);
    ck_assert_mem_eq(key.name + 4, derived, 12);
    ck_assert_mem_eq(key.cipher_key, derived + 12, 32);
    ck_assert_mem_eq(key.mac_key, derived + 44, 32);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/ticket_keys");
    TCase *tests = tcase_create("keys");

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, a_secret_is_64_digits_of_either_case);
    tcase_add_loop_test(tests, a_bad_line_is_named_and_no_secret_kept, 0, ARRAY_LEN(BAD_FILES));
    tcase_add_test(tests, a_file_has_eight_secrets_at_most);
    tcase_add_test(tests, all_parts_of_an_identity_count);
    tcase_add_test(tests, a_ticket_is_read_for_two_hours_after_the_one_it_is_of);
    tcase_add_test(tests, a_ticket_of_a_clock_ahead_is_read_for_an_hour);
    tcase_add_test(tests, a_ticket_is_read_for_its_whole_life_whenever_it_was_made);
    tcase_add_test(tests, a_key_lasts_until_the_hour_ends);
    tcase_add_test(tests, a_clock_before_1970_is_at_its_beginning);
    tcase_add_test(tests, another_identity_has_no_key_for_it);
    tcase_add_test(tests, a_failed_search_leaves_no_key_behind);
    tcase_add_test(tests, the_first_secret_encrypts_and_all_decrypt);
    tcase_add_test(tests, a_key_is_what_openssl_derives_of_secret_hour_and_identity);
    suite_add_tcase(suite, tests);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
