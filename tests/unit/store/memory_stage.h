/* One embedded store, its clock in the hands of the test. */

#ifndef SLUICE_TESTS_UNIT_STORE_MEMORY_STAGE_H
#define SLUICE_TESTS_UNIT_STORE_MEMORY_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/limit.h"
#include "store/memory_store.h"

extern struct store *store; /* of open_with(), freed by the test */
extern uint64_t now_us;     /* what its clock says */

void open_with(size_t memory_bytes, enum memory_full full);

struct limit bucket_of(uint32_t rate, uint32_t burst, uint64_t period_us);
struct limit limit_of(const struct algorithm *algorithm, uint32_t rate, uint64_t period_us);
struct limit named(const char *name, struct limit limit);

/* One charge on the key "{number}"; @verdict may be NULL. */
struct decision ask(const struct limit *limit, uint64_t number, uint32_t cost,
                    struct verdict *verdict);
bool is_admitted(const struct limit *limit, uint64_t number, uint32_t cost);

/* Whether each of the keys @first … @first + @n - 1 is admitted with a cost of 1. */
bool all_are_admitted(const struct limit *limit, uint64_t first, uint64_t n);

/* Fill the table with states that deny, until new keys find no room. */
uint64_t fill_with_denials(const struct limit *limit);

struct memory_store_counters count(void);

#endif /* SLUICE_TESTS_UNIT_STORE_MEMORY_STAGE_H */
