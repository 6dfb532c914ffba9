/* One log: its file, its format, and a survey of its first lines. */

#ifndef SLUICE_SIMULATION_LOG_SOURCE_H
#define SLUICE_SIMULATION_LOG_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"
#include "base/text.h"
#include "simulation/log_fields.h"
#include "simulation/log_line.h"
#include "simulation/log_reader.h"
#include "simulation/replay_options.h"

enum { LOG_SURVEY_LINES = 1000 };

struct log_source {
    const char *path; /* borrowed */
    enum replay_format format;
    const struct log_fields *fields; /* borrowed */
    struct log_clock clock;
    struct log_reader reader;
    uint64_t size; /* bytes; 0: unknown */
    bool is_empty;

    /* from its first lines */
    uint64_t earliest_us; /* UINT64_MAX: there is none */
    uint32_t parts;
    bool has_query;

    uint64_t latest_us; /* of all lines that were read */
    uint64_t last_us;   /* of the last line that was read */
    /* The earlier time of the last two lines; it decides which log is read next. Thus a single line
     * with a time far ahead does not delay its log. */
    uint64_t reached_us;
    bool has_ended;
};

/* Open @path, "-" for standard input, and survey its first lines. REPLAY_AUTO as @format detects
 * the format. On failure @problem says why. */
MUST_USE enum status log_source_open(struct log_source *source, const char *path,
                                     enum replay_format format, const struct log_fields *fields,
                                     struct log_blocks *blocks, struct text *problem);
void log_source_close(struct log_source *source);

/* Parse one line in the format of @source. */
MUST_USE bool log_source_read(struct log_source *source, char *bytes, size_t len,
                              struct log_line *line);

#endif /* SLUICE_SIMULATION_LOG_SOURCE_H */
