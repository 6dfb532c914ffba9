#include "proxy/log/denied_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    US_PER_S = 1000 * 1000,
    N_SETS = DENIED_LINES_CLIENTS / DENIED_LINES_WAYS,
};

/* The lines of a client. */
struct client_lines {
    struct address client; /* of ADDRESS_NONE: none, or all others */
    uint64_t second;       /* that n_lines are of */
    uint64_t period;       /* between reports, that n_left_out are of */
    uint32_t n_lines;
    uint64_t n_left_out;
};

struct denied_lines {
    uint32_t lines_max;
    struct hash_key key;
    uint64_t period;
    struct denied_lines_report report;
    struct client_lines others;
    struct client_lines clients[N_SETS][DENIED_LINES_WAYS];
};

struct denied_lines *denied_lines_new(uint32_t lines_max)
{
    struct denied_lines *lines = calloc(1, sizeof(*lines));
    if (lines != NULL) {
        lines->lines_max = lines_max;
        lines->key = hash_key_new();
        lines->period = 1;
    }
    return lines;
}

void denied_lines_free(struct denied_lines *lines)
{
    free(lines);
}

/* The entry of @client in the @second: its own, else one whose client had no line in it. */
static struct client_lines *find(struct denied_lines *lines, const struct address *client,
                                 uint64_t second)
{
    const struct span bytes = span_of((const char *)client, sizeof(*client));
    struct client_lines *set = lines->clients[hash_table(&lines->key, bytes).low % N_SETS];
    struct client_lines *free_one = NULL;
    for (size_t i = 0; i < DENIED_LINES_WAYS; i++) {
        if (address_equals(&set[i].client, client)) {
            return &set[i];
        }
        if (free_one == NULL && set[i].second != second) {
            free_one = &set[i];
        }
    }
    if (free_one == NULL) {
        return &lines->others;
    }
    *free_one = (struct client_lines){.client = *client};
    return free_one;
}

static void leave_out(struct denied_lines *lines, struct client_lines *entry, struct span limit)
{
    struct denied_lines_report *report = &lines->report;
    if (entry->period != lines->period) {
        entry->period = lines->period;
        entry->n_left_out = 0;
        report->n_clients++;
    }
    entry->n_left_out++;
    report->n_lines++;
    if (entry->n_left_out > report->n_most) {
        report->n_most = entry->n_left_out;
        report->client = entry->client;
        report->limit_len = limit.len < sizeof(report->limit) ? limit.len : sizeof(report->limit);
        if (limit.len > 0) {
            memcpy(report->limit, limit.data, report->limit_len);
        }
    }
}

bool denied_lines_take(struct denied_lines *lines, const struct address *client, struct span limit,
                       uint64_t now_us)
{
    const uint64_t second = now_us / US_PER_S + 1;
    const struct address known_by = address_of_client(client);
    struct client_lines *entry = find(lines, &known_by, second);
    if (entry->second != second) {
        entry->second = second;
        entry->n_lines = 0;
    }
    if (entry->n_lines < lines->lines_max) {
        entry->n_lines++;
        return true;
    }
    leave_out(lines, entry, limit);
    return false;
}

struct denied_lines_report denied_lines_report(struct denied_lines *lines)
{
    const struct denied_lines_report report = lines->report;
    lines->report = (struct denied_lines_report){.n_lines = 0};
    lines->period++;
    return report;
}
