/* The abuse budget of a connection: what a peer may do that costs us and gives it nothing. Pure:
 * time is told.
 *
 * 200 units, 20 a second come back. Kept as the time until all are back: a unit is 50 ms. On a
 * connection that many clients share, behind a proxy, the units of their requests never spend all:
 * only those of the frames that the proxy makes itself do. */

#ifndef SLUICE_HTTP2_BUDGET_H
#define SLUICE_HTTP2_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "http2/stream.h"

enum {
    BUDGET_UNITS = 200,
    BUDGET_UNITS_PER_S = 20,
    BUDGET_STREAMS = 200, /* whose ends are remembered */
    BUDGET_RESET_US =
        100 * 1000, /* a reset this soon after its HEADERS costs, whatever came before */
};

enum budget_state {
    BUDGET_FINE,
    BUDGET_LOW,   /* 75 % are spent: no new streams */
    BUDGET_SPENT, /* all */
};

struct budget {
    uint64_t at_us;                     /* of the members that refill */
    bool is_shared;                     /* by many clients */
    uint64_t spent_us;                  /* until all units are back */
    uint64_t peer_us;                   /* the same without the units of requests */
    uint64_t frames_us;                 /* until all 10 free SETTINGS and PRIORITY are back */
    uint64_t n_priorities;              /* PRIORITYs that are free, without those of frames_us */
    uint64_t n_windows;                 /* WINDOW_UPDATEs that are free */
    uint64_t n_pings;                   /* PINGs that are free, without those for moved bytes */
    uint64_t moved;                     /* bytes of bodies that no free PING was granted for */
    uint8_t resets[BUDGET_STREAMS / 8]; /* of the last streams: 1: reset before the answer's head */
    uint8_t next_stream;                /* in `resets` */
    uint8_t n_resets;                   /* bits of `resets` */
    uint64_t repeated;                  /* weighed bytes of heads that cost no unit yet */
    uint64_t counts[HTTP2_ABUSE_KINDS]; /* units that were spent */
};

void budget_init(struct budget *budget, bool is_shared, uint64_t now_us);

/* Let the units come back. @now_us never goes back. */
void budget_refill(struct budget *budget, uint64_t now_us);

enum budget_state budget_state(const struct budget *budget);

void budget_spend(struct budget *budget, enum http2_abuse kind, unsigned units);

/* --- streams --- */

void budget_on_stream(struct budget *budget);

/* A stream ended: reset by the peer before the head of its answer, or not. @age_us: since its
 * HEADERS. A reset costs if it came soon, or while more than half of the last streams ended so. */
void budget_on_early_reset(struct budget *budget, uint64_t age_us);
/* @is_well: a server answered it wholly, and it was not reset: a unit comes back. */
void budget_on_end(struct budget *budget, bool is_well);

/* What a head costs of which @bytes are beyond those that the peer sent for it: HPACK repeats
 * fields of thousands of bytes in one, and we read them before we deny. @path_bytes: of its :path.
 */
uint64_t budget_repeated(uint64_t bytes, uint64_t path_bytes);
/* A stream ended that no server answered. @weighed: by budget_repeated(). */
void budget_on_repeated(struct budget *budget, uint64_t weighed);

/* --- frames from the peer --- */

void budget_on_settings(struct budget *budget);
void budget_on_priority(struct budget *budget);
void budget_on_window_update(struct budget *budget, uint32_t increment);
void budget_on_ping(struct budget *budget);

/* --- bodies --- */

/* A DATA frame of ours. */
void budget_on_data_sent(struct budget *budget, uint64_t bytes);
void budget_on_data(struct budget *budget, uint64_t bytes);

#endif /* SLUICE_HTTP2_BUDGET_H */
