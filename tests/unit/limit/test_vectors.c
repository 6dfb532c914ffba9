/* The vectors of every algorithm, through the C. */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "limit/algorithms.h"
#include "support/judge.h"
#include "support/vectors.h"

struct key {
    unsigned story;
    struct judge_state state;
};

static struct judge_state *state_of(struct key *key, unsigned story)
{
    if (key->story != story) {
        *key = (struct key){.story = story};
    }
    return &key->state;
}

static void decide(void *context, struct charge *charge, unsigned story, uint64_t now_us)
{
    struct judge_charge judged = {
        .limit = charge->limit,
        .state = state_of(context, story),
        .cost = charge->cost,
        .slot = charge->slot,
    };
    ck_assert(judge_decide(&judged, 1, now_us) == judged.verdict.allowed);
    charge->verdict = judged.verdict;
}

static void settle(void *context, const struct settlement *settlement, unsigned story,
                   uint64_t now_us)
{
    (void)judge_settlement(settlement, state_of(context, story), now_us);
}

START_TEST(each_algorithm_answers_as_its_vectors_say)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    for (size_t i = 0; i < n_algorithms; i++) {
        struct key key = {0};
        const struct vectors_player player = {.decide = decide, .settle = settle, .context = &key};
        ck_assert_uint_ge(vectors_play(algorithms[i], &player), 12);
    }
}
END_TEST

int main(void)
{
    if (hash_setup() != STATUS_OK) {
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("limit/vectors");
    TCase *play = tcase_create("vectors");
    tcase_add_test(play, each_algorithm_answers_as_its_vectors_say);
    suite_add_tcase(suite, play);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
