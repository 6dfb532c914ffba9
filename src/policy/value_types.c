#include "policy/value_types.h"

#include "base/address.h"
#include "http/field.h"
#include "http/method.h"
#include "http/target.h"
#include "policy/endpoint.h"
#include "policy/quote.h"
#include "policy/spec_values.h"
#include "policy/units.h"

#define BYTE_RATE_MAX (UINT64_C(1) << 40)

/* --- numbers, durations, sizes --- */

static bool check_bounds(const struct value_type *type, uint64_t value,
                         void (*write)(struct text *text, uint64_t value), struct text *problem)
{
    if (value >= type->min && value <= type->max) {
        return true;
    }
    text_add(problem, value < type->min ? SPAN("must be at least ") : SPAN("must be at most "));
    write(problem, value < type->min ? type->min : type->max);
    return false;
}

bool value_parse_number(const struct value_type *type, const struct node *node, struct arena *arena,
                        void *out, struct text *problem)
{
    uint64_t value = 0;
    (void)arena;
    if (!span_to_u64(node->text, UINT64_MAX, &value)) {
        text_add_literal(problem, "must be a whole number");
        return false;
    }
    if (!check_bounds(type, value, text_add_u64, problem)) {
        return false;
    }
    *(uint32_t *)out = (uint32_t)value;
    return true;
}

bool value_parse_duration(const struct value_type *type, const struct node *node,
                          struct arena *arena, void *out, struct text *problem)
{
    uint64_t us = 0;
    (void)arena;
    if (!units_parse_duration(node->text, &us, problem) ||
        !check_bounds(type, us, units_write_duration, problem)) {
        return false;
    }
    *(uint64_t *)out = us;
    return true;
}

bool value_parse_size(const struct value_type *type, const struct node *node, struct arena *arena,
                      void *out, struct text *problem)
{
    uint64_t bytes = 0;
    (void)arena;
    if (!units_parse_size(node->text, &bytes, problem) ||
        !check_bounds(type, bytes, units_write_size, problem)) {
        return false;
    }
    *(uint64_t *)out = bytes;
    return true;
}

static bool parse_byte_rate(const struct value_type *type, const struct node *node,
                            struct arena *arena, void *out, struct text *problem)
{
    const struct span suffix = SPAN("/s");
    struct span size = node->text;
    uint64_t bytes = 0;
    (void)type;
    (void)arena;
    if (span_equals(size, SPAN("off"))) {
        *(uint64_t *)out = 0;
        return true;
    }
    if (size.len < suffix.len ||
        !span_equals(span_of(size.data + size.len - suffix.len, suffix.len), suffix)) {
        text_add_literal(problem, "must be a size with /s, such as 1KiB/s, or off");
        return false;
    }
    size.len -= suffix.len;
    if (span_to_u64(size, UINT64_MAX, &bytes)) {
        text_add_literal(problem, "needs a unit; did you mean \"");
        units_write_size(problem, bytes);
        text_add_literal(problem, "/s\"?");
        return false;
    }
    if (!units_parse_size(size, &bytes, problem)) {
        return false;
    }
    if (bytes == 0 || bytes > BYTE_RATE_MAX) {
        text_add_literal(problem, "must be 1B/s to 1TiB/s, or off");
        return false;
    }
    *(uint64_t *)out = bytes;
    return true;
}

bool value_parse_auto(const struct value_type *type, const struct node *node, struct arena *arena,
                      void *out, struct text *problem)
{
    if (span_equals(node->text, SPAN("auto"))) {
        *(uint32_t *)out = 0;
        return true;
    }
    if (!value_parse_number(type, node, arena, out, problem)) {
        text_add_literal(problem, ", or auto");
        return false;
    }
    return true;
}

static bool parse_bool(const struct value_type *type, const struct node *node, struct arena *arena,
                       void *out, struct text *problem)
{
    const bool is_true = span_equals(node->text, SPAN("true"));
    (void)type;
    (void)arena;
    if (!is_true && !span_equals(node->text, SPAN("false"))) {
        text_add_literal(problem, "must be true or false");
        return false;
    }
    *(bool *)out = is_true;
    return true;
}

/* --- texts --- */

static bool parse_text(const struct value_type *type, const struct node *node, struct arena *arena,
                       void *out, struct text *problem)
{
    (void)type;
    (void)arena;
    (void)problem;
    *(struct spec_text *)out = (struct spec_text){.node = node, .text = node->text};
    return true;
}

static bool parse_content_type(const struct value_type *type, const struct node *node,
                               struct arena *arena, void *out, struct text *problem)
{
    if (node->text.len == 0 || !field_is_value(node->text)) {
        text_add_literal(problem, "must be a media type such as text/plain");
        return false;
    }
    return parse_text(type, node, arena, out, problem);
}

bool value_check_method(struct span method, struct text *problem)
{
    if (!field_is_token(method) || method.len > METHOD_BYTES_MAX) {
        text_add_literal(problem, "must be the name of a method");
        return false;
    }
    const enum method_id meant = method_find_ignoring_case(method);
    if (meant != METHOD_OTHER && !span_equals(method, method_name(meant))) {
        text_add_format(problem, "case counts in methods; did you mean \"%.*s\"?",
                        SPAN_ARGS(method_name(meant)));
        return false;
    }
    if (meant == METHOD_CONNECT) {
        text_add_literal(problem, "CONNECT is always refused");
        return false;
    }
    return true;
}

static bool parse_method(const struct value_type *type, const struct node *node,
                         struct arena *arena, void *out, struct text *problem)
{
    return value_check_method(node->text, problem) && parse_text(type, node, arena, out, problem);
}

/* RFC 9110 section 7.8: a name, and perhaps a version behind a slash. */
static bool parse_protocol(const struct value_type *type, const struct node *node,
                           struct arena *arena, void *out, struct text *problem)
{
    const size_t slash = span_find(node->text, '/');
    const struct span name = span_of(node->text.data, slash);
    const bool has_version = slash < node->text.len;
    const struct span version =
        has_version ? span_of(node->text.data + slash + 1, node->text.len - slash - 1) : name;
    if (!field_is_token(name) || !field_is_token(version)) {
        text_add_literal(problem, "must be a protocol such as websocket");
        return false;
    }
    return parse_text(type, node, arena, out, problem);
}

static bool parse_host_rule(const struct value_type *type, const struct node *node,
                            struct arena *arena, void *out, struct text *problem)
{
    if (node->text.len == 0 || !target_is_host(node->text)) {
        text_add_literal(problem, "must be preserve, server or the name of a host");
        return false;
    }
    return parse_text(type, node, arena, out, problem);
}

static bool parse_host_pattern(const struct value_type *type, const struct node *node,
                               struct arena *arena, void *out, struct text *problem)
{
    struct span host = node->text;
    if (span_starts_with(host, SPAN("*."))) {
        host = span_of(host.data + 2, host.len - 2);
    }
    char buffer[HOST_BYTES_MAX];
    const bool has_star = span_find(host, '*') < host.len;
    if (has_star || !target_is_host(host) || target_normalise_host(host, buffer).len == 0) {
        text_add_literal(problem, "must be a host, or \"*.\" and a host for all beneath it");
        return false;
    }
    const size_t bracket = span_find(host, ']');
    const size_t start = bracket < host.len ? bracket : 0;
    const struct span tail = span_of(host.data + start, host.len - start);
    if (span_find(tail, ':') < tail.len) {
        text_add_literal(problem, "must have no port: hosts are matched without it");
        return false;
    }
    return parse_text(type, node, arena, out, problem);
}

bool value_check_read_field(struct span name, struct text *problem)
{
    const struct span proxy = SPAN("proxy-");
    const bool is_of_proxy =
        name.len > proxy.len && span_equals_ignore_case(span_of(name.data, proxy.len), proxy);
    if (is_of_proxy || field_is_hop_by_hop(field_identify(name))) {
        quote_write(problem, name);
        text_add_literal(problem, " belongs to one connection and is not passed on: the upstream "
                                  "would not see what is read here");
        return false;
    }
    if (field_is_underscore_variant(name)) {
        quote_write(problem, name);
        text_add_literal(problem, " is a known name with \"_\" for \"-\", and requests with it "
                                  "are refused");
        return false;
    }
    return true;
}

static bool parse_header(const struct value_type *type, const struct node *node,
                         struct arena *arena, void *out, struct text *problem)
{
    struct spec_header *header = out;
    (void)type;
    (void)arena;
    if (!field_is_token(header->place.name)) {
        text_add_literal(problem, "the key must be the name of a header");
        return false;
    }
    if (!value_check_read_field(header->place.name, problem)) {
        return false;
    }
    if (!field_is_value(node->text)) {
        text_add_literal(problem, "no header can have this value");
        return false;
    }
    if (node->plain && span_equals(node->text, SPAN("false"))) {
        text_add_literal(problem,
                         "matching what lacks a header is not yet built; write \"'false'\" "
                         "for the word");
        return false;
    }
    header->node = node;
    header->is_present = node->plain && span_equals(node->text, SPAN("true"));
    header->value = span_trim(node->text);
    return true;
}

static bool parse_field_name(const struct value_type *type, const struct node *node,
                             struct arena *arena, void *out, struct text *problem)
{
    if (!field_is_token(node->text)) {
        text_add_literal(problem, "must be the name of a header");
        return false;
    }
    return parse_text(type, node, arena, out, problem);
}

static bool parse_field(const struct value_type *type, const struct node *node, struct arena *arena,
                        void *out, struct text *problem)
{
    struct spec_field *field = out;
    (void)type;
    (void)arena;
    if (!field_is_token(field->place.name)) {
        text_add_literal(problem, "the key must be the name of a header");
        return false;
    }
    if (!field_is_value(node->text)) {
        text_add_literal(problem, "must have no line end and no other control character");
        return false;
    }
    field->node = node;
    field->value = span_trim(node->text);
    return true;
}

/* --- places --- */

static bool parse_listen(const struct value_type *type, const struct node *node,
                         struct arena *arena, void *out, struct text *problem)
{
    struct spec_endpoint *endpoint = out;
    (void)type;
    (void)arena;
    if (!endpoint_parse_listen(node->text, &endpoint->endpoint, problem)) {
        return false;
    }
    endpoint->node = node;
    return true;
}

static bool parse_mode(const struct value_type *type, const struct node *node, struct arena *arena,
                       void *out, struct text *problem)
{
    const struct span text = node->text;
    uint32_t mode = 0;
    bool is_octal = text.len == 4 && text.data[0] == '0';
    (void)type;
    (void)arena;
    for (size_t i = 0; i < text.len && is_octal; i++) {
        is_octal = text.data[i] >= '0' && text.data[i] <= '7';
        mode = mode << 3 | (uint32_t)(text.data[i] - '0');
    }
    if (!is_octal) {
        text_add_literal(problem, "must be four octal digits from 0000 to 0777, such as 0660");
        return false;
    }
    *(uint32_t *)out = mode;
    return true;
}

static bool parse_name_server(const struct value_type *type, const struct node *node,
                              struct arena *arena, void *out, struct text *problem)
{
    struct spec_endpoint *endpoint = out;
    (void)type;
    (void)arena;
    if (!endpoint_parse_name_server(node->text, &endpoint->endpoint, problem)) {
        return false;
    }
    endpoint->node = node;
    return true;
}

static bool parse_server(const struct value_type *type, const struct node *node,
                         struct arena *arena, void *out, struct text *problem)
{
    struct spec_endpoint *endpoint = out;
    (void)type;
    (void)arena;
    if (!endpoint_parse_server(node->text, &endpoint->endpoint, problem)) {
        return false;
    }
    endpoint->node = node;
    return true;
}

static bool parse_redis(const struct value_type *type, const struct node *node, struct arena *arena,
                        void *out, struct text *problem)
{
    struct spec_redis *redis = out;
    (void)type;
    if (!redis_url_parse(node->text, arena, &redis->url, problem)) {
        return false;
    }
    redis->node = node;
    return true;
}

static bool parse_prefix(const struct value_type *type, const struct node *node,
                         struct arena *arena, void *out, struct text *problem)
{
    (void)type;
    (void)arena;
    if (span_equals(node->text, SPAN("unix"))) {
        *(struct address_prefix *)out = (struct address_prefix){.base.family = ADDRESS_NONE};
        return true;
    }
    if (!address_prefix_parse(node->text, out)) {
        text_add_literal(problem,
                         "must be an address, a prefix such as 10.0.0.0/8, or unix: who connects "
                         "on a unix socket");
        return false;
    }
    return true;
}

/* --- the list --- */

const struct value_type VALUE_TEXT = VALUE_SCALAR_TYPE("a text", struct spec_text, parse_text);
const struct value_type VALUE_SECRET = {
    .kind = VALUE_SCALAR,
    .noun = "a text",
    .bytes = sizeof(struct spec_text),
    .parse = parse_text,
    .is_secret = true,
};
const struct value_type VALUE_NAME = VALUE_SCALAR_TYPE("a name", struct spec_text, parse_text);
const struct value_type VALUE_CONTENT_TYPE =
    VALUE_SCALAR_TYPE("a media type such as text/plain", struct spec_text, parse_content_type);
const struct value_type VALUE_METHOD =
    VALUE_SCALAR_TYPE("a method such as GET", struct spec_text, parse_method);
const struct value_type VALUE_PROTOCOL =
    VALUE_SCALAR_TYPE("a protocol such as websocket", struct spec_text, parse_protocol);
const struct value_type VALUE_HOST_RULE =
    VALUE_SCALAR_TYPE("preserve, server or the name of a host", struct spec_text, parse_host_rule);
const struct value_type VALUE_HOST_PATTERN =
    VALUE_SCALAR_TYPE("a host, or \"*.\" and a host", struct spec_text, parse_host_pattern);
const struct value_type VALUE_BOOL = {
    .kind = VALUE_SCALAR,
    .noun = "true or false",
    .bytes = sizeof(bool),
    .parse = parse_bool,
    .form = FORM_SWITCH,
};
const struct value_type VALUE_LISTEN = VALUE_PATTERN_TYPE(
    "address:port or unix:/path", struct spec_endpoint, parse_listen, "unix:/.+|[^/]+:[0-9]+");
/* Four digits are a number to YAML: decimal to some, octal to others. */
const struct value_type VALUE_MODE = {
    .kind = VALUE_SCALAR,
    .noun = "permissions such as 0660",
    .bytes = sizeof(uint32_t),
    .parse = parse_mode,
    .max = 777,
    .form = FORM_NUMBER,
};
const struct value_type VALUE_NAME_SERVER =
    VALUE_SCALAR_TYPE("an address such as 10.0.0.53", struct spec_endpoint, parse_name_server);
const struct value_type VALUE_SERVER =
    VALUE_PATTERN_TYPE("a URL such as http://127.0.0.1:9000, or unix:/path", struct spec_endpoint,
                       parse_server, "http://.+|unix:/.+");
const struct value_type VALUE_REDIS = {
    .kind = VALUE_SCALAR,
    .noun = "a URL such as redis://127.0.0.1:6379/0, or several for a cluster",
    .bytes = sizeof(struct spec_redis),
    .parse = parse_redis,
    .is_secret = true,
    .pattern = "^((redis|rediss|redis\\+sentinel)://.+|(redis\\+)?unix:///.+)$",
};
const struct value_type VALUE_BYTE_RATE = VALUE_PATTERN_TYPE(
    "a size a second such as 1KiB/s, or off", uint64_t, parse_byte_rate, PATTERN_SIZE "/s|off");
const struct value_type VALUE_PREFIX =
    VALUE_PATTERN_TYPE("an address, a prefix such as 10.0.0.0/8, or unix", struct address_prefix,
                       parse_prefix, "unix|[0-9A-Fa-f:.]+(/[0-9]+)?");
const struct value_type VALUE_FIELD_NAME =
    VALUE_SCALAR_TYPE("the name of a header", struct spec_text, parse_field_name);
const struct value_type VALUE_FIELD = {
    .kind = VALUE_SCALAR,
    .noun = "a header's value",
    .bytes = sizeof(struct spec_field),
    .parse = parse_field,
    .is_secret = true,
};
const struct value_type VALUE_HEADER =
    VALUE_SCALAR_TYPE("a header's value, or true", struct spec_header, parse_header);
