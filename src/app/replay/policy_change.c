#include "app/replay/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/diag.h"

static const char NO_MEMORY[] = "out of memory";
static const char UNKNOWN_KEY[] =
    "what can be set of a limit is rate, burst, rate.N, burst.N, plans.PLAN, max_wait and shadow";
static const char NO_RATE[] = "the limit has no such rate; several are numbered: rate.1, burst.1";

/* The key of a policy in its short form, and the name of the limit that it makes. */
#define SHORT_FORM "limit"
#define SHORT_FORM_NAME SPAN("per-client")

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

/* --- rates: of a limit, or of one of its plans --- */

/* The rates at @key of @holder, a list; a single one becomes one. NULL: there are none, or there is
 * no memory. */
static json_t *rates_of(json_t *holder, const char *key)
{
    json_t *rates = json_object_get(holder, key);
    if (rates == NULL || json_is_array(rates)) {
        return rates;
    }
    json_t *list = json_pack("[O]", rates);
    return json_object_set_new(holder, key, list) == 0 ? list : NULL;
}

/* Set the rate at @i of @rates, which keeps its burst. */
static const char *set_rate(json_t *rates, size_t i, struct span text)
{
    json_t *item = json_array_get(rates, i);
    if (json_is_object(item)) {
        return set(item, "rate", text, value_of(text));
    }
    if (text.len == 0) {
        return json_array_remove(rates, i) == 0 ? NULL : NO_MEMORY;
    }
    return json_array_set_new(rates, i, value_of(text)) == 0 ? NULL : NO_MEMORY;
}

/* Set the burst of the rate at @i of @rates, which becomes {rate: RATE, burst: N}. */
static const char *set_burst(json_t *rates, size_t i, struct span text)
{
    json_t *item = json_array_get(rates, i);
    if (!json_is_object(item)) {
        item = json_pack("{sO}", "rate", item);
        if (json_array_set_new(rates, i, item) != 0) {
            return NO_MEMORY;
        }
    }
    return set(item, "burst", text, value_of(text));
}

/* Set what @key, rate.N or burst.N, says of the rates at @name of @holder; without N: of the only
 * one, or, for rate, of all of them. */
static const char *set_rates(json_t *holder, const char *name, struct span key, struct span text)
{
    json_t *rates = rates_of(holder, name);
    const size_t n_rates = json_array_size(rates);
    const size_t dot = span_find(key, '.');
    const bool is_rate = span_equals(span_of(key.data, dot), SPAN("rate"));
    const bool is_numbered = dot < key.len;
    uint64_t number = 1;
    if (!is_rate && !span_equals(span_of(key.data, dot), SPAN("burst"))) {
        return UNKNOWN_KEY;
    }
    if (is_rate && !is_numbered && (n_rates != 1 || span_find(text, ',') < text.len)) {
        return set(holder, name, text, values_of(text));
    }
    if (is_numbered && (!span_to_u64(behind(key, dot + 1), UINT32_MAX, &number) || number == 0)) {
        return NO_RATE;
    }
    if (number > n_rates || (!is_numbered && n_rates > 1)) {
        return NO_RATE;
    }
    return is_rate ? set_rate(rates, number - 1, text) : set_burst(rates, number - 1, text);
}

/* --- plans --- */

/* The plan of @limit whose name, the longest, @key begins with, up to its end or a dot; @rest is
 * what is behind that. NULL: none. */
static const char *find_plan(json_t *limit, struct span key, struct span *rest)
{
    const char *found = NULL;
    size_t found_len = 0;
    const char *name;
    json_t *rates;
    json_object_foreach(json_object_get(limit, "plans"), name, rates)
    {
        const size_t len = strlen(name);
        const bool fits =
            span_starts_with(key, span_of(name, len)) && (key.len == len || key.data[len] == '.');
        if (fits && (found == NULL || len > found_len)) {
            found = name;
            found_len = len;
            *rest = behind(key, key.len == len ? len : len + 1);
        }
    }
    return found;
}

static const char *set_plan(json_t *limit, struct span key, struct span text)
{
    json_t *plans = json_object_get(limit, "plans");
    struct span rest = {NULL, 0};
    const char *name = find_plan(limit, key, &rest);
    if (name == NULL) {
        return "the limit has no such plan";
    }
    if (rest.len == 0) {
        return set(plans, name, text, values_of(text));
    }
    return set_rates(plans, name, rest, text);
}

/* --- a limit --- */

/* Whether the burst of @limit stands beside its rate, as that of one rate may. */
static bool has_burst_beside(const json_t *limit)
{
    const json_t *rates = json_object_get(limit, "rate");
    return json_array_size(rates) != 1 || !json_is_object(json_array_get(rates, 0));
}

static const char *set_key(json_t *limit, struct span key, struct span text)
{
    static const char *const BESIDE[] = {"max_wait", "shadow"};
    for (size_t i = 0; i < ARRAY_LEN(BESIDE); i++) {
        if (span_equals(key, span_of_text(BESIDE[i]))) {
            return set(limit, BESIDE[i], text, value_of(text));
        }
    }
    if (span_equals(key, SPAN("burst")) && has_burst_beside(limit)) {
        return set(limit, "burst", text, value_of(text));
    }
    return span_starts_with(key, SPAN("plans."))
               ? set_plan(limit, behind(key, strlen("plans.")), text)
               : set_rates(limit, "rate", key, text);
}

/* Whether @place is @name, a dot and a key that is shorter than *key, if that is one; *key becomes
 * it. */
static bool fits(struct span place, struct span name, struct span *key)
{
    const bool is_of_it =
        span_starts_with(place, name) && place.len > name.len && place.data[name.len] == '.';
    if (!is_of_it || (key->data != NULL && place.len - name.len - 1 >= key->len)) {
        return false;
    }
    *key = behind(place, name.len + 1);
    return true;
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
    const struct span text = span_trim(behind(change, equals + 1));
    /* Names may have dots: the longest name that fits is meant. */
    json_object_foreach(json_object_get(policy, "limits"), name, limit)
    {
        found = fits(place, span_of_text(name), &key) ? limit : found;
    }
    if (found != NULL) {
        return set_key(found, key, text);
    }
    if (json_object_get(policy, SHORT_FORM) != NULL && fits(place, SHORT_FORM_NAME, &key)) {
        return set_rates(policy, SHORT_FORM, key, text);
    }
    return "the policy has no such limit";
}

/* --- the changed policy --- */

static enum status apply_all(json_t *policy, const char *const *changes, size_t n_changes)
{
    for (size_t i = 0; i < n_changes; i++) {
        const char *problem = policy_change_apply(policy, span_of_text(changes[i]));
        if (problem != NULL) {
            fprintf(stderr, "sluice replay: --set %s: %s\n", changes[i], problem);
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

/* A file in memory with @policy. -1: none can be had. */
static int make_file(const json_t *policy)
{
    const int fd = memfd_create("policy", MFD_CLOEXEC);
    if (fd >= 0 && json_dumpfd(policy, fd, JSON_COMPACT) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Warnings were reported of the policy as it was, and nobody can look up a place in memory. */
static void print_errors(const struct diags *diags)
{
    for (size_t i = 0; i < diags->n_items; i++) {
        if (diags->items[i].severity == DIAG_ERROR) {
            fprintf(stderr, "sluice replay: --set: %s\n", diags->items[i].text);
        }
    }
}

static enum status load_json(const json_t *policy, uint64_t now_us, struct policy **loaded)
{
    char path[32];
    struct diags diags;
    const int fd = make_file(policy);
    if (fd < 0) {
        fprintf(stderr, "sluice replay: --set: %s\n", NO_MEMORY);
        return STATUS_NO_MEMORY;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    diags_init(&diags, path);
    const enum status status = loader_load_file_at(path, now_us, loaded, &diags);
    print_errors(&diags);
    diags_close(&diags);
    (void)close(fd);
    return status;
}

enum status policy_change_load(const struct policy *policy, const char *path,
                               const char *const *changes, size_t n_changes, uint64_t now_us,
                               struct policy **changed)
{
    json_t *json = description_to_load(policy, path);
    enum status status = json != NULL ? apply_all(json, changes, n_changes) : STATUS_NO_MEMORY;
    if (status == STATUS_OK) {
        status = load_json(json, now_us, changed);
    }
    json_decref(json);
    return status;
}
