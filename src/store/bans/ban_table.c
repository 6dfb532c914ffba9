#include "store/bans/ban_table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"

enum { TAGGED_BYTES = NAME_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX };

/* An end shares its value with one bit, the kind. */
static const uint64_t ENDS_US_MAX = UINT64_MAX >> 1;

_Static_assert((BAN_REFUSES | BAN_EXEMPTS) <= 1, "a kind is one bit");

/* The byte after the name of the limit, which contains neither. */
enum { BY_IDENTITY = '\0', BY_HASH = '\1', BY_PREFIX = '\2' };

static struct hash128 tag_of(const struct hash_key *key, struct span limit, char by,
                             struct span whom)
{
    char buffer[TAGGED_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, limit);
    text_add_char(&text, by);
    text_add(&text, whom);
    struct hash128 tag = hash_table(key, text_span(&text));
    tag.low |= 1; /* zero marks a line that is not used */
    return tag;
}

static const struct span CLIENT = {"{client.ip:", 11};

bool ban_table_read_client(struct span identity, struct address_prefix *prefix)
{
    if (!span_starts_with(identity, CLIENT) || identity.data[identity.len - 1] != '}') {
        return false;
    }
    const size_t start = span_find(identity, '=') + 1;
    return start < identity.len &&
           address_prefix_parse(span_of(identity.data + start, identity.len - start - 1), prefix);
}

bool ban_table_read_prefix(struct span identity, struct address_prefix *prefix)
{
    return ban_table_read_client(identity, prefix) &&
           prefix->bits < (prefix->base.family == ADDRESS_IPV4 ? 32 : 128);
}

void ban_table_write_prefix(const struct address_prefix *prefix, struct text *identity)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text written = text_of(buffer, sizeof(buffer));
    address_write(&prefix->base, &written);
    text_add_char(&written, '/');
    text_add_u64(&written, prefix->bits);
    text_add(identity, CLIENT);
    text_add_u64(identity, written.len);
    text_add_char(identity, '=');
    text_add(identity, text_span(&written));
    text_add_char(identity, '}');
}

_Static_assert(sizeof(struct address_prefix) == 2 + sizeof((struct address){0}.bytes),
               "a prefix has no padding");

static struct hash128 tag_of_prefix(const struct hash_key *key, struct span limit,
                                    const struct address_prefix *prefix)
{
    return tag_of(key, limit, BY_PREFIX, span_of((const char *)prefix, sizeof(*prefix)));
}

struct hash128 ban_table_tag(const struct hash_key *key, const struct ban *ban)
{
    struct address_prefix prefix;
    if (ban_table_read_prefix(ban->identity, &prefix)) {
        return tag_of_prefix(key, ban->limit, &prefix);
    }
    if (ban->identity.len > 0) {
        return tag_of(key, ban->limit, BY_IDENTITY, ban->identity);
    }
    return tag_of(key, ban->limit, BY_HASH, span_of((const char *)ban->hash, sizeof(ban->hash)));
}

/* The number of lines for @n bans and a quarter more, with a third of the lines still empty. */
static size_t lines_for(size_t n)
{
    size_t n_lines = 4;
    while (n_lines / 3 * 2 < n + n / 4 + 1) {
        n_lines *= 2;
    }
    return n_lines;
}

struct ban_table *ban_table_new(const struct hash_key *key, size_t n)
{
    const size_t n_lines = lines_for(n);
    struct ban_table *table = calloc(1, sizeof(*table) + n_lines * sizeof(table->lines[0]));
    if (table != NULL) {
        table->key = *key;
        table->n_lines = n_lines;
    }
    return table;
}

bool ban_table_has_room(const struct ban_table *table)
{
    return table->n_used < table->n_lines / 3 * 2;
}

bool ban_table_is_sparse(const struct ban_table *table, size_t n)
{
    return table->n_lines > 8 * lines_for(n);
}

static uint64_t value_with(const struct ban *ban, uint64_t ends_us)
{
    return (ends_us < ENDS_US_MAX ? ends_us : ENDS_US_MAX) << 1 | ban->kind;
}

static void note_end(struct ban_table *table, uint64_t ends_us)
{
    if (ends_us > atomic_load_explicit(&table->last_ends_us, memory_order_relaxed)) {
        atomic_store_explicit(&table->last_ends_us, ends_us, memory_order_relaxed);
    }
}

static void note_prefix(struct ban_table *table, const struct ban *ban)
{
    struct address_prefix prefix;
    if (ban_table_read_prefix(ban->identity, &prefix)) {
        atomic_uint_fast64_t *lengths = table->lengths[prefix.base.family == ADDRESS_IPV6];
        atomic_fetch_or_explicit(&lengths[prefix.bits / 64], UINT64_C(1) << prefix.bits % 64,
                                 memory_order_relaxed);
        atomic_store_explicit(&table->has_prefixes, true, memory_order_relaxed);
    }
}

size_t ban_table_add(struct ban_table *table, const struct ban *ban, struct hash128 tag,
                     uint64_t ends_us)
{
    assert(ban_table_has_room(table));

    size_t at = tag.high & (table->n_lines - 1);
    while (atomic_load_explicit(&table->lines[at].tag_low, memory_order_relaxed) != 0) {
        at = (at + 1) & (table->n_lines - 1);
    }
    struct ban_line *line = &table->lines[at];
    note_end(table, ends_us);
    note_prefix(table, ban);
    table->n_used++;
    atomic_fetch_add_explicit(&table->n_by_hash, ban->identity.len == 0, memory_order_relaxed);
    atomic_store_explicit(&line->value, value_with(ban, ends_us), memory_order_relaxed);
    atomic_store_explicit(&line->tag_high, tag.high, memory_order_relaxed);
    atomic_store_explicit(&line->tag_low, tag.low, memory_order_release);
    return at;
}

void ban_table_change(struct ban_table *table, size_t line, const struct ban *ban, uint64_t ends_us)
{
    note_end(table, ends_us);
    atomic_store_explicit(&table->lines[line].value, value_with(ban, ends_us),
                          memory_order_release);
}

void ban_table_lift(struct ban_table *table, size_t line)
{
    atomic_store_explicit(&table->lines[line].value, 0, memory_order_relaxed);
}

/* The value of the first line of @tag that is in force at @now_us; 0: there is none. */
static uint64_t value_of(const struct ban_table *table, struct hash128 tag, uint64_t now_us)
{
    for (size_t at = tag.high & (table->n_lines - 1);; at = (at + 1) & (table->n_lines - 1)) {
        const struct ban_line *line = &table->lines[at];
        const uint64_t low = atomic_load_explicit(&line->tag_low, memory_order_acquire);
        if (low == 0) {
            return 0;
        }
        if (low == tag.low &&
            atomic_load_explicit(&line->tag_high, memory_order_relaxed) == tag.high) {
            const uint64_t value = atomic_load_explicit(&line->value, memory_order_acquire);
            if (now_us < value >> 1) {
                return value;
            }
        }
    }
}

static uint64_t value_by_hash(const struct ban_table *table, struct span limit,
                              struct span identity, struct span secret, uint64_t now_us)
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    hash_identity(secret, identity, hash);
    const struct span whom = span_of((const char *)hash, sizeof(hash));
    return value_of(table, tag_of(&table->key, limit, BY_HASH, whom), now_us);
}

/* The value of the longest prefix that covers @identity. */
static uint64_t value_by_prefix(const struct ban_table *table, struct span limit,
                                struct span identity, uint64_t now_us)
{
    struct address_prefix prefix;
    uint64_t value = 0;
    if (!ban_table_read_client(identity, &prefix)) {
        return 0;
    }
    const atomic_uint_fast64_t *lengths = table->lengths[prefix.base.family == ADDRESS_IPV6];
    while (value == 0 && prefix.bits > 0) {
        prefix.bits--;
        const uint64_t known =
            atomic_load_explicit(&lengths[prefix.bits / 64], memory_order_relaxed);
        if ((known >> prefix.bits % 64 & 1) != 0) {
            prefix.base = address_mask(prefix.base, prefix.bits);
            value = value_of(table, tag_of_prefix(&table->key, limit, &prefix), now_us);
        }
    }
    return value;
}

bool ban_table_find(const struct ban_table *table, struct span limit, struct span identity,
                    struct span secret, uint64_t now_us, enum ban_kind *kind, uint64_t *left_us)
{
    if (now_us >= atomic_load_explicit(&table->last_ends_us, memory_order_relaxed)) {
        return false;
    }
    uint64_t value = value_of(table, tag_of(&table->key, limit, BY_IDENTITY, identity), now_us);
    if (value == 0 && atomic_load_explicit(&table->n_by_hash, memory_order_relaxed) > 0) {
        value = value_by_hash(table, limit, identity, secret, now_us);
    }
    if (value == 0 && atomic_load_explicit(&table->has_prefixes, memory_order_relaxed)) {
        value = value_by_prefix(table, limit, identity, now_us);
    }
    if (value == 0) {
        return false;
    }
    *kind = (enum ban_kind)(value & 1);
    *left_us = (value >> 1) - now_us;
    return true;
}
