#include "trial/tally.h"

#include <stdlib.h>
#include <string.h>

#include "trial/tally_clients.h"

enum { US_PER_S = 1000000 };

static enum status init_side(struct tally_side *side, const struct policy *policy)
{
    side->policy = policy;
    side->limits = calloc(policy->n_limits + 1, sizeof(side->limits[0]));
    side->routes = calloc(policy->n_routes + 1, sizeof(side->routes[0]));
    if (side->limits == NULL || side->routes == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < policy->n_limits; i++) {
        side->limits[i].limit = &policy->limits[i];
    }
    for (size_t i = 0; i < policy->n_routes; i++) {
        side->routes[i].route = &policy->routes[i];
    }
    return STATUS_OK;
}

enum status tally_init(struct tally *tally, const struct policy *const *policies, size_t n_policies)
{
    enum status status = STATUS_OK;
    *tally = (struct tally){.n_sides = n_policies, .span_us = US_PER_S};
    for (size_t i = 0; i < n_policies && status == STATUS_OK; i++) {
        status = init_side(&tally->sides[i], policies[i]);
    }
    if (status == STATUS_OK) {
        status = tally_clients_init(tally);
    }
    if (status != STATUS_OK) {
        tally_close(tally);
    }
    return status;
}

void tally_close(struct tally *tally)
{
    for (size_t i = 0; i < tally->n_sides; i++) {
        free(tally->sides[i].limits);
        free(tally->sides[i].routes);
    }
    free(tally->clients);
    tally->clients = NULL;
    tally->n_sides = 0;
}

/* --- over time --- */

static void add_span(struct tally_span *to, const struct tally_span *from)
{
    to->n_requests += from->n_requests;
    to->n_newly_denied += from->n_newly_denied;
    to->n_newly_allowed += from->n_newly_allowed;
    for (size_t i = 0; i < TALLY_SIDES_MAX; i++) {
        to->n_denied[i] += from->n_denied[i];
        to->n_shadow[i] += from->n_shadow[i];
    }
}

/* Two spans become one, so that as many are free again. */
static void widen(struct tally *tally)
{
    for (size_t i = 0; i < TALLY_SPANS; i++) {
        const struct tally_span span = tally->spans[i];
        tally->spans[i] = (struct tally_span){0};
        add_span(&tally->spans[i / 2], &span);
    }
    tally->span_us *= 2;
}

static struct tally_span *span_at(struct tally *tally, uint64_t now_us)
{
    if (tally->n_requests == 0) {
        tally->first_us = now_us;
        tally->start_us = now_us / US_PER_S * US_PER_S;
    }
    tally->last_us = now_us;
    while ((now_us - tally->start_us) / tally->span_us >= TALLY_SPANS) {
        widen(tally);
    }
    return &tally->spans[(now_us - tally->start_us) / tally->span_us];
}

size_t tally_n_spans(const struct tally *tally)
{
    return tally->n_requests == 0
               ? 0
               : (size_t)((tally->last_us - tally->start_us) / tally->span_us) + 1;
}

/* --- one answer --- */

static void add_charge(struct tally_side *side, uint64_t now_us, const struct charge *charge,
                       bool *is_shadow)
{
    struct tally_limit *limit = &side->limits[charge->limit->index];
    limit->n_judged++;
    if (!charge->verdict.allowed) {
        limit->first_us = limit->n_denied == 0 ? now_us : limit->first_us;
        limit->n_denied++;
        *is_shadow = *is_shadow || charge->limit->shadow;
    }
}

/* Whether only limits in shadow would have denied it. */
static bool add_limits(struct tally_side *side, uint64_t now_us, const struct trial_answer *answer)
{
    bool is_shadow = false;
    if (answer->admission == NULL || answer->verdict == TRIAL_UNDECIDED) {
        return false;
    }
    for (size_t i = 0; i < answer->admission->decision.n_charges; i++) {
        if (!answer->admission->charges[i].untold && admission_speaks(answer->admission, i)) {
            add_charge(side, now_us, &answer->admission->charges[i], &is_shadow);
        }
    }
    return is_shadow && answer->verdict == TRIAL_ALLOWED;
}

static void add_verdict(struct tally_side *side, const struct trial_answer *answer)
{
    switch (answer->verdict) {
    case TRIAL_BAD_PATH:
    case TRIAL_TOO_LARGE:
        side->n_refused++;
        break;
    case TRIAL_NO_ROUTE:
        side->n_no_route++;
        break;
    case TRIAL_LACKS_KEY:
        side->n_lacking++;
        break;
    case TRIAL_UNDECIDED:
        side->n_undecided++;
        break;
    case TRIAL_FREE:
        side->n_free++;
        side->n_allowed++;
        break;
    case TRIAL_ALLOWED:
        side->n_allowed++;
        side->n_held += answer->wait_us > 0;
        side->held_us_max =
            answer->wait_us > side->held_us_max ? answer->wait_us : side->held_us_max;
        break;
    case TRIAL_DENIED:
        side->n_denied++;
        break;
    }
}

static void add_answer(struct tally *tally, size_t i, uint64_t now_us,
                       const struct trial_answer *answer, struct tally_span *span)
{
    struct tally_side *side = &tally->sides[i];
    const bool is_shadow = add_limits(side, now_us, answer);
    const bool is_denied = answer->verdict == TRIAL_DENIED;
    add_verdict(side, answer);
    side->n_shadow += is_shadow;
    span->n_denied[i] += is_denied;
    span->n_shadow[i] += is_shadow;
    if (answer->route != NULL) {
        struct tally_route *route = &side->routes[answer->route->index];
        route->n_requests++;
        route->n_denied += is_denied;
        route->n_shadow += is_shadow;
    }
}

void tally_add(struct tally *tally, uint64_t now_us, const struct trial_answer *answers)
{
    struct tally_span *span = span_at(tally, now_us);
    const struct address who = tally_clients_of(&answers[0].client);
    struct tally_client *client = tally_clients_find(tally, &who);
    bool is_denied[TALLY_SIDES_MAX] = {false};
    tally->n_requests++;
    span->n_requests++;
    for (size_t i = 0; i < tally->n_sides; i++) {
        add_answer(tally, i, now_us, &answers[i], span);
        is_denied[i] = answers[i].verdict == TRIAL_DENIED;
    }
    const bool is_newly_denied = tally->n_sides > 1 && is_denied[1] && !is_denied[0];
    const bool is_newly_allowed = tally->n_sides > 1 && is_denied[0] && !is_denied[1];
    tally->n_newly_denied += is_newly_denied;
    tally->n_newly_allowed += is_newly_allowed;
    span->n_newly_denied += is_newly_denied;
    span->n_newly_allowed += is_newly_allowed;
    if (client == NULL) {
        tally->n_other_requests++;
        tally->n_other_denied[0] += is_denied[0];
        tally->n_other_denied[1] += is_denied[1];
        return;
    }
    client->n_requests++;
    client->n_denied[0] += is_denied[0];
    client->n_denied[1] += is_denied[1];
    client->n_newly_denied += is_newly_denied;
    client->n_newly_allowed += is_newly_allowed;
}
