#include "jwt/verifier.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "support/jwt_signer.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

enum { NOW_S = 1700000000, US_PER_S = 1000 * 1000 };

static struct arena arena;
static struct jwt_failures *failures;
static struct jwt_verifier *verifier;
static struct jwt_path path;
static struct jwt_source source;
static struct jwt_request request;
static const struct jwt_claims *claims;

static void setup(void)
{
    char bytes[64];
    struct text problem = text_of(bytes, sizeof(bytes));
    ck_assert_int_eq(hash_setup(), STATUS_OK);
    arena_init(&arena, NULL, 0);
    failures = jwt_failures_new();
    verifier = jwt_verifier_new(failures);
    ck_assert(jwt_path_parse(SPAN("sub"), &arena, &path, &problem));
    source.rules =
        (struct jwt_rules){.algorithms = 1U << JWT_HS256, .claims = &path, .n_claims = 1};
    source.keys = jwt_keys_of_url(SPAN("https://id/jwks"), SPAN(""));
    source.number = jwt_source_number();
    request = (struct jwt_request){.wall_us = NOW_S * (uint64_t)US_PER_S, .now_us = US_PER_S};
    ck_assert(address_parse(SPAN("192.0.2.1"), &request.client));
    (void)jwt_keys_fetched(source.keys, jwt_key_set_of_secret(SPAN(SECRET)), 0, 0);
}

static void teardown(void)
{
    jwt_verifier_free(verifier);
    jwt_failures_free(failures);
    jwt_keys_release(source.keys);
    arena_reset(&arena);
}

static char *token_of(const char *secret, unsigned number, size_t bytes)
{
    char *payload = malloc(bytes + 128);
    (void)snprintf(payload, bytes + 128, "{\"exp\":1700000100,\"sub\":\"user%u\",\"x\":\"%0*d\"}",
                   number, (int)bytes, 0);
    char *token = signer_token(JWT_HS256, NULL, secret, "{\"alg\":\"HS256\"}", payload);
    free(payload);
    return token;
}

static enum jwt_result check(const char *token)
{
    return jwt_verifier_check(verifier, &source, span_of_text(token), &request, &arena, &claims);
}

static void check_subject(const char *subject)
{
    ck_assert(span_equals(jwt_claim_text(&claims->claims[0]), span_of_text(subject)));
}

START_TEST(a_verified_token_is_remembered_with_its_claims)
{
    char *token = token_of(SECRET, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    check_subject("user1");
    const struct jwt_claims *first = claims;
    ck_assert_int_eq(check(token), JWT_VALID);
    check_subject("user1");
    ck_assert_ptr_ne(claims, first); /* of the table, no longer of the arena */
    first = claims;
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert_ptr_eq(claims, first);
    free(token);
}
END_TEST

START_TEST(claims_are_copied)
{
    char *token = token_of(SECRET, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    const struct jwt_claims *copy = jwt_claims_copy(claims, &arena);
    jwt_verifier_free(verifier);
    verifier = NULL;
    ck_assert_uint_eq(copy->n_claims, 1);
    ck_assert(span_equals(jwt_claim_text(&copy->claims[0]), SPAN("user1")));
    free(token);
}
END_TEST

START_TEST(the_digests_of_a_remembered_token_are_kept)
{
    char *token = token_of(SECRET, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert_ptr_null(claims->claims[0].digest);
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert(!claims->claims[0].digest->is_known);
    claims->claims[0].digest->is_known = true;
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert(claims->claims[0].digest->is_known);
    const struct jwt_claims *copy = jwt_claims_copy(claims, &arena);
    ck_assert(!copy->claims[0].digest->is_known);
    free(token);
}
END_TEST

/* The table is asked by the signature, and compares the whole. */
START_TEST(another_token_with_a_remembered_signature_is_refused)
{
    char *token = token_of(SECRET, 1, 10);
    char *other = token_of(SECRET, 2, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert_uint_eq(strlen(token), strlen(other));
    const char *signature = strrchr(token, '.');
    memcpy(strrchr(other, '.'), signature, strlen(signature));
    ck_assert_int_eq(check(other), JWT_SIGNATURE);
    free(token);
    free(other);
}
END_TEST

START_TEST(a_remembered_token_expires)
{
    char *token = token_of(SECRET, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    request.wall_us = (NOW_S + 100) * (uint64_t)US_PER_S - 1;
    ck_assert_int_eq(check(token), JWT_VALID);
    request.wall_us++;
    ck_assert_int_eq(check(token), JWT_EXPIRED);
    free(token);
}
END_TEST

START_TEST(a_withdrawn_key_ends_remembered_tokens)
{
    char *token = token_of(SECRET, 1, 10);
    char *other = token_of(OTHER, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert_int_eq(check(other), JWT_SIGNATURE);
    (void)jwt_keys_fetched(source.keys, jwt_key_set_of_secret(SPAN(OTHER)), 0, 1);
    ck_assert_int_eq(check(token), JWT_SIGNATURE);
    ck_assert_int_eq(check(other), JWT_VALID);
    free(token);
    free(other);
}
END_TEST

START_TEST(other_rules_do_not_share_what_is_remembered)
{
    static const struct span ISSUERS[] = {{"https://id", 10}};
    char *token = token_of(SECRET, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    source.rules.issuers = ISSUERS;
    source.rules.n_issuers = 1;
    source.number = jwt_source_number();
    ck_assert_int_eq(check(token), JWT_ISSUER);
    free(token);
}
END_TEST

START_TEST(wrong_signatures_slow_their_address_down)
{
    char *good = token_of(SECRET, 1, 10);
    char *later = token_of(SECRET, 2, 10);
    size_t n_refused = 0;
    size_t n_slowed = 0;
    ck_assert_int_eq(check(good), JWT_VALID);
    for (unsigned i = 0; i < 200; i++) {
        char *bad = token_of(OTHER, i, 10);
        const enum jwt_result result = check(bad);
        n_refused += result == JWT_SIGNATURE;
        n_slowed += result == JWT_TOO_MANY_FAILURES;
        free(bad);
    }
    ck_assert_uint_eq(n_refused, JWT_FAILURES_PER_MINUTE + JWT_SLOWED_PER_SECOND);
    ck_assert_uint_eq(n_slowed, 200 - n_refused);
    ck_assert_int_eq(check(good), JWT_VALID);
    ck_assert_int_eq(check(later), JWT_TOO_MANY_FAILURES);
    request.now_us += US_PER_S;
    ck_assert_int_eq(check(later), JWT_VALID);
    free(good);
    free(later);
}
END_TEST

/* Tokens whose signature is not computed take nothing of what a slowed-down address has. */
START_TEST(tokens_that_cost_no_signature_slow_no_neighbour_down)
{
    char *short_signature = token_of(OTHER, 1, 10);
    short_signature[strlen(short_signature) - 4] = '\0';
    char *expired = signer_token(JWT_HS256, NULL, SECRET, "{\"alg\":\"HS256\"}", "{\"exp\":1}");
    for (unsigned i = 0; i < JWT_FAILURES_PER_MINUTE; i++) {
        char *bad = token_of(OTHER, i, 10);
        ck_assert_int_eq(check(bad), JWT_SIGNATURE);
        free(bad);
    }
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(check("a.b.c"), JWT_MALFORMED);
        ck_assert_int_eq(check(expired), JWT_EXPIRED);
        ck_assert_int_eq(check(short_signature), JWT_SIGNATURE_LENGTH);
    }
    for (unsigned i = 0; i <= JWT_SLOWED_PER_SECOND; i++) {
        char *good = token_of(SECRET, i, 10);
        ck_assert_int_eq(check(good),
                         i < JWT_SLOWED_PER_SECOND ? JWT_VALID : JWT_TOO_MANY_FAILURES);
        free(good);
    }
    free(expired);
    free(short_signature);
}
END_TEST

START_TEST(the_same_wrong_token_counts_once)
{
    char *bad = token_of(OTHER, 1, 10);
    char *good = token_of(SECRET, 1, 10);
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(check(bad), JWT_SIGNATURE);
    }
    ck_assert_int_eq(check(good), JWT_VALID);
    free(bad);
    free(good);
}
END_TEST

/* More tokens than the table holds are all verified, and it stays within its bytes. */
START_TEST(the_table_is_bounded)
{
    for (unsigned i = 0; i < JWT_VERIFIED_MAX + 1000; i++) {
        char *token = token_of(SECRET, i, 4000);
        ck_assert_int_eq(check(token), JWT_VALID);
        free(token);
        ck_assert_uint_le(jwt_verifier_bytes(verifier), JWT_VERIFIED_BYTES_MAX);
        arena_reset(&arena);
        arena_init(&arena, NULL, 0);
        char bytes[64];
        struct text problem = text_of(bytes, sizeof(bytes));
        ck_assert(jwt_path_parse(SPAN("sub"), &arena, &path, &problem));
    }
    ck_assert_uint_gt(jwt_verifier_bytes(verifier), JWT_VERIFIED_BYTES_MAX / 2);
}
END_TEST

START_TEST(an_empty_and_a_long_token_are_refused)
{
    static char token[JWT_TOKEN_BYTES_MAX + 2];
    memset(token, 'A', JWT_TOKEN_BYTES_MAX + 1);
    ck_assert_int_eq(check(""), JWT_MALFORMED);
    ck_assert_int_eq(check(token), JWT_TOO_LONG);
}
END_TEST

START_TEST(an_unknown_key_asks_for_a_fetch)
{
    uint64_t wait_us;
    source.rules.algorithms = 1U << JWT_ES256;
    struct evp_pkey_st *key = signer_key(JWT_ES256, 0);
    char *token = signer_token(JWT_ES256, key, NULL, "{\"alg\":\"ES256\"}", "{\"exp\":1700000100}");
    ck_assert_ptr_null(jwt_keys_next_due(20 * (uint64_t)US_PER_S, &wait_us));
    ck_assert_int_eq(check(token), JWT_UNKNOWN_KEY);
    struct jwt_keys *due = jwt_keys_next_due(20 * (uint64_t)US_PER_S, &wait_us);
    ck_assert_ptr_eq(due, source.keys);
    jwt_keys_release(due);
    signer_free(key);
    free(token);
}
END_TEST

/* A token that is remembered fails too, and each asks for a fetch: keys may come back. */
START_TEST(without_a_key_in_the_set_tokens_are_refused)
{
    char bytes[128];
    struct text problem = text_of(bytes, sizeof(bytes));
    char *token = token_of(SECRET, 1, 10);
    ck_assert_int_eq(check(token), JWT_VALID);
    struct jwt_key_set *empty = jwt_key_set_read(SPAN("{\"keys\":[]}"), &problem);
    ck_assert_ptr_nonnull(empty);
    (void)jwt_keys_fetched(source.keys, empty, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        uint64_t wait_us;
        ck_assert_int_eq(check(token), JWT_KEYS_WITHDRAWN);
        struct jwt_keys *due = jwt_keys_next_due(20 * (uint64_t)US_PER_S, &wait_us);
        ck_assert_ptr_eq(due, source.keys);
        jwt_keys_release(due);
        (void)jwt_keys_fetched(source.keys, NULL, 0, 0);
    }
    free(token);
}
END_TEST

static bool says(void *context)
{
    const bool *is_denied = context;
    return *is_denied;
}

START_TEST(a_token_of_a_denied_request_is_not_read_unless_it_is_remembered)
{
    bool is_denied = true;
    char *token = token_of(SECRET, 1, 10);
    char *wrong = token_of(OTHER, 1, 10);
    request.is_denied = says;
    request.context = &is_denied;
    ck_assert_int_eq(check(token), JWT_UNREAD);
    ck_assert_int_eq(check(wrong), JWT_UNREAD);
    ck_assert_uint_eq(jwt_verifier_n_signatures(verifier), 0);
    is_denied = false;
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert_int_eq(check(wrong), JWT_SIGNATURE);
    ck_assert_uint_eq(jwt_verifier_n_signatures(verifier), 2);
    is_denied = true;
    ck_assert_int_eq(check(token), JWT_VALID);
    ck_assert_int_eq(check(wrong), JWT_SIGNATURE);
    ck_assert_uint_eq(jwt_verifier_n_signatures(verifier), 2);
    free(token);
    free(wrong);
}
END_TEST

/* @payload with the @header, signed with SECRET; checked twice: the second time nothing is read, so
 * nothing is allocated. */
static void check_is_remembered(const char *header, const char *payload, enum jwt_result result)
{
    char *token = signer_token(JWT_HS256, NULL, SECRET, header, payload);
    struct arena empty;
    ck_assert_int_eq(check(token), result);
    for (size_t i = 0; i < 2; i++) {
        arena_init(&empty, NULL, 0);
        ck_assert_int_eq(
            jwt_verifier_check(verifier, &source, span_of_text(token), &request, &empty, &claims),
            result);
        ck_assert_ptr_null(claims);
        ck_assert_msg(empty.chunks == NULL, "%s.%s was read again", header, payload);
        arena_reset(&empty);
    }
    free(token);
}

START_TEST(what_is_not_valid_is_read_once)
{
    static const char HEADER[] = "{\"alg\":\"HS256\"}";
    const struct span issuer = SPAN("me");
    source.rules.issuers = &issuer;
    source.rules.n_issuers = 1;
    check_is_remembered("[", "{}", JWT_BAD_HEADER);
    check_is_remembered("{\"alg\":\"none\"}", "{}", JWT_ALGORITHM);
    check_is_remembered(HEADER, "[[]]", JWT_BAD_PAYLOAD);
    check_is_remembered(HEADER, "{}", JWT_NO_EXPIRY);
    check_is_remembered(HEADER, "{\"exp\":1}", JWT_EXPIRED);
    check_is_remembered(HEADER, "{\"exp\":1700000100,\"nbf\":\"\"}", JWT_NOT_BEFORE);
    check_is_remembered(HEADER, "{\"exp\":1700000100,\"nbf\":1700000050}", JWT_TOO_EARLY);
    check_is_remembered(HEADER, "{\"exp\":1700000100,\"iss\":\"you\"}", JWT_ISSUER);
}
END_TEST

/* The time, the keys or other rules may change what a token is. */
START_TEST(what_is_not_valid_is_read_again_when_that_may_have_changed)
{
    static const char HEADER[] = "{\"alg\":\"HS256\"}";
    char *early = signer_token(JWT_HS256, NULL, SECRET, HEADER,
                               "{\"exp\":1700000100,\"nbf\":1700000050,\"sub\":\"a\"}");
    char *late = token_of(OTHER, 1, 10);
    const uint64_t now_us = request.wall_us;
    for (size_t i = 0; i < 2; i++) {
        request.wall_us = now_us + 49 * (uint64_t)US_PER_S;
        ck_assert_int_eq(check(early), JWT_TOO_EARLY);
        ck_assert_int_eq(check(late), JWT_SIGNATURE);
    }
    request.wall_us = now_us + 100 * (uint64_t)US_PER_S;
    ck_assert_int_eq(check(early), JWT_EXPIRED);
    ck_assert_int_eq(check(late), JWT_EXPIRED);
    request.wall_us = now_us + 99 * (uint64_t)US_PER_S; /* the clock steps back */
    ck_assert_int_eq(check(early), JWT_VALID);
    ck_assert_int_eq(check(late), JWT_SIGNATURE);
    (void)jwt_keys_fetched(source.keys, jwt_key_set_of_secret(SPAN(OTHER)), 0, 0);
    ck_assert_int_eq(check(late), JWT_VALID);
    ck_assert_int_eq(check(early), JWT_SIGNATURE);
    free(early);
    free(late);
}
END_TEST

/* Each fetch may bring the key. */
START_TEST(a_remembered_token_of_an_unknown_key_asks_for_a_fetch_too)
{
    uint64_t wait_us;
    source.rules.algorithms = 1U << JWT_ES256;
    struct evp_pkey_st *key = signer_key(JWT_ES256, 0);
    char *token = signer_token(JWT_ES256, key, NULL, "{\"alg\":\"ES256\"}", "{\"exp\":1700000100}");
    for (uint64_t i = 1; i < 4; i++) {
        ck_assert_int_eq(check(token), JWT_UNKNOWN_KEY);
        struct jwt_keys *due = jwt_keys_next_due(i * 20 * US_PER_S, &wait_us);
        ck_assert_ptr_eq(due, source.keys);
        (void)jwt_keys_fetched(due, NULL, 0, i * 20 * US_PER_S);
        jwt_keys_release(due);
    }
    signer_free(key);
    free(token);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jwt/verifier");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_verified_token_is_remembered_with_its_claims);
    tcase_add_test(tcase, claims_are_copied);
    tcase_add_test(tcase, the_digests_of_a_remembered_token_are_kept);
    tcase_add_test(tcase, another_token_with_a_remembered_signature_is_refused);
    tcase_add_test(tcase, a_remembered_token_expires);
    tcase_add_test(tcase, a_withdrawn_key_ends_remembered_tokens);
    tcase_add_test(tcase, other_rules_do_not_share_what_is_remembered);
    tcase_add_test(tcase, wrong_signatures_slow_their_address_down);
    tcase_add_test(tcase, tokens_that_cost_no_signature_slow_no_neighbour_down);
    tcase_add_test(tcase, the_same_wrong_token_counts_once);
    tcase_add_test(tcase, the_table_is_bounded);
    tcase_add_test(tcase, an_empty_and_a_long_token_are_refused);
    tcase_add_test(tcase, an_unknown_key_asks_for_a_fetch);
    tcase_add_test(tcase, without_a_key_in_the_set_tokens_are_refused);
    tcase_add_test(tcase, a_token_of_a_denied_request_is_not_read_unless_it_is_remembered);
    tcase_add_test(tcase, what_is_not_valid_is_read_once);
    tcase_add_test(tcase, what_is_not_valid_is_read_again_when_that_may_have_changed);
    tcase_add_test(tcase, a_remembered_token_of_an_unknown_key_asks_for_a_fetch_too);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
