/* What every store promises, as one suite: run on the embedded store and on Redis. */

#ifndef SLUICE_TESTS_SUPPORT_STORE_CONTRACT_H
#define SLUICE_TESTS_SUPPORT_STORE_CONTRACT_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/* How the suite reaches the store at hand. */
struct store_contract {
    void (*open)(void); /* a fresh and empty store */
    void (*close)(void);
    struct store *(*store)(void);
    void (*await)(const bool *answered); /* run whatever must run until *answered */
};

/* The limits that the suite uses: by index, as a policy would have them. */
const struct limit *store_contract_limits(size_t *n_limits);

/* The suite, for @contract, which is borrowed and of which there is one a program. */
TCase *store_contract_tcase(const struct store_contract *contract);

/* The store at hand. */
struct store *store_contract_store(void);

/* Whether @charges pass; the store must be able to tell. */
bool store_contract_passes(struct charge *charges, size_t n_charges);

/* Ask @store and wait for the answer. For tests of one store alone, too. */
void store_contract_decide(struct store *store, struct decision *decision);

#endif /* SLUICE_TESTS_SUPPORT_STORE_CONTRACT_H */
