#include "pictures.h"

#include "base/compiler.h"
#include "scene.h"

#define PER_PERIOD .rate = SCENE_RATE, .period_us = SCENE_PERIOD_S * UINT64_C(1000000)
#define WORDS "rate: 10/10s"

static const struct picture PICTURES[] = {
    {"token_bucket", "token_bucket", WORDS, {PER_PERIOD, .burst = SCENE_RATE}},
    {"token_bucket-burst", "token_bucket", WORDS ", burst: 3", {PER_PERIOD, .burst = 3}},
    {"leaky_bucket", "leaky_bucket", WORDS, {PER_PERIOD, .burst = SCENE_RATE}},
    {"leaky_bucket-max_wait",
     "leaky_bucket",
     WORDS ", max_wait: 5s",
     {PER_PERIOD, .burst = 6, .max_wait_us = 5000000}},
    {"gcra", "gcra", WORDS, {PER_PERIOD, .burst = SCENE_RATE}},
    {"fixed_window", "fixed_window", WORDS, {PER_PERIOD}},
    {"fixed_window-first",
     "fixed_window",
     WORDS ", align: first",
     {PER_PERIOD, .from_first = true}},
    {"sliding_window", "sliding_window", WORDS, {PER_PERIOD, .buckets = 10}},
    {"sliding_window-strict",
     "sliding_window",
     WORDS ", strict: true",
     {PER_PERIOD, .buckets = 10, .strict = true}},
    {"sliding_window-one", "sliding_window", WORDS ", buckets: 1", {PER_PERIOD, .buckets = 1}},
    {"sliding_log", "sliding_log", WORDS, {PER_PERIOD}},
    {"concurrency",
     "concurrency",
     "rate: 10; responses take 3 s, from 25 s on 8 s",
     {.rate = SCENE_RATE, .lease_us = 60000000}},
};

const struct picture *pictures_all(size_t *n)
{
    *n = ARRAY_LEN(PICTURES);
    return PICTURES;
}
