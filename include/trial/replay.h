/* Replaying access logs through policies, under the logs' own clock.
 *
 * Several logs are merged by time. What a log does not tell cannot be judged: limits that count by
 * it are left out, and a note says so. The result depends on the logs and the policies alone. */

#ifndef SLUICE_TRIAL_REPLAY_H
#define SLUICE_TRIAL_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/policy.h"
#include "trial/tally.h"

enum {
    REPLAY_LOGS_MAX = 256,
    REPLAY_FIELDS_MAX = 32,
    REPLAY_NOTES_MAX = 64,
    REPLAY_PROBLEM_BYTES = 1024,
};

enum replay_format {
    REPLAY_AUTO, /* each log as its first lines read */
    REPLAY_COMBINED,
    REPLAY_JSON,
    REPLAY_LOGFMT,
};

/* What a field of JSON or logfmt means: see log_fields_add(). */
struct replay_field {
    struct span what;
    struct span name;
};

struct replay_progress {
    uint64_t n_lines;
    uint64_t n_bytes;
    uint64_t n_bytes_in_all; /* 0: not known */
};

struct replay_options {
    char *const *paths; /* "-": standard input */
    size_t n_paths;     /* 1 … REPLAY_LOGS_MAX */
    enum replay_format format;
    struct replay_field fields[REPLAY_FIELDS_MAX];
    size_t n_fields;
    struct span host; /* of requests whose line tells none; empty: not known */
    void (*on_progress)(void *context,
                        const struct replay_progress *progress); /* NULL: nobody asks */
    void *context;
};

struct replay;

/* Open the logs and find how they are written. @options and what it names are borrowed until
 * replay_free(). On failure @problem says what, where and what to do. */
MUST_USE enum status replay_open(const struct replay_options *options, struct replay **replay,
                                 struct text *problem);

/* NULL is a no-op. */
void replay_free(struct replay *replay);

/* Time of the earliest of the first lines, us since the epoch: for calendars. */
uint64_t replay_start_us(const struct replay *replay);

/* Read all of the logs through @policies, 1 … TALLY_SIDES_MAX of them, each with an embedded store
 * of @memory_bytes (0: as the policy says); once. On failure @problem says why. */
MUST_USE enum status replay_run(struct replay *replay, const struct policy *const *policies,
                                size_t n_policies, size_t memory_bytes, struct text *problem);

/* What came of it, after replay_run(). */
const struct tally *replay_tally(const struct replay *replay);

/* What could not be judged as the proxy would, and why; of policy number @i.
 * Returns how many notes. */
size_t replay_notes(const struct replay *replay, size_t i, const struct span **notes);

#endif /* SLUICE_TRIAL_REPLAY_H */
