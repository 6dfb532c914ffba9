#include "tls/certificate.h"

#include <check.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "made_certificate.h"

static BIO *cert_pem;
static BIO *key_pem;
static struct made_certificate root;
static struct made_certificate middle;
static struct made_certificate leaf;
static struct certificate *certificate;
static struct certificate_problem problem;

static EVP_PKEY *new_ec(void)
{
    return EVP_EC_gen("P-256");
}

static void set_up(void)
{
    cert_pem = BIO_new(BIO_s_mem());
    key_pem = BIO_new(BIO_s_mem());
    certificate = NULL;
    root = made_new((struct made_options){.name = "root", .key = new_ec(), .is_ca = 1});
    middle = made_new(
        (struct made_options){.name = "middle", .key = new_ec(), .issuer = &root, .is_ca = 1});
    leaf = made_new((struct made_options){.name = "leaf",
                                          .key = new_ec(),
                                          .issuer = &middle,
                                          .san = "DNS:API.test,DNS:*.b.test,IP:192.0.2.1"});
}

static void tear_down(void)
{
    ck_assert_uint_eq(ERR_peek_error(), 0);
    certificate_free(certificate);
    BIO_free(cert_pem);
    BIO_free(key_pem);
    made_free(&root);
    made_free(&middle);
    made_free(&leaf);
}

static struct span contents(BIO *bio)
{
    char *data;
    const long len = BIO_get_mem_data(bio, &data);
    return span_of(data, (size_t)len);
}

static void replace_leaf(struct made_options options)
{
    made_free(&leaf);
    options.name = options.name != NULL ? options.name : "leaf";
    options.issuer = options.issuer != NULL ? options.issuer : &middle;
    leaf = made_new(options);
}

static enum status read_pair(void)
{
    /* What another part of the program has left behind does not matter. */
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
    return certificate_read(contents(cert_pem), "cert.pem", contents(key_pem), "key.pem",
                            &certificate, &problem);
}

static void assert_refused(const char *path, const char *text)
{
    ck_assert_int_eq(read_pair(), STATUS_INVALID);
    ck_assert_str_eq(problem.path, path);
    ck_assert_msg(strstr(problem.text, text) != NULL, "%s", problem.text);
    ck_assert_ptr_null(certificate);
}

static void write_pair(void)
{
    made_write_certificate(cert_pem, &leaf);
    made_write_certificate(cert_pem, &middle);
    made_write_key(key_pem, &leaf, NULL);
}

/* --- what is taken --- */

START_TEST(a_chain_and_its_key_are_read)
{
    write_pair();
    made_write_certificate(cert_pem, &root);
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_uint_eq(certificate->n_chain, 3);
    ck_assert_uint_eq(certificate->n_names, 2);
    ck_assert_str_eq(certificate->names[0], "api.test");
    ck_assert_str_eq(certificate->names[1], "*.b.test");
    ck_assert(certificate->has_address && !certificate->is_rsa && !certificate->is_self_signed);
    ck_assert(certificate->serves && certificate->asks);
    ck_assert_str_eq(certificate->subject, "CN=leaf");
    ck_assert_str_eq(certificate->issuer, "CN=middle");
    ck_assert_int_eq(certificate->not_before_s, MADE_BEGIN_S);
    ck_assert_int_eq(certificate->not_after_s, MADE_END_S);
    ck_assert_uint_eq(strlen(certificate->fingerprint), 64);
    ck_assert(certificate_check_server(certificate, &problem));
}
END_TEST

START_TEST(what_is_read_makes_the_same_objects_again)
{
    const unsigned char *at;
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    at = (const unsigned char *)certificate->chain[1].data;
    X509 *x509 = d2i_X509(NULL, &at, (long)certificate->chain[1].len);
    ck_assert_int_eq(X509_cmp(x509, middle.x509), 0);
    at = (const unsigned char *)certificate->key.data;
    EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &at, (long)certificate->key.len);
    ck_assert_int_eq(EVP_PKEY_eq(key, leaf.key), 1);
    X509_free(x509);
    EVP_PKEY_free(key);
}
END_TEST

START_TEST(key_and_chain_may_stand_in_one_file_in_either_order)
{
    made_write_key(cert_pem, &leaf, NULL);
    made_write_certificate(cert_pem, &leaf);
    const struct span both = contents(cert_pem);
    ck_assert_int_eq(certificate_read(both, "a", both, "a", &certificate, &problem), STATUS_OK);
    certificate_free(certificate);
    BIO_puts(key_pem, "a comment\n");
    made_write_certificate(key_pem, &leaf);
    made_write_key(key_pem, &leaf, NULL);
    const struct span other = contents(key_pem);
    ck_assert_int_eq(certificate_read(other, "a", other, "a", &certificate, &problem), STATUS_OK);
}
END_TEST

START_TEST(keys_of_every_kind_that_clients_take_are_taken)
{
    static const char *const CURVES[] = {"P-256", "P-384", "P-521"};
    EVP_PKEY *key = _i < 3    ? EVP_EC_gen(CURVES[_i])
                    : _i == 3 ? EVP_RSA_gen(2048U)
                              : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    replace_leaf((struct made_options){.key = key, .san = "DNS:a.test"});
    write_pair();
    ck_assert_msg(read_pair() == STATUS_OK, "%s", problem.text);
    ck_assert_int_eq(certificate->is_rsa, _i == 3);
}
END_TEST

START_TEST(a_key_in_the_old_form_of_ec_with_its_parameters_is_taken)
{
    write_pair();
    BIO_reset(key_pem);
    BIO_puts(key_pem, "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"
                      "-----END EC PARAMETERS-----\n");
    ck_assert_int_eq(
        PEM_write_bio_PrivateKey_traditional(key_pem, leaf.key, NULL, NULL, 0, NULL, NULL), 1);
    ck_assert_int_eq(read_pair(), STATUS_OK);
}
END_TEST

START_TEST(a_self_signed_certificate_is_known_as_one)
{
    made_free(&leaf);
    leaf = made_new((struct made_options){.name = "leaf", .key = new_ec(), .san = "DNS:a.test"});
    made_write_certificate(cert_pem, &leaf);
    made_write_key(key_pem, &leaf, NULL);
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert(certificate->is_self_signed);
}
END_TEST

START_TEST(names_that_no_server_has_are_left_out)
{
    replace_leaf((struct made_options){
        .key = new_ec(), .san = "DNS:a b,DNS:*,DNS:a.*.test,DNS:192.0.2.1,DNS:ok.test,email:a@b"});
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_uint_eq(certificate->n_names, 1);
    ck_assert_str_eq(certificate->names[0], "ok.test");
}
END_TEST

START_TEST(a_subject_is_printable_and_cut)
{
    char name[] = "\xc3\xbc\n\x1b[31m\xc2\x85 is a name of an owner which is a bit long......";
    replace_leaf((struct made_options){.key = new_ec(), .san = "DNS:a.test", .name = name});
    for (int i = 0; i < 8; i++) {
        X509_NAME_add_entry_by_txt(X509_get_subject_name(leaf.x509), "OU", MBSTRING_UTF8,
                                   (const unsigned char *)name, -1, -1, 0);
    }
    ck_assert_int_gt(X509_sign(leaf.x509, middle.key, EVP_sha256()), 0);
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_uint_gt(strlen(certificate->subject), 200);
    ck_assert_ptr_null(strpbrk(certificate->subject, "\n\x1b\x85"));
    ck_assert_ptr_nonnull(strstr(certificate->subject, "\xc3\xbc"));
}
END_TEST

#define LABEL_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

START_TEST(the_longest_name_is_read_and_a_wildcard_counts)
{
    replace_leaf((struct made_options){.key = new_ec(),
                                       .san = "DNS:" LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_63
                                              ",DNS:*." LABEL_63 "." LABEL_63 "." LABEL_63
                                              "." LABEL_63});
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_uint_eq(certificate->n_names, 1);
    ck_assert_uint_eq(strlen(certificate->names[0]), HOST_BYTES_MAX);
}
END_TEST

/* --- what is refused --- */

START_TEST(the_key_of_another_certificate_is_refused)
{
    made_write_certificate(cert_pem, &leaf);
    made_write_key(key_pem, &root, NULL);
    assert_refused("key.pem", "the private key belongs to no certificate of cert.pem");
}
END_TEST

START_TEST(a_leaf_that_is_not_first_is_refused)
{
    made_write_certificate(cert_pem, &middle);
    made_write_certificate(cert_pem, &leaf);
    made_write_key(key_pem, &leaf, NULL);
    assert_refused("cert.pem", "belongs to certificate 2: put that one first");
}
END_TEST

START_TEST(a_chain_without_its_leaf_is_refused)
{
    made_write_certificate(cert_pem, &middle);
    made_write_certificate(cert_pem, &root);
    made_write_key(key_pem, &leaf, NULL);
    assert_refused("key.pem", "belongs to no certificate of cert.pem");
}
END_TEST

START_TEST(a_chain_out_of_order_is_refused)
{
    made_write_certificate(cert_pem, &leaf);
    made_write_certificate(cert_pem, &root);
    made_write_certificate(cert_pem, &middle);
    made_write_key(key_pem, &leaf, NULL);
    assert_refused("cert.pem", "certificate 1 was not issued by certificate 2");
}
END_TEST

/* Of the same name, and with another key. */
START_TEST(an_issuer_that_has_only_the_name_is_refused)
{
    struct made_certificate impostor = made_new(
        (struct made_options){.name = "middle", .key = new_ec(), .issuer = &root, .is_ca = 1});
    made_write_certificate(cert_pem, &leaf);
    made_write_certificate(cert_pem, &impostor);
    made_write_key(key_pem, &leaf, NULL);
    assert_refused("cert.pem", "certificate 1 was not issued by certificate 2");
    made_free(&impostor);
}
END_TEST

START_TEST(an_encrypted_key_is_refused_with_how_to_decrypt_it)
{
    made_write_certificate(cert_pem, &leaf);
    made_write_key(key_pem, &leaf, "secret");
    assert_refused("key.pem", "openssl pkey -in");
    BIO_reset(key_pem);
    ck_assert_int_eq(PEM_write_bio_PrivateKey_traditional(key_pem, leaf.key, EVP_aes_128_cbc(),
                                                          (const unsigned char *)"secret", 6, NULL,
                                                          NULL),
                     1);
    assert_refused("key.pem", "is encrypted");
}
END_TEST

START_TEST(a_small_rsa_key_is_refused)
{
    replace_leaf((struct made_options){.key = EVP_RSA_gen(1024U), .san = "DNS:a.test"});
    write_pair();
    assert_refused("key.pem", "the RSA key has 1024 bits, 2048 is the least");
}
END_TEST

START_TEST(a_key_that_clients_do_not_take_is_refused)
{
    replace_leaf((struct made_options){.key = EVP_EC_gen("secp256k1"), .san = "DNS:a.test"});
    write_pair();
    assert_refused("key.pem", "neither RSA nor P-256");
}
END_TEST

START_TEST(a_signature_that_clients_do_not_take_is_refused)
{
    replace_leaf((struct made_options){.key = new_ec(), .san = "DNS:a.test", .digest = EVP_sha1()});
    write_pair();
    assert_refused("cert.pem", "certificate 1 is signed with ecdsa-with-SHA1");
}
END_TEST

START_TEST(two_keys_in_a_file_are_refused)
{
    write_pair();
    made_write_key(key_pem, &root, NULL);
    assert_refused("key.pem", "more than one private key");
}
END_TEST

START_TEST(files_without_pem_are_refused)
{
    assert_refused("cert.pem", "has no certificate in PEM");
    BIO_puts(cert_pem, "\x30\x82\x01\x01");
    assert_refused("cert.pem", "is DER, not PEM");
    BIO_reset(cert_pem);
    made_write_certificate(cert_pem, &leaf);
    assert_refused("key.pem", "has no private key in PEM");
    made_write_certificate(key_pem, &leaf);
    assert_refused("key.pem", "has no private key in PEM");
}
END_TEST

START_TEST(a_file_that_is_cut_is_refused)
{
    write_pair();
    const struct span whole = contents(cert_pem);
    const struct span half = span_of(whole.data, whole.len - 20);
    ck_assert_int_eq(
        certificate_read(half, "cut.pem", contents(key_pem), "key.pem", &certificate, &problem),
        STATUS_INVALID);
    ck_assert_str_eq(problem.path, "cut.pem");
    ck_assert_msg(strstr(problem.text, "is broken PEM") != NULL, "%s", problem.text);
}
END_TEST

START_TEST(nonsense_within_pem_is_refused)
{
    BIO_puts(cert_pem, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert_refused("cert.pem", "certificate 1 cannot be read");
    BIO_reset(cert_pem);
    made_write_certificate(cert_pem, &leaf);
    BIO_puts(key_pem, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    assert_refused("key.pem", "the private key cannot be read");
}
END_TEST

START_TEST(a_chain_of_more_than_eight_is_refused)
{
    for (int i = 0; i < 9; i++) {
        made_write_certificate(cert_pem, &leaf);
    }
    made_write_key(key_pem, &leaf, NULL);
    assert_refused("cert.pem", "has more than 8 certificates");
}
END_TEST

START_TEST(a_certificate_with_very_many_names_is_refused)
{
    static char san[32 * (CERTIFICATE_NAMES_MAX + 1)];
    size_t len = 0;
    for (int i = 0; i <= CERTIFICATE_NAMES_MAX; i++) {
        len +=
            (size_t)snprintf(san + len, sizeof(san) - len, "%sDNS:a%d.test", i > 0 ? "," : "", i);
    }
    replace_leaf((struct made_options){.key = new_ec(), .san = san});
    write_pair();
    assert_refused("cert.pem", "has more than 1024 names");
}
END_TEST

/* --- for whom, and when --- */

START_TEST(a_server_needs_a_name_and_a_fitting_usage)
{
    static const struct made_options CASES[] = {
        {.name = "a.test"},
        {.name = "a.test", .san = "email:a@b.test"},
        {.name = "a.test", .san = "DNS:a.test", .usage = "clientAuth"},
        {.name = "a.test", .san = "DNS:a.test", .usage = "serverAuth"},
        {.name = "a.test", .san = "IP:::1"},
    };
    static const char *const PROBLEMS[] = {"has no subject alternative name",
                                           "has no subject alternative name", "key usage", NULL,
                                           NULL};
    struct made_options options = CASES[_i];
    options.key = new_ec();
    replace_leaf(options);
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_int_eq(certificate_check_server(certificate, &problem), PROBLEMS[_i] == NULL);
    if (PROBLEMS[_i] != NULL) {
        ck_assert_msg(strstr(problem.text, PROBLEMS[_i]) != NULL, "%s", problem.text);
        ck_assert_ptr_null(problem.path);
    }
    ck_assert_int_eq(certificate->asks,
                     CASES[_i].usage == NULL || strcmp(CASES[_i].usage, "clientAuth") == 0);
}
END_TEST

START_TEST(a_certificate_is_valid_from_its_first_second_to_its_last)
{
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert(certificate_check_time(certificate, MADE_BEGIN_S, &problem));
    ck_assert(certificate_check_time(certificate, MADE_END_S, &problem));
    ck_assert(!certificate_check_time(certificate, MADE_BEGIN_S - 1, &problem));
    ck_assert_str_eq(problem.text, "the certificate is not valid before 2023-11-14T22:13:20Z");
    ck_assert(!certificate_check_time(certificate, MADE_END_S + 1, &problem));
    ck_assert_str_eq(problem.text, "the certificate has expired on 2030-03-17T17:46:40Z");
}
END_TEST

START_TEST(a_chain_ends_with_the_first_of_its_certificates)
{
    made_free(&middle);
    middle = made_new((struct made_options){.name = "middle",
                                            .key = new_ec(),
                                            .issuer = &root,
                                            .is_ca = 1,
                                            .begin_s = MADE_BEGIN_S + 100,
                                            .end_s = MADE_END_S - 86400});
    replace_leaf((struct made_options){.key = new_ec(), .san = "DNS:a.test"});
    write_pair();
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_int_eq(certificate->not_before_s, MADE_BEGIN_S + 100);
    ck_assert_int_eq(certificate->not_after_s, MADE_END_S - 86400);
    ck_assert(!certificate_check_time(certificate, MADE_END_S, &problem));
    ck_assert_str_eq(problem.text,
                     "certificate 2 of the chain has expired on 2030-03-16T17:46:40Z");
}
END_TEST

START_TEST(times_far_from_now_are_read)
{
    replace_leaf((struct made_options){
        .key = new_ec(), .san = "DNS:a.test", .begin_s = -86400, .end_s = 253402300799});
    made_write_certificate(cert_pem, &leaf);
    made_write_key(key_pem, &leaf, NULL);
    ck_assert_int_eq(read_pair(), STATUS_OK);
    ck_assert_int_eq(certificate->not_before_s, -86400);
    ck_assert_int_eq(certificate->not_after_s, 253402300799);
    ck_assert(!certificate_check_time(certificate, -90000, &problem));
    ck_assert_str_eq(problem.text, "the certificate is not valid before a time before 1970");
}
END_TEST

/* --- files --- */

static char folder[64];

static const char *path_of(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, struct span bytes)
{
    char path[128];
    FILE *file = fopen(path_of(name, path), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    (void)fclose(file);
}

static void make_folder(void)
{
    set_up();
    (void)snprintf(folder, sizeof(folder), "/tmp/test_certificate.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    write_pair();
    write_file("cert", contents(cert_pem));
    write_file("key", contents(key_pem));
}

static void remove_folder(void)
{
    static const char *const NAMES[] = {"cert", "key", "other"};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        (void)remove(path_of(NAMES[i], path));
    }
    (void)rmdir(folder);
    tear_down();
}

static void assert_file_refused(enum status status, const char *text)
{
    char cert[128];
    char key[128];
    char other[128];
    const char *const bad = path_of("other", other);
    for (int i = 0; i < 2; i++) { /* as either file */
        ck_assert_int_eq(certificate_load(i == 0 ? bad : path_of("cert", cert),
                                          i == 1 ? bad : path_of("key", key), &certificate,
                                          &problem),
                         status);
        ck_assert_str_eq(problem.path, bad);
        ck_assert_msg(strstr(problem.text, text) != NULL, "%s", problem.text);
    }
}

START_TEST(a_pair_is_loaded_from_files)
{
    char cert[128];
    char key[128];
    ck_assert_int_eq(
        certificate_load(path_of("cert", cert), path_of("key", key), &certificate, &problem),
        STATUS_OK);
    ck_assert_uint_eq(certificate->n_chain, 2);
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_at_once)
{
    char path[128];
    assert_file_refused(STATUS_IO, "cannot be opened: No such file or directory");
    ck_assert_int_eq(mkfifo(path_of("other", path), 0600), 0);
    assert_file_refused(STATUS_INVALID, "is no regular file");
    (void)unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    assert_file_refused(STATUS_INVALID, "is no regular file");
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused)
{
    char path[128];
    write_file("other", SPAN("x"));
    ck_assert_int_eq(truncate(path_of("other", path), CERTIFICATE_FILE_BYTES_MAX + 1), 0);
    assert_file_refused(STATUS_INVALID, "is larger than 1 MiB");
    ck_assert_int_eq(truncate(path, CERTIFICATE_FILE_BYTES_MAX), 0);
    assert_file_refused(STATUS_INVALID, "in PEM");
    ck_assert_int_eq(truncate(path, 0), 0);
    assert_file_refused(STATUS_INVALID, "in PEM");
}
END_TEST

START_TEST(authorities_are_loaded_in_their_order)
{
    char path[128];
    struct span *ders = NULL;
    size_t n = 0;
    unsigned char *der = NULL;
    made_write_certificate(cert_pem, &root); /* leaf, middle, root */
    write_file("other", contents(cert_pem));
    ck_assert_int_eq(certificate_load_cas(path_of("other", path), &ders, &n, &problem), STATUS_OK);
    ck_assert_uint_eq(n, 3);
    const int len = i2d_X509(root.x509, &der);
    ck_assert(span_equals(ders[2], span_of((char *)der, (size_t)len)));
    OPENSSL_free(der);
    certificate_free_ders(ders, n);
}
END_TEST

START_TEST(authorities_that_one_issued_are_one)
{
    char path[128];
    struct span *ders = NULL;
    size_t n = 0;
    made_write_certificate(cert_pem, &root); /* leaf, middle, root */
    write_file("other", contents(cert_pem));
    ck_assert_int_eq(certificate_load_cas(path_of("other", path), &ders, &n, &problem), STATUS_OK);
    ck_assert(!certificate_are_of_several(NULL, 0));
    ck_assert(!certificate_are_of_several(ders, 3));
    ck_assert(!certificate_are_of_several(ders + 1, 1));
    const struct span gap[] = {ders[0], ders[2]}; /* what links them is not there */
    ck_assert(certificate_are_of_several(gap, 2));
    const struct span twice[] = {ders[2], ders[2]};
    ck_assert(!certificate_are_of_several(twice, 2));
    certificate_free_ders(ders, n);
}
END_TEST

START_TEST(authorities_that_cannot_be_read_are_refused)
{
    char path[128];
    struct span *ders = NULL;
    size_t n = 0;
    ck_assert_int_eq(certificate_load_cas(path_of("other", path), &ders, &n, &problem), STATUS_IO);
    ck_assert_str_eq(problem.path, path);
    write_file("other", contents(key_pem));
    ck_assert_int_eq(certificate_load_cas(path, &ders, &n, &problem), STATUS_INVALID);
    ck_assert_str_eq(problem.text, "has no certificate in PEM");
    BIO_puts(cert_pem, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    write_file("other", contents(cert_pem));
    ck_assert_int_eq(certificate_load_cas(path, &ders, &n, &problem), STATUS_INVALID);
    ck_assert_str_eq(problem.text, "certificate 3 cannot be read");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tls/certificate");
    TCase *taken = tcase_create("taken");
    TCase *refused = tcase_create("refused");
    TCase *checks = tcase_create("for whom, and when");
    TCase *files = tcase_create("files");

    tcase_add_checked_fixture(taken, set_up, tear_down);
    tcase_add_test(taken, a_chain_and_its_key_are_read);
    tcase_add_test(taken, what_is_read_makes_the_same_objects_again);
    tcase_add_test(taken, key_and_chain_may_stand_in_one_file_in_either_order);
    tcase_add_loop_test(taken, keys_of_every_kind_that_clients_take_are_taken, 0, 5);
    tcase_add_test(taken, a_key_in_the_old_form_of_ec_with_its_parameters_is_taken);
    tcase_add_test(taken, a_self_signed_certificate_is_known_as_one);
    tcase_add_test(taken, names_that_no_server_has_are_left_out);
    tcase_add_test(taken, the_longest_name_is_read_and_a_wildcard_counts);
    tcase_add_test(taken, a_subject_is_printable_and_cut);
    suite_add_tcase(suite, taken);
    tcase_add_checked_fixture(refused, set_up, tear_down);
    tcase_add_test(refused, the_key_of_another_certificate_is_refused);
    tcase_add_test(refused, a_leaf_that_is_not_first_is_refused);
    tcase_add_test(refused, a_chain_without_its_leaf_is_refused);
    tcase_add_test(refused, a_chain_out_of_order_is_refused);
    tcase_add_test(refused, an_issuer_that_has_only_the_name_is_refused);
    tcase_add_test(refused, an_encrypted_key_is_refused_with_how_to_decrypt_it);
    tcase_add_test(refused, a_small_rsa_key_is_refused);
    tcase_add_test(refused, a_key_that_clients_do_not_take_is_refused);
    tcase_add_test(refused, a_signature_that_clients_do_not_take_is_refused);
    tcase_add_test(refused, two_keys_in_a_file_are_refused);
    tcase_add_test(refused, files_without_pem_are_refused);
    tcase_add_test(refused, a_file_that_is_cut_is_refused);
    tcase_add_test(refused, nonsense_within_pem_is_refused);
    tcase_add_test(refused, a_chain_of_more_than_eight_is_refused);
    tcase_add_test(refused, a_certificate_with_very_many_names_is_refused);
    suite_add_tcase(suite, refused);
    tcase_add_checked_fixture(checks, set_up, tear_down);
    tcase_add_loop_test(checks, a_server_needs_a_name_and_a_fitting_usage, 0, 5);
    tcase_add_test(checks, a_certificate_is_valid_from_its_first_second_to_its_last);
    tcase_add_test(checks, a_chain_ends_with_the_first_of_its_certificates);
    tcase_add_test(checks, times_far_from_now_are_read);
    suite_add_tcase(suite, checks);
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, a_pair_is_loaded_from_files);
    tcase_add_test(files, what_is_no_regular_file_is_refused_at_once);
    tcase_add_test(files, a_file_that_is_too_large_is_refused);
    tcase_add_test(files, authorities_are_loaded_in_their_order);
    tcase_add_test(files, authorities_that_one_issued_are_one);
    tcase_add_test(files, authorities_that_cannot_be_read_are_refused);
    suite_add_tcase(suite, files);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
