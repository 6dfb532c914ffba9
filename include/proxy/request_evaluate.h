/* The evaluation of a request under a policy, up to the point where a store decides.
 *
 *   client ─► path ─► route ─► prefix ─► loop ─► body ─► limits with their keys and costs
 *
 * It does no I/O, reads no clock and charges nothing. The proxy, the simulation and the explaining
 * tools all use it, so their results agree. A decision for another proxy needs nothing else.
 *
 * Also the response fields that report the limits, which these share too. */

#ifndef SLUICE_PROXY_REQUEST_EVALUATE_H
#define SLUICE_PROXY_REQUEST_EVALUATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "geo/cache.h"
#include "http/field.h"
#include "http/head.h"
#include "http/target.h"
#include "policy/jwt_provider.h"
#include "policy/key.h"
#include "policy/policy.h"
#include "proxy/admission.h"

struct jwt_verifier;
struct tls_client;

/* --- the token of a request --- */

/* The tokens of one request. */
struct token_check {
    struct token_view view;
    struct jwt_verifier *verifier; /* of the worker; borrowed, as are the next two */
    const struct given_token *given;
    struct arena *arena;
    uint64_t wall_us;
    uint64_t now_us;
    bool (*is_denied)(void *context); /* as in struct jwt_request */
    void *context;
};

/* @wall_us: us since the epoch; @now_us: monotonic. */
void token_check_init(struct token_check *check, struct jwt_verifier *verifier, struct arena *arena,
                      uint64_t wall_us, uint64_t now_us);

/* In place of the request's token @given counts; NULL: the request has none. */
void token_check_init_given(struct token_check *check, const struct given_token *given,
                            struct arena *arena);

/* The token of @head at the places that @from names, the scheme Bearer removed. data is NULL: there
 * is none. *fault: JWT_SEVERAL, there are several that differ; JWT_SPELLING, there is one in a
 * spelling that only some servers read; else JWT_VALID. */
struct span token_find(const struct key_part *from, const struct head *head,
                       enum jwt_result *fault);

/* --- the evaluation --- */

/* The input besides the request. All of it is borrowed. */
struct evaluation_context {
    struct admission_context admission;
    struct span own_name; /* of this process in Via; empty: unknown, so no loop is detected */
    const struct tls_client *tls; /* the client, where it connected over TLS; NULL: plain text */
    struct client_identity *identity; /* that the connection keeps; NULL: none */
    /* verifies tokens; NULL: tokens are not read, and no request is refused for lack of one */
    struct jwt_verifier *verifier;
    /* asked, before a token is verified, for limits that deny the request whatever it says;
     * needed only with a verifier */
    struct store *store;
    /* without a verifier: given_token counts as the request's; NULL: the request has none */
    bool takes_given_token;
    const struct given_token *given_token;
    const struct geo_facts *given_geo; /* of the client; NULL: the policy's databases are asked */
    struct geo_cache *geo_cache;       /* of these databases; NULL: none */
    /* costs and plans named in a request are accepted as from a trusted proxy, and so are the
     * fields of policy_head_make(), if the policy trusts any */
    bool trusts_peer;
};

enum evaluation_result {
    EVALUATION_REFUSED,   /* see status and reason */
    EVALUATION_BANNED,    /* 429: admission->decision is the denial */
    EVALUATION_TO_DECIDE, /* admission->decision is ready for store_decide() */
    EVALUATION_FREE,      /* no limit applies */
    EVALUATION_FAILED,    /* no memory; status and reason are set as for a refusal */
};

/* Why a token, or its absence, is a reason to refuse a request. */
enum token_refusal {
    TOKEN_MISSING,
    TOKEN_INVALID,
    TOKEN_NO_KEYS,
    TOKEN_TOO_MANY, /* wrong signatures of its address */
    TOKEN_UNREAD,   /* a limit denies the request whatever the token says; not counted */
};

/* An evaluation and its result. */
struct evaluation {
    /* Set by the caller, which owns these two. The evaluation writes into them. */
    struct admission *admission; /* has charges only with BANNED and TO_DECIDE */
    struct arena *arena;         /* for paths and keys */

    enum evaluation_result result;
    const struct route *route; /* NULL: none matches, or the request is refused before matching */
    bool is_preflight;         /* of CORS: answered with 204 and not charged */
    struct span upstream_path; /* the path for the upstream, without the query */

    /* The proxy's own answer: to a refused request, or to one that its limits allow. */
    uint16_t status; /* 0: the upstream answers */
    /* why the request is not served; lives as long as the policy. NULL: there is none */
    const char *reason;
    const char *challenge;  /* of a 401: the value of WWW-Authenticate; NULL: there is none */
    uint32_t retry_after_s; /* of a 429 that no limit decided; 0: it is not said */

    struct token_check tokens; /* of view.token */
    struct refused_token {
        uint16_t status; /* 0: the token, or its absence, is no reason to refuse the request */
        enum token_refusal kind;
        const char *reason;
    } refused_token;
    /* view.head is NULL if the head has a parse error. Fields are absent that the server does not
     * get as the peer sent them: it may be a copy, in the arena */
    struct request_view view;
    struct path path;          /* of view.path */
    char host[HOST_BYTES_MAX]; /* of view.host */
};

/* Evaluate the request @head from the connected address @peer. A head with a parse error is refused
 * with that error, and the view is not filled. Returns evaluation->result. */
enum evaluation_result request_evaluate(const struct evaluation_context *context,
                                        const struct head *head, const struct address *peer,
                                        struct evaluation *evaluation);

/* The response fields that report the limits, in the form that the policy chooses. */

enum { RATELIMIT_FIELDS_MAX = 5 };

/* Fill @fields, an array of RATELIMIT_FIELDS_MAX, with the report on @admission, which was decided
 * under @route. Returns the number of fields. Values live in @arena; without memory they are
 * empty. */
MUST_USE size_t ratelimit_fields_make(const struct admission *admission, const struct route *route,
                                      enum headers_style style, struct arena *arena,
                                      struct field *fields);

/* The head of a request as its policy reads it: a field that the server does not get as the peer
 * sent it is absent. Else clients could choose their routes, keys and costs by values that no
 * server sees. */

/* @head, of a peer that is trusted or not, as the policy reads it: @head itself, or a copy of it in
 * @arena that borrows names and values. NULL: no memory. */
MUST_USE const struct head *policy_head_make(const struct head *head, bool peer_is_trusted,
                                             struct arena *arena);

/* The id that a trusted proxy gave the request; empty: none, or none that is passed on. */
struct span policy_head_request_id(const struct head *head);

#endif /* SLUICE_PROXY_REQUEST_EVALUATE_H */
