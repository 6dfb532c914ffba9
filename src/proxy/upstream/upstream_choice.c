/* Happy path: the balance chooses among the servers that are up, have an address and were not tried
 * yet.
 *
 * Failures: when no server is up, those that are down are tried. A request without the key for
 * hashing uses round robin. */

#include "proxy/upstream/upstream_choice.h"

#include "proxy/upstream/balance.h"
#include "proxy/upstream/upstream_process.h"
#include "proxy/upstream/upstream_server.h"

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

/* --- candidates --- */

/* Criteria for a server, in addition to not being tried. */
struct wish {
    uint64_t now_us;
    bool down_too;    /* accept servers that are down */
    bool counts_idle; /* accept an idle connection of this worker instead of a free slot */
};

static bool is_wanted(struct upstream_server *server, const struct upstream_choice *choice,
                      const struct wish *wish)
{
    return server->n_addresses > 0 && !is_tried(choice, index_of(server)) &&
           (wish->down_too ||
            server_health_state(&server->process->health, wish->now_us) != SERVER_DOWN);
}

static bool has_room(const struct upstream_server *server, const struct wish *wish)
{
    const unsigned max = server->group->spec->max_connections;
    return max == 0 || atomic_load(&server->process->n_connections) < max ||
           (wish->counts_idle && !list_is_empty(&server->idle));
}

/* Write the servers that may be tried to @candidates and return their number. *is_full: there are
 * others without a free slot. */
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

/* --- choice --- */

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

/* The server that the balance chooses. */
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

/* Whether the chosen server may be tried: it is up, or the request becomes its probe. */
static bool admit(struct upstream_server *server, struct upstream_choice *choice, uint64_t now_us)
{
    struct server_health *health = &server->process->health;
    const struct upstream_spec *spec = server->group->spec;
    if (server_health_state(health, now_us) == SERVER_UP) {
        return true;
    }
    choice->is_probe =
        server_health_claim_trial(health, now_us, spec->connect_us + spec->response_us);
    return choice->is_probe;
}

/* Choose a server that is up or due for a probe. If there is none, choose any server: a chance of
 * an answer is better than a certain failure. */
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
    wish->down_too = true;
    return choose_by(group, choice, wish, server);
}

/* The next choice. When no server is left, the one whose idle connection died is tried again. */
static enum choice_result next(struct upstream_group *group, struct upstream_choice *choice,
                               uint64_t now_us, bool counts_idle, struct upstream_server **server)
{
    for (;;) {
        struct wish wish = {.now_us = now_us, .counts_idle = counts_idle};
        enum choice_result result;
        if (group->is_plain) { /* the usual case: one server, and no max_connections */
            *server = group->servers;
            result = (*server)->n_addresses > 0 && !is_tried(choice, 0) ? CHOICE_MADE : CHOICE_NONE;
        } else {
            result = choose(group, choice, &wish, server);
        }
        if (result != CHOICE_NONE || choice->stale == NULL) {
            return result;
        }
        forget(choice, choice->stale);
        choice->stale = NULL;
    }
}

enum choice_result upstream_choice_make(struct upstream_group *group,
                                        struct upstream_choice *choice, uint64_t now_us,
                                        struct upstream_server **server)
{
    const enum choice_result result = next(group, choice, now_us, true, server);
    if (result == CHOICE_MADE) {
        upstream_choice_note(choice, *server);
    }
    return result;
}

void upstream_choice_withdraw(struct upstream_choice *choice, struct upstream_server *server,
                              uint64_t now_us)
{
    forget(choice, server);
    if (choice->is_probe) {
        choice->is_probe = false;
        server_health_note_nothing(&server->process->health, now_us);
    }
}

/* --- waiting requests --- */

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
    while (next(group, choice, now_us, false, server) == CHOICE_MADE) {
        upstream_choice_note(choice, *server);
        if (server_process_take_place((*server)->process, group->spec->max_connections)) {
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

bool upstream_choice_all_down(const struct upstream_group *group, uint64_t now_us)
{
    for (size_t i = 0; i < group->spec->n_servers; i++) {
        if (server_health_state(&group->process->servers[i]->health, now_us) == SERVER_UP) {
            return false;
        }
    }
    return true;
}

bool upstream_choice_allows(const struct upstream_choice *choice,
                            const struct upstream_server *server, uint64_t now_us)
{
    return !is_tried(choice, index_of(server)) &&
           (server_health_state(&server->process->health, now_us) == SERVER_UP ||
            upstream_choice_all_down(server->group, now_us));
}
