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

static size_t index_of(const struct upstream_server *server)
{
    return (size_t)(server - server->group->servers);
}

void upstream_choice_note(struct upstream_choice *choice, const struct upstream_server *server)
{
    const size_t index = index_of(server);
    choice->tried[index / 64] |= bit_of(index);
}

static void forget(struct upstream_choice *choice, const struct upstream_server *server)
{
    const size_t index = index_of(server);
    choice->tried[index / 64] &= ~bit_of(index);
}

/* --- who may be asked --- */

/* What is asked of a server besides that it was not tried. */
struct wish {
    uint64_t now_us;
    bool out_too;     /* servers that are out as well */
    bool counts_idle; /* an idle connection of this worker is as good as a free place */
};

static bool is_wanted(struct upstream_server *server, const struct upstream_choice *choice,
                      const struct wish *wish)
{
    return server->n_addresses > 0 && !is_tried(choice, index_of(server)) &&
           (wish->out_too ||
            server_health_standing(&server->process->health, wish->now_us) != SERVER_OUT);
}

static bool has_room(const struct upstream_server *server, const struct wish *wish)
{
    const unsigned max = server->group->spec->max_connections;
    return max == 0 || atomic_load(&server->process->n_connections) < max ||
           (wish->counts_idle && !list_is_empty(&server->idle));
}

/* The servers that may be asked, into @candidates; how many. *is_full: there are others, without
 * room. */
static size_t list_candidates(struct upstream_group *group, const struct upstream_choice *choice,
                              const struct wish *wish, struct balance_candidate *candidates,
                              bool *is_full)
{
    size_t n = 0;
    *is_full = false;
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        struct upstream_server *server = &group->servers[i];
        struct server_process *process = server->process;
        if (!is_wanted(server, choice, wish)) {
            continue;
        }
        if (!has_room(server, wish)) {
            *is_full = true;
            continue;
        }
        candidates[n++] = (struct balance_candidate){
            .index = (uint32_t)i,
            .weight = server->spec->weight *
                      server_health_weight(&process->health, group->spec, wish->now_us),
            .n_requests = atomic_load_explicit(&process->n_requests, memory_order_relaxed),
            .seed = server->seed,
            .credit = &server->credit,
        };
    }
    return n;
}

/* --- who is --- */

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

/* The server that the balance names. */
static enum choice_result choose_by(struct upstream_group *group,
                                    const struct upstream_choice *choice, const struct wish *wish,
                                    struct upstream_server **server)
{
    struct balance_candidate candidates[POLICY_SERVERS_MAX];
    bool is_full;
    const size_t n = list_candidates(group, choice, wish, candidates, &is_full);
    if (n == 0) {
        return is_full ? CHOICE_FULL : CHOICE_NONE;
    }
    *server = &group->servers[candidates[best_of(group, choice, candidates, n)].index];
    return CHOICE_MADE;
}

/* Whether a server that was named may be asked: it is in, or this is its trial. */
static bool admit(struct upstream_server *server, struct upstream_choice *choice, uint64_t now_us)
{
    struct server_health *health = &server->process->health;
    const struct upstream_spec *spec = server->group->spec;
    if (server_health_standing(health, now_us) == SERVER_IN) {
        return true;
    }
    choice->is_trial =
        server_health_claim_trial(health, now_us, spec->connect_us + spec->response_us);
    return choice->is_trial;
}

/* One that is in, or gets its trial; else, since an answer is worth more than order, any. */
static enum choice_result choose(struct upstream_group *group, struct upstream_choice *choice,
                                 struct wish *wish, struct upstream_server **server)
{
    enum choice_result result;
    while ((result = choose_by(group, choice, wish, server)) == CHOICE_MADE) {
        if (admit(*server, choice, wish->now_us)) {
            return CHOICE_MADE;
        }
    }
    if (result == CHOICE_FULL) {
        return result;
    }
    wish->out_too = true;
    return choose_by(group, choice, wish, server);
}

/* Most upstreams have one server without a max_connections, and nothing to choose. */
static enum choice_result the_only(struct upstream_group *group,
                                   const struct upstream_choice *choice,
                                   struct upstream_server **server)
{
    *server = group->servers;
    return group->servers->n_addresses > 0 && !is_tried(choice, 0) ? CHOICE_MADE : CHOICE_NONE;
}

static enum choice_result next(struct upstream_group *group, struct upstream_choice *choice,
                               uint64_t now_us, bool counts_idle, struct upstream_server **server)
{
    struct wish wish = {.now_us = now_us, .counts_idle = counts_idle};
    return group->is_plain ? the_only(group, choice, server) : choose(group, choice, &wish, server);
}

/* As next(); when no server is left, the one whose kept connection had died is asked again. */
static enum choice_result next_or_stale(struct upstream_group *group,
                                        struct upstream_choice *choice, uint64_t now_us,
                                        bool counts_idle, struct upstream_server **server)
{
    const enum choice_result result = next(group, choice, now_us, counts_idle, server);
    if (result != CHOICE_NONE || choice->stale == NULL) {
        return result;
    }
    forget(choice, choice->stale);
    choice->stale = NULL;
    return next(group, choice, now_us, counts_idle, server);
}

enum choice_result upstream_choice_make(struct upstream_group *group,
                                        struct upstream_choice *choice, uint64_t now_us,
                                        struct upstream_server **server)
{
    const enum choice_result result = next_or_stale(group, choice, now_us, true, server);
    if (result == CHOICE_MADE) {
        upstream_choice_note(choice, *server);
    }
    return result;
}

void upstream_choice_withdraw(struct upstream_choice *choice, struct upstream_server *server,
                              uint64_t now_us)
{
    forget(choice, server);
    if (choice->is_trial) {
        choice->is_trial = false;
        server_health_note_nothing(&server->process->health, now_us);
    }
}

/* --- for those who wait --- */

bool upstream_choice_is_left(const struct upstream_group *group,
                             const struct upstream_choice *choice)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        if (group->servers[i].n_addresses > 0 && !is_tried(choice, i)) {
            return true;
        }
    }
    return choice->stale != NULL;
}

bool upstream_choice_reserve(struct upstream_group *group, struct upstream_choice *choice,
                             uint64_t now_us, struct upstream_server **server)
{
    while (next_or_stale(group, choice, now_us, false, server) == CHOICE_MADE) {
        upstream_choice_note(choice, *server);
        if (upstream_queue_take_place((*server)->process, group->spec->max_connections)) {
            return true;
        }
        upstream_choice_withdraw(choice, *server, now_us);
    }
    return false;
}

bool upstream_choice_is_new(const struct upstream_choice *choice)
{
    uint64_t any = 0;
    for (size_t i = 0; i < ARRAY_LEN(choice->tried); i++) {
        any |= choice->tried[i];
    }
    return any == 0;
}

static bool are_all_out(const struct upstream_group *group, uint64_t now_us)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        if (server_health_standing(&group->process->servers[i]->health, now_us) == SERVER_IN) {
            return false;
        }
    }
    return true;
}

bool upstream_choice_allows(const struct upstream_choice *choice,
                            const struct upstream_server *server, uint64_t now_us)
{
    return !is_tried(choice, index_of(server)) &&
           (server_health_standing(&server->process->health, now_us) == SERVER_IN ||
            are_all_out(server->group, now_us));
}
