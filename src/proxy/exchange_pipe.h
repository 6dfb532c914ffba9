/* Pieces of an exchange's bodies that nobody reads, since they are long: see net/pipe.h. Each of a
 * body of known length whose head has gone out, and not its last. */

#ifndef SLUICE_PROXY_EXCHANGE_PIPE_H
#define SLUICE_PROXY_EXCHANGE_PIPE_H

#include <stdbool.h>

#include "base/compiler.h"

struct exchange;
struct pipe;

/* Whether exchange_on_pipe() may be called, where exchange_on_body() may: the server keeps up, and
 * a pipe is not filled for nothing. One system call, but for @has_taken_one: the server has just
 * taken a whole pipe in this turn of the loop, and is not asked again. */
MUST_USE bool exchange_takes_pipe(const struct exchange *exchange, bool has_taken_one);

/* As exchange_on_body(), with what is in @pipe. */
MUST_USE bool exchange_on_pipe(struct exchange *exchange, struct pipe *pipe);

/* As exchange_on_upstream_body(), likewise; no head is pending. */
MUST_USE bool exchange_on_upstream_pipe(struct exchange *exchange, struct pipe *pipe);

#endif /* SLUICE_PROXY_EXCHANGE_PIPE_H */
