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

static const struct value_type CONNECTIONS = VALUE_NUMBER_TYPE(1, 10000000);
static const struct value_type BAN_LENGTH = VALUE_DURATION_TYPE(MS(1000), 365 * MS(DAY_MS));
static const struct value_type COST_UNITS = VALUE_NUMBER_TYPE(1, LIMIT_COST_MAX);
static const struct value_type DENY_STATUS = VALUE_NUMBER_TYPE(400, 599);
static const struct value_type TIMEOUT = VALUE_DURATION_TYPE(MS(1), MS(DAY_MS));
static const struct value_type BODY_BYTES = VALUE_SIZE_TYPE(0, INT64_MAX);

/* --- sections, the inner ones first --- */

static const struct section_field STORE_FIELDS[] = {
    LIST_KEY("redis", &VALUE_REDIS, spec_store, redis,
             "redis://[[user]:password@]host[:port][/database], unix:///path, "
             "redis+sentinel://host[:port],.../master[/database]; several redis:// addresses: a "
             "cluster; left out: this process"),
    KEY("cluster", &VALUE_BOOL, spec_store, cluster, NULL,
        "the one address of redis is a node of a cluster; left out: several addresses are one",
        .presence = KEY_WITH_REDIS),
    KEY("user", &VALUE_TEXT, spec_store, user, NULL, "ACL user of Redis, in place of the URL's",
        .presence = KEY_WITH_REDIS),
    KEY("password", &VALUE_SECRET, spec_store, password, NULL,
        "password of Redis, in place of the URL's", .presence = KEY_WITH_REDIS),
    KEY("sentinel_user", &VALUE_TEXT, spec_store, sentinel_user, NULL, "ACL user of the sentinels",
        .presence = KEY_WITH_REDIS),
    KEY("sentinel_password", &VALUE_SECRET, spec_store, sentinel_password, NULL,
        "password of the sentinels; left out: they ask for none", .presence = KEY_WITH_REDIS),
    KEY("tls", &SECTIONS_REDIS_TLS, spec_store, tls, NULL,
        "of rediss://: whom to trust, and what to show", .presence = KEY_WITH_REDIS),
    KEY("sentinel_tls", &SECTIONS_REDIS_TLS, spec_store, sentinel_tls, NULL,
        "of the sentinels of rediss+sentinel://; left out: as tls", .presence = KEY_WITH_REDIS),
    KEY("prefix", &VALUE_TEXT, spec_store, prefix, "sluice", "start of every key in Redis",
        .presence = KEY_WITH_REDIS),
    KEY("secret", &VALUE_SECRET, spec_store, secret, "",
        "keys the hashes of identities; the same for all proxies that share limits; up to 64 "
        "bytes"),
    KEY("deadline", DURATION(MS(1), MS(60000)), spec_store, values.deadline_us, "20ms",
        "a decision that takes longer is a failure", .presence = KEY_WITH_REDIS),
    KEY("on_failure", &ON_FAILURE, spec_store, values.on_failure, "local",
        "local, allow or deny: what limits do while Redis cannot answer",
        .presence = KEY_WITH_REDIS),
    KEY("proxy_count", NUMBER_OR_AUTO(1, 10000), spec_store, values.proxy_count, "auto",
        "proxies among which local limits are shared out; auto: as many as were seen in Redis",
        .presence = KEY_WITH_REDIS),
    KEY("coalesce", &VALUE_BOOL, spec_store, values.coalesce, "true",
        "requests equal in limits, keys and cost wait for one in flight, and share a call",
        .presence = KEY_WITH_REDIS),
    KEY("denial_cache", &VALUE_BOOL, spec_store, values.denial_cache, "true",
        "what Redis denied is denied until its time, for a second at most, without asking",
        .presence = KEY_WITH_REDIS),
    KEY("memory", SIZE(KIB(1024), KIB(1024) * KIB(1024)), spec_store, values.memory_bytes, "64MiB",
        "most bytes of the embedded store"),
    KEY("when_full", &FULL, spec_store, values.when_full, "shared_counter",
        "shared_counter, deny or allow: new keys when the embedded store is full"),
    KEY("redis_cell", &VALUE_BOOL, spec_store, redis_cell, "false",
        "true: redis-cell's CL.THROTTLE decides gcra limits that are alone on their routes",
        .presence = KEY_WITH_REDIS),
};
const struct value_type SECTIONS_STORE = SECTION_TYPE(STORE_FIELDS, struct spec_store);

static const struct section_field LOG_FIELDS[] = {
    KEY("format", &LOG_FORMAT, spec_log, format, "logfmt",
        "logfmt, json, combined (as nginx writes it) or off"),
    LIST_KEY("fields", &LOG_FIELD, spec_log, fields,
             "what a line has beside: query, referer, user_agent"),
    KEY("to", &VALUE_LOG_TARGET, spec_log, to, "stdout",
        "stdout, syslog, or a file that is appended to"),
    KEY("sample", &VALUE_SHARE, spec_log, sample_ppm, "100%",
        "of the requests that were allowed and went well, how many have a line"),
    KEY("denied_lines", NUMBER(0, 1000000), spec_log, denied_lines, "100",
        "lines a second, of a client in each worker, of requests that are refused"),
};
static const struct value_type LOG_TYPE = SHORT_SECTION_TYPE(LOG_FIELDS, struct spec_log, "format");

static const struct section_field MAX_FIELDS[] = {
    KEY("connections", &CONNECTIONS, spec_max, values.connections, "10000",
        "connections from clients, all workers together"),
    KEY("connections_per_client", &CONNECTIONS, spec_max, values.connections_per_client, "2000",
        "connections of one address, of IPv6 one /48; not of trusted proxies"),
    KEY("head", SIZE(KIB(1), KIB(1024)), spec_max, values.head_bytes, "16KiB",
        "bytes of a request's head; more is answered with 431"),
    KEY("headers", NUMBER(1, HEAD_FIELDS_MAX), spec_max, values.headers, "100",
        "header fields of a request; more is answered with 431"),
    KEY("body", &BODY_BYTES, spec_max, values.body_bytes, "1GiB",
        "bytes of a request's body; more is answered with 413"),
    KEY("buffered", SIZE(KIB(512), KIB(1024) * KIB(1024) * KIB(1)), spec_max, values.buffered_bytes,
        "64MiB",
        "bytes of request bodies that wait in buffers, all workers together; a client has an "
        "eighth"),
    KEY("held", NUMBER(1, 1000000), spec_max, values.held, "1000",
        "requests held for shaping, in each worker"),
    KEY("bans", NUMBER(1, 100000), spec_max, values.bans, "10000", "bans and exemptions together"),
    KEY("bans_per_minute", NUMBER(1, 100000), spec_max, values.bans_per_minute, "100",
        "bans that limits set by themselves, of a process"),
    KEY("handshakes", NUMBER(4, 1000000), spec_max, values.handshakes, "1000",
        "TLS handshakes at a time, all workers together; of a client a quarter"),
    KEY("streams", NUMBER(1, 1000), spec_max, values.streams, "100",
        "requests at a time on an HTTP/2 connection"),
    KEY("streams_per_client", NUMBER(1, 10000000), spec_max, values.streams_per_client, "2000",
        "requests at a time on all HTTP/2 connections of one address, of IPv6 one /48"),
    KEY("requests_per_connection", NUMBER(1, 1000000000), spec_max, values.requests_per_connection,
        "10000", "requests of an HTTP/2 connection, which then ends in order"),
    KEY("http2_requests", NUMBER(1, 10000000), spec_max, values.http2_requests, "50000",
        "requests at a time on all HTTP/2 connections; of a client a quarter of what is left"),
    KEY("http2_buffer", SIZE(KIB(64), KIB(64) * KIB(1)), spec_max, values.http2_buffer_bytes,
        "256KiB",
        "bytes of request bodies that an HTTP/2 connection may send before servers take them, "
        "beyond 16KiB of each request"),
};
static const struct value_type MAX_TYPE = SECTION_TYPE(MAX_FIELDS, struct spec_max);

static const struct section_field TIMEOUTS_FIELDS[] = {
    KEY("head", &TIMEOUT, spec_timeouts, values.head_us, "10s",
        "from a request's first byte to the end of its head"),
    KEY("handshake", &TIMEOUT, spec_timeouts, values.handshake_us, "10s",
        "of TLS, from the connection to the end of the handshake"),
    KEY("idle", &TIMEOUT, spec_timeouts, values.idle_us, "60s",
        "between requests, and of a body or response that does not move"),
    KEY("tunnel", &TIMEOUT, spec_timeouts, values.tunnel_us, "1h",
        "of a tunnel, or a stream of events, in which nothing moves"),
    KEY("ping", &TIMEOUT, spec_timeouts, values.ping_us, "30s",
        "until an HTTP/2 connection with requests that sends nothing is asked for a sign"),
    KEY("drain", DURATION(0, MS(DAY_MS)), spec_timeouts, values.drain_us, "30s",
        "for requests under way after SIGTERM"),
    KEY("body_rate", &VALUE_BYTE_RATE, spec_timeouts, values.body_bytes_per_s, "1KiB/s",
        "that a client must send or take of a body on average; off: no least rate"),
};
static const struct value_type TIMEOUTS_TYPE = SECTION_TYPE(TIMEOUTS_FIELDS, struct spec_timeouts);

static const struct section_field EXCEPT_FIELDS[] = {
    LIST_KEY("client", &VALUE_PREFIX, spec_except, clients, "addresses or prefixes of clients",
             .presence = KEY_REQUIRED),
};
static const struct value_type EXCEPT_TYPE = SECTION_TYPE(EXCEPT_FIELDS, struct spec_except);

static const struct section_field DENY_FIELDS[] = {
    KEY("status", &DENY_STATUS, spec_reply, status, "429", "status of the answer, 400 to 599"),
    KEY("body", &VALUE_TEXT, spec_reply, body, "",
        "body of the answer; {limit}, {wait} and {request_id} stand for values"),
    KEY("content_type", &VALUE_CONTENT_TYPE, spec_reply, content_type, "text/plain",
        "media type of the body"),
    MAP_KEY("set", &VALUE_ANSWER_FIELD, spec_reply, set, "fields of the answer, name: value"),
    KEY("grpc", &GRPC_DENIAL, spec_reply, grpc, "resource_exhausted",
        "resource_exhausted, unavailable or http: how gRPC calls by HTTP/2 are denied"),
};
static const struct value_type DENY_TYPE = SECTION_TYPE(DENY_FIELDS, struct spec_reply);

static const struct section_field MISSING_FIELDS[] = {
    KEY("action", &MISSING, spec_reply, missing, NULL,
        "shared_counter, deny or skip; left out: deny"),
    KEY("status", &DENY_STATUS, spec_reply, status, "403", "deny: status of the answer, 400 to 599",
        .presence = KEY_CONDITIONAL),
    KEY("body", &VALUE_TEXT, spec_reply, body, "",
        "deny: body of the answer; {limit} and {request_id} stand for values"),
    KEY("content_type", &VALUE_CONTENT_TYPE, spec_reply, content_type, "text/plain",
        "deny: media type of the body", .presence = KEY_CONDITIONAL),
    MAP_KEY("set", &VALUE_ANSWER_FIELD, spec_reply, set, "deny: fields of the answer, name: value"),
};
static const struct value_type MISSING_TYPE =
    SHORT_SECTION_TYPE(MISSING_FIELDS, struct spec_reply, "action");

static const struct section_field BAN_FIELDS[] = {
    KEY("after", &VALUE_PERIOD_RATE, spec_ban, after, NULL,
        "N/period: so many denials of a key, with charge_on answers that are charged too, ban it",
        .presence = KEY_REQUIRED),
    KEY("for", &BAN_LENGTH, spec_ban, for_us, "1m", "length of a key's first ban"),
    KEY("factor", NUMBER(1, 1000), spec_ban, factor, "4",
        "how many times longer each further ban is"),
    KEY("max", &BAN_LENGTH, spec_ban, max_us, "1d", "length of the longest ban"),
    KEY("forget", &BAN_LENGTH, spec_ban, forget_us, "1d",
        "a key that is not banned again for so long after a ban starts anew"),
    KEY("shadow", &VALUE_BOOL, spec_ban, shadow, "false", "bans are logged and counted, not set"),
};
static const struct value_type BAN_TYPE = SECTION_TYPE(BAN_FIELDS, struct spec_ban);

static const struct section_field LIMIT_FIELDS[] = {
    LIST_KEY("key", &VALUE_KEY_PART, spec_limit, key,
             "what is counted apart; a list is a composite, \"|\" takes the first that is present",
             .presence = KEY_REQUIRED),
    KEY("algorithm", &VALUE_ALGORITHM, spec_limit, values.algorithm, "token_bucket",
        "how requests are counted"),
    LIST_KEY("rate", &VALUE_RATE, spec_limit, rates,
             "N/period, or a list of such and of {rate, burst}: each rate is a limit of its own",
             .presence = KEY_REQUIRED),
    KEY("burst", NUMBER(1, LIMIT_COST_MAX), spec_limit, values.burst, NULL,
        "units at one instant, of a single rate; left out: its N; not for windows"),
    LISTS_KEY("plans", &VALUE_PLAN_RATE, spec_limit, plans,
              "other rates for some keys, by name: of the same periods; or none"),
    KEY("plan", &VALUE_PLAN_SOURCES, spec_limit, plan, NULL,
        "where a plan is named: tenant, jwt.CLAIM, header.NAME of trusted proxies; \"|\" takes the "
        "first"),
    KEY("except", &EXCEPT_TYPE, spec_limit, except, NULL,
        "clients that this limit does not apply to"),
    KEY("missing", &MISSING_TYPE, spec_limit, missing, NULL,
        "shared_counter, deny or skip: requests that lack a part of the key; or how they are "
        "denied"),
    KEY("duplicates", &DUPLICATES, spec_limit, duplicates, "cookies",
        "requests with several values of a part: cookies, refuse or each"),
    KEY("deny", &DENY_TYPE, spec_limit, deny, NULL,
        "answer to denied requests, in place of the problem document"),
    KEY("on_failure", &LIMIT_ON_FAILURE, spec_limit, on_failure, "inherit",
        "local, allow or deny; inherit: as the store section says"),
    KEY("shadow", &VALUE_BOOL, spec_limit, shadow, "false", "judged and reported, never enforced"),
    LIST_KEY("charge_on", &VALUE_ANSWER, spec_limit, charge_on,
             "the ends that are charged, as is any that the client causes; left out: all"),
    LIST_KEY("refund_on", &VALUE_ANSWER, spec_limit, refund_on,
             "the ends that give back what their request took"),
    KEY("charge_denied", &VALUE_BOOL, spec_limit, charge_denied, "false",
        "denied requests are charged too", .presence = KEY_CONDITIONAL),
    KEY("max_wait", DURATION(MS(1), MS(HOUR_MS)), spec_limit, values.max_wait_us, NULL,
        "leaky_bucket: hold a request so long rather than refuse it"),
    KEY("align", &ALIGN, spec_limit, align, "clock",
        "fixed_window: windows of the clock, or from the first request",
        .presence = KEY_CONDITIONAL),
    KEY("timezone", &VALUE_TEXT, spec_limit, timezone, NULL,
        "fixed_window: where days, weeks and months start; left out: UTC"),
    KEY("buckets", NUMBER(1, 100), spec_limit, values.buckets, "10",
        "sliding_window: parts of the period that are counted apart", .presence = KEY_CONDITIONAL),
    KEY("strict", &VALUE_BOOL, spec_limit, values.strict, "false",
        "sliding_window: the oldest part counts whole", .presence = KEY_CONDITIONAL),
    KEY("lease", DURATION(MS(1000), MS(DAY_MS)), spec_limit, values.lease_us, "60s",
        "concurrency: when the slots of a proxy that died come back", .presence = KEY_CONDITIONAL),
    KEY("ban", &BAN_TYPE, spec_limit, ban, NULL,
        "keys that are denied again and again are banned, each time longer; not for concurrency",
        .presence = KEY_CONDITIONAL),
};
const struct value_type SECTIONS_LIMIT = SECTION_TYPE(LIMIT_FIELDS, struct spec_limit);

static const struct section_field CORS_FIELDS[] = {
    LIST_KEY("origins", &VALUE_ORIGIN, spec_cors, origins,
             "origins whose pages may use the route, https://app.example.com; \"*\" for all",
             .presence = KEY_REQUIRED),
    LIST_KEY("methods", &VALUE_METHOD, spec_cors, methods,
             "methods that pages may use; left out: those of the route"),
    LIST_KEY("headers", &VALUE_FIELD_NAME, spec_cors, headers,
             "request fields that pages may set, beside those that are always allowed"),
    LIST_KEY("expose", &VALUE_FIELD_NAME, spec_cors, exposed,
             "fields of sluice's own answers that pages may read, beside those of limits"),
    KEY("credentials", &VALUE_BOOL, spec_cors, credentials, "false",
        "requests with cookies are allowed; not with origins \"*\""),
    KEY("max_age", DURATION(0, MS(DAY_MS)), spec_cors, max_age_us, "10m",
        "how long browsers keep the answer to a preflight"),
};
static const struct value_type CORS_TYPE = SECTION_TYPE(CORS_FIELDS, struct spec_cors);

static const struct section_field ROUTE_LIMIT_FIELDS[] = {
    KEY("name", &VALUE_NAME, spec_route_limit, name, NULL, "of a limit", .presence = KEY_REQUIRED),
    KEY("cost", &COST_UNITS, spec_route_limit, cost, NULL,
        "units that a request takes of this limit, in place of the route's cost"),
};
static const struct value_type ROUTE_LIMIT_TYPE =
    SHORT_SECTION_TYPE(ROUTE_LIMIT_FIELDS, struct spec_route_limit, "name");

static const struct section_field DEFAULTS_FIELDS[] = {
    LIST_KEY("limits", &ROUTE_LIMIT_TYPE, spec_defaults, limits,
             "limits of every route that does not say its own"),
    KEY("cors", &CORS_TYPE, spec_defaults, cors, NULL,
        "cors of every route that does not say its own"),
};
static const struct value_type DEFAULTS_TYPE = SECTION_TYPE(DEFAULTS_FIELDS, struct spec_defaults);

static const struct value_type SCHEME = WORD_TYPE("any, http or https", "any", "http", "https");
static const struct section_field CERTIFICATE_MATCH_FIELDS[] = {
    KEY("shown", &VALUE_BOOL, spec_certificate_match, is_shown, "true",
        "true: any certificate will do, unless more is asked"),
    LIST_KEY("dns", &VALUE_HOST_PATTERN, spec_certificate_match, facts[CERTIFICATE_DNS],
             "its first name of the kind DNS, one of these; \"*.\" for one label"),
    LIST_KEY("uri", &VALUE_TEXT, spec_certificate_match, facts[CERTIFICATE_URI],
             "its first name of the kind URI, one of these"),
    LIST_KEY("fingerprint", &VALUE_TEXT, spec_certificate_match, facts[CERTIFICATE_FINGERPRINT],
             "its SHA-256 in hexadecimal, one of these; colons may stand between the bytes"),
};
static const struct value_type CERTIFICATE_MATCH_TYPE =
    SHORT_SECTION_TYPE(CERTIFICATE_MATCH_FIELDS, struct spec_certificate_match, "shown");

static const struct section_field GEO_FIELDS[] = {
    LIST_KEY("database", &VALUE_FILE, spec_geo, databases,
             "files in the MaxMind DB format, the first that knows a country or an AS counts",
             .presence = KEY_REQUIRED),
};
static const struct value_type GEO_TYPE = SECTION_TYPE(GEO_FIELDS, struct spec_geo);

static const struct section_field MATCH_FIELDS[] = {
    LIST_KEY("path", &VALUE_TEXT, spec_match, paths,
             "patterns, one of which matches: \"*\" is a segment, \"{name}\" one with a name, "
             "\"{name:int}\" a number, \"{name:uuid}\" a UUID, \"{name:word}\" letters, digits, "
             "\"-\" and \"_\", \"**\" the rest"),
    LIST_KEY("host", &VALUE_HOST_WITH_PORT, spec_match, hosts,
             "hosts, one of which it must be; \"*.\" and a host for all beneath it; a port is not "
             "compared, but passed on to servers"),
    LIST_KEY("method", &VALUE_METHOD, spec_match, methods, "methods, one of which it must be"),
    LISTS_KEY("header", &VALUE_HEADER, spec_match, headers,
              "name: value or list of values, one of which it has; true: present, false: absent"),
    LISTS_KEY("query", &VALUE_PARAMETER, spec_match, query,
              "name: value or list of values, one of which it has; true: present, false: absent"),
    LISTS_KEY("jwt", &VALUE_CLAIM, spec_match, claims,
              "claim: value or list of values, one of which it is, has in its array, or has among "
              "the words of scope"),
    LIST_KEY("client", &VALUE_PREFIX, spec_match, clients,
             "addresses or prefixes, one of which the client must be in"),
    LIST_KEY("country", &VALUE_COUNTRY, spec_match, countries,
             "countries, one of which the databases of geo say of the client's address"),
    LIST_KEY("asn", &VALUE_ASN, spec_match, asns,
             "autonomous systems, one of which they say of it"),
    KEY("scheme", &SCHEME, spec_match, scheme, "any",
        "any, http or https: whether the client's connection is over TLS"),
    KEY("client_cert", &CERTIFICATE_MATCH_TYPE, spec_match, certificate, NULL,
        "true: the client has shown a certificate; or a section: such a one"),
    KEY("grpc", &VALUE_BOOL, spec_match, grpc, "false",
        "true: gRPC calls alone, by their Content-Type"),
    KEY("ignore_case", &VALUE_BOOL, spec_match, ignore_case, "false",
        "letters of the path match in any case"),
    KEY("encoded_slash", &ENCODED_SLASH, spec_match, encoded_slash, "refuse",
        "refuse or allow: %2F, %5C and \"\\\" in a path"),
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
    KEY("to", &VALUE_REDIRECT, spec_redirect, to, NULL,
        "https: the URL of the request with that scheme; or a path or a URL",
        .presence = KEY_REQUIRED),
    KEY("status", NUMBER(301, 308), spec_redirect, status, "308", "301, 302, 303, 307 or 308"),
};
static const struct value_type REDIRECT_TYPE =
    SHORT_SECTION_TYPE(REDIRECT_FIELDS, struct spec_redirect, "to");

static const struct section_field RESPOND_FIELDS[] = {
    KEY("status", NUMBER(200, 599), spec_reply, status, NULL,
        "status of the answer, 200 to 599; this or redirect", .presence = KEY_CONDITIONAL),
    KEY("redirect", &REDIRECT_TYPE, spec_reply, redirect, NULL,
        "where clients are sent: a section, or its to alone; this or status",
        .presence = KEY_CONDITIONAL),
    KEY("body", &VALUE_TEXT, spec_reply, body, "", "body of the answer"),
    KEY("content_type", &VALUE_CONTENT_TYPE, spec_reply, content_type, "text/plain",
        "media type of the body"),
    MAP_KEY("set", &VALUE_ANSWER_FIELD, spec_reply, set, "fields of the answer, name: value"),
};
static const struct value_type RESPOND_TYPE = SECTION_TYPE(RESPOND_FIELDS, struct spec_reply);

static const struct section_field COST_FIELDS[] = {
    KEY("from", &VALUE_COST_SOURCE, spec_cost, from, NULL,
        "header.NAME of the request, or response.header.NAME"),
    KEY("max", &COST_UNITS, spec_cost, max, NULL,
        "most units that the field may say; left out: what the smallest of the limits holds"),
    KEY("trust", &TRUST, spec_cost, trust, "proxies", "proxies: from trusted proxies alone, or any",
        .presence = KEY_CONDITIONAL),
    KEY("estimate", &COST_UNITS, spec_cost, estimate, NULL,
        "units reserved until the response says them"),
    KEY("strip", &VALUE_BOOL, spec_cost, strip, "false",
        "the client does not see the field of the response", .presence = KEY_CONDITIONAL),
    KEY("default", &COST_UNITS, spec_cost, units, NULL,
        "units of the methods that are not named; left out: the most that a named one costs"),
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
    MAP_KEY("set", &VALUE_FIELD, spec_edits, set,
            "name: value, in place of all fields of the name"),
    LIST_KEY("remove", &VALUE_FIELD_NAME, spec_edits, removed, "names of fields that do not pass"),
};
static const struct value_type EDITS_TYPE = SECTION_TYPE(EDITS_FIELDS, struct spec_edits);

static const struct value_type FIELD_VALUE =
    VALUE_STRING_TYPE("the value of a field", value_check_field, .is_secret = true);
static const struct section_field REQUEST_FIELD_FIELDS[] = {
    KEY("value", &FIELD_VALUE, spec_request_field, value, NULL, "the value; this or from",
        .presence = KEY_CONDITIONAL),
    KEY("from", &VALUE_KEY_PART, spec_request_field, from, NULL,
        "jwt.CLAIM: the claim of the token; where it is missing there is no such field",
        .presence = KEY_CONDITIONAL),
};
static const struct value_type REQUEST_FIELD_TYPE =
    SHORT_SECTION_TYPE(REQUEST_FIELD_FIELDS, struct spec_request_field, "value");
static const struct section_field REQUEST_EDITS_FIELDS[] = {
    MAP_KEY("set", &REQUEST_FIELD_TYPE, spec_edits, set,
            "name: value, in place of all fields of the name; or name: {from: jwt.CLAIM}"),
    LIST_KEY("remove", &VALUE_FIELD_NAME, spec_edits, removed, "names of fields that do not pass"),
};
static const struct value_type REQUEST_EDITS_TYPE =
    SECTION_TYPE(REQUEST_EDITS_FIELDS, struct spec_edits);

static const struct section_field ROUTE_FIELDS[] = {
    KEY("name", &VALUE_NAME, spec_route, name, NULL,
        "for logs and the key \"route\"; left out: route-N"),
    KEY("match", &MATCH_TYPE, spec_route, match, NULL, "which requests; left out: all"),
    LIST_KEY("limits", &ROUTE_LIMIT_TYPE, spec_route, limits,
             "names of limits, or sections; [] for none; left out: those of defaults"),
    KEY("upstream", &VALUE_NAME, spec_route, upstream, NULL,
        "where requests go: a name of upstreams, or a server's URL; this or respond"),
    KEY("respond", &RESPOND_TYPE, spec_route, respond, NULL,
        "an answer of sluice's own; this or upstream"),
    KEY("cost", &COST_TYPE, spec_route, cost, NULL, "units that a request takes of each limit"),
    KEY("max_body", &BODY_BYTES, spec_route, body_bytes_max, NULL,
        "bytes of a request's body; left out: max.body"),
    KEY("buffer", &SECTIONS_BUFFER, spec_route, buffer, NULL,
        "what of a request's body is kept before a server is chosen; left out: the upstream's"),
    KEY("min_download", &VALUE_BYTE_RATE, spec_route, min_download_bytes_per_s, NULL,
        "that a client must take of an answer while its server waits for it; left out: the "
        "upstream's"),
    LIST_KEY("upgrade", &VALUE_PROTOCOL, spec_route, upgrade,
             "protocols that a request may switch to; [] for none; left out: websocket"),
    KEY("strip_prefix", &VALUE_TEXT, spec_route, strip_prefix, NULL,
        "start of the path that the upstream does not get"),
    KEY("jwt", &SECTIONS_ROUTE_JWT, spec_route, jwt, NULL,
        "whose tokens count: a name of jwt, or a section"),
    KEY("request", &REQUEST_EDITS_TYPE, spec_route, request, NULL,
        "fields of requests that are set or removed"),
    KEY("response", &EDITS_TYPE, spec_route, response, NULL,
        "fields of responses that are set or removed"),
    KEY("cors", &CORS_TYPE, spec_route, cors, NULL,
        "which pages of other origins may use the route; left out: that of defaults"),
};
const struct value_type SECTIONS_ROUTE = SECTION_TYPE(ROUTE_FIELDS, struct spec_route);

static const struct value_type HTTP_VERSION =
    WORD_TYPE("1.1 or 2", [LISTEN_HTTP_1_1] = "1.1", [LISTEN_HTTP_2] = "2");
static const struct section_field LISTEN_FIELDS[] = {
    KEY("address", &VALUE_LISTEN, spec_listen, address, NULL, "address:port, or unix:/path",
        .presence = KEY_REQUIRED),
    KEY("tls", &SECTIONS_TLS, spec_listen, tls, NULL,
        "clients speak TLS there: {cert: FILE, key: FILE}, or certificates"),
    LIST_KEY("http", &HTTP_VERSION, spec_listen, versions,
             "versions that clients may speak: 1.1, 2; left out: with tls both, else 1.1"),
    KEY("proxy_protocol", &VALUE_BOOL, spec_listen, proxy_protocol, "false",
        "trusted proxies say in the PROXY protocol who the client is; all others are refused"),
    KEY("mode", &VALUE_MODE, spec_listen, mode, "0660", "permissions of a unix socket",
        .presence = KEY_CONDITIONAL),
};
static const struct value_type LISTEN_TYPE =
    SHORT_SECTION_TYPE(LISTEN_FIELDS, struct spec_listen, "address");

static const struct section_field RESOLVER_FIELDS[] = {
    LIST_KEY("servers", &VALUE_NAME_SERVER, spec_resolver, servers,
             "address[:port] of name servers, in place of those of /etc/resolv.conf",
             .presence = KEY_REQUIRED),
};
static const struct value_type RESOLVER_TYPE = SECTION_TYPE(RESOLVER_FIELDS, struct spec_resolver);

static const struct value_type INCLUDE_PATH =
    VALUE_STRING_TYPE("a path or a pattern of files", NULL);
enum { N_INCLUDED_FIELDS = 4 }; /* the last ones: what an included file may have */
static const struct section_field POLICY_FIELDS[] = {
    LIST_KEY("listen", &LISTEN_TYPE, spec_policy, listen,
             "address:port, unix:/path, a section, or a list of such", .presence = KEY_REQUIRED),
    KEY("tls_tickets", &SECTIONS_TLS_TICKETS, spec_policy, tls_tickets, NULL,
        "for tickets: shared"),
    KEY("admin", &SECTIONS_ADMIN, spec_policy, admin, NULL,
        "where operators connect: a section, or its listen alone; left out: nowhere"),
    KEY("workers", NUMBER_OR_AUTO(1, WORKERS_MAX), spec_policy, workers, "auto",
        "threads; auto: one per core"),
    LIST_KEY(
        "trusted_proxies", &VALUE_PREFIX, spec_policy, trusted_proxies,
        "addresses, prefixes or unix: whose X-Forwarded-For, Forwarded and PROXY header count"),
    KEY("resolver", &RESOLVER_TYPE, spec_policy, resolver, NULL,
        "name servers; left out: those of the system"),
    KEY("store", &SECTIONS_STORE, spec_policy, store, NULL,
        "where counters live; left out: in this process"),
    KEY("log", &LOG_TYPE, spec_policy, log, NULL, "one line a request"),
    KEY("max", &MAX_TYPE, spec_policy, max, NULL, "caps on what clients may ask for"),
    KEY("timeouts", &TIMEOUTS_TYPE, spec_policy, timeouts, NULL, "how long to wait for clients"),
    KEY("headers", &HEADERS, spec_policy, headers, "ratelimit",
        "ratelimit, x_ratelimit, ratelimit_and_x_ratelimit, ratelimit_next or none: the fields "
        "that tell clients of their limits"),
    KEY("upstream", &VALUE_SERVER, spec_policy, upstream, NULL,
        "short form: the one server for all requests"),
    LIST_KEY("limit", &VALUE_RATE, spec_policy, limit, "short form: the rate per client address"),
    KEY("defaults", &DEFAULTS_TYPE, spec_policy, defaults, NULL, "what routes need not say"),
    MAP_KEY("jwt", &SECTIONS_JWT, spec_policy, jwt,
            "whose tokens count, and how they are verified, by name"),
    KEY("geo", &GEO_TYPE, spec_policy, geo, NULL,
        "which country and autonomous system addresses are of"),
    KEY("watch", &VALUE_BOOL, spec_policy, watch, "false", "reload when the file changes"),
    KEY("tenants", &VALUE_FILE, spec_policy, tenants, NULL,
        "without Redis: the file that says which key has which plan, in limits with plan: tenant; "
        "it is read again when it changes"),
    LIST_KEY("include", &INCLUDE_PATH, spec_policy, include,
             "paths and patterns of files with limits, routes and upstreams of this policy"),
    MAP_KEY("upstreams", &SECTIONS_UPSTREAM, spec_policy, upstreams, "servers, by name"),
    MAP_KEY("limits", &SECTIONS_LIMIT, spec_policy, limits, "limits, by name"),
    LIST_KEY("routes", &SECTIONS_ROUTE, spec_policy, routes,
             "what happens to which requests; the first that matches counts"),
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

static const struct section_field JWT_FIELDS[] = {
    KEY("keys", &VALUE_FILE_OR_URL, spec_jwt, keys, NULL,
        "public keys: https:// and where a JWK set is, or a file with such a set or with PEM; this "
        "or secret",
        .presence = KEY_CONDITIONAL),
    KEY("secret", &VALUE_SECRET, spec_jwt, secret, NULL,
        "of HS256, at least 32 bytes; this or keys", .presence = KEY_CONDITIONAL),
    KEY("ca", &VALUE_FILE, spec_jwt, ca, "system",
        "system, or a file in PEM: authorities of the certificate of keys at https://",
        .presence = KEY_CONDITIONAL),
    LIST_KEY("algorithms", &ALGORITHM, spec_jwt, algorithms,
             "of signatures; needed with keys; with secret it is HS256",
             .presence = KEY_CONDITIONAL),
    LIST_KEY("issuer", &VALUE_TEXT, spec_jwt, issuers,
             "what iss of a token must be, one of these; left out: anything"),
    LIST_KEY("audience", &VALUE_TEXT, spec_jwt, audiences,
             "what aud of a token must be or contain, one of these; left out: anything"),
    LIST_KEY("types", &VALUE_TEXT, spec_jwt, types,
             "what typ of a token must be, one of these, such as at+jwt; left out: anything"),
    LIST_KEY(
        "from", &VALUE_KEY_PART, spec_jwt, from,
        "header.NAME, cookie.NAME or query.NAME: where tokens are; left out: header.authorization"),
    KEY("leeway", DURATION(0, MS(HOUR_MS)), spec_jwt, leeway_us, "60s",
        "by which the clocks of issuers may differ, for exp and nbf"),
    KEY("on_invalid", &ON_INVALID, spec_jwt, on_invalid, "deny",
        "deny or missing: a token that is not valid gets 401, or counts as none"),
};
const struct value_type SECTIONS_JWT = SECTION_TYPE(JWT_FIELDS, struct spec_jwt);

static const struct section_field ROUTE_JWT_FIELDS[] = {
    KEY("provider", &VALUE_NAME, spec_route_jwt, provider, NULL,
        "whose tokens count, a name of jwt; left out: the only one's"),
    KEY("required", &VALUE_BOOL, spec_route_jwt, required, "false",
        "true: a request without a token gets 401"),
};
const struct value_type SECTIONS_ROUTE_JWT =
    SHORT_SECTION_TYPE(ROUTE_JWT_FIELDS, struct spec_route_jwt, "provider");
