#include "jwt/verifier.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    N_WAYS = 4,
    N_SETS = JWT_VERIFIED_MAX / N_WAYS,
    /* At the end of a token: so much of its signature that no two tokens share it by chance. */
    HASHED_BYTES = 86,
};

/* A verified token: one block with its text and claims. */
struct entry {
    uint64_t source;     /* number of the rules */
    uint64_t generation; /* of the keys */
    size_t bytes;        /* of the block */
    struct span token;
    struct jwt_claims claims;
};

struct slot {
    uint64_t hash;
    struct entry *entry; /* NULL: free */
};

/* A token that is not valid. */
struct refused {
    struct hash128 hash;
    uint64_t source; /* 0: free */
    uint64_t generation;
    struct jwt_period period;
    enum jwt_result result;
};

struct jwt_verifier {
    struct jwt_failures *failures;
    struct hash_key key;
    uint64_t n_signatures;
    size_t bytes; /* of all entries */
    size_t hand;  /* the slot that makes room next when there are too many bytes */
    struct slot slots[N_SETS][N_WAYS]; /* of a set the latest first */
    struct refused refused[JWT_REFUSED_MAX];
};

uint64_t jwt_source_number(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

struct jwt_verifier *jwt_verifier_new(struct jwt_failures *failures)
{
    struct jwt_verifier *verifier = calloc(1, sizeof(*verifier));
    if (verifier != NULL) {
        verifier->failures = failures;
        verifier->key = hash_key_new();
    }
    return verifier;
}

static void drop(struct jwt_verifier *verifier, struct slot *slot)
{
    if (slot->entry != NULL) {
        verifier->bytes -= slot->entry->bytes;
        free(slot->entry);
        slot->entry = NULL;
    }
}

void jwt_verifier_free(struct jwt_verifier *verifier)
{
    for (size_t i = 0; verifier != NULL && i < JWT_VERIFIED_MAX; i++) {
        drop(verifier, &verifier->slots[i / N_WAYS][i % N_WAYS]);
    }
    free(verifier);
}

size_t jwt_verifier_bytes(const struct jwt_verifier *verifier)
{
    return verifier->bytes;
}

/* --- verified tokens --- */

static uint64_t hash_token(const struct jwt_verifier *verifier, struct span token)
{
    const size_t len = token.len < HASHED_BYTES ? token.len : HASHED_BYTES;
    return hash_table(&verifier->key, span_of(token.data + token.len - len, len)).low;
}

/* Make slot @i of @set the first. */
static void move_to_front(struct slot *set, size_t i)
{
    const struct slot slot = set[i];
    memmove(&set[1], &set[0], i * sizeof(*set));
    set[0] = slot;
}

/* The entry of @token that counts at @wall_us, or NULL. One that counts no more is dropped. */
static const struct entry *find(struct jwt_verifier *verifier, const struct jwt_source *source,
                                struct span token, uint64_t hash, uint64_t wall_us)
{
    struct slot *set = verifier->slots[hash % N_SETS];
    for (size_t i = 0; i < N_WAYS; i++) {
        const struct entry *entry = set[i].entry;
        if (entry == NULL || set[i].hash != hash || entry->source != source->number ||
            !span_equals(entry->token, token)) {
            continue;
        }
        if (entry->generation != jwt_keys_generation(source->keys) ||
            wall_us >= entry->claims.expires_us) {
            drop(verifier, &set[i]);
            return NULL;
        }
        if (i > 0) {
            move_to_front(set, i);
        }
        return entry;
    }
    return NULL;
}

static size_t bytes_of_claims(const struct jwt_claims *claims)
{
    size_t bytes = claims->n_claims * (sizeof(*claims->claims) + sizeof(struct jwt_digest));
    for (size_t i = 0; i < claims->n_claims; i++) {
        bytes += claims->claims[i].n_values * sizeof(struct span);
        for (size_t j = 0; j < claims->claims[i].n_values; j++) {
            bytes += claims->claims[i].values[j].len;
        }
    }
    return bytes;
}

static struct span put_text(char **end, struct span text)
{
    char *start = *end;
    memcpy(start, text.data, text.len);
    *end += text.len;
    return span_of(start, text.len);
}

/* Copy @claims to @memory of bytes_of_claims(): the claims, the spans of all values, room for the
 * digests, the texts. Returns the end. */
static char *put_claims(void *memory, const struct jwt_claims *claims, struct jwt_claims *copy)
{
    struct jwt_claim *list = memory;
    struct span *spans = (struct span *)(void *)(list + claims->n_claims);
    size_t n_values = 0;
    for (size_t i = 0; i < claims->n_claims; i++) {
        n_values += claims->claims[i].n_values;
    }
    struct jwt_digest *digests = (struct jwt_digest *)(void *)(spans + n_values);
    memset(digests, 0, claims->n_claims * sizeof(*digests));
    char *end = (char *)(digests + claims->n_claims);
    for (size_t i = 0; i < claims->n_claims; i++) {
        list[i] = claims->claims[i];
        list[i].values = spans;
        list[i].digest = &digests[i];
        for (size_t j = 0; j < claims->claims[i].n_values; j++) {
            *spans++ = put_text(&end, claims->claims[i].values[j]);
        }
    }
    *copy = *claims;
    copy->claims = list;
    return end;
}

const struct jwt_claims *jwt_claims_copy(const struct jwt_claims *claims, struct arena *arena)
{
    struct jwt_claims *copy = arena_alloc(arena, sizeof(*copy));
    void *memory = arena_alloc(arena, bytes_of_claims(claims));
    if (copy == NULL || memory == NULL) {
        return NULL;
    }
    (void)put_claims(memory, claims, copy);
    return copy;
}

/* Drop entries, each in turn, until there is room for @bytes. */
static void make_room(struct jwt_verifier *verifier, size_t bytes)
{
    for (size_t i = 0; i < JWT_VERIFIED_MAX; i++) {
        if (verifier->bytes + bytes <= JWT_VERIFIED_BYTES_MAX) {
            return;
        }
        verifier->hand = (verifier->hand + 1) % JWT_VERIFIED_MAX;
        drop(verifier, &verifier->slots[verifier->hand / N_WAYS][verifier->hand % N_WAYS]);
    }
}

/* Remember a verified token. Without memory it is verified again next time. */
static void add(struct jwt_verifier *verifier, const struct jwt_source *source, struct span token,
                uint64_t hash, uint64_t generation, const struct jwt_claims *claims)
{
    const size_t bytes = sizeof(struct entry) + bytes_of_claims(claims) + token.len;
    struct entry *entry = malloc(bytes);
    if (entry == NULL) {
        return;
    }
    make_room(verifier, bytes);
    struct slot *set = verifier->slots[hash % N_SETS];
    drop(verifier, &set[N_WAYS - 1]);
    move_to_front(set, N_WAYS - 1);
    char *end = put_claims(entry + 1, claims, &entry->claims);
    entry->token = put_text(&end, token);
    entry->source = source->number;
    entry->generation = generation;
    entry->bytes = bytes;
    verifier->bytes += bytes;
    set[0] = (struct slot){.hash = hash, .entry = entry};
}

/* --- refused tokens --- */

/* Tokens of several sources have several slots. */
static struct refused *refused_slot(struct jwt_verifier *verifier, const struct jwt_source *source,
                                    struct hash128 hash)
{
    return &verifier->refused[(hash.low + source->number) % JWT_REFUSED_MAX];
}

/* What the token was refused for, if it is remembered and would be again; else JWT_VALID. */
static enum jwt_result find_refusal(struct jwt_verifier *verifier, const struct jwt_source *source,
                                    struct hash128 hash, uint64_t wall_us)
{
    const struct refused *slot = refused_slot(verifier, source, hash);
    const bool holds = slot->source == source->number && slot->hash.low == hash.low &&
                       slot->hash.high == hash.high &&
                       slot->generation == jwt_keys_generation(source->keys) &&
                       wall_us >= slot->period.from_us && wall_us < slot->period.until_us;
    return holds ? slot->result : JWT_VALID;
}

/* Whether a signature was computed and does not hold. */
static bool is_failure(enum jwt_result result)
{
    return result == JWT_SIGNATURE;
}

/* Whether a signature may have been computed. */
static bool is_computed(enum jwt_result result)
{
    return result == JWT_VALID || result == JWT_SIGNATURE || result == JWT_NO_MEMORY;
}

/* Whether keys that are fetched now might verify the token. */
static bool is_miss(enum jwt_result result)
{
    return result == JWT_UNKNOWN_KEY || result == JWT_KEYS_WITHDRAWN;
}

static enum jwt_result verify(struct jwt_verifier *verifier, const struct jwt_source *source,
                              struct span token, const struct jwt_request *request,
                              struct arena *arena, const struct jwt_claims **claims)
{
    const struct hash128 whole = hash_table(&verifier->key, token);
    const enum jwt_result refusal = find_refusal(verifier, source, whole, request->wall_us);
    if (refusal != JWT_VALID) {
        if (is_miss(refusal)) {
            jwt_keys_miss(source->keys);
        }
        return refusal;
    }
    if (request->is_denied != NULL && request->is_denied(request->context)) {
        return JWT_UNREAD;
    }
    struct jwt_claims *found = arena_alloc(arena, sizeof(*found));
    if (found == NULL) {
        return JWT_NO_MEMORY;
    }
    if (!jwt_failures_allow(verifier->failures, &request->client, request->now_us)) {
        return JWT_TOO_MANY_FAILURES;
    }
    uint64_t generation;
    struct jwt_period period;
    unsigned n_computed;
    struct jwt_key_set *keys = jwt_keys_acquire(source->keys, &generation);
    const enum jwt_result result = jwt_verify(&source->rules, keys, token, request->wall_us, arena,
                                              found, &period, &n_computed);
    jwt_key_set_release(keys);
    verifier->n_signatures += is_computed(result);
    if (!is_computed(result)) {
        jwt_failures_return(verifier->failures, &request->client, request->now_us);
    }
    if (result == JWT_VALID) {
        add(verifier, source, token, hash_token(verifier, token), generation, found);
        *claims = found;
        return JWT_VALID;
    }
    if (result != JWT_NO_MEMORY) {
        *refused_slot(verifier, source, whole) =
            (struct refused){whole, source->number, generation, period, result};
    }
    if (is_failure(result)) {
        jwt_failures_add(verifier->failures, &request->client, n_computed, request->now_us);
    } else if (is_miss(result)) {
        jwt_keys_miss(source->keys);
    }
    return result;
}

uint64_t jwt_verifier_n_signatures(const struct jwt_verifier *verifier)
{
    return verifier->n_signatures;
}

enum jwt_result jwt_verifier_check(struct jwt_verifier *verifier, const struct jwt_source *source,
                                   struct span token, const struct jwt_request *request,
                                   struct arena *arena, const struct jwt_claims **claims)
{
    *claims = NULL;
    if (token.len == 0 || token.len > JWT_TOKEN_BYTES_MAX) {
        return token.len == 0 ? JWT_MALFORMED : JWT_TOO_LONG;
    }
    const uint64_t hash = hash_token(verifier, token);
    const struct entry *entry = find(verifier, source, token, hash, request->wall_us);
    if (entry != NULL) {
        *claims = &entry->claims;
        return JWT_VALID;
    }
    return verify(verifier, source, token, request, arena, claims);
}
