#include "policy/key_values.h"

#include "http/values.h"
#include "tls/client_certificate.h"

/* The state of reading the values of one term. */
struct reading {
    const struct key_term *term;
    struct key_values *values;
    size_t first;   /* index of the term's first value */
    bool has_empty; /* the request also has it with an empty value */
    bool is_refused;
};

/* False: no more are wanted. */
static bool add(struct reading *reading, struct span value)
{
    struct key_values *values = reading->values;
    if (value.len == 0) {
        reading->has_empty = true;
        return true;
    }
    for (size_t i = reading->first; i < values->n; i++) {
        if (span_equals(values->items[i].value, value)) {
            return true;
        }
    }
    if (values->n == KEY_IDENTITIES_MAX) {
        reading->is_refused = true;
        return false;
    }
    values->items[values->n++] = (struct key_value){reading->term, value};
    return true;
}

/* --- one value: missing if it is empty --- */

static struct span read_client(const struct key_term *term, const struct request_view *request,
                               char buffer[ADDRESS_TEXT_MAX])
{
    struct text text = text_of(buffer, ADDRESS_TEXT_MAX);
    if (request->client.family == ADDRESS_NONE) {
        return SPAN("");
    }
    const uint8_t bits = request->client.family == ADDRESS_IPV4 ? term->ipv4_bits : term->ipv6_bits;
    const struct address masked = address_mask(request->client, bits);
    address_write(&masked, &text);
    return text_span(&text);
}

static struct span read_capture(const struct key_term *term, const struct request_view *request)
{
    for (size_t i = 0; i < request->n_captures; i++) {
        if (span_equals(request->capture_names[i], term->name)) {
            return request->captures[i];
        }
    }
    return SPAN("");
}

static struct span read_certificate(const struct key_term *term, const struct request_view *request)
{
    if (request->tls == NULL || request->tls->certificate == NULL) {
        return SPAN("");
    }
    return request->tls->certificate->facts[term->source - KEY_CLIENT_CERT];
}

/* @buffer: for an address. */
static ALWAYS_INLINE struct span read_one(const struct key_term *term,
                                          const struct request_view *request,
                                          char buffer[ADDRESS_TEXT_MAX])
{
    switch (term->source) {
    case KEY_CLIENT_IP:
        return read_client(term, request, buffer);
    case KEY_CLIENT_CERT:
    case KEY_CLIENT_CERT_DNS:
    case KEY_CLIENT_CERT_URI:
    case KEY_CLIENT_CERT_CN:
        return read_certificate(term, request);
    case KEY_PATH:
        return request->path->text;
    case KEY_PATH_SEGMENT:
        return term->number <= request->path->n_segments ? request->path->segments[term->number - 1]
                                                         : SPAN("");
    case KEY_PATH_CAPTURE:
        return read_capture(term, request);
    case KEY_METHOD:
        return request->method;
    case KEY_HOST:
        return request->host;
    case KEY_ROUTE:
        return request->route;
    case KEY_GLOBAL:
        return SPAN("all");
    case KEY_HEADER:
    case KEY_COOKIE:
    case KEY_QUERY:
        break;
    }
    return SPAN("");
}

/* --- fields --- */

/* Python treats NEL and the no-break space of Latin-1 as white space between scheme and
 * credentials. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\x85' || c == '\xa0';
}

static char capital(char c, bool is_first)
{
    const char lower = ascii_lower(c);
    return is_first && lower >= 'a' && lower <= 'z' ? (char)(lower - 'a' + 'A') : lower;
}

/* Write credentials with the scheme capitalised as in `Bearer`, followed by one space. Credentials
 * in this form are not copied. False: no room. */
static bool normalise_credentials(struct span *credentials, struct key_scratch *scratch)
{
    const struct span value = *credentials;
    size_t scheme = 0;
    bool is_same = true;
    while (scheme < value.len && !is_blank(value.data[scheme])) {
        is_same = is_same && value.data[scheme] == capital(value.data[scheme], scheme == 0);
        scheme++;
    }
    const struct span rest = value_trim(span_of(value.data + scheme, value.len - scheme));
    if (rest.len == 0 ||
        (is_same && rest.data == value.data + scheme + 1 && value.data[scheme] == ' ')) {
        return true;
    }
    if (value.len + 1 > sizeof(scratch->bytes) - scratch->used) {
        return false;
    }
    char *out = scratch->bytes + scratch->used;
    for (size_t i = 0; i < scheme; i++) {
        out[i] = capital(value.data[i], i == 0);
    }
    out[scheme] = ' ';
    memcpy(out + scheme + 1, rest.data, rest.len);
    scratch->used += scheme + 1 + rest.len;
    *credentials = span_of(out, scheme + 1 + rest.len);
    return true;
}

/* False: no room. */
static bool normalise_field(const struct key_term *term, struct span *value,
                            struct key_scratch *scratch)
{
    *value = value_trim(*value);
    return !term->is_credentials || normalise_credentials(value, scratch);
}

static void read_header(struct reading *reading, const struct head *head,
                        struct key_scratch *scratch)
{
    const struct span name = reading->term->name;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        if (field->name.len != name.len || !span_equals_ignore_case(field->name, name)) {
            continue;
        }
        struct span value = field->value;
        if (!normalise_field(reading->term, &value, scratch)) {
            reading->is_refused = true;
            return;
        }
        if (!add(reading, value)) {
            return;
        }
    }
}

/* --- cookies and parameters --- */

typedef bool decode_fn(struct span value, char *buffer, size_t capacity,
                       struct span readings[VALUE_READINGS_MAX], size_t *n);

/* Add the values that servers may decode from the raw @value. False: stop reading. */
static bool add_readings(struct reading *reading, decode_fn *decode, struct span value,
                         struct key_scratch *scratch)
{
    struct span readings[VALUE_READINGS_MAX];
    size_t n;
    char *buffer = scratch->bytes + scratch->used;
    const size_t room = sizeof(scratch->bytes) - scratch->used;
    if (!decode(value, buffer, room, readings, &n)) {
        reading->is_refused = true;
        return false;
    }
    if (readings[0].data == buffer) { /* copied */
        scratch->used += value.len < room / n ? n * value.len : room;
    }
    for (size_t i = 0; i < n; i++) {
        if (!add(reading, readings[i])) {
            return false;
        }
    }
    return true;
}

static void read_cookie(struct reading *reading, const struct head *head,
                        struct key_scratch *scratch)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        struct value_walk walk = {.rest = head->fields[i].value, .name = reading->term->name};
        struct span value;
        while (head->fields[i].id == FIELD_COOKIE && cookie_next(&walk, &value)) {
            if (!add_readings(reading, cookie_decode, value, scratch)) {
                return;
            }
        }
    }
}

static void read_query(struct reading *reading, const struct head *head,
                       struct key_scratch *scratch)
{
    struct value_walk walk = {.rest = head->target.query, .name = reading->term->name};
    struct span value;
    while (query_next(&walk, &value) && add_readings(reading, query_decode, value, scratch)) {
    }
}

/* --- a part --- */

static void read_term(struct reading *reading, const struct request_view *request,
                      struct key_scratch *scratch)
{
    switch (reading->term->source) {
    case KEY_HEADER:
        read_header(reading, request->head, scratch);
        return;
    case KEY_COOKIE:
        read_cookie(reading, request->head, scratch);
        return;
    case KEY_QUERY:
        read_query(reading, request->head, scratch);
        return;
    case KEY_CLIENT_IP:
    case KEY_CLIENT_CERT:
    case KEY_CLIENT_CERT_DNS:
    case KEY_CLIENT_CERT_URI:
    case KEY_CLIENT_CERT_CN:
    case KEY_PATH:
    case KEY_PATH_SEGMENT:
    case KEY_PATH_CAPTURE:
    case KEY_METHOD:
    case KEY_HOST:
    case KEY_ROUTE:
    case KEY_GLOBAL:
        (void)add(reading, read_one(reading->term, request, scratch->address));
        return;
    }
}

static bool may_differ(const struct key_term *term, enum key_duplicates duplicates)
{
    return duplicates == KEY_DUPLICATES_EACH ||
           (duplicates == KEY_DUPLICATES_COOKIES && term->source == KEY_COOKIE);
}

bool key_values_read_one(const struct key_part *part, const struct request_view *request,
                         char buffer[ADDRESS_TEXT_MAX], struct key_value *value)
{
    const struct key_term *term = &part->terms[0];
    if (part->n_terms > 1 || term->source == KEY_HEADER || term->source == KEY_COOKIE ||
        term->source == KEY_QUERY) {
        return false;
    }
    value->value = read_one(term, request, buffer);
    value->term = value->value.len > 0 ? term : NULL;
    return true;
}

bool key_values_read(const struct key_part *part, enum key_duplicates duplicates,
                     const struct request_view *request, struct key_scratch *scratch,
                     struct key_values *values)
{
    scratch->used = 0;
    values->n = 0;
    for (size_t i = 0; i < part->n_terms; i++) {
        struct reading reading = {.term = &part->terms[i], .values = values, .first = values->n};
        read_term(&reading, request, scratch);
        const size_t n = values->n - reading.first;
        if (reading.is_refused ||
            (n + reading.has_empty > 1 && !may_differ(reading.term, duplicates))) {
            return false;
        }
        if (n > 0 && !reading.has_empty) {
            return true;
        }
    }
    if (values->n == KEY_IDENTITIES_MAX) {
        return false;
    }
    values->items[values->n++] = (struct key_value){.term = NULL};
    return true;
}

struct span key_value_normalise(const struct key_term *term, struct span value,
                                struct key_scratch *scratch)
{
    struct span readings[VALUE_READINGS_MAX];
    size_t n;
    scratch->used = 0;
    if (term->source == KEY_HEADER) {
        return normalise_field(term, &value, scratch) ? value : SPAN("");
    }
    if (term->source == KEY_COOKIE &&
        cookie_decode(value_trim(value), scratch->bytes, sizeof(scratch->bytes), readings, &n)) {
        return readings[0];
    }
    return value;
}
