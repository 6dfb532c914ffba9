/* Reloads, one at a time: the policy file is read and checked, and if it is valid the server
 * switches to it. The result is reported in the log and to the reload requests. */

#ifndef SLUICE_APP_SERVE_RELOAD_H
#define SLUICE_APP_SERVE_RELOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "app/serve/active_policy.h"
#include "app/serve/jwks_fetch.h"
#include "app/serve/replicas.h"
#include "app/serve/stores.h"
#include "base/compiler.h"
#include "policy/loader.h"
#include "proxy/meters.h"
#include "proxy/reload_requests.h"
#include "proxy/server.h"

struct reload {
    const char *path;           /* of the policy; borrowed, as all that follows */
    struct loader_files *files; /* that it named when it was read last */
    struct stores *stores;
    struct meters *meters;
    struct server *server;
    struct reload_requests *requests;
    struct replicas replicas; /* owned by the caller that runs the server, as is the next */
    struct jwks_fetch jwks_fetch;
    bool has_admin;             /* an admin API exists; it follows reloads by itself */
    bool has_control;           /* and has a listener that does not depend on the policy */
    struct active_policy *now;  /* in force; joined */
    struct active_policy *next; /* of the reload in progress; joined. NULL: none */
    char *text;                 /* report of the reload; owned */
    size_t text_bytes;
    const char *why;   /* source of the request; static */
    uint64_t begun_us; /* monotonic */
    bool has_failed;   /* the latest reload failed: the former policy stays in force */
};

/* Read the policy again, because of @why, and begin to switch to it. No reload may be in progress.
 * False: the reload failed. */
MUST_USE bool reload_begin(struct reload *reload, const char *why);

/* Continue the reload in progress. True: it has ended, with success or failure. */
MUST_USE bool reload_go_on(struct reload *reload);

/* Release everything; the server has stopped. */
void reload_close(struct reload *reload);

#endif /* SLUICE_APP_SERVE_RELOAD_H */
