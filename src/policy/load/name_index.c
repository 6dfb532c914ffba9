#include "policy/load/name_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

static int compare_names(struct span a, struct span b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len > 0 ? memcmp(a.data, b.data, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_entries(const void *a, const void *b)
{
    const struct name_entry *x = a;
    const struct name_entry *y = b;
    const int order = compare_names(x->name, y->name);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int compare_to_entry(const void *name, const void *entry)
{
    return compare_names(*(const struct span *)name, ((const struct name_entry *)entry)->name);
}

enum status name_index_init(struct name_index *index, struct arena *arena, size_t n_entries_max)
{
    *index = (struct name_index){
        .entries = arena_calloc(arena, n_entries_max + 1, sizeof(struct name_entry)),
        .n_entries_max = n_entries_max,
    };
    return index->entries != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void name_index_add(struct name_index *index, struct span name, uint32_t number)
{
    assert(index->n_entries < index->n_entries_max);

    index->entries[index->n_entries++] = (struct name_entry){.name = name, .number = number};
}

void name_index_build(struct name_index *index)
{
    qsort(index->entries, index->n_entries, sizeof(*index->entries), compare_entries);
}

const struct name_entry *name_index_find(const struct name_index *index, struct span name)
{
    return bsearch(&name, index->entries, index->n_entries, sizeof(*index->entries),
                   compare_to_entry);
}

const struct name_entry *name_index_next_duplicate(const struct name_index *index,
                                                   const struct name_entry *after)
{
    for (size_t i = after != NULL ? (size_t)(after - index->entries) + 1 : 1; i < index->n_entries;
         i++) {
        if (span_equals(index->entries[i].name, index->entries[i - 1].name)) {
            return &index->entries[i];
        }
    }
    return NULL;
}

void name_index_suggest(const struct name_index *index, struct span wanted, struct text *text)
{
    struct suggest suggest;
    suggest_init(&suggest, wanted);
    for (size_t i = 0; i < index->n_entries; i++) {
        suggest_offer(&suggest, index->entries[i].name);
    }
    suggest_write(&suggest, text);
}
