#include "policy/cost.h"

#include <assert.h>

#include "http/grpc.h"
#include "policy/answer_set.h"

/* The field named @name. NULL: there is none, or it occurs with different values. */
static const struct field *find_one(const struct head *head, struct span name)
{
    const struct field *found = head_find_name(head, name);
    for (size_t i = 0; i < head->n_fields && found != NULL; i++) {
        const struct field *other = &head->fields[i];
        if (span_equals_ignore_case(other->name, name) &&
            !span_equals(other->value, found->value)) {
            return NULL;
        }
    }
    return found;
}

static bool is_number(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
    }
    return text.len > 0;
}

/* Read a whole number from the field @name of @head; a larger number than @max gives @max. */
static bool read_units(const struct head *head, struct span name, uint32_t max, uint64_t *units)
{
    const struct field *field = find_one(head, name);
    if (field == NULL || !is_number(field->value)) {
        return false;
    }
    if (!span_to_u64(field->value, max, units)) {
        *units = max;
    }
    return true;
}

uint32_t cost_of_method(const struct cost_spec *cost, struct span method)
{
    for (size_t i = 0; i < cost->n_methods; i++) {
        if (span_equals(cost->methods[i].method, method)) {
            return cost->methods[i].units;
        }
    }
    return cost->units;
}

static uint32_t cost_by_field(const struct cost_spec *cost, const struct request_view *request)
{
    uint64_t units = 0;
    const bool is_trusted = cost->trust_any || request->peer_is_trusted;
    const bool is_reported =
        is_trusted && read_units(request->head, cost->field, cost->max, &units) && units > 0;
    return is_reported ? (uint32_t)units : cost->max;
}

uint32_t cost_of_request(const struct cost_spec *cost, const struct request_view *request)
{
    switch (cost->kind) {
    case COST_FIXED:
    case COST_RESPONSE_HEADER:
        break;
    case COST_BY_METHOD:
        return cost_of_method(cost, request->head->method);
    case COST_REQUEST_HEADER:
        return cost_by_field(cost, request);
    }
    return cost->units;
}

bool cost_of_response(const struct cost_spec *cost, const struct head *head, bool is_cut,
                      bool is_conditional, uint32_t *units)
{
    uint64_t reported = 0;
    assert(cost->kind == COST_RESPONSE_HEADER);
    if (read_units(head, cost->field, cost->max, &reported)) {
        *units = (uint32_t)reported;
        return true;
    }
    if (answer_is_doubtful(head->status, grpc_head_status(head), is_cut, is_conditional) ||
        answer_hides_status(head->status) || (is_conditional && head->status == 304)) {
        *units = cost->max;
        return true;
    }
    return false;
}
