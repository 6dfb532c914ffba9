/* The resolver options and name servers of a policy. */

#ifndef SLUICE_APP_NAME_SERVERS_H
#define SLUICE_APP_NAME_SERVERS_H

#include "net/resolver.h"
#include "policy/policy.h"

struct name_servers {
    struct resolver_address addresses[NAME_SERVERS_MAX];
    struct resolver_options options; /* refers to the addresses */
};

void name_servers_init(struct name_servers *servers, const struct policy *policy);

#endif /* SLUICE_APP_NAME_SERVERS_H */
