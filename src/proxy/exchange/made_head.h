/* Answers to a POST of which the server may have made a HEAD, as Rack::MethodOverride does: the
 * handler may work on behind them. They are a success, say what they are of, and have no body; or,
 * where the server packs what its handlers say, that of nothing, as of Rack::Deflater. */

#ifndef SLUICE_PROXY_EXCHANGE_MADE_HEAD_H
#define SLUICE_PROXY_EXCHANGE_MADE_HEAD_H

#include <stdbool.h>
#include <stdint.h>

struct head;

enum made_head {
    MADE_HEAD_NONE,   /* it is none, whatever its body */
    MADE_HEAD_PLAIN,  /* it may be one, if its body is empty */
    MADE_HEAD_PACKED, /* likewise, as its Content-Encoding says it */
};

enum made_head made_head_of(const struct head *response);

/* Whether an answer of @kind with @body_bytes is one. */
bool made_head_is_empty(enum made_head kind, uint64_t body_bytes);

#endif /* SLUICE_PROXY_EXCHANGE_MADE_HEAD_H */
