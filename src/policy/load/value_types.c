#include "policy/load/value_types.h"

#include "base/address.h"
#include "base/limits.h"
#include "http/field.h"
#include "http/method.h"
#include "http/target.h"
#include "jwt/token.h"
#include "policy/load/endpoint.h"
#include "policy/load/node.h"
#include "policy/load/spec.h"
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

/* Read a number within the bounds of its type, or the word that stands for 0. */
static bool parse_bounded(const struct value_input *input,
                          bool (*read)(struct span span, uint64_t *value, struct text *problem),
                          void (*write)(struct text *text, uint64_t value), uint64_t *out)
{
    const char *zero_word = input->type->zero_word;
    uint64_t value = 0;
    if ((zero_word != NULL && span_equals(input->text, span_of_text(zero_word))) ||
        (read(input->text, &value, input->problem) &&
         check_bounds(input->type, value, write, input->problem))) {
        *out = value;
        return true;
    }
    if (zero_word != NULL) {
        text_add_format(input->problem, ", or %s", zero_word);
    }
    return false;
}

static bool read_number(struct span span, uint64_t *value, struct text *problem)
{
    return span_to_u64(span, UINT64_MAX, value) || text_refuse(problem, "must be a whole number");
}

bool value_parse_number(const struct value_input *input, void *out)
{
    uint64_t value;
    const bool is_good = parse_bounded(input, read_number, text_add_u64, &value);
    if (is_good) {
        *(uint32_t *)out = (uint32_t)value;
    }
    return is_good;
}

bool value_parse_duration(const struct value_input *input, void *out)
{
    return parse_bounded(input, units_parse_duration, units_write_duration, out);
}

bool value_parse_size(const struct value_input *input, void *out)
{
    return parse_bounded(input, units_parse_size, units_write_size, out);
}

static bool parse_country(const struct value_input *input, void *out)
{
    return geo_country_parse(input->text, out) ||
           text_refuse(input->problem, "must be two letters, as ISO 3166-1 has them: DE");
}

static bool parse_asn(const struct value_input *input, void *out)
{
    return geo_asn_parse(input->text, out) ||
           text_refuse(input->problem, "must be the number of an AS, 1 to 4294967295");
}

static bool parse_byte_rate(const struct value_input *input, void *out)
{
    const struct span suffix = SPAN("/s");
    struct span size = input->text;
    uint64_t bytes = 0;
    if (span_equals(size, SPAN("off"))) {
        *(uint64_t *)out = 0;
        return true;
    }
    if (size.len < suffix.len ||
        !span_equals(span_of(size.data + size.len - suffix.len, suffix.len), suffix)) {
        return text_refuse(input->problem, "must be a size with /s, such as 1KiB/s, or off");
    }
    size.len -= suffix.len;
    if (span_to_u64(size, UINT64_MAX, &bytes)) {
        text_add_literal(input->problem, "needs a unit; did you mean \"");
        units_write_size(input->problem, bytes);
        return text_refuse(input->problem, "/s\"?");
    }
    if (!units_parse_size(size, &bytes, input->problem)) {
        return false;
    }
    if (bytes == 0 || bytes > BYTE_RATE_MAX) {
        return text_refuse(input->problem, "must be 1B/s to 1TiB/s, or off");
    }
    *(uint64_t *)out = bytes;
    return true;
}

static bool parse_bool(const struct value_input *input, void *out)
{
    const bool is_true = span_equals(input->text, SPAN("true"));
    if (!is_true && !span_equals(input->text, SPAN("false"))) {
        return text_refuse(input->problem, "must be true or false");
    }
    *(bool *)out = is_true;
    return true;
}

bool value_is_switch(const struct node *node)
{
    return node->plain &&
           (span_equals(node->text, SPAN("true")) || span_equals(node->text, SPAN("false")));
}

/* --- texts --- */

static bool check_content_type(struct span text, struct text *problem)
{
    return (text.len > 0 && field_is_value(text)) ||
           text_refuse(problem, "must be a media type such as text/plain");
}

/* As browsers write it: a scheme, "://", a host in lower case, and a port unless it is the usual
 * one. */
static bool check_origin(struct span origin, struct text *problem)
{
    const size_t at = span_find_text(origin, SPAN("://"));
    const struct span host = span_from(origin, at);
    const bool has_host = at > 0 && at + 3 < origin.len;
    bool is_plain = has_host && field_is_value(origin);
    for (size_t i = 0; i < origin.len; i++) {
        const char byte = origin.data[i];
        is_plain = is_plain && byte > ' ' && byte < 0x7f && !(byte >= 'A' && byte <= 'Z') &&
                   strchr("?#@*,\\\"", byte) == NULL;
    }
    const bool has_path = has_host && span_find(span_from(host, 3), '/') != host.len - 3;
    return span_equals(origin, SPAN("*")) || (is_plain && !has_path) ||
           text_refuse(problem, "must be as browsers send it: https://app.example.com, in lower "
                                "case, with a port where it is not the usual one, without a path");
}

/* Behind "//" and "/\\" browsers read a host. */
static bool check_redirect(struct span to, struct text *problem)
{
    struct target target;
    const bool names_host = to.len > 1 && to.data[0] == '/' && strchr("/\\", to.data[1]) != NULL;
    if (to.len > REDIRECT_BYTES_MAX) {
        return text_refuse(problem, "must have at most %d bytes", REDIRECT_BYTES_MAX);
    }
    return span_equals(to, SPAN("https")) ||
           (!names_host && target_parse(to, SPAN("GET"), &target) == NULL) ||
           text_refuse(problem, "must be https, a path such as /new, or a URL such as "
                                "https://www.example.com/new, percent-encoded and without \"#\"");
}

bool value_check_method(struct span method, struct text *problem)
{
    if (!field_is_token(method) || method.len > METHOD_BYTES_MAX) {
        return text_refuse(problem, "must be the name of a method");
    }
    if (span_equals(method, SPAN("*")) || span_equals_ignore_case(method, SPAN("any")) ||
        span_equals_ignore_case(method, SPAN("all"))) {
        return text_refuse(problem,
                           "is not a method; for every method leave \"method\" out, or in a "
                           "cost write \"default\"");
    }
    const enum method_id meant = method_find_ignoring_case(method);
    if (meant != METHOD_OTHER && !span_equals(method, method_name(meant))) {
        return text_refuse(problem, "case counts in methods; did you mean \"%.*s\"?",
                           SPAN_ARGS(method_name(meant)));
    }
    if (meant == METHOD_CONNECT) {
        return text_refuse(problem, "CONNECT is always refused");
    }
    return true;
}

/* RFC 9110 section 7.8: a name, optionally followed by a slash and a version. */
static bool check_protocol(struct span text, struct text *problem)
{
    const size_t slash = span_find(text, '/');
    const struct span name = span_of(text.data, slash);
    const bool has_version = slash < text.len;
    const struct span version = has_version ? span_from(text, slash + 1) : name;
    return (field_is_token(name) && field_is_token(version)) ||
           text_refuse(problem, "must be a protocol such as websocket");
}

static bool check_host_rule(struct span text, struct text *problem)
{
    return (text.len > 0 && target_is_host(text)) ||
           text_refuse(problem, "must be preserve, server or the name of a host");
}

static bool check_host_with_port(struct span host, struct text *problem)
{
    if (span_starts_with(host, SPAN("*."))) {
        host = span_from(host, 2);
    }
    char buffer[HOST_BYTES_MAX];
    const bool has_star = span_find(host, '*') < host.len;
    if (has_star || !target_is_host(host) || target_normalise_host(host, buffer).len == 0) {
        return text_refuse(problem, "must be a host, or \"*.\" and a host for all beneath it");
    }
    return true;
}

static bool check_host_pattern(struct span host, struct text *problem)
{
    const size_t bracket = span_find(host, ']');
    const size_t start = bracket < host.len ? bracket : 0;
    const struct span tail = span_from(host, start);
    return check_host_with_port(host, problem) &&
           (span_find(tail, ':') == tail.len ||
            text_refuse(problem, "must have no port: names of certificates have none"));
}

#define IS_NEVER_BELIEVED                                                                          \
    " of a client is never believed, and removed; a certificate is read by client.cert"

/* Fields of which the upstream gets another value than the client sent, whoever the peer is. */
static const struct {
    enum field_id id;
    const char *reason;
} REPLACED_FIELDS[] = {
    {FIELD_HOST, " is not what the upstream gets where the target of a request names another "
                 "host: use host"},
    {FIELD_X_REAL_IP, " of a client is never believed, and replaced; the client is client.ip in a "
                      "key, and client in match"},
    {FIELD_CLIENT_CERT, IS_NEVER_BELIEVED},
    {FIELD_CLIENT_CERT_CHAIN, IS_NEVER_BELIEVED},
    {FIELD_EARLY_DATA, IS_NEVER_BELIEVED},
};

bool value_check_read_field(struct span name, struct text *problem)
{
    const struct span proxy = SPAN("proxy-");
    const bool is_of_proxy =
        name.len > proxy.len && span_equals_ignore_case(span_of(name.data, proxy.len), proxy);
    if (is_of_proxy || field_is_hop_by_hop(field_identify(name))) {
        quote_write(problem, name);
        return text_refuse(problem, " belongs to one connection and is not passed on: the upstream "
                                    "would not see what is read here");
    }
    const enum field_id id = field_identify(name);
    for (size_t i = 0; i < ARRAY_LEN(REPLACED_FIELDS); i++) {
        if (id == REPLACED_FIELDS[i].id) {
            quote_write(problem, name);
            return text_refuse(problem, "%s", REPLACED_FIELDS[i].reason);
        }
    }
    if (field_is_underscore_variant(name)) {
        quote_write(problem, name);
        return text_refuse(problem,
                           " is a known name with \"_\" or \".\" for \"-\", and requests with it "
                           "are refused");
    }
    return true;
}

static bool check_field_value(struct span text, struct text *problem)
{
    return field_is_value(text) || text_refuse(problem, "no header can have this value");
}

static bool check_parameter(struct span text, struct text *problem)
{
    return text.len <= MATCH_VALUE_BYTES_MAX ||
           text_refuse(problem, "must be at most %d bytes", MATCH_VALUE_BYTES_MAX);
}

static bool check_claim(struct span text, struct text *problem)
{
    return (text.len > 0 && text.len <= JWT_VALUE_BYTES_MAX) ||
           text_refuse(problem, "must be 1 to %d bytes", JWT_VALUE_BYTES_MAX);
}

static bool check_field_name(struct span text, struct text *problem)
{
    return field_is_token(text) || text_refuse(problem, "must be the name of a header");
}

bool value_check_field(struct span text, struct text *problem)
{
    return field_is_value(text) ||
           text_refuse(problem, "must have no line end and no other control character");
}

static bool parse_field(const struct value_input *input, void *out)
{
    struct spec_field *field = out;
    if (!field_is_token(field->position.name)) {
        return text_refuse(input->problem, "the key must be the name of a header");
    }
    if (!value_check_field(input->text, input->problem)) {
        return false;
    }
    field->value = span_trim(input->text);
    return true;
}

/* --- the log --- */

enum {
    PPM_A_PERCENT = 10000,
    PERCENT_DIGITS_MAX = 4, /* after the decimal point, for ppm */
};

#define LOG_TARGET_NOUN "stdout, syslog, syslog:/path or the path of a file"

static bool check_log_target(struct span text, struct text *problem)
{
    const struct span syslog = SPAN("syslog:");
    const bool is_syslog =
        span_equals(text, SPAN("syslog")) || span_starts_with(text, SPAN("syslog:/"));
    if (text.len == 0 || span_find(text, '\0') < text.len ||
        (!is_syslog && span_starts_with(text, syslog))) {
        return text_refuse(problem, "must be " LOG_TARGET_NOUN);
    }
    return !is_syslog || text.len <= syslog.len + SYSLOG_PATH_BYTES_MAX ||
           text_refuse(problem, "must be at most %d bytes behind \"syslog:\"",
                       SYSLOG_PATH_BYTES_MAX);
}

/* "12.5" in ppm. */
static bool parse_percent(struct span span, uint32_t *ppm)
{
    const size_t point = span_find(span, '.');
    const bool has_digits = point < span.len;
    const struct span digits = has_digits ? span_from(span, point + 1) : SPAN("0");
    uint64_t whole;
    uint64_t part;
    if (!span_to_u64(span_of(span.data, point), 100, &whole) || digits.len > PERCENT_DIGITS_MAX ||
        !span_to_u64(digits, UINT32_MAX, &part)) {
        return false;
    }
    for (size_t i = digits.len; i < PERCENT_DIGITS_MAX; i++) {
        part *= 10;
    }
    *ppm = (uint32_t)(whole * PPM_A_PERCENT + part);
    return *ppm <= 100 * PPM_A_PERCENT;
}

static bool parse_share(const struct value_input *input, void *out)
{
    const struct span text = input->text;
    if (text.len < 2 || text.data[text.len - 1] != '%' ||
        !parse_percent(span_of(text.data, text.len - 1), out)) {
        return text_refuse(input->problem, "must be %s, of at most 4 digits behind the point",
                           input->type->noun);
    }
    return true;
}

/* --- endpoints --- */

static bool parse_listen(const struct value_input *input, void *out)
{
    return endpoint_parse_listen(input->text, out, input->problem);
}

static bool parse_mode(const struct value_input *input, void *out)
{
    const struct span text = input->text;
    uint32_t mode = 0;
    bool is_octal = text.len == 4 && text.data[0] == '0';
    for (size_t i = 0; i < text.len && is_octal; i++) {
        is_octal = text.data[i] >= '0' && text.data[i] <= '7';
        mode = mode << 3 | (uint32_t)(text.data[i] - '0');
    }
    if (!is_octal) {
        return text_refuse(input->problem,
                           "must be four octal digits from 0000 to 0777, such as 0660");
    }
    *(uint32_t *)out = mode;
    return true;
}

static bool parse_name_server(const struct value_input *input, void *out)
{
    return endpoint_parse_name_server(input->text, out, input->problem);
}

static bool parse_server(const struct value_input *input, void *out)
{
    return endpoint_parse_server(input->text, out, input->problem);
}

static bool parse_redis(const struct value_input *input, void *out)
{
    return redis_url_parse(input->text, input->arena, out, input->problem);
}

static bool parse_prefix(const struct value_input *input, void *out)
{
    if (span_equals(input->text, SPAN("unix"))) {
        *(struct address_prefix *)out = (struct address_prefix){.base.family = ADDRESS_NONE};
        return true;
    }
    if (!address_prefix_parse(input->text, out)) {
        return text_refuse(input->problem,
                           "must be an address, a prefix such as 10.0.0.0/8, or unix: who connects "
                           "on a unix socket");
    }
    return true;
}

static bool check_file(struct span text, struct text *problem)
{
    return (text.len > 0 && span_find(text, '\0') == text.len) ||
           text_refuse(problem, "must be the path of a file");
}

/* --- the list --- */

const struct value_type VALUE_TEXT = VALUE_STRING_TYPE("a text", NULL);
const struct value_type VALUE_SECRET = VALUE_STRING_TYPE("a text", NULL, .is_secret = true);
const struct value_type VALUE_COUNTRY =
    VALUE_NODE_TYPE("a country as two letters, such as DE", struct spec_country, letters,
                    parse_country, .pattern = "^[A-Za-z]{2}$");
const struct value_type VALUE_ASN =
    VALUE_NODE_TYPE("the number of an autonomous system, such as 64496", struct spec_asn, number,
                    parse_asn, VALUE_IS_NUMBER(1, UINT32_MAX), .pattern = "^[Aa][Ss][0-9]+$");
const struct value_type VALUE_FILE = VALUE_STRING_TYPE("the path of a file", check_file);
const struct value_type VALUE_FILE_OR_URL =
    VALUE_STRING_TYPE("the path of a file", check_file, .has_query = true);
const struct value_type VALUE_NAME = VALUE_STRING_TYPE("a name", NULL);
const struct value_type VALUE_CONTENT_TYPE =
    VALUE_STRING_TYPE("a media type such as text/plain", check_content_type);
const struct value_type VALUE_METHOD =
    VALUE_STRING_TYPE("a method such as GET", value_check_method);
const struct value_type VALUE_PROTOCOL =
    VALUE_STRING_TYPE("a protocol such as websocket", check_protocol);
const struct value_type VALUE_HOST_RULE =
    VALUE_STRING_TYPE("preserve, server or the name of a host", check_host_rule);
const struct value_type VALUE_HOST_PATTERN =
    VALUE_STRING_TYPE("a host, or \"*.\" and a host", check_host_pattern);
const struct value_type VALUE_HOST_WITH_PORT =
    VALUE_STRING_TYPE("a host, or \"*.\" and a host", check_host_with_port);
const struct value_type VALUE_ORIGIN =
    VALUE_STRING_TYPE("an origin such as https://app.example.com", check_origin);
const struct value_type VALUE_REDIRECT =
    VALUE_STRING_TYPE("https, a path or a URL", check_redirect);
const struct value_type VALUE_CLAIM = VALUE_STRING_TYPE("the value of a claim", check_claim);
const struct value_type VALUE_FIELD_NAME =
    VALUE_STRING_TYPE("the name of a header", check_field_name);
const struct value_type VALUE_LOG_TARGET = VALUE_STRING_TYPE(LOG_TARGET_NOUN, check_log_target);
const struct value_type VALUE_BOOL =
    VALUE_SCALAR_TYPE("true or false", bool, parse_bool, .form = FORM_SWITCH);
const struct value_type VALUE_LISTEN =
    VALUE_NODE_TYPE("address:port or unix:/path", struct spec_endpoint, endpoint, parse_listen,
                    .pattern = "^(unix:/.+|[^/]+:[0-9]+)$");
/* YAML parsers read four digits as a number, some as decimal and some as octal. */
const struct value_type VALUE_MODE =
    VALUE_SCALAR_TYPE("permissions such as 0660", uint32_t, parse_mode, VALUE_IS_NUMBER(0, 777));
const struct value_type VALUE_NAME_SERVER = VALUE_NODE_TYPE(
    "an address such as 10.0.0.53", struct spec_endpoint, endpoint, parse_name_server);
const struct value_type VALUE_SERVER =
    VALUE_NODE_TYPE("a URL such as http://127.0.0.1:9000, or unix:/path", struct spec_endpoint,
                    endpoint, parse_server, .pattern = "^(https?://.+|unix:/.+)$");
const struct value_type VALUE_REDIS =
    VALUE_NODE_TYPE("a URL such as redis://127.0.0.1:6379/0, or several for a cluster",
                    struct spec_redis, url, parse_redis, .is_secret = true,
                    .pattern = "^(rediss?(\\+sentinel)?://.+|(redis\\+)?unix:///.+)$");
const struct value_type VALUE_BYTE_RATE =
    VALUE_SCALAR_TYPE("a size a second such as 1KiB/s, or off", uint64_t, parse_byte_rate,
                      .pattern = "^(" PATTERN_SIZE "/s|off)$");
const struct value_type VALUE_SHARE =
    VALUE_SCALAR_TYPE("a share such as 10% or 0.1%", uint32_t, parse_share,
                      .pattern = "^((100(\\.0{1,4})?|[0-9]{1,2}(\\.[0-9]{1,4})?)%)$");
const struct value_type VALUE_PREFIX =
    VALUE_SCALAR_TYPE("an address, a prefix such as 10.0.0.0/8, or unix", struct address_prefix,
                      parse_prefix, .pattern = "^(unix|[0-9A-Fa-f:.]+(/[0-9]+)?)$");
/* parse_field() looks at the name, which stands at the start. */
const struct value_type VALUE_FIELD = VALUE_NODE_TYPE("a header's value", struct spec_field,
                                                      position, parse_field, .is_secret = true);
const struct value_type VALUE_ANSWER_FIELD =
    VALUE_NODE_TYPE("a header's value", struct spec_field, position, parse_field);
const struct value_type VALUE_HEADER =
    VALUE_STRING_TYPE("a header's value, true or false", check_field_value, .is_matched = true);
const struct value_type VALUE_PARAMETER =
    VALUE_STRING_TYPE("a parameter's value, true or false", check_parameter, .is_matched = true);
