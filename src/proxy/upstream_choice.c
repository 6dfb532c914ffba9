/* Happy path: of the servers that are in, have an address and were not asked yet, the one that the
 * balance names.
 *
 * Failures: when none is in, those that are out are asked; a request that lacks the key of its hash
 * takes the next turn. */

#include "proxy/upstream_choice.h"

#include "proxy/balance.h"
#include "proxy/upstream_group.h"
#include "proxy/upstream_process.h"

_Static_assert((int)SERVER_WHOLE_WEIGHT == (int)BALANCE_WEIGHT_UNIT, "a whole weight is a unit");

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

/* Whether a server of this standing is among those that are asked now. */
static bool is_wanted(enum server_standing standing, bool out_too)
{
    return out_too || standing != SERVER_OUT;
}

/* The servers that may be asked, into @candidates; how many. */
static size_t list_candidates(struct upstream_group *group, const struct upstream_choice *choice,
                              uint64_t now_us, bool out_too, struct balance_candidate *candidates)
{
    size_t n = 0;
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        struct upstream_server *server = &group->servers[i];
        struct server_process *process = server->process;
        if (server->n_addresses == 0 || is_tried(choice, i) ||
            !is_wanted(server_health_standing(&process->health, now_us), out_too)) {
            continue;
        }
        candidates[n++] = (struct balance_candidate){
            .index = (uint32_t)i,
            .weight = server->spec->weight * server_health_weight(&process->health, now_us),
            .n_requests = atomic_load_explicit(&process->n_requests, memory_order_relaxed),
            .seed = server->seed,
            .credit = &server->credit,
        };
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

/* The server that the balance names, out of those that are in, or @out_too. */
static struct upstream_server *choose_among(struct upstream_group *group,
                                            const struct upstream_choice *choice, uint64_t now_us,
                                            bool out_too)
{
    struct balance_candidate candidates[POLICY_SERVERS_MAX];
    const size_t n = list_candidates(group, choice, now_us, out_too, candidates);
    return n == 0 ? NULL : &group->servers[candidates[best_of(group, choice, candidates, n)].index];
}

/* One that is in, or gets its trial; else, since an answer is worth more than order, any. */
static struct upstream_server *choose(struct upstream_group *group, struct upstream_choice *choice,
                                      uint64_t now_us)
{
    const uint64_t patience_us = group->spec->connect_us + group->spec->response_us;
    struct upstream_server *server;
    while ((server = choose_among(group, choice, now_us, false)) != NULL) {
        struct server_health *health = &server->process->health;
        if (server_health_standing(health, now_us) == SERVER_IN) {
            return server;
        }
        choice->is_trial = server_health_claim_trial(health, now_us, patience_us);
        if (choice->is_trial) {
            return server;
        }
    }
    return choose_among(group, choice, now_us, true);
}

/* Most upstreams have one server, and nothing to choose. */
static struct upstream_server *the_only(struct upstream_group *group,
                                        const struct upstream_choice *choice)
{
    return group->servers->n_addresses > 0 && !is_tried(choice, 0) ? group->servers : NULL;
}

struct upstream_server *upstream_choice_make(struct upstream_group *group,
                                             struct upstream_choice *choice, uint64_t now_us)
{
    struct upstream_server *server =
        group->spec->n_servers == 1 ? the_only(group, choice) : choose(group, choice, now_us);
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
