/* Values and tables of the keys of an upstream. */

#include "policy/load/value_types.h"

#include "http/target.h"
#include "policy/load/node.h"
#include "policy/load/spec.h"

/* --- values --- */

/* Parse the parts of a key, separated by commas. */
static bool parse_key(struct span span, struct arena *arena, struct key *key, struct text *problem)
{
    struct span piece;
    key->parts = arena_calloc(arena, KEY_PARTS_MAX, sizeof(*key->parts));
    if (key->parts == NULL) {
        return text_refuse(problem, "out of memory");
    }
    while (span_split(&span, ',', &piece)) {
        if (key->n_parts == KEY_PARTS_MAX) {
            return text_refuse(problem, "its key has more than %d parts", KEY_PARTS_MAX);
        }
        if (!value_parse_key_part(span_trim(piece), arena, &key->parts[key->n_parts], problem)) {
            return false;
        }
        key->n_parts++;
    }
    return true;
}

static bool parse_balance(const struct value_input *input, void *out)
{
    static const char *const WORDS[] = {"round_robin", "least_requests", "hash", NULL};
    const struct span text = input->text;
    const size_t open = span_find(text, '(');
    const struct span word = span_trim(span_of(text.data, open));
    const bool has_key = open < text.len && text.data[text.len - 1] == ')';
    struct spec_balance balance = {.kind = BALANCE_ROUND_ROBIN};
    if (has_key && span_equals(word, SPAN("hash"))) {
        balance.kind = BALANCE_HASH;
        if (!parse_key(span_of(text.data + open + 1, text.len - open - 2), input->arena,
                       &balance.key, input->problem)) {
            return false;
        }
    } else if (span_equals(text, SPAN("least_requests"))) {
        balance.kind = BALANCE_LEAST_REQUESTS;
    } else if (!span_equals(text, SPAN("round_robin"))) {
        return section_refuse_word(input->type->noun, WORDS, word, input->problem);
    }
    *(struct spec_balance *)out = balance;
    return true;
}

/* The target of a GET request line. */
static bool check_path(struct span text, struct text *problem)
{
    struct target target;
    return (text.len <= TARGET_BYTES_MAX && target_parse(text, SPAN("GET"), &target) == NULL &&
            target.form == TARGET_ORIGIN) ||
           text_refuse(problem, "must be a path such as /healthz");
}

static bool parse_failures(const struct value_input *input, void *out)
{
    if (span_equals(input->text, SPAN("off"))) {
        *(uint32_t *)out = 0;
        return true;
    }
    if (!value_parse_number(input, out)) {
        return text_refuse(input->problem, ", or off");
    }
    return true;
}

static bool parse_buffer_size(const struct value_input *input, void *out)
{
    if (span_equals(input->text, SPAN("off"))) {
        *(uint64_t *)out = 0;
        return true;
    }
    if (!value_parse_size(input, out)) {
        return text_refuse(input->problem, ", or off");
    }
    return true;
}

static const struct value_type CHECK_PATH = {
    .kind = VALUE_STRING,
    .noun = "a path such as /healthz",
    .bytes = sizeof(struct spec_text),
    .has_node = true,
    .check = check_path,
    .has_query = true,
};
static const struct value_type FAILURES = {
    .kind = VALUE_SCALAR,
    .noun = "off or a whole number",
    .bytes = sizeof(uint32_t),
    .parse = parse_failures,
    .min = 1,
    .max = 1000000,
    .form = FORM_NUMBER,
    .pattern = "^off$",
};
static const struct value_type BALANCE = {
    .kind = VALUE_SCALAR,
    .noun = "round_robin, least_requests or hash(KEY), such as hash(client.ip)",
    .bytes = sizeof(struct spec_balance),
    .has_node = true,
    .parse = parse_balance,
    .words = (const char *const[]){"round_robin", "least_requests", NULL},
    .pattern = "^[ \\t]*hash[ \\t]*\\(.+\\)$",
};

static const struct value_type PROTOCOL =
    WORD_TYPE("1.1, 2 or auto", [UPSTREAM_HTTP_1_1] = "1.1", [UPSTREAM_HTTP_2] = "2",
              [UPSTREAM_AUTO] = "auto");

static const struct value_type BUFFER_SIZE = {
    .kind = VALUE_SCALAR,
    .noun = "off or a size such as 64KiB",
    .bytes = sizeof(uint64_t),
    .parse = parse_buffer_size,
    .min = KIB(1),
    .max = KIB(1024) * KIB(1024),
    .pattern = "^(off|" PATTERN_SIZE ")$",
};
static const struct value_type BUFFER_WAIT = VALUE_DURATION_TYPE(MS(1), MS(HOUR_MS));

static const struct value_type TIMEOUT = VALUE_DURATION_TYPE(MS(1), MS(DAY_MS));
static const struct value_type WEIGHT = VALUE_NUMBER_TYPE(1, BALANCE_WEIGHT_MAX);
static const struct value_type RETRIES = VALUE_NUMBER_TYPE(0, RETRIES_MAX);

static const struct value_type CHECK_INTERVAL = VALUE_DURATION_TYPE(MS(10), MS(HOUR_MS));
static const struct value_type CHECKS = VALUE_NUMBER_TYPE(1, 100);
static const struct value_type EJECT_FOR = VALUE_DURATION_TYPE(MS(10), MS(DAY_MS));
static const struct value_type CONNECTIONS = VALUE_NUMBER_TYPE(1, 1000000);
static const struct value_type QUEUED = VALUE_NUMBER_TYPE(0, 1000000);
static const struct value_type HEAD_BYTES = VALUE_SIZE_TYPE(KIB(1), KIB(1024));
static const struct value_type FIELD_COUNT = VALUE_NUMBER_TYPE(1, RESPONSE_FIELDS_MAX);
static const struct value_type SLOW_START = VALUE_DURATION_TYPE(0, MS(HOUR_MS));

/* --- sections --- */

static const struct section_field SERVER_FIELDS[] = {
    {"url", SHAPE_ONE, &VALUE_SERVER, offsetof(struct spec_server, url), NULL, KEY_REQUIRED,
     "http://, https:// or h2c://, and host[:port]"},
    {"weight", SHAPE_ONE, &WEIGHT, offsetof(struct spec_server, weight), "1", KEY_OPTIONAL,
     "its share of the requests, beside those of the other servers"},
};
static const struct value_type SERVER_TYPE = {.kind = VALUE_SECTION,
                                              .noun = "a URL such as http://127.0.0.1:9000",
                                              .bytes = sizeof(struct spec_server),
                                              .section = SHORT_SECTION(SERVER_FIELDS, "url")};

static const struct section_field UPSTREAM_TIMEOUT_FIELDS[] = {
    {"connect", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, connect_us), "1s",
     KEY_OPTIONAL, "to connect to a server"},
    {"response", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, response_us), "30s",
     KEY_OPTIONAL, "from the request's end to the response's head, and between its pieces"},
    {"idle", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, idle_us), "4s",
     KEY_OPTIONAL, "how long an unused connection is kept"},
};
static const struct value_type UPSTREAM_TIMEOUT_TYPE =
    SECTION_TYPE(UPSTREAM_TIMEOUT_FIELDS, struct spec_upstream_timeout);

static const struct section_field HEALTH_FIELDS[] = {
    {"path", SHAPE_ONE, &CHECK_PATH, offsetof(struct spec_health, path), NULL, KEY_REQUIRED,
     "what each server is asked for, with GET"},
    {"interval", SHAPE_ONE, &CHECK_INTERVAL, offsetof(struct spec_health, values.interval_us), "5s",
     KEY_OPTIONAL, "from one check to the next"},
    {"timeout", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_health, values.timeout_us), "2s",
     KEY_OPTIONAL, "for a check as a whole"},
    {"status", SHAPE_LIST, &VALUE_ANSWER, offsetof(struct spec_health, status), NULL, KEY_OPTIONAL,
     "answers of a server that is well; left out: 2xx"},
    {"fall", SHAPE_ONE, &CHECKS, offsetof(struct spec_health, values.fall), "3", KEY_OPTIONAL,
     "failed checks in a row until a server is down"},
    {"rise", SHAPE_ONE, &CHECKS, offsetof(struct spec_health, values.rise), "2", KEY_OPTIONAL,
     "passed checks in a row until it is up again"},
};
static const struct value_type HEALTH_TYPE =
    SHORT_SECTION_TYPE(HEALTH_FIELDS, struct spec_health, "path");

static const struct section_field EJECT_FIELDS[] = {
    {"failures", SHAPE_ONE, &FAILURES, offsetof(struct spec_eject, values.failures), "5",
     KEY_OPTIONAL, "off, or failed requests in a row until a server is down"},
    {"for", SHAPE_ONE, &EJECT_FOR, offsetof(struct spec_eject, values.for_us), "5s", KEY_OPTIONAL,
     "how long it is down, the first time; then twice as long each time"},
    {"max", SHAPE_ONE, &EJECT_FOR, offsetof(struct spec_eject, values.max_us), "1m", KEY_OPTIONAL,
     "how long it is down at most"},
};
static const struct value_type EJECT_TYPE =
    SHORT_SECTION_TYPE(EJECT_FIELDS, struct spec_eject, "failures");

static const struct section_field QUEUE_FIELDS[] = {
    {"requests", SHAPE_ONE, &QUEUED, offsetof(struct spec_queue, values.requests), "100",
     KEY_OPTIONAL, "that wait for a connection, all workers together; more are answered with 503"},
    {"wait", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_queue, values.wait_us), "5s", KEY_OPTIONAL,
     "how long a request waits at most"},
};
static const struct value_type QUEUE_TYPE =
    SHORT_SECTION_TYPE(QUEUE_FIELDS, struct spec_queue, "requests");

static const struct section_field BUFFER_FIELDS[] = {
    {"size", SHAPE_ONE, &BUFFER_SIZE, offsetof(struct spec_buffer, values.bytes), "64KiB",
     KEY_OPTIONAL, "off, or bytes of a request's body that are kept before a server is chosen"},
    {"wait", SHAPE_ONE, &BUFFER_WAIT, offsetof(struct spec_buffer, values.wait_us), "5s",
     KEY_OPTIONAL, "how long the body is waited for before a server is chosen"},
    {"min_upload", SHAPE_ONE, &VALUE_BYTE_RATE,
     offsetof(struct spec_buffer, values.min_bytes_per_s), "16KiB/s", KEY_OPTIONAL,
     "that a client must send while its body holds a server's connection; off: as body_rate says"},
};
const struct value_type SECTIONS_BUFFER =
    SHORT_SECTION_TYPE(BUFFER_FIELDS, struct spec_buffer, "size");

static const struct section_field UPSTREAM_FIELDS[] = {
    {"servers", SHAPE_LIST, &SERVER_TYPE, offsetof(struct spec_upstream, servers), NULL,
     KEY_REQUIRED, "http://host[:port], https://… or h2c://…, one or more; or {url: …, weight: N}"},
    {"balance", SHAPE_ONE, &BALANCE, offsetof(struct spec_upstream, balance), "round_robin",
     KEY_OPTIONAL,
     "round_robin, least_requests or hash(KEY): how requests are spread over the servers"},
    {"health", SHAPE_ONE, &HEALTH_TYPE, offsetof(struct spec_upstream, health), NULL, KEY_OPTIONAL,
     "requests that tell whether a server is well"},
    {"eject", SHAPE_ONE, &EJECT_TYPE, offsetof(struct spec_upstream, eject), NULL, KEY_OPTIONAL,
     "when a server that fails requests is passed over"},
    {"slow_start", SHAPE_ONE, &SLOW_START, offsetof(struct spec_upstream, values.slow_start_us),
     "0s", KEY_OPTIONAL, "how long the share of a server that came back grows"},
    {"max_connections", SHAPE_ONE, &CONNECTIONS,
     offsetof(struct spec_upstream, values.max_connections), NULL, KEY_OPTIONAL,
     "to each server, all workers together, idle ones too"},
    {"queue", SHAPE_ONE, &QUEUE_TYPE, offsetof(struct spec_upstream, queue), NULL, KEY_OPTIONAL,
     "requests that wait while max_connections are in use"},
    {"buffer", SHAPE_ONE, &SECTIONS_BUFFER, offsetof(struct spec_upstream, buffer), NULL,
     KEY_OPTIONAL, "off, or what of a request's body is kept before a server is chosen"},
    {"min_download", SHAPE_ONE, &VALUE_BYTE_RATE,
     offsetof(struct spec_upstream, values.min_download_bytes_per_s), "16KiB/s", KEY_OPTIONAL,
     "that a client must take of an answer while its server waits for it; off: as body_rate says"},
    {"retries", SHAPE_ONE, &RETRIES, offsetof(struct spec_upstream, values.retries), "2",
     KEY_OPTIONAL, "how many more servers are tried where a connection died before the answer"},
    {"max_head", SHAPE_ONE, &HEAD_BYTES, offsetof(struct spec_upstream, values.head_bytes_max),
     "64KiB", KEY_OPTIONAL, "bytes of a response's head; more is answered with 502"},
    {"max_headers", SHAPE_ONE, &FIELD_COUNT, offsetof(struct spec_upstream, values.n_fields_max),
     "256", KEY_OPTIONAL, "header fields of a response; more is answered with 502"},
    {"reuse_after_head", SHAPE_ONE, &VALUE_BOOL,
     offsetof(struct spec_upstream, values.reuse_after_head), "false", KEY_OPTIONAL,
     "keep a connection after an answer to HEAD that announces a body"},
    {"host", SHAPE_ONE, &VALUE_HOST_RULE, offsetof(struct spec_upstream, host), "preserve",
     KEY_OPTIONAL, "preserve, server or a name: the Host that the servers see"},
    {"protocol", SHAPE_ONE, &PROTOCOL, offsetof(struct spec_upstream, values.protocol), "1.1",
     KEY_OPTIONAL, "1.1, 2 or auto (asks by ALPN): the version of HTTP to servers of https://"},
    {"tls", SHAPE_ONE, &SECTIONS_UPSTREAM_TLS, offsetof(struct spec_upstream, tls), NULL,
     KEY_OPTIONAL, "how servers of https:// are verified"},
    {"timeout", SHAPE_ONE, &UPSTREAM_TIMEOUT_TYPE, offsetof(struct spec_upstream, timeout), NULL,
     KEY_OPTIONAL, "how long to wait for the servers"},
};
const struct value_type SECTIONS_UPSTREAM = SECTION_TYPE(UPSTREAM_FIELDS, struct spec_upstream);
