#include "policy/folded_names.h"

#include <assert.h>

/* What may precede a name or be a part of it that is decoded. */
static bool may_precede(unsigned char octet)
{
    return octet <= ' ' || octet >= 0x80 || octet == '?' || octet == '%' || octet == '+' ||
           octet == '[' || octet == ']';
}

static void note_starts(struct folded_names *names)
{
    for (unsigned octet = 0; octet < sizeof(names->may_begin); octet++) {
        names->may_begin[octet] = may_precede((unsigned char)octet);
    }
    for (size_t i = 0; i < names->n; i++) {
        const char first = query_name_fold(names->names[i].text.data[0]);
        for (unsigned octet = 0; octet < sizeof(names->may_begin); octet++) {
            names->may_begin[octet] =
                names->may_begin[octet] || query_name_fold((char)octet) == first;
        }
    }
}

static void add(struct folded_names *names, uint32_t number, struct span text)
{
    uint32_t hash = FOLDED_HASH_START;
    assert(text.len > 0 && text.len <= QUERY_NAME_BYTES_MAX);
    for (size_t i = 0; i < text.len; i++) {
        hash = folded_names_hash(hash, text.data[i]);
    }
    uint32_t *bucket = &names->buckets[hash & names->mask];
    names->names[number] = (struct folded_name){.text = text, .hash = hash, .next = *bucket};
    *bucket = number;
    names->has_length[text.len] = true;
    names->bytes_max = text.len > names->bytes_max ? text.len : names->bytes_max;
}

enum status folded_names_build(struct folded_names *names, const struct span *texts, size_t n,
                               struct arena *arena)
{
    uint32_t n_buckets = 8;
    while (n_buckets < 2 * n) {
        n_buckets *= 2;
    }
    *names = (struct folded_names){
        .names = arena_calloc(arena, n + 1, sizeof(*names->names)),
        .n = n,
        .buckets = arena_calloc(arena, n_buckets, sizeof(*names->buckets)),
        .mask = n_buckets - 1,
    };
    if (names->names == NULL || names->buckets == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n_buckets; i++) {
        names->buckets[i] = FOLDED_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        add(names, i, texts[i]);
    }
    note_starts(names);
    return STATUS_OK;
}

static bool folds_to(const struct folded_name *name, struct span octets, uint32_t hash)
{
    if (name->hash != hash || name->text.len != octets.len) {
        return false;
    }
    for (size_t i = 0; i < octets.len; i++) {
        if (query_name_fold(octets.data[i]) != query_name_fold(name->text.data[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t find_from(const struct folded_names *names, struct span octets, uint32_t hash,
                          uint32_t at)
{
    while (at != FOLDED_NONE && !folds_to(&names->names[at], octets, hash)) {
        at = names->names[at].next;
    }
    return at;
}

uint32_t folded_names_find(const struct folded_names *names, struct span octets, uint32_t hash)
{
    return find_from(names, octets, hash, names->buckets[hash & names->mask]);
}

uint32_t folded_names_find_next(const struct folded_names *names, struct span octets, uint32_t hash,
                                uint32_t at)
{
    return find_from(names, octets, hash, names->names[at].next);
}
