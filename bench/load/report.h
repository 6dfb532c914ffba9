/* What became of a load. */

#ifndef SLUICE_BENCH_LOAD_REPORT_H
#define SLUICE_BENCH_LOAD_REPORT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "load.h"

/* One line of JSON on stdout. */
bool MUST_USE report_print(const struct load *load);

/* A line a request that was sent: intended, sent, done (us since the epoch; 0: never), status (0:
 * failed). */
bool MUST_USE report_write_log(const struct load *load, const char *path);

#endif /* SLUICE_BENCH_LOAD_REPORT_H */
