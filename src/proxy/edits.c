#include "proxy/edits.h"

#include "base/status.h"
#include "http/message.h"
#include "policy/edits.h"
#include "proxy/exchange_steps.h"
#include "proxy/reply.h"

bool edits_prepare(struct exchange *exchange)
{
    const struct route *route = exchange->route;
    if (route->edits->prefix.len == 0) {
        return true;
    }
    char *buffer = arena_alloc(&exchange->arena, exchange->request.target.path.len + 1);
    if (buffer == NULL) {
        exchange_fail(exchange, 503, status_text(STATUS_NO_MEMORY));
        return false;
    }
    const char *refusal =
        edits_strip_prefix(route, &exchange->view, buffer, &exchange->stripped_path);
    if (refusal != NULL) {
        exchange_fail(exchange, 400, refusal);
    }
    return refusal == NULL;
}

void edits_write_request(const struct exchange *exchange, uint64_t skipped, struct text *text)
{
    const struct field_edits *edits = &exchange->route->edits->request;
    const struct head *request = &exchange->request;
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (!field->hop_by_hop && (skipped >> field->id & 1) == 0 &&
            !field_edits_drop(edits, field)) {
            message_write_field(text, field->name, field->value);
        }
    }
    for (size_t i = 0; i < edits->n_set; i++) {
        message_write_field(text, edits->set[i].name, edits->set[i].value);
    }
}

void edits_hide(struct exchange *exchange)
{
    const struct field_edits *edits = &exchange->route->edits->response;
    for (size_t i = 0; i < exchange->response.n_fields; i++) {
        struct field *field = &exchange->response.fields[i];
        field->hop_by_hop = field->hop_by_hop || field_edits_drop(edits, field);
    }
}

static bool is_own(const struct exchange *exchange, struct span name)
{
    for (size_t i = 0; i < exchange->out.n_own_fields; i++) {
        if (span_equals_ignore_case(exchange->own_fields[i].name, name)) {
            return true;
        }
    }
    return false;
}

void edits_add(struct exchange *exchange)
{
    const struct field_edits *edits = &exchange->route->edits->response;
    for (size_t i = 0; i < edits->n_set; i++) {
        if (!is_own(exchange, edits->set[i].name)) {
            reply_add_field(exchange, FIELD_OTHER, edits->set[i].name, edits->set[i].value);
        }
    }
}
