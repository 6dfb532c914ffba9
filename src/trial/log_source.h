/* One log: its file, how it is written, and what its first lines tell. */

#ifndef SLUICE_TRIAL_LOG_SOURCE_H
#define SLUICE_TRIAL_LOG_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "base/text.h"
#include "trial/log_fields.h"
#include "trial/log_line.h"
#include "trial/log_reader.h"
#include "trial/replay.h"

enum { LOG_SURVEY_LINES = 1000 };

struct log_source {
    const char *path; /* borrowed */
    enum replay_format format;
    const struct log_fields *fields; /* borrowed */
    struct log_clock clock;
    struct log_reader reader;
    uint64_t size; /* bytes; 0: not known */
    bool is_empty;

    /* what its first lines tell */
    uint64_t earliest_us; /* UINT64_MAX: there is none */
    uint32_t parts;
    bool has_query;

    uint64_t latest_us; /* of all lines that were read */
    uint64_t last_us;   /* of the last line that was read */
    uint64_t
        reached_us; /* the earlier one of the last two lines: whose turn it is. One time that leaps
                            ahead does not make its log wait */
    bool has_ended;
};

/* Open @path, "-" for standard input, and look at its first lines; @format REPLAY_AUTO finds how
 * they are written. On failure @problem says why. */
MUST_USE enum status log_source_open(struct log_source *source, const char *path,
                                     enum replay_format format, const struct log_fields *fields,
                                     struct log_blocks *blocks, struct text *problem);
void log_source_close(struct log_source *source);

/* Read one line as @source is written. */
MUST_USE bool log_source_read(struct log_source *source, char *bytes, size_t len,
                              struct log_line *line);

#endif /* SLUICE_TRIAL_LOG_SOURCE_H */
