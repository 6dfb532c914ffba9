/* A hash index of the names of cookies or parameters that a policy reads, as query_name_fold()
 * folds them: which of them begin a text is found in one pass over the text's first octets. */

#ifndef SLUICE_POLICY_FOLDED_NAMES_H
#define SLUICE_POLICY_FOLDED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "http/values.h"

static const uint32_t FOLDED_HASH_START = 2166136261;

struct folded_name {
    struct span text; /* borrowed */
    uint32_t hash;    /* of the folded text */
    uint32_t next;    /* in the same bucket, or FOLDED_NONE */
};

static const uint32_t FOLDED_NONE = UINT32_MAX;

struct folded_names {
    struct folded_name *names; /* by number */
    size_t n;
    size_t bytes_max; /* of a name */
    bool has_length[QUERY_NAME_BYTES_MAX + 1];
    bool may_begin[256]; /* by the first octet of a text as written */
    uint32_t *buckets;   /* first name, or FOLDED_NONE */
    uint32_t mask;       /* their number - 1 */
};

/* Build an index of the @n names @texts in @arena: they all differ, and have 1 to
 * QUERY_NAME_BYTES_MAX octets. Their numbers are their indices. STATUS_NO_MEMORY. */
MUST_USE enum status folded_names_build(struct folded_names *names, const struct span *texts,
                                        size_t n, struct arena *arena);

/* The hash of a text with one more octet. */
static inline uint32_t folded_names_hash(uint32_t hash, char octet)
{
    return (hash ^ (unsigned char)query_name_fold(octet)) * 16777619;
}

/* False: @text, as written, begins with none of the names, decoded or behind what servers skip. */
static inline bool folded_names_may_begin(const struct folded_names *names, struct span text)
{
    return text.len > 0 && names->may_begin[(unsigned char)text.data[0]];
}

/* The number of the first name, or the next one after number @at, that is @octets, folded, of which
 * @hash is the hash; FOLDED_NONE: there is none. */
uint32_t folded_names_find(const struct folded_names *names, struct span octets, uint32_t hash);
uint32_t folded_names_find_next(const struct folded_names *names, struct span octets, uint32_t hash,
                                uint32_t at);

#endif /* SLUICE_POLICY_FOLDED_NAMES_H */
