/* Finds the token of a request and has it verified. */

#ifndef SLUICE_PROXY_TOKEN_CHECK_H
#define SLUICE_PROXY_TOKEN_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"
#include "http/head.h"
#include "policy/jwt_provider.h"

/* The tokens of one request. */
struct token_check {
    struct token_view view;
    struct jwt_verifier *verifier; /* of the worker; borrowed, as are the next two */
    const struct given_token *given;
    struct arena *arena;
    uint64_t wall_us;
    uint64_t now_us;
};

/* @wall_us: us since the epoch; @now_us: monotonic. */
void token_check_init(struct token_check *check, struct jwt_verifier *verifier, struct arena *arena,
                      uint64_t wall_us, uint64_t now_us);

/* In place of the request's token @given counts; NULL: the request has none. */
void token_check_init_given(struct token_check *check, const struct given_token *given,
                            struct arena *arena);

/* The tokens of @head at the places that @from names, the scheme Bearer removed. data is NULL:
 * there is none. *differ: there are several that differ. */
struct span token_find(const struct key_part *from, const struct head *head, bool *differ);

#endif /* SLUICE_PROXY_TOKEN_CHECK_H */
