/* The Lua text that the build embeds, one constant a file: see cmake/embed_script.cmake. */

#ifndef SLUICE_LIMIT_SCRIPTS_H
#define SLUICE_LIMIT_SCRIPTS_H

#include "limit/algorithm.h"

extern const struct script prelude_script;
extern const struct script driver_script;
extern const struct script concurrency_script;
extern const struct script fixed_window_script;
extern const struct script gcra_script;
extern const struct script meter_script;
extern const struct script sliding_log_script;
extern const struct script sliding_window_script;

#endif /* SLUICE_LIMIT_SCRIPTS_H */
