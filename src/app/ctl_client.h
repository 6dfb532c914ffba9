/* One request to the admin API of a running proxy, over a unix socket or TCP, waited for. */

#ifndef SLUICE_APP_CTL_CLIENT_H
#define SLUICE_APP_CTL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

enum {
    CTL_PLACE_BYTES_MAX = 512,
    CTL_TOKEN_BYTES_MAX = 512,
    CTL_WHY_BYTES_MAX = 512,
};

/* Whom to ask. */
struct ctl_place {
    char unix_path[CTL_PLACE_BYTES_MAX]; /* empty: host and port are meant */
    char host[CTL_PLACE_BYTES_MAX];      /* a name or an address, without brackets */
    uint16_t port;
    char token[CTL_TOKEN_BYTES_MAX + 1]; /* empty: none is shown */
};

struct ctl_answer {
    uint16_t status;
    bool is_json; /* by its type */
    char *body;   /* owned; a NUL behind it */
    size_t body_bytes;
    char *memory; /* owned: what body is in */
};

/* Ask @place for @target with @method, and @body, which is JSON; empty: none. STATUS_OK: *answer is
 * the caller's, of ctl_answer_close(). STATUS_UNREACHABLE, STATUS_TIMEOUT, STATUS_INVALID (what was
 * answered is no HTTP), STATUS_TOO_LARGE, STATUS_NO_MEMORY: @why says so to people. */
MUST_USE enum status ctl_ask(const struct ctl_place *place, const char *method, struct span target,
                             struct span body, struct ctl_answer *answer,
                             char why[CTL_WHY_BYTES_MAX]);

void ctl_answer_close(struct ctl_answer *answer);

#endif /* SLUICE_APP_CTL_CLIENT_H */
