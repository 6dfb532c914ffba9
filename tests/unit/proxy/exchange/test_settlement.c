#include "settlement_stage.h"
#include "support/iterations.h"

static void settle(uint16_t status, enum answer_end end)
{
    const struct outcome outcome = {.status = status, .end = end};
    settlement_make(&admission, &outcome, &store);
}

START_TEST(what_was_charged_rightly_is_left_alone)
{
    settle(200, ANSWER_WHOLE);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

START_TEST(answers_that_a_limit_does_not_count_are_given_back)
{
    rules[1].charge_on.is_said = true;
    answer_set_add(&rules[1].charge_on, 401, 401);
    settle(200, ANSWER_WHOLE);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_ptr_eq(reported[0].limit, &limits[1]);
    ck_assert_int_eq(reported[0].kind, SETTLE_COST);
    ck_assert_int_eq(reported[0].delta, -10);
    ck_assert_uint_eq(reported[0].charged_at_us, 77);
    ck_assert_int_eq(reported[0].source, DECISION_REDIS);
    ck_assert_ptr_eq(reported[0].client, &admission.decision.client);
}
END_TEST

START_TEST(answers_that_a_limit_counts_stay_charged)
{
    rules[1].charge_on.is_said = true;
    answer_set_add(&rules[1].charge_on, 401, 401);
    settle(401, ANSWER_WHOLE);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

/* What of a charge of 10 units is given back. */
static int64_t given_back(const struct answer_set *count, const struct answer_set *refund,
                          uint16_t status, enum answer_end end)
{
    set_up();
    rules[0].charge_on = *count;
    rules[0].refund_on = *refund;
    settle(status, end);
    return n_reported == 0 ? 0 : -reported[0].delta;
}

/* Rows: how a request ended. Columns: what is given back where the limit says
 * count 401; refund 5xx; count 401 and refund 401; refund server_failed; refund client_left;
 * count 401 and refund client_left; count client_left. */
enum { SAYINGS = 7 };

static const struct {
    uint16_t status;
    enum answer_end end;
    int64_t given_back[SAYINGS];
} ENDS[] = {
    /* clang-format off */
    {200, ANSWER_WHOLE,         {10,  0, 10,  0,  0, 10, 10}},
    {401, ANSWER_WHOLE,         { 0,  0, 10,  0,  0,  0, 10}},
    {404, ANSWER_WHOLE,         {10,  0, 10,  0,  0, 10, 10}},
    {406, ANSWER_WHOLE,         { 0,  0,  0,  0,  0,  0, 10}},
    {500, ANSWER_WHOLE,         { 0, 10,  0,  0,  0,  0, 10}},
    {502, ANSWER_WHOLE,         { 0, 10,  0,  0,  0,  0, 10}},
    {0,   ANSWER_CLIENT_LEFT,   { 0,  0,  0,  0, 10, 10,  0}},
    {200, ANSWER_CLIENT_LEFT,   { 0,  0,  0,  0, 10, 10,  0}},
    {401, ANSWER_CLIENT_LEFT,   { 0,  0,  0,  0, 10, 10,  0}},
    {500, ANSWER_CLIENT_LEFT,   { 0,  0,  0,  0, 10, 10,  0}},
    {400, ANSWER_CLIENT_LEFT,   { 0,  0,  0,  0, 10, 10,  0}},
    {500, ANSWER_SERVER_FAILED, { 0, 10,  0, 10,  0,  0, 10}},
    {200, ANSWER_SERVER_FAILED, {10,  0, 10, 10,  0, 10, 10}},
    {401, ANSWER_SERVER_FAILED, { 0,  0, 10, 10,  0,  0, 10}},
    {0,   ANSWER_SERVER_FAILED, {10,  0, 10, 10,  0, 10, 10}},
    {502, ANSWER_REFUSED,       { 0,  0,  0,  0,  0,  0,  0}},
    {401, ANSWER_REFUSED,       { 0,  0,  0,  0,  0,  0,  0}},
    {304, ANSWER_WHOLE,         {10,  0, 10,  0,  0, 10, 10}},
    {0,   ANSWER_EVICTED,       { 0,  0,  0,  0,  0,  0,  0}},
    {200, ANSWER_EVICTED,       {10,  0, 10,  0,  0, 10, 10}},
    {401, ANSWER_EVICTED,       { 0,  0, 10,  0,  0,  0, 10}},
    {500, ANSWER_EVICTED,       { 0, 10,  0,  0,  0,  0, 10}},
    /* clang-format on */
};

START_TEST(what_was_evicted_before_a_server_was_sent_it_is_given_back_by_charge_on)
{
    const struct outcome outcome = {.end = ANSWER_EVICTED, .is_unsent = true};
    rules[0].charge_on = (struct answer_set){.is_said = true, .client_left = true};
    rules[1].refund_on =
        (struct answer_set){.is_said = true, .client_left = true, .server_failed = true};
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_ptr_eq(reported[0].limit, &limits[0]);
    ck_assert_int_eq(reported[0].delta, -10);
}
END_TEST

START_TEST(what_no_server_was_sent_counts_only_where_client_left_is_listed)
{
    const struct outcome outcome = {.status = 408, .end = ANSWER_CLIENT_LEFT, .is_unsent = true};
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 400, 499);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_ptr_eq(reported[0].limit, &limits[0]);
    ck_assert_int_eq(reported[0].delta, -10);

    set_up();
    rules[0].charge_on.is_said = true;
    rules[0].charge_on.client_left = true;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

START_TEST(an_error_of_sluice_hides_no_refusal)
{
    const struct outcome outcomes[] = {
        {.status = 503, .end = ANSWER_SERVER_FAILED, .is_unsent = true},
        {.status = 503, .end = ANSWER_WHOLE, .is_unanswered = true}, /* respond of the route */
        {.status = 406, .end = ANSWER_WHOLE, .is_unanswered = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        set_up();
        rules[0].charge_on.is_said = true;
        answer_set_add(&rules[0].charge_on, 401, 401);
        settlement_make(&admission, &outcomes[i], &store);
        ck_assert_uint_eq(n_reported, 1);
        ck_assert_int_eq(reported[0].delta, -10);
    }
}
END_TEST

START_TEST(a_304_counts_as_the_200_that_it_stands_for)
{
    const struct outcome outcome = {.status = 304, .end = ANSWER_WHOLE};
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 0);
    set_up();
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    rules[0].refund_on.is_said = true;
    answer_set_add(&rules[0].refund_on, 304, 304);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
}
END_TEST

START_TEST(a_refused_request_is_charged_whatever_its_head_was)
{
    static const uint16_t STATUSES[] = {406, 502};
    for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++) {
        const struct outcome outcome = {
            .status = STATUSES[i], .end = ANSWER_REFUSED, .is_doubtful = STATUSES[i] == 502};
        set_up();
        rules[0].refund_on.is_said = true;
        answer_set_add(&rules[0].refund_on, STATUSES[i], STATUSES[i]);
        settlement_make(&admission, &outcome, &store);
        ck_assert_uint_eq(n_reported, 0);
    }
}
END_TEST

START_TEST(an_error_in_place_of_a_refusal_is_given_back_where_refund_on_has_its_class)
{
    const struct outcome outcome = {.status = 500, .end = ANSWER_WHOLE};
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 401, 401);
    rules[0].refund_on.is_said = true;
    answer_set_add(&rules[0].refund_on, 500, 599);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, -10);
}
END_TEST

START_TEST(what_a_server_was_sent_and_does_not_answer_is_given_back_only_where_refund_on_says_so)
{
    const struct outcome outcome = {
        .status = 504, .end = ANSWER_SERVER_FAILED, .is_unanswered = true};
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_calls, 0);

    set_up();
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    rules[0].refund_on.is_said = true;
    rules[0].refund_on.server_failed = true;
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].delta, -10);
}
END_TEST

static const struct outcome LOST[] = {
    {.status = 502, .end = ANSWER_SERVER_FAILED, .is_unreadable = true},
    {.status = 502, .end = ANSWER_WHOLE, .is_doubtful = true},
    {.status = 503, .end = ANSWER_WHOLE, .is_doubtful = true},
    {.status = 504, .end = ANSWER_WHOLE, .is_doubtful = true},
    {.status = 413, .end = ANSWER_WHOLE, .is_doubtful = true},
};

START_TEST(an_answer_that_was_lost_between_is_given_back_only_where_its_status_is_named)
{
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    rules[1].refund_on.is_said = true;
    rules[1].refund_on.server_failed = true;
    answer_set_add(&rules[1].refund_on, 500, 599);
    settlement_make(&admission, &LOST[_i], &store);
    ck_assert_uint_eq(n_calls, 0);

    set_up();
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 200, 299);
    answer_set_add(&rules[0].refund_on, LOST[_i].status, LOST[_i].status);
    settlement_make(&admission, &LOST[_i], &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_ptr_eq(reported[0].limit, &limits[0]);
    ck_assert_int_eq(reported[0].delta, -10);
}
END_TEST

START_TEST(an_answer_whose_head_was_sent_is_charged_though_the_client_left)
{
    struct limit_rule rule = {.charge_on = {.is_said = true}};
    const struct limit_rule silent = {.charge_on = {.is_said = false}};
    answer_set_add(&rule.charge_on, 401, 401);
    const struct {
        struct outcome outcome;
        bool is_charged;
    } cases[] = {
        {{.status = 401, .end = ANSWER_WHOLE}, true},
        {{.status = 401, .end = ANSWER_CLIENT_LEFT}, true},
        {{.status = 200, .end = ANSWER_CLIENT_LEFT}, false},
        {{.status = 0, .end = ANSWER_CLIENT_LEFT}, false},
        {{.status = 401, .end = ANSWER_CLIENT_LEFT, .is_unsent = true}, false},
        {{.status = 502, .end = ANSWER_SERVER_FAILED, .is_unreadable = true}, true},
        {{.status = 502, .end = ANSWER_SERVER_FAILED}, false},
        {{.status = 401, .end = ANSWER_REFUSED}, false},
        {{.status = 401, .end = ANSWER_EVICTED}, true},
        {{.status = 0, .end = ANSWER_EVICTED}, false},
    };
    const struct limit_rule leavers = {.charge_on = {.is_said = true, .client_left = true}};
    const struct outcome evicted = {.end = ANSWER_EVICTED};
    ck_assert(!settlement_is_charged_answer(&leavers, &evicted));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ck_assert_int_eq(settlement_is_charged_answer(&rule, &cases[i].outcome),
                         cases[i].is_charged);
        ck_assert(!settlement_is_charged_answer(&silent, &cases[i].outcome));
    }
}
END_TEST

START_TEST(what_is_given_back_depends_on_who_ended_the_request)
{
    const struct answer_set none = {.is_said = false};
    const struct answer_set left = {.is_said = true, .client_left = true};
    const struct answer_set failed = {.is_said = true, .server_failed = true};
    struct answer_set refused = {.is_said = true};
    struct answer_set errors = {.is_said = true};
    answer_set_add(&refused, 401, 401);
    answer_set_add(&errors, 500, 599);
    const struct {
        const struct answer_set *count;
        const struct answer_set *refund;
    } sayings[SAYINGS] = {{&refused, &none}, {&none, &errors}, {&refused, &refused},
                          {&none, &failed},  {&none, &left},   {&refused, &left},
                          {&left, &none}};
    for (size_t i = 0; i < SAYINGS; i++) {
        ck_assert_int_eq(
            given_back(sayings[i].count, sayings[i].refund, ENDS[_i].status, ENDS[_i].end),
            ENDS[_i].given_back[i]);
    }
}
END_TEST

static const struct {
    uint32_t reported;
    int64_t delta; /* 0: nothing is to be settled */
} LEARNT[] = {{4, -6}, {0, -10}, {25, 15}, {10, 0}};

START_TEST(a_cost_learnt_from_the_response_replaces_the_estimate)
{
    const struct outcome outcome = {
        .status = 200, .is_cost_reported = true, .reported_cost = LEARNT[_i].reported};
    settlement_make(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, LEARNT[_i].delta == 0 ? 0 : 2);
    ck_assert_uint_eq(n_calls, LEARNT[_i].delta == 0 ? 0 : 1);
    if (n_reported > 0) {
        ck_assert_int_eq(reported[0].delta, LEARNT[_i].delta);
    }
}
END_TEST

START_TEST(an_answer_that_is_given_back_costs_nothing_whatever_it_says)
{
    const struct outcome outcome = {.status = 200, .is_cost_reported = true, .reported_cost = 25};
    rules[0].charge_on.is_said = true;
    answer_set_add(&rules[0].charge_on, 401, 401);
    settlement_make(&admission, &outcome, &store);
    ck_assert_int_eq(reported[0].delta, -10);
    ck_assert_int_eq(reported[1].delta, 15);
}
END_TEST

START_TEST(a_slot_is_given_back_however_it_ended_and_once)
{
    admission.charges[0].slot = 9;
    settle(0, ANSWER_SERVER_FAILED);
    settle(0, ANSWER_SERVER_FAILED);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].kind, SETTLE_RELEASE);
    ck_assert_uint_eq(reported[0].slot, 9);
}
END_TEST

START_TEST(slots_of_shared_keys_are_lent_and_taken_again)
{
    struct charge again[2];
    struct decision second;
    hold_slots();
    ck_assert_uint_eq(settlement_count_lendable(&admission), 1);
    settlement_lend(&admission, again, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].kind, SETTLE_RELEASE);
    ck_assert_uint_eq(reported[0].slot, 9);
    ck_assert_int_eq(reported[0].source, DECISION_REDIS);
    ck_assert_ptr_eq(again[0].limit, &limits[0]);
    ck_assert(!again[0].charged && !admission.charges[0].charged && admission.charges[1].charged);
    ck_assert_uint_eq(settlement_count_lendable(&admission), 0);

    decision_init(&second, again, 1);
    second.allowed = true;
    second.source = DECISION_LOCAL;
    again[0].charged = true;
    again[0].slot = 11;
    settlement_retake(&admission, &second);
    settle(200, ANSWER_WHOLE);
    ck_assert_uint_eq(n_reported, 3);
    ck_assert_uint_eq(reported[1].slot, 11);
    ck_assert_int_eq(reported[1].source, DECISION_LOCAL);
    ck_assert_uint_eq(reported[2].slot, 10);
    ck_assert_int_eq(reported[2].source, DECISION_REDIS);
}
END_TEST

START_TEST(a_slot_that_is_not_taken_again_is_not_released)
{
    struct charge again[2];
    hold_slots();
    settlement_lend(&admission, again, &store);
    settle(0, ANSWER_CLIENT_LEFT);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_uint_eq(reported[1].slot, 10);
}
END_TEST

START_TEST(a_request_that_is_denied_after_all_is_given_back)
{
    settlement_undo(&admission, &store);
    settle(429, ANSWER_WHOLE);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[0].kind, SETTLE_COST);
    ck_assert_int_eq(reported[0].delta, -10);
    ck_assert_int_eq(reported[1].delta, -10);
}
END_TEST

START_TEST(a_limit_that_charges_denials_keeps_what_it_took)
{
    limits[0].charge_denied = true;
    admission.charges[1].slot = 9;
    settlement_undo(&admission, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].kind, SETTLE_RELEASE);
    ck_assert_uint_eq(reported[0].slot, 9);
}
END_TEST

START_TEST(the_second_answer_is_that_of_the_request)
{
    struct charge again[2];
    struct decision second;
    hold_slots();
    settlement_lend(&admission, again, &store);
    decision_init(&second, again, 1);
    second.source = DECISION_LOCAL;
    second.failure = STATUS_TIMEOUT;
    admission.decision.allowed = true;
    settlement_retake(&admission, &second);
    ck_assert(!admission.decision.allowed && !admission.charges[0].verdict.allowed);
    ck_assert_int_eq(admission.decision.source, DECISION_LOCAL);
    ck_assert_int_eq(admission.decision.failure, STATUS_TIMEOUT);
    ck_assert_ptr_eq(admission_first_denied(&admission), &admission.charges[0]);
}
END_TEST

START_TEST(what_the_answer_decides_may_be_settled_before_the_slots)
{
    const struct outcome outcome = {.status = 101};
    admission.charges[0].slot = 9;
    rules[1].charge_on.is_said = true;
    settlement_make_costs(&admission, &outcome, &store);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].kind, SETTLE_COST);
    ck_assert_uint_eq(settlement_renew(&admission, SETTLEMENT_ALL_SLOTS, &store), 0);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[1].kind, SETTLE_RENEW);
    settle(101, ANSWER_SERVER_FAILED);
    ck_assert_uint_eq(n_reported, 3);
    ck_assert_int_eq(reported[2].kind, SETTLE_RELEASE);
}
END_TEST

START_TEST(slots_that_were_taken_are_left_to_their_taker)
{
    struct admission taken;
    const struct outcome outcome = {.end = ANSWER_WHOLE};
    admission.charges[1].slot = 9;
    rules[0].charge_on.is_said = true;
    settlement_move(&admission, &taken, false);
    ck_assert(!admission_has_slots(&admission));
    settle(200, ANSWER_WHOLE);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].kind, SETTLE_COST);
    ck_assert_uint_eq(settlement_renew(&taken, SETTLEMENT_ALL_SLOTS, &store), 0);
    ck_assert_uint_eq(n_reported, 2);
    ck_assert_int_eq(reported[1].kind, SETTLE_RENEW);
    ck_assert_uint_eq(reported[1].slot, 9);
    settlement_make(&taken, &outcome, &store);
    ck_assert_uint_eq(n_reported, 3);
    ck_assert_int_eq(reported[2].kind, SETTLE_RELEASE);
    ck_assert_uint_eq(reported[2].slot, 9);
    ck_assert_int_eq(reported[2].source, DECISION_REDIS);
}
END_TEST

START_TEST(slots_alone_are_renewed)
{
    admission.charges[1].slot = 9;
    ck_assert_uint_eq(settlement_renew(&admission, SETTLEMENT_ALL_SLOTS, &store), 0);
    ck_assert_uint_eq(n_reported, 1);
    ck_assert_int_eq(reported[0].kind, SETTLE_RENEW);
    ck_assert_ptr_eq(reported[0].limit, &limits[1]);
}
END_TEST

/* --- holders of slots --- */

static struct loop *loop;
static unsigned n_ticks;

static void note_tick(void *context)
{
    n_ticks++;
    slot_holders_tick(context, 0);
}

static void open_holders(struct slot_holders *holders)
{
    loop = iterations_new_loop();
    slot_holders_init(holders, loop, note_tick, holders, 0);
}

static void close_holders(struct slot_holders *holders)
{
    slot_holders_close(holders);
    loop_free(loop);
}

enum { PERIOD_US = 32000, PHASE_US = PERIOD_US / SLOT_PHASES };

/* Renews those that are due at @now_us; returns how many requests had slots that were. */
static unsigned renew_at(struct slot_holders *holders, uint64_t now_us)
{
    const unsigned n_before = n_calls;
    n_reported = 0;
    ck_assert(!slot_holders_renew(holders, &store, now_us, PERIOD_US));
    return n_calls - n_before;
}

START_TEST(slots_that_were_taken_together_are_renewed_one_after_another)
{
    static struct slot_holder many[10 * SLOT_PHASES];
    enum { TAKEN_US = 1000 * 1000, PERIODS = 4 };
    struct slot_holders holders;
    admission.charges[1].slot = 9;
    open_holders(&holders);
    for (uint64_t us = TAKEN_US - 3 * PERIOD_US; us < TAKEN_US; us += PHASE_US) {
        ck_assert_uint_eq(renew_at(&holders, us), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        slot_holders_add(&holders, &many[i], &admission, TAKEN_US);
    }
    for (uint64_t us = TAKEN_US; us <= TAKEN_US + PERIODS * PERIOD_US; us += PHASE_US) {
        ck_assert_uint_le(renew_at(&holders, us), 2 * ARRAY_LEN(many) / SLOT_PHASES);
        for (size_t i = 0; i < ARRAY_LEN(many); i++) {
            ck_assert_uint_le(us - many[i].renewed_us, PERIOD_US + PERIOD_US / 4 + 2 * PHASE_US);
        }
    }
    ck_assert_uint_ge(n_calls, (PERIODS - 1) * ARRAY_LEN(many));
    ck_assert_uint_le(n_calls, PERIODS * ARRAY_LEN(many));
    ck_assert_int_eq(reported[0].kind, SETTLE_RENEW);
    close_holders(&holders);
}
END_TEST

START_TEST(a_young_slot_is_not_renewed)
{
    static struct slot_holder young[SLOT_PHASES];
    struct slot_holders holders;
    admission.charges[1].slot = 9;
    open_holders(&holders);
    for (size_t i = 0; i < ARRAY_LEN(young); i++) {
        slot_holders_add(&holders, &young[i], &admission, 1000);
    }
    ck_assert_uint_eq(renew_at(&holders, 1000 + PERIOD_US / 4 - 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(young) / 2; i++) {
        list_remove(&young[i].node);
    }
    ck_assert_uint_eq(renew_at(&holders, 1000 + 3 * PERIOD_US), ARRAY_LEN(young) / 2);
    close_holders(&holders);
}
END_TEST

START_TEST(what_was_not_charged_is_not_settled)
{
    admission.charges[0].charged = false;
    admission.charges[0].slot = 9;
    admission.charges[1].charged = false;
    rules[1].charge_on.is_said = true;
    ck_assert_uint_eq(settlement_renew(&admission, SETTLEMENT_ALL_SLOTS, &store), 0);
    settle(200, ANSWER_WHOLE);
    ck_assert_uint_eq(n_calls, 0);
}
END_TEST

/* The first is of a server that is out of reach, the second of another. */
START_TEST(a_renewal_that_cannot_be_sent_is_due_until_it_can)
{
    struct slot_holders holders;
    struct admission local = {
        .decision = {.charges = local.charges, .n_charges = 1, .source = DECISION_LOCAL}};
    struct slot_holder away;
    struct slot_holder here;
    struct admission taken;
    admission.charges[0].slot = 9;
    local.charges[0] = admission.charges[0];
    open_holders(&holders);
    slot_holders_add(&holders, &away, &admission, 1000);
    slot_holders_add(&holders, &here, &local, 1900);
    source_that_is_down = DECISION_REDIS;
    ck_assert(slot_holders_renew(&holders, &store, 2000, 1000));
    ck_assert_uint_eq(n_calls, 0);
    ck_assert(slot_holders_renew(&holders, &store, 3100, 1000));
    ck_assert_uint_eq(n_calls, 1);
    ck_assert_int_eq(reported[0].source, DECISION_LOCAL);
    source_that_is_down = DECISION_BAN;
    ck_assert(!slot_holders_renew(&holders, &store, 3101, 1000));
    ck_assert_uint_eq(n_calls, 2);
    ck_assert_int_eq(reported[1].source, DECISION_REDIS);
    ck_assert(!slot_holders_renew(&holders, &store, 3349, 1000));
    ck_assert_uint_eq(n_calls, 2);

    source_that_is_down = DECISION_REDIS;
    settlement_move(&admission, &taken, false);
    ck_assert_uint_eq(settlement_renew(&taken, SETTLEMENT_ALL_SLOTS, &store), 1);
    ck_assert_uint_eq(n_calls, 2);
    close_holders(&holders);
}
END_TEST

START_TEST(after_an_outage_renewals_are_spread_out)
{
    static struct slot_holder many[2 * SLOT_RENEWALS_MAX + 1];
    struct slot_holders holders;
    admission.charges[0].slot = 9;
    open_holders(&holders);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        slot_holders_add(&holders, &many[i], &admission, i);
    }
    static const unsigned CALLS[] = {SLOT_RENEWALS_MAX, 2 * SLOT_RENEWALS_MAX, ARRAY_LEN(many)};
    for (size_t i = 0; i < ARRAY_LEN(CALLS); i++) {
        n_reported = 0;
        ck_assert(slot_holders_renew(&holders, &store, 10000 + i, 1000) == (i < 2));
        ck_assert_uint_eq(n_calls, CALLS[i]);
    }
    close_holders(&holders);
}
END_TEST

/* Holders of two kinds: with a slot of a server without room, and with one of another. */
START_TEST(renewals_that_cannot_be_sent_are_tried_in_turn)
{
    static struct slot_holder many[3 * SLOT_RENEWALS_MAX];
    struct slot_holders holders;
    struct admission local = {
        .decision = {.charges = local.charges, .n_charges = 1, .source = DECISION_LOCAL}};
    struct slot_holder here;
    admission.decision.n_charges = 1;
    admission.charges[0].slot = 9;
    local.charges[0] = admission.charges[0];
    open_holders(&holders);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        slot_holders_add(&holders, &many[i], &admission, i);
    }
    slot_holders_add(&holders, &here, &local, ARRAY_LEN(many));
    source_that_is_down = DECISION_REDIS;
    for (unsigned i = 0; i < 6; i++) {
        n_asked = 0;
        ck_assert(slot_holders_renew(&holders, &store, 10000 + i, 10000 - ARRAY_LEN(many)));
        ck_assert_uint_le(n_asked, SLOT_RENEWALS_MAX);
    }
    ck_assert_uint_eq(n_calls, 1); /* behind all of the others */
    ck_assert(slot_holders_renew(&holders, &store, 30000, 1000));
    ck_assert_uint_eq(n_calls, 2); /* before them */

    source_that_is_down = DECISION_BAN;
    n_reported = 0;
    n_calls = 0;
    for (unsigned i = 1; i <= 3; i++) { /* none twice */
        n_reported = 0;
        ck_assert(slot_holders_renew(&holders, &store, 30000 + i, 10000) == (i < 3));
        ck_assert_uint_eq(n_calls, i * SLOT_RENEWALS_MAX);
    }
    close_holders(&holders);
}
END_TEST

/* The slots of one request are at two nodes of a cluster, of which one has no room at first. */
START_TEST(slots_of_one_request_are_renewed_each_when_its_server_has_room)
{
    static const struct {
        uint64_t now_us;
        const struct limit *without_room;
        size_t n;                  /* renewals that are sent */
        const struct limit *first; /* of these */
        bool are_left;
    } STEPS[] = {
        {2000, &limits[1], 1, &limits[0], true}, {2050, &limits[1], 0, NULL, true},
        {2100, NULL, 1, &limits[1], false},      {2349, NULL, 0, NULL, false},
        {3100, &limits[0], 1, &limits[1], true}, {4099, &limits[0], 0, NULL, true},
        {4100, &limits[0], 1, &limits[1], true}, /* due again */
        {4101, NULL, 1, &limits[0], false},      {5350, NULL, 2, &limits[0], false},
    };
    struct slot_holders holders;
    struct slot_holder holder;
    admission.charges[0].slot = 9;
    admission.charges[1].slot = 10;
    open_holders(&holders);
    slot_holders_add(&holders, &holder, &admission, 1000);
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
        n_reported = 0;
        limit_without_room = STEPS[i].without_room;
        ck_assert(slot_holders_renew(&holders, &store, STEPS[i].now_us, 1000) == STEPS[i].are_left);
        ck_assert_uint_eq(n_reported, STEPS[i].n);
        ck_assert(n_reported == 0 || reported[0].limit == STEPS[i].first);
    }
    close_holders(&holders);
}
END_TEST

START_TEST(the_timer_of_renewals_runs_while_there_are_holders)
{
    struct slot_holders holders;
    struct slot_holder first;
    struct slot_holder second;
    open_holders(&holders);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(slot_holders_are_none(&holders));
        n_ticks = 0;
        slot_holders_add(&holders, &first, &admission, 1000);
        slot_holders_add(&holders, &second, &admission, 1000);
        iterations_until_count(loop, &n_ticks, 2);
        list_remove(&first.node);
        n_ticks = 0;
        iterations_until_count(loop, &n_ticks, 2);
        list_remove(&second.node);
        n_ticks = 0;
        iterations_for(loop, 5 * 1000);
        ck_assert_uint_le(n_ticks, 1);
    }
    close_holders(&holders);
}
END_TEST

/* A holder that waits for room, or for its turn among many, is one. */
START_TEST(holders_that_wait_are_holders)
{
    struct slot_holders holders;
    struct slot_holder holder;
    open_holders(&holders);
    admission.charges[0].slot = 9;
    source_that_is_down = DECISION_REDIS;
    slot_holders_add(&holders, &holder, &admission, 1000);
    ck_assert(slot_holders_renew(&holders, &store, 3000, 1000));
    ck_assert(!list_is_empty(&holders.waiting));
    ck_assert(!slot_holders_are_none(&holders));
    list_remove(&holder.node);
    list_push_back(&holders.due, &holder.node);
    ck_assert(!slot_holders_are_none(&holders));
    list_remove(&holder.node);
    ck_assert(slot_holders_are_none(&holders));
    close_holders(&holders);
}
END_TEST

/* The timer has not run since the last holder left, and begins with the first. */
START_TEST(slots_that_are_taken_after_an_idle_time_are_renewed_in_time)
{
    static const uint64_t IDLE_US[] = {1, PERIOD_US / 3, PERIOD_US, 1000 * 1000 * 1000};
    struct slot_holders holders;
    struct slot_holder added[SLOT_PHASES];
    admission.charges[0].slot = 9;
    open_holders(&holders);
    ck_assert(!slot_holders_renew(&holders, &store, 1000 * 1000, PERIOD_US));
    const uint64_t taken_us = 1000 * 1000 + IDLE_US[_i];
    for (size_t i = 0; i < SLOT_PHASES; i++) {
        slot_holders_add(&holders, &added[i], &admission, taken_us);
    }
    const uint64_t last_us = taken_us + PERIOD_US + PERIOD_US / 4 + 2 * PHASE_US;
    for (uint64_t now_us = taken_us + PHASE_US; now_us <= last_us; now_us += PHASE_US) {
        ck_assert(!slot_holders_renew(&holders, &store, now_us, PERIOD_US));
    }
    for (size_t i = 0; i < SLOT_PHASES; i++) {
        ck_assert_uint_gt(added[i].renewed_us, taken_us);
    }
    close_holders(&holders);
}
END_TEST

static Suite *settlement_suite(void)
{
    Suite *suite = suite_create("proxy/settlement");
    TCase *make = tcase_create("make and renew");
    tcase_add_checked_fixture(make, set_up, NULL);
    tcase_add_test(make, what_was_evicted_before_a_server_was_sent_it_is_given_back_by_charge_on);
    tcase_add_test(make, what_no_server_was_sent_counts_only_where_client_left_is_listed);
    tcase_add_test(make, an_error_of_sluice_hides_no_refusal);
    tcase_add_test(make, a_304_counts_as_the_200_that_it_stands_for);
    tcase_add_test(make, a_refused_request_is_charged_whatever_its_head_was);
    tcase_add_test(make,
                   an_error_in_place_of_a_refusal_is_given_back_where_refund_on_has_its_class);
    tcase_add_test(
        make,
        what_a_server_was_sent_and_does_not_answer_is_given_back_only_where_refund_on_says_so);
    tcase_add_loop_test(
        make, an_answer_that_was_lost_between_is_given_back_only_where_its_status_is_named, 0,
        ARRAY_LEN(LOST));
    tcase_add_test(make, what_was_charged_rightly_is_left_alone);
    tcase_add_test(make, an_answer_whose_head_was_sent_is_charged_though_the_client_left);
    tcase_add_test(make, answers_that_a_limit_does_not_count_are_given_back);
    tcase_add_test(make, answers_that_a_limit_counts_stay_charged);
    tcase_add_loop_test(make, what_is_given_back_depends_on_who_ended_the_request, 0,
                        ARRAY_LEN(ENDS));
    tcase_add_loop_test(make, a_cost_learnt_from_the_response_replaces_the_estimate, 0,
                        (int)ARRAY_LEN(LEARNT));
    tcase_add_test(make, an_answer_that_is_given_back_costs_nothing_whatever_it_says);
    tcase_add_test(make, a_slot_is_given_back_however_it_ended_and_once);
    tcase_add_test(make, what_the_answer_decides_may_be_settled_before_the_slots);
    tcase_add_test(make, slots_that_were_taken_are_left_to_their_taker);
    tcase_add_test(make, slots_of_shared_keys_are_lent_and_taken_again);
    tcase_add_test(make, a_slot_that_is_not_taken_again_is_not_released);
    tcase_add_test(make, a_request_that_is_denied_after_all_is_given_back);
    tcase_add_test(make, a_limit_that_charges_denials_keeps_what_it_took);
    tcase_add_test(make, the_second_answer_is_that_of_the_request);
    tcase_add_test(make, slots_alone_are_renewed);
    tcase_add_test(make, slots_that_were_taken_together_are_renewed_one_after_another);
    tcase_add_test(make, a_young_slot_is_not_renewed);
    tcase_add_test(make, a_renewal_that_cannot_be_sent_is_due_until_it_can);
    tcase_add_test(make, after_an_outage_renewals_are_spread_out);
    tcase_add_test(make, renewals_that_cannot_be_sent_are_tried_in_turn);
    tcase_add_test(make, slots_of_one_request_are_renewed_each_when_its_server_has_room);
    tcase_add_test(make, the_timer_of_renewals_runs_while_there_are_holders);
    tcase_add_test(make, holders_that_wait_are_holders);
    tcase_add_loop_test(make, slots_that_are_taken_after_an_idle_time_are_renewed_in_time, 0, 4);
    tcase_add_test(make, what_was_not_charged_is_not_settled);
    suite_add_tcase(suite, make);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(settlement_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
