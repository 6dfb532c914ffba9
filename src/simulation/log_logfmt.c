/* logfmt, as sluice writes its own access log: `key=value key="a value"`. */

#include <string.h>

#include "simulation/log_fields.h"
#include "simulation/log_line.h"

/* The value at @at, in quotes or not; moves *at behind it. */
static struct span take_value(char **at, char *end)
{
    char *start = *at;
    if (start == end || *start != '"') {
        char *space = memchr(start, ' ', (size_t)(end - start));
        *at = space == NULL ? end : space;
        return span_of(start, (size_t)(*at - start));
    }
    struct span text = span_of(end, 0);
    start++;
    if (!log_quoted_read(&start, end, true, &text)) {
        *at = end;
        return text;
    }
    *at = start;
    return text;
}

bool log_logfmt_read(char *line, size_t len, const struct log_fields *fields,
                     struct log_clock *clock, struct log_line *out)
{
    struct log_values values = {.values = {{NULL, 0}}};
    char *at = line;
    char *end = line + len;
    while (at < end) {
        char *equals = memchr(at, '=', (size_t)(end - at));
        if (equals == NULL) {
            break;
        }
        const struct log_field_name *name =
            log_fields_find(fields, span_of(at, (size_t)(equals - at)));
        at = equals + 1;
        const struct span value = take_value(&at, end);
        if (name != NULL) {
            log_values_add(&values, name, value);
        }
        while (at < end && *at == ' ') {
            at++;
        }
    }
    return log_values_read(&values, clock, out);
}
