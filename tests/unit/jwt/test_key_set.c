#include "jwt/key_set.h"

#include <check.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "support/jwt_signer.h"

static unsigned n_computed; /* of the latest signature */

static char problem_bytes[512];
static struct text problem;
static EVP_PKEY *keys[3]; /* P-256 */

static void setup(void)
{
    problem = text_of(problem_bytes, sizeof(problem_bytes));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        keys[i] = signer_key(JWT_ES256, 0);
    }
}

static void teardown(void)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        signer_free(keys[i]);
    }
}

/* A set of @n times the JWK of @key with @more. NULL: refused. */
static struct jwt_key_set *set_of(EVP_PKEY *key, const char *more, size_t n)
{
    char *jwk = signer_jwk(key, more);
    const size_t bytes = n * (strlen(jwk) + 1) + 64;
    char *text = malloc(bytes);
    struct text out = text_of(text, bytes);
    text_add_literal(&out, "{\"keys\":[");
    for (size_t i = 0; i < n; i++) {
        text_add(&out, i > 0 ? SPAN(",") : SPAN(""));
        text_add(&out, span_of_text(jwk));
    }
    text_add_literal(&out, "]}");
    struct jwt_key_set *set = jwt_key_set_read(text_span(&out), &problem);
    free(text);
    free(jwk);
    return set;
}

/* Verify a signature of "input" by @key, with @kid in the token, against @set. */
static enum jwt_signature_result verify(const struct jwt_key_set *set, EVP_PKEY *key,
                                        const char *kid)
{
    uint8_t signature[64];
    size_t len;
    char *token = signer_token(JWT_ES256, key, NULL, "in", "put");
    const char *dot = strrchr(token, '.');
    ck_assert(base64url_decode(span_of_text(dot + 1), signature, sizeof(signature), &len));
    const enum jwt_signature_result result = jwt_key_set_verify(
        set, JWT_ES256, kid != NULL ? span_of_text(kid) : span_of(NULL, 0),
        span_of(token, (size_t)(dot - token)), span_of((const char *)signature, len), &n_computed);
    free(token);
    return result;
}

static const struct {
    const char *more;
    bool is_usable;
} MEMBERS[] = {
    {"", true},
    {",\"use\":\"sig\",\"key_ops\":[\"sign\",\"verify\"],\"alg\":\"ES256\",\"kid\":\"a\"", true},
    {",\"use\":\"enc\"", false},
    {",\"use\":1", false},
    {",\"key_ops\":[]", false},
    {",\"key_ops\":[\"sign\"]", false},
    {",\"key_ops\":\"verify\"", false},
    {",\"alg\":\"none\"", false},
    {",\"alg\":\"ES512\"", false},
    {",\"alg\":1", false},
    {",\"kid\":1", false},
};

START_TEST(a_key_says_what_it_is_for)
{
    struct jwt_key_set *set = set_of(keys[0], MEMBERS[_i].more, 1);
    const bool is_usable = MEMBERS[_i].is_usable;
    ck_assert_ptr_nonnull(set);
    ck_assert_msg(jwt_key_set_count(set) == is_usable, "%s", MEMBERS[_i].more);
    ck_assert_int_eq(verify(set, keys[0], NULL),
                     is_usable ? JWT_SIGNATURE_GOOD : JWT_SIGNATURE_NO_KEY);
    ck_assert_int_eq(verify(set, keys[1], NULL),
                     is_usable ? JWT_SIGNATURE_BAD : JWT_SIGNATURE_NO_KEY);
    jwt_key_set_release(set);
}
END_TEST

START_TEST(an_algorithm_of_the_key_excludes_others)
{
    EVP_PKEY *rsa = signer_key(JWT_RS256, JWT_RSA_BITS_MIN);
    static const char signature[JWT_RSA_BITS_MIN / 8] = {0};
    struct jwt_key_set *set = set_of(rsa, ",\"alg\":\"PS256\"", 1);
    ck_assert_ptr_nonnull(set);
    ck_assert_int_eq(jwt_key_set_verify(set, JWT_RS256, span_of(NULL, 0), SPAN("x"),
                                        span_of(signature, sizeof(signature)), &n_computed),
                     JWT_SIGNATURE_NO_KEY);
    ck_assert_int_eq(jwt_key_set_verify(set, JWT_PS256, span_of(NULL, 0), SPAN("x"),
                                        span_of(signature, sizeof(signature)), &n_computed),
                     JWT_SIGNATURE_BAD);
    jwt_key_set_release(set);
    signer_free(rsa);
}
END_TEST

START_TEST(a_key_is_found_by_its_id)
{
    struct jwt_key_set *set = set_of(keys[0], ",\"kid\":\"a\"", 1);
    ck_assert_int_eq(verify(set, keys[0], "a"), JWT_SIGNATURE_GOOD);
    ck_assert_int_eq(verify(set, keys[0], NULL), JWT_SIGNATURE_GOOD);
    ck_assert_int_eq(verify(set, keys[0], "b"), JWT_SIGNATURE_NO_KEY);
    ck_assert_int_eq(verify(set, keys[0], ""), JWT_SIGNATURE_NO_KEY);
    jwt_key_set_release(set);
}
END_TEST

START_TEST(a_token_without_an_id_has_few_keys_tried)
{
    struct jwt_key_set *few = set_of(keys[0], ",\"kid\":\"a\"", JWT_KEYS_TRIED_MAX);
    struct jwt_key_set *many = set_of(keys[0], ",\"kid\":\"a\"", JWT_KEYS_TRIED_MAX + 1);
    ck_assert_int_eq(verify(few, keys[0], NULL), JWT_SIGNATURE_GOOD);
    ck_assert_uint_eq(n_computed, 1);
    ck_assert_int_eq(verify(few, keys[1], NULL), JWT_SIGNATURE_BAD);
    ck_assert_uint_eq(n_computed, JWT_KEYS_TRIED_MAX);
    ck_assert_int_eq(verify(many, keys[0], NULL), JWT_SIGNATURE_MANY);
    ck_assert_uint_eq(n_computed, 0);
    jwt_key_set_release(few);
    jwt_key_set_release(many);
}
END_TEST

START_TEST(a_set_has_a_bounded_number_of_keys)
{
    struct jwt_key_set *most = set_of(keys[0], "", JWT_KEYS_MAX);
    ck_assert_uint_eq(jwt_key_set_count(most), JWT_KEYS_MAX);
    jwt_key_set_release(most);
    ck_assert_ptr_null(set_of(keys[0], "", JWT_KEYS_MAX + 1));
}
END_TEST

START_TEST(rsa_keys_have_2048_bits)
{
    EVP_PKEY *small = signer_key(JWT_RS256, 1024);
    char *pem = signer_pem(small);
    struct jwt_key_set *sets[] = {set_of(small, "", 1),
                                  jwt_key_set_read(span_of_text(pem), &problem)};
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        ck_assert_ptr_nonnull(sets[i]);
        ck_assert_uint_eq(jwt_key_set_count(sets[i]), 0);
        jwt_key_set_release(sets[i]);
    }
    free(pem);
    signer_free(small);
}
END_TEST

static const char *const BAD_SETS[] = {
    "",
    "{}",
    "[]",
    "{\"keys\":{}}",
    "{\"keys\":[],\"keys\":[]}",
    "{\"keys\":[]",
    "-----BEGIN PUBLIC KEY-----\nAQAB\n-----END PUBLIC KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nAQAB\n-----END PRIVATE KEY-----\n",
};

START_TEST(what_is_no_set_is_refused)
{
    ck_assert_msg(jwt_key_set_read(span_of_text(BAD_SETS[_i]), &problem) == NULL, "%s",
                  BAD_SETS[_i]);
    ck_assert_uint_gt(problem.len, 0);
}
END_TEST

static const char *const EMPTY_SETS[] = {
    "{\"keys\":[]}",
    "{\"keys\":[1,null,\"x\",[]]}",
    "{\"keys\":[{\"kty\":\"oct\",\"k\":\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY\"}]}",
    "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
    "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"\",\"e\":\"\"}]}",
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQAB\",\"y\":\"AQAB\"}]}",
    /* a point that is not on the curve */
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","
    "\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\","
    "\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE\"}]}",
    "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AQAB\"}]}",
    "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed448\",\"x\":\"AQAB\"}]}",
};

/* What an issuer answers that withdraws its last key; as a file it is a mistake. */
START_TEST(a_set_may_have_no_usable_key_and_a_file_may_not)
{
    char path[] = "/tmp/test_key_set_XXXXXX";
    const struct span text = span_of_text(EMPTY_SETS[_i]);
    struct jwt_key_set *set = jwt_key_set_read(text, &problem);
    ck_assert_msg(set != NULL, "%s", EMPTY_SETS[_i]);
    ck_assert_uint_eq(jwt_key_set_count(set), 0);
    ck_assert_int_eq(verify(set, keys[0], NULL), JWT_SIGNATURE_NO_KEY);
    jwt_key_set_release(set);
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text.data, text.len), (ssize_t)text.len);
    ck_assert_ptr_null(jwt_key_set_load(path, &problem));
    ck_assert(strstr(problem_bytes, "no key that can verify a token") != NULL);
    close(fd);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(keys_that_are_not_for_tokens_are_left_out)
{
    char text[1024];
    char *jwk = signer_jwk(keys[0], "");
    (void)snprintf(text, sizeof(text),
                   " {\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\"},{\"kty\":\"XX\"},%s],\"more\":1}",
                   jwk);
    struct jwt_key_set *set = jwt_key_set_read(span_of_text(text), &problem);
    ck_assert_ptr_nonnull(set);
    ck_assert_uint_eq(jwt_key_set_count(set), 1);
    jwt_key_set_release(set);
    free(jwk);
}
END_TEST

START_TEST(a_longer_text_is_refused)
{
    const size_t bytes = JWT_KEY_SET_BYTES_MAX + 1;
    char *text = malloc(bytes);
    memset(text, ' ', bytes);
    ck_assert_ptr_null(jwt_key_set_read(span_of(text, bytes), &problem));
    ck_assert(strstr(problem_bytes, "1 MiB") != NULL);
    free(text);
}
END_TEST

START_TEST(pem_may_have_several_keys)
{
    char text[1024];
    char *first = signer_pem(keys[0]);
    char *second = signer_pem(keys[1]);
    (void)snprintf(text, sizeof(text), "# two keys\n%s\n%s", first, second);
    struct jwt_key_set *set = jwt_key_set_read(span_of_text(text), &problem);
    ck_assert_ptr_nonnull(set);
    ck_assert_int_eq(verify(set, keys[0], NULL), JWT_SIGNATURE_GOOD);
    ck_assert_int_eq(verify(set, keys[1], "any"), JWT_SIGNATURE_GOOD);
    ck_assert_int_eq(verify(set, keys[2], NULL), JWT_SIGNATURE_BAD);
    jwt_key_set_release(set);
    free(first);
    free(second);
}
END_TEST

START_TEST(a_file_is_loaded)
{
    char *pem = signer_pem(keys[0]);
    char path[] = "/tmp/test_key_set_XXXXXX";
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, pem, strlen(pem)), (ssize_t)strlen(pem));
    struct jwt_key_set *set = jwt_key_set_load(path, &problem);
    ck_assert_ptr_nonnull(set);
    ck_assert_int_eq(verify(set, keys[0], NULL), JWT_SIGNATURE_GOOD);
    jwt_key_set_release(set);
    close(fd);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_ptr_null(jwt_key_set_load(path, &problem));
    ck_assert(strstr(problem_bytes, "No such file") != NULL);
    free(pem);
}
END_TEST

/* r‖s of other lengths, and DER, are refused without a computation. */
START_TEST(a_signature_has_one_length)
{
    static const size_t LENGTHS[] = {0, 1, 63, 65, 70, 71, 72, 96, 128};
    static const char bytes[128] = {0};
    struct jwt_key_set *set = set_of(keys[0], "", 1);
    for (size_t i = 0; i < ARRAY_LEN(LENGTHS); i++) {
        ck_assert_int_eq(jwt_key_set_verify(set, JWT_ES256, span_of(NULL, 0), SPAN("x"),
                                            span_of(bytes, LENGTHS[i]), &n_computed),

                         JWT_SIGNATURE_LENGTH_WRONG);
    }
    /* r = s = 0: CVE-2022-21449 */
    ck_assert_int_eq(jwt_key_set_verify(set, JWT_ES256, span_of(NULL, 0), SPAN("x"),
                                        span_of(bytes, 64), &n_computed),
                     JWT_SIGNATURE_BAD);
    jwt_key_set_release(set);
}
END_TEST

START_TEST(sets_are_compared)
{
    struct jwt_key_set *a = set_of(keys[0], ",\"kid\":\"a\"", 1);
    struct jwt_key_set *same = set_of(keys[0], ",\"kid\":\"a\"", 1);
    struct jwt_key_set *other_id = set_of(keys[0], ",\"kid\":\"b\"", 1);
    struct jwt_key_set *other_key = set_of(keys[1], ",\"kid\":\"a\"", 1);
    struct jwt_key_set *two = set_of(keys[0], ",\"kid\":\"a\"", 2);
    ck_assert(jwt_key_set_equals(a, same));
    ck_assert(!jwt_key_set_equals(a, other_id));
    ck_assert(!jwt_key_set_equals(a, other_key));
    ck_assert(!jwt_key_set_equals(a, two));
    jwt_key_set_release(a);
    jwt_key_set_release(same);
    jwt_key_set_release(other_id);
    jwt_key_set_release(other_key);
    jwt_key_set_release(two);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jwt/key_set");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_key_says_what_it_is_for, 0, (int)ARRAY_LEN(MEMBERS));
    tcase_add_test(tcase, an_algorithm_of_the_key_excludes_others);
    tcase_add_test(tcase, a_key_is_found_by_its_id);
    tcase_add_test(tcase, a_token_without_an_id_has_few_keys_tried);
    tcase_add_test(tcase, a_set_has_a_bounded_number_of_keys);
    tcase_add_test(tcase, rsa_keys_have_2048_bits);
    tcase_add_loop_test(tcase, what_is_no_set_is_refused, 0, (int)ARRAY_LEN(BAD_SETS));
    tcase_add_loop_test(tcase, a_set_may_have_no_usable_key_and_a_file_may_not, 0,
                        (int)ARRAY_LEN(EMPTY_SETS));
    tcase_add_test(tcase, keys_that_are_not_for_tokens_are_left_out);
    tcase_add_test(tcase, a_longer_text_is_refused);
    tcase_add_test(tcase, pem_may_have_several_keys);
    tcase_add_test(tcase, a_file_is_loaded);
    tcase_add_test(tcase, a_signature_has_one_length);
    tcase_add_test(tcase, sets_are_compared);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
