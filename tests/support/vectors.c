#include "support/vectors.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static void begin_story(struct reading *reading, const char *line)
{
    struct limit_spec spec = {.algorithm = reading->algorithm};
    const int n =
        sscanf(line, LIMIT_LINE, &spec.rate, &spec.burst, &spec.period_us, &reading->start_us);
    ck_assert_msg(n == 4, "%s:%u: not a limit", reading->path, reading->line);

    reading->limit = (struct limit){.name = SPAN("vector")};
    const char *fault = limit_init(&reading->limit, &spec);
    ck_assert_msg(fault == NULL, "%s:%u: %s", reading->path, reading->line, fault);
    reading->story++;
}

static void play_request(struct reading *reading, const char *line,
                         const struct vectors_player *player)
{
    int64_t at_us;
    int64_t retry_after;
    uint32_t cost;
    int allowed;
    struct verdict expected = {.limit = limit_capacity(&reading->limit)};
    const int n = sscanf(line, REQUEST_LINE, &at_us, &cost, &allowed, &retry_after,
                         &expected.remaining, &expected.next_after, &expected.reset_after);
    ck_assert_msg(n == 7, "%s:%u: not a request", reading->path, reading->line);
    expected.allowed = allowed == 1;
    expected.retry_after = retry_after == -1 ? RETRY_NEVER : (uint64_t)retry_after;

    struct verdict got;
    player->decide(player->context, &reading->limit, reading->story,
                   reading->start_us + (uint64_t)at_us, cost, &got);
    const bool same =
        got.allowed == expected.allowed && got.limit == expected.limit &&
        got.retry_after == expected.retry_after && got.remaining == expected.remaining &&
        got.next_after == expected.next_after && got.reset_after == expected.reset_after;
    ck_assert_msg(same, "%s:%u: got %d %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " of %" PRIu64,
                  reading->path, reading->line, got.allowed, (int64_t)got.retry_after,
                  got.remaining, got.next_after, got.reset_after, got.limit);
    reading->n_requests++;
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
        } else {
            play_request(&reading, line, player);
        }
    }
    fclose(file);
    return reading.n_requests;
}
