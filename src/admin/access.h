/* Access control of the admin API: decided from the connection and the head alone, before any other
 * processing.
 *
 * Reading needs a peer on this machine, a unix socket or a token; changing needs a unix socket or a
 * token. The files of the page need neither: there is no secret in them. A request that was
 * forwarded by a proxy on this machine does not count as local. Requests that a web page of others
 * can cause a browser to send are refused: those with a foreign host name (DNS rebinding), with
 * another Origin or Sec-Fetch-Site than our own page has, and changes with the content type of a
 * form. */

#ifndef SLUICE_ADMIN_ACCESS_H
#define SLUICE_ADMIN_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"
#include "http/head.h"
#include "policy/policy.h"

/* The effect of a request. */
enum admin_effect {
    ADMIN_READS,
    ADMIN_CHANGES,
    /* a change whose body has any length and no form: its resource receives it in pieces, as
     * application/octet-stream */
    ADMIN_RECEIVES,
    ADMIN_SHOWS_PAGE, /* sends a file of the page */
};

/* The other end of a connection. */
struct access_peer {
    bool is_unix;
    struct address address; /* of TCP */
    uid_t uid;              /* of a unix socket */
    pid_t pid;
};

/* One of the tokens. */
struct access_token {
    bool is_set;
    struct secret secret;
};

struct access_rules {
    struct access_token token;      /* reads and changes */
    struct access_token read_token; /* reads */
    const struct span *hosts;       /* borrowed from the policy, as written */
    size_t n_hosts;
};

/* The ground on which a request is granted; for the audit. */
enum access_title {
    ACCESS_BY_NOTHING,
    ACCESS_BY_SOCKET,
    ACCESS_BY_LOOPBACK,
    ACCESS_BY_TOKEN,
    ACCESS_BY_READ_TOKEN,
};

struct access_verdict {
    uint16_t status;    /* 0: granted; else 401, 403, 415 or 421 */
    const char *reason; /* static; NULL: none is given */
    enum access_title title;
};

/* Load the rules of @section and read its token files. Failures are logged. STATUS_IO;
 * STATUS_INVALID: a file does not hold a valid token. */
MUST_USE enum status access_rules_load(const struct admin_section *section,
                                       struct access_rules *rules);

/* Judge a request of @peer with the parsed @head and with @effect. */
struct access_verdict access_judge(const struct access_rules *rules, const struct access_peer *peer,
                                   const struct head *head, enum admin_effect effect);

/* Whether one with @title may change things. */
bool access_may_change(enum access_title title);

#endif /* SLUICE_ADMIN_ACCESS_H */
