/* The client's address, with forwarding fields evaluated for trusted proxies only. */

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

/* Find the client's address. If @peer is not a trusted proxy, it is @peer. Otherwise it is the
 * right-most address in X-Forwarded-For, or else in Forwarded, that is not a trusted proxy; if all
 * are trusted, the left-most one. It is also @peer if the search from the right meets a member that
 * is no address, or has passed FORWARDED_HOPS_MAX members. Members further left are ignored. */
struct address client_address_find(const struct policy *policy, const struct address *peer,
                                   const struct head *request);

/* Whether @client, which client_address_find() has found or whose family is ADDRESS_NONE, stands
 * for one client: it is known, and no trusted proxy. */
bool client_address_is_own(const struct policy *policy, const struct address *client);

/* The field that names the client of a @request from a trusted proxy: X-Forwarded-For if it has a
 * member, else Forwarded. */
enum field_id client_address_field(const struct head *request);

/* --- explanation --- */

enum client_hop_kind {
    CLIENT_HOP_TRUSTED,    /* one of trusted_proxies: the walk goes on */
    CLIENT_HOP_FOUND,      /* not trusted: this is the client */
    CLIENT_HOP_NO_ADDRESS, /* no valid address: the peer is the client */
    CLIENT_HOP_TOO_FAR,    /* more than FORWARDED_HOPS_MAX hops: the peer is the client */
};

struct client_hop {
    enum client_hop_kind kind;
    struct span text;       /* the member of the field; empty with TOO_FAR */
    struct address address; /* valid with TRUSTED and FOUND */
};

/* The steps by which the client's address was found. */
struct client_walk {
    bool peer_is_trusted;                           /* false: no field was read */
    enum field_id field;                            /* the field that was read */
    struct client_hop hops[FORWARDED_HOPS_MAX + 1]; /* the nearest first */
    size_t n_hops;
    size_t n_left; /* members to the left of the last hop, which were not examined */
};

/* The same as client_address_find(), and record the steps in @walk. Texts are borrowed from
 * @request. */
struct address client_address_walk(const struct policy *policy, const struct address *peer,
                                   const struct head *request, struct client_walk *walk);

#endif /* SLUICE_PROXY_CLIENT_ADDRESS_H */
