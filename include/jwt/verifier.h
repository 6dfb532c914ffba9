/* Verifies the tokens of a worker's requests and remembers what came of it: verified tokens with
 * their claims, and tokens that are not valid, each in a bounded table.
 *
 * A remembered token counts while the keys and the rules that it was judged by are in force, and
 * the time allows no other result. Reading a token costs as much as several requests, and HTTP/2
 * repeats a token in one byte; a signature costs more than a whole request. Therefore an address
 * that sends many tokens with wrong signatures has few verified; all workers together count them.
 */

#ifndef SLUICE_JWT_VERIFIER_H
#define SLUICE_JWT_VERIFIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "jwt/keys.h"
#include "jwt/token.h"

enum {
    JWT_VERIFIED_MAX = 4096,                   /* tokens of a worker */
    JWT_VERIFIED_BYTES_MAX = 16 * 1024 * 1024, /* of them together */
    JWT_REFUSED_MAX = 4096,                    /* tokens of a worker */
    JWT_FAILURES_PER_MINUTE = 100,             /* of an address, before it is slowed down */
    JWT_SLOWED_PER_SECOND = 10,                /* signatures of such an address */
};

/* Wrong signatures by address, of the process. Those of clients whose address is not known
 * (ADDRESS_NONE) are not counted: there may be many of them. */
struct jwt_failures;

/* Those of this process, which all its workers share. Never freed. */
struct jwt_failures *jwt_failures_of_process(void);

/* Others, for tests. NULL: no memory. */
MUST_USE struct jwt_failures *jwt_failures_new(void);
void jwt_failures_free(struct jwt_failures *failures);

/* Whether a signature of @client may be verified at @now_us, monotonic. */
bool jwt_failures_allow(struct jwt_failures *failures, const struct address *client,
                        uint64_t now_us);

/* jwt_failures_allow() allowed a signature of @client at @now_us, and none was computed: another
 * may be, in the same second. */
void jwt_failures_return(struct jwt_failures *failures, const struct address *client,
                         uint64_t now_us);

/* A signature of @client was wrong by each of @n keys, at least one. jwt_failures_allow() allowed
 * the first of them. */
void jwt_failures_add(struct jwt_failures *failures, const struct address *client, unsigned n,
                      uint64_t now_us);

/* What tokens are verified by. */
struct jwt_source {
    struct jwt_rules rules;
    struct jwt_keys *keys;
    uint64_t number; /* of the rules: see jwt_source_number() */
};

/* A number that no other rules of the process have. */
uint64_t jwt_source_number(void);

/* Verifies and remembers; of one thread. */
struct jwt_verifier;

/* @failures is borrowed. NULL: no memory. */
MUST_USE struct jwt_verifier *jwt_verifier_new(struct jwt_failures *failures);

/* NULL is a no-op. */
void jwt_verifier_free(struct jwt_verifier *verifier);

/* What the verified tokens that are remembered take, bytes. */
size_t jwt_verifier_bytes(const struct jwt_verifier *verifier);

/* Signatures that were computed. */
uint64_t jwt_verifier_n_signatures(const struct jwt_verifier *verifier);

/* The sender and the time of a token. */
struct jwt_request {
    struct address client;
    uint64_t wall_us; /* us since the epoch */
    uint64_t now_us;  /* monotonic */
    /* Asked before a token is read that is not remembered: whether the request is denied, whatever
     * the token says. NULL: no. */
    bool (*is_denied)(void *context);
    void *context;
};

/* Copy @claims into @arena, for use after the next call. NULL: no memory. */
MUST_USE const struct jwt_claims *jwt_claims_copy(const struct jwt_claims *claims,
                                                  struct arena *arena);

/* Verify @token by @source. JWT_UNREAD: is_denied() said so. JWT_VALID: *claims is valid until the
 * next call, or while @arena lives, whichever is shorter. */
enum jwt_result jwt_verifier_check(struct jwt_verifier *verifier, const struct jwt_source *source,
                                   struct span token, const struct jwt_request *request,
                                   struct arena *arena, const struct jwt_claims **claims);

#endif /* SLUICE_JWT_VERIFIER_H */
