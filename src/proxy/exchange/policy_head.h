/* The head of a request as its policy reads it: a field that the server does not get as the peer
 * sent it is absent. Else clients could choose their routes, keys and costs by values that no
 * server sees. */

#ifndef SLUICE_PROXY_EXCHANGE_POLICY_HEAD_H
#define SLUICE_PROXY_EXCHANGE_POLICY_HEAD_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/span.h"
#include "http/head.h"

/* @head, of a peer that is trusted or not, as the policy reads it: @head itself, or a copy of it in
 * @arena that borrows names and values. NULL: no memory. */
MUST_USE const struct head *policy_head_make(const struct head *head, bool peer_is_trusted,
                                             struct arena *arena);

/* The id that a trusted proxy gave the request; empty: none, or none that is passed on. */
struct span policy_head_request_id(const struct head *head);

#endif /* SLUICE_PROXY_EXCHANGE_POLICY_HEAD_H */
