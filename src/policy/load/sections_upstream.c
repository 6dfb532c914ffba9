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

static const struct value_type CHECK_PATH =
    VALUE_STRING_TYPE("a path such as /healthz", check_path, .has_query = true);
static const struct value_type FAILURES =
    VALUE_SCALAR_TYPE("off or a whole number", uint32_t, value_parse_number, .zero_word = "off",
                      VALUE_IS_NUMBER(1, 1000000), .pattern = "^off$");
static const struct value_type BALANCE = VALUE_NODE_TYPE(
    "round_robin, least_requests or hash(KEY), such as hash(client.ip)", struct spec_balance, node,
    parse_balance, .words = (const char *const[]){"round_robin", "least_requests", NULL},
    .pattern = "^[ \\t]*hash[ \\t]*\\(.+\\)$");

static const struct value_type PROTOCOL =
    WORD_TYPE("1.1, 2 or auto", [UPSTREAM_HTTP_1_1] = "1.1", [UPSTREAM_HTTP_2] = "2",
              [UPSTREAM_AUTO] = "auto");

static const struct value_type REQUEST_TRAILERS =
    WORD_TYPE("announced, true or false", [REQUEST_TRAILERS_ANNOUNCED] = "announced",
              [REQUEST_TRAILERS_ALL] = "true", [REQUEST_TRAILERS_NONE] = "false");

static const struct value_type BUFFER_SIZE = VALUE_SCALAR_TYPE(
    "off or a size such as 64KiB", uint64_t, value_parse_size, .zero_word = "off", .min = KIB(1),
    .max = KIB(1024) * KIB(1024), .pattern = "^(off|" PATTERN_SIZE ")$");

static const struct value_type TIMEOUT = VALUE_DURATION_TYPE(MS(1), MS(DAY_MS));

static const struct value_type CHECKS = VALUE_NUMBER_TYPE(1, 100);
static const struct value_type EJECT_FOR = VALUE_DURATION_TYPE(MS(10), MS(DAY_MS));

/* --- sections --- */

static const struct section_field SERVER_FIELDS[] = {
    KEY("url", &VALUE_SERVER, spec_server, url, NULL,
        "http://, https:// or h2c://, and host[:port]", .presence = KEY_REQUIRED),
    KEY("weight", NUMBER(1, BALANCE_WEIGHT_MAX), spec_server, weight, "1",
        "its share of the requests, beside those of the other servers"),
};
static const struct value_type SERVER_TYPE = {.kind = VALUE_SECTION,
                                              .noun = "a URL such as http://127.0.0.1:9000",
                                              .bytes = sizeof(struct spec_server),
                                              .section = SHORT_SECTION(SERVER_FIELDS, "url")};

static const struct section_field UPSTREAM_TIMEOUT_FIELDS[] = {
    KEY("connect", &TIMEOUT, spec_upstream_timeout, connect_us, "1s", "to connect to a server"),
    KEY("response", &TIMEOUT, spec_upstream_timeout, response_us, "30s",
        "from the request's end to the response's head, and between its pieces"),
    KEY("idle", &TIMEOUT, spec_upstream_timeout, idle_us, "4s",
        "how long an unused connection is kept"),
};
static const struct value_type UPSTREAM_TIMEOUT_TYPE =
    SECTION_TYPE(UPSTREAM_TIMEOUT_FIELDS, struct spec_upstream_timeout);

static const struct section_field HEALTH_FIELDS[] = {
    KEY("path", &CHECK_PATH, spec_health, path, NULL, "what each server is asked for, with GET",
        .presence = KEY_REQUIRED),
    KEY("interval", DURATION(MS(10), MS(HOUR_MS)), spec_health, values.interval_us, "5s",
        "from one check to the next"),
    KEY("timeout", &TIMEOUT, spec_health, values.timeout_us, "2s", "for a check as a whole"),
    LIST_KEY("status", &VALUE_ANSWER, spec_health, status,
             "answers of a server that is well; left out: 2xx"),
    KEY("fall", &CHECKS, spec_health, values.fall, "3",
        "failed checks in a row until a server is down"),
    KEY("rise", &CHECKS, spec_health, values.rise, "2",
        "passed checks in a row until it is up again"),
};
static const struct value_type HEALTH_TYPE =
    SHORT_SECTION_TYPE(HEALTH_FIELDS, struct spec_health, "path");

static const struct section_field EJECT_FIELDS[] = {
    KEY("failures", &FAILURES, spec_eject, values.failures, "5",
        "off, or failed requests in a row until a server is down"),
    KEY("for", &EJECT_FOR, spec_eject, values.for_us, "5s",
        "how long it is down, the first time; then twice as long each time"),
    KEY("max", &EJECT_FOR, spec_eject, values.max_us, "1m", "how long it is down at most"),
};
static const struct value_type EJECT_TYPE =
    SHORT_SECTION_TYPE(EJECT_FIELDS, struct spec_eject, "failures");

static const struct section_field QUEUE_FIELDS[] = {
    KEY("requests", NUMBER(0, 1000000), spec_queue, values.requests, "100",
        "that wait for a connection, all workers together; more are answered with 503"),
    KEY("wait", &TIMEOUT, spec_queue, values.wait_us, "5s", "how long a request waits at most"),
};
static const struct value_type QUEUE_TYPE =
    SHORT_SECTION_TYPE(QUEUE_FIELDS, struct spec_queue, "requests");

static const struct section_field BUFFER_FIELDS[] = {
    KEY("size", &BUFFER_SIZE, spec_buffer, values.bytes, "64KiB",
        "off, or bytes of a request's body that are kept before a server is chosen"),
    KEY("wait", DURATION(MS(1), MS(HOUR_MS)), spec_buffer, values.wait_us, "5s",
        "how long the body is waited for before a server is chosen"),
    KEY("min_upload", &VALUE_BYTE_RATE, spec_buffer, values.min_bytes_per_s, "16KiB/s",
        "that a client must send while its body holds a server's connection; off: as body_rate "
        "says"),
};
const struct value_type SECTIONS_BUFFER =
    SHORT_SECTION_TYPE(BUFFER_FIELDS, struct spec_buffer, "size");

static const struct section_field UPSTREAM_FIELDS[] = {
    LIST_KEY("servers", &SERVER_TYPE, spec_upstream, servers,
             "http://host[:port], https://… or h2c://…, one or more; or {url: …, weight: N}",
             .presence = KEY_REQUIRED),
    KEY("balance", &BALANCE, spec_upstream, balance, "round_robin",
        "round_robin, least_requests or hash(KEY): how requests are spread over the servers"),
    KEY("health", &HEALTH_TYPE, spec_upstream, health, NULL,
        "requests that tell whether a server is well"),
    KEY("eject", &EJECT_TYPE, spec_upstream, eject, NULL,
        "when a server that fails requests is passed over"),
    KEY("slow_start", DURATION(0, MS(HOUR_MS)), spec_upstream, values.slow_start_us, "0s",
        "how long the share of a server that came back grows"),
    KEY("max_connections", NUMBER(1, 1000000), spec_upstream, values.max_connections, NULL,
        "to each server, all workers together, idle ones too"),
    KEY("max_streams", NUMBER(1, UPSTREAM_STREAMS_MAX), spec_upstream, values.max_streams, "100",
        "requests at a time on one connection of HTTP/2, where the server does not grant fewer"),
    KEY("queue", &QUEUE_TYPE, spec_upstream, queue, NULL,
        "requests that wait while max_connections are in use"),
    KEY("buffer", &SECTIONS_BUFFER, spec_upstream, buffer, NULL,
        "off, or what of a request's body is kept before a server is chosen"),
    KEY("min_download", &VALUE_BYTE_RATE, spec_upstream, values.min_download_bytes_per_s, "16KiB/s",
        "that a client must take of an answer while its server waits for it; off: as body_rate "
        "says"),
    KEY("retries", NUMBER(0, RETRIES_MAX), spec_upstream, values.retries, "2",
        "how many more servers are tried where a connection died before the answer"),
    KEY("max_head", SIZE(KIB(1), KIB(1024)), spec_upstream, values.head_bytes_max, "64KiB",
        "bytes of a response's head; more is answered with 502"),
    KEY("max_headers", NUMBER(1, RESPONSE_FIELDS_MAX), spec_upstream, values.n_fields_max, "256",
        "header fields of a response; more is answered with 502"),
    KEY("reuse_after_head", &VALUE_BOOL, spec_upstream, values.reuse_after_head, "false",
        "keep a connection after an answer to HEAD, or a 304, that may be followed by a body"),
    KEY("hold_slots", &VALUE_BOOL, spec_upstream, values.hold_slots, "false",
        "keep a client's slots for timeout.response where it leaves a stream or a long answer, "
        "behind an answer to HEAD, one that breaks off or a 500, and where a server fails that has "
        "the request: handlers may work on"),
    KEY("request_trailers", &REQUEST_TRAILERS, spec_upstream, values.request_trailers, "announced",
        "announced, true or false: which trailers of requests pass by HTTP/2; some servers end the "
        "connection for them"),
    KEY("host", &VALUE_HOST_RULE, spec_upstream, host, "preserve",
        "preserve, server or a name: the Host that the servers see"),
    KEY("protocol", &PROTOCOL, spec_upstream, values.protocol, "1.1",
        "1.1, 2 or auto (asks by ALPN): the version of HTTP to servers of https://"),
    KEY("tls", &SECTIONS_UPSTREAM_TLS, spec_upstream, tls, NULL,
        "how servers of https:// are verified"),
    KEY("timeout", &UPSTREAM_TIMEOUT_TYPE, spec_upstream, timeout, NULL,
        "how long to wait for the servers"),
};
const struct value_type SECTIONS_UPSTREAM = SECTION_TYPE(UPSTREAM_FIELDS, struct spec_upstream);
