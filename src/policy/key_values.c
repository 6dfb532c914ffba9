#include "policy/key_values.h"

#include "http/grpc.h"
#include "http/octet.h"
#include "http/target.h"
#include "http/values.h"
#include "jwt/token.h"
#include "policy/key_sources.h"
#include "tls/client_certificate.h"

enum {
    CERTIFICATE_HASH_DIGITS = 64,
    PATH_SHOWN_BYTES_MAX = 64, /* in a problem */
};

/* The state of reading the values of one term. */
struct reading {
    const struct key_term *term;
    struct key_values *values;
    enum key_duplicates duplicates;
    size_t first;   /* index of the term's first value */
    bool has_empty; /* it is also there with an empty value, or missing to some servers */
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

typedef struct span read_one_fn(const struct key_term *term, const struct request_view *request,
                                char buffer[ADDRESS_TEXT_MAX]);

void key_write_client(const struct key_term *term, const struct address *client, struct text *text)
{
    const bool is_ipv6 = client->family == ADDRESS_IPV6;
    const uint8_t bits = key_client_bits(term, client);
    const struct address masked = address_mask(*client, bits);
    address_write(&masked, text);
    if (is_ipv6 && bits != KEY_IPV6_BITS_DEFAULT) {
        text_add_char(text, '/');
        text_add_u64(text, bits);
    }
}

static struct span read_client(const struct key_term *term, const struct request_view *request,
                               char buffer[ADDRESS_TEXT_MAX])
{
    struct text text = text_of(buffer, ADDRESS_TEXT_MAX);
    if (request->client.family == ADDRESS_NONE) {
        return SPAN("");
    }
    key_write_client(term, &request->client, &text);
    return text_span(&text);
}

static struct span read_country(const struct key_term *term, const struct request_view *request,
                                char *buffer)
{
    (void)term;
    (void)buffer;
    return geo_country(&request->geo);
}

static struct span read_asn(const struct key_term *term, const struct request_view *request,
                            char buffer[ADDRESS_TEXT_MAX])
{
    struct text text = text_of(buffer, ADDRESS_TEXT_MAX);
    (void)term;
    if (request->geo.asn != 0) {
        text_add_u64(&text, request->geo.asn);
    }
    return text_span(&text);
}

static struct span read_certificate(const struct key_term *term, const struct request_view *request,
                                    char *buffer)
{
    (void)buffer;
    if (request->tls == NULL || request->tls->certificate == NULL) {
        return SPAN("");
    }
    const struct client_certificate *certificate = request->tls->certificate;
    return term->source == KEY_CLIENT_CERT && certificate->identity.len > 0
               ? certificate->identity
               : certificate->facts[KEY_SOURCE_ROWS[term->source].detail];
}

static struct span read_ja4(const struct key_term *term, const struct request_view *request,
                            char *buffer)
{
    (void)term;
    (void)buffer;
    return request->tls != NULL ? request->tls->ja4 : SPAN("");
}

static struct span read_path(const struct key_term *term, const struct request_view *request,
                             char *buffer)
{
    (void)term;
    (void)buffer;
    return request->path->text;
}

static struct span read_segment(const struct key_term *term, const struct request_view *request,
                                char *buffer)
{
    (void)buffer;
    return term->number <= request->path->n_segments ? request->path->segments[term->number - 1]
                                                     : SPAN("");
}

static struct span read_capture(const struct key_term *term, const struct request_view *request,
                                char *buffer)
{
    (void)buffer;
    for (size_t i = 0; i < request->n_captures; i++) {
        if (span_equals(request->capture_names[i], term->name)) {
            return request->captures[i];
        }
    }
    return SPAN("");
}

static struct span read_method(const struct key_term *term, const struct request_view *request,
                               char *buffer)
{
    (void)term;
    (void)buffer;
    return request->method;
}

static struct span read_host(const struct key_term *term, const struct request_view *request,
                             char *buffer)
{
    (void)term;
    (void)buffer;
    return request->host;
}

static struct span read_route(const struct key_term *term, const struct request_view *request,
                              char *buffer)
{
    (void)term;
    (void)buffer;
    return request->route;
}

static struct span read_claim(const struct key_term *term, const struct request_view *request,
                              char *buffer)
{
    (void)buffer;
    return request->claims != NULL ? jwt_claim_text(&request->claims->claims[term->claim])
                                   : SPAN("");
}

static struct span read_all(const struct key_term *term, const struct request_view *request,
                            char *buffer)
{
    (void)term;
    (void)request;
    (void)buffer;
    return SPAN("all");
}

/* --- signed tokens --- */

/* Whether @value may be a signed token: the ordinary case costs a comparison of its first bytes. */
static bool may_be_signed(struct span value)
{
    return UNLIKELY(signed_value_begins(value));
}

/* --- fields --- */

/* The first word of @span, up to a blank. To Python NEL and the no-break space of Latin-1 are
 * blanks, too. */
static struct span first_word(struct span span)
{
    static const char BLANKS[] = {' ', '\t', '\x85', '\xa0'};
    for (size_t i = 0; i < sizeof(BLANKS); i++) {
        span.len = span_find(span, BLANKS[i]);
    }
    return span;
}

/* Whether @rest, what follows the scheme of credentials, is several words of which the first may be
 * all that a server takes. Only lists of parameters may have blanks (RFC 9110 section 11.4): these
 * have a "=" that no padding is. A letter at the end whose last bytes are blanks of Latin-1 is no
 * word. */
static bool has_extra_words(struct span rest)
{
    const struct span word = first_word(rest);
    size_t padding = word.len;
    while (padding > 0 && word.data[padding - 1] == '=') {
        padding--;
    }
    return word.len < rest.len && value_trim(span_from(rest, word.len)).len > 0 &&
           span_find(span_of(word.data, padding), '=') == padding;
}

static bool starts_with_word(struct span text, struct span word)
{
    return text.len >= word.len && span_equals_ignore_case(span_of(text.data, word.len), word);
}

/* Whether the scheme Bearer stands somewhere in @text, in any case: there are servers that search
 * for it, and take what follows, or what is left without it. */
static bool holds_bearer(struct span text)
{
    for (const char *letter = "bB"; *letter != '\0'; letter++) {
        struct span rest = span_from(text, span_find(text, *letter));
        while (rest.len > 0) {
            if (starts_with_word(rest, SPAN("bearer"))) {
                return true;
            }
            rest = span_from(rest, 1);
            rest = span_from(rest, span_find(rest, *letter));
        }
    }
    return false;
}

/* Credentials of the scheme Bearer or Token: Rails parts them at "," and ";" and removes quotes and
 * the name `token`. False: something is left of what it would remove. */
static bool cut_token(struct span *token)
{
    const struct span name = SPAN("token=");
    if (starts_with_word(*token, name)) {
        *token = span_from(*token, name.len);
        if (token->len > 2 && token->data[0] == '"' && token->data[token->len - 1] == '"') {
            *token = span_of(token->data + 1, token->len - 2);
        }
    }
    return span_find(*token, ',') == token->len && span_find(*token, ';') == token->len &&
           span_find(*token, '"') == token->len;
}

/* Of credentials what follows the scheme counts: many servers never look at the scheme. False: no
 * room, or servers disagree on them. */
static bool normalise_credentials(struct span *credentials, struct key_scratch *scratch)
{
    const struct span value = *credentials;
    const struct span scheme = first_word(value);
    const struct span rest = value_trim(span_from(value, scheme.len));
    const bool is_bearer = span_equals_ignore_case(scheme, SPAN("bearer"));
    if (UNLIKELY(has_extra_words(rest)) || holds_bearer(is_bearer ? rest : value) ||
        field_has_encoded_word(value)) {
        return false;
    }
    *credentials = rest.len > 0 ? rest : value; /* which may end in such a letter */
    if ((is_bearer || span_equals_ignore_case(scheme, SPAN("token"))) && !cut_token(credentials)) {
        return false;
    }
    return !may_be_signed(*credentials) || signed_normalise(credentials, 0, false, scratch);
}

/* False: no room, or servers disagree on it. */
static bool normalise_field(const struct key_term *term, struct span *value,
                            struct key_scratch *scratch)
{
    *value = value_trim(*value);
    if (UNLIKELY(term->is_binary)) {
        *value = grpc_unpadded(*value);
    }
    if (may_be_signed(*value)) {
        return signed_normalise(value, 0, false, scratch);
    }
    return !term->is_credentials || normalise_credentials(value, scratch);
}

/* False: no more are wanted. */
static bool add_line(struct reading *reading, struct span value, struct key_scratch *scratch)
{
    if (!normalise_field(reading->term, &value, scratch)) {
        reading->is_refused = true;
        return false;
    }
    return add(reading, value);
}

/* The same for a field of binary values: each member of the list is a field to servers of gRPC, and
 * an empty one is none. */
static NEVER_INLINE bool add_members(struct reading *reading, struct span list,
                                     struct key_scratch *scratch)
{
    struct span member = SPAN("");
    (void)field_list_next(&list, &member);
    do {
        if (!add_line(reading, member, scratch)) {
            return false;
        }
    } while (field_list_next(&list, &member));
    return true;
}

static void read_header(struct reading *reading, const struct request_view *request,
                        struct key_scratch *scratch)
{
    const struct head *head = request->head;
    const struct span name = reading->term->name;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct field *field = &head->fields[i];
        if (field->name.len != name.len || !span_equals_ignore_case(field->name, name)) {
            continue;
        }
        if (!(UNLIKELY(reading->term->is_binary) ? add_members(reading, field->value, scratch)
                                                 : add_line(reading, field->value, scratch))) {
            return;
        }
    }
}

/* --- cookies and parameters --- */

static void read_named(struct reading *reading, const struct request_view *request,
                       struct key_scratch *scratch)
{
    struct named_values alone;
    const struct named_values *found =
        named_values_read(reading->term, request->head, request->named, scratch, &alone);
    reading->has_empty = found->has_empty;
    reading->is_refused = found->is_refused;
    for (size_t i = 0; i < found->n && !reading->is_refused; i++) {
        (void)add(reading, found->items[i]);
    }
}

/* --- a part --- */

typedef void read_each_fn(struct reading *reading, const struct request_view *request,
                          struct key_scratch *scratch);

static read_each_fn read_position;

/* The reader of each source: one of the two is NULL. */
static const struct {
    read_one_fn *one;
    read_each_fn *each;
} READERS[KEY_SOURCES] = {
#define ONE(reader) .one = read_##reader
#define EACH(reader) .each = read_##reader
#define KEY_SOURCE_READER(id, name, word, naming, origin, detail, values, reader, pattern)         \
    [KEY_##id] = {reader},
    KEY_SOURCE_LIST(KEY_SOURCE_READER)
#undef KEY_SOURCE_READER
};

static void read_term(struct reading *reading, const struct request_view *request,
                      struct key_scratch *scratch)
{
    const enum key_source source = reading->term->source;
    if (READERS[source].each != NULL) {
        READERS[source].each(reading, request, scratch);
        return;
    }
    (void)add(reading, READERS[source].one(reading->term, request, scratch->address));
}

/* Whether several values under @source are counted each. */
static bool may_differ(enum key_source source, enum key_duplicates duplicates)
{
    const bool is_cookie = KEY_SOURCE_ROWS[source].origin == KEY_FROM_COOKIE;
    return READERS[source].each != NULL && (duplicates == KEY_DUPLICATES_EACH ||
                                            (duplicates == KEY_DUPLICATES_COOKIES && is_cookie));
}

bool key_term_may_differ(const struct key_term *term, enum key_duplicates duplicates)
{
    const struct key_position *position = term->position;
    return may_differ(term->source, duplicates) ||
           (position != NULL && (may_differ(position->latitude.source, duplicates) ||
                                 may_differ(position->longitude.source, duplicates)));
}

/* --- positions --- */

/* Read the values of one coordinate. False: @reading is refused, or the coordinate is missing. */
static bool read_coordinate(struct reading *reading, const struct key_term *term,
                            const struct request_view *request, struct key_scratch *scratch,
                            struct key_values *values)
{
    struct reading own = {.term = term, .values = values, .duplicates = reading->duplicates};
    values->n = 0;
    READERS[term->source].each(&own, request, scratch);
    reading->has_empty = reading->has_empty || own.has_empty || values->n == 0;
    reading->is_refused = own.is_refused || (values->n + own.has_empty > 1 &&
                                             !may_differ(term->source, reading->duplicates));
    return !reading->is_refused && values->n > 0;
}

/* Add the cell of a point. False: no more are wanted. */
static bool add_cell(struct reading *reading, struct span latitude, struct span longitude,
                     struct key_scratch *scratch)
{
    const size_t characters = reading->term->number;
    char *cell = scratch->bytes + scratch->used;
    if (sizeof(scratch->bytes) - scratch->used < GEOHASH_CHARACTERS_MAX) {
        reading->is_refused = true;
        return false;
    }
    if (!geohash_write(latitude, longitude, characters, cell)) {
        reading->has_empty = true;
        return true;
    }
    scratch->used += characters;
    return add(reading, span_of(cell, characters));
}

/* The cell of each pair of coordinates that servers may read. */
static void read_position(struct reading *reading, const struct request_view *request,
                          struct key_scratch *scratch)
{
    const struct key_position *position = reading->term->position;
    struct key_values latitudes;
    struct key_values longitudes;
    if (!read_coordinate(reading, &position->latitude, request, scratch, &latitudes) ||
        !read_coordinate(reading, &position->longitude, request, scratch, &longitudes)) {
        return;
    }
    for (size_t i = 0; i < latitudes.n * longitudes.n; i++) {
        if (!add_cell(reading, latitudes.items[i / longitudes.n].value,
                      longitudes.items[i % longitudes.n].value, scratch)) {
            return;
        }
    }
}

bool key_values_read_one(const struct key_part *part, const struct request_view *request,
                         char buffer[ADDRESS_TEXT_MAX], struct key_value *value)
{
    const struct key_term *term = &part->terms[0];
    if (part->n_terms > 1 || READERS[term->source].one == NULL) {
        return false;
    }
    value->value = READERS[term->source].one(term, request, buffer);
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
        struct reading reading = {.term = &part->terms[i],
                                  .values = values,
                                  .duplicates = duplicates,
                                  .first = values->n};
        read_term(&reading, request, scratch);
        const size_t n = values->n - reading.first;
        if (reading.is_refused ||
            (n + reading.has_empty > 1 && !key_term_may_differ(reading.term, duplicates))) {
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

/* --- values that operators write --- */

static bool refuse_ambiguous(struct text *problem)
{
    return text_refuse(problem, "servers read it in several ways, so requests with it are refused");
}

static bool normalise_named(bool is_cookie, struct span *value, struct key_scratch *scratch,
                            struct text *problem)
{
    struct span readings[VALUE_READINGS_MAX];
    size_t n;
    if (!(is_cookie ? cookie_decode : query_decode)(value_trim(*value), scratch->bytes,
                                                    sizeof(scratch->bytes), readings, &n)) {
        return refuse_ambiguous(problem);
    }
    *value = value_trim(readings[0]);
    if (readings[0].data == scratch->bytes) {
        scratch->used = (size_t)(value->data + value->len - scratch->bytes);
    }
    return !may_be_signed(*value) || signed_normalise(value, 0, is_cookie, scratch) ||
           refuse_ambiguous(problem);
}

/* Normalise @path as that of a request. Returns NULL, or a static phrase. */
static const char *normalise_whole_path(struct span *path, bool ignores_case, bool is_segment,
                                        struct key_scratch *scratch)
{
    const struct path_rules rules = {.allow_encoded_slash = true, .ignore_case = ignores_case};
    char *buffer = scratch->bytes + scratch->used;
    struct path normal;
    const char *fault = path_normalise(*path, &rules, buffer, &normal);
    if (fault == NULL && is_segment && (normal.n_segments != 1 || normal.climbs)) {
        fault = "a segment has no slash and is no \"..\"";
    }
    *path = is_segment && fault == NULL ? normal.segments[0] : normal.text;
    return fault;
}

/* The path of a request for what an operator wrote, in @scratch: escapes stand in place of blanks,
 * of octets beyond ASCII and of others that no target has, and there is no query. */
static struct span escape_path(struct span written, bool is_segment, struct key_scratch *scratch)
{
    struct text path = text_of(scratch->bytes, sizeof(scratch->bytes));
    if (is_segment) {
        text_add_char(&path, '/');
    }
    for (size_t i = 0; i < written.len && written.data[i] != '?' && written.data[i] != '#'; i++) {
        const char c = written.data[i];
        if (c > ' ' && c < 0x7f) {
            text_add_char(&path, c);
        } else {
            text_add_format(&path, "%%%02X", (unsigned)(unsigned char)c);
        }
    }
    scratch->used = path.len;
    return text_span(&path);
}

/* A path, or, if it @is_segment, one segment of one. */
static bool normalise_path(struct span *value, bool is_segment, bool ignores_case,
                           struct key_scratch *scratch, struct text *problem)
{
    struct span path = escape_path(*value, is_segment, scratch);
    const bool is_path = path.len == value->len + is_segment;
    const char *fault = normalise_whole_path(&path, ignores_case, is_segment, scratch);
    if (fault != NULL) {
        return text_refuse(problem, "%s", fault);
    }
    if (!is_path) {
        text_add_format(problem, "no request has such a %s: write ",
                        is_segment ? "segment" : "path");
        if (path.len == 0) {
            return text_refuse(problem, "none");
        }
        const bool is_long = path.len > PATH_SHOWN_BYTES_MAX;
        text_add_char(problem, '"');
        text_add(problem, span_of(path.data, is_long ? PATH_SHOWN_BYTES_MAX : path.len));
        text_add(problem, is_long ? SPAN("\xe2\x80\xa6\"") : SPAN("\""));
        return false;
    }
    *value = path;
    return true;
}

static bool normalise_host(struct span *value, struct key_scratch *scratch, struct text *problem)
{
    const struct span host =
        target_is_host(*value) ? target_normalise_host(*value, scratch->bytes) : SPAN("");
    if (host.len == 0 || host.data[host.len - 1] == '.') {
        return text_refuse(problem,
                           "host is a name or an address, as api.example.com or [2001:db8::1]");
    }
    *value = host;
    return true;
}

/* The letters of @value in lower case; without colons if it @is_hash, of hex digits. */
static bool normalise_certificate(struct span *value, bool is_hash, struct key_scratch *scratch,
                                  struct text *problem)
{
    struct text text = text_of(scratch->bytes, sizeof(scratch->bytes));
    bool is_sound = true;
    for (size_t i = 0; i < value->len; i++) {
        const char c = ascii_lower(value->data[i]);
        if (!is_hash || c != ':') {
            text_add_char(&text, c);
            is_sound = is_sound && octet_is(c, OCTET_HEX);
        }
    }
    *value = text_span(&text);
    return !is_hash || (is_sound && text.len == CERTIFICATE_HASH_DIGITS) ||
           text_refuse(problem, "client.cert is %d hex digits, a SHA-256", CERTIFICATE_HASH_DIGITS);
}

bool key_value_normalise(const struct key_term *term, bool ignores_case, struct span *value,
                         struct key_scratch *scratch, struct text *problem)
{
    const enum key_origin origin = KEY_SOURCE_ROWS[term->source].origin;
    scratch->used = 0;
    if (value->len == 0) {
        return true;
    }
    switch (origin) {
    case KEY_FROM_HEADER:
        return normalise_field(term, value, scratch) || refuse_ambiguous(problem);
    case KEY_FROM_COOKIE:
    case KEY_FROM_QUERY:
        return normalise_named(origin == KEY_FROM_COOKIE, value, scratch, problem);
    case KEY_FROM_PATH:
        return normalise_path(value, term->source != KEY_PATH, ignores_case, scratch, problem);
    case KEY_FROM_HOST:
        return normalise_host(value, scratch, problem);
    case KEY_FROM_CERTIFICATE:
        return (term->source != KEY_CLIENT_CERT && term->source != KEY_CLIENT_CERT_DNS) ||
               normalise_certificate(value, term->source == KEY_CLIENT_CERT, scratch, problem);
    case KEY_FROM_ADDRESS:
    case KEY_FROM_DATABASE:
    case KEY_FROM_HANDSHAKE:
    case KEY_FROM_METHOD:
    case KEY_FROM_TOKEN:
    case KEY_FROM_POSITION:
    case KEY_FROM_POLICY:
        break;
    }
    return true;
}
