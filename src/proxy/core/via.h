/* The name of this process in Via, which detects requests that return to it.
 *
 * The name is random, so proxies in a chain do not mistake each other's requests for their own.
 *
 * Source: RFC 9110 sections 7.6 and 7.6.3. */

#ifndef SLUICE_PROXY_CORE_VIA_H
#define SLUICE_PROXY_CORE_VIA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/text.h"
#include "http/head.h"

enum {
    VIA_ID_BYTES = 6,
    VIA_NAME_BYTES = 7 + 2 * VIA_ID_BYTES,   /* "sluice-0123456789ab" */
    VIA_LINE_BYTES = 9 + VIA_NAME_BYTES + 2, /* "Via: 1.1 NAME\r\n" */
};

/* The protocol that a message was received by. */
enum via_protocol {
    VIA_HTTP_1_0, /* the minor version of HTTP/1 */
    VIA_HTTP_1_1,
    VIA_HTTP_2,
    VIA_PROTOCOLS,
};

/* Immutable once made. */
struct via {
    char lines[VIA_PROTOCOLS][VIA_LINE_BYTES]; /* by enum via_protocol */
};

void via_init(struct via *via, const uint8_t id[VIA_ID_BYTES]);

struct span via_name(const struct via *via);

/* Write this process's Via line for a message received by @protocol. */
void via_write(const struct via *via, enum via_protocol protocol, struct text *text);

/* Whether a Via field of @request contains @own_name: that process has forwarded it before. */
bool via_has_passed(struct span own_name, const struct head *request);

#endif /* SLUICE_PROXY_CORE_VIA_H */
