/* Tokens, key sets and paths of claims. The input is a token as it is, and also the parts of one:
 * it is cut at its first two NULs into header, claims and the rest, put into base64url. */

#include <stdint.h>
#include <stdlib.h>

#include "base/text.h"
#include "fuzz/must_hold.h"
#include "jwt/token.h"

enum {
    TEXT_BYTES = 1024,
    TOKEN_BYTES = 2 * JWT_TOKEN_BYTES_MAX,
    NOW_S = 1700000000,
};

static const char SECRET[] = "0123456789abcdef0123456789abcdef";

static void add_base64(struct text *text, struct span bytes)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (size_t i = 0; i < bytes.len; i += 3) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++) {
            bits = bits << 8 | (i + j < bytes.len ? (uint8_t)bytes.data[i + j] : 0);
        }
        const size_t n_digits = bytes.len - i >= 3 ? 4 : bytes.len - i + 1;
        for (size_t j = 0; j < n_digits; j++) {
            text_add_char(text, DIGITS[bits >> (18 - 6 * j) & 63]);
        }
    }
}

static void check_claims(const struct jwt_claims *claims, size_t token_len)
{
    for (size_t i = 0; i < claims->n_claims; i++) {
        const struct jwt_claim *claim = &claims->claims[i];
        MUST_HOLD(claim->n_values <= JWT_VALUES_MAX);
        for (size_t j = 0; j < claim->n_values; j++) {
            MUST_HOLD(claim->values[j].len > 0 && claim->values[j].len <= JWT_VALUE_BYTES_MAX);
            MUST_HOLD(claim->values[j].len <= token_len + sizeof("false"));
        }
        const struct span text = jwt_claim_text(claim);
        MUST_HOLD(text.len == 0 || claim->is_single);
    }
}

static void check_token(const struct jwt_rules *rules, const struct jwt_key_set *keys,
                        struct span token)
{
    struct arena arena;
    struct jwt_claims claims;
    struct jwt_period period;
    unsigned n_computed;
    arena_init(&arena, NULL, 0);
    const enum jwt_result result = jwt_verify(rules, keys, token, (uint64_t)NOW_S * 1000000, &arena,
                                              &claims, &period, &n_computed);
    MUST_HOLD((token.len > JWT_TOKEN_BYTES_MAX) == (result == JWT_TOO_LONG));
    if (result == JWT_VALID) {
        MUST_HOLD(claims.expires_us > (uint64_t)NOW_S * 1000000);
        check_claims(&claims, token.len);
    }
    arena_reset(&arena);
}

static void check_parts(const struct jwt_rules *rules, const struct jwt_key_set *keys,
                        struct span input)
{
    static char token[TOKEN_BYTES];
    struct text text = text_of(token, sizeof(token));
    struct span rest = input;
    struct span part;
    size_t n = 0;
    while (n < 3 && span_split(&rest, '\0', &part)) {
        text_add(&text, n++ > 0 ? SPAN(".") : SPAN(""));
        add_base64(&text, part);
    }
    check_token(rules, keys, text_span(&text));
}

static void check_path(struct span input)
{
    char problem_bytes[TEXT_BYTES];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct arena arena;
    struct jwt_path path;
    struct jwt_path again;
    arena_init(&arena, NULL, 0);
    if (jwt_path_parse(input, &arena, &path, &problem)) {
        MUST_HOLD(jwt_path_parse(path.text, &arena, &again, &problem));
        MUST_HOLD(span_equals(again.text, path.text) && again.n_names == path.n_names);
        for (size_t i = 0; i < path.n_names; i++) {
            MUST_HOLD(span_equals(again.names[i], path.names[i]));
        }
    } else {
        MUST_HOLD(problem.len > 0 && !problem.truncated);
    }
    arena_reset(&arena);
}

static void check_set(struct span input)
{
    char problem_bytes[TEXT_BYTES];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct jwt_key_set *set = jwt_key_set_read(input, &problem);
    MUST_HOLD(set != NULL ? jwt_key_set_equals(set, set) : problem.len > 0);
    jwt_key_set_release(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct jwt_path PATHS[] = {{{{"sub", 3}}, 1, {"sub", 3}},
                                            {{{"a", 1}, {"b", 1}}, 2, {"a.b", 3}}};
    const struct span input = span_of((const char *)data, size);
    const struct jwt_rules rules = {.algorithms = (1U << JWT_ALGORITHMS) - 1,
                                    .claims = PATHS,
                                    .n_claims = sizeof(PATHS) / sizeof(PATHS[0])};
    struct jwt_key_set *keys = jwt_key_set_of_secret(span_of(SECRET, sizeof(SECRET) - 1));
    MUST_HOLD(keys != NULL);
    check_token(&rules, keys, input);
    check_parts(&rules, keys, input);
    check_path(input);
    check_set(input);
    jwt_key_set_release(keys);
    return 0;
}
