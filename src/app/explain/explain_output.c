#include "app/explain/explain_output.h"

#include "base/text.h"

/* --- the document --- */

json_t *explain_json_or_null(struct span span)
{
    return span.len > 0 ? json_of_bytes(span) : json_null();
}

json_t *explain_set(struct explain_output *out, json_t *object, const char *key, json_t *value)
{
    const bool is_set = json_object_set_new(object, key, value) == 0;
    out->is_short = out->is_short || !is_set;
    return is_set ? value : NULL;
}

void explain_set_number(struct explain_output *out, json_t *object, const char *key,
                        uint64_t number)
{
    explain_set(out, object, key, json_integer((json_int_t)number));
}

json_t *explain_append(struct explain_output *out, json_t *list, json_t *value)
{
    const bool is_added = json_array_append_new(list, value) == 0;
    out->is_short = out->is_short || !is_added;
    return is_added ? value : NULL;
}

void explain_set_list(struct explain_output *out, json_t *object, const char *key,
                      const struct span *spans, size_t n)
{
    json_t *list = explain_set(out, object, key, json_array());
    for (size_t i = 0; i < n; i++) {
        explain_append(out, list, json_of_bytes(spans[i]));
    }
}

/* --- the text --- */

void explain_end_line(struct explain_output *out)
{
    if (out->text != NULL && out->has_line) {
        fputc('\n', out->text);
    }
    out->has_line = true;
}

void explain_say_item(const struct explain_output *out, struct span item, size_t i, size_t n,
                      const char *before_last)
{
    explain_say(out, "%s%.*s", i == 0 ? "" : i + 1 == n ? before_last : ", ", EXPLAIN_VALUE(item));
}

void explain_say_list(const struct explain_output *out, const struct span *spans, size_t n,
                      const char *before_last)
{
    for (size_t i = 0; i < n; i++) {
        explain_say_item(out, spans[i], i, n, before_last);
    }
}

struct word explain_time(uint64_t us)
{
    char buffer[sizeof(struct word)];
    struct text text = text_of(buffer, sizeof(buffer));
    text_add_time(&text, us);
    return word_of(&text);
}

struct word explain_address(const struct address *address)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    address_write(address, &text);
    return word_of(&text);
}
