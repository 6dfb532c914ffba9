#include "store/offences.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

enum {
    WAYS = 8, /* keys of a set */
    SETS = OFFENCE_KEYS / WAYS,
    TAGGED_BYTES = NAME_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX,
};

/* Times are monotonic, plus one: 0 is never. */
struct offender {
    struct hash128 tag; /* of the limit and the identity; all zero: free */
    uint64_t limit;     /* a hash of its name */
    uint64_t seen;
    uint64_t begun;     /* of the period that is counted */
    uint64_t served;    /* its latest good answer */
    uint64_t suspected; /* when it last had half of the offences that ban it */
    uint64_t forgotten; /* when its strikes are forgotten */
    uint32_t n;         /* offences in the period */
    uint32_t n_strikes;
    uint8_t hash[HASH_IDENTITY_BYTES]; /* of the identity; set only with n_strikes */
};

struct offences {
    pthread_mutex_t lock;
    struct hash_key key;
    uint64_t minute; /* when the minute of n_bans began */
    uint32_t n_bans;
    uint64_t wrong_limit; /* the latest limit that was found wrong, */
    uint64_t wrong_until; /* and until when it is taken for it */
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

static bool gives_way(const struct offender *a, const struct offender *b, uint64_t now)
{
    const bool a_has_strikes = a->n_strikes > 0 && a->forgotten > now;
    const bool b_has_strikes = b->n_strikes > 0 && b->forgotten > now;
    return a_has_strikes != b_has_strikes ? b_has_strikes : a->seen < b->seen;
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

static bool is_wrong(struct offences *offences, uint64_t limit, uint64_t now)
{
    size_t n_served = 0;
    size_t n_suspected = 0;
    if (offences->wrong_limit == limit && offences->wrong_until > now) {
        return true;
    }
    for (size_t i = 0; i < OFFENCE_KEYS; i++) {
        const struct offender *offender = &offences->offenders[i];
        if (offender->limit == limit && is_within(offender->served, OFFENCE_MEMORY_US, now)) {
            n_served++;
            n_suspected += is_within(offender->suspected, OFFENCE_MEMORY_US, now);
        }
    }
    if (n_served < OFFENCE_SERVED_MIN || n_suspected * OFFENCE_SHARE <= n_served) {
        return false;
    }
    offences->wrong_limit = limit;
    offences->wrong_until = now + OFFENCE_WRONG_US;
    return true;
}

/* A ban of @limit is due. */
static enum offence_result judge(struct offences *offences, uint64_t limit,
                                 uint32_t bans_per_minute, uint64_t now)
{
    if (!is_within(offences->minute, OFFENCE_MINUTE_US, now)) {
        offences->minute = now;
        offences->n_bans = 0;
    }
    if (offences->n_bans >= bans_per_minute) {
        return OFFENCE_TOO_MANY;
    }
    if (is_wrong(offences, limit, now)) {
        return OFFENCE_LIMIT_IS_WRONG;
    }
    offences->n_bans++;
    return OFFENCE_BANS;
}

/* --- what happens to keys --- */

enum offence_result offences_note(struct offences *offences, const struct ban_terms *terms,
                                  struct span limit, struct span key, uint32_t bans_per_minute,
                                  uint64_t now_us)
{
    const uint64_t now = time_of(now_us);
    enum offence_result result = OFFENCE_COUNTED;
    pthread_mutex_lock(&offences->lock);
    struct offender *offender = find(offences, limit, key, now);
    if (!is_within(offender->begun, terms->period_us, now)) {
        offender->begun = now;
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

void offences_note_served(struct offences *offences, struct span limit, struct span key,
                          uint64_t now_us)
{
    const uint64_t now = time_of(now_us);
    pthread_mutex_lock(&offences->lock);
    find(offences, limit, key, now)->served = now;
    pthread_mutex_unlock(&offences->lock);
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
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
