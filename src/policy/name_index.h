/* Names of limits or upstreams, to be found again. */

#ifndef SLUICE_POLICY_NAME_INDEX_H
#define SLUICE_POLICY_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"

struct name_entry {
    struct span name;
    uint32_t number; /* the caller's */
};

struct name_index {
    struct name_entry *entries; /* sorted once built */
    size_t n_entries;
    size_t n_entries_max;
};

/* Room for @n_entries_max in @arena. STATUS_NO_MEMORY. */
MUST_USE enum status name_index_init(struct name_index *index, struct arena *arena,
                                     size_t n_entries_max);

/* @name is borrowed. No more than the index has room for. */
void name_index_add(struct name_index *index, struct span name, uint32_t number);

/* All are added: sort. */
void name_index_build(struct name_index *index);

/* The entry called @name, or NULL; where there are several, one of them. */
const struct name_entry *name_index_find(const struct name_index *index, struct span name);

/* Of two entries with one name the one with the greater number, or NULL if all names differ. @after
 * is the result before, NULL at first. */
const struct name_entry *name_index_next_duplicate(const struct name_index *index,
                                                   const struct name_entry *after);

/* Write `; did you mean "NAME"?` for the name nearest to @wanted, if one is near. */
void name_index_suggest(const struct name_index *index, struct span wanted, struct text *text);

#endif /* SLUICE_POLICY_NAME_INDEX_H */
