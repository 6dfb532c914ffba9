/* The meaning of log fields: well-known names and names that the operator gives. */

#ifndef SLUICE_SIMULATION_LOG_FIELDS_H
#define SLUICE_SIMULATION_LOG_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/status.h"
#include "http/field.h"
#include "policy/policy.h"
#include "simulation/log_line.h"
#include "simulation/replay_options.h"

enum {
    LOG_FIELD_NAMES_MAX = 96,
    LOG_NAME_LENGTHS = 64, /* longer names share the last */
};

struct log_field_name {
    struct span name;
    uint8_t part; /* enum log_part */
    uint8_t rank; /* of several names for one part, the lowest rank is used */
    int16_t next; /* next name of the same length, or -1 */
};

struct log_fields {
    struct log_field_name names[LOG_FIELD_NAMES_MAX];
    size_t n_names;
    int16_t by_length[LOG_NAME_LENGTHS];
    struct field headers[LOG_HEADERS_MAX]; /* the values are empty */
    size_t n_headers;
    uint32_t
        said; /* bit set of enum log_part: what not each line has, that log_fields_add() named */
};

/* Headers of the combined format, in this order in every table. */
enum {
    LOG_USER_AGENT,
    LOG_REFERER,
    LOG_FORWARDED_FOR,
};

void log_fields_init(struct log_fields *fields);

/* The field @name means @what: `time`, `client`, `method`, `path`, `request`, `host`, `status`,
 * `duration` (s), `cost`, `scheme`, `grpc`, `client.cert` and its names, or `header.NAME`. Texts
 * are borrowed. Returns NULL, or the fault. */
MUST_USE const char *log_fields_add(struct log_fields *fields, struct span what, struct span name);

/* The meaning of the field @name; NULL: it has none. */
const struct log_field_name *log_fields_find(const struct log_fields *fields, struct span name);

/* The raw values of one line. */
struct log_values {
    struct span values[LOG_PARTS]; /* data is NULL: absent */
    uint8_t ranks[LOG_PARTS];
};

/* Store @value if @name has a meaning. */
void log_values_add(struct log_values *values, const struct log_field_name *name,
                    struct span value);

/* Convert @values to a line. False: the client or the time is missing or invalid. */
MUST_USE bool log_values_read(const struct log_values *values, struct log_clock *clock,
                              struct log_line *out);

/* --- limits of a policy that cannot be judged as the proxy does, because data is lacking --- */

/* The data that the logs have. */
struct gaps_reported {
    uint32_t parts; /* bit set of enum log_part */
    bool has_query; /* targets have their query */
    bool has_host;
    bool is_hashed; /* see struct replay_options */
    bool has_tenants;
    const char *tenants_fault;       /* why tenants are not known; NULL: not said */
    const struct log_fields *fields; /* with the headers that the logs have */
};

struct unsupported {
    bool *left_out; /* by index of the limit */
    struct span notes[REPLAY_NOTES_MAX];
    size_t n_notes;
};

/* Find the parts of @policy that need data beyond @reported. Texts are in @arena.
 * STATUS_NO_MEMORY. */
MUST_USE enum status unsupported_find(struct unsupported *unsupported, const struct policy *policy,
                                      const struct gaps_reported *reported, struct arena *arena);

#endif /* SLUICE_SIMULATION_LOG_FIELDS_H */
