/* Readable form of identities: the same parts in the same order, without lengths, with the names of
 * the policy. Parsing follows the terms of the key: each part begins with the name of one of its
 * terms, whatever a value contains. */

#include <string.h>

#include "base/hash.h"
#include "http/field.h"
#include "http/octet.h"
#include "policy/key.h"
#include "policy/key_sources.h"
#include "policy/key_values.h"
#include "policy/limit_rule.h"
#include "policy/load/node.h"
#include "policy/policy.h"

enum { HASH_DIGITS = 2 * HASH_IDENTITY_BYTES };

/* Remove @word from the start of @rest. False: @rest does not start with it. */
static bool take(struct span *rest, struct span word)
{
    if (!span_starts_with(*rest, word)) {
        return false;
    }
    *rest = span_from(*rest, word.len);
    return true;
}

/* --- printing --- */

void key_print_term(const struct key_term *term, struct text *text)
{
    const struct key_source_row *source = &KEY_SOURCE_ROWS[term->source];
    text_add(text, source->word);
    if (source->naming == KEY_NAMING_NUMBER) {
        text_add_char(text, '.');
        text_add_u64(text, term->number);
    } else if (source->naming == KEY_NAMING_POSITION) {
        text_add_char(text, '(');
        text_add(text, term->name);
        text_add_char(text, ')');
    } else if (term->name.len > 0) {
        text_add_char(text, '.');
        text_add(text, term->name);
    }
}

/* Remove `LENGTH=` and LENGTH bytes from the start of @rest. */
static bool take_value(struct span *rest, struct span *value)
{
    uint64_t len;
    const size_t equals = span_find(*rest, '=');
    if (equals == rest->len || !span_to_u64(span_of(rest->data, equals), rest->len, &len) ||
        len > rest->len - equals - 1) {
        return false;
    }
    *value = span_of(rest->data + equals + 1, len);
    *rest = span_from(*rest, equals + 1 + len);
    return true;
}

/* Print the name of an identity part that is not hashed. */
static void print_part_name(struct span name, struct text *text)
{
    for (size_t i = 0; i < KEY_SOURCES; i++) {
        struct span behind = name;
        if (take(&behind, KEY_SOURCE_ROWS[i].name) && take(&behind, SPAN("."))) {
            text_add(text, KEY_SOURCE_ROWS[i].word);
            text_add_char(text, '.');
            text_add_printable(text, behind);
            return;
        }
    }
    text_add_printable(text, name);
}

/* Print the identity part at the start of @rest. False: there is no valid part. */
static bool print_part(struct span *rest, struct text *text)
{
    struct span value;
    for (size_t i = 0; i < KEY_SOURCES; i++) {
        struct span behind = *rest;
        if (take(&behind, KEY_SOURCE_ROWS[i].name) && take(&behind, SPAN("#")) &&
            take_value(&behind, &value)) {
            text_add(text, KEY_SOURCE_ROWS[i].name);
            text_add_char(text, '#');
            text_add_printable(text, value);
            *rest = behind;
            return true;
        }
    }
    struct span name = span_of(rest->data, span_find(*rest, ':'));
    if (name.len == rest->len) {
        return false;
    }
    *rest = span_from(*rest, name.len + 1);
    if (!take_value(rest, &value)) {
        return false;
    }
    print_part_name(name, text);
    if (value.len > 0) {
        text_add_char(text, '=');
        text_add_printable(text, value);
    }
    return true;
}

void key_print(struct span identity, struct text *text)
{
    const struct text before = *text;
    struct span rest = identity;
    bool is_sound = take(&rest, SPAN("{")) && print_part(&rest, text) && take(&rest, SPAN("}"));
    while (is_sound && take(&rest, SPAN(","))) {
        text_add_char(text, ',');
        is_sound = print_part(&rest, text);
    }
    if (!is_sound || rest.len > 0) {
        *text = before;
        text_add_printable(text, identity);
    }
}

/* --- reading --- */

/* The state of parsing one key. */
struct reading {
    const struct policy *policy;
    struct span rest;
    struct text *identity;
    struct text *problem;
    bool in_braces;
    bool is_alone;                     /* the key has one part */
    bool ignores_case;                 /* paths are counted in lower case */
    bool is_prefix;                    /* of addresses, was read */
    bool is_widened;                   /* an address has other bits than the key counts by */
    char scratch[KEY_GIVEN_BYTES_MAX]; /* for a quoted value */
};

/* Take a quoted value, from after its opening quote. */
static bool take_quoted(struct reading *reading, struct span *value)
{
    struct text text = text_of(reading->scratch, sizeof(reading->scratch));
    size_t at = 0;
    while (at < reading->rest.len && reading->rest.data[at] != '"') {
        at += reading->rest.data[at] == '\\';
        if (at < reading->rest.len) {
            text_add_char(&text, reading->rest.data[at++]);
        }
    }
    if (at == reading->rest.len) {
        return text_refuse(reading->problem, "a quoted value has no end");
    }
    reading->rest = span_from(reading->rest, at + 1);
    *value = text_span(&text);
    return true;
}

/* Take the value after the name of a term. */
static bool take_given_value(struct reading *reading, struct span *value)
{
    if (take(&reading->rest, SPAN(":"))) {
        return take_value(&reading->rest, value) ||
               text_refuse(reading->problem, "a length is followed by `=` and so many bytes");
    }
    reading->rest = span_from(reading->rest, 1);
    if (take(&reading->rest, SPAN("\""))) {
        return take_quoted(reading, value);
    }
    size_t len = span_find(reading->rest, ',');
    if (reading->in_braces) {
        len = span_find(span_of(reading->rest.data, len), '}');
    }
    *value = span_of(reading->rest.data, len);
    reading->rest = span_from(reading->rest, len);
    return true;
}

/* Replace the method *@value by the value that keys count for it. */
static bool read_method(struct reading *reading, struct span *value)
{
    const struct span method = *value;
    if (span_equals(method, METHOD_NAMES_OTHERS)) {
        return true;
    }
    if (!field_is_token(method) || method.len > METHOD_BYTES_MAX) {
        return text_refuse(reading->problem,
                           "a method has 1 to %d letters, digits, \"-\" and the like",
                           METHOD_BYTES_MAX);
    }
    const char *refusal = method_names_read(reading->policy, method, value);
    return refusal == NULL || text_refuse(reading->problem, "%s", refusal);
}

/* Write the canonical form of @value, an address or a prefix of addresses, to @canonical. */
static bool read_client(struct reading *reading, const struct key_term *term, struct span value,
                        struct text *canonical)
{
    struct address_prefix prefix = {.bits = UINT8_MAX};
    if (!address_parse(value, &prefix.base) && !address_prefix_parse(value, &prefix)) {
        return text_refuse(reading->problem,
                           "client.ip is an address, as 192.0.2.1 or 2001:db8::1");
    }
    const bool is_ipv4 = prefix.base.family == ADDRESS_IPV4;
    const uint8_t bits = is_ipv4 ? term->ipv4_bits : term->ipv6_bits;
    const uint8_t written = prefix.bits == UINT8_MAX ? KEY_IPV6_BITS_DEFAULT : prefix.bits;
    reading->is_prefix = prefix.bits < bits;
    reading->is_widened = reading->is_widened || (!is_ipv4 && written != bits);
    if (prefix.bits != UINT8_MAX && prefix.bits > bits && prefix.bits < (is_ipv4 ? 32 : 128)) {
        return text_refuse(reading->problem, "the limit counts by /%u: no prefix is longer", bits);
    }
    if (reading->is_prefix && !reading->is_alone) {
        return text_refuse(reading->problem,
                           "a prefix needs a limit that counts by client.ip alone");
    }
    if (reading->is_prefix) {
        address_write(&prefix.base, canonical);
        text_add_char(canonical, '/');
        text_add_u64(canonical, prefix.bits);
    } else {
        key_write_client(term, &prefix.base, canonical);
    }
    return true;
}

/* *@fact: the canonical form of @value, a country or the number of an AS, in @canonical. */
static bool read_fact(struct reading *reading, const struct key_term *term, struct span value,
                      struct text *canonical, struct span *fact)
{
    char country[GEO_COUNTRY_BYTES];
    uint32_t asn;
    if (term->source == KEY_CLIENT_COUNTRY) {
        if (!geo_country_parse(value, country)) {
            return text_refuse(reading->problem, "client.country is two letters, as DE");
        }
        text_add(canonical, span_of(country, sizeof(country)));
    } else {
        if (!geo_asn_parse(value, &asn)) {
            return text_refuse(reading->problem, "client.asn is the number of an AS, as 64496");
        }
        text_add_u64(canonical, asn);
    }
    *fact = text_span(canonical);
    return true;
}

static bool write_value(struct reading *reading, const struct key_term *term, struct span value)
{
    char buffer[ADDRESS_TEXT_MAX];
    struct key_scratch scratch;
    struct text canonical = text_of(buffer, sizeof(buffer));
    if (!key_value_normalise(term, reading->ignores_case, &value, &scratch, reading->problem)) {
        return false;
    }
    if (term->source == KEY_CLIENT_IP) {
        if (!read_client(reading, term, value, &canonical)) {
            return false;
        }
        value = text_span(&canonical);
    }
    if (value.len == 0) {
        return text_refuse(reading->problem, "an empty value counts as missing: write none");
    }
    if (term->source == KEY_GLOBAL && !span_equals(value, SPAN("all"))) {
        return text_refuse(reading->problem, "there is one global counter: global=all");
    }
    if (term->source == KEY_METHOD && !read_method(reading, &value)) {
        return false;
    }
    if (KEY_SOURCE_ROWS[term->source].origin == KEY_FROM_DATABASE &&
        !read_fact(reading, term, value, &canonical, &value)) {
        return false;
    }
    if (term->source == KEY_GEOHASH && !geohash_is_cell(value, term->number)) {
        return text_refuse(reading->problem,
                           "a cell has %u characters of 0-9 and b-z without i, l and o",
                           term->number);
    }
    key_write_part(term, value, reading->policy->store.secret, reading->identity);
    return true;
}

static bool is_hex(struct span span)
{
    for (size_t i = 0; i < span.len; i++) {
        const char c = span.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return true;
}

static bool write_hash(struct reading *reading, const struct key_term *term)
{
    (void)take(&reading->rest, SPAN("32="));
    if (reading->rest.len < HASH_DIGITS || !is_hex(span_of(reading->rest.data, HASH_DIGITS))) {
        return text_refuse(reading->problem, "a `#` is followed by 32 hex digits, in lower case");
    }
    text_add(reading->identity, KEY_SOURCE_ROWS[term->source].name);
    text_add_literal(reading->identity, "#32=");
    text_add(reading->identity, span_of(reading->rest.data, HASH_DIGITS));
    reading->rest = span_from(reading->rest, HASH_DIGITS);
    return true;
}

/* Take @name from the start of the text. One of @marks must follow and is not taken. */
static bool take_name(struct reading *reading, struct span name, bool ignore_case,
                      const char *marks)
{
    const struct span rest = reading->rest;
    if (rest.len <= name.len || strchr(marks, rest.data[name.len]) == NULL ||
        rest.data[name.len] == '\0' ||
        !span_equals_ignore_case(span_of(rest.data, name.len), name)) {
        return false;
    }
    if (!ignore_case && !span_starts_with(rest, name)) {
        return false;
    }
    reading->rest = span_from(rest, name.len);
    return true;
}

/* Whether the text begins with @term; if so, its name is taken. */
static bool take_term(struct reading *reading, const struct key_term *term)
{
    const struct key_source_row *source = &KEY_SOURCE_ROWS[term->source];
    char buffers[2][KEY_TERM_TEXT_MAX];
    struct text outer = text_of(buffers[0], sizeof(buffers[0]));
    struct text inner = text_of(buffers[1], sizeof(buffers[1]));
    key_print_term(term, &outer);
    key_write_part_name(term, &inner);
    return take_name(reading, text_span(&outer), source->naming == KEY_NAMING_FIELD, "=#") ||
           take_name(reading, text_span(&inner), false, ":") ||
           take_name(reading, source->name, false, "#");
}

static bool is_at_end(const struct reading *reading)
{
    return reading->rest.len == 0 || reading->rest.data[0] == ',' ||
           (reading->in_braces && reading->rest.data[0] == '}');
}

static bool take_none(struct reading *reading)
{
    const struct span before = reading->rest;
    if (take(&reading->rest, SPAN("none"))) {
        (void)take(&reading->rest, SPAN(":0="));
        if (is_at_end(reading)) {
            text_add_literal(reading->identity, "none:0=");
            return true;
        }
    }
    reading->rest = before;
    return false;
}

static bool fail_at(struct reading *reading, const struct key_part *part)
{
    text_add_literal(reading->problem, "write ");
    for (size_t i = 0; i < part->n_terms; i++) {
        key_print_term(&part->terms[i], reading->problem);
        text_add_literal(reading->problem, "=VALUE or ");
    }
    text_add_literal(reading->problem, "none");
    if (reading->rest.len > 0) {
        text_add_literal(reading->problem, " where it says ");
        quote_write(reading->problem, reading->rest);
    }
    return false;
}

static bool read_part(struct reading *reading, const struct key_part *part)
{
    if (take_none(reading)) {
        return true;
    }
    for (size_t i = 0; i < part->n_terms; i++) {
        struct span value;
        if (!take_term(reading, &part->terms[i])) {
            continue;
        }
        if (take(&reading->rest, SPAN("#"))) {
            return write_hash(reading, &part->terms[i]);
        }
        return take_given_value(reading, &value) && write_value(reading, &part->terms[i], value);
    }
    return fail_at(reading, part);
}

static bool read_parts(struct reading *reading, const struct key *key)
{
    for (size_t i = 0; i < key->n_parts; i++) {
        if (i > 0 && !take(&reading->rest, SPAN(","))) {
            return text_refuse(reading->problem, "has %zu parts, and the limit counts by %zu", i,
                               key->n_parts);
        }
        reading->in_braces = i == 0 && take(&reading->rest, SPAN("{"));
        text_add(reading->identity, i == 0 ? SPAN("{") : i > 0 ? SPAN(",") : SPAN(""));
        if (!read_part(reading, &key->parts[i])) {
            return false;
        }
        text_add(reading->identity, i == 0 ? SPAN("}") : SPAN(""));
        if (reading->in_braces && !take(&reading->rest, SPAN("}"))) {
            return text_refuse(reading->problem, "a brace is not closed");
        }
    }
    if (reading->rest.len > 0) {
        text_add_format(reading->problem,
                        "goes on behind the %zu parts that the limit counts by: ", key->n_parts);
        quote_write(reading->problem, reading->rest);
        return false;
    }
    return true;
}

static bool read_hash(struct span written, uint8_t hash[HASH_IDENTITY_BYTES])
{
    if (written.len != HASH_DIGITS || !is_hex(written)) {
        return false;
    }
    for (size_t i = 0; i < HASH_IDENTITY_BYTES; i++) {
        hash[i] = (uint8_t)octet_hex_pair(written, 2 * i);
    }
    return true;
}

/* Whether @written is an address or a prefix alone, and the key leaves no doubt which part it is.
 * *is_good: it was read. */
static bool read_address(struct reading *reading, const struct key *key, struct span written,
                         bool *is_good)
{
    struct address_prefix prefix;
    if (!reading->is_alone ||
        (!address_parse(written, &prefix.base) && !address_prefix_parse(written, &prefix))) {
        return false;
    }
    for (size_t i = 0; i < key->parts[0].n_terms; i++) {
        const struct key_term *term = &key->parts[0].terms[i];
        if (term->source == KEY_CLIENT_IP) {
            text_add_literal(reading->identity, "{");
            *is_good = write_value(reading, term, written);
            text_add_literal(reading->identity, "}");
            return true;
        }
    }
    return false;
}

/* Whether all routes whose requests count under @key, of a limit of @policy, ignore the case of
 * paths: then keys have them in lower case. */
static bool ignores_case(const struct policy *policy, const struct key *key)
{
    bool is_used = false;
    for (size_t i = 0; i < policy->n_routes; i++) {
        const struct route *route = &policy->routes[i];
        for (size_t j = 0; j < route->n_rules; j++) {
            if (&route->rules[j]->key == key && !route->match.ignore_case) {
                return false;
            }
            is_used = is_used || &route->rules[j]->key == key;
        }
    }
    return is_used;
}

bool key_parse(const struct policy *policy, const struct key *key, struct span written,
               struct key_given *given, struct text *problem)
{
    struct reading reading;
    struct text identity = text_of(given->identity, sizeof(given->identity));
    reading.policy = policy;
    reading.rest = written;
    reading.identity = &identity;
    reading.problem = problem;
    reading.is_alone = key->n_parts == 1;
    reading.ignores_case = ignores_case(policy, key);
    reading.is_prefix = false;
    reading.is_widened = false;
    given->len = 0;
    given->is_prefix = false;
    given->is_widened = false;
    if (written.len > KEY_GIVEN_BYTES_MAX) {
        return text_refuse(problem, "is longer than 4 KiB");
    }
    if (read_hash(written, given->hash)) {
        return true;
    }
    bool is_good = false;
    if (!read_address(&reading, key, written, &is_good)) {
        is_good = read_parts(&reading, key);
    }
    if (!is_good) {
        return false;
    }
    if (identity.truncated) {
        return text_refuse(problem, "is longer than an identity can be");
    }
    given->len = identity.len;
    given->is_prefix = reading.is_prefix;
    given->is_widened = reading.is_widened;
    key_hash(text_span(&identity), policy->store.secret, given->hash);
    return true;
}

/* --- tenants --- */

/* As policy_parse_tenant(), with @is_exact under no key that counts the address by other bits. */
static bool parse_tenant(const struct policy *policy, struct span written, bool is_exact,
                         struct key_given *given, struct text *problem)
{
    char buffer[512];
    for (size_t i = 0; i < policy->n_rules; i++) {
        struct text own = text_of(buffer, sizeof(buffer));
        if (!limit_rule_has_tenants(&policy->rules[i])) {
            continue;
        }
        if (key_parse(policy, &policy->rules[i].key, written, given, &own) && !given->is_prefix &&
            !(is_exact && given->is_widened)) {
            return true;
        }
        text_add(problem, problem->len == 0 ? text_span(&own) : SPAN(""));
    }
    return false;
}

/* An identity of one limit is never taken for that of another one with a longer or shorter prefix,
 * whichever comes first. */
bool policy_parse_tenant(const struct policy *policy, struct span written, struct key_given *given,
                         struct text *problem)
{
    return parse_tenant(policy, written, true, given, problem) ||
           parse_tenant(policy, written, false, given, problem);
}

bool policy_has_tenant_plan(const struct policy *policy, struct span name)
{
    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct limit_rule *rule = &policy->rules[i];
        if (!limit_rule_has_tenants(rule)) {
            continue;
        }
        for (size_t j = 0; j < rule->n_plans; j++) {
            if (span_equals(rule->plans[j].name, name)) {
                return true;
            }
        }
        if (plan_numbers_fault(rule, name) == NULL) {
            return true;
        }
    }
    return false;
}
