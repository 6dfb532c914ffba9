#include "store/ban_fields.h"

#include <string.h>

static bool is_awaited(const struct ban_fields *fields, struct span field)
{
    for (size_t i = 0; i < fields->n; i++) {
        if (span_equals(span_of(fields->bytes[i], fields->lens[i]), field)) {
            return true;
        }
    }
    return false;
}

bool ban_fields_add(struct ban_fields *fields, struct span field)
{
    if (fields->n == BAN_FIELDS_MAX || field.len == 0 || field.len > BAN_FIELD_BYTES_MAX) {
        return false;
    }
    if (!is_awaited(fields, field)) {
        memcpy(fields->bytes[fields->n], field.data, field.len);
        fields->lens[fields->n++] = (uint8_t)field.len;
    }
    return true;
}

struct span ban_fields_take(struct ban_fields *fields)
{
    fields->n--;
    return span_of(fields->bytes[fields->n], fields->lens[fields->n]);
}
