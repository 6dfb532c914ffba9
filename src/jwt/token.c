#include "jwt/token.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    NUMBER_TEXT_BYTES = 24,
    US_PER_S = 1000 * 1000,
    GREAT_DIGITS = 19, /* whole numbers of fewer have 64 bits at most */
};

/* Whole numbers up to here are the same in every JSON library: RFC 8259 section 6. */
static const json_int_t INTEGER_MAX = ((json_int_t)1 << 53) - 1;

/* Later times count as this one, us since the epoch. */
static const uint64_t TIME_US_MAX = UINT64_MAX / 4;

const char *jwt_result_text(enum jwt_result result)
{
    static const char *const TEXTS[JWT_RESULTS] = {
#define JWT_RESULT_TEXT(id, text) [JWT_##id] = text,
        JWT_RESULT_LIST(JWT_RESULT_TEXT)
#undef JWT_RESULT_TEXT
    };
    return TEXTS[result];
}

/* --- paths --- */

static bool is_plain(char c)
{
    return ascii_is_alphanumeric(c) || c == '_' || c == '-';
}

/* Take the name at the start of *rest, written with or without quotes. False: there is none. */
static bool take_name(struct span *rest, struct text *name)
{
    size_t at = 0;
    if (rest->len == 0 || rest->data[0] != '"') {
        while (at < rest->len && is_plain(rest->data[at])) {
            text_add_char(name, rest->data[at++]);
        }
    } else {
        for (at = 1; at < rest->len && rest->data[at] != '"'; at++) {
            at += rest->data[at] == '\\' && at + 1 < rest->len;
            text_add_char(name, rest->data[at]);
        }
        if (at == rest->len) {
            return false;
        }
        at++;
    }
    *rest = span_from(*rest, at);
    return name->len > 0 && !name->truncated;
}

static void write_name(struct span name, struct text *text)
{
    bool is_bare = true;
    for (size_t i = 0; i < name.len; i++) {
        is_bare = is_bare && is_plain(name.data[i]);
    }
    if (is_bare) {
        text_add(text, name);
        return;
    }
    text_add_char(text, '"');
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '"' || name.data[i] == '\\') {
            text_add_char(text, '\\');
        }
        text_add_char(text, name.data[i]);
    }
    text_add_char(text, '"');
}

bool jwt_path_parse(struct span text, struct arena *arena, struct jwt_path *path,
                    struct text *problem)
{
    char buffer[2 * JWT_PATH_BYTES_MAX];
    struct text written = text_of(buffer, sizeof(buffer));
    struct span rest = text;
    path->n_names = 0;
    while (text.len <= JWT_PATH_BYTES_MAX && path->n_names < JWT_PATH_NAMES_MAX) {
        char name_bytes[JWT_PATH_BYTES_MAX];
        struct text name = text_of(name_bytes, sizeof(name_bytes));
        if (!take_name(&rest, &name)) {
            break;
        }
        text_add(&written, path->n_names > 0 ? SPAN(".") : SPAN(""));
        write_name(text_span(&name), &written);
        path->names[path->n_names] = arena_copy(arena, text_span(&name));
        if (path->names[path->n_names++].data == NULL) {
            return text_refuse(problem, "out of memory");
        }
        if (rest.len == 0) {
            path->text = arena_copy(arena, text_span(&written));
            return path->text.data != NULL || text_refuse(problem, "out of memory");
        }
        if (rest.data[0] != '.') {
            break;
        }
        rest = span_from(rest, 1);
    }
    return text_refuse(problem,
                       "a claim is written as sub or realm_access.roles, with quotes around names "
                       "that have other signs than letters, digits, \"_\" and \"-\": up to %d "
                       "names, %d bytes",
                       JWT_PATH_NAMES_MAX, JWT_PATH_BYTES_MAX);
}

/* --- the parts of a token --- */

/* What is read of a token, each step from what the ones before it found. */
struct reading {
    const struct jwt_rules *rules;
    const struct jwt_key_set *keys;
    uint64_t wall_us;
    struct arena *arena;
    struct span input; /* what is signed: the first two parts */
    struct span parts[3];
    struct span signature; /* decoded */
    json_t *header;
    json_t *payload;
    enum jwt_algorithm algorithm;
    uint64_t expires_us;
    struct jwt_period period; /* of the result so far */
    unsigned n_computed;      /* keys that the signature was tried by */
    bool no_memory;
};

static bool split(struct reading *reading, struct span token)
{
    struct span rest = token;
    for (size_t i = 0; i < 3; i++) {
        if (!span_split(&rest, '.', &reading->parts[i]) || reading->parts[i].len == 0) {
            return false;
        }
    }
    reading->input = span_of(token.data, reading->parts[0].len + 1 + reading->parts[1].len);
    return rest.data == NULL;
}

/* The bytes of a part, in the arena. False: it is not base64url, or reading->no_memory. */
static bool decode(struct reading *reading, struct span part, struct span *bytes)
{
    const size_t capacity = part.len / 4 * 3 + 3;
    uint8_t *out = arena_alloc(reading->arena, capacity);
    size_t len = 0;
    reading->no_memory = reading->no_memory || out == NULL;
    if (out == NULL || !base64url_decode(part, out, capacity, &len)) {
        return false;
    }
    *bytes = span_of((const char *)out, len);
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The end of the number at @from, if it has GREAT_DIGITS at least and is written as a whole one,
 * *is_great. */
static size_t end_of_number(struct span json, size_t from, bool *is_great)
{
    size_t at = from;
    size_t n_digits = 0;
    bool is_whole = true;
    for (; at < json.len && json.data[at] != '\0' && strchr("+-.eE0123456789", json.data[at]);
         at++) {
        n_digits += is_digit(json.data[at]) ? 1 : 0;
        is_whole = is_whole && strchr(".eE", json.data[at]) == NULL;
    }
    *is_great = is_whole && n_digits >= GREAT_DIGITS;
    return at;
}

/* A copy of @json in the arena with the exponent `e0` behind each great whole number, which makes
 * it a real one that jansson can read. All others stay what they are. data is NULL: no memory. */
static struct span write_great_as_real(struct arena *arena, struct span json)
{
    const size_t capacity = json.len + json.len / GREAT_DIGITS * 2 + 1;
    struct text text = text_of(arena_alloc(arena, capacity), capacity);
    bool is_string = false;
    for (size_t at = 0; text.data != NULL && at < json.len;) {
        size_t end = at + 1;
        bool is_great = false;
        if (json.data[at] == '"') {
            is_string = !is_string;
        } else if (is_string && json.data[at] == '\\' && end < json.len) {
            end++;
        } else if (!is_string && (json.data[at] == '-' || is_digit(json.data[at]))) {
            end = end_of_number(json, at, &is_great);
        }
        text_add(&text, span_of(json.data + at, end - at));
        text_add(&text, is_great ? SPAN("e0") : SPAN(""));
        at = end;
    }
    return text_span(&text);
}

/* NULL: no JSON object, or one with a member twice, or with what jansson cannot read, or
 * reading->no_memory. */
static json_t *parse_object(struct reading *reading, struct span bytes)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error;
    json_t *object = json_loadb(bytes.data, bytes.len, flags, &error);
    if (object == NULL && json_error_code(&error) == json_error_numeric_overflow) {
        /* A whole number of more than 64 bits, which others read as a real one. */
        const struct span real = write_great_as_real(reading->arena, bytes);
        reading->no_memory = reading->no_memory || real.data == NULL;
        object = real.data != NULL ? json_loadb(real.data, real.len, flags, &error) : NULL;
    }
    reading->no_memory = reading->no_memory ||
                         (object == NULL && json_error_code(&error) == json_error_out_of_memory);
    if (object != NULL && !json_is_object(object)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static struct span text_of_json(const json_t *value)
{
    return json_is_string(value) ? span_of(json_string_value(value), json_string_length(value))
                                 : span_of(NULL, 0);
}

static bool is_among(struct span text, const struct span *list, size_t n)
{
    for (size_t i = 0; i < n && text.data != NULL; i++) {
        if (span_equals(list[i], text)) {
            return true;
        }
    }
    return false;
}

/* The prefix `application/` may be left out: RFC 7515 section 4.1.9. */
static struct span short_type(struct span type)
{
    const struct span prefix = SPAN("application/");
    const bool is_long =
        type.len > prefix.len && span_equals_ignore_case(span_of(type.data, prefix.len), prefix);
    return is_long ? span_from(type, prefix.len) : type;
}

static bool has_type(const struct reading *reading)
{
    const struct jwt_rules *rules = reading->rules;
    const struct span type = short_type(text_of_json(json_object_get(reading->header, "typ")));
    for (size_t i = 0; i < rules->n_types && type.len > 0; i++) {
        if (span_equals_ignore_case(short_type(rules->types[i]), type)) {
            return true;
        }
    }
    return rules->n_types == 0;
}

static enum jwt_result read_header(struct reading *reading)
{
    struct span bytes;
    if (!decode(reading, reading->parts[0], &bytes)) {
        return JWT_MALFORMED;
    }
    reading->header = parse_object(reading, bytes);
    if (reading->header == NULL) {
        return JWT_BAD_HEADER;
    }
    reading->algorithm = jwt_algorithm_find(text_of_json(json_object_get(reading->header, "alg")));
    if (reading->algorithm == JWT_ALGORITHMS ||
        (reading->rules->algorithms >> reading->algorithm & 1) == 0) {
        return JWT_ALGORITHM;
    }
    if (json_object_get(reading->header, "crit") != NULL) {
        return JWT_CRITICAL;
    }
    const json_t *kid = json_object_get(reading->header, "kid");
    if (kid != NULL && !json_is_string(kid)) {
        return JWT_BAD_HEADER;
    }
    return has_type(reading) ? JWT_VALID : JWT_TYPE;
}

/* --- claims that every token is asked for --- */

/* A time in seconds, which may have a fraction, as us since the epoch. Floating point because that
 * is what JSON's fractions are. */
static bool read_time(const json_t *value, uint64_t *us)
{
    if (!json_is_number(value)) {
        return false;
    }
    const double time_us = json_number_value(value) * (double)US_PER_S;
    if (time_us <= 0) {
        *us = 0;
    } else if (time_us >= (double)TIME_US_MAX) {
        *us = TIME_US_MAX;
    } else {
        *us = (uint64_t)time_us;
    }
    return true;
}

static uint64_t add_leeway(uint64_t us, uint64_t leeway_us)
{
    return leeway_us < TIME_US_MAX ? us + leeway_us : TIME_US_MAX;
}

static enum jwt_result check_times(struct reading *reading)
{
    const struct jwt_rules *rules = reading->rules;
    struct jwt_period *period = &reading->period;
    const json_t *not_before = json_object_get(reading->payload, "nbf");
    uint64_t us;
    if (!read_time(json_object_get(reading->payload, "exp"), &us)) {
        return JWT_NO_EXPIRY;
    }
    reading->expires_us = add_leeway(us, rules->leeway_us);
    if (reading->wall_us >= reading->expires_us) {
        period->from_us = reading->expires_us;
        return JWT_EXPIRED;
    }
    period->until_us = reading->expires_us;
    if (not_before == NULL) {
        return JWT_VALID;
    }
    if (!read_time(not_before, &us)) {
        return JWT_NOT_BEFORE;
    }
    const uint64_t starts_us = us > rules->leeway_us ? us - rules->leeway_us : 0;
    if (reading->wall_us < starts_us) {
        period->until_us = starts_us < period->until_us ? starts_us : period->until_us;
        return JWT_TOO_EARLY;
    }
    period->from_us = starts_us;
    return JWT_VALID;
}

static bool has_audience(const struct reading *reading)
{
    const struct jwt_rules *rules = reading->rules;
    const json_t *audience = json_object_get(reading->payload, "aud");
    if (rules->n_audiences == 0) {
        return true;
    }
    for (size_t i = 0; i < json_array_size(audience); i++) {
        if (is_among(text_of_json(json_array_get(audience, i)), rules->audiences,
                     rules->n_audiences)) {
            return true;
        }
    }
    return is_among(text_of_json(audience), rules->audiences, rules->n_audiences);
}

static const json_t *find_claim(const json_t *payload, const struct jwt_path *path)
{
    const json_t *value = payload;
    for (size_t i = 0; i < path->n_names; i++) {
        value = json_object_get(value, path->names[i].data); /* ends with NUL */
    }
    return value;
}

static bool has_nul(const json_t *value)
{
    const struct span text = text_of_json(value);
    return text.len > 0 && memchr(text.data, '\0', text.len) != NULL;
}

/* Whether a claim that a policy reads has a NUL, at which programs in C cut it. */
static bool has_cut_claim(const struct reading *reading)
{
    for (size_t i = 0; i < reading->rules->n_claims; i++) {
        const json_t *value = find_claim(reading->payload, &reading->rules->claims[i]);
        bool is_cut = has_nul(value);
        for (size_t j = 0; j < json_array_size(value); j++) {
            is_cut = is_cut || has_nul(json_array_get(value, j));
        }
        if (is_cut) {
            return true;
        }
    }
    return false;
}

static enum jwt_result read_payload(struct reading *reading)
{
    const struct jwt_rules *rules = reading->rules;
    struct span bytes;
    if (!decode(reading, reading->parts[1], &bytes)) {
        return JWT_MALFORMED;
    }
    reading->payload = parse_object(reading, bytes);
    if (reading->payload == NULL || has_cut_claim(reading)) {
        return JWT_BAD_PAYLOAD;
    }
    const enum jwt_result result = check_times(reading);
    if (result != JWT_VALID) {
        return result;
    }
    if (rules->n_issuers > 0 && !is_among(text_of_json(json_object_get(reading->payload, "iss")),
                                          rules->issuers, rules->n_issuers)) {
        return JWT_ISSUER;
    }
    return has_audience(reading) ? JWT_VALID : JWT_AUDIENCE;
}

static enum jwt_result check_signature(struct reading *reading)
{
    if (reading->keys == NULL) {
        return JWT_NO_KEYS;
    }
    const struct span kid = text_of_json(json_object_get(reading->header, "kid"));
    switch (jwt_key_set_verify(reading->keys, reading->algorithm, kid, reading->input,
                               reading->signature, &reading->n_computed)) {
    case JWT_SIGNATURE_GOOD:
        return JWT_VALID;
    case JWT_SIGNATURE_BAD:
        return JWT_SIGNATURE;
    case JWT_SIGNATURE_NO_KEY:
        return jwt_key_set_count(reading->keys) > 0 ? JWT_UNKNOWN_KEY : JWT_KEYS_WITHDRAWN;
    case JWT_SIGNATURE_MANY:
        return JWT_MANY_KEYS;
    case JWT_SIGNATURE_LENGTH_WRONG:
        return JWT_SIGNATURE_LENGTH;
    }
    return JWT_SIGNATURE;
}

/* --- claims that a policy reads --- */

/* Whether @value is a whole number of at most 53 bits, *integer, and is written as one: `5.0` is
 * a real number, which some libraries take for 5 and others do not. */
static bool read_integer(const json_t *value, json_int_t *integer)
{
    *integer = json_integer_value(value);
    return json_is_integer(value) && *integer <= INTEGER_MAX && *integer >= -INTEGER_MAX;
}

/* Copy the text of @value into the arena. *text is empty: it is of no kind that is read, or too
 * long. False: no memory. */
static bool read_value(const struct reading *reading, const json_t *value, struct span *text)
{
    char number[NUMBER_TEXT_BYTES];
    json_int_t integer;
    *text = text_of_json(value);
    if (json_is_boolean(value)) {
        *text = json_is_true(value) ? SPAN("true") : SPAN("false");
    } else if (read_integer(value, &integer)) {
        struct text written = text_of(number, sizeof(number));
        text_add_i64(&written, integer);
        *text = text_span(&written);
    }
    if (text->len == 0 || text->len > JWT_VALUE_BYTES_MAX) {
        *text = span_of(NULL, 0);
        return true;
    }
    *text = arena_copy(reading->arena, *text);
    return text->data != NULL;
}

static bool read_claim(const struct reading *reading, const json_t *value, struct jwt_claim *claim)
{
    const bool is_array = json_is_array(value);
    size_t n = is_array ? json_array_size(value) : 1;
    n = n < JWT_VALUES_MAX ? n : JWT_VALUES_MAX;
    *claim = (struct jwt_claim){.is_single = !is_array, .is_boolean = json_is_boolean(value)};
    if (value == NULL || n == 0) {
        return true;
    }
    struct span *values = arena_calloc(reading->arena, n, sizeof(*values));
    for (size_t i = 0; i < n && values != NULL; i++) {
        struct span *text = &values[claim->n_values];
        if (!read_value(reading, is_array ? json_array_get(value, i) : value, text)) {
            return false;
        }
        claim->n_values = (uint16_t)(claim->n_values + (text->len > 0));
    }
    claim->values = values;
    return values != NULL;
}

static bool read_claims(const struct reading *reading, struct jwt_claims *claims)
{
    const struct jwt_rules *rules = reading->rules;
    struct jwt_claim *list = arena_calloc(reading->arena, rules->n_claims + 1, sizeof(*list));
    for (size_t i = 0; i < rules->n_claims && list != NULL; i++) {
        if (!read_claim(reading, find_claim(reading->payload, &rules->claims[i]), &list[i])) {
            return false;
        }
    }
    *claims = (struct jwt_claims){
        .expires_us = reading->expires_us, .claims = list, .n_claims = rules->n_claims};
    return list != NULL;
}

static enum jwt_result verify(struct reading *reading, struct span token, struct jwt_claims *claims)
{
    if (token.len > JWT_TOKEN_BYTES_MAX) {
        return JWT_TOO_LONG;
    }
    if (!split(reading, token) || !decode(reading, reading->parts[2], &reading->signature)) {
        return JWT_MALFORMED;
    }
    enum jwt_result result = read_header(reading);
    result = result == JWT_VALID ? read_payload(reading) : result;
    result = result == JWT_VALID ? check_signature(reading) : result;
    return result == JWT_VALID && !read_claims(reading, claims) ? JWT_NO_MEMORY : result;
}

enum jwt_result jwt_verify(const struct jwt_rules *rules, const struct jwt_key_set *keys,
                           struct span token, uint64_t wall_us, struct arena *arena,
                           struct jwt_claims *claims, struct jwt_period *period,
                           unsigned *n_computed)
{
    struct reading reading = {
        .rules = rules,
        .keys = keys,
        .wall_us = wall_us,
        .arena = arena,
        .period = {.until_us = UINT64_MAX},
    };
    enum jwt_result result = verify(&reading, token, claims);
    result = reading.no_memory ? JWT_NO_MEMORY : result;
    *period = reading.period;
    *n_computed = reading.n_computed;
    json_decref(reading.header);
    json_decref(reading.payload);
    return result;
}
