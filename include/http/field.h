/* Header fields: the fields that sluice knows by name, and the syntax of names, values and lists.
 *
 * Source: RFC 9110 section 5. */

#ifndef SLUICE_HTTP_FIELD_H
#define SLUICE_HTTP_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"

/* X(ID, first letter, "name as written"). No two share both length and
 * first letter: see field.c. */
#define FIELD_LIST(X)                                                                              \
    X(HOST, 'H', "Host")                                                                           \
    X(HTTP2_SETTINGS, 'H', "HTTP2-Settings")                                                       \
    X(CONNECTION, 'C', "Connection")                                                               \
    X(CONTENT_LENGTH, 'C', "Content-Length")                                                       \
    X(TRANSFER_ENCODING, 'T', "Transfer-Encoding")                                                 \
    X(TE, 'T', "TE")                                                                               \
    X(TRAILER, 'T', "Trailer")                                                                     \
    X(UPGRADE, 'U', "Upgrade")                                                                     \
    X(KEEP_ALIVE, 'K', "Keep-Alive")                                                               \
    X(PROXY_CONNECTION, 'P', "Proxy-Connection")                                                   \
    X(PROXY_AUTHENTICATE, 'P', "Proxy-Authenticate")                                               \
    X(PROXY_AUTHORIZATION, 'P', "Proxy-Authorization")                                             \
    X(PROXY, 'P', "Proxy")                                                                         \
    X(EXPECT, 'E', "Expect")                                                                       \
    X(MAX_FORWARDS, 'M', "Max-Forwards")                                                           \
    X(VIA, 'V', "Via")                                                                             \
    X(FORWARDED, 'F', "Forwarded")                                                                 \
    X(X_FORWARDED_FOR, 'X', "X-Forwarded-For")                                                     \
    X(X_FORWARDED_PROTO, 'X', "X-Forwarded-Proto")                                                 \
    X(X_FORWARDED_HOST, 'X', "X-Forwarded-Host")                                                   \
    X(X_REAL_IP, 'X', "X-Real-IP")                                                                 \
    X(X_REQUEST_ID, 'X', "X-Request-ID")                                                           \
    X(CLIENT_CERT, 'C', "Client-Cert")                                                             \
    X(CLIENT_CERT_CHAIN, 'C', "Client-Cert-Chain")                                                 \
    X(EARLY_DATA, 'E', "Early-Data")                                                               \
    X(COOKIE, 'C', "Cookie")                                                                       \
    X(DATE, 'D', "Date")                                                                           \
    X(SERVER, 'S', "Server")                                                                       \
    X(RATELIMIT, 'R', "RateLimit")                                                                 \
    X(RATELIMIT_POLICY, 'R', "RateLimit-Policy")                                                   \
    X(RETRY_AFTER, 'R', "Retry-After")

enum field_id {
    FIELD_OTHER,
#define FIELD_ENUM(id, letter, name) FIELD_##id,
    FIELD_LIST(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_ID_COUNT,
};

/* One field line. */
struct field {
    struct span name;  /* as received */
    struct span value; /* without the white space around it */
    enum field_id id;
    bool hop_by_hop; /* not forwarded: hop-by-hop by definition, or named by Connection */
    bool is_line;    /* "name: value" and CR LF stand in memory like this, @name at the front */
};

/* The id of a field name; case is ignored. */
enum field_id field_identify(struct span name);

/* Whether a field is always hop-by-hop, even if Connection does not name it. Trailer is one: it
 * announces trailers, which are dropped. So is Proxy, by which CGI programs would choose their own
 * proxy (httpoxy). */
static inline bool field_is_hop_by_hop(enum field_id id)
{
    const uint64_t ids = UINT64_C(1) << FIELD_CONNECTION | UINT64_C(1) << FIELD_KEEP_ALIVE |
                         UINT64_C(1) << FIELD_PROXY_CONNECTION |
                         UINT64_C(1) << FIELD_PROXY_AUTHENTICATE |
                         UINT64_C(1) << FIELD_PROXY_AUTHORIZATION | UINT64_C(1) << FIELD_PROXY |
                         UINT64_C(1) << FIELD_TE | UINT64_C(1) << FIELD_TRANSFER_ENCODING |
                         UINT64_C(1) << FIELD_UPGRADE | UINT64_C(1) << FIELD_TRAILER |
                         UINT64_C(1) << FIELD_HTTP2_SETTINGS;
    return (ids >> id & 1) != 0;
}

/* The name as spelled in the list above; not for FIELD_OTHER. */
struct span field_name(enum field_id id);

/* RFC 9110 section 5.6.2: at least one tchar, nothing else. */
bool field_is_token(struct span span);

/* No control byte but HTAB; bytes >= 0x80 pass. */
bool field_is_value(struct span span);

/* Whether @value has an encoded word (RFC 2047), as =?utf-8?q?a?=. */
bool field_has_encoded_word(struct span value);

/* Remove the next member from the front of a comma-separated list (RFC 9110 section 5.6.1). It is
 * trimmed; empty members are skipped; commas inside "quoted strings" do not separate. False: no
 * member is left. */
bool field_list_next(struct span *rest, struct span *member);

/* Whether @value, a comma-separated list, contains @member; case is ignored. */
bool field_list_has(struct span value, struct span member);

/* Whether @name, with `_`, `.` and all punctuation read as `-`, is the name of a field that frames
 * or identifies a message, or is a CGI variable that gunicorn takes from a field (rule 20). Servers
 * take such a field for the real one, so it is refused. */
bool field_is_underscore_variant(struct span name);

#endif /* SLUICE_HTTP_FIELD_H */
