/* What every store promises of settlements: part of the contract. */

#ifndef SLUICE_TESTS_SUPPORT_STORE_CONTRACT_SETTLEMENTS_H
#define SLUICE_TESTS_SUPPORT_STORE_CONTRACT_SETTLEMENTS_H

#include <check.h>

/* Add those tests to @tcase, which is the contract's. */
void store_contract_add_settlements(TCase *tcase);

#endif /* SLUICE_TESTS_SUPPORT_STORE_CONTRACT_SETTLEMENTS_H */
