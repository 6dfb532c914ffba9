/* What the workers have counted of Redis. */

#ifndef SLUICE_ADMIN_STORE_COUNTS_H
#define SLUICE_ADMIN_STORE_COUNTS_H

#include <stddef.h>
#include <stdint.h>

struct meters;

/* Sums over the links of all workers. */
struct store_counts {
    uint64_t calls; /* commands sent for decisions */
    uint64_t failures;
    uint64_t links; /* now, as the next three */
    uint64_t links_up;
    uint64_t breakers_open; /* of links_up */
    uint64_t links_working; /* up, with a closed breaker */
    uint64_t n_rtts;        /* round trips that were measured */
    uint64_t rtt_us;        /* all together */
};

/* Of the node @number, below STORE_NODES_MAX. */
struct store_counts store_counts_of_node(const struct meters *meters, size_t number);

/* Of all nodes together. */
struct store_counts store_counts_of_all(const struct meters *meters);

#endif /* SLUICE_ADMIN_STORE_COUNTS_H */
