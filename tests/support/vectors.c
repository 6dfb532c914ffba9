#include "support/vectors.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define LIMIT_LINE "limit %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu64
#define REQUEST_LINE "%" SCNd64 " %" SCNu32 " %d %" SCNd64 " %" SCNu64 " %" SCNu64 " %" SCNu64

struct reading {
    const char *path;
    unsigned line;
    const struct algorithm *algorithm;
    struct limit limit;
    uint64_t start_us;
    unsigned story;
    unsigned n_requests;
};

/* The number after "@name=" in @line, or 0. */
static uint64_t named(const char *line, const char *name)
{
    char wanted[32];
    snprintf(wanted, sizeof(wanted), "%s=", name);
    const char *found = strstr(line, wanted);
    return found == NULL ? 0 : strtoull(found + strlen(wanted), NULL, 10);
}

static void begin_story(struct reading *reading, const char *line)
{
    struct limit_spec spec = {
        .algorithm = reading->algorithm,
        .max_wait_us = named(line, "max_wait_us"),
        .lease_us = named(line, "lease_us"),
        .buckets = (uint32_t)named(line, "buckets"),
        .strict = named(line, "strict") == 1,
        .from_first = named(line, "from_first") == 1,
    };
    const int n =
        sscanf(line, LIMIT_LINE, &spec.rate, &spec.burst, &spec.period_us, &reading->start_us);
    ck_assert_msg(n == 4, "%s:%u: not a limit", reading->path, reading->line);

    reading->limit = (struct limit){.name = SPAN("vector")};
    const char *fault = limit_init(&reading->limit, &spec);
    ck_assert_msg(fault == NULL, "%s:%u: %s", reading->path, reading->line, fault);
    reading->limit.params.settles = named(line, "settles") == 1;
    reading->story++;
}

static uint64_t retry_of(int64_t retry_after)
{
    return retry_after == -1 ? RETRY_NEVER
                             : (retry_after == -2 ? RETRY_UNKNOWN : (uint64_t)retry_after);
}

static bool are_same(const struct verdict *a, const struct verdict *b)
{
    return a->allowed == b->allowed && a->limit == b->limit && a->retry_after == b->retry_after &&
           a->remaining == b->remaining && a->next_after == b->next_after &&
           a->reset_after == b->reset_after && a->wait == b->wait;
}

static void play_request(struct reading *reading, const char *line,
                         const struct vectors_player *player)
{
    int64_t at_us;
    int64_t retry_after;
    int allowed;
    struct charge charge = {.limit = &reading->limit, .slot = named(line, "slot")};
    struct verdict expected = {
        .limit = limit_capacity(&reading->limit),
        .wait = named(line, "wait"),
    };
    const int n = sscanf(line, REQUEST_LINE, &at_us, &charge.cost, &allowed, &retry_after,
                         &expected.remaining, &expected.next_after, &expected.reset_after);
    ck_assert_msg(n == 7, "%s:%u: not a request", reading->path, reading->line);
    expected.allowed = allowed == 1;
    expected.retry_after = retry_of(retry_after);

    player->decide(player->context, &charge, reading->story, reading->start_us + (uint64_t)at_us);
    const struct verdict *got = &charge.verdict;
    ck_assert_msg(are_same(got, &expected),
                  "%s:%u: got %d %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " wait=%" PRIu64
                  " of %" PRIu64,
                  reading->path, reading->line, got->allowed, (int64_t)got->retry_after,
                  got->remaining, got->next_after, got->reset_after, got->wait, got->limit);
    reading->n_requests++;
}

/* Whether @line settles something. */
static bool play_settlement(const struct reading *reading, const char *line,
                            const struct vectors_player *player)
{
    int64_t at_us;
    int64_t charged_at_us;
    struct settlement settlement = {.limit = &reading->limit};
    if (sscanf(line, "settle %" SCNd64 " %" SCNd64 " %" SCNd64, &at_us, &charged_at_us,
               &settlement.delta) == 3) {
        settlement.kind = SETTLE_COST;
        settlement.charged_at_us = reading->start_us + (uint64_t)charged_at_us;
    } else if (sscanf(line, "renew %" SCNd64 " %" SCNu64, &at_us, &settlement.slot) == 2) {
        settlement.kind = SETTLE_RENEW;
    } else if (sscanf(line, "retake %" SCNd64 " %" SCNu64, &at_us, &settlement.slot) == 2) {
        settlement.kind = SETTLE_RETAKE;
    } else if (sscanf(line, "release %" SCNd64 " %" SCNu64, &at_us, &settlement.slot) == 2) {
        settlement.kind = SETTLE_RELEASE;
    } else {
        return false;
    }
    player->settle(player->context, &settlement, reading->story,
                   reading->start_us + (uint64_t)at_us);
    return true;
}

unsigned vectors_play(const struct algorithm *algorithm, const struct vectors_player *player)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/vectors/%s.tsv", TEST_DATA_DIR, algorithm->name);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s: cannot be read", path);

    struct reading reading = {.path = path, .algorithm = algorithm};
    char line[512];
    while (fgets(line, sizeof(line), file) != NULL) {
        reading.line++;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        if (strncmp(line, "limit", strlen("limit")) == 0) {
            begin_story(&reading, line);
        } else if (!play_settlement(&reading, line, player)) {
            play_request(&reading, line, player);
        }
    }
    fclose(file);
    return reading.n_requests;
}
