#include "admin/policy_change.h"

#include <string.h>

static const char NO_MEMORY[] = "out of memory";
static const char UNKNOWN_KEY[] =
    "what can be set of a limit is rate, burst, plans.PLAN, max_wait and shadow";

static struct span behind(struct span span, size_t n)
{
    return span_of(span.data + n, span.len - n);
}

/* As the loader would read it from a file: a number or boolean if it is one, else a string. */
static json_t *value_of(struct span text)
{
    uint64_t number;
    if (span_equals(text, SPAN("true")) || span_equals(text, SPAN("false"))) {
        return json_boolean(text.data[0] == 't');
    }
    return span_to_u64(text, INT64_MAX, &number) ? json_integer((json_int_t)number)
                                                 : json_stringn(text.data, text.len);
}

/* "A,B" as a list. */
static json_t *values_of(struct span text)
{
    json_t *list = json_array();
    struct span item;
    while (span_split(&text, ',', &item)) {
        if (json_array_append_new(list, value_of(span_trim(item))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Set @key of @object to @value, which is taken over; an empty @text removes it. */
static const char *set(json_t *object, const char *key, struct span text, json_t *value)
{
    if (text.len == 0) {
        json_decref(value);
        (void)json_object_del(object, key);
        return NULL;
    }
    return json_object_set_new(object, key, value) == 0 ? NULL : NO_MEMORY;
}

/* Where the rate and the burst of @limit stand: in the item of its list of rates if that has one,
 * with members. */
static json_t *holder_of_rate(json_t *limit)
{
    const json_t *rates = json_object_get(limit, "rate");
    json_t *only = json_array_size(rates) == 1 ? json_array_get(rates, 0) : NULL;
    return json_is_object(only) ? only : limit;
}

static const char *set_plan(json_t *limit, struct span plan, struct span text)
{
    json_t *plans = json_object_get(limit, "plans");
    const char *name;
    json_t *rates;
    json_object_foreach(plans, name, rates)
    {
        if (span_equals(span_of_text(name), plan)) {
            return set(plans, name, text, values_of(text));
        }
    }
    return "the limit has no such plan";
}

static const char *set_key(json_t *limit, struct span key, struct span text)
{
    json_t *holder = holder_of_rate(limit);
    const bool is_single = holder != limit && span_find(text, ',') == text.len;
    if (span_equals(key, SPAN("rate"))) {
        return is_single ? set(holder, "rate", text, value_of(text))
                         : set(limit, "rate", text, values_of(text));
    }
    if (span_equals(key, SPAN("burst"))) {
        return set(holder, "burst", text, value_of(text));
    }
    if (span_equals(key, SPAN("max_wait"))) {
        return set(limit, "max_wait", text, value_of(text));
    }
    if (span_equals(key, SPAN("shadow"))) {
        return set(limit, "shadow", text, value_of(text));
    }
    return span_starts_with(key, SPAN("plans."))
               ? set_plan(limit, behind(key, strlen("plans.")), text)
               : UNKNOWN_KEY;
}

const char *policy_change_apply(json_t *policy, struct span change)
{
    const size_t equals = span_find(change, '=');
    const struct span place = span_of(change.data, equals);
    json_t *found = NULL;
    struct span key = {NULL, 0};
    const char *name;
    json_t *limit;
    if (equals == change.len) {
        return "a change is LIMIT.KEY=VALUE, as per-client.rate=20/minute";
    }
    /* Names may have dots: the longest name that fits is meant. */
    json_object_foreach(json_object_get(policy, "limits"), name, limit)
    {
        const struct span prefix = span_of_text(name);
        const bool fits = span_starts_with(place, prefix) && place.len > prefix.len &&
                          place.data[prefix.len] == '.';
        if (fits && (found == NULL || place.len - prefix.len - 1 < key.len)) {
            found = limit;
            key = behind(place, prefix.len + 1);
        }
    }
    if (found == NULL) {
        return "there is no such limit; GET /v1/limits lists them";
    }
    return set_key(found, key, span_trim(behind(change, equals + 1)));
}
