#include "store/ban_table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/text.h"

enum { TAGGED_BYTES = NAME_BYTES_MAX + 1 + KEY_TEXT_BYTES_MAX };

/* What stands behind the name of the limit, which may hold neither. */
enum { BY_IDENTITY = '\0', BY_HASH = '\1' };

static struct hash128 tag_of(const struct hash_key *key, struct span limit, char by,
                             struct span whom)
{
    char buffer[TAGGED_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add(&text, limit);
    text_add_char(&text, by);
    text_add(&text, whom);
    struct hash128 tag = hash_table(key, text_span(&text));
    tag.low |= 1; /* all zero is no line */
    return tag;
}

struct hash128 ban_table_tag(const struct hash_key *key, const struct ban *ban)
{
    if (ban->identity.len > 0) {
        return tag_of(key, ban->limit, BY_IDENTITY, ban->identity);
    }
    return tag_of(key, ban->limit, BY_HASH, span_of((const char *)ban->hash, sizeof(ban->hash)));
}

struct ban_table *ban_table_new(const struct hash_key *key, size_t n)
{
    size_t n_lines = 4;
    while (n_lines / 3 * 2 < n) {
        n_lines *= 2;
    }
    struct ban_table *table = calloc(1, sizeof(*table) + n_lines * sizeof(table->lines[0]));
    if (table != NULL) {
        table->key = *key;
        table->n_lines = n_lines;
    }
    return table;
}

void ban_table_add(struct ban_table *table, const struct ban *ban, struct hash128 tag,
                   uint64_t ends_us)
{
    size_t at = tag.high & (table->n_lines - 1);
    while (table->lines[at].tag.low != 0) {
        at = (at + 1) & (table->n_lines - 1);
    }
    table->lines[at] = (struct ban_line){.tag = tag, .ends_us = ends_us, .kind = ban->kind};
    table->n_by_hash += ban->identity.len == 0;
    table->last_ends_us = ends_us > table->last_ends_us ? ends_us : table->last_ends_us;
}

static const struct ban_line *find(const struct ban_table *table, struct hash128 tag)
{
    size_t at = tag.high & (table->n_lines - 1);
    while (table->lines[at].tag.low != 0) {
        const struct ban_line *line = &table->lines[at];
        if (line->tag.low == tag.low && line->tag.high == tag.high) {
            return line;
        }
        at = (at + 1) & (table->n_lines - 1);
    }
    return NULL;
}

static const struct ban_line *find_by_hash(const struct ban_table *table, struct span limit,
                                           struct span identity, struct span secret)
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    hash_identity(secret, identity, hash);
    return find(table,
                tag_of(&table->key, limit, BY_HASH, span_of((const char *)hash, sizeof(hash))));
}

bool ban_table_find(const struct ban_table *table, struct span limit, struct span identity,
                    struct span secret, uint64_t now_us, enum ban_kind *kind, uint64_t *left_us)
{
    if (now_us >= table->last_ends_us) {
        return false;
    }
    const struct ban_line *line = find(table, tag_of(&table->key, limit, BY_IDENTITY, identity));
    if (line == NULL && table->n_by_hash > 0) {
        line = find_by_hash(table, limit, identity, secret);
    }
    if (line == NULL || now_us >= line->ends_us) {
        return false;
    }
    *kind = (enum ban_kind)line->kind;
    *left_us = line->ends_us - now_us;
    return true;
}
