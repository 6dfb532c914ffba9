#include "proxy/admission.h"

#include "limit/calendar.h"

static bool is_excepted(const struct limit_rule *rule, const struct request_view *request)
{
    return rule->n_except > 0 && address_is_in(&request->client, rule->except, rule->n_except);
}

/* Slots are one each, whatever a request costs otherwise. */
static void add_charge(struct admission *admission, const struct admission_context *context,
                       const struct limit_rule *rule, size_t i, struct span key, uint32_t cost)
{
    const struct limit *limit = &rule->limits[i];
    const size_t at = admission->decision.n_charges++;
    admission->rules[at] = rule;
    admission->charges[at] = (struct charge){.limit = limit, .key = key, .cost = cost};
    if (limit->algorithm->has_slots) {
        admission->charges[at].cost = 1;
        admission->charges[at].slot = context->first_slot + at;
    }
    /* Where the calendar does not reach, the store says that it does not know the window. */
    if (limit->params.is_calendar &&
        calendar_find(rule->calendars[i], context->wall_us, admission->edges[at])) {
        admission->charges[at].edges = admission->edges[at];
    }
}

enum rule_standing admission_read_key(const struct limit_rule *rule,
                                      const struct request_view *request, struct span secret,
                                      size_t i, size_t *n, struct text *key)
{
    *n = 1;
    if (is_excepted(rule, request)) {
        return RULE_EXCEPTS;
    }
    switch (key_read_nth(&rule->key, rule->missing, request, secret, i, n, key)) {
    case KEY_READ:
        return RULE_JUDGES;
    case KEY_IS_AMBIGUOUS: /* a limit that is not enforced refuses nobody */
        *n = 1;
        return rule->limits[0].shadow ? RULE_SKIPS : RULE_IS_AMBIGUOUS;
    case KEY_LACKS_A_PART:
        break;
    }
    return rule->missing == KEY_MISSING_DENY ? RULE_REFUSES : RULE_SKIPS;
}

/* The request is denied by a ban of @rule: what other limits it meets does not matter. */
static void deny_by_ban(struct admission *admission, const struct admission_context *context,
                        const struct limit_rule *rule, struct span key, uint64_t left_us)
{
    struct decision *decision = &admission->decision;
    decision->n_charges = rule->n_limits;
    decision->status = STATUS_OK;
    decision->allowed = false;
    decision->source = DECISION_BAN;
    decision->now_us = context->now_us;
    admission->ban_left_us = left_us;
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

/* What operators have said of @key of @rule. */
enum said { SAID_NOTHING, SAID_BAN, SAID_SHADOW_BAN, SAID_EXEMPT };

static enum said look_up(const struct admission_context *context, const struct limit_rule *rule,
                         struct span key, uint64_t *left_us)
{
    enum ban_kind kind;
    if (context->bans == NULL ||
        !ban_table_find(context->bans, rule->name, key, context->policy->store.secret,
                        context->now_us, &kind, left_us)) {
        return SAID_NOTHING;
    }
    if (kind == BAN_EXEMPTS) {
        return SAID_EXEMPT;
    }
    return rule->limits[0].shadow ? SAID_SHADOW_BAN : SAID_BAN;
}

/* The identity that a rule before @rule was charged to by the same key; data is NULL: none was. */
static struct span known_key(const struct admission *admission, const struct limit_rule *rule)
{
    for (size_t i = 0; i < admission->decision.n_charges && !admission->has_several; i++) {
        if (admission->rules[i]->key_number == rule->key_number) {
            return admission->charges[i].key;
        }
    }
    return span_of(NULL, 0);
}

/* As admission_read_key(), into @arena; a text without data is for want of memory. */
static enum rule_standing take_key(const struct admission *admission,
                                   const struct admission_context *context,
                                   const struct request_view *request,
                                   const struct limit_rule *rule, struct arena *arena, size_t i,
                                   size_t *n, struct span *key)
{
    char buffer[KEY_TEXT_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    *n = 1;
    *key = known_key(admission, rule);
    if (key->data != NULL) {
        return is_excepted(rule, request) ? RULE_EXCEPTS : RULE_JUDGES;
    }
    const enum rule_standing standing =
        admission_read_key(rule, request, context->policy->store.secret, i, n, &text);
    if (standing == RULE_JUDGES) {
        *key = arena_copy(arena, text_span(&text));
    }
    return standing;
}

/* True if @rule passes over its identity of number @i. What is beyond the room that each rule has
 * is for rules that are enforced: a shadow must not make one of those refuse the request. */
static bool is_passed_over(const struct limit_rule *rule, size_t i)
{
    return i >= KEY_IDENTITIES_RESERVED && rule->limits[0].shadow;
}

/* One rule and one identity, number @i of *n: read it and add a charge for each of the rates. */
static enum admission_result
prepare_identity(struct admission *admission, const struct admission_context *context,
                 const struct route *route, const struct request_view *request,
                 const struct limit_rule *rule, struct arena *arena, size_t i, size_t *n)
{
    struct span key;
    switch (take_key(admission, context, request, rule, arena, i, n, &key)) {
    case RULE_JUDGES:
        break;
    case RULE_IS_AMBIGUOUS:
        return ADMISSION_AMBIGUOUS;
    case RULE_REFUSES:
        admission->lacked = rule;
        return ADMISSION_REFUSED;
    case RULE_EXCEPTS:
    case RULE_SKIPS:
        admission->is_complete = false;
        return ADMISSION_TO_DECIDE;
    }
    if (key.data == NULL) {
        return ADMISSION_FAILED;
    }
    if (is_passed_over(rule, i)) {
        admission->is_complete = false;
        return ADMISSION_TO_DECIDE;
    }
    uint64_t left_us;
    switch (look_up(context, rule, key, &left_us)) {
    case SAID_NOTHING:
        break;
    case SAID_BAN:
        deny_by_ban(admission, context, rule, key, left_us);
        return ADMISSION_BANNED;
    case SAID_SHADOW_BAN:
        admission->shadow_bans |= ((UINT32_C(1) << rule->n_limits) - 1)
                                  << admission->decision.n_charges;
        break;
    case SAID_EXEMPT:
        admission->is_complete = false;
        return ADMISSION_TO_DECIDE;
    }
    if (admission->decision.n_charges + rule->n_limits > LIMITS_PER_ROUTE_MAX) {
        admission->is_complete = false;
        return rule->limits[0].shadow ? ADMISSION_TO_DECIDE : ADMISSION_AMBIGUOUS;
    }
    const uint32_t cost = cost_of_request(&route->cost, request);
    for (size_t j = 0; j < rule->n_limits; j++) {
        add_charge(admission, context, rule, j, key, cost);
    }
    return ADMISSION_TO_DECIDE;
}

static enum admission_result prepare_rule(struct admission *admission,
                                          const struct admission_context *context,
                                          const struct route *route,
                                          const struct request_view *request,
                                          const struct limit_rule *rule, struct arena *arena)
{
    enum admission_result result = ADMISSION_TO_DECIDE;
    size_t n = 1;
    for (size_t i = 0; i < n && result == ADMISSION_TO_DECIDE; i++) {
        result = prepare_identity(admission, context, route, request, rule, arena, i, &n);
        admission->has_several = admission->has_several || n > 1;
    }
    return result;
}

enum admission_result admission_prepare(struct admission *admission,
                                        const struct admission_context *context,
                                        const struct route *route,
                                        const struct request_view *request, struct arena *arena)
{
    admission->decision = (struct decision){.charges = admission->charges};
    admission->is_complete = true;
    admission->has_several = false;
    admission->lacked = NULL;
    admission->shadow_bans = 0;
    for (size_t i = 0; i < route->n_rules; i++) {
        const enum admission_result result =
            prepare_rule(admission, context, route, request, route->rules[i], arena);
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

static bool has_enforced(const struct admission *admission)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (!admission->charges[i].limit->shadow) {
            return true;
        }
    }
    return false;
}

bool admission_has_verdicts(const struct admission *admission)
{
    return has_enforced(admission) && admission->decision.status == STATUS_OK &&
           admission->decision.source != DECISION_SKIPPED &&
           admission->decision.source != DECISION_BAN;
}

struct span admission_policy_field(const struct admission *admission, const struct route *route,
                                   struct text *text)
{
    if (admission->is_complete) {
        return route->policy_field;
    }
    bool is_first = true;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct limit *limit = admission->charges[i].limit;
        if (!limit->shadow && admission_speaks(admission, i)) {
            text_add(text, is_first ? SPAN("") : SPAN(", "));
            fields_write_policy(text, limit);
            is_first = false;
        }
    }
    return text_span(text);
}

/* Whether its verdict is told. */
static bool is_shown(const struct charge *charge)
{
    return !charge->limit->shadow && !charge->untold;
}

void admission_write_state_field(const struct admission *admission, enum fields_draft draft,
                                 struct text *text)
{
    bool is_first = true;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        if (is_shown(charge) && admission_speaks(admission, i)) {
            text_add(text, is_first ? SPAN("") : SPAN(", "));
            fields_write_state(text, draft, charge->limit, &charge->verdict, charge->cost);
            is_first = false;
        }
    }
}

bool admission_find_nearest(const struct admission *admission, struct fields_legacy *nearest)
{
    bool is_found = false;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const struct fields_legacy told = fields_legacy_of(charge->limit, &charge->verdict);
        if (is_shown(charge) && (!is_found || fields_is_nearer(&told, nearest))) {
            *nearest = told;
            is_found = true;
        }
    }
    return is_found;
}

uint64_t admission_wait_us(const struct admission *admission)
{
    uint64_t longest_us = 0;
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const uint64_t wait_us = limit_us(charge->limit, charge->verdict.wait);
        if (!charge->limit->shadow && wait_us > longest_us) {
            longest_us = wait_us;
        }
    }
    return longest_us;
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

/* How much the charge of index @i has to say of its limit. */
static unsigned weight_of(const struct admission *admission, size_t i)
{
    const struct charge *charge = &admission->charges[i];
    if (charge->untold) {
        return 0;
    }
    return !charge->verdict.allowed || (admission->shadow_bans >> i & 1) != 0 ? 2 : 1;
}

/* Whether the charge of index @i says more of their limit than that of index @j. */
static bool outweighs(const struct admission *admission, size_t i, size_t j)
{
    const unsigned weight_of_i = weight_of(admission, i);
    const unsigned weight_of_j = weight_of(admission, j);
    const struct limit *limit = admission->charges[i].limit;
    const struct fields_legacy told_i = fields_legacy_of(limit, &admission->charges[i].verdict);
    const struct fields_legacy told_j = fields_legacy_of(limit, &admission->charges[j].verdict);
    if (weight_of_i != weight_of_j) {
        return weight_of_i > weight_of_j;
    }
    return fields_is_nearer(&told_i, &told_j) || (i < j && !fields_is_nearer(&told_j, &told_i));
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

struct span admission_denier(const struct admission *admission, const struct charge *denied)
{
    return admission->decision.source == DECISION_BAN
               ? admission->rules[denied - admission->charges]->name
               : denied->limit->name;
}

const struct deny_reply *admission_deny_reply(const struct admission *admission)
{
    const struct charge *denied = admission_first_denied(admission);
    return denied == NULL ? NULL : admission->rules[denied - admission->charges]->deny;
}

bool admission_retry_after_s(const struct admission *admission, uint64_t *seconds)
{
    uint64_t longest = 0;
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

void admission_write_ban(const struct admission *admission, uint64_t retry_after_s,
                         struct text *text)
{
    text_add_literal(text, "{\"type\":\"https://iana.org/assignments/http-problem-types"
                           "#abnormal-usage-detected\",\"title\":\"Abnormal usage detected\","
                           "\"status\":429,\"violated-policies\":[");
    text_add_json(text, admission->rules[0]->name);
    text_add_literal(text, "],\"retry-after\":");
    text_add_u64(text, retry_after_s);
    text_add_literal(text, "}\n");
}

void admission_write_problem(const struct admission *admission, bool has_retry_after,
                             uint64_t retry_after_s, struct text *text)
{
    bool is_first = true;
    text_add_literal(text, "{\"type\":\"https://iana.org/assignments/http-problem-types"
                           "#quota-exceeded\",\"title\":\"Quota exceeded\",\"status\":429,"
                           "\"violated-policies\":[");
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        if (is_denial(&admission->charges[i]) && admission_speaks(admission, i)) {
            text_add(text, is_first ? SPAN("") : SPAN(","));
            text_add_json(text, admission->charges[i].limit->name);
            is_first = false;
        }
    }
    text_add_literal(text, "]");
    if (has_retry_after) {
        text_add_literal(text, ",\"retry-after\":");
        text_add_u64(text, retry_after_s);
    }
    text_add_literal(text, "}\n");
}
