/* Happy path: of the servers that have an address and were not asked yet, the one that the balance
 * names.
 *
 * Failures: a request that lacks the key of its hash takes the next turn. */

#include "proxy/upstream_choice.h"

#include "proxy/balance.h"
#include "proxy/upstream_group.h"
#include "proxy/upstream_process.h"

static uint64_t bit_of(size_t index)
{
    return UINT64_C(1) << (index % 64);
}

static bool is_tried(const struct upstream_choice *choice, size_t index)
{
    return (choice->tried[index / 64] & bit_of(index)) != 0;
}

static size_t index_of(const struct upstream_group *group, const struct upstream_server *server)
{
    return (size_t)(server - group->servers);
}

/* The servers that may be asked, into @candidates; how many. */
static size_t list_candidates(struct upstream_group *group, const struct upstream_choice *choice,
                              struct balance_candidate *candidates)
{
    size_t n = 0;
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        struct upstream_server *server = &group->servers[i];
        if (server->n_addresses > 0 && !is_tried(choice, i)) {
            candidates[n++] = (struct balance_candidate){
                .index = (uint32_t)i,
                .weight = server->spec->weight * BALANCE_WEIGHT_UNIT,
                .n_requests =
                    atomic_load_explicit(&server->process->n_requests, memory_order_relaxed),
                .seed = server->seed,
                .credit = &server->credit,
            };
        }
    }
    return n;
}

static size_t best_of(struct upstream_group *group, const struct upstream_choice *choice,
                      const struct balance_candidate *candidates, size_t n)
{
    switch (group->spec->balance) {
    case BALANCE_ROUND_ROBIN:
        break;
    case BALANCE_LEAST_REQUESTS:
        return balance_by_load(candidates, n, group->n_choices++);
    case BALANCE_HASH:
        if (choice->has_key) {
            return balance_by_hash(candidates, n, choice->key);
        }
        break;
    }
    return balance_by_turn(candidates, n);
}

static struct upstream_server *choose(struct upstream_group *group,
                                      const struct upstream_choice *choice)
{
    struct balance_candidate candidates[POLICY_SERVERS_MAX];
    const size_t n = list_candidates(group, choice, candidates);
    return n == 0 ? NULL : &group->servers[candidates[best_of(group, choice, candidates, n)].index];
}

/* Most upstreams have one server, and nothing to choose. */
static struct upstream_server *the_only(struct upstream_group *group,
                                        const struct upstream_choice *choice)
{
    return group->servers->n_addresses > 0 && !is_tried(choice, 0) ? group->servers : NULL;
}

static struct upstream_server *next_untried(struct upstream_group *group,
                                            const struct upstream_choice *choice)
{
    return group->spec->n_servers == 1 ? the_only(group, choice) : choose(group, choice);
}

struct upstream_server *upstream_choice_make(struct upstream_group *group,
                                             struct upstream_choice *choice)
{
    struct upstream_server *server = next_untried(group, choice);
    if (server == NULL && choice->stale != NULL) {
        server = choice->stale;
        choice->stale = NULL;
    }
    if (server != NULL) {
        const size_t index = index_of(group, server);
        choice->tried[index / 64] |= bit_of(index);
    }
    return server;
}
