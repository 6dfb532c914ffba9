/* Parts are in the order of their slots, which is the same for all proxies: of two requests that
 * compete for the last unit in two slots, one gets both. The limit that shapes comes last, since a
 * departure time that was granted cannot be taken back. */

#include "base/compiler.h"
#include "store/redis/cluster/redis_cluster.h"
#include "store/redis_options.h"

/* The slots of a decision's charges, and the order in which they are asked. */
struct layout {
    uint16_t slots[LIMITS_PER_ROUTE_MAX];
    size_t order[LIMITS_PER_ROUTE_MAX];
    size_t n;
    uint16_t shaping; /* the slot of the limit that shapes; REDIS_SLOTS: none shapes */
    size_t shapes;    /* the index of that limit's charge */
};

static unsigned rank(const struct layout *layout, size_t i)
{
    if (layout->slots[i] != layout->shaping) {
        return layout->slots[i];
    }
    return i == layout->shapes ? REDIS_SLOTS + 1 : REDIS_SLOTS;
}

static void sort(struct layout *layout)
{
    for (size_t i = 0; i < layout->n; i++) {
        size_t at = i;
        while (at > 0 && rank(layout, layout->order[at - 1]) > rank(layout, i)) {
            layout->order[at] = layout->order[at - 1];
            at--;
        }
        layout->order[at] = i;
    }
}

static void lay_out(const struct redis_cluster_ticket *ticket, struct layout *layout)
{
    const struct decision *decision = ticket->decision;
    layout->n = decision->n_charges;
    layout->shaping = REDIS_SLOTS;
    layout->shapes = 0;
    for (size_t i = 0; i < layout->n; i++) {
        const struct charge *charge = &decision->charges[i];
        layout->slots[i] =
            redis_slots_of_charge(ticket->cluster->prefix, charge->limit, charge->key);
        if (charge->limit->params.max_wait > 0 && !charge->limit->shadow) {
            layout->shaping = layout->slots[i];
            layout->shapes = i;
        }
    }
}

static bool is_one_slot(const struct layout *layout)
{
    for (size_t i = 1; i < layout->n; i++) {
        if (layout->slots[i] != layout->slots[0]) {
            return false;
        }
    }
    return true;
}

static void begin_part(struct redis_cluster_part *part, struct redis_cluster_ticket *ticket,
                       uint16_t slot, struct charge *charges, size_t n_charges)
{
    *part = (struct redis_cluster_part){
        .decision = {.charges = charges,
                     .n_charges = n_charges,
                     .client = ticket->decision->client},
        .ticket = ticket,
        .slot = slot,
    };
}

/* Copy the charges into the spread of @ticket: one part for each slot or, when @by_key, for each
 * charge. */
static enum status spread_out(struct redis_cluster_ticket *ticket, struct layout *layout,
                              bool by_key)
{
    if (ticket->spread == NULL) {
        ticket->spread = pool_take(&ticket->cluster->spreads);
    }
    struct redis_cluster_spread *spread = ticket->spread;
    if (spread == NULL) {
        return STATUS_NO_MEMORY;
    }
    sort(layout);
    ticket->parts = spread->parts;
    ticket->n_parts = 0;
    for (size_t i = 0; i < layout->n; i++) {
        const size_t of = layout->order[i];
        struct charge *charge = &spread->charges[i];
        *charge = ticket->decision->charges[of];
        spread->of[i] = of;
        if (by_key || i == 0 || layout->slots[of] != spread->parts[ticket->n_parts - 1].slot) {
            begin_part(&spread->parts[ticket->n_parts++], ticket, layout->slots[of], charge, 1);
        } else {
            spread->parts[ticket->n_parts - 1].decision.n_charges++;
        }
    }
    return STATUS_OK;
}

/* on_each of the single part: pass the answer on to the decision. */
static void on_each(struct decision *decision, size_t i)
{
    const struct redis_cluster_part *part = decision->context;
    struct decision *caller = part->ticket->decision;
    caller->allowed = decision->allowed;
    caller->on_each(caller, i);
}

bool redis_cluster_is_one_slot(struct span prefix, const struct decision *decision)
{
    const struct charge *charges = decision->charges;
    for (size_t i = 1; i < decision->n_charges; i++) {
        if (redis_slots_of_charge(prefix, charges[i].limit, charges[i].key) !=
            redis_slots_of_charge(prefix, charges[0].limit, charges[0].key)) {
            return false;
        }
    }
    return true;
}

enum status redis_cluster_split(struct redis_cluster_ticket *ticket)
{
    struct layout layout;
    lay_out(ticket, &layout);
    if (!is_one_slot(&layout)) {
        return spread_out(ticket, &layout, false);
    }
    ticket->parts = &ticket->alone;
    ticket->n_parts = 1;
    begin_part(&ticket->alone, ticket, layout.slots[0], ticket->decision->charges, layout.n);
    if (ticket->decision->on_each != NULL) {
        ticket->alone.decision.batch_size = ticket->decision->batch_size;
        ticket->alone.decision.on_each = on_each;
    }
    return STATUS_OK;
}

enum status redis_cluster_split_by_key(struct redis_cluster_ticket *ticket)
{
    struct layout layout;
    lay_out(ticket, &layout);
    return spread_out(ticket, &layout, true);
}
