#include "tls/tls_server.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <stdio.h>
#include <unistd.h>

#include "unit/tls/made_certificate.h"

enum { NOW_S = 1800000000, HOUR_S = 3600 };

static char path[64];
static struct made_certificate root;
static struct made_certificate leaf;
static struct made_certificate other;
static struct certificate *certificate;
static struct certificate_problem problem;
static int64_t stale_s; /* of a response */

static struct made_certificate new_leaf(void)
{
    return made_new((struct made_options){
        .name = "leaf", .key = EVP_EC_gen("P-256"), .issuer = &root, .san = "DNS:a.test"});
}

static struct certificate *read_chain(bool with_issuer)
{
    struct certificate *read = NULL;
    BIO *certs = BIO_new(BIO_s_mem());
    BIO *key = BIO_new(BIO_s_mem());
    char *cert_data;
    char *key_data;
    made_write_certificate(certs, &leaf);
    if (with_issuer) {
        made_write_certificate(certs, &root);
    }
    made_write_key(key, &leaf, NULL);
    const size_t cert_len = (size_t)BIO_get_mem_data(certs, &cert_data);
    const size_t key_len = (size_t)BIO_get_mem_data(key, &key_data);
    ck_assert_int_eq(certificate_read(span_of(cert_data, cert_len), "cert",
                                      span_of(key_data, key_len), "key", &read, &problem),
                     STATUS_OK);
    BIO_free(certs);
    BIO_free(key);
    return read;
}

static void set_up(void)
{
    (void)snprintf(path, sizeof(path), "/tmp/test_server_files.XXXXXX");
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    root = made_new((struct made_options){.name = "root", .key = EVP_EC_gen("P-256"), .is_ca = 1});
    leaf = new_leaf();
    other = new_leaf();
    certificate = read_chain(true);
}

static void tear_down(void)
{
    ck_assert_uint_eq(ERR_peek_error(), 0);
    (void)remove(path);
    certificate_free(certificate);
    made_free(&leaf);
    made_free(&other);
    made_free(&root);
}

static void write_bytes(const unsigned char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    (void)fclose(file);
}

/* --- stapled responses --- */

/* A response about @subject that @signer signs, from an hour before now to @end_s. */
static void write_response(const struct made_certificate *subject,
                           const struct made_certificate *signer, int status, int64_t end_s)
{
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    ASN1_TIME *begin = ASN1_TIME_set(NULL, NOW_S - HOUR_S);
    ASN1_TIME *end = ASN1_TIME_set(NULL, (time_t)end_s);
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), subject->x509, root.x509);
    unsigned char *der = NULL;
    ck_assert_ptr_nonnull(OCSP_basic_add1_status(
        basic, id, status, 0, status == V_OCSP_CERTSTATUS_REVOKED ? begin : NULL, begin, end));
    ck_assert_int_eq(OCSP_basic_sign(basic, signer->x509, signer->key, EVP_sha256(), NULL, 0), 1);
    OCSP_RESPONSE *whole = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    const int len = i2d_OCSP_RESPONSE(whole, &der);
    ck_assert_int_gt(len, 0);
    write_bytes(der, (size_t)len);
    OPENSSL_free(der);
    OCSP_RESPONSE_free(whole);
    OCSP_CERTID_free(id);
    ASN1_TIME_free(begin);
    ASN1_TIME_free(end);
    OCSP_BASICRESP_free(basic);
}

static void assert_unused(const char *text)
{
    struct span response = span_of(NULL, 0);
    ck_assert_int_eq(
        server_files_load_ocsp(path, certificate, NOW_S, &response, &stale_s, &problem),
        STATUS_INVALID);
    ck_assert_str_eq(problem.text, text);
    ck_assert_ptr_null(response.data);
}

START_TEST(a_good_response_is_kept_as_it_is)
{
    struct span response;
    write_response(&leaf, &root, V_OCSP_CERTSTATUS_GOOD, NOW_S + HOUR_S);
    ck_assert_int_eq(
        server_files_load_ocsp(path, certificate, NOW_S, &response, &stale_s, &problem), STATUS_OK);
    const unsigned char *at = (const unsigned char *)response.data;
    OCSP_RESPONSE *again = d2i_OCSP_RESPONSE(NULL, &at, (long)response.len);
    ck_assert_ptr_nonnull(again);
    OCSP_RESPONSE_free(again);
    certificate_free_file(response);
}
END_TEST

START_TEST(a_response_is_stapled_until_its_end)
{
    struct tls_entry_config entry = {.n_names = 0};
    ck_assert_uint_eq(tls_entry_staple(&entry, NOW_S).len, 0);
    write_response(&leaf, &root, V_OCSP_CERTSTATUS_GOOD, NOW_S + HOUR_S);
    ck_assert_int_eq(
        server_files_load_ocsp(path, certificate, NOW_S, &entry.ocsp, &entry.ocsp_end_s, &problem),
        STATUS_OK);
    ck_assert_uint_gt(entry.ocsp.len, 0);
    ck_assert_uint_eq(tls_entry_staple(&entry, NOW_S).len, entry.ocsp.len);
    ck_assert_uint_eq(tls_entry_staple(&entry, NOW_S + HOUR_S - 1).len, entry.ocsp.len);
    ck_assert_uint_eq(tls_entry_staple(&entry, NOW_S + HOUR_S).len, 0);
    certificate_free_file(entry.ocsp);
}
END_TEST

START_TEST(a_response_that_is_stale_or_from_the_future_is_not_used)
{
    write_response(&leaf, &root, V_OCSP_CERTSTATUS_GOOD, NOW_S - 1);
    assert_unused("is stale: fetch a new one");
    struct span response;
    write_response(&leaf, &root, V_OCSP_CERTSTATUS_GOOD, NOW_S + HOUR_S);
    ck_assert_int_eq(server_files_load_ocsp(path, certificate, NOW_S - 2 * HOUR_S, &response,
                                            &stale_s, &problem),
                     STATUS_INVALID);
    ck_assert_str_eq(problem.text, "begins in the future");
}
END_TEST

START_TEST(a_response_about_another_certificate_or_of_another_signer_is_not_used)
{
    write_response(&other, &root, V_OCSP_CERTSTATUS_GOOD, NOW_S + HOUR_S);
    assert_unused("is about another certificate");
    write_response(&leaf, &other, V_OCSP_CERTSTATUS_GOOD, NOW_S + HOUR_S);
    assert_unused("is not signed for the certificate's issuer");
    write_response(&leaf, &root, V_OCSP_CERTSTATUS_REVOKED, NOW_S + HOUR_S);
    assert_unused("says that the certificate is revoked or unknown");
    write_bytes((const unsigned char *)"junk", 4);
    assert_unused("is no OCSP response in DER of a responder that knows the certificate");
}
END_TEST

START_TEST(a_response_needs_the_issuer_to_be_checked)
{
    write_response(&leaf, &root, V_OCSP_CERTSTATUS_GOOD, NOW_S + HOUR_S);
    certificate_free(certificate);
    certificate = read_chain(false);
    assert_unused("cannot be checked: the issuer's certificate must stand behind the server's own "
                  "in the file of the certificate");
}
END_TEST

/* --- revocation lists --- */

/* Of @issuer, to @end_s, @n times. */
static void write_crls(const struct made_certificate *issuer, int64_t end_s, int n)
{
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *time = ASN1_TIME_set(NULL, NOW_S - HOUR_S);
    char *data;
    X509_CRL_set_version(crl, X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(crl, X509_get_subject_name(issuer->x509));
    X509_CRL_set1_lastUpdate(crl, time);
    ASN1_TIME_set(time, (time_t)end_s);
    X509_CRL_set1_nextUpdate(crl, time);
    ck_assert_int_gt(X509_CRL_sign(crl, issuer->key, EVP_sha256()), 0);
    BIO *bio = BIO_new(BIO_s_mem());
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(PEM_write_bio_X509_CRL(bio, crl), 1);
    }
    const size_t len = (size_t)BIO_get_mem_data(bio, &data);
    write_bytes((const unsigned char *)data, len);
    BIO_free(bio);
    ASN1_TIME_free(time);
    X509_CRL_free(crl);
}

START_TEST(lists_of_the_authorities_are_read_with_their_end)
{
    struct certificate_crls crls;
    write_crls(&root, NOW_S + HOUR_S, 2);
    ck_assert_int_eq(certificate_load_crls(path, &certificate->chain[1], 1, &crls, &problem),
                     STATUS_OK);
    ck_assert_uint_eq(crls.n_ders, 2);
    ck_assert_int_eq(crls.end_s, NOW_S + HOUR_S);
    certificate_free_ders(crls.ders, crls.n_ders);
}
END_TEST

START_TEST(a_list_of_nobody_we_know_is_refused)
{
    struct certificate_crls crls;
    write_crls(&other, NOW_S + HOUR_S, 1);
    ck_assert_int_eq(certificate_load_crls(path, &certificate->chain[1], 1, &crls, &problem),
                     STATUS_INVALID);
    ck_assert_str_eq(problem.text, "list 1 is signed by no certificate of client_ca");
    write_bytes((const unsigned char *)"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
                54);
    ck_assert_int_eq(certificate_load_crls(path, &certificate->chain[1], 1, &crls, &problem),
                     STATUS_INVALID);
    ck_assert_str_eq(problem.text, "list 1 cannot be read");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/server_files");
    TCase *tcase = tcase_create("files");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_good_response_is_kept_as_it_is);
    tcase_add_test(tcase, a_response_is_stapled_until_its_end);
    tcase_add_test(tcase, a_response_that_is_stale_or_from_the_future_is_not_used);
    tcase_add_test(tcase, a_response_about_another_certificate_or_of_another_signer_is_not_used);
    tcase_add_test(tcase, a_response_needs_the_issuer_to_be_checked);
    tcase_add_test(tcase, lists_of_the_authorities_are_read_with_their_end);
    tcase_add_test(tcase, a_list_of_nobody_we_know_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
