/* Whether an exchange waits for its client's body. */

#ifndef SLUICE_PROXY_EXCHANGE_EXCHANGE_BODY_WAIT_H
#define SLUICE_PROXY_EXCHANGE_EXCHANGE_BODY_WAIT_H

#include <stdbool.h>

struct exchange;

/* Whether it is a call of gRPC by HTTP/2 on both sides, which may both be silent for long. Only the
 * chosen connection tells what its server speaks. */
bool exchange_is_call(const struct exchange *exchange);

/* Whether the exchange, in any state, waits for more of the body to send to the server. */
bool exchange_waits_for_body(const struct exchange *exchange);

#endif /* SLUICE_PROXY_EXCHANGE_EXCHANGE_BODY_WAIT_H */
