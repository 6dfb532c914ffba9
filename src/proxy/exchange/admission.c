#include "proxy/admission.h"

#include <string.h>

#include "limit/calendar.h"
#include "policy/named_readings.h"

enum { US_PER_S = 1000000 };

static bool is_excepted(const struct limit_rule *rule, const struct request_view *request)
{
    return rule->n_except > 0 && address_is_in(&request->client, rule->except, rule->n_except);
}

/* What all steps of one preparation use. */
struct preparation {
    struct admission *admission;
    const struct admission_context *context;
    const struct route *route;
    const struct request_view *request;
    struct arena *arena;
};

/* Spare hashing the key of @charge if it is @identity. */
static void take_hash(struct charge *charge, const struct client_identity *identity)
{
    if (span_equals(charge->key, span_of(identity->text, identity->len))) {
        charge->hash = identity->hash;
        charge->is_hashed = true;
    }
}

/* A charge that takes a slot has cost 1, whatever the request costs elsewhere. */
static void add_charge(const struct preparation *preparation, const struct limit_rule *rule,
                       const struct limit *limits, size_t i, struct span key, uint32_t cost)
{
    const struct admission_context *context = preparation->context;
    struct admission *admission = preparation->admission;
    const struct limit *limit = &limits[i];
    const size_t at = admission->decision.n_charges++;
    admission->rules[at] = rule;
    admission->charges[at] = (struct charge){.limit = limit, .key = key, .cost = cost};
    if (preparation->request->identity != NULL) {
        take_hash(&admission->charges[at], preparation->request->identity);
    }
    if (limit->algorithm->has_slots) {
        admission->charges[at].cost = 1;
        admission->charges[at].slot = context->first_slot + at;
    }
    /* Outside the range of the calendar, the store reports that the window is unknown. */
    if (limit->params.is_calendar &&
        calendar_find(rule->calendars[i], context->wall_us, admission->edges[at])) {
        admission->charges[at].edges = admission->edges[at];
    }
}

/* Whether the rule judges only a request whose token is taken: it reads claims, or one of them may
 * name its plan; or clients share its key, which those with a token are not to find used up by
 * requests that reach no server. A token that is not read yet may prove to be good. */
static bool awaits_token(const struct limit_rule *rule, const struct request_view *request)
{
    if (LIKELY(!request->is_token_refused)) {
        return false;
    }
    return rule->reads_token ||
           (request->is_token_unread ? rule->has_plan_of_token : key_has_only_shared(&rule->key));
}

/* The same by the identity, where only some requests have one that clients share, as with
 * `client.asn | client.ip`. */
static enum rule_outcome judge_key(const struct request_view *request, struct span key)
{
    return UNLIKELY(request->is_token_refused) && !request->is_token_unread && key_is_shared(key)
               ? RULE_SKIPS
               : RULE_JUDGES;
}

enum rule_outcome admission_read_key(const struct limit_rule *rule,
                                     const struct request_view *request, struct span secret,
                                     size_t i, size_t *n, struct text *key)
{
    *n = 1;
    if (is_excepted(rule, request)) {
        return RULE_EXCEPTS;
    }
    if (awaits_token(rule, request)) {
        return RULE_SKIPS;
    }
    switch (key_read_nth(&rule->key, rule->missing, request, secret, i, n, key)) {
    case KEY_READ:
        return judge_key(request, text_span(key));
    case KEY_IS_AMBIGUOUS: /* a limit that is not enforced refuses no request */
        *n = 1;
        return rule->limits[0].shadow ? RULE_SKIPS : RULE_IS_AMBIGUOUS;
    case KEY_LACKS_A_PART:
        break;
    }
    return rule->missing == KEY_MISSING_DENY ? RULE_DENIES : RULE_SKIPS;
}

/* Deny the request by a ban of @rule: its other limits do not matter. */
static void deny_by_ban(const struct preparation *preparation, const struct limit_rule *rule,
                        struct span key, const struct ban_found *ban)
{
    struct admission *admission = preparation->admission;
    struct decision *decision = &admission->decision;
    decision->n_charges = rule->n_limits;
    decision->status = STATUS_OK;
    decision->allowed = false;
    decision->source = DECISION_BAN;
    decision->now_us = preparation->context->now_us;
    admission->ban = *ban;
    for (size_t i = 0; i < rule->n_limits; i++) {
        const uint64_t capacity = limit_capacity(&rule->limits[i]);
        admission->rules[i] = rule;
        admission->charges[i] = (struct charge){
            .limit = &rule->limits[i],
            .key = key,
            .verdict = {.limit = capacity, .retry_after = RETRY_UNKNOWN},
        };
    }
}

/* What the operators have set for a key of a rule. */
enum said { SAID_NOTHING, SAID_BAN, SAID_SHADOW_BAN, SAID_EXEMPT };

static enum said look_up(const struct admission_context *context, const struct limit_rule *rule,
                         struct span key, struct ban_found *found)
{
    if (context->bans == NULL ||
        !bans_view_find(context->bans, rule->name, key, context->policy->store.secret,
                        context->now_us, found)) {
        return SAID_NOTHING;
    }
    if (found->kind == BAN_EXEMPTS) {
        return SAID_EXEMPT;
    }
    return rule->limits[0].shadow ? SAID_SHADOW_BAN : SAID_BAN;
}

/* The identity charged by an earlier rule that has the same key as @rule; data is NULL: none. */
static struct span known_key(const struct admission *admission, const struct limit_rule *rule)
{
    for (size_t i = 0; i < admission->decision.n_charges && !admission->has_several; i++) {
        if (admission->rules[i]->key_number == rule->key_number) {
            return admission->charges[i].key;
        }
    }
    return span_of(NULL, 0);
}

/* As admission_read_key(), into the arena. RULE_JUDGES with *key without data: no memory. */
static enum rule_outcome take_key(const struct preparation *preparation,
                                  const struct limit_rule *rule, size_t i, size_t *n,
                                  struct span *key)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    *n = 1;
    *key = known_key(preparation->admission, rule);
    if (key->data != NULL && !awaits_token(rule, preparation->request)) {
        return is_excepted(rule, preparation->request) ? RULE_EXCEPTS
                                                       : judge_key(preparation->request, *key);
    }
    const enum rule_outcome outcome = admission_read_key(
        rule, preparation->request, preparation->context->policy->store.secret, i, n, &text);
    if (outcome == RULE_JUDGES) {
        *key = arena_copy(preparation->arena, text_span(&text));
    }
    return outcome;
}

/* The rule adds no charge for the identity. */
static enum admission_result pass_over(struct admission *admission)
{
    admission->is_complete = false;
    return ADMISSION_TO_DECIDE;
}

/* The limits of the plan that @key has in @rule; NULL: it is unlimited. */
static const struct limit *limits_of_plan(const struct preparation *preparation,
                                          const struct limit_rule *rule, struct span key)
{
    const struct admission_context *context = preparation->context;
    struct admission *admission = preparation->admission;
    struct plan_choice choice;
    plan_choose(context, rule, preparation->request, key, &choice);
    if (choice.unknown_len > 0) {
        admission->unknown_plan = rule;
        admission->unknown_len = choice.unknown_len;
        memcpy(admission->unknown_name, choice.unknown, choice.unknown_len);
    }
    if (choice.plan == NULL) {
        return rule->limits;
    }
    admission->is_complete = false; /* the route's field names the rates of the rules */
    return choice.plan->limits;
}

/* Read identity number @i of *n of rule @at, and add a charge for each of the rule's limits. */
static enum admission_result prepare_identity(const struct preparation *preparation, size_t at,
                                              size_t i, size_t *n)
{
    const struct limit_rule *rule = preparation->route->rules[at];
    const uint32_t own_cost = route_own_cost(preparation->route, at);
    struct admission *admission = preparation->admission;
    const bool is_shadow = rule->limits[0].shadow;
    struct span key;
    switch (take_key(preparation, rule, i, n, &key)) {
    case RULE_JUDGES:
        break;
    case RULE_IS_AMBIGUOUS:
        return ADMISSION_AMBIGUOUS;
    case RULE_DENIES:
        admission->lacked = rule;
        return ADMISSION_REFUSED;
    case RULE_EXCEPTS:
    case RULE_SKIPS:
        return pass_over(admission);
    }
    if (key.data == NULL) {
        return ADMISSION_FAILED;
    }
    /* Beyond the identities reserved for each rule, only enforced rules add charges: a shadow rule
     * must not make an enforced one refuse the request. */
    if (i >= KEY_IDENTITIES_RESERVED && is_shadow) {
        return pass_over(admission);
    }
    struct ban_found found;
    switch (look_up(preparation->context, rule, key, &found)) {
    case SAID_NOTHING:
        break;
    case SAID_BAN:
        deny_by_ban(preparation, rule, key, &found);
        return ADMISSION_BANNED;
    case SAID_SHADOW_BAN:
        admission->shadow_bans |= ((UINT32_C(1) << rule->n_limits) - 1)
                                  << admission->decision.n_charges;
        break;
    case SAID_EXEMPT:
        return pass_over(admission);
    }
    if (admission->decision.n_charges + rule->n_limits > LIMITS_PER_ROUTE_MAX) {
        (void)pass_over(admission);
        return is_shadow ? ADMISSION_TO_DECIDE : ADMISSION_AMBIGUOUS;
    }
    const struct limit *limits = rule->limits;
    if (UNLIKELY(rule->n_plans > 0)) {
        limits = limits_of_plan(preparation, rule, key);
        if (limits == NULL) {
            return pass_over(admission);
        }
    }
    const uint32_t cost =
        own_cost > 0 ? own_cost : cost_of_request(&preparation->route->cost, preparation->request);
    if (own_cost > 0) {
        admission->own_costs |= ((UINT32_C(1) << rule->n_limits) - 1)
                                << admission->decision.n_charges;
    }
    for (size_t j = 0; j < rule->n_limits; j++) {
        add_charge(preparation, rule, limits, j, key, cost);
    }
    return ADMISSION_TO_DECIDE;
}

static enum admission_result prepare_rule(const struct preparation *preparation, size_t at)
{
    const struct limit_rule *rule = preparation->route->rules[at];
    const bool *left_out = preparation->context->left_out;
    enum admission_result result = ADMISSION_TO_DECIDE;
    size_t n = 1;
    if (left_out != NULL && left_out[rule->limits[0].index]) {
        return pass_over(preparation->admission);
    }
    for (size_t i = 0; i < n && result == ADMISSION_TO_DECIDE; i++) {
        result = prepare_identity(preparation, at, i, &n);
        preparation->admission->has_several = preparation->admission->has_several || n > 1;
    }
    return result;
}

static ALWAYS_INLINE enum admission_result prepare_rules(const struct preparation *preparation)
{
    struct admission *admission = preparation->admission;
    for (size_t i = 0; i < preparation->route->n_rules; i++) {
        const enum admission_result result = prepare_rule(preparation, i);
        if (result == ADMISSION_BANNED) {
            return result;
        }
        if (result != ADMISSION_TO_DECIDE) {
            admission->decision.n_charges = 0; /* nothing is judged */
            return result;
        }
    }
    return admission->decision.n_charges > 0 ? ADMISSION_TO_DECIDE : ADMISSION_FREE;
}

/* The same, where keys read cookies or parameters several times. NEVER_INLINE because their values
 * need a large stack frame. */
static NEVER_INLINE enum admission_result prepare_with_names(const struct preparation *preparation)
{
    struct named_readings readings;
    struct request_view request = *preparation->request;
    named_readings_init(&readings, preparation->route->names);
    request.named = &readings;
    const struct preparation reading = {preparation->admission, preparation->context,
                                        preparation->route, &request, preparation->arena};
    return prepare_rules(&reading);
}

enum admission_result admission_prepare(struct admission *admission,
                                        const struct admission_context *context,
                                        const struct route *route,
                                        const struct request_view *request, struct arena *arena)
{
    decision_init(&admission->decision, admission->charges, 0);
    admission->is_complete = true;
    admission->has_several = false;
    admission->lacked = NULL;
    admission->unknown_plan = NULL;
    admission->shadow_bans = 0;
    admission->own_costs = 0;
    admission->lent = 0;
    admission->raised = 0;
    const struct preparation preparation = {admission, context, route, request, arena};
    return UNLIKELY(route->names != NULL) ? prepare_with_names(&preparation)
                                          : prepare_rules(&preparation);
}

static bool is_shaped(const struct charge *charge)
{
    return charge->limit->params.max_wait > 0 && !charge->limit->shadow;
}

bool admission_is_shaped(const struct admission *admission)
{
    size_t i = 0;
    while (i < admission->decision.n_charges && !is_shaped(&admission->charges[i])) {
        i++;
    }
    return i < admission->decision.n_charges;
}

/* How long after the departure that @charge gives the request none other leaves. */
static uint64_t gap_us(const struct charge *charge)
{
    const struct limit_params *params = &charge->limit->params;
    return limit_us(charge->limit, charge->cost * params->period / params->rate);
}

bool admission_find_wait(const struct admission *admission, uint64_t *wait_us)
{
    uint64_t latest_us = 0;
    bool is_one = true;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        if (is_shaped(charge) && limit_us(charge->limit, charge->verdict.wait) > latest_us) {
            latest_us = limit_us(charge->limit, charge->verdict.wait);
        }
    }
    for (size_t i = 0; admission->has_several && i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        is_one =
            is_one && (!is_shaped(charge) ||
                       latest_us - limit_us(charge->limit, charge->verdict.wait) <= gap_us(charge));
    }
    *wait_us = latest_us;
    return is_one;
}

bool admission_is_counted(const struct admission *admission)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (admission->charges[i].charged && !admission->charges[i].limit->shadow) {
            return true;
        }
    }
    return false;
}

bool admission_has_slots(const struct admission *admission)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (admission->charges[i].slot != 0 && admission->charges[i].charged) {
            return true;
        }
    }
    return false;
}

bool admission_is_shadow_denial(const struct admission *admission, size_t i)
{
    const struct charge *charge = &admission->charges[i];
    return charge->limit->shadow &&
           (!charge->verdict.allowed || (admission->shadow_bans >> i & 1) != 0);
}

/* How much the charge of index @i says about its limit: 2 a denial, 1 an allowance, 0 nothing. */
static unsigned weight_of(const struct admission *admission, size_t i)
{
    const struct charge *charge = &admission->charges[i];
    if (charge->unreported) {
        return 0;
    }
    return !charge->verdict.allowed || (admission->shadow_bans >> i & 1) != 0 ? 2 : 1;
}

/* Whether the charge of index @i says more about their common limit than that of index @j. */
static bool outweighs(const struct admission *admission, size_t i, size_t j)
{
    const unsigned weight_of_i = weight_of(admission, i);
    const unsigned weight_of_j = weight_of(admission, j);
    const struct limit *limit = admission->charges[i].limit;
    const struct fields_legacy reported_i = fields_legacy_of(limit, &admission->charges[i].verdict);
    const struct fields_legacy reported_j = fields_legacy_of(limit, &admission->charges[j].verdict);
    if (weight_of_i != weight_of_j) {
        return weight_of_i > weight_of_j;
    }
    return fields_is_nearer(&reported_i, &reported_j) ||
           (i < j && !fields_is_nearer(&reported_j, &reported_i));
}

bool admission_speaks_of_several(const struct admission *admission, size_t i)
{
    for (size_t j = 0; j < admission->decision.n_charges; j++) {
        if (j != i && admission->charges[j].limit == admission->charges[i].limit &&
            outweighs(admission, j, i)) {
            return false;
        }
    }
    return true;
}

static bool is_denial(const struct charge *charge)
{
    return !charge->limit->shadow && !charge->verdict.allowed;
}

const struct charge *admission_first_denied(const struct admission *admission)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (is_denial(&admission->charges[i])) {
            return &admission->charges[i];
        }
    }
    return NULL;
}

static bool is_ban(const struct admission *admission)
{
    return admission->decision.source == DECISION_BAN;
}

struct span admission_denier(const struct admission *admission, const struct charge *denied)
{
    return is_ban(admission) ? admission->rules[denied - admission->charges]->name
                             : denied->limit->name;
}

const struct reply_spec *admission_deny_reply(const struct admission *admission)
{
    const struct charge *denied = admission_first_denied(admission);
    return denied == NULL || is_ban(admission)
               ? NULL
               : admission->rules[denied - admission->charges]->deny;
}

enum grpc_status admission_grpc_status(const struct admission *admission)
{
    static const enum grpc_status STATUSES[] = {
        [GRPC_DENIAL_RESOURCE_EXHAUSTED] = GRPC_RESOURCE_EXHAUSTED,
        [GRPC_DENIAL_UNAVAILABLE] = GRPC_UNAVAILABLE,
        [GRPC_DENIAL_HTTP] = GRPC_NONE,
    };
    const struct charge *denied = admission_first_denied(admission);
    return denied == NULL ? GRPC_RESOURCE_EXHAUSTED
                          : STATUSES[admission->rules[denied - admission->charges]->grpc_denial];
}

bool admission_retry_after_s(const struct admission *admission, uint64_t *seconds)
{
    uint64_t longest = 0;
    if (is_ban(admission)) {
        *seconds = admission->ban.left_us / US_PER_S + (admission->ban.left_us % US_PER_S > 0);
        return true;
    }
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        uint64_t wanted;
        if (!is_denial(charge)) {
            continue;
        }
        if (!fields_retry_after_s(charge->limit, &charge->verdict, &wanted)) {
            return false;
        }
        longest = wanted > longest ? wanted : longest;
    }
    *seconds = longest;
    return longest > 0;
}

bool admission_retry_after_ms(const struct admission *admission, uint64_t *milliseconds)
{
    uint64_t longest_us = is_ban(admission) ? admission->ban.left_us : 0;
    for (size_t i = 0; i < admission->decision.n_charges && !is_ban(admission); i++) {
        const struct charge *charge = &admission->charges[i];
        if (!is_denial(charge)) {
            continue;
        }
        if (charge->verdict.retry_after >= RETRY_UNKNOWN) {
            return false;
        }
        const uint64_t wait_us = limit_us(charge->limit, charge->verdict.retry_after);
        longest_us = wait_us > longest_us ? wait_us : longest_us;
    }
    const uint64_t ms = longest_us / 1000 + (longest_us % 1000 > 0);
    *milliseconds = ms > INT32_MAX ? INT32_MAX : ms;
    return ms > 0;
}

/* The beginning of a problem document, up to the names of the limits that deny. */
#define PROBLEM(TYPE, TITLE)                                                                       \
    SPAN("{\"type\":\"https://iana.org/assignments/http-problem-types#" TYPE                       \
         "\",\"title\":\"" TITLE "\",\"status\":429,\"violated-policies\":[")

/* The names of the limits that deny; for a ban, the name of its rule. */
static void write_deniers(const struct admission *admission, struct text *text)
{
    bool is_first = true;
    if (is_ban(admission)) {
        text_add_json(text, admission->rules[0]->name);
        return;
    }
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (is_denial(&admission->charges[i]) && admission_speaks(admission, i)) {
            text_add(text, is_first ? SPAN("") : SPAN(","));
            text_add_json(text, admission->charges[i].limit->name);
            is_first = false;
        }
    }
}

/* The limit that denies, or whose key is lacking. */
static struct span denier_of(const struct admission *admission)
{
    return admission->lacked != NULL
               ? admission->lacked->name
               : admission_denier(admission, admission_first_denied(admission));
}

void admission_write_reply(const struct admission *admission, struct span text,
                           struct span request_id, struct text *out)
{
    struct span before;
    enum reply_value value;
    uint64_t wait_s;
    while (reply_next_value(&text, &before, &value)) {
        text_add(out, before);
        switch (value) {
        case REPLY_VALUE_LIMIT:
            text_add(out, denier_of(admission));
            break;
        case REPLY_VALUE_WAIT:
            if (admission_retry_after_s(admission, &wait_s)) {
                text_add_u64(out, wait_s);
            } else {
                text_add_literal(out, "null");
            }
            break;
        case REPLY_VALUE_REQUEST_ID:
            text_add(out, request_id);
            break;
        case REPLY_VALUE_NONE: /* a loaded policy has none */
            break;
        }
    }
    text_add(out, before);
}

void admission_write_problem(const struct admission *admission, bool has_retry_after,
                             uint64_t retry_after_s, struct text *text)
{
    text_add(text, is_ban(admission) ? PROBLEM("abnormal-usage-detected", "Abnormal usage detected")
                                     : PROBLEM("quota-exceeded", "Quota exceeded"));
    write_deniers(admission, text);
    text_add_literal(text, "]");
    if (has_retry_after) {
        text_add_literal(text, ",\"retry-after\":");
        text_add_u64(text, retry_after_s);
    }
    text_add_literal(text, "}\n");
}
