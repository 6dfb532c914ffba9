/* Index of the names of limits or upstreams. */

#ifndef SLUICE_POLICY_LOAD_NAME_INDEX_H
#define SLUICE_POLICY_LOAD_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"

struct name_entry {
    struct span name;
    uint32_t number; /* defined by the caller */
};

struct name_index {
    struct name_entry *entries; /* sorted once built */
    size_t n_entries;
    size_t n_entries_max;
};

/* Room for @n_entries_max in @arena. STATUS_NO_MEMORY. */
MUST_USE enum status name_index_init(struct name_index *index, struct arena *arena,
                                     size_t n_entries_max);

/* @name is borrowed. At most n_entries_max names may be added. */
void name_index_add(struct name_index *index, struct span name, uint32_t number);

/* Sort the entries; call after all names are added. */
void name_index_build(struct name_index *index);

/* The entry named @name, or one of several, or NULL. */
const struct name_entry *name_index_find(const struct name_index *index, struct span name);

/* The next entry that has the same name as an entry with a smaller number, or NULL. @after is the
 * previous result, NULL at first. */
const struct name_entry *name_index_next_duplicate(const struct name_index *index,
                                                   const struct name_entry *after);

/* Write `; did you mean "NAME"?` for the name most similar to @wanted, if one is similar enough. */
void name_index_suggest(const struct name_index *index, struct span wanted, struct text *text);

#endif /* SLUICE_POLICY_LOAD_NAME_INDEX_H */
