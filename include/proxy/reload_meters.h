/* Counters of reloads, of the policy or of the file of tenants: part of the meters of the process.
 */

#ifndef SLUICE_PROXY_RELOAD_METERS_H
#define SLUICE_PROXY_RELOAD_METERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counter.h"

struct meters;

/* Results of reloads. One thread writes them. */
struct reload_meters {
    struct counter done;
    struct counter failed;
    struct counter last_failed; /* 1: the latest reload failed */
    struct counter loaded_us;   /* when what is in force was loaded, since the epoch */
};

/* The same, read together. */
struct reload_counts {
    uint64_t n_done;
    uint64_t n_failed;
    uint64_t is_last_good; /* 1, or 0: of the latest reload that is counted, or of a later one */
    uint64_t loaded_us;
};

/* Record that a reload ended at @wall_us since the epoch. @is_done: a new policy is in force. */
void meters_note_reload(struct meters *meters, bool is_done, uint64_t wall_us);

/* The counts of reloads and their outcome. Any thread. */
struct reload_counts meters_count_reloads(const struct meters *meters);

/* The same of the file of tenants. @is_done: its tenants are in force. */
void meters_note_tenants_file(struct meters *meters, bool is_done, uint64_t wall_us);
struct reload_counts meters_count_tenants_files(const struct meters *meters);

#endif /* SLUICE_PROXY_RELOAD_METERS_H */
