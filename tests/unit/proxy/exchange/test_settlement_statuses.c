/* What a request is charged whose answer has a status of gRPC that may be none. */

#include "settlement_stage.h"

START_TEST(of_two_statuses_either_is_enough_to_charge)
{
    static const struct {
        unsigned charged, refunded[2]; /* 0: not said */
        bool is_free;
    } ROWS[] = {
        {401, {0, 0}, false},   {200, {0, 0}, false},   {403, {0, 0}, true},
        {0, {401, 401}, false}, {0, {200, 200}, false}, {0, {200, 401}, true},
    };
    const struct outcome outcome = {.status = 401, .http_status = 200, .end = ANSWER_WHOLE};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        set_up();
        if (ROWS[i].charged != 0) {
            rules[0].charge_on.is_said = true;
            answer_set_add(&rules[0].charge_on, ROWS[i].charged, ROWS[i].charged);
        } else {
            answer_set_add(&rules[0].refund_on, ROWS[i].refunded[0], ROWS[i].refunded[0]);
            answer_set_add(&rules[0].refund_on, ROWS[i].refunded[1], ROWS[i].refunded[1]);
        }
        settlement_make(&admission, &outcome, &store);
        ck_assert_uint_eq(n_reported, ROWS[i].is_free);
        ck_assert(settlement_is_charged_answer(&rules[0], &outcome) ==
                  (ROWS[i].charged != 0 && !ROWS[i].is_free));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/settlement_statuses");
    TCase *statuses = tcase_create("statuses");
    tcase_add_test(statuses, of_two_statuses_either_is_enough_to_charge);
    suite_add_tcase(suite, statuses);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
