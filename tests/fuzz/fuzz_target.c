/* target_parse(), target_is_host(), path_normalise() and query_find(): a normalised path is its own
 * normal form. The first byte of the input chooses the rules. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/must_hold.h"
#include "http/target.h"
#include "http/values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As large as the contract asks for and no larger. */
static char *buffer_for(struct span raw)
{
    char *buffer = malloc(raw.len + 1);
    MUST_HOLD(buffer != NULL);
    return buffer;
}

static bool is_dot_segment(struct span segment)
{
    return span_equals(segment, SPAN(".")) || span_equals(segment, SPAN(".."));
}

static void check_segments(const struct path *path, const struct path_rules *rules)
{
    size_t len = 0;

    MUST_HOLD(path->n_segments > 0 && path->n_segments <= PATH_SEGMENTS_MAX);
    for (size_t i = 0; i < path->n_segments; i++) {
        const struct span segment = path->segments[i];
        MUST_HOLD(rules->keep_dots || !is_dot_segment(segment));
        MUST_HOLD(segment.len > 0 || i + 1 == path->n_segments);
        MUST_HOLD(span_find(segment, '/') == segment.len);
        MUST_HOLD(span_find(segment, ';') == segment.len);
        len += segment.len + 1;
    }
    MUST_HOLD(len == path->text.len || span_equals(path->text, SPAN("*")));
}

static size_t count(struct span span, const char *octets)
{
    size_t n = 0;
    for (size_t i = 0; i < span.len; i++) {
        n += span.data[i] != '\0' && strchr(octets, span.data[i]) != NULL;
    }
    return n;
}

/* No escape has become a separator, and none that is left stands for what needs no escape. */
static void check_octets(struct span raw, const struct path *path, const struct path_rules *rules)
{
    MUST_HOLD(count(path->text, "/") <= count(raw, "/"));
    MUST_HOLD(count(path->text, "\\?#;%") <= count(raw, "\\?#;%"));
    MUST_HOLD(rules->allow_encoded_slash || count(path->text, "\\") == 0);
    for (size_t i = 0; i < path->text.len; i++) {
        MUST_HOLD(path->text.data[i] > ' ' && path->text.data[i] < 0x7f);
        if (path->text.data[i] == '%') {
            uint8_t octet = 0;
            MUST_HOLD(path->text.len - i > 2);
            const char digits[] = {path->text.data[i + 1], path->text.data[i + 2], '\0'};
            MUST_HOLD(sscanf(digits, "%2hhX", &octet) == 1);
            MUST_HOLD(octet != 0 && strchr("-._~", octet) == NULL);
            MUST_HOLD(!(octet >= '0' && octet <= '9') &&
                      !((octet | 32) >= 'a' && (octet | 32) <= 'z'));
            MUST_HOLD(rules->allow_encoded_slash || (octet != '/' && octet != '\\'));
        }
    }
}

static void check_path(struct span raw, const struct path_rules *rules)
{
    char *once_text = buffer_for(raw);
    char *twice_text = buffer_for(raw);
    struct path once;
    struct path twice;

    if (path_normalise(raw, rules, once_text, &once) == NULL) {
        MUST_HOLD(once.text.len <= raw.len);
        check_segments(&once, rules);
        check_octets(raw, &once, rules);
        MUST_HOLD(path_normalise(once.text, rules, twice_text, &twice) == NULL);
        MUST_HOLD(span_equals(once.text, twice.text));
        MUST_HOLD(once.n_segments == twice.n_segments);
    }
    free(once_text);
    free(twice_text);
}

/* As servers may decode it, turn by turn: shorter each time, until nothing is left to do. */
static void check_decoding(struct span raw)
{
    char *buffer = buffer_for(raw);
    struct span decoded = path_split_encoded(raw, buffer);

    MUST_HOLD(decoded.len <= raw.len);
    for (size_t before = raw.len + 1; path_unnest(decoded, buffer, &decoded);
         before = decoded.len) {
        MUST_HOLD(decoded.len < before);
    }
    free(buffer);
}

static void check_host(struct span host)
{
    char once_text[HOST_BYTES_MAX];
    char twice_text[HOST_BYTES_MAX];

    if (target_is_host(host)) {
        const struct span once = target_normalise_host(host, once_text);
        MUST_HOLD(target_is_host(once));
        MUST_HOLD(span_equals(once, target_normalise_host(once, twice_text)));
    }
}

static void check_target(struct span whole)
{
    static const struct span methods[] = {{"GET", 3}, {"OPTIONS", 7}, {"CONNECT", 7}};

    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        struct target target;
        if (target_parse(whole, methods[i], &target) != NULL) {
            continue;
        }
        MUST_HOLD(target_is_host(target.authority));
        MUST_HOLD(target.has_query || target.query.len == 0);
        MUST_HOLD(target.path.len > 0 || target.form == TARGET_AUTHORITY);
        char value_text[16];
        struct span value;
        if (query_find(target.query, SPAN("a"), value_text, sizeof(value_text), &value)) {
            MUST_HOLD(value.len <= sizeof(value_text));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    const struct path_rules rules = {
        .allow_encoded_slash = (data[0] & 1) != 0,
        .ignore_case = (data[0] & 2) != 0,
        .keep_dots = (data[0] & 4) != 0,
    };
    const struct span text = span_of((const char *)data + 1, size - 1);

    check_path(text, &rules);
    check_decoding(text);
    check_host(text);
    check_target(text);
    return 0;
}
