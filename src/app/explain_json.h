/* An explanation, for a program to read. */

#ifndef SLUICE_APP_EXPLAIN_JSON_H
#define SLUICE_APP_EXPLAIN_JSON_H

#include <stdio.h>

#include "app/explanation.h"
#include "base/compiler.h"
#include "base/status.h"

/* Write @explanation as one JSON object, as docs/explain.md describes it. STATUS_NO_MEMORY; what is
 * not UTF-8 of what came from the request has U+FFFD in its place. */
MUST_USE enum status explain_json_write(const struct explanation *explanation, FILE *out);

#endif /* SLUICE_APP_EXPLAIN_JSON_H */
