/* An output of the logs: queues in memory, and a thread that writes them to a descriptor.
 *
 * A thread that logs appends whole lines and never waits for their reader. The output's thread
 * writes them in order, and waits for the reader. Lines that do not fit into the queue or cannot be
 * written are lost; they are counted, and a line of the program log reports how many. Each of the
 * two logs has its own queue, so that the access log cannot displace lines of the program log. If
 * stdout and stderr are the same file, pipe, terminal or socket, one thread writes both, so that
 * lines of both stay whole. */

#ifndef SLUICE_BASE_LOG_OUTPUT_H
#define SLUICE_BASE_LOG_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/log_sink.h"
#include "base/span.h"
#include "base/status.h"

enum log_kind {
    LOG_KIND_PROGRAM,
    LOG_KIND_ACCESS,
    N_LOG_KINDS,
};

struct log_output;

/* --- the process --- */

/* From now on log_write() appends to the output of stderr. STATUS_NO_MEMORY. */
MUST_USE enum status log_output_start(void);

/* Wait until all lines are written, at most one second. Any thread. */
void log_output_flush(void);

/* Flush, then drop all lines that are logged from now on. Threads that are blocked by a reader end
 * with the process. */
void log_output_stop(void);

/* Lines lost since the process started. Any thread. */
uint64_t log_output_lost(enum log_kind kind);

/* --- outputs of the access log --- */

/* The output of stdout; it lives as long as the process. STATUS_NO_MEMORY. */
MUST_USE enum status log_output_of_stdout(struct log_output **output);

/* The new output takes ownership of the descriptor of @sink. STATUS_NO_MEMORY: it is closed. */
MUST_USE enum status log_output_new(const struct log_sink *sink, struct log_output **output);

/* Append @lines, each with its newline. @output must not be closed. Any thread. */
void log_output_append(struct log_output *output, struct span lines);

/* Count @n_lines that were not appended because they are too long. Any thread. */
void log_output_count_lost(uint64_t n_lines);

/* From now on write to @sink, which becomes owned. Lines that are being written still go to the
 * previous sink, which is then closed. Not for the output of stdout. */
void log_output_replace(struct log_output *output, const struct log_sink *sink);

/* Write the appended lines, for at most a second, then close the sink. Returns at once. No-op for
 * NULL and for the output of stdout. */
void log_output_close(struct log_output *output);

/* --- for base/log alone --- */

/* Append @lines to the program log. False: the output thread is not started. */
bool log_output_append_program(struct span lines);

#endif /* SLUICE_BASE_LOG_OUTPUT_H */
