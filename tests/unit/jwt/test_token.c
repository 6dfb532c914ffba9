#include "jwt/token.h"

#include <check.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/jwt_signer.h"

enum { NOW_S = 1700000000, US_PER_S = 1000 * 1000 };
#define NOW_US ((uint64_t)NOW_S * US_PER_S)
#define GOOD "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000100,\"sub\":\"alice\"}"
#define SECRET "0123456789abcdef0123456789abcdef"

static struct arena arena;
static char problem_bytes[512];
static struct text problem;
static struct jwt_key_set *secrets;
static struct jwt_path paths[8];
static struct jwt_rules rules;
static struct jwt_claims claims;
static struct jwt_period period;
static unsigned n_computed;

static const struct span ISSUERS[] = {{"https://id", 10}, {"https://other", 13}};
static const struct span AUDIENCES[] = {{"api", 3}};
static const struct span TYPES[] = {{"at+jwt", 6}};

static void setup(void)
{
    static const char *const PATHS[] = {"sub", "n", "roles", "\"a.b\".c", "realm.roles", "flag"};
    arena_init(&arena, NULL, 0);
    problem = text_of(problem_bytes, sizeof(problem_bytes));
    secrets = jwt_key_set_of_secret(SPAN(SECRET));
    for (size_t i = 0; i < ARRAY_LEN(PATHS); i++) {
        ck_assert(jwt_path_parse(span_of_text(PATHS[i]), &arena, &paths[i], &problem));
    }
    rules = (struct jwt_rules){.algorithms = 1U << JWT_HS256,
                               .issuers = ISSUERS,
                               .n_issuers = ARRAY_LEN(ISSUERS),
                               .audiences = AUDIENCES,
                               .n_audiences = ARRAY_LEN(AUDIENCES),
                               .claims = paths,
                               .n_claims = ARRAY_LEN(PATHS)};
}

static void teardown(void)
{
    jwt_key_set_release(secrets);
    arena_reset(&arena);
}

/* Verify a token of these texts, signed with the secret. */
static enum jwt_result verify(const char *header, const char *payload)
{
    char *token = signer_token(JWT_HS256, NULL, SECRET, header, payload);
    const enum jwt_result result = jwt_verify(&rules, secrets, span_of_text(token), NOW_US, &arena,
                                              &claims, &period, &n_computed);
    free(token);
    return result;
}

/* A signature of each algorithm holds, and does not hold after one bit was turned. */
START_TEST(each_algorithm_verifies)
{
    const enum jwt_algorithm algorithm = (enum jwt_algorithm)_i;
    char header[64];
    EVP_PKEY *key = algorithm == JWT_HS256 ? NULL : signer_key(algorithm, JWT_RSA_BITS_MIN);
    char *pem = key != NULL ? signer_pem(key) : NULL;
    struct jwt_key_set *keys =
        key != NULL ? jwt_key_set_read(span_of_text(pem), &problem) : jwt_key_set_retain(secrets);
    const struct span name = jwt_algorithm_name(algorithm);
    (void)snprintf(header, sizeof(header), "{\"alg\":\"%.*s\"}", SPAN_ARGS(name));
    char *token = signer_token(algorithm, key, SECRET, header, GOOD);
    rules.algorithms = 1U << algorithm;
    ck_assert_int_eq(jwt_verify(&rules, keys, span_of_text(token), NOW_US, &arena, &claims, &period,
                                &n_computed),
                     JWT_VALID);
    ck_assert(span_equals(jwt_claim_text(&claims.claims[0]), SPAN("alice")));
    ck_assert_uint_eq(claims.expires_us, NOW_US + 100 * (uint64_t)US_PER_S);
    char *changed = strrchr(token, '.') + 5;
    *changed = *changed == 'A' ? 'B' : 'A';
    ck_assert_int_eq(jwt_verify(&rules, keys, span_of_text(token), NOW_US, &arena, &claims, &period,
                                &n_computed),
                     JWT_SIGNATURE);
    free(token);
    free(pem);
    signer_free(key);
    jwt_key_set_release(keys);
}
END_TEST

static const struct {
    const char *header;
    const char *payload;
    enum jwt_result result;
} CASES[] = {
    {"{\"alg\":\"HS256\"}", GOOD, JWT_VALID},
    {"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"unknown to a secret\"}", GOOD, JWT_VALID},
    /* the algorithm */
    {"{\"alg\":\"none\"}", GOOD, JWT_ALGORITHM},
    {"{\"alg\":\"None\"}", GOOD, JWT_ALGORITHM},
    {"{\"alg\":\"hs256\"}", GOOD, JWT_ALGORITHM},
    {"{\"alg\":\"HS384\"}", GOOD, JWT_ALGORITHM},
    {"{\"alg\":\"RS256\"}", GOOD, JWT_ALGORITHM},
    {"{\"alg\":[\"HS256\"]}", GOOD, JWT_ALGORITHM},
    {"{\"alg\":\"\"}", GOOD, JWT_ALGORITHM},
    {"{}", GOOD, JWT_ALGORITHM},
    /* the header */
    {"[]", GOOD, JWT_BAD_HEADER},
    {"{\"alg\":\"HS256\"", GOOD, JWT_BAD_HEADER},
    {"{\"alg\":\"HS256\"} {}", GOOD, JWT_BAD_HEADER},
    {"{\"alg\":\"none\",\"alg\":\"HS256\"}", GOOD, JWT_BAD_HEADER},
    {"{\"alg\":\"HS256\",\"alg\":\"none\"}", GOOD, JWT_BAD_HEADER},
    {"{\"alg\":\"HS256\",\"kid\":1}", GOOD, JWT_BAD_HEADER},
    {"{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", GOOD, JWT_CRITICAL},
    {"{\"alg\":\"HS256\",\"crit\":[]}", GOOD, JWT_CRITICAL},
    {"{\"alg\":\"HS256\",\"b64\":false,\"crit\":[\"b64\"]}", GOOD, JWT_CRITICAL},
    /* the claims */
    {"{\"alg\":\"HS256\"}", "[]", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "\"alice\"", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"exp\":1}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://"
     "id\",\"aud\":\"api\",\"exp\":1700000100,\"sub\":\"a\",\"s\\u0075b\":\"b\"}",
     JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000100,\"sub\":\"a\\u0000b\"}",
     JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"x\":\"\xff\"}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"x\":1e999}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"x\":\"\\ud800\"}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"x\":{\"a\":1,\"a\":2}}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"a\\u0000b\":1}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"roles\":[\"a\",\"b\\u0000\"]}", JWT_BAD_PAYLOAD},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\\u0000\",\"exp\":1700000100}", JWT_ISSUER},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000100,\"x\":\"a\\u0000b\"}", JWT_VALID},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000100,\"x\":99999999999999999999999}",
     JWT_VALID},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000000,\"x\":99999999999999999999999}", JWT_EXPIRED},
    /* times */
    {"{\"alg\":\"HS256\"}", "{}", JWT_NO_EXPIRY},
    {"{\"alg\":\"HS256\"}", "{\"exp\":\"1700000100\"}", JWT_NO_EXPIRY},
    {"{\"alg\":\"HS256\"}", "{\"exp\":null}", JWT_NO_EXPIRY},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000000}", JWT_EXPIRED},
    {"{\"alg\":\"HS256\"}", "{\"exp\":-1}", JWT_EXPIRED},
    {"{\"alg\":\"HS256\"}", "{\"exp\":0}", JWT_EXPIRED},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1699999999.9}", JWT_EXPIRED},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000000.5}",
     JWT_VALID},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":9223372036854775807}",
     JWT_VALID},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1e300}", JWT_VALID},
    {"{\"alg\":\"HS256\"}", "{\"exp\":-1e300}", JWT_EXPIRED},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000100,\"nbf\":1700000000}", JWT_VALID},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://id\",\"aud\":\"api\",\"exp\":1700000100,\"nbf\":1699999999.5}", JWT_VALID},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"nbf\":1700000000.5}", JWT_TOO_EARLY},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"nbf\":1e300}", JWT_TOO_EARLY},
    {"{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"nbf\":\"0\"}", JWT_NOT_BEFORE},
    /* issuer and audience */
    {"{\"alg\":\"HS256\"}", "{\"aud\":\"api\",\"exp\":1700000100}", JWT_ISSUER},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id/\",\"aud\":\"api\",\"exp\":1700000100}",
     JWT_ISSUER},
    {"{\"alg\":\"HS256\"}", "{\"iss\":[\"https://id\"],\"aud\":\"api\",\"exp\":1700000100}",
     JWT_ISSUER},
    {"{\"alg\":\"HS256\"}",
     "{\"iss\":\"https://other\",\"aud\":[\"x\",\"api\"],\"exp\":1700000100}", JWT_VALID},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"exp\":1700000100}", JWT_AUDIENCE},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"aud\":\"apis\",\"exp\":1700000100}",
     JWT_AUDIENCE},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"aud\":[],\"exp\":1700000100}", JWT_AUDIENCE},
    {"{\"alg\":\"HS256\"}", "{\"iss\":\"https://id\",\"aud\":{\"api\":1},\"exp\":1700000100}",
     JWT_AUDIENCE},
};

START_TEST(a_token_is_judged)
{
    ck_assert_msg(verify(CASES[_i].header, CASES[_i].payload) == CASES[_i].result, "%s %s",
                  CASES[_i].header, CASES[_i].payload);
}
END_TEST

START_TEST(each_refusal_has_a_text)
{
    for (int i = JWT_VALID + 1; i < JWT_RESULTS; i++) {
        ck_assert_uint_gt(strlen(jwt_result_text((enum jwt_result)i)), 10);
    }
}
END_TEST

START_TEST(the_leeway_is_for_clocks_that_differ)
{
    const uint64_t leeway_us = 60 * (uint64_t)US_PER_S;
    rules.leeway_us = leeway_us;
    rules.n_issuers = 0;
    rules.n_audiences = 0;
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", "{\"exp\":1699999941}"), JWT_VALID);
    ck_assert_uint_eq(claims.expires_us, NOW_US + US_PER_S);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", "{\"exp\":1699999940}"), JWT_EXPIRED);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"nbf\":1700000060}"),
                     JWT_VALID);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", "{\"exp\":1700000100,\"nbf\":1700000061}"),
                     JWT_TOO_EARLY);
}
END_TEST

START_TEST(types_are_compared_without_their_prefix)
{
    rules.types = TYPES;
    rules.n_types = 1;
    ck_assert_int_eq(verify("{\"alg\":\"HS256\",\"typ\":\"at+jwt\"}", GOOD), JWT_VALID);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\",\"typ\":\"application/AT+JWT\"}", GOOD), JWT_VALID);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\",\"typ\":\"JWT\"}", GOOD), JWT_TYPE);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\",\"typ\":[]}", GOOD), JWT_TYPE);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", GOOD), JWT_TYPE);
}
END_TEST

static const char *const MALFORMED[] = {
    "",
    ".",
    "..",
    "a",
    "e30",
    "e30.e30",
    "e30.e30.",
    ".e30.e30",
    "e30..e30",
    "e30.e30.AA.AA",
    "e30.e30.A",    /* one digit is no byte */
    "e30.e30.AA==", /* padding */
    "e30.e30.AB",   /* unused bits that are not 0 */
    "e30.e30.A+AA",
    "e3 0.e30.AAAA",
    "e30=.e30.AAAA",
};

START_TEST(what_is_no_token_is_refused)
{
    ck_assert_int_eq(jwt_verify(&rules, secrets, span_of_text(MALFORMED[_i]), NOW_US, &arena,
                                &claims, &period, &n_computed),
                     JWT_MALFORMED);
}
END_TEST

START_TEST(a_longer_token_is_refused_unread)
{
    static char token[JWT_TOKEN_BYTES_MAX + 1];
    memset(token, 'A', sizeof(token));
    ck_assert_int_eq(jwt_verify(&rules, secrets, span_of(token, sizeof(token)), NOW_US, &arena,
                                &claims, &period, &n_computed),
                     JWT_TOO_LONG);
    ck_assert_int_eq(jwt_verify(&rules, secrets, span_of(token, sizeof(token) - 1), NOW_US, &arena,
                                &claims, &period, &n_computed),
                     JWT_MALFORMED);
}
END_TEST

START_TEST(without_keys_a_token_is_not_judged)
{
    char *token = signer_token(JWT_HS256, NULL, SECRET, "{\"alg\":\"HS256\"}", GOOD);
    ck_assert_int_eq(jwt_verify(&rules, NULL, span_of_text(token), NOW_US, &arena, &claims, &period,
                                &n_computed),
                     JWT_NO_KEYS);
    free(token);
}
END_TEST

/* A public key as the secret of an HMAC: the attack on libraries that take the algorithm from the
 * token alone. */
START_TEST(a_public_key_is_no_secret)
{
    EVP_PKEY *key = signer_key(JWT_RS256, JWT_RSA_BITS_MIN);
    char *pem = signer_pem(key);
    struct jwt_key_set *keys = jwt_key_set_read(span_of_text(pem), &problem);
    char *token = signer_token(JWT_HS256, NULL, pem, "{\"alg\":\"HS256\"}", GOOD);
    rules.algorithms = 1U << JWT_RS256;
    ck_assert_int_eq(jwt_verify(&rules, keys, span_of_text(token), NOW_US, &arena, &claims, &period,
                                &n_computed),
                     JWT_ALGORITHM);
    rules.algorithms |= 1U << JWT_HS256; /* which no policy can say */
    ck_assert_int_eq(jwt_verify(&rules, keys, span_of_text(token), NOW_US, &arena, &claims, &period,
                                &n_computed),
                     JWT_UNKNOWN_KEY);
    free(token);
    free(pem);
    signer_free(key);
    jwt_key_set_release(keys);
}
END_TEST

START_TEST(claims_are_read_by_path)
{
    rules.n_issuers = 0;
    rules.n_audiences = 0;
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}",
                            "{\"exp\":1700000100,\"sub\":\"\",\"n\":9007199254740991,"
                            "\"roles\":[\"admin\",7,null,\"user\",[\"x\"]],\"a.b\":{\"c\":\"odd\"},"
                            "\"realm\":{\"roles\":\"r\"},\"flag\":true}"),
                     JWT_VALID);
    ck_assert_uint_eq(jwt_claim_text(&claims.claims[0]).len, 0);
    ck_assert(span_equals(jwt_claim_text(&claims.claims[1]), SPAN("9007199254740991")));
    ck_assert_uint_eq(claims.claims[2].n_values, 3);
    ck_assert(span_equals(claims.claims[2].values[1], SPAN("7")));
    ck_assert(span_equals(claims.claims[2].values[2], SPAN("user")));
    ck_assert_uint_eq(jwt_claim_text(&claims.claims[2]).len, 0);
    ck_assert(span_equals(jwt_claim_text(&claims.claims[3]), SPAN("odd")));
    ck_assert(span_equals(jwt_claim_text(&claims.claims[4]), SPAN("r")));
    ck_assert(claims.claims[5].is_boolean);
    ck_assert(span_equals(claims.claims[5].values[0], SPAN("true")));
    ck_assert_uint_eq(jwt_claim_text(&claims.claims[5]).len, 0);
}
END_TEST

static const char *const MISSING[] = {
    "9007199254740992", /* 2^53: some libraries round its neighbours to it */
    "-9007199254740992", "9223372036854775807", "1.0", "1e3", "null", "{}", "[]", "\"\"", "true",
};

START_TEST(a_value_that_libraries_read_differently_is_missing)
{
    char payload[256];
    rules.n_issuers = 0;
    rules.n_audiences = 0;
    (void)snprintf(payload, sizeof(payload), "{\"exp\":1700000100,\"sub\":%s}", MISSING[_i]);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", payload), JWT_VALID);
    ck_assert_uint_eq(jwt_claim_text(&claims.claims[0]).len, 0);
}
END_TEST

static const struct {
    const char *sub;
    const char *text;
} BESIDE_GREAT[] = {
    {"7", "7"},
    {"-7", "-7"},
    {"9007199254740991", "9007199254740991"},
    {"-9007199254740991", "-9007199254740991"},
    {"9007199254740992", ""},
    {"9007199254740993", ""},
    {"-9007199254740993", ""},
    {"7.5", ""},
    {"7.0", ""},
    {"-7.0", ""},
    {"7e0", ""},
    {"1E3", ""},
    {"9007199254740991.0", ""},
    {"18446744073709551616", ""},
    {"-1e300", ""},
    {"\"7\"", "7"},
    {"\"18446744073709551616\"", "18446744073709551616"},
    {"\"\\\"18446744073709551616\"", "\"18446744073709551616"},
};

START_TEST(a_number_beside_a_greater_one_is_what_it_is)
{
    char payload[256];
    rules.n_issuers = 0;
    rules.n_audiences = 0;
    (void)snprintf(payload, sizeof(payload),
                   "{\"exp\":1700000100,\"sub\":%s,\"x\":9223372036854775808}",
                   BESIDE_GREAT[_i].sub);
    ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", payload), JWT_VALID);
    ck_assert(span_equals(jwt_claim_text(&claims.claims[0]), span_of_text(BESIDE_GREAT[_i].text)));
}
END_TEST

START_TEST(a_long_value_is_missing)
{
    char payload[2 * JWT_VALUE_BYTES_MAX];
    rules.n_issuers = 0;
    rules.n_audiences = 0;
    for (int more = 0; more <= 1; more++) {
        const int n = JWT_VALUE_BYTES_MAX + more;
        (void)snprintf(payload, sizeof(payload), "{\"exp\":1700000100,\"sub\":\"%0*d\"}", n, 1);
        ck_assert_int_eq(verify("{\"alg\":\"HS256\"}", payload), JWT_VALID);
        ck_assert_uint_eq(jwt_claim_text(&claims.claims[0]).len, more == 0 ? (size_t)n : 0);
    }
}
END_TEST

static const struct {
    const char *written;
    const char *names; /* joined by "|"; NULL: refused */
    const char *text;
} PATHS[] = {
    {"sub", "sub", "sub"},
    {"a.b-c._d", "a|b-c|_d", "a.b-c._d"},
    {"\"a.b\".c", "a.b|c", "\"a.b\".c"},
    {"\"sub\"", "sub", "sub"},
    {"\"a\\\"b\\\\\"", "a\"b\\", "\"a\\\"b\\\\\""},
    {"\"https://x/y\"", "https://x/y", "\"https://x/y\""},
    {"1.2.3.4.5.6.7.8", "1|2|3|4|5|6|7|8", "1.2.3.4.5.6.7.8"},
    {"1.2.3.4.5.6.7.8.9", NULL, NULL},
    {"", NULL, NULL},
    {".", NULL, NULL},
    {"a.", NULL, NULL},
    {".a", NULL, NULL},
    {"a..b", NULL, NULL},
    {"a b", NULL, NULL},
    {"\"\"", NULL, NULL},
    {"\"a", NULL, NULL},
    {"\"a\"b", NULL, NULL},
    {"a\"b\"", NULL, NULL},
    {"\"a\\", NULL, NULL},
};

START_TEST(a_path_is_parsed)
{
    struct jwt_path path;
    char joined[256];
    struct text names = text_of(joined, sizeof(joined));
    const bool is_good = jwt_path_parse(span_of_text(PATHS[_i].written), &arena, &path, &problem);
    ck_assert_msg(is_good == (PATHS[_i].names != NULL), "%s", PATHS[_i].written);
    if (!is_good) {
        ck_assert_uint_gt(problem.len, 0);
        return;
    }
    for (size_t i = 0; i < path.n_names; i++) {
        text_add(&names, i > 0 ? SPAN("|") : SPAN(""));
        text_add(&names, path.names[i]);
    }
    ck_assert(span_equals(text_span(&names), span_of_text(PATHS[_i].names)));
    ck_assert(span_equals(path.text, span_of_text(PATHS[_i].text)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jwt/token");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, each_algorithm_verifies, 0, JWT_ALGORITHMS);
    tcase_add_loop_test(tcase, a_token_is_judged, 0, (int)ARRAY_LEN(CASES));
    tcase_add_test(tcase, each_refusal_has_a_text);
    tcase_add_test(tcase, the_leeway_is_for_clocks_that_differ);
    tcase_add_test(tcase, types_are_compared_without_their_prefix);
    tcase_add_loop_test(tcase, what_is_no_token_is_refused, 0, (int)ARRAY_LEN(MALFORMED));
    tcase_add_test(tcase, a_longer_token_is_refused_unread);
    tcase_add_test(tcase, without_keys_a_token_is_not_judged);
    tcase_add_test(tcase, a_public_key_is_no_secret);
    tcase_add_test(tcase, claims_are_read_by_path);
    tcase_add_loop_test(tcase, a_value_that_libraries_read_differently_is_missing, 0,
                        (int)ARRAY_LEN(MISSING));
    tcase_add_loop_test(tcase, a_number_beside_a_greater_one_is_what_it_is, 0,
                        (int)ARRAY_LEN(BESIDE_GREAT));
    tcase_add_test(tcase, a_long_value_is_missing);
    tcase_add_loop_test(tcase, a_path_is_parsed, 0, (int)ARRAY_LEN(PATHS));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
