#include "admin/describe.h"

#include "admin/request.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/units.h"

enum { KEY_PART_BYTES_MAX = KEY_ALTERNATIVES_MAX * 300 };

void describe_append(json_t **list, json_t *value)
{
    if (*list == NULL || json_array_append_new(*list, value) != 0) {
        if (*list == NULL) {
            json_decref(value);
        }
        json_decref(*list);
        *list = NULL;
    }
}

void describe_set(json_t **object, const char *key, json_t *value)
{
    if (*object == NULL || json_object_set_new(*object, key, value) != 0) {
        if (*object == NULL) {
            json_decref(value);
        }
        json_decref(*object);
        *object = NULL;
    }
}

json_t *describe_duration(uint64_t us)
{
    char buffer[32];
    struct text text = text_of(buffer, sizeof(buffer));
    units_write_duration(&text, us);
    return json_of_span(text_span(&text));
}

json_t *describe_size(uint64_t bytes)
{
    char buffer[32];
    struct text text = text_of(buffer, sizeof(buffer));
    units_write_size(&text, bytes);
    return json_of_span(text_span(&text));
}

json_t *describe_prefixes(const struct address_prefix *prefixes, size_t n_prefixes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_prefixes; i++) {
        char buffer[ADDRESS_TEXT_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        address_write(&prefixes[i].base, &text);
        if (prefixes[i].base.family != ADDRESS_NONE) {
            text_add_char(&text, '/');
            text_add_u64(&text, prefixes[i].bits);
        }
        describe_append(&list, json_of_span(text_span(&text)));
    }
    return list;
}

json_t *describe_spans(const struct span *spans, size_t n_spans)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n_spans; i++) {
        describe_append(&list, json_of_span(spans[i]));
    }
    return list;
}

/* As the policy says it. */
static void write_term(const struct key_term *term, struct text *text)
{
    key_print_term(term, text);
    if (term->source == KEY_CLIENT_IP && term->ipv6_bits != KEY_IPV6_BITS_DEFAULT) {
        text_add_format(text, "/%u", term->ipv6_bits);
    }
}

json_t *describe_key(const struct key *key)
{
    json_t *list = json_array();
    for (size_t i = 0; i < key->n_parts; i++) {
        const struct key_part *part = &key->parts[i];
        char buffer[KEY_PART_BYTES_MAX];
        struct text text = text_of(buffer, sizeof(buffer));
        for (size_t j = 0; j < part->n_terms; j++) {
            text_add(&text, j > 0 ? SPAN(" | ") : SPAN(""));
            write_term(&part->terms[j], &text);
        }
        describe_append(&list, json_of_span(text_span(&text)));
    }
    return list;
}

const char *describe_on_failure(enum on_failure on_failure)
{
    switch (on_failure) {
    case ON_FAILURE_LOCAL:
        return "local";
    case ON_FAILURE_ALLOW:
        return "allow";
    case ON_FAILURE_DENY:
        return "deny";
    }
    return "local";
}
