#include "simulation/statistics.h"

#include <stdlib.h>
#include <string.h>

/* --- the hash table of clients; it grows up to STATISTICS_CLIENTS_MAX clients --- */

enum {
    FIRST_SLOTS = 1024,
    IPV6_BITS = 64, /* as limits by client.ip count */
};

static enum status statistics_clients_init(struct statistics *statistics)
{
    statistics->clients = calloc(FIRST_SLOTS, sizeof(statistics->clients[0]));
    statistics->n_slots = FIRST_SLOTS;
    statistics->hash_key = hash_key_new();
    return statistics->clients == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

/* Where @address is looked for first. */
static size_t home_of(const struct statistics *statistics, const struct address *address,
                      size_t n_slots)
{
    const struct span bytes = span_of((const char *)address, sizeof(*address));
    return (size_t)hash_table(&statistics->hash_key, bytes).low & (n_slots - 1);
}

/* The slot of @address, or the free one where it would be. */
static struct statistics_client *slot_of(const struct statistics *statistics,
                                         struct statistics_client *clients, size_t n_slots,
                                         const struct address *address)
{
    size_t i = home_of(statistics, address, n_slots);
    while (clients[i].is_used && !address_equals(&clients[i].address, address)) {
        i = (i + 1) & (n_slots - 1);
    }
    return &clients[i];
}

/* Twice as many slots; false: no memory. */
static bool grow(struct statistics *statistics)
{
    const size_t n_slots = 2 * statistics->n_slots;
    struct statistics_client *clients = calloc(n_slots, sizeof(clients[0]));
    if (clients == NULL) {
        return false;
    }
    for (size_t i = 0; i < statistics->n_slots; i++) {
        if (statistics->clients[i].is_used) {
            *slot_of(statistics, clients, n_slots, &statistics->clients[i].address) =
                statistics->clients[i];
        }
    }
    free(statistics->clients);
    statistics->clients = clients;
    statistics->n_slots = n_slots;
    return true;
}

static struct address statistics_clients_of(const struct address *address)
{
    return address->family == ADDRESS_IPV6 ? address_mask(*address, IPV6_BITS) : *address;
}

void statistics_client_write(const struct statistics_client *client, struct text *text)
{
    address_write(&client->address, text);
    if (client->address.family == ADDRESS_IPV6) {
        text_add_literal(text, "/64");
    }
}

static struct statistics_client *statistics_clients_find(struct statistics *statistics,
                                                         const struct address *address)
{
    struct statistics_client *client =
        slot_of(statistics, statistics->clients, statistics->n_slots, address);
    if (client->is_used) {
        return client;
    }
    if (statistics->n_clients == STATISTICS_CLIENTS_MAX) {
        return NULL;
    }
    if (2 * (statistics->n_clients + 1) > statistics->n_slots) {
        if (!grow(statistics)) {
            return NULL;
        }
        client = slot_of(statistics, statistics->clients, statistics->n_slots, address);
    }
    statistics->n_clients++;
    client->is_used = true;
    client->address = *address;
    return client;
}

/* --- the first of them --- */

static uint64_t weight(const struct statistics_client *client, enum statistics_order order)
{
    switch (order) {
    case STATISTICS_BY_DENIED:
        return client->n_denied[0];
    case STATISTICS_BY_NEWLY_DENIED:
        return client->n_newly_denied;
    case STATISTICS_BY_NEWLY_ALLOWED:
        return client->n_newly_allowed;
    }
    return 0;
}

static bool is_before(const struct statistics_client *a, const struct statistics_client *b,
                      enum statistics_order order)
{
    const uint64_t of_a = weight(a, order);
    const uint64_t of_b = weight(b, order);
    return of_a > of_b ||
           (of_a == of_b && memcmp(&a->address, &b->address, sizeof(a->address)) < 0);
}

size_t statistics_top(const struct statistics *statistics, enum statistics_order order,
                      const struct statistics_client **top, size_t n_max)
{
    size_t n = 0;
    for (size_t i = 0; i < statistics->n_slots; i++) {
        const struct statistics_client *client = &statistics->clients[i];
        if (!client->is_used || weight(client, order) == 0 ||
            (n == n_max && !is_before(client, top[n - 1], order))) {
            continue;
        }
        size_t at = n < n_max ? n++ : n - 1;
        for (; at > 0 && is_before(client, top[at - 1], order); at--) {
            top[at] = top[at - 1];
        }
        top[at] = client;
    }
    return n;
}

enum { US_PER_S = 1000000 };

static enum status init_side(struct statistics_side *side, const struct policy *policy)
{
    side->policy = policy;
    side->limits = calloc(policy->n_limits + 1, sizeof(side->limits[0]));
    side->routes = calloc(policy->n_routes + 1, sizeof(side->routes[0]));
    side->bans = calloc(policy->n_rules + 1, sizeof(side->bans[0]));
    if (side->limits == NULL || side->routes == NULL || side->bans == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_rules; i++) {
        side->bans[i].rule = &policy->rules[i];
    }
    for (size_t i = 0; i < policy->n_limits; i++) {
        side->limits[i].limit = &policy->limits[i];
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        side->routes[i].route = &policy->routes[i];
    }
    return STATUS_OK;
}

enum status statistics_init(struct statistics *statistics, const struct policy *const *policies,
                            size_t n_policies)
{
    enum status status = STATUS_OK;
    *statistics = (struct statistics){.n_sides = n_policies, .span_us = US_PER_S};
    for (size_t i = 0; i < n_policies && status == STATUS_OK; i++) {
        status = init_side(&statistics->sides[i], policies[i]);
    }
    if (status == STATUS_OK) {
        status = statistics_clients_init(statistics);
    }
    if (status != STATUS_OK) {
        statistics_close(statistics);
    }
    return status;
}

void statistics_close(struct statistics *statistics)
{
    for (size_t i = 0; i < statistics->n_sides; i++) {
        free(statistics->sides[i].limits);
        free(statistics->sides[i].routes);
        free(statistics->sides[i].bans);
    }
    free(statistics->clients);
    statistics->clients = NULL;
    statistics->n_sides = 0;
}

/* --- over time --- */

static void add_span(struct statistics_span *to, const struct statistics_span *from)
{
    to->n_requests += from->n_requests;
    to->n_newly_denied += from->n_newly_denied;
    to->n_newly_allowed += from->n_newly_allowed;
    for (size_t i = 0; i < STATISTICS_SIDES_MAX; i++) {
        to->n_denied[i] += from->n_denied[i];
        to->n_shadow[i] += from->n_shadow[i];
    }
}

/* Two spans become one, so that as many are free again. */
static void widen(struct statistics *statistics)
{
    for (size_t i = 0; i < STATISTICS_SPANS; i++) {
        const struct statistics_span span = statistics->spans[i];
        statistics->spans[i] = (struct statistics_span){0};
        add_span(&statistics->spans[i / 2], &span);
    }
    statistics->span_us *= 2;
}

static struct statistics_span *span_at(struct statistics *statistics, uint64_t now_us)
{
    if (statistics->n_requests == 0) {
        statistics->first_us = now_us;
        statistics->start_us = now_us / US_PER_S * US_PER_S;
    }
    statistics->last_us = now_us;
    while ((now_us - statistics->start_us) / statistics->span_us >= STATISTICS_SPANS) {
        widen(statistics);
    }
    return &statistics->spans[(now_us - statistics->start_us) / statistics->span_us];
}

size_t statistics_n_spans(const struct statistics *statistics)
{
    return statistics->n_requests == 0
               ? 0
               : (size_t)((statistics->last_us - statistics->start_us) / statistics->span_us) + 1;
}

/* --- one answer --- */

static void add_judgement(struct statistics_side *side, uint64_t now_us, const struct limit *judge,
                          bool is_denied)
{
    struct statistics_limit *limit = &side->limits[judge->base];
    limit->n_judged++;
    if (is_denied) {
        limit->first_us = limit->n_denied == 0 ? now_us : limit->first_us;
        limit->n_denied++;
    }
}

static void add_banned(struct statistics_side *side, uint64_t now_us, const struct limit_rule *rule)
{
    struct statistics_bans *bans = &side->bans[rule - side->policy->rules];
    bans->first_us = bans->n_banned == 0 ? now_us : bans->first_us;
    bans->n_banned++;
}

/* Whether only limits in shadow would have denied it. */
static bool add_limits(struct statistics_side *side, uint64_t now_us,
                       const struct simulation_answer *answer)
{
    bool is_shadow = false;
    if (answer->admission == NULL || answer->verdict == SIMULATION_UNDECIDED) {
        return false;
    }
    if (answer->admission->lacked != NULL) {
        add_judgement(side, now_us, &answer->admission->lacked->limits[0], true);
    }
    if (simulation_is_banned(answer)) {
        add_banned(side, now_us, answer->admission->rules[0]);
        return false;
    }
    for (size_t i = 0; i < answer->admission->decision.n_charges; i++) {
        const struct charge *charge = &answer->admission->charges[i];
        if (!charge->unreported && admission_speaks(answer->admission, i)) {
            add_judgement(side, now_us, charge->limit, !charge->verdict.allowed);
            is_shadow = is_shadow || (!charge->verdict.allowed && charge->limit->shadow);
        }
    }
    return is_shadow && answer->verdict == SIMULATION_ALLOWED;
}

static void add_verdict(struct statistics_side *side, const struct simulation_answer *answer)
{
    switch (answer->verdict) {
    case SIMULATION_REFUSED:
        side->n_no_route += answer->status == 404;
        side->n_refused += answer->status != 404;
        break;
    case SIMULATION_UNDECIDED:
        side->n_undecided++;
        break;
    case SIMULATION_FREE:
        side->n_free++;
        side->n_allowed++;
        break;
    case SIMULATION_ALLOWED:
        side->n_allowed++;
        side->n_held += answer->wait_us > 0;
        side->held_us_max =
            answer->wait_us > side->held_us_max ? answer->wait_us : side->held_us_max;
        break;
    case SIMULATION_DENIED:
        side->n_denied++;
        side->n_banned += simulation_is_banned(answer);
        side->n_lacking += answer->admission->lacked != NULL;
        break;
    }
}

static void add_answer(struct statistics *statistics, size_t i, uint64_t now_us,
                       const struct simulation_answer *answer, struct statistics_span *span)
{
    struct statistics_side *side = &statistics->sides[i];
    const bool is_shadow = add_limits(side, now_us, answer);
    const bool is_denied = answer->verdict == SIMULATION_DENIED;
    add_verdict(side, answer);
    side->n_shadow += is_shadow;
    span->n_denied[i] += is_denied;
    span->n_shadow[i] += is_shadow;
    if (answer->route != NULL) {
        struct statistics_route *route = &side->routes[answer->route->index];
        route->n_requests++;
        route->n_denied += is_denied;
        route->n_shadow += is_shadow;
    }
}

void statistics_add(struct statistics *statistics, uint64_t now_us,
                    const struct simulation_answer *answers)
{
    struct statistics_span *span = span_at(statistics, now_us);
    const struct address who = statistics_clients_of(&answers[0].client);
    struct statistics_client *client = statistics_clients_find(statistics, &who);
    bool is_denied[STATISTICS_SIDES_MAX] = {false};
    statistics->n_requests++;
    span->n_requests++;
    for (size_t i = 0; i < statistics->n_sides; i++) {
        add_answer(statistics, i, now_us, &answers[i], span);
        is_denied[i] = answers[i].verdict == SIMULATION_DENIED;
    }
    const bool is_newly_denied = statistics->n_sides > 1 && is_denied[1] && !is_denied[0];
    const bool is_newly_allowed = statistics->n_sides > 1 && is_denied[0] && !is_denied[1];
    statistics->n_newly_denied += is_newly_denied;
    statistics->n_newly_allowed += is_newly_allowed;
    span->n_newly_denied += is_newly_denied;
    span->n_newly_allowed += is_newly_allowed;
    if (client == NULL) {
        statistics->n_other_requests++;
        statistics->n_other_denied[0] += is_denied[0];
        statistics->n_other_denied[1] += is_denied[1];
        return;
    }
    client->n_requests++;
    client->n_denied[0] += is_denied[0];
    client->n_denied[1] += is_denied[1];
    for (size_t i = 0; i < statistics->n_sides; i++) {
        client->n_banned[i] += simulation_is_banned(&answers[i]);
    }
    client->n_newly_denied += is_newly_denied;
    client->n_newly_allowed += is_newly_allowed;
}
