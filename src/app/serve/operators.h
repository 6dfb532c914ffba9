/* The admin API of a serving process: made if the policy or the command line names a listener. */

#ifndef SLUICE_APP_SERVE_OPERATORS_H
#define SLUICE_APP_SERVE_OPERATORS_H

#include "admin/admin.h"
#include "app/serve/stores.h"
#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server.h"

struct reload_requests;

struct operators {
    struct stores *stores; /* borrowed */
    struct admin *admin;   /* NULL: no listener is named */
};

/* Everything is borrowed until operators_close(). */
struct operators_options {
    const struct policy *policy; /* the first */
    const char *policy_path;
    const struct listener_section *control; /* as in struct admin_options */
    const struct meters *meters;
    struct stores *stores;
    struct bans *bans;
    struct server *server;
    struct reload_requests *requests;
};

/* Open the admin listeners without serving yet. Failures are logged. Returns as
 * admin_new(). */
MUST_USE enum status operators_open(struct operators *operators,
                                    const struct operators_options *options);

/* Start serving. STATUS_NO_MEMORY. */
MUST_USE enum status operators_start(struct operators *operators);

/* Stop the admin API, if it runs, and free it. */
void operators_close(struct operators *operators);

#endif /* SLUICE_APP_SERVE_OPERATORS_H */
