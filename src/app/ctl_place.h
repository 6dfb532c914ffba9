/* Where `sluice ctl` finds the proxy: as it is told, or as the policy says. */

#ifndef SLUICE_APP_CTL_PLACE_H
#define SLUICE_APP_CTL_PLACE_H

#include <stdbool.h>

#include "app/ctl_client.h"
#include "base/compiler.h"

/* What the command line says; NULL: nothing. */
struct ctl_options {
    const char *socket;     /* path of a unix socket */
    const char *url;        /* http://host:port */
    const char *policy;     /* a policy file, whose `admin` is meant */
    const char *token_file; /* with a token in its first line */
    bool is_json;
};

/* Find the place. Without one that is told: SLUICE_SOCKET or SLUICE_URL in the
 * environment, or the first of the `admin` listeners of the policy, a unix socket before
 * others, which is /etc/sluice/policy.yaml unless it is told. The token: of the file, or
 * of SLUICE_TOKEN, or of the policy's token_file where that can be read. False: @why says
 * to people what is wrong and what to do. */
MUST_USE bool ctl_place_find(const struct ctl_options *options, struct ctl_place *place,
                             char why[CTL_WHY_BYTES_MAX]);

/* After a 401 of @place, for people: which token is missing or wrong, and what to do. */
const char *ctl_place_unauthorized(const struct ctl_place *place);

#endif /* SLUICE_APP_CTL_PLACE_H */
