/* What the first thread does while the workers serve: it waits for signals, for those who ask for a
 * reload, and for the file of the policy to be another. */

#ifndef SLUICE_APP_SUPERVISE_H
#define SLUICE_APP_SUPERVISE_H

#include <stdbool.h>

#include "app/reload.h"
#include "app/watch.h"
#include "base/compiler.h"
#include "base/status.h"

/* Signals that this thread waits for: blocked in every thread that is made afterwards. */
void supervise_block_signals(void);

/* Reload when it is asked for, until SIGTERM or SIGINT: its number in *number. @watches: when the
 * file has changed, too, whatever the policy says of that; @loaded: what it was just before it was
 * read. STATUS_IO: the kernel gives no signalfd. */
MUST_USE enum status supervise(struct reload *reload, bool watches,
                               const struct file_identity *loaded, int *number);

/* From now on a SIGTERM or SIGINT ends the process at once. */
void supervise_end_at_next_signal(void);

#endif /* SLUICE_APP_SUPERVISE_H */
