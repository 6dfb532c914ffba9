/* Replay of access logs through policies, with the times of the logs as the clock.
 *
 * Several logs are merged by time. A limit that needs data that a log does not have is left out,
 * and a note says so. The result depends on the logs, the policies and their tenants alone. */

#ifndef SLUICE_SIMULATION_REPLAY_H
#define SLUICE_SIMULATION_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/policy.h"
#include "simulation/replay_options.h"
#include "simulation/statistics.h"

struct replay;
struct tenants;

/* Open the logs and detect their formats. @options and everything that it refers to are borrowed
 * until replay_free(). On failure @problem says what failed, where, and what to do. */
MUST_USE enum status replay_open(const struct replay_options *options, struct replay **replay,
                                 struct text *problem);

/* NULL is a no-op. */
void replay_free(struct replay *replay);

/* Earliest time in the first lines of the logs, us since the epoch: for calendars. */
uint64_t replay_start_us(const struct replay *replay);

/* Before replay_run(): the tenants of policy number @i, whose ends are us since the epoch; borrowed
 * until replay_free(). NULL, or without a call: they are not known, and @fault, a static phrase or
 * NULL, says why. */
void replay_set_tenants(struct replay *replay, size_t i, struct tenants *tenants,
                        const char *fault);

/* Replay all logs through @policies, 1 … STATISTICS_SIDES_MAX of them, each with an embedded store
 * of @memory_bytes (0: the policy's size). May be called once. On failure @problem says why. */
MUST_USE enum status replay_run(struct replay *replay, const struct policy *const *policies,
                                size_t n_policies, size_t memory_bytes, struct text *problem);

/* The result, after replay_run(). */
const struct statistics *replay_statistics(const struct replay *replay);

/* The notes on policy number @i: differences from the proxy's judgement, and their reasons. Returns
 * the number of notes. */
size_t replay_notes(const struct replay *replay, size_t i, const struct span **notes);

#endif /* SLUICE_SIMULATION_REPLAY_H */
