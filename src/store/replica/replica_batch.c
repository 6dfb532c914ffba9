#include "store/replica/replica_batch.h"

#include <stdlib.h>
#include <string.h>

static struct replica_added **chain_of(struct replica_chains *chains, struct hash128 tag)
{
    return &chains->of[replica_shard_index(tag)][tag.low % REPLICA_CHAINS];
}

void replica_chains_add(struct replica_chains *chains, struct replica_added *added,
                        const struct replica_row *row, struct hash128 tag, bool is_alias)
{
    struct replica_added **chain = chain_of(chains, tag);
    *added = (struct replica_added){.next = *chain, .row = row, .tag = tag, .is_alias = is_alias};
    *chain = added;
}

struct replica_batched *replica_batch_find(const struct replica_batch *batch, struct hash128 tag,
                                           struct span field)
{
    struct replica_added *added =
        batch->chains != NULL ? replica_added_find(*chain_of(batch->chains, tag), tag, field)
                              : NULL;
    if (added == NULL) {
        return NULL;
    }
    return added->is_alias ? CONTAINER_OF(added, struct replica_batched, alias)
                           : CONTAINER_OF(added, struct replica_batched, record);
}

static bool prepare(struct replica_batch *batch, uint64_t now_us)
{
    if (batch->chains == NULL) {
        batch->chains = calloc(1, sizeof(*batch->chains));
        batch->since_us = now_us;
        arena_init(&batch->arena, NULL, 0);
    }
    return batch->chains != NULL;
}

enum status replica_batch_add(struct replica_batch *batch, const struct replica_row *row,
                              struct hash128 of_field, bool is_new, uint64_t now_us)
{
    const bool has_alias = (row->tag.low | row->tag.high) != 0;
    const size_t n_texts = row->field.len + row->value.len;
    struct replica_batched *batched =
        prepare(batch, now_us) ? arena_alloc(&batch->arena, sizeof(*batched) + n_texts) : NULL;
    if (batched == NULL) {
        return STATUS_NO_MEMORY;
    }
    char *texts = (char *)(batched + 1);
    memcpy(texts, row->field.data, row->field.len);
    if (row->value.len > 0) {
        memcpy(texts + row->field.len, row->value.data, row->value.len);
    }
    batched->row = *row;
    batched->row.field.data = texts;
    batched->row.value.data = texts + row->field.len;
    batched->is_new = is_new;
    replica_chains_add(batch->chains, &batched->record, &batched->row,
                       has_alias ? row->tag : of_field, false);
    if (has_alias) {
        replica_chains_add(batch->chains, &batched->alias, &batched->row, of_field, true);
    }
    batch->bytes += sizeof(*batched) + n_texts;
    batch->n++;
    batch->n_new += is_new;
    return STATUS_OK;
}

/* Takes @added out of its chain, if it is still there. */
static void unlink_added(struct replica_batch *batch, const struct replica_added *added)
{
    struct replica_added **link = chain_of(batch->chains, added->tag);
    while (*link != NULL && *link != added) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = added->next;
    }
}

void replica_batch_remove(struct replica_batch *batch, struct replica_batched *batched)
{
    unlink_added(batch, &batched->record);
    if ((batched->row.tag.low | batched->row.tag.high) != 0) {
        unlink_added(batch, &batched->alias);
    }
    batch->n--;
    batch->n_new -= batched->is_new;
}

bool replica_batch_has(const struct replica_batch *batch, size_t i)
{
    bool has = false;
    for (size_t chain = 0; batch->chains != NULL && chain < REPLICA_CHAINS; chain++) {
        has = has || batch->chains->of[i][chain] != NULL;
    }
    return has;
}

uint64_t replica_batch_end_shard(struct replica_batch *batch, size_t i)
{
    uint64_t soonest_us = UINT64_MAX;
    for (size_t chain = 0; chain < REPLICA_CHAINS; chain++) {
        for (const struct replica_added *added = batch->chains->of[i][chain]; added != NULL;
             added = added->next) {
            soonest_us = added->row->ends_us < soonest_us ? added->row->ends_us : soonest_us;
        }
        batch->chains->of[i][chain] = NULL;
    }
    return soonest_us;
}

void replica_batch_reset(struct replica_batch *batch)
{
    if (batch->chains != NULL) {
        arena_reset(&batch->arena);
        free(batch->chains);
    }
    *batch = (struct replica_batch){.chains = NULL};
}
