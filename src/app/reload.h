/* Reloads, one after another: the file is read and checked, and where it is sound the server turns
 * to it. The log is told all of it, and so is the desk. */

#ifndef SLUICE_APP_RELOAD_H
#define SLUICE_APP_RELOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "app/ban_keeper.h"
#include "app/served.h"
#include "app/stores.h"
#include "base/compiler.h"
#include "proxy/meters.h"
#include "proxy/reload_desk.h"
#include "proxy/server.h"

struct reload {
    const char *path; /* of the policy; borrowed, as all that follows */
    struct stores *stores;
    struct meters *meters;
    struct server *server;
    struct reload_desk *desk;
    struct ban_keeper ban_keeper; /* owned by whoever runs the server */
    bool has_admin;               /* there is an admin API, which follows by itself */
    struct served *now;           /* in force; joined */
    struct served *next;          /* under way; joined. NULL: none is */
    char *text;                   /* what there is to say of it; owned */
    size_t text_bytes;
    const char *why;   /* who wanted it: static */
    uint64_t begun_us; /* monotonic */
    bool has_failed;   /* the latest: the policy is the one before */
};

/* Read the policy anew, because of @why, and begin to turn to it; none is under way.
 * False: nothing comes of it. */
MUST_USE bool reload_begin(struct reload *reload, const char *why);

/* Go on with what is under way. True: it has ended, well or not. */
MUST_USE bool reload_go_on(struct reload *reload);

/* Let go of everything: nothing is served any more. */
void reload_close(struct reload *reload);

#endif /* SLUICE_APP_RELOAD_H */
