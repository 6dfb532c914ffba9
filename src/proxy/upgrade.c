#include "proxy/upgrade.h"

static bool is_let_pass(const struct route *route, struct span protocol)
{
    for (size_t i = 0; i < route->n_upgrades; i++) {
        if (span_equals_ignore_case(route->upgrades[i], protocol)) {
            return true;
        }
    }
    return false;
}

static bool is_asked_for(const struct head *request, struct span protocol)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct field *field = &request->fields[i];
        if (field->id == FIELD_UPGRADE && field_list_has(field->value, protocol)) {
            return true;
        }
    }
    return false;
}

static bool is_offered(const struct head *request, const struct route *route, struct span protocol)
{
    return request->has_upgrade && is_let_pass(route, protocol) && is_asked_for(request, protocol);
}

static size_t write_line(struct span line, const struct route *route, size_t n_written,
                         struct text *text)
{
    struct span protocol;
    while (field_list_next(&line, &protocol)) {
        if (is_let_pass(route, protocol)) {
            text_add(text,
                     n_written++ == 0 ? SPAN("Connection: Upgrade\r\nUpgrade: ") : SPAN(", "));
            text_add(text, protocol);
        }
    }
    return n_written;
}

bool upgrade_write_offer(const struct head *request, const struct route *route, struct text *text)
{
    size_t n_written = 0;
    for (size_t i = 0; request->has_upgrade && i < request->n_fields; i++) {
        if (request->fields[i].id == FIELD_UPGRADE) {
            n_written = write_line(request->fields[i].value, route, n_written, text);
        }
    }
    if (n_written > 0) {
        text_add_literal(text, "\r\n");
    }
    return n_written > 0;
}

/* The one protocol that @response names; false: none, or several. */
static bool find_protocol(const struct head *response, struct span *protocol)
{
    size_t n = 0;
    for (size_t i = 0; i < response->n_fields; i++) {
        const struct field *field = &response->fields[i];
        struct span line = field->value;
        while (field->id == FIELD_UPGRADE && field_list_next(&line, protocol)) {
            n++;
        }
    }
    return n == 1;
}

bool upgrade_is_taken(const struct head *request, const struct route *route,
                      const struct head *response, struct span *protocol)
{
    return response->has_upgrade && find_protocol(response, protocol) &&
           is_offered(request, route, *protocol);
}
