/* The reading of bans over the link of their watch: one call after the other, so that what is read
 * last is how things stand. */

#ifndef SLUICE_STORE_BAN_READING_H
#define SLUICE_STORE_BAN_READING_H

#include "base/compiler.h"
#include "base/status.h"
#include "store/ban_watch.h"

/* Prepare @watch, all zero but for its loop and options, to read. STATUS_NO_MEMORY. */
MUST_USE enum status ban_reading_init(struct ban_watch *watch);

/* Read what is to be read next, if anything is, and it can be. */
void ban_reading_go_on(struct ban_watch *watch);

#endif /* SLUICE_STORE_BAN_READING_H */
