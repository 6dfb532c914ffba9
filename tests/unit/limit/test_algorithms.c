/* Stories of one key, the same suite for all algorithms: a row is a request, a settlement or a
 * change of the policy, its answer, and how things stand after it. */

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "limit/algorithms.h"

enum kind {
    ASK,     /* and charge, if it is allowed */
    QUEUE,   /* as ASK: it is allowed, and delayed by `after` */
    SETTLE,  /* of the charge at `of` */
    RELEASE, /* of the slot `of` */
    RENEW,
    RATE,  /* is `units` from now on */
    BURST, /* likewise */
};

struct row {
    const char *says; /* NULL: the story is over */
    enum kind kind;
    int64_t at;     /* ticks since the story's start */
    int64_t units;  /* cost, correction, rate or burst */
    int64_t of;     /* the slot to take, or what is settled */
    uint64_t after; /* retry_after of what is asked; 0: it is allowed */
    struct {
        uint64_t remaining;
        uint64_t next_after;
        uint64_t reset_after;
    } then;
};

#define NEVER RETRY_NEVER
#define UNKNOWN RETRY_UNKNOWN

struct subject {
    const struct algorithm *algorithm;
    struct limit_params params;
    uint64_t start; /* ticks */
};

static const struct subject TOKEN_BUCKET = {
    .algorithm = &token_bucket_algorithm,
    .params = {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000},
    .start = 1000000000,
};
static const struct subject LEAKY_BUCKET = {
    .algorithm = &leaky_bucket_algorithm,
    .params = {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000},
    .start = 1000000000,
};
static const struct subject SHAPING = {
    .algorithm = &leaky_bucket_algorithm,
    .params =
        {.rate = 10, .burst = 4, .period = 1000000, .max_wait = 300000, .ticks_per_s = 1000000},
    .start = 1000000000,
};
static const struct subject WAITING = {
    .algorithm = &leaky_bucket_algorithm,
    .params =
        {.rate = 10, .burst = 7, .period = 1000000, .max_wait = 250000, .ticks_per_s = 1000000},
    .start = 1000000000,
};
static const struct subject GCRA = {
    .algorithm = &gcra_algorithm,
    .params = {.rate = 10, .burst = 5, .period = 1000000, .ticks_per_s = 1000000},
    .start = 1000000000,
};
static const struct subject FIXED_WINDOW = {
    .algorithm = &fixed_window_algorithm,
    .params = {.rate = 5, .period = 10000, .offset = 4000, .ticks_per_s = 1000},
    .start = 1004000,
};
static const struct subject SLIDING_WINDOW = {
    .algorithm = &sliding_window_algorithm,
    .params = {.rate = 10, .period = 6000, .buckets = 3, .ticks_per_s = 1000},
    .start = 6000000,
};
static const struct subject STRICT = {
    .algorithm = &sliding_window_algorithm,
    .params = {.rate = 10, .period = 6000, .buckets = 3, .strict = true, .ticks_per_s = 1000},
    .start = 6000000,
};
static const struct subject TWO_COUNTERS = {
    .algorithm = &sliding_window_algorithm,
    .params = {.rate = 10, .period = 6000, .buckets = 1, .ticks_per_s = 1000},
    .start = 6000000,
};
static const struct subject SLIDING_LOG = {
    .algorithm = &sliding_log_algorithm,
    .params = {.rate = 5, .period = 10000, .ticks_per_s = 1000},
    .start = UINT64_C(1763667890123),
};
static const struct subject CONCURRENCY = {
    .algorithm = &concurrency_algorithm,
    .params = {.rate = 2, .lease = 10000, .ticks_per_s = 1000},
    .start = 1000000,
};

struct story {
    const struct subject *subject;
    const char *says;
    struct row rows[14];
};

/* A row is a line. */
/* clang-format off */
static const struct story STORIES[] = {
    {&TOKEN_BUCKET, "the burst is spent, then one token per interval", {
    {"a full bucket gives its burst at once", ASK, 0, 5, 0, 0, {0, 100000, 500000}},
    {"an empty bucket denies", ASK, 0, 1, 0, 100000, {0, 100000, 500000}},
    {"a microsecond early is early", ASK, 99999, 1, 0, 1, {0, 1, 400001}},
    {"on time is on time", ASK, 100000, 1, 0, 0, {0, 100000, 500000}},
    }},
    {&TOKEN_BUCKET, "what exceeds the burst is denied forever", {
    {"more than the burst never passes", ASK, 0, 6, 0, NEVER, {5, 0, 0}},
    {"not even the greatest cost wraps", ASK, 0, UINT32_MAX, 0, NEVER, {5, 0, 0}},
    {"and was not charged", ASK, 0, 5, 0, 0, {0, 100000, 500000}},
    }},
    {&TOKEN_BUCKET, "odd clocks neither give nor freeze", {
    {"spend at 2 s", ASK, 2000000, 5, 0, 0, {0, 100000, 500000}},
    {"half a second back gains nothing", ASK, 1500000, 0, 0, 0, {0, 600000, 1000000}},
    {"and loses nothing", ASK, 2100000, 1, 0, 0, {0, 100000, 500000}},
    {"an age of idling merely fills", ASK, INT64_C(1) << 62, 1, 0, 0, {4, 100000, 100000}},
    {"a clock set back for good is followed", ASK, 0, 1, 0, 0, {3, 100000, 200000}},
    {"and goes on from there", ASK, 100000, 0, 0, 0, {4, 100000, 100000}},
    }},
    {&TOKEN_BUCKET, "a denied bucket whose clock went back can be followed without a charge", {
    {"all at 1 h", ASK, 3600000000, 5, 0, 0, {0, 100000, 500000}},
    {"a second back is no time", ASK, 3599000000, 1, 0, 1100000, {0, 1100000, 1500000}},
    {"an hour back is followed", ASK, 0, 1, 0, 100000, {0, 100000, 500000}},
    {"and what was taken comes back", ASK, 100000, 1, 0, 0, {0, 100000, 500000}},
    }},
    {&TOKEN_BUCKET, "a raised burst helps at once, a lowered one counts what was taken", {
    {"all is taken", ASK, 0, 5, 0, 0, {0, 100000, 500000}},
    {"one is too many", ASK, 0, 1, 0, 100000, {0, 100000, 500000}},
    {"the burst is 2: of 5, 4 must come back", BURST, 0, 2, 0, 0, {0, 400000, 500000}},
    {"for one more", ASK, 0, 1, 0, 400000, {0, 400000, 500000}},
    {"the burst is 8", BURST, 0, 8, 0, 0, {3, 100000, 500000}},
    {"three pass", ASK, 0, 3, 0, 0, {0, 100000, 800000}},
    }},
    {&LEAKY_BUCKET, "what would spill over is refused until it has drained", {
    {"an empty bucket takes its depth at once", ASK, 0, 5, 0, 0, {0, 100000, 500000}},
    {"a full one takes nothing", ASK, 0, 1, 0, 100000, {0, 100000, 500000}},
    {"a microsecond early is early", ASK, 99999, 1, 0, 1, {0, 1, 400001}},
    {"on time is on time", ASK, 100000, 1, 0, 0, {0, 100000, 500000}},
    {"all or nothing", ASK, 250000, 2, 0, 50000, {1, 50000, 350000}},
    {"one passes, and half a one is none", ASK, 250000, 1, 0, 0, {0, 50000, 450000}},
    {"more than the depth never passes", ASK, 250000, 6, 0, NEVER, {0, 50000, 450000}},
    {"not even the greatest cost wraps", ASK, 250000, UINT32_MAX, 0, NEVER, {0, 50000, 450000}},
    {"asking takes nothing", ASK, 250000, 0, 0, 0, {0, 50000, 450000}},
    }},
    {&LEAKY_BUCKET, "what is settled drains or fills", {
    {"three of five", ASK, 0, 3, 0, 0, {2, 100000, 300000}},
    {"two come back", SETTLE, 0, -2, 0, 0, {4, 100000, 100000}},
    {"not more than there is", SETTLE, 50000, -9, 0, 0, {5, 0, 0}},
    {"a cost learnt later may pass the depth", SETTLE, 50000, 7, 0, 0, {0, 300000, 700000}},
    {"and is waited for", ASK, 50000, 1, 0, 300000, {0, 300000, 700000}},
    }},
    {&LEAKY_BUCKET, "odd clocks neither drain nor freeze", {
    {"full at 2 s", ASK, 2000000, 5, 0, 0, {0, 100000, 500000}},
    {"half a second back drains nothing", ASK, 1500000, 1, 0, 600000, {0, 600000, 1000000}},
    {"an age of idling merely drains", ASK, INT64_MAX / 4, 1, 0, 0, {4, 100000, 100000}},
    {"a clock set back for good is followed", ASK, 0, 1, 0, 0, {3, 100000, 200000}},
    {"and goes on from there", ASK, 100000, 0, 0, 0, {4, 100000, 100000}},
    }},
    {&SHAPING, "a queue grants departures a gap apart", {
    {"the first departs at once", ASK, 0, 1, 0, 0, {3, 100000, 100000}},
    {"the second after the gap of the first", QUEUE, 0, 1, 0, 100000, {2, 100000, 200000}},
    {"two units leave a gap of two", QUEUE, 0, 2, 0, 200000, {0, 100000, 400000}},
    {"four in the queue are enough", ASK, 0, 1, 0, 100000, {0, 100000, 400000}},
    {"a place is free when a gap has passed", QUEUE, 100000, 1, 0, 300000, {0, 100000, 400000}},
    {"idle time is not saved up", ASK, 5000000, 1, 0, 0, {3, 100000, 100000}},
    {"asking waits for nothing", ASK, 5000000, 0, 0, 0, {3, 100000, 100000}},
    }},
    {&SHAPING, "a granted departure is not taken back", {
    {"three in the queue", ASK, 0, 3, 0, 0, {1, 100000, 300000}},
    {"a refund changes nothing", SETTLE, 0, -2, 0, 0, {1, 100000, 300000}},
    {"a cost learnt later delays those to come", SETTLE, 0, 1, 0, 0, {0, 100000, 400000}},
    {"by as much", QUEUE, 100000, 1, 0, 300000, {0, 100000, 400000}},
    }},
    {&WAITING, "a wait that is too long is what is waited for", {
    {"three are", ASK, 0, 3, 0, 0, {0, 50000, 300000}},
    {"the next would wait too long", ASK, 0, 1, 0, 50000, {0, 50000, 300000}},
    {"and is let in when it need not", QUEUE, 50000, 1, 0, 250000, {0, 100000, 350000}},
    }},
    {&GCRA, "units pass while the arrival time is near enough", {
    {"the burst passes at once", ASK, 0, 5, 0, 0, {0, 100000, 500000}},
    {"then nothing", ASK, 0, 1, 0, 100000, {0, 100000, 500000}},
    {"a microsecond early is early", ASK, 99999, 1, 0, 1, {0, 1, 400001}},
    {"on time is on time", ASK, 100000, 1, 0, 0, {0, 100000, 500000}},
    {"all or nothing", ASK, 350000, 3, 0, 50000, {2, 50000, 250000}},
    {"two pass", ASK, 350000, 2, 0, 0, {0, 50000, 450000}},
    {"more than the burst never passes", ASK, 350000, 6, 0, NEVER, {0, 50000, 450000}},
    {"not even the greatest cost wraps", ASK, 350000, UINT32_MAX, 0, NEVER, {0, 50000, 450000}},
    {"asking takes nothing", ASK, 350000, 0, 0, 0, {0, 50000, 450000}},
    {"idle time is not saved up", ASK, 9000000, 1, 0, 0, {4, 100000, 100000}},
    }},
    {&GCRA, "what is settled moves the arrival time", {
    {"three of five", ASK, 0, 3, 0, 0, {2, 100000, 300000}},
    {"two come back", SETTLE, 0, -2, 0, 0, {4, 100000, 100000}},
    {"not more than there is", SETTLE, 50000, -9, 0, 0, {5, 0, 0}},
    {"a cost learnt later fills it at most", SETTLE, 50000, 7, 0, 0, {0, 100000, 500000}},
    }},
    {&GCRA, "a clock set back beyond the bucket leaves it full", {
    {"full at 100 s", ASK, 100000000, 5, 0, 0, {0, 100000, 500000}},
    {"half a second back takes some", ASK, 99500000, 1, 0, 600000, {0, 600000, 1000000}},
    {"a clock set back for good is followed", ASK, 0, 1, 0, 100000, {0, 100000, 500000}},
    }},
    {&FIXED_WINDOW, "a window admits its count and the next one starts anew", {
    {"asking takes nothing", ASK, 0, 0, 0, 0, {5, 0, 0}},
    {"a new window admits", ASK, 0, 3, 0, 0, {2, 10000, 10000}},
    {"all or nothing", ASK, 2500, 3, 0, 7500, {2, 7500, 7500}},
    {"what is left passes", ASK, 2500, 2, 0, 0, {0, 7500, 7500}},
    {"a full window denies to its last tick", ASK, 9999, 1, 0, 1, {0, 1, 1}},
    {"the edge is the next window's", ASK, 10000, 5, 0, 0, {0, 10000, 10000}},
    }},
    {&FIXED_WINDOW, "what exceeds the count is denied forever", {
    {"more than the count never passes", ASK, 1, 6, 0, NEVER, {5, 0, 0}},
    {"not even the greatest cost wraps", ASK, 1, UINT32_MAX, 0, NEVER, {5, 0, 0}},
    {"and was not charged", ASK, 1, 5, 0, 0, {0, 9999, 9999}},
    }},
    {&FIXED_WINDOW, "odd clocks neither give nor freeze", {
    {"spend as a window starts", ASK, 0, 4, 0, 0, {1, 10000, 10000}},
    {"half a second back is still that window", ASK, -500, 2, 0, 10500, {1, 10500, 10500}},
    {"a second too", ASK, -1000, 1, 0, 0, {0, 11000, 11000}},
    {"an age of idling empties", ASK, INT64_C(1) << 61, 5, 0, 0, {0, 6048, 6048}},
    {"a clock set back for good is followed, with it", ASK, 2000, 1, 0, 8000, {0, 8000, 8000}},
    }},
    {&FIXED_WINDOW, "a full window whose clock went back can be followed without a charge", {
    {"all at 1 h", ASK, 3600000, 5, 0, 0, {0, 10000, 10000}},
    {"a second back is that window", ASK, 3599000, 1, 0, 11000, {0, 11000, 11000}},
    {"an hour back is followed, to the window of then", ASK, 1, 1, 0, 9999, {0, 9999, 9999}},
    {"which ends", ASK, 10000, 1, 0, 0, {4, 10000, 10000}},
    }},
    {&FIXED_WINDOW, "a time before the first window has a window too", {
    {"all at 1 s", ASK, -1003000, 5, 0, 0, {0, 3000, 3000}},
    {"to the last tick", ASK, -1000001, 1, 0, 1, {0, 1, 1}},
    {"then the first one begins", ASK, -1000000, 1, 0, 0, {4, 10000, 10000}},
    }},
    {&FIXED_WINDOW, "a raised rate helps at once and a lowered one counts what was taken", {
    {"all is taken", ASK, 0, 5, 0, 0, {0, 10000, 10000}},
    {"the rate is 2", RATE, 0, 2, 0, 0, {0, 10000, 10000}},
    {"one is too many", ASK, 0, 1, 0, 10000, {0, 10000, 10000}},
    {"the rate is 8", RATE, 0, 8, 0, 0, {3, 10000, 10000}},
    {"three pass", ASK, 0, 3, 0, 0, {0, 10000, 10000}},
    }},
    {&FIXED_WINDOW, "what is settled is given back to its window and taken from that of now", {
    {"three of five", ASK, 0, 3, 0, 0, {2, 10000, 10000}},
    {"two come back", SETTLE, 9000, -2, 0, 0, {4, 1000, 1000}},
    {"what is over gives nothing back", SETTLE, 12000, -1, 0, 0, {5, 0, 0}},
    {"a cost learnt later is of now", SETTLE, 12000, 4, 0, 0, {1, 8000, 8000}},
    {"and beside what is taken now", ASK, 12000, 1, 0, 0, {0, 8000, 8000}},
    {"it may pass the count", SETTLE, 20000, 9, 12000, 0, {0, 10000, 10000}},
    {"and ends with the window", ASK, 30000, 5, 0, 0, {0, 10000, 10000}},
    }},
    {&SLIDING_WINDOW, "the oldest sub window counts by the part that is still inside", {
    {"asking takes nothing", ASK, 0, 0, 0, 0, {10, 0, 0}},
    {"four in the first", ASK, 0, 4, 0, 0, {6, 6500, 8000}},
    {"six in the second", ASK, 2500, 6, 0, 0, {0, 4000, 7500}},
    {"then nothing", ASK, 2500, 1, 0, 4000, {0, 4000, 7500}},
    {"all of the first still counts at 6 s", ASK, 6000, 1, 0, 500, {0, 500, 4000}},
    {"a tick before a quarter of it is out", ASK, 6499, 1, 0, 1, {0, 1, 3501}},
    {"a quarter of four is one", ASK, 6500, 1, 0, 0, {0, 500, 7500}},
    {"three more by 8 s", ASK, 8000, 3, 0, 0, {0, 334, 8000}},
    {"the six lose one after a third of a second", ASK, 8333, 1, 0, 1, {0, 1, 7667}},
    {"on the first tick that lets it in", ASK, 8334, 1, 0, 0, {0, 333, 7666}},
    {"more than the rate never passes", ASK, 8334, 11, 0, NEVER, {0, 333, 7666}},
    {"not even the greatest cost wraps", ASK, 8334, UINT32_MAX, 0, NEVER, {0, 333, 7666}},
    {"after a period and a sub-window nothing is left", ASK, 16000, 10, 0, 0, {0, 6200, 8000}},
    }},
    {&STRICT, "strict counts the oldest whole", {
    {"ten at the end of a sub-window", ASK, 1999, 10, 0, 0, {0, 6001, 6001}},
    {"still there a period later", ASK, 7999, 1, 0, 1, {0, 1, 1}},
    {"gone with its sub-window", ASK, 8000, 10, 0, 0, {0, 8000, 8000}},
    }},
    {&SLIDING_WINDOW, "what is settled is of its own sub window", {
    {"eight in the first", ASK, 0, 8, 0, 0, {2, 6250, 8000}},
    {"two in the second", ASK, 2000, 2, 0, 0, {0, 4250, 8000}},
    {"five of the first come back", SETTLE, 2000, -5, 0, 0, {5, 4667, 8000}},
    {"a cost learnt later is of now", SETTLE, 2000, 3, 0, 0, {2, 4667, 8000}},
    {"not more comes back than there is", SETTLE, 2000, -9, 2000, 0, {7, 4667, 6000}},
    {"what is out is out", SETTLE, 8500, -3, 0, 0, {10, 0, 0}},
    {"and a cost learnt then is of then", SETTLE, 8500, 3, 0, 0, {7, 6167, 7500}},
    }},
    {&SLIDING_WINDOW, "odd clocks neither give nor freeze", {
    {"four at 60 s", ASK, 60000, 4, 0, 0, {6, 6500, 8000}},
    {"half a second back is the later sub-window", ASK, 59500, 6, 0, 0, {0, 6700, 8500}},
    {"a clock set back for good is followed", ASK, 0, 1, 0, 6200, {0, 6200, 8000}},
    {"and goes on from there", ASK, 6200, 1, 0, 0, {0, 200, 7800}},
    }},
    {&TWO_COUNTERS, "one bucket is the approximation with two counters", {
    {"a full window", ASK, 0, 10, 0, 0, {0, 6600, 12000}},
    {"half of it counts half a period later", ASK, 9000, 5, 0, 0, {0, 600, 9000}},
    }},
    {&SLIDING_LOG, "what left the window makes room to the tick", {
    {"asking takes nothing", ASK, 0, 0, 0, 0, {5, 0, 0}},
    {"two", ASK, 0, 2, 0, 0, {3, 10000, 10000}},
    {"and two in the same tick", ASK, 0, 2, 0, 0, {1, 10000, 10000}},
    {"all or nothing", ASK, 4000, 2, 0, 6000, {1, 6000, 6000}},
    {"one", ASK, 4000, 1, 0, 0, {0, 6000, 10000}},
    {"five must wait for all of it", ASK, 4000, 5, 0, 10000, {0, 6000, 10000}},
    {"more than the rate never passes", ASK, 4000, 6, 0, NEVER, {0, 6000, 10000}},
    {"not even the greatest cost wraps", ASK, 4000, UINT32_MAX, 0, NEVER, {0, 6000, 10000}},
    {"a tick early is early", ASK, 9999, 1, 0, 1, {0, 1, 4001}},
    {"both entries leave at once", ASK, 10000, 4, 0, 0, {0, 4000, 10000}},
    {"one leaves by itself", ASK, 14000, 1, 0, 0, {0, 6000, 10000}},
    {"then all do", ASK, 24000, 5, 0, 0, {0, 10000, 10000}},
    }},
    {&SLIDING_LOG, "what is settled is an entry of its own tick", {
    {"two", ASK, 0, 2, 0, 0, {3, 10000, 10000}},
    {"three later", ASK, 1000, 3, 0, 0, {0, 9000, 10000}},
    {"one of the three", SETTLE, 1000, -1, 1000, 0, {1, 9000, 10000}},
    {"more than they were is all of them", SETTLE, 1000, -9, 1000, 0, {3, 9000, 9000}},
    {"a cost learnt later is an entry of now", SETTLE, 1000, 2, 0, 0, {1, 9000, 10000}},
    {"also when its charge is out", SETTLE, 12000, 3, 0, 0, {2, 10000, 10000}},
    }},
    {&SLIDING_LOG, "odd clocks neither give nor freeze", {
    {"three at 100 s", ASK, 100000, 3, 0, 0, {2, 10000, 10000}},
    {"half a second back is no time", ASK, 99500, 2, 0, 0, {0, 10500, 10500}},
    {"a clock set back for good is followed", ASK, 0, 1, 0, 10000, {0, 10000, 10000}},
    }},
    {&SLIDING_LOG, "entries of a time to come are one entry when the clock is followed", {
    {"one at 100 s", ASK, 100000, 1, 0, 0, {4, 10000, 10000}},
    {"and another", ASK, 100000, 1, 0, 0, {3, 10000, 10000}},
    {"both are of now", ASK, 0, 4, 0, 10000, {3, 10000, 10000}},
    {"one refund reaches both", SETTLE, 0, -2, 0, 0, {5, 0, 0}},
    }},
    {&CONCURRENCY, "slots are taken given back and renewed", {
    {"asking takes nothing", ASK, 0, 0, 0, 0, {2, 0, 0}},
    {"one", ASK, 0, 1, 1, 0, {1, 10000, 10000}},
    {"two", ASK, 3000, 1, 2, 0, {0, 7000, 10000}},
    {"when the third may come nobody can tell", ASK, 3000, 1, 3, UNKNOWN, {0, 7000, 10000}},
    {"one is given back", RELEASE, 4000, 0, 1, 0, {1, 9000, 9000}},
    {"nothing is given back twice", RELEASE, 4000, 0, 1, 0, {1, 9000, 9000}},
    {"a cost counts as one slot", ASK, 4000, UINT32_MAX, 3, 0, {0, 9000, 10000}},
    {"the second is renewed", RENEW, 12000, 0, 2, 0, {0, 2000, 10000}},
    {"the third ends with its lease", ASK, 14000, 1, 4, 0, {0, 8000, 10000}},
    {"a lease that ends leaves room", ASK, 22000, 0, 0, 0, {1, 2000, 2000}},
    {"all end by themselves", ASK, 24000, 0, 0, 0, {2, 0, 0}},
    }},
    {&CONCURRENCY, "a slot that is held counts whatever became of it", {
    {"one", ASK, 0, 1, 1, 0, {1, 10000, 10000}},
    {"its lease has ended when it is renewed", RENEW, 11000, 0, 1, 0, {1, 10000, 10000}},
    {"two", ASK, 12000, 1, 2, 0, {0, 9000, 10000}},
    {"one that was forgotten is more than there are", RENEW, 13000, 0, 3, 0, {0, 9000, 10000}},
    {"so two must end", ASK, 13000, 1, 4, UNKNOWN, {0, 9000, 10000}},
    {"the first does", RELEASE, 14000, 0, 1, 0, {0, 8000, 9000}},
    {"the second does", RELEASE, 14000, 0, 2, 0, {1, 9000, 9000}},
    }},
    {&CONCURRENCY, "a slot that is taken again is one", {
    {"one", ASK, 0, 1, 7, 0, {1, 10000, 10000}},
    {"again", ASK, 5000, 1, 7, 0, {1, 10000, 10000}},
    }},
    {&CONCURRENCY, "a clock set back is followed", {
    {"one at 100 s", ASK, 100000, 1, 1, 0, {1, 10000, 10000}},
    {"another", ASK, 100000, 1, 2, 0, {0, 10000, 10000}},
    {"no lease is longer than one that begins now", ASK, 0, 1, 3, UNKNOWN, {0, 10000, 10000}},
    }},
    {&CONCURRENCY, "a lowered rate waits for more than one to end", {
    {"one", ASK, 0, 1, 1, 0, {1, 10000, 10000}},
    {"two", ASK, 1, 1, 2, 0, {0, 9999, 10000}},
    {"the rate is 1", RATE, 1, 1, 0, 0, {0, 10000, 10000}},
    }},
};
/* clang-format on */

enum { STATE_WORDS = 512 };

static void ask(const struct story *story, const struct row *row, const struct limit_params *params,
                void *state)
{
    const struct algorithm *algorithm = story->subject->algorithm;
    const struct limit_call call = {
        .now = story->subject->start + (uint64_t)row->at,
        .cost = (uint32_t)row->units,
        .slot = (uint64_t)row->of,
    };
    struct verdict got;
    algorithm_evaluate(algorithm, state, params, &call, &got);
    const uint64_t retry_after = row->kind == ASK ? row->after : 0;
    const uint64_t wait = row->kind == QUEUE ? row->after : 0;
    ck_assert_msg(got.allowed == (retry_after == 0), "%s: %s", story->says, row->says);
    ck_assert_msg(got.retry_after == retry_after, "%s: %s: retry_after %lu", story->says, row->says,
                  (unsigned long)got.retry_after);
    ck_assert_msg(got.wait == wait, "%s: %s: wait %lu", story->says, row->says,
                  (unsigned long)got.wait);
    if (got.allowed && call.cost > 0) {
        ck_assert_uint_le(algorithm->state_bytes(state, params, &call),
                          STATE_WORDS * sizeof(uint64_t));
        algorithm->charge(state, params, &call);
    } else if (algorithm->is_ahead(state, params, call.now)) {
        algorithm->charge(state, params, &(struct limit_call){.now = call.now});
    }
}

static void act(const struct story *story, const struct row *row, struct limit_params *params,
                void *state)
{
    const struct algorithm *algorithm = story->subject->algorithm;
    const uint64_t now = story->subject->start + (uint64_t)row->at;
    switch (row->kind) {
    case ASK:
    case QUEUE:
        ask(story, row, params, state);
        break;
    case SETTLE:
        algorithm->settle(state, params, story->subject->start + (uint64_t)row->of, now,
                          row->units);
        break;
    case RELEASE:
        algorithm->release(state, params, now, (uint64_t)row->of);
        break;
    case RENEW:
        algorithm->renew(state, params, now, (uint64_t)row->of);
        break;
    case RATE:
        params->rate = (uint32_t)row->units;
        break;
    case BURST:
        params->burst = (uint32_t)row->units;
        break;
    }
}

START_TEST(a_story_goes_as_it_is_told)
{
    const struct story *story = &STORIES[_i];
    struct limit_params params = story->subject->params;
    uint64_t state[STATE_WORDS] = {0};
    ck_assert_ptr_null(algorithm_check_params(story->subject->algorithm, &params));
    for (const struct row *row = story->rows; row->says != NULL; row++) {
        const struct limit_call look = {.now = story->subject->start + (uint64_t)row->at};
        struct verdict then;
        act(story, row, &params, state);
        algorithm_evaluate(story->subject->algorithm, state, &params, &look, &then);
        ck_assert_uint_eq(then.limit, params.burst > 0 ? params.burst : params.rate);
        ck_assert_msg(then.remaining == row->then.remaining, "%s: %s: remaining %lu", story->says,
                      row->says, (unsigned long)then.remaining);
        ck_assert_msg(then.next_after == row->then.next_after, "%s: %s: next_after %lu",
                      story->says, row->says, (unsigned long)then.next_after);
        ck_assert_msg(then.reset_after == row->then.reset_after, "%s: %s: reset_after %lu",
                      story->says, row->says, (unsigned long)then.reset_after);
    }
}
END_TEST

/* --- parameters --- */

/* A row is a line. */
/* clang-format off */
static const struct {
    const struct algorithm *algorithm;
    struct limit_params params;
    const char *says; /* NULL: they are valid */
} PARAMS[] = {
    {&token_bucket_algorithm, {.rate = 0, .burst = 1, .period = 1}, "rate must be at least 1"},
    {&token_bucket_algorithm, {.rate = 1, .burst = 0, .period = 1}, "burst must be at least 1"},
    {&token_bucket_algorithm, {.rate = 1, .burst = 1, .period = 0},
     "period must be at least 1 tick"},
    {&token_bucket_algorithm, {.rate = 1, .burst = 2, .period = LIMIT_UNITS_MAX},
     "burst times period must not exceed 2^52 ticks"},
    {&leaky_bucket_algorithm, {.rate = 0, .burst = 1, .period = 1}, "rate must be at least 1"},
    {&leaky_bucket_algorithm, {.rate = 1, .burst = 0, .period = 1}, "burst must be at least 1"},
    {&leaky_bucket_algorithm, {.rate = 1, .burst = 1, .period = 0},
     "period must be at least 1 tick"},
    {&leaky_bucket_algorithm, {.rate = 1, .burst = 2, .period = LIMIT_UNITS_MAX},
     "burst times period must not exceed 2^52 ticks"},
    {&leaky_bucket_algorithm, {.rate = 1, .burst = 1, .period = 1, .max_wait = LIMIT_UNITS_MAX + 1},
     "max_wait must not exceed 2^52 ticks"},
    {&gcra_algorithm, {.rate = 0, .burst = 1, .period = 1}, "rate must be at least 1"},
    {&gcra_algorithm, {.rate = 1, .burst = 0, .period = 1}, "burst must be at least 1"},
    {&gcra_algorithm, {.rate = 1, .burst = 1, .period = 0}, "period must be at least 1 tick"},
    {&gcra_algorithm, {.rate = 1, .burst = 1, .period = LIMIT_UNITS_MAX + 1},
     "period must not exceed 2^52 ticks"},
    {&gcra_algorithm, {.rate = 1, .burst = 2, .period = LIMIT_UNITS_MAX},
     "burst times the interval of a unit must not exceed 2^52 ticks"},
    {&gcra_algorithm, {.rate = 3, .burst = 1, .period = 1000},
     "rate does not divide the period into whole ticks within 0.1 %; use token_bucket"},
    {&fixed_window_algorithm, {.rate = 0, .period = 1}, "rate must be at least 1"},
    {&fixed_window_algorithm, {.rate = 1, .period = 0}, "period must be at least 1 tick"},
    {&fixed_window_algorithm, {.rate = 1, .period = LIMIT_UNITS_MAX + 1},
     "period must not exceed 2^52 ticks"},
    {&fixed_window_algorithm, {.rate = 1, .period = 7, .offset = 7},
     "offset must be less than the period"},
    {&sliding_window_algorithm, {.rate = 0, .period = 6, .buckets = 3}, "rate must be at least 1"},
    {&sliding_window_algorithm, {.rate = 1, .period = 0, .buckets = 3},
     "period must be at least 1 tick"},
    {&sliding_window_algorithm, {.rate = 1, .period = 6, .buckets = 0}, "buckets must be 1 to 100"},
    {&sliding_window_algorithm, {.rate = 1, .period = 606, .buckets = 101},
     "buckets must be 1 to 100"},
    {&sliding_window_algorithm, {.rate = 1, .period = 10, .buckets = 3},
     "buckets must divide the period into whole ticks"},
    {&sliding_window_algorithm, {.rate = 2, .period = LIMIT_UNITS_MAX, .buckets = 1},
     "rate times period, divided by buckets, must not exceed 2^52 ticks"},
    {&sliding_log_algorithm, {.rate = 0, .period = 1}, "rate must be at least 1"},
    {&sliding_log_algorithm, {.rate = 100001, .period = 1},
     "rate must not exceed 100,000, the entries of a key; use sliding_window"},
    {&sliding_log_algorithm, {.rate = 1, .period = 0}, "period must be at least 1 tick"},
    {&sliding_log_algorithm, {.rate = 1, .period = LIMIT_UNITS_MAX + 1},
     "period must not exceed 2^52 ticks"},
    {&concurrency_algorithm, {.rate = 0, .lease = 1}, "rate must be at least 1"},
    {&concurrency_algorithm, {.rate = 100001, .lease = 1},
     "rate must not exceed 100,000, the slots of a key"},
    {&concurrency_algorithm, {.rate = 1, .lease = 0}, "lease must be at least 1 tick"},
    {&concurrency_algorithm, {.rate = 1, .lease = LIMIT_UNITS_MAX + 1},
     "lease must not exceed 2^52 ticks"},
    {&token_bucket_algorithm, {.rate = 1, .burst = 1, .period = LIMIT_UNITS_MAX}, NULL},
    {&fixed_window_algorithm, {.rate = UINT32_MAX, .period = 1000, .offset = 999}, NULL},
    {&fixed_window_algorithm, {.rate = 1, .period = LIMIT_UNITS_MAX, .offset = LIMIT_UNITS_MAX - 1},
     NULL},
    /* An interval of gcra is rounded up by a thousandth at most. 7 * 143 = 1001: a unit in 1000,
     * and two in 999. */
    {&gcra_algorithm, {.rate = 7, .burst = 1, .period = 1000}, NULL},
    {&gcra_algorithm, {.rate = 7, .burst = 1, .period = 999},
     "rate does not divide the period into whole ticks within 0.1 %; use token_bucket"},
};
/* clang-format on */

START_TEST(check_params_names_the_fault)
{
    const char *fault = algorithm_check_params(PARAMS[_i].algorithm, &PARAMS[_i].params);
    ck_assert_pstr_eq(fault, PARAMS[_i].says);
}
END_TEST

/* --- the size of a state --- */

START_TEST(the_greatest_state_is_within_the_bound)
{
    const struct limit_params params = {
        .rate = 1, .period = 100, .buckets = SLIDING_WINDOW_BUCKETS_MAX, .ticks_per_s = 1};
    ck_assert_ptr_null(algorithm_check_params(&sliding_window_algorithm, &params));
    ck_assert_uint_le(sliding_window_algorithm.state_bytes(NULL, &params, NULL),
                      LIMIT_STATE_BYTES_MAX);
}
END_TEST

static const struct algorithm *const LOG = &sliding_log_algorithm;
static const struct limit_params LOG_PARAMS = {.rate = 5, .period = 10000, .ticks_per_s = 1000};
static const uint64_t START = UINT64_C(1763667890123);

static size_t bytes_for(const uint64_t *state, uint64_t now)
{
    const struct limit_call call = {.now = now, .cost = 1};
    return LOG->state_bytes(state, &LOG_PARAMS, &call);
}

START_TEST(a_log_has_twice_as_many_entries_as_its_rate_at_most)
{
    enum { HEAD_BYTES = 16, ENTRY_BYTES = 12 };
    uint64_t state[STATE_WORDS] = {0};
    const size_t most = HEAD_BYTES + (2 * LOG_PARAMS.rate + 1) * ENTRY_BYTES;
    for (uint64_t at = 0; at < 1000000; at += 1000) {
        const struct limit_call call = {.now = START + at, .cost = 1};
        struct verdict verdict;
        algorithm_evaluate(LOG, state, &LOG_PARAMS, &call, &verdict);
        ck_assert_uint_le(bytes_for(state, call.now), most + 7);
        if (verdict.allowed) {
            LOG->charge(state, &LOG_PARAMS, &call);
        }
    }
}
END_TEST

START_TEST(a_log_does_not_grow_with_costs_that_are_learnt_later)
{
    uint64_t state[STATE_WORDS] = {0};
    const struct limit_call call = {.now = START, .cost = LOG_PARAMS.rate};
    LOG->charge(state, &LOG_PARAMS, &call);
    const size_t before = bytes_for(state, START);
    for (uint64_t i = 1; i <= 1000; i++) {
        LOG->settle(state, &LOG_PARAMS, START, START + i, 1);
    }
    ck_assert_uint_le(bytes_for(state, START + 1000), before + LOG_PARAMS.rate * 12);

    const struct limit_call ask = {.now = START + LOG_PARAMS.period};
    struct verdict verdict;
    LOG->report(state, &LOG_PARAMS, &ask, &verdict);
    ck_assert_uint_eq(verdict.remaining, 0);
    ck_assert_uint_eq(verdict.reset_after, 1000);
}
END_TEST

START_TEST(what_is_refunded_whole_leaves_no_entry)
{
    uint64_t state[STATE_WORDS] = {0};
    const size_t one = bytes_for(NULL, START);
    for (int i = 0; i < 1000; i++) {
        const struct limit_call call = {.now = START, .cost = 5};
        LOG->charge(state, &LOG_PARAMS, &call);
        LOG->settle(state, &LOG_PARAMS, START, START, -5);
    }
    ck_assert_uint_eq(bytes_for(state, START), one);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit/algorithms");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, a_story_goes_as_it_is_told, 0, (int)ARRAY_LEN(STORIES));
    tcase_add_loop_test(tcase, check_params_names_the_fault, 0, (int)ARRAY_LEN(PARAMS));
    tcase_add_test(tcase, the_greatest_state_is_within_the_bound);
    tcase_add_test(tcase, a_log_has_twice_as_many_entries_as_its_rate_at_most);
    tcase_add_test(tcase, a_log_does_not_grow_with_costs_that_are_learnt_later);
    tcase_add_test(tcase, what_is_refunded_whole_leaves_no_entry);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
