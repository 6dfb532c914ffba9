/* The admin API of a process that serves: made where the policy asks for one. */

#ifndef SLUICE_APP_OPERATORS_H
#define SLUICE_APP_OPERATORS_H

#include "admin/admin.h"
#include "app/stores.h"
#include "base/compiler.h"
#include "base/status.h"
#include "policy/policy.h"
#include "proxy/server.h"

struct reload_desk;

struct operators {
    struct stores *stores; /* borrowed */
    struct admin *admin;   /* NULL: the policy asks for none */
};

/* What it is told of. Everything is borrowed until operators_close(). */
struct operators_options {
    const struct policy *policy; /* the first */
    const struct meters *meters;
    struct stores *stores;
    struct bans *bans;
    struct server *server;
    struct reload_desk *desk;
};

/* Open the policy's admin listeners, and do not serve yet. What fails is logged. As admin_new(). */
MUST_USE enum status operators_open(struct operators *operators,
                                    const struct operators_options *options);

/* Serve. STATUS_NO_MEMORY. */
MUST_USE enum status operators_start(struct operators *operators);

/* End it, if it runs, and close. */
void operators_close(struct operators *operators);

#endif /* SLUICE_APP_OPERATORS_H */
