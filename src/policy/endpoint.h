/* Places to listen and to connect to, as the policy writes them. */

#ifndef SLUICE_POLICY_ENDPOINT_H
#define SLUICE_POLICY_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/policy.h"

/* All of these: the spans of the result are parts of @span or static, and not terminated. False:
 * @problem says what is wrong, fit to follow `"VALUE": `. */

/* `host:port` or `[v6]:port` behind a scheme; @port_default where none stands, 0: one must. */
MUST_USE bool endpoint_parse_authority(struct span span, uint16_t port_default,
                                       struct endpoint *endpoint, struct text *problem);

/* `address:port` or `unix:/path`: where to listen; port 0 lets the kernel choose. */
MUST_USE bool endpoint_parse_listen(struct span span, struct endpoint *endpoint,
                                    struct text *problem);

/* `address` or `address:port`: a name server; port 53 where none stands. */
MUST_USE bool endpoint_parse_name_server(struct span span, struct endpoint *endpoint,
                                         struct text *problem);

/* `http://host[:port]` or `unix:/path`: a server of an upstream. */
MUST_USE bool endpoint_parse_server(struct span span, struct endpoint *endpoint,
                                    struct text *problem);

/* Remove the scheme, everything up to "://", from @span, and the "://"; empty where there is none.
 */
struct span endpoint_cut_scheme(struct span *span);

#endif /* SLUICE_POLICY_ENDPOINT_H */
