#include "simulation/log_fields.h"

#include <string.h>

#include "http/grpc.h"

/* Names by which programs tell of requests: sluice's own, nginx's variables, Caddy, Traefik, and
 * what people use. Of several for one part the first counts. */
static const struct {
    const char *name;
    enum log_part part;
} KNOWN[] = {
    {"time", LOG_TIME},
    {"timestamp", LOG_TIME},
    {"@timestamp", LOG_TIME},
    {"ts", LOG_TIME},
    {"time_iso8601", LOG_TIME},
    {"msec", LOG_TIME},
    {"time_local", LOG_TIME},
    {"StartUTC", LOG_START_TIME},
    {"client", LOG_CLIENT},
    {"remote_addr", LOG_CLIENT},
    {"client_ip", LOG_CLIENT},
    {"remote_ip", LOG_CLIENT},
    {"clientip", LOG_CLIENT},
    {"ClientHost", LOG_CLIENT},
    {"request.client_ip", LOG_CLIENT},
    {"request.remote_ip", LOG_CLIENT},
    {"request", LOG_REQUEST},
    {"method", LOG_METHOD},
    {"request_method", LOG_METHOD},
    {"RequestMethod", LOG_METHOD},
    {"request.method", LOG_METHOD},
    {"request_uri", LOG_TARGET},
    {"path", LOG_TARGET},
    {"uri", LOG_TARGET},
    {"url", LOG_TARGET},
    {"RequestPath", LOG_TARGET},
    {"request.uri", LOG_TARGET},
    {"http_host", LOG_HOST},
    {"host", LOG_HOST},
    {"RequestHost", LOG_HOST},
    {"request.host", LOG_HOST},
    {"server_name", LOG_HOST},
    {"status", LOG_STATUS},
    {"status_code", LOG_STATUS},
    {"DownstreamStatus", LOG_STATUS},
    {"us", LOG_TAKES_US},
    {"request_time", LOG_TAKES_S},
    {"duration", LOG_TAKES_S},
    {"duration_ms", LOG_TAKES_MS},
    {"Duration", LOG_TAKES_NS},
    {"tls", LOG_SCHEME},
    {"scheme", LOG_SCHEME},
    {"ssl_protocol", LOG_SCHEME},
    {"request.tls.version", LOG_SCHEME},
    {"RequestScheme", LOG_SCHEME},
    {"grpc", LOG_GRPC},
    {"http_user_agent", LOG_HEADER + LOG_USER_AGENT},
    {"user_agent", LOG_HEADER + LOG_USER_AGENT},
    {"http_referer", LOG_HEADER + LOG_REFERER},
    {"http_x_forwarded_for", LOG_HEADER + LOG_FORWARDED_FOR},
};

/* What `--field WHAT=NAME` may name. */
static const struct {
    const char *what;
    enum log_part part;
} WHAT[] = {
    {"time", LOG_TIME},
    {"client", LOG_CLIENT},
    {"request", LOG_REQUEST},
    {"method", LOG_METHOD},
    {"path", LOG_TARGET},
    {"host", LOG_HOST},
    {"status", LOG_STATUS},
    {"duration", LOG_TAKES_S},
    {"cost", LOG_COST},
    {"scheme", LOG_SCHEME},
    {"grpc", LOG_GRPC},
    {"client.cert", LOG_CERTIFICATE + (enum log_part)CERTIFICATE_FINGERPRINT},
    {"client.cert.dns", LOG_CERTIFICATE + (enum log_part)CERTIFICATE_DNS},
    {"client.cert.uri", LOG_CERTIFICATE + (enum log_part)CERTIFICATE_URI},
    {"client.cert.cn", LOG_CERTIFICATE + (enum log_part)CERTIFICATE_CN},
};

static size_t slot_of(size_t len)
{
    return len < LOG_NAME_LENGTHS ? len : LOG_NAME_LENGTHS - 1;
}

static bool add_name(struct log_fields *fields, struct span name, size_t part, size_t rank)
{
    if (fields->n_names == LOG_FIELD_NAMES_MAX) {
        return false;
    }
    int16_t *first = &fields->by_length[slot_of(name.len)];
    fields->names[fields->n_names] = (struct log_field_name){
        .name = name, .part = (uint8_t)part, .rank = (uint8_t)rank, .next = *first};
    *first = (int16_t)fields->n_names++;
    return true;
}

static size_t add_header(struct log_fields *fields, struct span name)
{
    fields->headers[fields->n_headers] = (struct field){.name = name, .id = field_identify(name)};
    return fields->n_headers++;
}

void log_fields_init(struct log_fields *fields)
{
    memset(fields, 0, sizeof(*fields));
    memset(fields->by_length, 0xff, sizeof(fields->by_length));
    (void)add_header(fields, SPAN("User-Agent"));
    (void)add_header(fields, SPAN("Referer"));
    (void)add_header(fields, SPAN("X-Forwarded-For"));
    for (size_t i = 0; i < ARRAY_LEN(KNOWN); i++) {
        (void)add_name(fields, span_of_text(KNOWN[i].name), KNOWN[i].part, i + 1);
    }
}

/* The header's number; LOG_HEADERS_MAX: there are too many. */
static size_t find_header(struct log_fields *fields, struct span name)
{
    for (size_t i = 0; i < fields->n_headers; i++) {
        if (span_equals_ignore_case(fields->headers[i].name, name)) {
            return i;
        }
    }
    return fields->n_headers < LOG_HEADERS_MAX ? add_header(fields, name) : LOG_HEADERS_MAX;
}

const char *log_fields_add(struct log_fields *fields, struct span what, struct span name)
{
    const struct span prefix = SPAN("header.");
    size_t part = LOG_PARTS;
    if (span_starts_with(what, prefix)) {
        const struct span header = span_of(what.data + prefix.len, what.len - prefix.len);
        if (!field_is_token(header)) {
            return "this is not the name of a header";
        }
        part = LOG_HEADER + find_header(fields, header);
        if (part == LOG_PARTS) {
            return "too many headers";
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(WHAT); i++) {
        if (span_equals(span_of_text(WHAT[i].what), what)) {
            part = WHAT[i].part;
        }
    }
    if (part == LOG_PARTS) {
        return "known are time, client, request, method, path, host, status, duration, cost, "
               "scheme, grpc, client.cert, client.cert.dns, client.cert.uri, client.cert.cn and "
               "header.NAME";
    }
    if (name.len == 0 || name.len > LOG_NAME_BYTES_MAX) {
        return "the name of a field in the log is missing or too long";
    }
    if (!add_name(fields, name, part, 0)) {
        return "too many fields";
    }
    fields->said |= part >= LOG_GRPC ? UINT32_C(1) << part : 0;
    return NULL;
}

const struct log_field_name *log_fields_find(const struct log_fields *fields, struct span name)
{
    for (int16_t i = fields->by_length[slot_of(name.len)]; i >= 0; i = fields->names[i].next) {
        if (span_equals(fields->names[i].name, name)) {
            return &fields->names[i];
        }
    }
    return NULL;
}

void log_values_add(struct log_values *values, const struct log_field_name *name, struct span value)
{
    if (values->values[name->part].data == NULL || name->rank < values->ranks[name->part]) {
        values->values[name->part] = value;
        values->ranks[name->part] = name->rank;
    }
}

/* --- making sense of them --- */

static bool is_there(const struct log_values *values, enum log_part part)
{
    return values->values[part].data != NULL;
}

static bool read_length(const struct log_values *values, struct log_line *out)
{
    static const struct {
        enum log_part part;
        uint64_t unit_ns;
    } UNITS[] = {
        {LOG_TAKES_US, 1000},
        {LOG_TAKES_S, 1000000000},
        {LOG_TAKES_MS, 1000000},
        {LOG_TAKES_NS, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        if (is_there(values, UNITS[i].part)) {
            return log_length_read(values->values[UNITS[i].part], UNITS[i].unit_ns, &out->takes_us);
        }
    }
    return false;
}

/* Logs are written when requests end, so the time is that of the end unless
 * its name says otherwise. */
static bool read_times(const struct log_values *values, struct log_clock *clock,
                       struct log_line *out)
{
    out->has_takes = read_length(values, out);
    if (is_there(values, LOG_START_TIME)) {
        return log_time_read(values->values[LOG_START_TIME], clock, &out->time_us);
    }
    if (!log_time_read(values->values[LOG_TIME], clock, &out->time_us)) {
        return false;
    }
    if (out->has_takes) {
        out->time_us = out->takes_us < out->time_us ? out->time_us - out->takes_us : 0;
    }
    return true;
}

/* Whether @value, a scheme or a version of TLS, is of a connection over TLS. */
static bool is_https(struct span value)
{
    static const struct span PLAIN[] = {{"", 0}, {"-", 1}, {"http", 4}, {"false", 5}};
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++) {
        if (span_equals_ignore_case(value, PLAIN[i])) {
            return false;
        }
    }
    return true;
}

/* Whether @value is of a gRPC call: its status, or a word. */
static bool is_grpc(struct span value)
{
    static const struct span OTHERS[] = {{"", 0}, {"-", 1}, {"false", 5}};
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++) {
        if (span_equals_ignore_case(value, OTHERS[i])) {
            return false;
        }
    }
    return true;
}

static void read_connection(const struct log_values *values, struct log_line *out)
{
    out->is_https = is_https(values->values[LOG_SCHEME]);
    for (size_t i = 0; i < CERTIFICATE_FACTS; i++) {
        const struct span fact = values->values[LOG_CERTIFICATE + i];
        if (fact.len > 0 && !span_equals(fact, SPAN("-"))) {
            out->certificate[i] = fact;
            out->is_https = true;
        }
    }
}

bool log_values_read(const struct log_values *values, struct log_clock *clock, struct log_line *out)
{
    uint64_t grpc_status = 0;
    *out = (struct log_line){.status = 0};
    if (!is_there(values, LOG_CLIENT) || !log_peer_read(values->values[LOG_CLIENT], &out->peer) ||
        (!is_there(values, LOG_TIME) && !is_there(values, LOG_START_TIME)) ||
        !read_times(values, clock, out)) {
        return false;
    }
    if (is_there(values, LOG_REQUEST)) {
        log_request_split(values->values[LOG_REQUEST], out);
    }
    if (is_there(values, LOG_METHOD)) {
        out->method = values->values[LOG_METHOD];
    }
    if (is_there(values, LOG_TARGET)) {
        out->target = values->values[LOG_TARGET];
    }
    out->host = values->values[LOG_HOST];
    out->status = log_status_read(values->values[LOG_STATUS]);
    out->cost = values->values[LOG_COST];
    out->is_grpc = is_grpc(values->values[LOG_GRPC]);
    if (span_to_u64(values->values[LOG_GRPC], GRPC_STATUSES - 1, &grpc_status)) {
        out->grpc_status = (uint8_t)grpc_status;
    }
    read_connection(values, out);
    memcpy(out->headers, &values->values[LOG_HEADER], sizeof(out->headers));
    for (size_t i = 0; i < LOG_PARTS; i++) {
        out->parts |= values->values[i].data != NULL ? UINT32_C(1) << i : 0;
    }
    return true;
}
