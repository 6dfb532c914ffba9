/* Where the policy has the access log go: stdout, a file, or syslog. */

#ifndef SLUICE_PROXY_LOG_PLACE_H
#define SLUICE_PROXY_LOG_PLACE_H

#include "base/compiler.h"
#include "base/log_output.h"
#include "base/status.h"
#include "policy/settings.h"

/* Open what @log names; *output is NULL where the log is off. Nobody need listen at the socket of
 * syslog yet. log_output_close() closes it. STATUS_IO, STATUS_NO_MEMORY: logged. */
MUST_USE enum status log_place_open(const struct log_section *log, struct log_output **output);

/* @output is what was opened for @log: open its file again, which has been renamed. On failure,
 * which is logged, the output goes on with the file that it has. */
void log_place_reopen(const struct log_section *log, struct log_output *output);

#endif /* SLUICE_PROXY_LOG_PLACE_H */
