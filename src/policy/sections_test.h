/* The language of tests of a policy: as sections.h for the policy itself. */

#ifndef SLUICE_POLICY_SECTIONS_TEST_H
#define SLUICE_POLICY_SECTIONS_TEST_H

#include "policy/section.h"

/* The whole file; read into a struct spec_test_file. */
extern const struct section SECTIONS_TEST_FILE;

#endif /* SLUICE_POLICY_SECTIONS_TEST_H */
