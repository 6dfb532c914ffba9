/* Keys: whatever a request holds, an identity is printable and bounded, two requests have the same
 * one only if each of its parts is the same, a request has a few different ones at most, and the
 * commands that carry them are well-formed.
 *
 * The first byte of the input chooses the parts; the values of two requests
 * follow, parted by 0xff. */

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "http/values.h"
#include "limit/algorithms.h"
#include "policy/load/value_types.h"
#include "store/redis/redis_command.h"
#include "store/redis_options.h"

enum {
    VALUES = 6, /* of a request */
    INPUT_BYTES_MAX = 4096,
};

static const struct span PARTS[] = {
    {"header.x-key", 12}, {"cookie.s | client.ip", 20},
    {"query.q", 7},       {"path", 4},
    {"path.1", 6},        {"method", 6},
    {"host", 4},          {"geohash(query.q header.x-key 9) | host", 38},
};

static struct limit limit;
static struct redis_command command;
static struct key_part compiled[ARRAY_LEN(PARTS)];
static struct arena arena;

static void set_up(void)
{
    static const struct limit_spec spec = {
        .algorithm = &token_bucket_algorithm, .rate = 10, .burst = 5, .period_us = 1000000};
    char problem_bytes[128];
    MUST_HOLD(hash_setup() == STATUS_OK);
    arena_init(&arena, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(PARTS); i++) {
        struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
        MUST_HOLD(value_parse_key_part(PARTS[i], &arena, &compiled[i], &problem));
    }
    limit.name = SPAN("l");
    MUST_HOLD(limit_init(&limit, &spec) == NULL);
    const struct redis_store_options options = {
        .prefix = SPAN("sluice"), .limits = &limit, .n_limits = 1};
    MUST_HOLD(redis_command_init(&command, &options) == STATUS_OK);
}

/* A request, and where its parts are kept. */
struct request {
    struct field fields[2];
    struct head head;
    struct path path;
    char path_bytes[INPUT_BYTES_MAX + 2];
    char target_bytes[INPUT_BYTES_MAX + 2];
    char host_bytes[HOST_BYTES_MAX];
    struct request_view view;
};

static struct span field_value(struct span value)
{
    return field_is_value(value) ? span_trim(value) : SPAN("");
}

/* False: no request has such a path. */
static bool fill(struct request *request, const struct span values[VALUES])
{
    static const struct path_rules rules = {0};
    struct text target = text_of(request->target_bytes, sizeof(request->target_bytes));
    *request = (struct request){0};
    text_add_literal(&target, "/");
    text_add(&target, values[3]);
    request->fields[0] =
        (struct field){.name = SPAN("X-Key"), .value = field_value(values[0]), .id = FIELD_OTHER};
    request->fields[1] =
        (struct field){.name = SPAN("Cookie"), .value = field_value(values[1]), .id = FIELD_COOKIE};
    request->head.fields = request->fields;
    request->head.n_fields = ARRAY_LEN(request->fields);
    request->head.method = field_is_token(values[4]) ? values[4] : SPAN("GET");
    request->head.target.query = values[2];
    request->head.target.path = text_span(&target);
    request->view.head = &request->head;
    request->view.method = request->head.method;
    request->view.path = &request->path;
    request->view.path_buffer = request->path_bytes;
    request->view.host = target_is_host(values[5])
                             ? target_normalise_host(values[5], request->host_bytes)
                             : SPAN("");
    MUST_HOLD(address_parse(SPAN("192.0.2.1"), &request->view.client));
    return path_normalise(text_span(&target), &rules, request->path_bytes, &request->path) == NULL;
}

/* The identity number @i of *n; data is NULL: the request is refused. */
static struct span identity_nth(const struct request *request, const struct key *key, size_t i,
                                size_t *n, char *buffer)
{
    struct text text = text_of(buffer, KEY_TEXT_BYTES_MAX);
    const enum key_result result =
        key_read_nth(key, KEY_MISSING_SHARED_COUNTER, &request->view, SPAN("secret"), i, n, &text);
    MUST_HOLD(result != KEY_LACKS_A_PART);
    if (result == KEY_IS_AMBIGUOUS) {
        MUST_HOLD(text.len == 0);
        return span_of(NULL, 0);
    }
    MUST_HOLD(*n >= 1 && *n <= KEY_IDENTITIES_MAX);
    return text_span(&text);
}

/* The only identity; data is NULL: there are several, or the request is refused. */
static struct span identity(const struct request *request, const struct key *key, char *buffer)
{
    size_t n;
    const struct span text = identity_nth(request, key, 0, &n, buffer);
    return n == 1 ? text : span_of(NULL, 0);
}

static void check_form(struct span text)
{
    MUST_HOLD(text.len > 2 && text.data[0] == '{');
    const size_t end = span_find(text, '}');
    MUST_HOLD(end < text.len);
    for (size_t i = 1; i < text.len; i++) {
        MUST_HOLD(text.data[i] > ' ' && text.data[i] < 0x7f);
        MUST_HOLD(text.data[i] != '{' && (text.data[i] != '}' || i == end));
    }
}

/* Take one argument, as a Redis reads it. */
static struct span take_argument(struct span *wire)
{
    uint64_t len;
    const size_t line = span_find(*wire, '\r');
    MUST_HOLD(wire->len > line + 1 && wire->data[0] == '$' && wire->data[line + 1] == '\n');
    MUST_HOLD(span_to_u64(span_of(wire->data + 1, line - 1), wire->len, &len));
    const struct span rest = span_of(wire->data + line + 2, wire->len - line - 2);
    MUST_HOLD(rest.len >= len + 2 && memcmp(rest.data + len, "\r\n", 2) == 0);
    *wire = span_of(rest.data + len + 2, rest.len - len - 2);
    return span_of(rest.data, len);
}

/* @key, whatever it holds, is one argument of the command. */
static void check_command(struct span key)
{
    char bytes[KEY_TEXT_BYTES_MAX + 64];
    struct text wanted = text_of(bytes, sizeof(bytes));
    struct charge charge = {.limit = &limit, .key = key, .cost = 1};
    const struct decision decision = {.charges = &charge, .n_charges = 1};
    struct span wire = redis_command_evalsha(&command, &decision);
    redis_key_write(&wanted, SPAN("sluice"), &charge);
    MUST_HOLD(wire.len > 4 && memcmp(wire.data, "*5\r\n", 4) == 0);
    wire = span_of(wire.data + 4, wire.len - 4);
    MUST_HOLD(span_equals(take_argument(&wire), SPAN("EVALSHA")));
    MUST_HOLD(take_argument(&wire).len == REDIS_SHA_BYTES);
    MUST_HOLD(span_equals(take_argument(&wire), SPAN("1")));
    MUST_HOLD(span_equals(take_argument(&wire), text_span(&wanted)));
    (void)take_argument(&wire);
    MUST_HOLD(wire.len == 0);
    MUST_HOLD(redis_slots_of(text_span(&wanted)) ==
              redis_slots_of_charge(SPAN("sluice"), &limit, key));
}

/* All identities of a request are sound, and no two are the same. */
static void check_all(const struct request *request, const struct key *key)
{
    char bytes[KEY_IDENTITIES_MAX][KEY_TEXT_BYTES_MAX];
    struct span texts[KEY_IDENTITIES_MAX];
    size_t n = 1;
    for (size_t i = 0; i < n; i++) {
        texts[i] = identity_nth(request, key, i, &n, bytes[i]);
        if (texts[i].data == NULL) {
            return;
        }
        check_form(texts[i]);
        for (size_t j = 0; j < i; j++) {
            MUST_HOLD(!span_equals(texts[i], texts[j]));
        }
    }
}

static void check_requests(const struct request *a, const struct request *b, uint8_t chosen)
{
    struct key_part parts[ARRAY_LEN(PARTS)];
    struct key key = {.parts = parts};
    bool is_same = true;
    char a_bytes[KEY_TEXT_BYTES_MAX];
    char b_bytes[KEY_TEXT_BYTES_MAX];
    for (size_t i = 0; i < ARRAY_LEN(PARTS); i++) {
        if ((chosen >> i & 1) != 0) {
            const struct key alone = {.parts = &compiled[i], .n_parts = 1};
            parts[key.n_parts++] = compiled[i];
            is_same =
                is_same && span_equals(identity(a, &alone, a_bytes), identity(b, &alone, b_bytes));
            check_all(a, &alone);
        }
    }
    if (key.n_parts == 0) {
        return;
    }
    check_all(a, &key);
    const struct span a_text = identity(a, &key, a_bytes);
    const struct span b_text = identity(b, &key, b_bytes);
    if (a_text.data == NULL || b_text.data == NULL) {
        return;
    }
    check_form(a_text);
    MUST_HOLD(span_equals(a_text, b_text) == is_same);
    check_command(a_text);
}

/* Of header values alone it is plain what is the same. */
static void check_headers(const struct request *a, const struct request *b)
{
    const struct key key = {.parts = &compiled[0], .n_parts = 1};
    char a_bytes[KEY_TEXT_BYTES_MAX];
    char b_bytes[KEY_TEXT_BYTES_MAX];
    MUST_HOLD(span_equals(identity(a, &key, a_bytes), identity(b, &key, b_bytes)) ==
              span_equals(value_trim(a->fields[0].value), value_trim(b->fields[0].value)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct request a;
    static struct request b;
    static bool is_ready;
    struct span values[2 * VALUES] = {0};
    if (size < 1 || size > INPUT_BYTES_MAX) {
        return 0;
    }
    if (!is_ready) {
        set_up();
        is_ready = true;
    }
    struct span rest = span_of((const char *)data + 1, size - 1);
    check_command(
        span_of(rest.data, rest.len < KEY_TEXT_BYTES_MAX ? rest.len : KEY_TEXT_BYTES_MAX));
    for (size_t i = 0; i < 2 * VALUES && span_split(&rest, '\xff', &values[i]); i++) {
    }
    if (fill(&a, values) && fill(&b, values + VALUES)) {
        check_requests(&a, &b, data[0]);
        check_headers(&a, &b);
    }
    return 0;
}
