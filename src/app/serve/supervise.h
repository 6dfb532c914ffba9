/* The supervisor in the main thread, while the workers serve: it waits for signals, reload requests
 * and changes of the policy file. */

#ifndef SLUICE_APP_SERVE_SUPERVISE_H
#define SLUICE_APP_SERVE_SUPERVISE_H

#include <stdbool.h>

#include "app/serve/reload.h"
#include "app/serve/watch.h"
#include "base/compiler.h"
#include "base/status.h"

/* Block the signals that this thread waits for, in this thread and in all threads created later. */
void supervise_block_signals(void);

/* Reload on request until SIGTERM or SIGINT, whose number is stored in *number. @watches: reload
 * also when the file has changed, whatever the policy says. @loaded: the file's identity just
 * before it was read. STATUS_IO: no signalfd could be created. */
MUST_USE enum status supervise(struct reload *reload, bool watches,
                               const struct file_identity *loaded, int *number);

/* From now on a SIGTERM or SIGINT ends the process at once. */
void supervise_end_at_next_signal(void);

#endif /* SLUICE_APP_SERVE_SUPERVISE_H */
