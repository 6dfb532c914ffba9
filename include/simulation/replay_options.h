/* The options of a replay: the logs and their formats. */

#ifndef SLUICE_SIMULATION_REPLAY_OPTIONS_H
#define SLUICE_SIMULATION_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum {
    REPLAY_LOGS_MAX = 256,
    REPLAY_FIELDS_MAX = 32,
    REPLAY_NOTES_MAX = 64,
    REPLAY_PROBLEM_BYTES = 1024,
};

enum replay_format {
    REPLAY_AUTO, /* detected from the first lines of each log */
    REPLAY_COMBINED,
    REPLAY_JSON,
    REPLAY_LOGFMT,
};

/* The meaning of a field of JSON or logfmt: see log_fields_add(). */
struct replay_field {
    struct span what;
    struct span name;
};

struct replay_progress {
    uint64_t n_lines;
    uint64_t n_bytes;
    uint64_t n_bytes_in_all; /* 0: unknown */
};

struct replay_options {
    char *const *paths; /* "-": standard input */
    size_t n_paths;     /* 1 … REPLAY_LOGS_MAX */
    enum replay_format format;
    struct replay_field fields[REPLAY_FIELDS_MAX];
    size_t n_fields;
    struct span host; /* for requests whose line has none; empty: unknown */
    bool is_hashed;   /* values of headers, cookies and parameters are hashes of them */
    void (*on_progress)(void *context, const struct replay_progress *progress); /* may be NULL */
    void *context;
};

#endif /* SLUICE_SIMULATION_REPLAY_OPTIONS_H */
