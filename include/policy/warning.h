/* The list of warnings about a policy. `check --allow` and its manual take their names from it.
 *
 * A warning does not stop a policy from running. Every load of a policy finds those of the first
 * group; only loader_check_file() and loader_check_text() find those of the second. */

#ifndef SLUICE_POLICY_WARNING_H
#define SLUICE_POLICY_WARNING_H

/* X(NAME, "name for people", "what is wrong, in a line") */
#define WARNING_LIST(X)                                                                            \
    X(UNUSED_LIMIT, "unused-limit", "a limit that no route names")                                 \
    X(UNUSED_UPSTREAM, "unused-upstream", "an upstream that no route leads to")                    \
    X(NO_EFFECT, "no-effect", "a key that has no effect where it stands")                          \
    X(LARGE_LOG, "large-log", "a sliding_log that remembers many requests of each key")            \
    X(UNTRUSTED_COST, "untrusted-cost", "a cost from a field of peers that are not trusted")       \
    X(FORGIVEN_COST, "forgiven-cost", "a cost from the response that gcra cannot take in full")    \
    X(SEVERAL_SLOTS, "several-slots", "a route whose limits lie in several slots of a cluster")    \
    X(NOT_REDIS_CELL, "not-redis-cell", "a gcra limit that redis-cell cannot decide")              \
    X(CERTIFICATE_TIME, "certificate-time",                                                        \
      "a certificate, or a revocation list, that is out of date or soon will be")                  \
    X(INCOMPLETE_CHAIN, "incomplete-chain", "a certificate without the one of its issuer")         \
    X(UNCOVERED_NAME, "uncovered-name", "a name that its certificate does not have")               \
    X(UNUSED_RESPONSE, "unused-response", "a response of OCSP that clients do not get")            \
    X(UNVERIFIED_SERVER, "unverified-server",                                                      \
      "servers of https:// whose certificates are not verified")                                   \
    X(HASTY_BAN, "hasty-ban", "a limit that bans for a single denial, or before it denies")        \
    X(READABLE_SECRET, "readable-secret", "a key or secret in a file that all users may read")     \
                                                                                                   \
    X(UNROUTED_NAME, "unrouted-name", "a name of a certificate that no route has")                 \
    X(SERVER_BY_ADDRESS, "server-by-address",                                                      \
      "a server of https:// that is named by its address, without tls.name")                       \
    X(UNREACHABLE_ROUTE, "unreachable-route", "a route that can never match")                      \
    X(UNLIMITED_ROUTE, "unlimited-route", "a route to an upstream that says nothing of limits")    \
    X(DODGED_ROUTE, "dodged-route", "a route that other spellings of its requests avoid")          \
    X(DODGED_HOST, "dodged-host", "a route of a host that the same request to another one avoids") \
    X(DODGED_SCHEME, "dodged-scheme", "a route of http or https that the other one avoids")        \
    X(NEVER_BINDING, "never-binding", "a limit that a stricter one beside it makes idle")          \
    X(BUCKET_QUOTA, "bucket-quota",                                                                \
      "a bucket that passes twice its rate in the first hour or day")                              \
    X(STALLED_BUCKET, "stalled-bucket", "a bucket that requests given back keep from refilling")   \
    X(CLIENT_CHOSEN_KEY, "client-chosen-key", "a route limited only by what clients choose")       \
    X(CLIENT_CHOSEN_ROUTE, "client-chosen-route", "a route past limits, by a header of clients")   \
    X(SHARED_KEY, "shared-key", "a limit that one client can use up for all that share its key")   \
    X(SPOOFABLE_ADDRESS, "spoofable-address", "a key from a field that any client can set")        \
    X(REPLACED_FIELD, "replaced-field", "a field that counts as absent: no peer is trusted")       \
    X(UNREACHABLE_PLAN, "unreachable-plan", "plans that no client can have")                       \
    X(LONE_FINGERPRINT, "lone-fingerprint", "a limit that counts by client.ja4 alone")             \
    X(NAMED_VICTIM, "named-victim", "a ban that one client can bring upon others")                 \
    X(NARROW_PREFIX, "narrow-prefix", "a limit that counts one IPv6 client as 65,536")             \
    X(TRUSTS_ALL, "trusts-all", "trusted_proxies that contain every address")                      \
    X(MISSING_PROXIES, "missing-proxies", "client.ip on a public address without trusted_proxies") \
    X(DEFAULT_BODY, "default-body", "a public route that takes bodies as large as the default")    \
    X(FAILS_OPEN, "fails-open",                                                                    \
      "a limit of refused logins, or with a ban, that lets all pass without Redis")                \
    X(REFUNDS_LEAVING, "refunds-leaving", "a limit that a client avoids by leaving early")         \
    X(CLIENT_CHOSEN_STATUS, "client-chosen-status",                                                \
      "a limit that a client avoids by a status that it chooses")                                  \
    X(PLAIN_SECRET, "plain-secret", "a secret that stands in the file")                            \
    X(EMPTY_SECRET, "empty-secret", "hashes of API keys and the like without a secret")            \
    X(ANY_ISSUER, "any-issuer", "tokens that count whoever issued them")                           \
    X(ANY_PROVIDER, "any-provider",                                                                \
      "a claim of tokens that counts whichever of several issuers gave it")                        \
    X(ANY_AUTHORITY, "any-authority",                                                              \
      "a name of client certificates that counts whichever of several authorities gave it")        \
    X(IGNORED_TOKEN, "ignored-token",                                                              \
      "tokens that count as none where they are not valid, beside a limit that needs them")        \
    X(PASSED_ON_COST, "passed-on-cost", "a cost from a field that proxies pass on from clients")   \
    X(CHEAP_DEFAULT, "cheap-default", "a cost by method that a request of another one goes below") \
    X(UNSEEN_SHADOW, "unseen-shadow", "a shadow limit whose verdicts are not shown")

enum warning {
#define WARNING_ENUM(id, name, text) WARNING_##id,
    WARNING_LIST(WARNING_ENUM)
#undef WARNING_ENUM
        WARNING_COUNT,
};

/* The name in commands and messages: "unused-limit". Static. */
const char *warning_name(enum warning warning);

/* A description in one line. Static. */
const char *warning_text(enum warning warning);

#endif /* SLUICE_POLICY_WARNING_H */
