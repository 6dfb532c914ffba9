/* Whose request it is: the client's address as it may be believed. */

#ifndef SLUICE_PROXY_CLIENT_ADDRESS_H
#define SLUICE_PROXY_CLIENT_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "base/limits.h"
#include "base/span.h"
#include "http/field.h"
#include "http/head.h"
#include "policy/policy.h"

/* Who the client is: @peer, or, where @peer is a trusted proxy, the right-most address
 * in X-Forwarded-For, or else in Forwarded, that is not one. Garbage before that one
 * is found, or FORWARDED_HOPS_MAX trusted ones and more: @peer. What stands to the
 * left of it has no influence. */
struct address client_address_find(const struct policy *policy, const struct address *peer,
                                   const struct head *request);

/* --- for those who explain --- */

enum client_hop_kind {
    CLIENT_HOP_TRUSTED,    /* one of trusted_proxies: the next one is looked at */
    CLIENT_HOP_FOUND,      /* not one: the client */
    CLIENT_HOP_NO_ADDRESS, /* where one must stand: the peer counts */
    CLIENT_HOP_TOO_FAR,    /* more than FORWARDED_HOPS_MAX: the peer counts */
};

struct client_hop {
    enum client_hop_kind kind;
    struct span text;       /* as it stands in the field; empty with TOO_FAR */
    struct address address; /* of TRUSTED and FOUND */
};

/* What was looked at, and in what order, to find the client. */
struct client_walk {
    bool peer_is_trusted;                           /* else no field was read */
    enum field_id field;                            /* that was read */
    struct client_hop hops[FORWARDED_HOPS_MAX + 1]; /* the nearest first */
    size_t n_hops;
    size_t n_left; /* members of the field that nobody looked at, to the left of the last hop */
};

/* client_address_find(), and how it came to that. Texts are borrowed from @request. */
struct address client_address_walk(const struct policy *policy, const struct address *peer,
                                   const struct head *request, struct client_walk *walk);

#endif /* SLUICE_PROXY_CLIENT_ADDRESS_H */
