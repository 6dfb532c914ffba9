#include "store/offences.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

enum {
    WAYS = 8, /* keys of a set */
    SETS = OFFENCE_KEYS / WAYS,
    NETWORKS = 1 << 16, /* that are told apart; others count as one of them */
    IPV4_NETWORK_BITS = 24,
    IPV6_NETWORK_BITS = 48,
    TAGGED_BYTES = NAME_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX,
};

/* Times are monotonic, plus one: 0 is never. */
struct offender {
    struct hash128 tag; /* of the limit and the identity; all zero: free */
    uint64_t limit;     /* a hash of its name */
    uint64_t seen;
    uint64_t begun;     /* of the period that is counted, */
    uint64_t ends;      /* and when it ends */
    uint64_t served;    /* its latest good answer */
    uint64_t suspected; /* when it last had half of the offences that ban it */
    uint64_t forgotten; /* when its strikes are forgotten */
    uint32_t n;         /* offences in the period */
    uint32_t n_strikes;
    uint16_t network;                  /* of its latest client */
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity; set only with n_strikes */
};

/* A limit that was to ban a key within the last minute. */
struct banning_limit {
    uint64_t limit;       /* a hash of its name */
    uint64_t minute;      /* when the minute of n_bans began */
    uint64_t wrong_until; /* until then it is taken for one that bans those it serves */
    uint32_t n_bans;
};

/* Networks, each a bit: how many are in it is told without a list. */
struct network_set {
    uint64_t words[NETWORKS / 64];
};

struct offences {
    pthread_mutex_t lock;
    struct hash_key key;
    struct banning_limit *limits; /* owned; of at most as many as there are in a policy */
    size_t n_limits;
    struct network_set served; /* scratch of is_wrong() */
    struct network_set suspected;
    struct offender offenders[OFFENCE_KEYS];
};

enum status offences_new(struct offences **offences)
{
    struct offences *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    made->key = hash_key_new();
    *offences = made;
    return STATUS_OK;
}

void offences_free(struct offences *offences)
{
    if (offences != NULL) {
        pthread_mutex_destroy(&offences->lock);
        free(offences->limits);
        free(offences);
    }
}

void offences_make_repeatable(struct offences *offences)
{
    offences->key = (struct hash_key){{0}};
}

static uint64_t time_of(uint64_t now_us)
{
    return now_us < UINT64_MAX ? now_us + 1 : now_us;
}

/* Whether @time lies at most @us before @now. One that lies after it, since another thread has read
 * its clock later, does; never does not. */
static bool is_within(uint64_t time, uint64_t us, uint64_t now)
{
    return time != 0 && (time >= now || now - time < us);
}

static uint64_t limit_of(const struct offences *offences, struct span limit)
{
    return hash_table(&offences->key, limit).low;
}

static struct hash128 tag_of(const struct offences *offences, struct span limit, struct span key)
{
    char buffer[TAGGED_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, limit);
    text_add_char(&text, '\0');
    text_add(&text, key);
    return hash_table(&offences->key, text_span(&text));
}

/* A key without an address counts as a network of its own. */
static uint16_t network_of(const struct offences *offences, const struct offender *offender,
                           const struct address *client)
{
    if (client == NULL) {
        return (uint16_t)offender->tag.low;
    }
    const uint8_t bits = client->family == ADDRESS_IPV4 ? IPV4_NETWORK_BITS : IPV6_NETWORK_BITS;
    const struct address network = address_mask(*client, bits);
    return (uint16_t)hash_table(&offences->key, span_of((const char *)&network, sizeof(network)))
        .low;
}

static bool gives_way(const struct offender *a, const struct offender *b, uint64_t now)
{
    const bool a_has_strikes = a->n_strikes > 0 && a->forgotten > now;
    const bool b_has_strikes = b->n_strikes > 0 && b->forgotten > now;
    const uint32_t a_n = a->ends > now ? a->n : 0;
    const uint32_t b_n = b->ends > now ? b->n : 0;
    return a_has_strikes != b_has_strikes ? b_has_strikes
           : a_n != b_n                   ? a_n < b_n
                                          : a->seen < b->seen;
}

/* The place of @key, which is made if it is not there. The caller holds the lock. */
static struct offender *find(struct offences *offences, struct span limit, struct span key,
                             uint64_t now)
{
    const struct hash128 tag = tag_of(offences, limit, key);
    struct offender *set = &offences->offenders[tag.high % SETS * WAYS];
    struct offender *oldest = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].tag.low == tag.low && set[i].tag.high == tag.high) {
            set[i].seen = now;
            return &set[i];
        }
        if (gives_way(&set[i], oldest, now)) {
            oldest = &set[i];
        }
    }
    *oldest = (struct offender){.tag = tag, .limit = limit_of(offences, limit), .seen = now};
    return oldest;
}

/* --- the guards --- */

static void add_network(struct network_set *set, uint16_t network)
{
    set->words[network / 64] |= UINT64_C(1) << network % 64;
}

static size_t count_networks(const struct network_set *set)
{
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(set->words); i++) {
        n += (size_t)__builtin_popcountll(set->words[i]);
    }
    return n;
}

static bool exceeds_share(size_t n_suspected, size_t n_served)
{
    return n_suspected * OFFENCE_SHARE > n_served;
}

/* Whether @limit would ban too many of those it serves. */
static bool is_wrong(struct offences *offences, uint64_t limit, uint64_t now)
{
    size_t n_served = 0;
    size_t n_suspected = 0;
    memset(&offences->served, 0, sizeof(offences->served));
    memset(&offences->suspected, 0, sizeof(offences->suspected));
    for (size_t i = 0; i < OFFENCE_KEYS; i++) {
        const struct offender *offender = &offences->offenders[i];
        if (offender->limit == limit && is_within(offender->served, OFFENCE_MEMORY_US, now)) {
            n_served++;
            add_network(&offences->served, offender->network);
            if (is_within(offender->suspected, OFFENCE_MEMORY_US, now)) {
                n_suspected++;
                add_network(&offences->suspected, offender->network);
            }
        }
    }
    return n_served >= OFFENCE_SERVED_MIN && exceeds_share(n_suspected, n_served) &&
           exceeds_share(count_networks(&offences->suspected), count_networks(&offences->served));
}

/* The state of @limit, which is made, in the place of one that is over if there is one. NULL: no
 * memory. */
static struct banning_limit *find_limit(struct offences *offences, uint64_t limit, uint64_t now)
{
    struct banning_limit *free_place = NULL;
    for (size_t i = 0; i < offences->n_limits; i++) {
        struct banning_limit *known = &offences->limits[i];
        if (known->limit == limit) {
            return known;
        }
        if (!is_within(known->minute, OFFENCE_MINUTE_US, now)) {
            free_place = known;
        }
    }
    if (free_place == NULL) {
        const size_t n = offences->n_limits + 1;
        struct banning_limit *grown = reallocarray(offences->limits, n, sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        offences->limits = grown;
        offences->n_limits = n;
        free_place = &grown[n - 1];
    }
    *free_place = (struct banning_limit){.limit = limit, .minute = now};
    return free_place;
}

/* A ban of @limit is due. */
static enum offence_result judge(struct offences *offences, uint64_t limit,
                                 uint32_t bans_per_minute, uint64_t now)
{
    struct banning_limit *state = find_limit(offences, limit, now);
    if (state == NULL) {
        return OFFENCE_TOO_MANY;
    }
    if (!is_within(state->minute, OFFENCE_MINUTE_US, now)) {
        state->minute = now;
        state->n_bans = 0;
    }
    if (state->n_bans >= bans_per_minute) {
        return OFFENCE_TOO_MANY;
    }
    if (state->wrong_until > now) {
        return OFFENCE_LIMIT_IS_WRONG;
    }
    if (is_wrong(offences, limit, now)) {
        state->wrong_until = now + OFFENCE_WRONG_US;
        return OFFENCE_LIMIT_IS_WRONG;
    }
    state->n_bans++;
    return OFFENCE_BANS;
}

/* --- what happens to keys --- */

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

enum offence_result offences_note(struct offences *offences, const struct ban_terms *terms,
                                  const struct offence_key *who, uint32_t bans_per_minute,
                                  uint64_t now_us)
{
    const uint64_t now = time_of(now_us);
    enum offence_result result = OFFENCE_COUNTED;
    pthread_mutex_lock(&offences->lock);
    struct offender *offender = find(offences, who->limit, who->key, now);
    offender->network = network_of(offences, offender, who->client);
    if (!is_within(offender->begun, terms->period_us, now)) {
        offender->begun = now;
        offender->ends = add_saturating(now, terms->period_us);
        offender->n = 0;
    }
    offender->n++;
    if (offender->n >= terms->after - terms->after / 2) {
        offender->suspected = now;
    }
    if (offender->n >= terms->after) {
        offender->n = 0;
        offender->begun = 0;
        result = judge(offences, offender->limit, bans_per_minute, now);
    }
    pthread_mutex_unlock(&offences->lock);
    return result;
}

void offences_note_served(struct offences *offences, const struct offence_key *who, uint64_t now_us)
{
    const uint64_t now = time_of(now_us);
    pthread_mutex_lock(&offences->lock);
    struct offender *offender = find(offences, who->limit, who->key, now);
    offender->served = now;
    offender->network = network_of(offences, offender, who->client);
    pthread_mutex_unlock(&offences->lock);
}

static uint64_t us_of(uint64_t ms)
{
    return ms < UINT64_MAX / 1000 ? ms * 1000 : UINT64_MAX;
}

uint32_t offences_strike(struct offences *offences, const struct ban_terms *terms,
                         struct span limit, struct span key,
                         const uint8_t hash[HASH_IDENTITY_BYTES], uint64_t now_us,
                         uint64_t *length_ms)
{
    const uint64_t now = time_of(now_us);
    pthread_mutex_lock(&offences->lock);
    struct offender *offender = find(offences, limit, key, now);
    if (offender->forgotten <= now) {
        offender->n_strikes = 0;
    }
    offender->n_strikes += offender->n_strikes < UINT32_MAX;
    const uint32_t n_strikes = offender->n_strikes;
    *length_ms = ban_terms_length_ms(terms, n_strikes);
    offender->forgotten =
        add_saturating(add_saturating(now, us_of(*length_ms)), us_of(terms->forget_ms));
    memcpy(offender->hash, hash, sizeof(offender->hash));
    pthread_mutex_unlock(&offences->lock);
    return n_strikes;
}

void offences_forget(struct offences *offences, struct span limit,
                     const uint8_t hash[HASH_IDENTITY_BYTES])
{
    const uint64_t id = limit_of(offences, limit);
    pthread_mutex_lock(&offences->lock);
    for (size_t i = 0; i < OFFENCE_KEYS; i++) {
        struct offender *offender = &offences->offenders[i];
        if (offender->limit == id && offender->n_strikes > 0 &&
            memcmp(offender->hash, hash, sizeof(offender->hash)) == 0) {
            offender->n_strikes = 0;
            offender->forgotten = 0;
        }
    }
    pthread_mutex_unlock(&offences->lock);
}
