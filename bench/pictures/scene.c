#include "scene.h"

#include <assert.h>

#include "limit/judge.h"

enum { STATE_WORDS = 1024 }; /* for logs and slots of a few dozen requests */

/* When the scene starts, us since the epoch: at the edge of a window. */
static const uint64_t START_US = UINT64_C(1700000000) * 1000000;

const struct phase SCENE_PHASE[SCENE_PHASES] = {
    {.first_us = 3000000, .gap_us = 50000, .n = 20, .label = "20 within a second"},
    {.first_us = 15000000, .gap_us = 500000, .n = 40, .label = "2 a second for 20 s"},
    {.first_us = 49500000, .gap_us = 50000, .n = 20, .label = "20 across an edge"},
};

/* The upstream becomes slow in the middle of the scene. */
static uint64_t response_us(uint64_t at_us)
{
    const uint64_t slow_from_us = 25000000;
    return at_us < slow_from_us ? 3000000 : 8000000;
}

static void ask_all(struct request requests[SCENE_REQUESTS])
{
    size_t n = 0;
    for (size_t i = 0; i < SCENE_PHASES; i++) {
        for (size_t j = 0; j < SCENE_PHASE[i].n; j++) {
            assert(n < SCENE_REQUESTS);
            requests[n++] = (struct request){
                .at_us = SCENE_PHASE[i].first_us + j * SCENE_PHASE[i].gap_us,
            };
        }
    }
    assert(n == SCENE_REQUESTS);
}

/* Give back the slots of what was answered after @from_us and up to @to_us. */
static void release(const struct limit *limit, void *state, const struct request *requests,
                    uint64_t from_us, uint64_t to_us)
{
    for (size_t i = 0; i < SCENE_REQUESTS; i++) {
        const struct request *request = &requests[i];
        if (request->admitted && from_us < request->ends_us && request->ends_us <= to_us) {
            limit->algorithm->release(state, &limit->params,
                                      limit_ticks(limit, START_US + request->ends_us), i + 1);
        }
    }
}

static void decide(const struct limit *limit, void *state, struct request *request, uint64_t slot)
{
    struct verdict verdict;
    struct judged judged = {
        .limit = limit,
        .state = state,
        .call = limit_call_at(limit, START_US + request->at_us, 1),
        .verdict = &verdict,
    };
    judged.call.slot = slot;
    if (judge_evaluate(&judged, 1, &request->admitted) != STATUS_OK) {
        request->admitted = false;
        return;
    }
    assert(limit->algorithm->state_bytes(state, &limit->params, &judged.call) <=
           STATE_WORDS * sizeof(uint64_t));
    judge_conclude(&judged, request->admitted);
    request->leaves_us = request->at_us + limit_us(limit, verdict.wait);
    request->ends_us = request->leaves_us + response_us(request->leaves_us);
}

void scene_play(const struct limit *limit, struct request requests[SCENE_REQUESTS])
{
    uint64_t state[STATE_WORDS] = {0};
    ask_all(requests);
    for (size_t i = 0; i < SCENE_REQUESTS; i++) {
        if (limit->algorithm->has_slots && i > 0) {
            release(limit, state, requests, requests[i - 1].at_us, requests[i].at_us);
        }
        decide(limit, state, &requests[i], i + 1);
    }
}
