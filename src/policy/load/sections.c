#include "base/compiler.h"
#include "base/limits.h"
#include "http/field.h"
#include "policy/load/spec.h"
#include "policy/load/value_types.h"
#include "policy/units.h"

/* --- words --- */

static const struct value_type ON_FAILURE =
    WORD_TYPE("local, allow or deny", [ON_FAILURE_LOCAL] = "local", [ON_FAILURE_ALLOW] = "allow",
              [ON_FAILURE_DENY] = "deny");
static const struct value_type LIMIT_ON_FAILURE = WORD_TYPE(
    "local, allow, deny or inherit", [ON_FAILURE_LOCAL] = "local", [ON_FAILURE_ALLOW] = "allow",
    [ON_FAILURE_DENY] = "deny", [SPEC_ON_FAILURE_INHERIT] = "inherit");
static const struct value_type FULL =
    WORD_TYPE("shared_counter, deny or allow", [STORE_FULL_SHARED_COUNTER] = "shared_counter",
              [STORE_FULL_DENY] = "deny", [STORE_FULL_ALLOW] = "allow");
static const struct value_type LOG_FORMAT = WORD_TYPE(
    "logfmt, json, combined or off", [LOG_FORMAT_LOGFMT] = "logfmt", [LOG_FORMAT_JSON] = "json",
    [LOG_FORMAT_COMBINED] = "combined", [LOG_FORMAT_OFF] = "off");
static const struct value_type LOG_FIELD =
    WORD_TYPE("query, referer or user_agent", [LOG_FIELD_QUERY] = "query",
              [LOG_FIELD_REFERER] = "referer", [LOG_FIELD_USER_AGENT] = "user_agent");
static const struct value_type HEADERS = WORD_TYPE(
    "ratelimit, x_ratelimit, ratelimit_and_x_ratelimit, ratelimit_next or none",
    [HEADERS_RATELIMIT] = "ratelimit", [HEADERS_RATELIMIT_NEXT] = "ratelimit_next",
    [HEADERS_X_RATELIMIT] = "x_ratelimit",
    [HEADERS_RATELIMIT_AND_X_RATELIMIT] = "ratelimit_and_x_ratelimit", [HEADERS_NONE] = "none");
static const struct value_type DUPLICATES =
    WORD_TYPE("cookies, refuse or each", [KEY_DUPLICATES_COOKIES] = "cookies",
              [KEY_DUPLICATES_REFUSE] = "refuse", [KEY_DUPLICATES_EACH] = "each");
static const struct value_type MISSING =
    WORD_TYPE("shared_counter, deny or skip", [KEY_MISSING_SHARED_COUNTER] = "shared_counter",
              [KEY_MISSING_DENY] = "deny", [KEY_MISSING_SKIP] = "skip");
static const struct value_type GRPC_DENIAL =
    WORD_TYPE("resource_exhausted, unavailable or http",
              [GRPC_DENIAL_RESOURCE_EXHAUSTED] = "resource_exhausted",
              [GRPC_DENIAL_UNAVAILABLE] = "unavailable", [GRPC_DENIAL_HTTP] = "http");
static const struct value_type ENCODED_SLASH = WORD_TYPE("refuse or allow", "refuse", "allow");
static const struct value_type ALIGN =
    WORD_TYPE("clock or first", [SPEC_ALIGN_CLOCK] = "clock", [SPEC_ALIGN_FIRST] = "first");
static const struct value_type TRUST = WORD_TYPE("proxies or any", "proxies", "any");

/* --- numbers with bounds --- */

static const struct value_type WORKERS = VALUE_AUTO_TYPE(1, WORKERS_MAX);
static const struct value_type PROXY_COUNT = VALUE_AUTO_TYPE(1, 10000);
static const struct value_type CONNECTIONS = VALUE_NUMBER_TYPE(1, 10000000);
static const struct value_type FIELD_COUNT = VALUE_NUMBER_TYPE(1, HEAD_FIELDS_MAX);
static const struct value_type HELD = VALUE_NUMBER_TYPE(1, 1000000);
static const struct value_type BANS = VALUE_NUMBER_TYPE(1, 100000);
static const struct value_type BANS_PER_MINUTE = VALUE_NUMBER_TYPE(1, 100000);
static const struct value_type BAN_FACTOR = VALUE_NUMBER_TYPE(1, 1000);
static const struct value_type BAN_LENGTH = VALUE_DURATION_TYPE(MS(1000), 365 * MS(DAY_MS));
static const struct value_type COST_UNITS = VALUE_NUMBER_TYPE(1, LIMIT_COST_MAX);
static const struct value_type BUCKETS = VALUE_NUMBER_TYPE(1, 100);
static const struct value_type BURST = VALUE_NUMBER_TYPE(1, LIMIT_COST_MAX);
static const struct value_type DENY_STATUS = VALUE_NUMBER_TYPE(400, 599);
static const struct value_type REDIRECT_STATUS = VALUE_NUMBER_TYPE(301, 308);
static const struct value_type RESPOND_STATUS = VALUE_NUMBER_TYPE(200, 599);
static const struct value_type DEADLINE = VALUE_DURATION_TYPE(MS(1), MS(60000));
static const struct value_type TIMEOUT = VALUE_DURATION_TYPE(MS(1), MS(DAY_MS));
static const struct value_type MAX_WAIT = VALUE_DURATION_TYPE(MS(1), MS(HOUR_MS));
static const struct value_type LEASE = VALUE_DURATION_TYPE(MS(1000), MS(DAY_MS));
static const struct value_type MAX_AGE = VALUE_DURATION_TYPE(0, MS(DAY_MS));
static const struct value_type DRAIN = VALUE_DURATION_TYPE(0, MS(DAY_MS));
static const struct value_type MEMORY = VALUE_SIZE_TYPE(KIB(1024), KIB(1024) * KIB(1024));
static const struct value_type HEAD_BYTES = VALUE_SIZE_TYPE(KIB(1), KIB(1024));
static const struct value_type BODY_BYTES = VALUE_SIZE_TYPE(0, INT64_MAX);
static const struct value_type BUFFERED = VALUE_SIZE_TYPE(KIB(512), KIB(1024) * KIB(1024) * KIB(1));

/* --- sections, the inner ones first --- */

static const struct section_field STORE_FIELDS[] = {
    {"redis", SHAPE_LIST, &VALUE_REDIS, offsetof(struct spec_store, redis), NULL, KEY_OPTIONAL,
     "redis://[[user]:password@]host[:port][/database], unix:///path, "
     "redis+sentinel://host[:port],.../master[/database]; several redis:// addresses: a cluster; "
     "left out: this process"},
    {"cluster", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_store, cluster), NULL, KEY_WITH_REDIS,
     "the one address of redis is a node of a cluster; left out: several addresses are one"},
    {"user", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_store, user), NULL, KEY_WITH_REDIS,
     "ACL user of Redis, in place of the URL's"},
    {"password", SHAPE_ONE, &VALUE_SECRET, offsetof(struct spec_store, password), NULL,
     KEY_WITH_REDIS, "password of Redis, in place of the URL's"},
    {"sentinel_user", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_store, sentinel_user), NULL,
     KEY_WITH_REDIS, "ACL user of the sentinels"},
    {"sentinel_password", SHAPE_ONE, &VALUE_SECRET, offsetof(struct spec_store, sentinel_password),
     NULL, KEY_WITH_REDIS, "password of the sentinels; left out: they ask for none"},
    {"tls", SHAPE_ONE, &SECTIONS_REDIS_TLS, offsetof(struct spec_store, tls), NULL, KEY_WITH_REDIS,
     "of rediss://: whom to trust, and what to show"},
    {"sentinel_tls", SHAPE_ONE, &SECTIONS_REDIS_TLS, offsetof(struct spec_store, sentinel_tls),
     NULL, KEY_WITH_REDIS, "of the sentinels of rediss+sentinel://; left out: as tls"},
    {"prefix", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_store, prefix), "sluice",
     KEY_WITH_REDIS, "start of every key in Redis"},
    {"secret", SHAPE_ONE, &VALUE_SECRET, offsetof(struct spec_store, secret), "", KEY_OPTIONAL,
     "keys the hashes of identities; the same for all proxies that share limits; up to 64 bytes"},
    {"deadline", SHAPE_ONE, &DEADLINE, offsetof(struct spec_store, values.deadline_us), "20ms",
     KEY_WITH_REDIS, "a decision that takes longer is a failure"},
    {"on_failure", SHAPE_ONE, &ON_FAILURE, offsetof(struct spec_store, values.on_failure), "local",
     KEY_WITH_REDIS, "local, allow or deny: what limits do while Redis cannot answer"},
    {"proxy_count", SHAPE_ONE, &PROXY_COUNT, offsetof(struct spec_store, values.proxy_count),
     "auto", KEY_WITH_REDIS,
     "proxies among which local limits are shared out; auto: as many as were seen in Redis"},
    {"coalesce", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_store, values.coalesce), "true",
     KEY_WITH_REDIS,
     "requests equal in limits, keys and cost wait for one in flight, and share a call"},
    {"denial_cache", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_store, values.denial_cache),
     "true", KEY_WITH_REDIS,
     "what Redis denied is denied until its time, for a second at most, without asking"},
    {"memory", SHAPE_ONE, &MEMORY, offsetof(struct spec_store, values.memory_bytes), "64MiB",
     KEY_OPTIONAL, "most bytes of the embedded store"},
    {"when_full", SHAPE_ONE, &FULL, offsetof(struct spec_store, values.when_full), "shared_counter",
     KEY_OPTIONAL, "shared_counter, deny or allow: new keys when the embedded store is full"},
    {"redis_cell", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_store, redis_cell), "false",
     KEY_WITH_REDIS,
     "true: redis-cell's CL.THROTTLE decides gcra limits that are alone on their routes"},
};
const struct value_type SECTIONS_STORE = SECTION_TYPE(STORE_FIELDS, struct spec_store);

static const struct value_type DENIED_LINES = VALUE_NUMBER_TYPE(0, 1000000);

static const struct section_field LOG_FIELDS[] = {
    {"format", SHAPE_ONE, &LOG_FORMAT, offsetof(struct spec_log, format), "logfmt", KEY_OPTIONAL,
     "logfmt, json, combined (as nginx writes it) or off"},
    {"fields", SHAPE_LIST, &LOG_FIELD, offsetof(struct spec_log, fields), NULL, KEY_OPTIONAL,
     "what a line has beside: query, referer, user_agent"},
    {"to", SHAPE_ONE, &VALUE_LOG_TARGET, offsetof(struct spec_log, to), "stdout", KEY_OPTIONAL,
     "stdout, syslog, or a file that is appended to"},
    {"sample", SHAPE_ONE, &VALUE_SHARE, offsetof(struct spec_log, sample_ppm), "100%", KEY_OPTIONAL,
     "of the requests that were allowed and went well, how many have a line"},
    {"denied_lines", SHAPE_ONE, &DENIED_LINES, offsetof(struct spec_log, denied_lines), "100",
     KEY_OPTIONAL, "lines a second, of a client in each worker, of requests that are refused"},
};
static const struct value_type LOG_TYPE = SHORT_SECTION_TYPE(LOG_FIELDS, struct spec_log, "format");

static const struct value_type HANDSHAKES = VALUE_NUMBER_TYPE(4, 1000000);

static const struct value_type STREAMS = VALUE_NUMBER_TYPE(1, 1000);
static const struct value_type STREAMS_PER_CLIENT = VALUE_NUMBER_TYPE(1, 10000000);
static const struct value_type REQUESTS_PER_CONNECTION = VALUE_NUMBER_TYPE(1, 1000000000);
static const struct value_type HTTP2_BUFFER = VALUE_SIZE_TYPE(KIB(64), KIB(64) * KIB(1));

static const struct section_field MAX_FIELDS[] = {
    {"connections", SHAPE_ONE, &CONNECTIONS, offsetof(struct spec_max, values.connections), "10000",
     KEY_OPTIONAL, "connections from clients, all workers together"},
    {"connections_per_client", SHAPE_ONE, &CONNECTIONS,
     offsetof(struct spec_max, values.connections_per_client), "2000", KEY_OPTIONAL,
     "connections of one address, of IPv6 one /48; not of trusted proxies"},
    {"head", SHAPE_ONE, &HEAD_BYTES, offsetof(struct spec_max, values.head_bytes), "16KiB",
     KEY_OPTIONAL, "bytes of a request's head; more is answered with 431"},
    {"headers", SHAPE_ONE, &FIELD_COUNT, offsetof(struct spec_max, values.headers), "100",
     KEY_OPTIONAL, "header fields of a request; more is answered with 431"},
    {"body", SHAPE_ONE, &BODY_BYTES, offsetof(struct spec_max, values.body_bytes), "1GiB",
     KEY_OPTIONAL, "bytes of a request's body; more is answered with 413"},
    {"buffered", SHAPE_ONE, &BUFFERED, offsetof(struct spec_max, values.buffered_bytes), "64MiB",
     KEY_OPTIONAL,
     "bytes of request bodies that wait in buffers, all workers together; a client has an eighth"},
    {"held", SHAPE_ONE, &HELD, offsetof(struct spec_max, values.held), "1000", KEY_OPTIONAL,
     "requests held for shaping, in each worker"},
    {"bans", SHAPE_ONE, &BANS, offsetof(struct spec_max, values.bans), "10000", KEY_OPTIONAL,
     "bans and exemptions together"},
    {"bans_per_minute", SHAPE_ONE, &BANS_PER_MINUTE,
     offsetof(struct spec_max, values.bans_per_minute), "100", KEY_OPTIONAL,
     "bans that limits set by themselves, of a process"},
    {"handshakes", SHAPE_ONE, &HANDSHAKES, offsetof(struct spec_max, values.handshakes), "1000",
     KEY_OPTIONAL, "TLS handshakes at a time, all workers together; of a client a quarter"},
    {"streams", SHAPE_ONE, &STREAMS, offsetof(struct spec_max, values.streams), "100", KEY_OPTIONAL,
     "requests at a time on an HTTP/2 connection"},
    {"streams_per_client", SHAPE_ONE, &STREAMS_PER_CLIENT,
     offsetof(struct spec_max, values.streams_per_client), "2000", KEY_OPTIONAL,
     "requests at a time on all HTTP/2 connections of one address, of IPv6 one /48"},
    {"requests_per_connection", SHAPE_ONE, &REQUESTS_PER_CONNECTION,
     offsetof(struct spec_max, values.requests_per_connection), "10000", KEY_OPTIONAL,
     "requests of an HTTP/2 connection, which then ends in order"},
    {"http2_buffer", SHAPE_ONE, &HTTP2_BUFFER, offsetof(struct spec_max, values.http2_buffer_bytes),
     "256KiB", KEY_OPTIONAL,
     "bytes of request bodies that an HTTP/2 connection may send before servers take them, beyond "
     "16KiB of each request"},
};
static const struct value_type MAX_TYPE = SECTION_TYPE(MAX_FIELDS, struct spec_max);

static const struct section_field TIMEOUTS_FIELDS[] = {
    {"head", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_timeouts, values.head_us), "10s",
     KEY_OPTIONAL, "from a request's first byte to the end of its head"},
    {"handshake", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_timeouts, values.handshake_us), "10s",
     KEY_OPTIONAL, "of TLS, from the connection to the end of the handshake"},
    {"idle", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_timeouts, values.idle_us), "60s",
     KEY_OPTIONAL, "between requests, and of a body or response that does not move"},
    {"tunnel", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_timeouts, values.tunnel_us), "1h",
     KEY_OPTIONAL, "of a tunnel, or a stream of events, in which nothing moves"},
    {"ping", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_timeouts, values.ping_us), "30s",
     KEY_OPTIONAL,
     "until an HTTP/2 connection with requests that sends nothing is asked for a sign"},
    {"drain", SHAPE_ONE, &DRAIN, offsetof(struct spec_timeouts, values.drain_us), "30s",
     KEY_OPTIONAL, "for requests under way after SIGTERM"},
    {"body_rate", SHAPE_ONE, &VALUE_BYTE_RATE,
     offsetof(struct spec_timeouts, values.body_bytes_per_s), "1KiB/s", KEY_OPTIONAL,
     "that a client must send or take of a body on average; off: no least rate"},
};
static const struct value_type TIMEOUTS_TYPE = SECTION_TYPE(TIMEOUTS_FIELDS, struct spec_timeouts);

static const struct section_field EXCEPT_FIELDS[] = {
    {"client", SHAPE_LIST, &VALUE_PREFIX, offsetof(struct spec_except, clients), NULL, KEY_REQUIRED,
     "addresses or prefixes of clients"},
};
static const struct value_type EXCEPT_TYPE = SECTION_TYPE(EXCEPT_FIELDS, struct spec_except);

static const struct section_field DENY_FIELDS[] = {
    {"status", SHAPE_ONE, &DENY_STATUS, offsetof(struct spec_reply, status), "429", KEY_OPTIONAL,
     "status of the answer, 400 to 599"},
    {"body", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_reply, body), "", KEY_OPTIONAL,
     "body of the answer; {limit}, {wait} and {request_id} stand for values"},
    {"content_type", SHAPE_ONE, &VALUE_CONTENT_TYPE, offsetof(struct spec_reply, content_type),
     "text/plain", KEY_OPTIONAL, "media type of the body"},
    {"set", SHAPE_MAP, &VALUE_ANSWER_FIELD, offsetof(struct spec_reply, set), NULL, KEY_OPTIONAL,
     "fields of the answer, name: value"},
    {"grpc", SHAPE_ONE, &GRPC_DENIAL, offsetof(struct spec_reply, grpc), "resource_exhausted",
     KEY_OPTIONAL, "resource_exhausted, unavailable or http: how gRPC calls by HTTP/2 are denied"},
};
static const struct value_type DENY_TYPE = SECTION_TYPE(DENY_FIELDS, struct spec_reply);

static const struct section_field MISSING_FIELDS[] = {
    {"action", SHAPE_ONE, &MISSING, offsetof(struct spec_reply, missing), NULL, KEY_OPTIONAL,
     "shared_counter, deny or skip; left out: deny"},
    {"status", SHAPE_ONE, &DENY_STATUS, offsetof(struct spec_reply, status), "403", KEY_CONDITIONAL,
     "deny: status of the answer, 400 to 599"},
    {"body", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_reply, body), "", KEY_OPTIONAL,
     "deny: body of the answer; {limit} and {request_id} stand for values"},
    {"content_type", SHAPE_ONE, &VALUE_CONTENT_TYPE, offsetof(struct spec_reply, content_type),
     "text/plain", KEY_CONDITIONAL, "deny: media type of the body"},
    {"set", SHAPE_MAP, &VALUE_ANSWER_FIELD, offsetof(struct spec_reply, set), NULL, KEY_OPTIONAL,
     "deny: fields of the answer, name: value"},
};
static const struct value_type MISSING_TYPE =
    SHORT_SECTION_TYPE(MISSING_FIELDS, struct spec_reply, "action");

static const struct section_field BAN_FIELDS[] = {
    {"after", SHAPE_ONE, &VALUE_PERIOD_RATE, offsetof(struct spec_ban, after), NULL, KEY_REQUIRED,
     "N/period: so many denials of a key, with charge_on answers that are charged too, ban it"},
    {"for", SHAPE_ONE, &BAN_LENGTH, offsetof(struct spec_ban, for_us), "1m", KEY_OPTIONAL,
     "length of a key's first ban"},
    {"factor", SHAPE_ONE, &BAN_FACTOR, offsetof(struct spec_ban, factor), "4", KEY_OPTIONAL,
     "how many times longer each further ban is"},
    {"max", SHAPE_ONE, &BAN_LENGTH, offsetof(struct spec_ban, max_us), "1d", KEY_OPTIONAL,
     "length of the longest ban"},
    {"forget", SHAPE_ONE, &BAN_LENGTH, offsetof(struct spec_ban, forget_us), "1d", KEY_OPTIONAL,
     "a key that is not banned again for so long after a ban starts anew"},
    {"shadow", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_ban, shadow), "false", KEY_OPTIONAL,
     "bans are logged and counted, not set"},
};
static const struct value_type BAN_TYPE = SECTION_TYPE(BAN_FIELDS, struct spec_ban);

static const struct section_field LIMIT_FIELDS[] = {
    {"key", SHAPE_LIST, &VALUE_KEY_PART, offsetof(struct spec_limit, key), NULL, KEY_REQUIRED,
     "what is counted apart; a list is a composite, \"|\" takes the first that is present"},
    {"algorithm", SHAPE_ONE, &VALUE_ALGORITHM, offsetof(struct spec_limit, values.algorithm),
     "token_bucket", KEY_OPTIONAL, "how requests are counted"},
    {"rate", SHAPE_LIST, &VALUE_RATE, offsetof(struct spec_limit, rates), NULL, KEY_REQUIRED,
     "N/period, or a list of such and of {rate, burst}: each rate is a limit of its own"},
    {"burst", SHAPE_ONE, &BURST, offsetof(struct spec_limit, values.burst), NULL, KEY_OPTIONAL,
     "units at one instant, of a single rate; left out: its N; not for windows"},
    {"plans", SHAPE_MAP_OF_LISTS, &VALUE_PLAN_RATE, offsetof(struct spec_limit, plans), NULL,
     KEY_OPTIONAL, "other rates for some keys, by name: of the same periods; or none"},
    {"plan", SHAPE_ONE, &VALUE_PLAN_SOURCES, offsetof(struct spec_limit, plan), NULL, KEY_OPTIONAL,
     "where a plan is named: tenant, jwt.CLAIM, header.NAME of trusted proxies; \"|\" takes the "
     "first"},
    {"except", SHAPE_ONE, &EXCEPT_TYPE, offsetof(struct spec_limit, except), NULL, KEY_OPTIONAL,
     "clients that this limit does not apply to"},
    {"missing", SHAPE_ONE, &MISSING_TYPE, offsetof(struct spec_limit, missing), NULL, KEY_OPTIONAL,
     "shared_counter, deny or skip: requests that lack a part of the key; or how they are denied"},
    {"duplicates", SHAPE_ONE, &DUPLICATES, offsetof(struct spec_limit, duplicates), "cookies",
     KEY_OPTIONAL, "requests with several values of a part: cookies, refuse or each"},
    {"deny", SHAPE_ONE, &DENY_TYPE, offsetof(struct spec_limit, deny), NULL, KEY_OPTIONAL,
     "answer to denied requests, in place of the problem document"},
    {"on_failure", SHAPE_ONE, &LIMIT_ON_FAILURE, offsetof(struct spec_limit, on_failure), "inherit",
     KEY_OPTIONAL, "local, allow or deny; inherit: as the store section says"},
    {"shadow", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_limit, shadow), "false", KEY_OPTIONAL,
     "judged and reported, never enforced"},
    {"charge_on", SHAPE_LIST, &VALUE_ANSWER, offsetof(struct spec_limit, charge_on), NULL,
     KEY_OPTIONAL, "the ends that are charged, as is any that the client causes; left out: all"},
    {"refund_on", SHAPE_LIST, &VALUE_ANSWER, offsetof(struct spec_limit, refund_on), NULL,
     KEY_OPTIONAL, "the ends that give back what their request took"},
    {"charge_denied", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_limit, charge_denied), "false",
     KEY_CONDITIONAL, "denied requests are charged too"},
    {"max_wait", SHAPE_ONE, &MAX_WAIT, offsetof(struct spec_limit, values.max_wait_us), NULL,
     KEY_OPTIONAL, "leaky_bucket: hold a request so long rather than refuse it"},
    {"align", SHAPE_ONE, &ALIGN, offsetof(struct spec_limit, align), "clock", KEY_CONDITIONAL,
     "fixed_window: windows of the clock, or from the first request"},
    {"timezone", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_limit, timezone), NULL, KEY_OPTIONAL,
     "fixed_window: where days, weeks and months start; left out: UTC"},
    {"buckets", SHAPE_ONE, &BUCKETS, offsetof(struct spec_limit, values.buckets), "10",
     KEY_CONDITIONAL, "sliding_window: parts of the period that are counted apart"},
    {"strict", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_limit, values.strict), "false",
     KEY_CONDITIONAL, "sliding_window: the oldest part counts whole"},
    {"lease", SHAPE_ONE, &LEASE, offsetof(struct spec_limit, values.lease_us), "60s",
     KEY_CONDITIONAL, "concurrency: when the slots of a proxy that died come back"},
    {"ban", SHAPE_ONE, &BAN_TYPE, offsetof(struct spec_limit, ban), NULL, KEY_CONDITIONAL,
     "keys that are denied again and again are banned, each time longer; not for concurrency"},
};
const struct value_type SECTIONS_LIMIT = SECTION_TYPE(LIMIT_FIELDS, struct spec_limit);

static const struct section_field CORS_FIELDS[] = {
    {"origins", SHAPE_LIST, &VALUE_ORIGIN, offsetof(struct spec_cors, origins), NULL, KEY_REQUIRED,
     "origins whose pages may use the route, https://app.example.com; \"*\" for all"},
    {"methods", SHAPE_LIST, &VALUE_METHOD, offsetof(struct spec_cors, methods), NULL, KEY_OPTIONAL,
     "methods that pages may use; left out: those of the route"},
    {"headers", SHAPE_LIST, &VALUE_FIELD_NAME, offsetof(struct spec_cors, headers), NULL,
     KEY_OPTIONAL, "request fields that pages may set, beside those that are always allowed"},
    {"expose", SHAPE_LIST, &VALUE_FIELD_NAME, offsetof(struct spec_cors, exposed), NULL,
     KEY_OPTIONAL, "fields of sluice's own answers that pages may read, beside those of limits"},
    {"credentials", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_cors, credentials), "false",
     KEY_OPTIONAL, "requests with cookies are allowed; not with origins \"*\""},
    {"max_age", SHAPE_ONE, &MAX_AGE, offsetof(struct spec_cors, max_age_us), "10m", KEY_OPTIONAL,
     "how long browsers keep the answer to a preflight"},
};
static const struct value_type CORS_TYPE = SECTION_TYPE(CORS_FIELDS, struct spec_cors);

static const struct section_field ROUTE_LIMIT_FIELDS[] = {
    {"name", SHAPE_ONE, &VALUE_NAME, offsetof(struct spec_route_limit, name), NULL, KEY_REQUIRED,
     "of a limit"},
    {"cost", SHAPE_ONE, &COST_UNITS, offsetof(struct spec_route_limit, cost), NULL, KEY_OPTIONAL,
     "units that a request takes of this limit, in place of the route's cost"},
};
static const struct value_type ROUTE_LIMIT_TYPE =
    SHORT_SECTION_TYPE(ROUTE_LIMIT_FIELDS, struct spec_route_limit, "name");

static const struct section_field DEFAULTS_FIELDS[] = {
    {"limits", SHAPE_LIST, &ROUTE_LIMIT_TYPE, offsetof(struct spec_defaults, limits), NULL,
     KEY_OPTIONAL, "limits of every route that does not say its own"},
    {"cors", SHAPE_ONE, &CORS_TYPE, offsetof(struct spec_defaults, cors), NULL, KEY_OPTIONAL,
     "cors of every route that does not say its own"},
};
static const struct value_type DEFAULTS_TYPE = SECTION_TYPE(DEFAULTS_FIELDS, struct spec_defaults);

static const struct value_type SCHEME = WORD_TYPE("any, http or https", "any", "http", "https");
static const struct section_field CERTIFICATE_MATCH_FIELDS[] = {
    {"shown", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_certificate_match, is_shown), "true",
     KEY_OPTIONAL, "true: any certificate will do, unless more is asked"},
    {"dns", SHAPE_LIST, &VALUE_HOST_PATTERN,
     offsetof(struct spec_certificate_match, facts[CERTIFICATE_DNS]), NULL, KEY_OPTIONAL,
     "its first name of the kind DNS, one of these; \"*.\" for one label"},
    {"uri", SHAPE_LIST, &VALUE_TEXT,
     offsetof(struct spec_certificate_match, facts[CERTIFICATE_URI]), NULL, KEY_OPTIONAL,
     "its first name of the kind URI, one of these"},
    {"fingerprint", SHAPE_LIST, &VALUE_TEXT,
     offsetof(struct spec_certificate_match, facts[CERTIFICATE_FINGERPRINT]), NULL, KEY_OPTIONAL,
     "its SHA-256 in hexadecimal, one of these; colons may stand between the bytes"},
};
static const struct value_type CERTIFICATE_MATCH_TYPE =
    SHORT_SECTION_TYPE(CERTIFICATE_MATCH_FIELDS, struct spec_certificate_match, "shown");

static const struct section_field GEO_FIELDS[] = {
    {"database", SHAPE_LIST, &VALUE_FILE, offsetof(struct spec_geo, databases), NULL, KEY_REQUIRED,
     "files in the MaxMind DB format, the first that knows a country or an AS counts"},
};
static const struct value_type GEO_TYPE = SECTION_TYPE(GEO_FIELDS, struct spec_geo);

static const struct section_field MATCH_FIELDS[] = {
    {"path", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_match, paths), NULL, KEY_OPTIONAL,
     "patterns, one of which matches: \"*\" is a segment, \"{name}\" one with a name, "
     "\"{name:int}\" a number, \"{name:uuid}\" a UUID, \"**\" the rest"},
    {"host", SHAPE_LIST, &VALUE_HOST_WITH_PORT, offsetof(struct spec_match, hosts), NULL,
     KEY_OPTIONAL,
     "hosts, one of which it must be; \"*.\" and a host for all beneath it; a port "
     "is not compared, but passed on to servers"},
    {"method", SHAPE_LIST, &VALUE_METHOD, offsetof(struct spec_match, methods), NULL, KEY_OPTIONAL,
     "methods, one of which it must be"},
    {"header", SHAPE_MAP_OF_LISTS, &VALUE_HEADER, offsetof(struct spec_match, headers), NULL,
     KEY_OPTIONAL,
     "name: value or list of values, one of which it has; true: present, false: absent"},
    {"query", SHAPE_MAP_OF_LISTS, &VALUE_PARAMETER, offsetof(struct spec_match, query), NULL,
     KEY_OPTIONAL,
     "name: value or list of values, one of which it has; true: present, false: absent"},
    {"jwt", SHAPE_MAP_OF_LISTS, &VALUE_CLAIM, offsetof(struct spec_match, claims), NULL,
     KEY_OPTIONAL,
     "claim: value or list of values, one of which it is, has in its array, or has among the "
     "words of scope"},
    {"client", SHAPE_LIST, &VALUE_PREFIX, offsetof(struct spec_match, clients), NULL, KEY_OPTIONAL,
     "addresses or prefixes, one of which the client must be in"},
    {"country", SHAPE_LIST, &VALUE_COUNTRY, offsetof(struct spec_match, countries), NULL,
     KEY_OPTIONAL, "countries, one of which the databases of geo say of the client's address"},
    {"asn", SHAPE_LIST, &VALUE_ASN, offsetof(struct spec_match, asns), NULL, KEY_OPTIONAL,
     "autonomous systems, one of which they say of it"},
    {"scheme", SHAPE_ONE, &SCHEME, offsetof(struct spec_match, scheme), "any", KEY_OPTIONAL,
     "any, http or https: whether the client's connection is over TLS"},
    {"client_cert", SHAPE_ONE, &CERTIFICATE_MATCH_TYPE, offsetof(struct spec_match, certificate),
     NULL, KEY_OPTIONAL, "true: the client has shown a certificate; or a section: such a one"},
    {"grpc", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_match, grpc), "false", KEY_OPTIONAL,
     "true: gRPC calls alone, by their Content-Type"},
    {"ignore_case", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_match, ignore_case), "false",
     KEY_OPTIONAL, "letters of the path match in any case"},
    {"encoded_slash", SHAPE_ONE, &ENCODED_SLASH, offsetof(struct spec_match, encoded_slash),
     "refuse", KEY_OPTIONAL, "refuse or allow: %2F, %5C and \"\\\" in a path"},
};
static const struct section_synonym MATCH_SYNONYMS[] = {
    {"prefix", "path", "/**"},     {"path_prefix", "path", "/**"},
    {"pathPrefix", "path", "/**"}, {"exact", "path", ""},
    {"url", "path", ""},           {"uri", "path", ""},
};
static const struct value_type MATCH_TYPE = {
    .kind = VALUE_SECTION,
    .noun = "a mapping",
    .bytes = sizeof(struct spec_match),
    .section =
        &(const struct section){
            .fields = MATCH_FIELDS,
            .n_fields = ARRAY_LEN(MATCH_FIELDS),
            .synonyms = MATCH_SYNONYMS,
            .n_synonyms = ARRAY_LEN(MATCH_SYNONYMS),
        },
};

static const struct section_field REDIRECT_FIELDS[] = {
    {"to", SHAPE_ONE, &VALUE_REDIRECT, offsetof(struct spec_redirect, to), NULL, KEY_REQUIRED,
     "https: the URL of the request with that scheme; or a path or a URL"},
    {"status", SHAPE_ONE, &REDIRECT_STATUS, offsetof(struct spec_redirect, status), "308",
     KEY_OPTIONAL, "301, 302, 303, 307 or 308"},
};
static const struct value_type REDIRECT_TYPE =
    SHORT_SECTION_TYPE(REDIRECT_FIELDS, struct spec_redirect, "to");

static const struct section_field RESPOND_FIELDS[] = {
    {"status", SHAPE_ONE, &RESPOND_STATUS, offsetof(struct spec_reply, status), NULL,
     KEY_CONDITIONAL, "status of the answer, 200 to 599; this or redirect"},
    {"redirect", SHAPE_ONE, &REDIRECT_TYPE, offsetof(struct spec_reply, redirect), NULL,
     KEY_CONDITIONAL, "where clients are sent: a section, or its to alone; this or status"},
    {"body", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_reply, body), "", KEY_OPTIONAL,
     "body of the answer"},
    {"content_type", SHAPE_ONE, &VALUE_CONTENT_TYPE, offsetof(struct spec_reply, content_type),
     "text/plain", KEY_OPTIONAL, "media type of the body"},
    {"set", SHAPE_MAP, &VALUE_ANSWER_FIELD, offsetof(struct spec_reply, set), NULL, KEY_OPTIONAL,
     "fields of the answer, name: value"},
};
static const struct value_type RESPOND_TYPE = SECTION_TYPE(RESPOND_FIELDS, struct spec_reply);

static const struct section_field COST_FIELDS[] = {
    {"from", SHAPE_ONE, &VALUE_COST_SOURCE, offsetof(struct spec_cost, from), NULL, KEY_OPTIONAL,
     "header.NAME of the request, or response.header.NAME"},
    {"max", SHAPE_ONE, &COST_UNITS, offsetof(struct spec_cost, max), NULL, KEY_OPTIONAL,
     "most units that the field may say; left out: what the smallest of the limits holds"},
    {"trust", SHAPE_ONE, &TRUST, offsetof(struct spec_cost, trust), "proxies", KEY_CONDITIONAL,
     "proxies: from trusted proxies alone, or any"},
    {"estimate", SHAPE_ONE, &COST_UNITS, offsetof(struct spec_cost, estimate), NULL, KEY_OPTIONAL,
     "units reserved until the response says them"},
    {"strip", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_cost, strip), "false", KEY_CONDITIONAL,
     "the client does not see the field of the response"},
    {"default", SHAPE_ONE, &COST_UNITS, offsetof(struct spec_cost, units), NULL, KEY_OPTIONAL,
     "units of the methods that are not named; left out: the most that a named one costs"},
};
static const struct section_field METHOD_COST = {
    "cost", SHAPE_MAP,    &VALUE_METHOD_COST, offsetof(struct spec_cost, methods),
    NULL,   KEY_OPTIONAL, "units of a method"};

/* Methods are in upper case, other keys are not. A key that differs from a method only in case is
 * read as a method, so that its error names the method. */
static bool is_method_key(struct span key)
{
    struct text unread = text_of(NULL, 0);
    const bool is_capital = key.len > 0 && key.data[0] >= 'A' && key.data[0] <= 'Z';
    return is_capital || (field_is_token(key) && !value_check_method(key, &unread));
}

static const struct value_type COST_TYPE = {
    .kind = VALUE_SECTION,
    .noun = "a mapping",
    .bytes = sizeof(struct spec_cost),
    .section =
        &(const struct section){
            .fields = COST_FIELDS,
            .n_fields = ARRAY_LEN(COST_FIELDS),
            .shorthand = "from",
            .others = &METHOD_COST,
            .is_other = is_method_key,
            .others_pattern = "^[A-Z]",
        },
};

static const struct section_field EDITS_FIELDS[] = {
    {"set", SHAPE_MAP, &VALUE_FIELD, offsetof(struct spec_edits, set), NULL, KEY_OPTIONAL,
     "name: value, in place of all fields of the name"},
    {"remove", SHAPE_LIST, &VALUE_FIELD_NAME, offsetof(struct spec_edits, removed), NULL,
     KEY_OPTIONAL, "names of fields that do not pass"},
};
static const struct value_type EDITS_TYPE = SECTION_TYPE(EDITS_FIELDS, struct spec_edits);

static const struct value_type FIELD_VALUE = {
    .kind = VALUE_STRING,
    .noun = "the value of a field",
    .bytes = sizeof(struct spec_text),
    .has_node = true,
    .is_secret = true,
    .check = value_check_field,
};
static const struct section_field REQUEST_FIELD_FIELDS[] = {
    {"value", SHAPE_ONE, &FIELD_VALUE, offsetof(struct spec_request_field, value), NULL,
     KEY_CONDITIONAL, "the value; this or from"},
    {"from", SHAPE_ONE, &VALUE_KEY_PART, offsetof(struct spec_request_field, from), NULL,
     KEY_CONDITIONAL,
     "jwt.CLAIM: the claim of the token; where it is missing there is no such field"},
};
static const struct value_type REQUEST_FIELD_TYPE =
    SHORT_SECTION_TYPE(REQUEST_FIELD_FIELDS, struct spec_request_field, "value");
static const struct section_field REQUEST_EDITS_FIELDS[] = {
    {"set", SHAPE_MAP, &REQUEST_FIELD_TYPE, offsetof(struct spec_edits, set), NULL, KEY_OPTIONAL,
     "name: value, in place of all fields of the name; or name: {from: jwt.CLAIM}"},
    {"remove", SHAPE_LIST, &VALUE_FIELD_NAME, offsetof(struct spec_edits, removed), NULL,
     KEY_OPTIONAL, "names of fields that do not pass"},
};
static const struct value_type REQUEST_EDITS_TYPE =
    SECTION_TYPE(REQUEST_EDITS_FIELDS, struct spec_edits);

static const struct section_field ROUTE_FIELDS[] = {
    {"name", SHAPE_ONE, &VALUE_NAME, offsetof(struct spec_route, name), NULL, KEY_OPTIONAL,
     "for logs and the key \"route\"; left out: route-N"},
    {"match", SHAPE_ONE, &MATCH_TYPE, offsetof(struct spec_route, match), NULL, KEY_OPTIONAL,
     "which requests; left out: all"},
    {"limits", SHAPE_LIST, &ROUTE_LIMIT_TYPE, offsetof(struct spec_route, limits), NULL,
     KEY_OPTIONAL, "names of limits, or sections; [] for none; left out: those of defaults"},
    {"upstream", SHAPE_ONE, &VALUE_NAME, offsetof(struct spec_route, upstream), NULL, KEY_OPTIONAL,
     "where requests go: a name of upstreams, or a server's URL; this or respond"},
    {"respond", SHAPE_ONE, &RESPOND_TYPE, offsetof(struct spec_route, respond), NULL, KEY_OPTIONAL,
     "an answer of sluice's own; this or upstream"},
    {"cost", SHAPE_ONE, &COST_TYPE, offsetof(struct spec_route, cost), NULL, KEY_OPTIONAL,
     "units that a request takes of each limit"},
    {"max_body", SHAPE_ONE, &BODY_BYTES, offsetof(struct spec_route, body_bytes_max), NULL,
     KEY_OPTIONAL, "bytes of a request's body; left out: max.body"},
    {"buffer", SHAPE_ONE, &SECTIONS_BUFFER, offsetof(struct spec_route, buffer), NULL, KEY_OPTIONAL,
     "what of a request's body is kept before a server is chosen; left out: the upstream's"},
    {"min_download", SHAPE_ONE, &VALUE_BYTE_RATE,
     offsetof(struct spec_route, min_download_bytes_per_s), NULL, KEY_OPTIONAL,
     "that a client must take of an answer while its server waits for it; left out: the "
     "upstream's"},
    {"upgrade", SHAPE_LIST, &VALUE_PROTOCOL, offsetof(struct spec_route, upgrade), NULL,
     KEY_OPTIONAL, "protocols that a request may switch to; [] for none; left out: websocket"},
    {"strip_prefix", SHAPE_ONE, &VALUE_TEXT, offsetof(struct spec_route, strip_prefix), NULL,
     KEY_OPTIONAL, "start of the path that the upstream does not get"},
    {"jwt", SHAPE_ONE, &SECTIONS_ROUTE_JWT, offsetof(struct spec_route, jwt), NULL, KEY_OPTIONAL,
     "whose tokens count: a name of jwt, or a section"},
    {"request", SHAPE_ONE, &REQUEST_EDITS_TYPE, offsetof(struct spec_route, request), NULL,
     KEY_OPTIONAL, "fields of requests that are set or removed"},
    {"response", SHAPE_ONE, &EDITS_TYPE, offsetof(struct spec_route, response), NULL, KEY_OPTIONAL,
     "fields of responses that are set or removed"},
    {"cors", SHAPE_ONE, &CORS_TYPE, offsetof(struct spec_route, cors), NULL, KEY_OPTIONAL,
     "which pages of other origins may use the route; left out: that of defaults"},
};
const struct value_type SECTIONS_ROUTE = SECTION_TYPE(ROUTE_FIELDS, struct spec_route);

static const struct value_type HTTP_VERSION =
    WORD_TYPE("1.1 or 2", [LISTEN_HTTP_1_1] = "1.1", [LISTEN_HTTP_2] = "2");
static const struct section_field LISTEN_FIELDS[] = {
    {"address", SHAPE_ONE, &VALUE_LISTEN, offsetof(struct spec_listen, address), NULL, KEY_REQUIRED,
     "address:port, or unix:/path"},
    {"tls", SHAPE_ONE, &SECTIONS_TLS, offsetof(struct spec_listen, tls), NULL, KEY_OPTIONAL,
     "clients speak TLS there: {cert: FILE, key: FILE}, or certificates"},
    {"http", SHAPE_LIST, &HTTP_VERSION, offsetof(struct spec_listen, versions), NULL, KEY_OPTIONAL,
     "versions that clients may speak: 1.1, 2; left out: with tls both, else 1.1"},
    {"proxy_protocol", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_listen, proxy_protocol),
     "false", KEY_OPTIONAL,
     "trusted proxies say in the PROXY protocol who the client is; all others are refused"},
    {"mode", SHAPE_ONE, &VALUE_MODE, offsetof(struct spec_listen, mode), "0660", KEY_CONDITIONAL,
     "permissions of a unix socket"},
};
static const struct value_type LISTEN_TYPE =
    SHORT_SECTION_TYPE(LISTEN_FIELDS, struct spec_listen, "address");

static const struct section_field RESOLVER_FIELDS[] = {
    {"servers", SHAPE_LIST, &VALUE_NAME_SERVER, offsetof(struct spec_resolver, servers), NULL,
     KEY_REQUIRED, "address[:port] of name servers, in place of those of /etc/resolv.conf"},
};
static const struct value_type RESOLVER_TYPE = SECTION_TYPE(RESOLVER_FIELDS, struct spec_resolver);

static const struct value_type INCLUDE_PATH =
    VALUE_STRING_TYPE("a path or a pattern of files", NULL);
enum { N_INCLUDED_FIELDS = 4 }; /* the last ones: what an included file may have */
static const struct section_field POLICY_FIELDS[] = {
    {"listen", SHAPE_LIST, &LISTEN_TYPE, offsetof(struct spec_policy, listen), NULL, KEY_REQUIRED,
     "address:port, unix:/path, a section, or a list of such"},
    {"tls_tickets", SHAPE_ONE, &SECTIONS_TLS_TICKETS, offsetof(struct spec_policy, tls_tickets),
     NULL, KEY_OPTIONAL, "for tickets: shared"},
    {"admin", SHAPE_ONE, &SECTIONS_ADMIN, offsetof(struct spec_policy, admin), NULL, KEY_OPTIONAL,
     "where operators connect: a section, or its listen alone; left out: nowhere"},
    {"workers", SHAPE_ONE, &WORKERS, offsetof(struct spec_policy, workers), "auto", KEY_OPTIONAL,
     "threads; auto: one per core"},
    {"trusted_proxies", SHAPE_LIST, &VALUE_PREFIX, offsetof(struct spec_policy, trusted_proxies),
     NULL, KEY_OPTIONAL,
     "addresses, prefixes or unix: whose X-Forwarded-For, Forwarded and PROXY header count"},
    {"resolver", SHAPE_ONE, &RESOLVER_TYPE, offsetof(struct spec_policy, resolver), NULL,
     KEY_OPTIONAL, "name servers; left out: those of the system"},
    {"store", SHAPE_ONE, &SECTIONS_STORE, offsetof(struct spec_policy, store), NULL, KEY_OPTIONAL,
     "where counters live; left out: in this process"},
    {"log", SHAPE_ONE, &LOG_TYPE, offsetof(struct spec_policy, log), NULL, KEY_OPTIONAL,
     "one line a request"},
    {"max", SHAPE_ONE, &MAX_TYPE, offsetof(struct spec_policy, max), NULL, KEY_OPTIONAL,
     "caps on what clients may ask for"},
    {"timeouts", SHAPE_ONE, &TIMEOUTS_TYPE, offsetof(struct spec_policy, timeouts), NULL,
     KEY_OPTIONAL, "how long to wait for clients"},
    {"headers", SHAPE_ONE, &HEADERS, offsetof(struct spec_policy, headers), "ratelimit",
     KEY_OPTIONAL,
     "ratelimit, x_ratelimit, ratelimit_and_x_ratelimit, ratelimit_next or none: the fields that "
     "tell clients of their limits"},
    {"upstream", SHAPE_ONE, &VALUE_SERVER, offsetof(struct spec_policy, upstream), NULL,
     KEY_OPTIONAL, "short form: the one server for all requests"},
    {"limit", SHAPE_LIST, &VALUE_RATE, offsetof(struct spec_policy, limit), NULL, KEY_OPTIONAL,
     "short form: the rate per client address"},
    {"defaults", SHAPE_ONE, &DEFAULTS_TYPE, offsetof(struct spec_policy, defaults), NULL,
     KEY_OPTIONAL, "what routes need not say"},
    {"jwt", SHAPE_MAP, &SECTIONS_JWT, offsetof(struct spec_policy, jwt), NULL, KEY_OPTIONAL,
     "whose tokens count, and how they are verified, by name"},
    {"geo", SHAPE_ONE, &GEO_TYPE, offsetof(struct spec_policy, geo), NULL, KEY_OPTIONAL,
     "which country and autonomous system addresses are of"},
    {"watch", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_policy, watch), "false", KEY_OPTIONAL,
     "reload when the file changes"},
    {"tenants", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_policy, tenants), NULL, KEY_OPTIONAL,
     "without Redis: the file that says which key has which plan, in limits with plan: tenant; it "
     "is read again when it changes"},
    {"include", SHAPE_LIST, &INCLUDE_PATH, offsetof(struct spec_policy, include), NULL,
     KEY_OPTIONAL, "paths and patterns of files with limits, routes and upstreams of this policy"},
    {"upstreams", SHAPE_MAP, &SECTIONS_UPSTREAM, offsetof(struct spec_policy, upstreams), NULL,
     KEY_OPTIONAL, "servers, by name"},
    {"limits", SHAPE_MAP, &SECTIONS_LIMIT, offsetof(struct spec_policy, limits), NULL, KEY_OPTIONAL,
     "limits, by name"},
    {"routes", SHAPE_LIST, &SECTIONS_ROUTE, offsetof(struct spec_policy, routes), NULL,
     KEY_OPTIONAL, "what happens to which requests; the first that matches counts"},
};
const struct value_type SECTIONS_POLICY = {
    .kind = VALUE_SECTION,
    .noun = "a mapping",
    .bytes = sizeof(struct spec_policy),
    .section =
        &(const struct section){
            .fields = POLICY_FIELDS,
            .n_fields = ARRAY_LEN(POLICY_FIELDS),
            .manual = "docs/policy.md",
        },
};
const struct value_type SECTIONS_INCLUDED = {
    .kind = VALUE_SECTION,
    .noun = "a mapping",
    .bytes = sizeof(struct spec_policy),
    .section =
        &(const struct section){
            .fields = &POLICY_FIELDS[ARRAY_LEN(POLICY_FIELDS) - N_INCLUDED_FIELDS],
            .n_fields = N_INCLUDED_FIELDS,
        },
};

static const struct value_type ON_INVALID = WORD_TYPE(
    "deny or missing", [JWT_INVALID_IS_DENIED] = "deny", [JWT_INVALID_IS_MISSING] = "missing");
static const struct value_type ALGORITHM = WORD_TYPE(
    "RS256, RS384, RS512, PS256, ES256, ES384, EdDSA or HS256", [JWT_RS256] = "RS256",
    [JWT_RS384] = "RS384", [JWT_RS512] = "RS512", [JWT_PS256] = "PS256", [JWT_ES256] = "ES256",
    [JWT_ES384] = "ES384", [JWT_EDDSA] = "EdDSA", [JWT_HS256] = "HS256");
static const struct value_type LEEWAY = VALUE_DURATION_TYPE(0, MS(HOUR_MS));

static const struct section_field JWT_FIELDS[] = {
    {"keys", SHAPE_ONE, &VALUE_FILE_OR_URL, offsetof(struct spec_jwt, keys), NULL, KEY_CONDITIONAL,
     "public keys: https:// and where a JWK set is, or a file with such a set or with PEM; this or "
     "secret"},
    {"secret", SHAPE_ONE, &VALUE_SECRET, offsetof(struct spec_jwt, secret), NULL, KEY_CONDITIONAL,
     "of HS256, at least 32 bytes; this or keys"},
    {"ca", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_jwt, ca), "system", KEY_CONDITIONAL,
     "system, or a file in PEM: authorities of the certificate of keys at https://"},
    {"algorithms", SHAPE_LIST, &ALGORITHM, offsetof(struct spec_jwt, algorithms), NULL,
     KEY_CONDITIONAL, "of signatures; needed with keys; with secret it is HS256"},
    {"issuer", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_jwt, issuers), NULL, KEY_OPTIONAL,
     "what iss of a token must be, one of these; left out: anything"},
    {"audience", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_jwt, audiences), NULL, KEY_OPTIONAL,
     "what aud of a token must be or contain, one of these; left out: anything"},
    {"types", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_jwt, types), NULL, KEY_OPTIONAL,
     "what typ of a token must be, one of these, such as at+jwt; left out: anything"},
    {"from", SHAPE_LIST, &VALUE_KEY_PART, offsetof(struct spec_jwt, from), NULL, KEY_OPTIONAL,
     "header.NAME, cookie.NAME or query.NAME: where tokens are; left out: header.authorization"},
    {"leeway", SHAPE_ONE, &LEEWAY, offsetof(struct spec_jwt, leeway_us), "60s", KEY_OPTIONAL,
     "by which the clocks of issuers may differ, for exp and nbf"},
    {"on_invalid", SHAPE_ONE, &ON_INVALID, offsetof(struct spec_jwt, on_invalid), "deny",
     KEY_OPTIONAL, "deny or missing: a token that is not valid gets 401, or counts as none"},
};
const struct value_type SECTIONS_JWT = SECTION_TYPE(JWT_FIELDS, struct spec_jwt);

static const struct section_field ROUTE_JWT_FIELDS[] = {
    {"provider", SHAPE_ONE, &VALUE_NAME, offsetof(struct spec_route_jwt, provider), NULL,
     KEY_OPTIONAL, "whose tokens count, a name of jwt; left out: the only one's"},
    {"required", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_route_jwt, required), "false",
     KEY_OPTIONAL, "true: a request without a token gets 401"},
};
const struct value_type SECTIONS_ROUTE_JWT =
    SHORT_SECTION_TYPE(ROUTE_JWT_FIELDS, struct spec_route_jwt, "provider");
