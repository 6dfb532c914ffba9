#include "admin/child.h"

#include <stdlib.h>
#include <string.h>

/* --- one argument --- */

static bool has_line_end(struct span value)
{
    return span_find(value, '\0') < value.len || span_find(value, '\r') < value.len ||
           span_find(value, '\n') < value.len;
}

void child_arguments_add(struct child_arguments *arguments, const char *prefix, struct span value)
{
    const size_t prefix_len = strlen(prefix);
    if (arguments->problem != NULL || arguments->no_memory) {
        return;
    }
    if (has_line_end(value)) {
        arguments->problem = "a value holds the end of a line, or a byte of zero";
        return;
    }
    if (arguments->n == CHILD_ARGUMENTS_MAX) {
        arguments->problem = "there are too many values";
        return;
    }
    char *item = malloc(prefix_len + value.len + 1);
    if (item == NULL) {
        arguments->no_memory = true;
        return;
    }
    memcpy(item, prefix, prefix_len);
    memcpy(item + prefix_len, value.data, value.len);
    item[prefix_len + value.len] = '\0';
    arguments->items[arguments->n++] = item;
}

void child_arguments_free(struct child_arguments *arguments)
{
    for (size_t i = 0; i < arguments->n; i++) {
        free(arguments->items[i]);
    }
    arguments->n = 0;
}

/* --- the request to explain --- */

static struct span text_of_json(const json_t *json)
{
    return span_of(json_string_value(json), json_string_length(json));
}

static void add_option(struct child_arguments *arguments, const char *prefix, json_t *value,
                       const char *problem)
{
    if (json_is_string(value)) {
        child_arguments_add(arguments, prefix, text_of_json(value));
    } else if (value != NULL && arguments->problem == NULL) {
        arguments->problem = problem;
    }
}

/* Add an option with the value NAME, @separator, @value. */
static void add_pair(struct child_arguments *arguments, const char *option, const char *name,
                     const char *separator, struct span value)
{
    const size_t name_len = strlen(name);
    const size_t separator_len = strlen(separator);
    char *pair = malloc(name_len + separator_len + value.len + 1);
    if (pair == NULL) {
        arguments->no_memory = true;
        return;
    }
    memcpy(pair, name, name_len);
    memcpy(pair + name_len, separator, separator_len);
    memcpy(pair + name_len + separator_len, value.data, value.len);
    child_arguments_add(arguments, option, span_of(pair, name_len + separator_len + value.len));
    free(pair);
}

/* Letters take the rest of their argument for the value, whatever it begins with. */
#define HEADER_OPTION "-H"
#define CLAIM_OPTION "--claim="

static void add_header(struct child_arguments *arguments, const char *name, json_t *value)
{
    static const char PROBLEM[] = "headers: {NAME: VALUE}, where VALUE is a string or a list of "
                                  "strings; or a list of \"NAME: VALUE\"";
    json_t *item;
    size_t i;
    if (json_is_string(value)) {
        add_pair(arguments, HEADER_OPTION, name, ": ", text_of_json(value));
    } else if (!json_is_array(value)) {
        arguments->problem = PROBLEM;
    }
    json_array_foreach(value, i, item)
    {
        if (!json_is_string(item)) {
            arguments->problem = PROBLEM;
            return;
        }
        add_pair(arguments, HEADER_OPTION, name, ": ", text_of_json(item));
    }
}

static void add_headers(struct child_arguments *arguments, json_t *headers)
{
    const char *name;
    json_t *value;
    size_t i;
    json_object_foreach(headers, name, value)
    {
        add_header(arguments, name, value);
    }
    json_array_foreach(headers, i, value)
    {
        add_option(arguments, HEADER_OPTION, value, "headers: a list has strings \"NAME: VALUE\"");
    }
    if (headers != NULL && !json_is_object(headers) && !json_is_array(headers)) {
        arguments->problem = "headers must be an object, or a list of \"NAME: VALUE\"";
    }
}

static void add_claim(struct child_arguments *arguments, const char *name, json_t *value)
{
    if (json_is_string(value)) {
        add_pair(arguments, CLAIM_OPTION, name, "=", text_of_json(value));
        return;
    }
    char *text = json_is_integer(value) || json_is_boolean(value)
                     ? json_dumps(value, JSON_ENCODE_ANY)
                     : NULL;
    if (text == NULL) {
        arguments->problem = "claims: a value is a string, a whole number, true or false, or a "
                             "list of such";
        return;
    }
    add_pair(arguments, CLAIM_OPTION, name, "=", span_of_text(text));
    free(text);
}

static void add_claims(struct child_arguments *arguments, json_t *claims)
{
    const char *name;
    json_t *value;
    json_t *item;
    size_t i;
    json_object_foreach(claims, name, value)
    {
        if (!json_is_array(value)) {
            add_claim(arguments, name, value);
        }
        json_array_foreach(value, i, item)
        {
            add_claim(arguments, name, item);
        }
    }
    if (claims != NULL && !json_is_object(claims)) {
        arguments->problem = "claims must be an object";
    }
}

/* An unknown member would be a wish that is not heeded. */
static void check_members(struct child_arguments *arguments, json_t *json)
{
    static const char *const KNOWN[] = {"method", "url",   "headers", "from",
                                        "scheme", "http2", "claims",  "tenant"};
    const char *name;
    json_t *value;
    json_object_foreach(json, name, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < ARRAY_LEN(KNOWN); i++) {
            is_known = is_known || strcmp(name, KNOWN[i]) == 0;
        }
        if (!is_known) {
            arguments->problem =
                "the members are method, url, headers, from, scheme, http2, claims and tenant";
        }
    }
}

void child_arguments_explain(struct child_arguments *arguments, json_t *json,
                             const char *policy_path)
{
    const json_t *http2 = json_object_get(json, "http2");
    json_t *method = json_object_get(json, "method");
    json_t *url = json_object_get(json, "url");
    check_members(arguments, json);
    child_arguments_add(arguments, "sluice", SPAN(""));
    child_arguments_add(arguments, "explain", SPAN(""));
    child_arguments_add(arguments, "--json", SPAN(""));
    add_option(arguments, "--from=", json_object_get(json, "from"), "from must be a string");
    add_option(arguments, "--scheme=", json_object_get(json, "scheme"), "scheme must be a string");
    add_headers(arguments, json_object_get(json, "headers"));
    add_claims(arguments, json_object_get(json, "claims"));
    add_option(arguments, "--tenant=", json_object_get(json, "tenant"), "tenant must be a string");
    if (json_is_true(http2)) {
        child_arguments_add(arguments, "--http2", SPAN(""));
    } else if (http2 != NULL && !json_is_false(http2)) {
        arguments->problem = "http2 must be true or false";
    }
    if (!json_is_string(url) || (method != NULL && !json_is_string(method))) {
        arguments->problem = "method and url must be strings";
        return;
    }
    child_arguments_add(arguments, "--", SPAN(""));
    child_arguments_add(arguments, policy_path, SPAN(""));
    child_arguments_add(arguments, "", method != NULL ? text_of_json(method) : SPAN("GET"));
    child_arguments_add(arguments, "", text_of_json(url));
}
