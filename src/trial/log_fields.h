/* Which field of a log means what: names that are in use, and those that the operator gives. */

#ifndef SLUICE_TRIAL_LOG_FIELDS_H
#define SLUICE_TRIAL_LOG_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "http/field.h"
#include "trial/log_line.h"

enum {
    LOG_FIELD_NAMES_MAX = 96,
    LOG_NAME_LENGTHS = 64, /* longer names share the last */
};

struct log_field_name {
    struct span name;
    uint8_t part; /* enum log_part */
    uint8_t rank; /* of several names for one part the least counts */
    int16_t next; /* of the same length, or -1 */
};

struct log_fields {
    struct log_field_name names[LOG_FIELD_NAMES_MAX];
    size_t n_names;
    int16_t by_length[LOG_NAME_LENGTHS];
    struct field headers[LOG_HEADERS_MAX]; /* the values are empty */
    size_t n_headers;
    uint32_t said; /* bit set of enum log_part: headers that log_fields_add() named */
};

/* Headers that the combined format has, in this order in every table. */
enum {
    LOG_USER_AGENT,
    LOG_REFERER,
    LOG_FORWARDED_FOR,
};

void log_fields_init(struct log_fields *fields);

/* The field @name means @what: `time`, `client`, `method`, `path`, `request`, `host`, `status`,
 * `duration` (s), `cost` or `header.NAME`. Texts are borrowed. Returns NULL, or what is wrong. */
MUST_USE const char *log_fields_add(struct log_fields *fields, struct span what, struct span name);

/* What the field @name means; NULL: nothing. */
const struct log_field_name *log_fields_find(const struct log_fields *fields, struct span name);

/* What is gathered of one line before it is made sense of. */
struct log_values {
    struct span values[LOG_PARTS]; /* data is NULL: not there */
    uint8_t ranks[LOG_PARTS];
};

/* Remember @value if @name means something. */
void log_values_add(struct log_values *values, const struct log_field_name *name,
                    struct span value);

/* Make a line of @values; false: it says neither when nor who, or nonsense. */
MUST_USE bool log_values_read(const struct log_values *values, struct log_clock *clock,
                              struct log_line *out);

#endif /* SLUICE_TRIAL_LOG_FIELDS_H */
