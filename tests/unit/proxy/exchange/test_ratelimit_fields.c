#include "proxy/request_evaluate.h"

#include <check.h>
#include <stdalign.h>
#include <stdlib.h>

#include "limit/algorithms.h"

enum { ARENA_BYTES = 2048 };

static struct limit limit;
static struct route route;
static struct admission admission;
static alignas(max_align_t) char memory[ARENA_BYTES];
static struct arena arena;
static struct field fields[RATELIMIT_FIELDS_MAX];

static void set_up(void)
{
    const struct limit_spec spec = {.algorithm = &token_bucket_algorithm,
                                    .rate = 10,
                                    .burst = 10,
                                    .period_us = UINT64_C(60000000)};
    limit = (struct limit){.name = SPAN("client")};
    ck_assert_ptr_null(limit_init(&limit, &spec));
    route = (struct route){.policy_field = SPAN("\"client\";q=10;w=60")};
    admission = (struct admission){
        .decision = {.charges = admission.charges,
                     .n_charges = 1,
                     .status = STATUS_OK,
                     .source = DECISION_MEMORY},
        .charges = {{.limit = &limit, .cost = 1, .verdict = {.allowed = true, .limit = 10}}},
    };
    arena_init(&arena, memory, sizeof(memory));
}

static void tear_down(void)
{
    arena_reset(&arena);
}

static size_t used_bytes(bool is_complete)
{
    const char *before = arena.next;
    admission.is_complete = is_complete;
    ck_assert_uint_eq(ratelimit_fields_make(&admission, &route, HEADERS_RATELIMIT, &arena, fields),
                      2);
    ck_assert(span_equals(fields[0].value, route.policy_field));
    return (size_t)(arena.next - before);
}

START_TEST(a_policy_field_that_the_route_has_ready_takes_no_memory)
{
    const size_t ready = used_bytes(true);
    ck_assert_ptr_eq(fields[0].value.data, route.policy_field.data);
    ck_assert_uint_gt(ready, 0); /* the state's, which is as large */
    ck_assert_uint_eq(used_bytes(false), 2 * ready);
    ck_assert_ptr_ne(fields[0].value.data, route.policy_field.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy/told_fields");
    TCase *tcase = tcase_create("memory");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_policy_field_that_the_route_has_ready_takes_no_memory);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
