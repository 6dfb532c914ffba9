/* Bans in a replica. An entry whose identity is known is found by a tag of the limit and the
 * identity, so by one fast hash. If there are entries that are known only by the hash of their
 * identity, a lookup computes that, too. If there are entries of prefixes of client addresses, a
 * lookup computes one tag for each length of those, the longest first. */

#include "store/bans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/text.h"
#include "store/bans/ban_record.h"
#include "store/replica_sync.h"

enum { TAGGED_BYTES = NAME_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX };

/* The byte after the name of the limit, which contains neither. */
enum { BY_IDENTITY = '\0', BY_PREFIX = '\2' };

/* Which lookups may find something. A hint is set before an entry is put, and cleared when all
 * entries are looked at. */
struct hints {
    atomic_bool has_hashes;             /* some entries have no known identity */
    atomic_bool has_prefixes;           /* some entries are of prefixes of addresses */
    atomic_uint_fast64_t lengths[2][2]; /* of IPv4, and of IPv6: bit N, an entry is of a /N */
};

struct bans {
    struct replica *replica;
    struct offences *offences;
    struct hints hints;
    pthread_mutex_t lock; /* no hint is cleared between it is set and its entry is put */
};

enum status bans_new(size_t n_max, struct bans **bans)
{
    struct bans *made = calloc(1, sizeof(*made));
    if (made == NULL || offences_new(&made->offences) != STATUS_OK ||
        replica_new("store.bans", "bans and exemptions", n_max, &made->replica) != STATUS_OK) {
        if (made != NULL) {
            offences_free(made->offences);
        }
        free(made);
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    *bans = made;
    return STATUS_OK;
}

void bans_free(struct bans *bans)
{
    if (bans != NULL) {
        replica_free(bans->replica);
        offences_free(bans->offences);
        pthread_mutex_destroy(&bans->lock);
        free(bans);
    }
}

struct replica *bans_replica(struct bans *bans)
{
    return bans->replica;
}

struct offences *bans_offences(struct bans *bans)
{
    return bans->offences;
}

void bans_set_max(struct bans *bans, size_t n_max)
{
    replica_set_max(bans->replica, n_max);
}

/* --- tags --- */

static struct hash128 tag_of(const struct bans *bans, struct span limit, char by, struct span whom)
{
    char buffer[TAGGED_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, limit);
    text_add_char(&text, by);
    text_add(&text, whom);
    return replica_tag(bans->replica, text_span(&text));
}

_Static_assert(sizeof(struct address_prefix) == 2 + sizeof((struct address){0}.bytes),
               "a prefix has no padding");

static struct hash128 tag_of_prefix(const struct bans *bans, struct span limit,
                                    const struct address_prefix *prefix)
{
    return tag_of(bans, limit, BY_PREFIX, span_of((const char *)prefix, sizeof(*prefix)));
}

/* The tag of @ban's entry; all zero: that of its field, which has the hash. */
static struct hash128 tag_of_ban(const struct bans *bans, const struct ban *ban)
{
    struct address_prefix prefix;
    if (ban->identity.len == 0) {
        return (struct hash128){0};
    }
    if (ban_prefix_read(ban->identity, &prefix)) {
        return tag_of_prefix(bans, ban->limit, &prefix);
    }
    return tag_of(bans, ban->limit, BY_IDENTITY, ban->identity);
}

static atomic_uint_fast64_t *lengths_of(struct hints *hints, const struct address_prefix *prefix)
{
    return hints->lengths[prefix->base.family == ADDRESS_IPV6];
}

static void add_hints(struct hints *hints, const struct ban *ban)
{
    struct address_prefix prefix;
    if (ban->identity.len == 0) {
        atomic_store(&hints->has_hashes, true);
    } else if (ban_prefix_read(ban->identity, &prefix)) {
        atomic_fetch_or(&lengths_of(hints, &prefix)[prefix.bits / 64], UINT64_C(1)
                                                                           << prefix.bits % 64);
        atomic_store(&hints->has_prefixes, true);
    }
}

/* --- changes --- */

static void make_row(struct bans *bans, const struct ban *ban, struct replica_row *row)
{
    row->tag = tag_of_ban(bans, ban);
    row->number = ban->kind;
    add_hints(&bans->hints, ban);
}

enum status bans_put(struct bans *bans, const struct ban *ban, uint64_t ends_us, uint64_t now_us)
{
    char bytes[BAN_FIELD_BYTES_MAX + BAN_VALUE_BYTES_MAX];
    struct text field = text_of(bytes, BAN_FIELD_BYTES_MAX);
    struct text value = text_of(bytes + BAN_FIELD_BYTES_MAX, BAN_VALUE_BYTES_MAX);
    ban_record_write_field(ban->limit, ban->hash, &field);
    ban_record_write(ban, &value);
    struct replica_row row = {
        .field = text_span(&field),
        .value = text_span(&value),
        .ends_us = ends_us,
    };
    pthread_mutex_lock(&bans->lock);
    make_row(bans, ban, &row);
    const enum status status = replica_put(bans->replica, &row, now_us);
    pthread_mutex_unlock(&bans->lock);
    return status;
}

bool bans_remove(struct bans *bans, const struct ban *ban)
{
    char bytes[BAN_FIELD_BYTES_MAX];
    struct text field = text_of(bytes, sizeof(bytes));
    const uint64_t kind = ban->kind;
    ban_record_write_field(ban->limit, ban->hash, &field);
    if (ban->kind == BAN_REFUSES) {
        offences_forget(bans->offences, ban->limit, ban->hash);
    }
    return replica_remove(bans->replica, text_span(&field), &kind);
}

static void find_hints(void *context, const struct replica_entry *entry)
{
    struct ban ban;
    if (ban_record_read(replica_entry_field(entry), replica_entry_value(entry), &ban)) {
        add_hints(context, &ban);
    }
}

/* Clears the hints that no entry needs. The caller is the thread that reads rows, if there is one.
 */
static void clear_hints(void *context)
{
    struct bans *bans = context;
    struct hints found = {false};
    if (!atomic_load(&bans->hints.has_hashes) && !atomic_load(&bans->hints.has_prefixes)) {
        return; /* to look at all entries takes long */
    }
    pthread_mutex_lock(&bans->lock);
    replica_list(bans->replica, 0, find_hints, &found);
    atomic_store(&bans->hints.has_hashes, found.has_hashes);
    for (size_t i = 0; i < 4; i++) {
        atomic_store(&bans->hints.lengths[i / 2][i % 2], found.lengths[i / 2][i % 2]);
    }
    atomic_store(&bans->hints.has_prefixes, found.has_prefixes);
    pthread_mutex_unlock(&bans->lock);
}

void bans_expire(struct bans *bans, uint64_t now_us)
{
    replica_expire(bans->replica, now_us);
    if (replica_is_empty(bans->replica)) {
        clear_hints(bans);
    }
}

/* The remaining time of @ban, at most its whole duration, even if the clock was set back. */
static uint64_t left_ms(const struct ban *ban, uint64_t now_ms)
{
    const uint64_t left = ban->until_ms > now_ms ? ban->until_ms - now_ms : 0;
    const uint64_t whole = ban->until_ms > ban->set_ms ? ban->until_ms - ban->set_ms : 0;
    return left < whole ? left : whole;
}

static bool read_row(void *context, struct span field, struct span value, uint64_t now_ms,
                     struct replica_row *row, uint64_t *left_us, uint64_t *until_ms)
{
    struct ban ban;
    if (!ban_record_read(field, value, &ban) || left_ms(&ban, now_ms) == 0) {
        return false;
    }
    make_row(context, &ban, row);
    *left_us = left_ms(&ban, now_ms) * 1000;
    *until_ms = ban.until_ms;
    return true;
}

const struct replica_table BANS_TABLE = {
    .module = "store.bans",
    .name = "bans",
    .suffix = {BANS_KEY_SUFFIX, sizeof(BANS_KEY_SUFFIX) - 1},
    .word = {"ban ", 4},
    .is_restored = true,
    .read = read_row,
    .on_read_all = clear_hints,
};

/* --- what there is --- */

struct replica_counters bans_count(struct bans *bans)
{
    return replica_count(bans->replica);
}

static void count_one(void *context, const struct replica_entry *entry)
{
    (void)entry;
    (*(size_t *)context)++;
}

size_t bans_count_holding(struct bans *bans, uint64_t now_us)
{
    size_t n = 0;
    replica_list(bans->replica, now_us, count_one, &n);
    return n;
}

struct listing {
    void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us);
    void *context;
    uint64_t now_us;
};

static void list_one(void *context, const struct replica_entry *entry)
{
    const struct listing *listing = context;
    struct ban ban;
    if (ban_record_read(replica_entry_field(entry), replica_entry_value(entry), &ban)) {
        listing->on_ban(listing->context, &ban,
                        atomic_load_explicit(&entry->ends_us, memory_order_relaxed) -
                            listing->now_us);
    }
}

void bans_list(struct bans *bans, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context)
{
    struct listing listing = {.on_ban = on_ban, .context = context, .now_us = now_us};
    replica_list(bans->replica, now_us, list_one, &listing);
}

/* --- lookup --- */

/* The entry of the longest prefix that covers @identity; NULL: none. */
static const struct replica_entry *find_cover(struct bans *bans, struct replica_reader *reader,
                                              struct span limit, struct span identity,
                                              uint64_t now_us)
{
    struct address_prefix prefix;
    const struct replica_entry *entry = NULL;
    if (!atomic_load_explicit(&bans->hints.has_prefixes, memory_order_relaxed) ||
        !ban_prefix_read_client(identity, &prefix)) {
        return NULL;
    }
    if (ban_prefix_read(identity, &prefix)) {
        prefix.bits++; /* the identity of a key by prefixes, as client.ip/48: it covers itself */
    }
    const atomic_uint_fast64_t *lengths = lengths_of(&bans->hints, &prefix);
    while (entry == NULL && prefix.bits > 0) {
        prefix.bits--;
        const uint64_t known =
            atomic_load_explicit(&lengths[prefix.bits / 64], memory_order_relaxed);
        if ((known >> prefix.bits % 64 & 1) != 0) {
            prefix.base = address_mask(prefix.base, prefix.bits);
            entry = replica_find(reader, tag_of_prefix(bans, limit, &prefix), now_us);
        }
    }
    return entry;
}

static const struct replica_entry *find_hash(struct replica_reader *reader, struct span limit,
                                             const uint8_t hash[HASH_IDENTITY_BYTES],
                                             uint64_t now_us)
{
    char bytes[BAN_FIELD_BYTES_MAX];
    struct text field = text_of(bytes, sizeof(bytes));
    ban_record_write_field(limit, hash, &field);
    return replica_find_field(reader, text_span(&field), now_us);
}

bool bans_find(struct bans *bans, struct span limit, const uint8_t hash[HASH_IDENTITY_BYTES],
               struct span identity, uint64_t now_us,
               void (*on_ban)(void *context, const struct ban *ban, uint64_t left_us),
               void *context)
{
    struct listing listing = {.on_ban = on_ban, .context = context, .now_us = now_us};
    struct replica_reader reader;
    replica_reader_init(&reader, bans->replica);
    const struct replica_entry *entry = find_hash(&reader, limit, hash, now_us);
    if (entry == NULL) {
        entry = find_cover(bans, &reader, limit, identity, now_us);
    }
    if (entry != NULL) {
        list_one(&listing, entry);
    }
    replica_reader_close(&reader);
    return entry != NULL;
}

void bans_view_init(struct bans_view *view, struct bans *bans)
{
    *view = (struct bans_view){.bans = bans};
    if (bans != NULL) {
        view->replica = bans->replica;
        replica_reader_init(&view->reader, bans->replica);
    }
}

void bans_view_close(struct bans_view *view)
{
    if (view->bans != NULL) {
        replica_reader_close(&view->reader);
        view->bans = NULL;
    }
}

static bool is_by_policy(const struct replica_entry *entry)
{
    struct ban ban;
    return ban_record_read(replica_entry_field(entry), replica_entry_value(entry), &ban) &&
           span_equals(ban.by, SPAN(BAN_BY_POLICY));
}

bool bans_view_find(struct bans_view *view, struct span limit, struct span identity,
                    struct span secret, uint64_t now_us, struct ban_found *found)
{
    struct bans *bans = view->bans;
    const struct replica_entry *entry =
        replica_find(&view->reader, tag_of(bans, limit, BY_IDENTITY, identity), now_us);
    if (entry == NULL && atomic_load_explicit(&bans->hints.has_hashes, memory_order_relaxed)) {
        uint8_t hash[HASH_IDENTITY_BYTES];
        hash_identity(secret, identity, hash);
        entry = find_hash(&view->reader, limit, hash, now_us);
    }
    if (entry == NULL) {
        entry = find_cover(bans, &view->reader, limit, identity, now_us);
    }
    if (entry != NULL) {
        found->kind = (enum ban_kind)entry->number;
        found->is_by_policy = found->kind == BAN_REFUSES && is_by_policy(entry);
        found->left_us = atomic_load_explicit(&entry->ends_us, memory_order_relaxed) - now_us;
    }
    replica_release(&view->reader);
    return entry != NULL;
}
