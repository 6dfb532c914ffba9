/* Who may ask the admin API for what: decided from the connection and the head alone, before
 * anything else is looked at.
 *
 * Reading needs a peer on this machine, a unix socket or a token; changing needs a unix socket or a
 * token. A request that came through a proxy on this machine is not this machine's own. What a web
 * page can make a browser send is refused, whoever runs the browser: names that are not ours (DNS
 * rebinding), what carries an Origin or Sec-Fetch-Site of a page, and changes in a form's types. */

#ifndef SLUICE_ADMIN_ACCESS_H
#define SLUICE_ADMIN_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/address.h"
#include "base/compiler.h"
#include "base/secret.h"
#include "base/span.h"
#include "base/status.h"
#include "http/head.h"
#include "policy/policy.h"

/* What a request does. */
enum admin_effect {
    ADMIN_READS,
    ADMIN_CHANGES,
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

/* By what a request is let in; for the audit. */
enum access_title {
    ACCESS_BY_NOTHING,
    ACCESS_BY_SOCKET,
    ACCESS_BY_LOOPBACK,
    ACCESS_BY_TOKEN,
    ACCESS_BY_READ_TOKEN,
};

struct access_verdict {
    uint16_t status;    /* 0: granted; else 401, 403, 415 or 421 */
    const char *reason; /* static; NULL: nothing is to be said */
    enum access_title title;
};

/* The rules of @section, its token files read. What fails is logged. STATUS_IO,
 * STATUS_INVALID: a file is no token. */
MUST_USE enum status access_rules_load(const struct admin_section *section,
                                       struct access_rules *rules);

/* Judge a request of @peer with the parsed @head that would have @effect. */
struct access_verdict access_judge(const struct access_rules *rules, const struct access_peer *peer,
                                   const struct head *head, enum admin_effect effect);

/* Whether @host, a valid Host value, is an address, localhost or one of the listed names. */
MUST_USE bool access_is_our_host(const struct access_rules *rules, struct span host);

#endif /* SLUICE_ADMIN_ACCESS_H */
