#include "store/replica/replica_fields.h"

#include <string.h>

static struct span field_at(const struct replica_fields *fields, size_t i)
{
    return span_of(fields->bytes[i], fields->lens[i]);
}

bool replica_fields_add(struct replica_fields *fields, struct span field)
{
    size_t i = 0;
    while (i < fields->n && !span_equals(field_at(fields, i), field)) {
        i++;
    }
    if (i == REPLICA_FIELDS_MAX || field.len == 0 || field.len > REPLICA_FIELD_BYTES_MAX) {
        return false;
    }
    if (i == fields->n) {
        memcpy(fields->bytes[i], field.data, field.len);
        fields->lens[fields->n++] = (uint8_t)field.len;
    }
    return true;
}

size_t replica_fields_take(struct replica_fields *fields, struct span *words)
{
    const size_t n = fields->n;
    for (size_t i = 0; i < n; i++) {
        words[i] = field_at(fields, i);
    }
    fields->n = 0;
    return n;
}
