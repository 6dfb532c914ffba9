/* What a policy may say of an upstream. */

#include "policy/section_tables.h"
#include "policy/sections.h"
#include "policy/spec.h"
#include "policy/value_types.h"

static const struct value_type TIMEOUT = VALUE_DURATION_TYPE(MS(1), MS(DAY_MS));
static const struct value_type WEIGHT = VALUE_NUMBER_TYPE(1, BALANCE_WEIGHT_MAX);
static const struct value_type RETRIES = VALUE_NUMBER_TYPE(0, RETRIES_MAX);

static const struct value_type CHECK_INTERVAL = VALUE_DURATION_TYPE(MS(10), MS(HOUR_MS));
static const struct value_type CHECKS = VALUE_NUMBER_TYPE(1, 100);
static const struct value_type EJECT_FOR = VALUE_DURATION_TYPE(MS(10), MS(DAY_MS));
static const struct value_type CONNECTIONS = VALUE_NUMBER_TYPE(1, 1000000);
static const struct value_type QUEUED = VALUE_NUMBER_TYPE(0, 1000000);
static const struct value_type SLOW_START = VALUE_DURATION_TYPE(0, MS(HOUR_MS));

static const struct section_field SERVER_FIELDS[] = {
    {"url", SHAPE_ONE, &VALUE_SERVER, offsetof(struct spec_server, url), NULL, KEY_REQUIRED,
     "http://host[:port]"},
    {"weight", SHAPE_ONE, &WEIGHT, offsetof(struct spec_server, weight), "1", KEY_OPTIONAL,
     "its share of the requests, beside those of the other servers"},
};
static const struct section SERVER = {
    .fields = SERVER_FIELDS, .n_fields = ARRAY_LEN(SERVER_FIELDS), .shorthand = "url"};
static const struct value_type SERVER_TYPE = {
    .kind = VALUE_SECTION,
    .noun = "a URL such as http://127.0.0.1:9000",
    .bytes = sizeof(struct spec_server),
    .section = &SERVER,
};

static const struct section_field UPSTREAM_TIMEOUT_FIELDS[] = {
    {"connect", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, connect_us), "1s",
     KEY_OPTIONAL, "to connect to a server"},
    {"response", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, response_us), "30s",
     KEY_OPTIONAL, "from the request's end to the response's head, and between its pieces"},
    {"idle", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, idle_us), "4s",
     KEY_OPTIONAL, "how long an unused connection is kept"},
};
static const struct section UPSTREAM_TIMEOUT = SECTION_OF(UPSTREAM_TIMEOUT_FIELDS);
static const struct value_type UPSTREAM_TIMEOUT_TYPE =
    SECTION_TYPE(UPSTREAM_TIMEOUT, struct spec_upstream_timeout);

static const struct section_field HEALTH_FIELDS[] = {
    {"path", SHAPE_ONE, &VALUE_CHECK_PATH, offsetof(struct spec_health, path), NULL, KEY_REQUIRED,
     "what each server is asked for, with GET"},
    {"interval", SHAPE_ONE, &CHECK_INTERVAL, offsetof(struct spec_health, interval_us), "5s",
     KEY_OPTIONAL, "from one check to the next"},
    {"timeout", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_health, timeout_us), "2s", KEY_OPTIONAL,
     "for a check as a whole"},
    {"status", SHAPE_LIST, &VALUE_ANSWER, offsetof(struct spec_health, status), NULL, KEY_OPTIONAL,
     "answers of a server that is well; left out: 2xx"},
    {"fall", SHAPE_ONE, &CHECKS, offsetof(struct spec_health, fall), "3", KEY_OPTIONAL,
     "failed checks in a row until a server is out"},
    {"rise", SHAPE_ONE, &CHECKS, offsetof(struct spec_health, rise), "2", KEY_OPTIONAL,
     "passed checks in a row until it is in again"},
};
static const struct section HEALTH = {
    .fields = HEALTH_FIELDS, .n_fields = ARRAY_LEN(HEALTH_FIELDS), .shorthand = "path"};
static const struct value_type HEALTH_TYPE = SECTION_TYPE(HEALTH, struct spec_health);

static const struct section_field EJECT_FIELDS[] = {
    {"failures", SHAPE_ONE, &VALUE_FAILURES, offsetof(struct spec_eject, values.failures), "5",
     KEY_OPTIONAL, "off, or failed requests in a row until a server is out"},
    {"for", SHAPE_ONE, &EJECT_FOR, offsetof(struct spec_eject, values.for_us), "5s", KEY_OPTIONAL,
     "how long it is out, the first time; then twice as long each time"},
    {"max", SHAPE_ONE, &EJECT_FOR, offsetof(struct spec_eject, values.max_us), "1m", KEY_OPTIONAL,
     "how long it is out at most"},
};
static const struct section EJECT = {
    .fields = EJECT_FIELDS, .n_fields = ARRAY_LEN(EJECT_FIELDS), .shorthand = "failures"};
static const struct value_type EJECT_TYPE = SECTION_TYPE(EJECT, struct spec_eject);

static const struct section_field QUEUE_FIELDS[] = {
    {"requests", SHAPE_ONE, &QUEUED, offsetof(struct spec_queue, values.requests), "100",
     KEY_OPTIONAL, "that wait for a connection, all workers together; more are answered with 503"},
    {"wait", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_queue, values.wait_us), "5s", KEY_OPTIONAL,
     "how long a request waits at most"},
};
static const struct section QUEUE = {
    .fields = QUEUE_FIELDS, .n_fields = ARRAY_LEN(QUEUE_FIELDS), .shorthand = "requests"};
static const struct value_type QUEUE_TYPE = SECTION_TYPE(QUEUE, struct spec_queue);

static const struct section_field UPSTREAM_FIELDS[] = {
    {"servers", SHAPE_LIST, &SERVER_TYPE, offsetof(struct spec_upstream, servers), NULL,
     KEY_REQUIRED, "http://host[:port], one or more; or {url: …, weight: N}"},
    {"balance", SHAPE_ONE, &VALUE_BALANCE, offsetof(struct spec_upstream, balance), "round_robin",
     KEY_OPTIONAL,
     "round_robin, least_requests or hash(KEY): how requests are spread over the servers"},
    {"health", SHAPE_ONE, &HEALTH_TYPE, offsetof(struct spec_upstream, health), NULL, KEY_OPTIONAL,
     "requests that tell whether a server is well"},
    {"eject", SHAPE_ONE, &EJECT_TYPE, offsetof(struct spec_upstream, eject), NULL, KEY_OPTIONAL,
     "when a server that fails requests is passed over"},
    {"slow_start", SHAPE_ONE, &SLOW_START, offsetof(struct spec_upstream, slow_start_us), "0s",
     KEY_OPTIONAL, "how long the share of a server that came back grows"},
    {"max_connections", SHAPE_ONE, &CONNECTIONS, offsetof(struct spec_upstream, max_connections),
     NULL, KEY_OPTIONAL, "to each server, all workers together, idle ones too"},
    {"queue", SHAPE_ONE, &QUEUE_TYPE, offsetof(struct spec_upstream, queue), NULL, KEY_OPTIONAL,
     "requests that wait while max_connections are in use"},
    {"retries", SHAPE_ONE, &RETRIES, offsetof(struct spec_upstream, retries), "2", KEY_OPTIONAL,
     "how many more servers are tried where a connection died before the answer"},
    {"reuse_after_head", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_upstream, reuse_after_head),
     "false", KEY_OPTIONAL, "keep a connection after an answer to HEAD that announces a body"},
    {"host", SHAPE_ONE, &VALUE_HOST_RULE, offsetof(struct spec_upstream, host), "preserve",
     KEY_OPTIONAL, "preserve, server or a name: the Host that the servers see"},
    {"timeout", SHAPE_ONE, &UPSTREAM_TIMEOUT_TYPE, offsetof(struct spec_upstream, timeout), NULL,
     KEY_OPTIONAL, "how long to wait for the servers"},
};
const struct section SECTIONS_UPSTREAM = SECTION_OF(UPSTREAM_FIELDS);
