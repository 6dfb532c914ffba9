/* The methods of the IANA HTTP Method Registry (RFC 9110 section 16.1). The method of a head is
 * looked up once.
 *
 * Methods are case-sensitive (RFC 9110 section 9.1), but some servers ignore case. */

#ifndef SLUICE_HTTP_METHOD_H
#define SLUICE_HTTP_METHOD_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/span.h"

/* X(ID, "name", idempotent, so that it may be retried: RFC 9110 section 9.2.2), frequent methods
 * first. Methods of WebDAV and similar extensions are not retried, whatever the registry says. */
#define METHOD_LIST(X)                                                                             \
    X(GET, "GET", true)                                                                            \
    X(POST, "POST", false)                                                                         \
    X(PUT, "PUT", true)                                                                            \
    X(HEAD, "HEAD", true)                                                                          \
    X(DELETE, "DELETE", true)                                                                      \
    X(PATCH, "PATCH", false)                                                                       \
    X(OPTIONS, "OPTIONS", true)                                                                    \
    X(TRACE, "TRACE", true)                                                                        \
    X(CONNECT, "CONNECT", false)                                                                   \
    X(QUERY, "QUERY", false)                                                                       \
    X(ACL, "ACL", false)                                                                           \
    X(BASELINE_CONTROL, "BASELINE-CONTROL", false)                                                 \
    X(BIND, "BIND", false)                                                                         \
    X(CHECKIN, "CHECKIN", false)                                                                   \
    X(CHECKOUT, "CHECKOUT", false)                                                                 \
    X(COPY, "COPY", false)                                                                         \
    X(LABEL, "LABEL", false)                                                                       \
    X(LINK, "LINK", false)                                                                         \
    X(LOCK, "LOCK", false)                                                                         \
    X(MERGE, "MERGE", false)                                                                       \
    X(MKACTIVITY, "MKACTIVITY", false)                                                             \
    X(MKCALENDAR, "MKCALENDAR", false)                                                             \
    X(MKCOL, "MKCOL", false)                                                                       \
    X(MKREDIRECTREF, "MKREDIRECTREF", false)                                                       \
    X(MKWORKSPACE, "MKWORKSPACE", false)                                                           \
    X(MOVE, "MOVE", false)                                                                         \
    X(ORDERPATCH, "ORDERPATCH", false)                                                             \
    X(PRI, "PRI", false)                                                                           \
    X(PROPFIND, "PROPFIND", false)                                                                 \
    X(PROPPATCH, "PROPPATCH", false)                                                               \
    X(REBIND, "REBIND", false)                                                                     \
    X(REPORT, "REPORT", false)                                                                     \
    X(SEARCH, "SEARCH", false)                                                                     \
    X(UNBIND, "UNBIND", false)                                                                     \
    X(UNCHECKOUT, "UNCHECKOUT", false)                                                             \
    X(UNLINK, "UNLINK", false)                                                                     \
    X(UNLOCK, "UNLOCK", false)                                                                     \
    X(UPDATE, "UPDATE", false)                                                                     \
    X(UPDATEREDIRECTREF, "UPDATEREDIRECTREF", false)                                               \
    X(VERSION_CONTROL, "VERSION-CONTROL", false)

enum method_id {
    METHOD_OTHER, /* not registered */
#define METHOD_ENUM(id, name, is_idempotent) METHOD_##id,
    METHOD_LIST(METHOD_ENUM)
#undef METHOD_ENUM
        METHOD_COUNT,
};

/* The registered method with exactly this name, or METHOD_OTHER. The most frequent is compared in
 * place. */
MUST_USE enum method_id method_identify_other(struct span name);
MUST_USE static inline enum method_id method_identify(struct span name)
{
    return LIKELY(span_equals(name, SPAN("GET"))) ? METHOD_GET : method_identify_other(name);
}

/* The registered method with this name if case is ignored. METHOD_OTHER: none. */
MUST_USE enum method_id method_find_ignoring_case(struct span name);

/* The name of @id, which is not METHOD_OTHER. Static. */
struct span method_name(enum method_id id);

/* The reason for refusing a method that differs from @id in case only. Static. */
const char *method_case_refusal(enum method_id id);

/* Whether a request with the method @id may be retried. */
bool method_is_idempotent(enum method_id id);

#endif /* SLUICE_HTTP_METHOD_H */
