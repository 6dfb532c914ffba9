/* The scripts of this folder, embedded by the build. */

#ifndef SLUICE_STORE_REDIS_SCRIPTS_H
#define SLUICE_STORE_REDIS_SCRIPTS_H

#include "limit/algorithm.h"

extern const struct script heartbeat_script;
extern const struct script reset_script;
extern const struct script ban_change_script;
extern const struct script ban_query_script;
extern const struct script ban_read_script;

#endif /* SLUICE_STORE_REDIS_SCRIPTS_H */
