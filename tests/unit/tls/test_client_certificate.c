#include "tls/client_certificate.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <stdint.h>
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

/* Write (r, n-s) for (r, s) in the signature of @x509. */
static void write_other_signature(X509 *x509, const char *curve)
{
    const ASN1_BIT_STRING *signature;
    const X509_ALGOR *algorithm;
    unsigned char *der = NULL;
    EC_GROUP *group = EC_GROUP_new_by_curve_name(EC_curve_nist2nid(curve));
    X509_get0_signature(&signature, &algorithm, x509);
    const unsigned char *at = ASN1_STRING_get0_data(signature);
    ECDSA_SIG *ecdsa = d2i_ECDSA_SIG(NULL, &at, ASN1_STRING_length(signature));
    BIGNUM *r = BN_dup(ECDSA_SIG_get0_r(ecdsa));
    BIGNUM *s = BN_new();
    ck_assert_int_eq(BN_sub(s, EC_GROUP_get0_order(group), ECDSA_SIG_get0_s(ecdsa)), 1);
    ck_assert_int_eq(ECDSA_SIG_set0(ecdsa, r, s), 1);
    const int len = i2d_ECDSA_SIG(ecdsa, &der);
    ck_assert_int_eq(ASN1_BIT_STRING_set((ASN1_BIT_STRING *)(uintptr_t)signature, der, len), 1);
    OPENSSL_free(der);
    ECDSA_SIG_free(ecdsa);
    EC_GROUP_free(group);
}

static bool same(struct span a, struct span b)
{
    return a.len == 64 && span_equals(a, b);
}

START_TEST(a_certificate_with_the_other_signature_of_ecdsa_is_the_same_one)
{
    static const char *const CURVES[] = {"P-256", "P-384", "P-521"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 20; j++) { /* s above and below n/2 */
            made = made_new((struct made_options){.name = "a", .key = EVP_EC_gen(CURVES[i])});
            found = client_certificate_new(made.x509);
            write_other_signature(made.x509, CURVES[i]);
            ck_assert_int_eq(X509_verify(made.x509, made.key), 1);
            struct client_certificate *other = client_certificate_new(made.x509);
            ck_assert(found != NULL && other != NULL);
            ck_assert(!same(found->facts[CERTIFICATE_FINGERPRINT],
                            other->facts[CERTIFICATE_FINGERPRINT]));
            ck_assert(same(found->identity, other->identity));
            ck_assert(same(found->twin, other->facts[CERTIFICATE_FINGERPRINT]));
            ck_assert(same(other->twin, found->facts[CERTIFICATE_FINGERPRINT]));
            client_certificate_free(other);
            tear_down();
        }
    }
    make("a", NULL);
}
END_TEST

START_TEST(the_identity_is_the_digest_of_what_was_signed)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char *tbs = NULL;
    char hex[65];
    made = made_new((struct made_options){.name = "a", .key = EVP_RSA_gen(2048)});
    found = client_certificate_new(made.x509);
    const int len = i2d_re_X509_tbs(made.x509, &tbs);
    ck_assert_int_eq(EVP_Digest(tbs, (size_t)len, digest, NULL, EVP_sha256(), NULL), 1);
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    ck_assert(same(found->identity, span_of_text(hex)));
    ck_assert_uint_eq(found->twin.len, 0); /* RSA has one signature alone */
    OPENSSL_free(tbs);
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
    tcase_add_test(tcase, a_certificate_with_the_other_signature_of_ecdsa_is_the_same_one);
    tcase_add_test(tcase, the_identity_is_the_digest_of_what_was_signed);
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
