/* A client of the admin API of a running proxy: where that is, and one blocking request to it. */

#ifndef SLUICE_APP_CTL_CTL_CLIENT_H
#define SLUICE_APP_CTL_CTL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

enum {
    CTL_DESTINATION_BYTES_MAX = 512,
    CTL_TOKEN_BYTES_MAX = 512,
    CTL_WHY_BYTES_MAX = 512,
};

/* The address and token of an admin API. */
struct ctl_destination {
    char unix_path[CTL_DESTINATION_BYTES_MAX]; /* empty: host and port are used */
    char host[CTL_DESTINATION_BYTES_MAX];      /* a name or an address, without brackets */
    uint16_t port;
    bool is_tls;
    char ca[CTL_DESTINATION_BYTES_MAX];  /* file of authorities; empty: the system's */
    char token[CTL_TOKEN_BYTES_MAX + 1]; /* empty: none is sent */
    uint64_t timeout_s;                  /* the longest silence */
};

/* Options of the command line; NULL: not given. */
struct ctl_options {
    const char *socket;     /* path of a unix socket */
    const char *url;        /* http://host:port or https://host:port */
    const char *ca;         /* a file of authorities, for https */
    const char *policy;     /* a policy file, whose `admin` section is used */
    const char *token_file; /* with a token in its first line */
    const char *timeout;    /* "10s": the longest silence of the proxy */
    bool is_json;
};

/* The rows for them in a table of struct command_option, but for those of @policy and @is_json. */
#define CTL_OPTIONS(ctl)                                                                           \
    {.name = "socket",                                                                             \
     .argument = "PATH",                                                                           \
     .help = "the unix socket of the admin API",                                                   \
     .value = &(ctl)->socket},                                                                     \
        {.name = "url",                                                                            \
         .argument = "URL",                                                                        \
         .help = "its address: http://HOST:PORT or https://HOST:PORT",                             \
         .value = &(ctl)->url},                                                                    \
        {.name = "ca",                                                                             \
         .argument = "FILE",                                                                       \
         .help = "certificates that vouch for it, with https; the system's",                       \
         .value = &(ctl)->ca},                                                                     \
        {.name = "token-file",                                                                     \
         .argument = "FILE",                                                                       \
         .help = "whose first line is the token",                                                  \
         .value = &(ctl)->token_file},                                                             \
    {                                                                                              \
        .name = "timeout", .argument = "TIME", .help = "how long to wait for an answer; 60s",      \
        .value = &(ctl)->timeout                                                                   \
    }

/* Find the destination. If @options name none: SLUICE_SOCKET or SLUICE_URL of the environment, or
 * the first `admin` listener of the policy, unix sockets first. The default policy is
 * /etc/sluice/policy.yaml. The token is from the token file, SLUICE_TOKEN, or the policy's
 * token_file if it is readable. False: @why has the fault and the remedy, for people. */
MUST_USE bool ctl_destination_find(const struct ctl_options *options,
                                   struct ctl_destination *destination,
                                   char why[CTL_WHY_BYTES_MAX]);

/* After a 401 of @destination: which token is missing or wrong, and the remedy, for people. */
const char *ctl_destination_unauthorized(const struct ctl_destination *destination);

struct ctl_answer {
    uint16_t status;
    bool is_json; /* by its type */
    char *body;   /* owned; followed by a NUL */
    size_t body_bytes;
};

/* Send a request with @method, @target and the JSON @body (NULL: none) to @destination: directly,
 * whatever proxies the environment names, and redirects are not followed. True: the caller frees
 * *answer with ctl_answer_close(). False: @why has the reason, for people. */
MUST_USE bool ctl_ask(const struct ctl_destination *destination, const char *method,
                      struct span target, const char *body, struct ctl_answer *answer,
                      char why[CTL_WHY_BYTES_MAX]);

/* Add @span to a target, percent-encoded but for what is unreserved. */
void ctl_add_escaped(struct text *target, struct span span);

void ctl_answer_close(struct ctl_answer *answer);

#endif /* SLUICE_APP_CTL_CTL_CLIENT_H */
