/* The name that this process has in Via, by which it knows a request that it has passed on before.
 *
 * The name is random: proxies that stand in a row are not taken for one another.
 *
 * Source: RFC 9110 sections 7.6 and 7.6.3. */

#ifndef SLUICE_PROXY_VIA_H
#define SLUICE_PROXY_VIA_H

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

/* Immutable once made. */
struct via {
    char lines[2][VIA_LINE_BYTES]; /* by the minor version of what was received */
};

void via_init(struct via *via, const uint8_t id[VIA_ID_BYTES]);

struct span via_name(const struct via *via);

/* Our own line for a message that was received as HTTP/1.@minor. */
void via_write(const struct via *via, uint8_t minor, struct text *text);

/* Whether a Via field of @request has our name: whoever writes it saw a request of ours. */
bool via_has_passed(const struct via *via, const struct head *request);

#endif /* SLUICE_PROXY_VIA_H */
