/* An output of the logs: queues in memory, and a thread that writes them to a descriptor.
 *
 * A thread that logs appends whole lines and never waits for their reader; the output's thread
 * writes them in order, and waits for the reader as long as it must. Lines that the queue has no
 * room for, or that cannot be written, are lost: they are counted, and a line of the program's log
 * reports how many. The two logs have a queue each, so that the access log cannot displace lines of
 * the program's log. Where stdout and stderr are the same file, pipe, terminal or socket, one
 * thread writes both, so that lines of both stay whole. */

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

/* Any thread: wait until all lines are written, or for a second. */
void log_output_flush(void);

/* Flush; lines that are logged from now on are dropped. Threads that are blocked by a reader end
 * with the process. */
void log_output_stop(void);

/* Lines lost since the process started. Any thread. */
uint64_t log_output_lost(enum log_kind kind);

/* --- outputs of the access log --- */

/* That of stdout; it lives as long as the process. STATUS_NO_MEMORY. */
MUST_USE enum status log_output_of_stdout(struct log_output **output);

/* The new output owns what @sink has open. STATUS_NO_MEMORY: then it is closed. */
MUST_USE enum status log_output_new(const struct log_sink *sink, struct log_output **output);

/* Append @lines, each with its newline. Nobody has closed @output. Any thread. */
void log_output_append(struct log_output *output, struct span lines);

/* @n_lines were not appended, because they are too long. Any thread. */
void log_output_count_lost(uint64_t n_lines);

/* Lines that are not being written yet go to @sink, which is owned; the one before is closed when
 * those that are have been written. Not for the output of stdout. */
void log_output_replace(struct log_output *output, const struct log_sink *sink);

/* What was appended is written, for a second at most; then the sink is closed. Returns at once.
 * NULL, and the output of stdout, are no-ops. */
void log_output_close(struct log_output *output);

/* --- for base/log alone --- */

/* Append @lines to the program's log. False: there is no thread for it. */
bool log_output_append_program(struct span lines);

#endif /* SLUICE_BASE_LOG_OUTPUT_H */
