/* The scripts of this folder, embedded by the build. */

#ifndef SLUICE_STORE_REDIS_SCRIPTS_H
#define SLUICE_STORE_REDIS_SCRIPTS_H

#include "limit/algorithm.h"

extern const struct script heartbeat_script;

#endif /* SLUICE_STORE_REDIS_SCRIPTS_H */
