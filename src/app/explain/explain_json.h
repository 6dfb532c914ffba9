/* Writes an explanation as JSON, for programs. */

#ifndef SLUICE_APP_EXPLAIN_EXPLAIN_JSON_H
#define SLUICE_APP_EXPLAIN_EXPLAIN_JSON_H

#include <stdio.h>

#include "app/explain/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* Write @explanation as one JSON object, as described in docs/explain.md. Invalid UTF-8 from the
 * request becomes U+FFFD. STATUS_NO_MEMORY. */
MUST_USE enum status explain_json_write(const struct explanation *explanation, FILE *out);

#endif /* SLUICE_APP_EXPLAIN_EXPLAIN_JSON_H */
