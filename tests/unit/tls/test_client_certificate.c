#include "tls/client_certificate.h"

#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "unit/tls/made_certificate.h"

enum { DER_BYTES_MAX = 8192 };

static struct made_certificate made;
static struct client_certificate *found;

/* A certificate with this common name and these alternative names (NULL: none). */
static void make(const char *name, const char *san)
{
    made = made_new((struct made_options){.name = name, .san = san, .key = EVP_EC_gen("P-256")});
    found = client_certificate_new(made.x509);
    ck_assert_ptr_nonnull(found);
}

static void tear_down(void)
{
    client_certificate_free(found);
    made_free(&made);
}

static void assert_fact(enum certificate_fact fact, const char *wanted)
{
    ck_assert_msg(span_equals(found->facts[fact], span_of_text(wanted)), "%.*s, not %s",
                  SPAN_ARGS(found->facts[fact]), wanted);
}

START_TEST(the_first_name_of_each_kind_is_read)
{
    make("Müller & Co",
         "IP:192.0.2.1,DNS:First.Test,URI:spiffe://test/A,DNS:second.test,URI:spiffe://test/b");
    assert_fact(CERTIFICATE_DNS, "first.test");
    assert_fact(CERTIFICATE_URI, "spiffe://test/A");
    assert_fact(CERTIFICATE_CN, "Müller & Co");
}
END_TEST

START_TEST(a_certificate_without_names_has_its_fingerprint)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char hex[65];
    make("", NULL);
    assert_fact(CERTIFICATE_DNS, "");
    assert_fact(CERTIFICATE_URI, "");
    assert_fact(CERTIFICATE_CN, "");
    ck_assert_int_eq(X509_digest(made.x509, EVP_sha256(), digest, NULL), 1);
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    assert_fact(CERTIFICATE_FINGERPRINT, hex);
}
END_TEST

START_TEST(what_cannot_be_shown_counts_as_missing)
{
    char san[CERTIFICATE_FACT_BYTES_MAX + 100] = "URI:a:";
    memset(san + 6, 'x', CERTIFICATE_FACT_BYTES_MAX - 2);
    make("a\nb", san);
    assert_fact(CERTIFICATE_CN, "");
    ck_assert_uint_eq(found->facts[CERTIFICATE_URI].len, CERTIFICATE_FACT_BYTES_MAX);
    tear_down();
    struct text text = text_of(san, sizeof(san) - 1);
    text.len = strlen(san);
    text_add_literal(&text, "x,DNS:with space,DNS:second");
    san[text.len] = '\0';
    make("x\x7f", san);
    assert_fact(CERTIFICATE_CN, "");
    assert_fact(CERTIFICATE_URI, "");
    assert_fact(CERTIFICATE_DNS, ""); /* no other of its kind takes its place */
}
END_TEST

START_TEST(the_field_has_the_whole_certificate)
{
    unsigned char der[DER_BYTES_MAX];
    unsigned char decoded[DER_BYTES_MAX];
    unsigned char *at = der;
    for (int i = 0; i < 3; i++) { /* names of all lengths, for the padding */
        make(&"abc"[i], NULL);
        const int len = i2d_X509(made.x509, NULL);
        ck_assert_int_le(len, DER_BYTES_MAX);
        at = der;
        (void)i2d_X509(made.x509, &at);
        ck_assert_int_eq(found->field.data[0], ':');
        ck_assert_int_eq(found->field.data[found->field.len - 1], ':');
        ck_assert_int_ge(EVP_DecodeBlock(decoded, (const unsigned char *)found->field.data + 1,
                                         (int)found->field.len - 2),
                         len);
        ck_assert_mem_eq(decoded, der, (size_t)len);
        if (i < 2) {
            tear_down();
        }
    }
}
END_TEST

START_TEST(a_file_is_read)
{
    char path[] = "/tmp/test_client_certificate.XXXXXX";
    struct client_certificate *loaded = NULL;
    struct certificate_problem problem;
    const int fd = mkstemp(path);
    make("name", "DNS:a.test");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(client_certificate_load(path, &loaded, &problem), STATUS_INVALID);
    ck_assert_str_eq(problem.path, path);
    BIO *bio = BIO_new_fd(fd, BIO_NOCLOSE);
    made_write_key(bio, &made, NULL);
    made_write_certificate(bio, &made);
    BIO_free(bio);
    close(fd);
    ck_assert_int_eq(client_certificate_load(path, &loaded, &problem), STATUS_OK);
    ck_assert(
        span_equals(loaded->facts[CERTIFICATE_FINGERPRINT], found->facts[CERTIFICATE_FINGERPRINT]));
    client_certificate_free(loaded);
    unlink(path);
    ck_assert_int_eq(client_certificate_load(path, &loaded, &problem), STATUS_IO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/client_certificate");
    TCase *tcase = tcase_create("read");
    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_test(tcase, the_first_name_of_each_kind_is_read);
    tcase_add_test(tcase, a_certificate_without_names_has_its_fingerprint);
    tcase_add_test(tcase, what_cannot_be_shown_counts_as_missing);
    tcase_add_test(tcase, the_field_has_the_whole_certificate);
    tcase_add_test(tcase, a_file_is_read);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
