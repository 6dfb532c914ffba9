/* Reloads, one at a time: the policy file is read and checked, and if it is valid the server
 * switches to it. The result is reported in the log and to the reload requests. */

#ifndef SLUICE_APP_SERVE_RELOAD_H
#define SLUICE_APP_SERVE_RELOAD_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "app/serve/active_policy.h"
#include "app/serve/stores.h"
#include "app/serve/watch.h"
#include "base/compiler.h"
#include "base/status.h"
#include "net/loop.h"
#include "policy/loader.h"
#include "policy/policy.h"
#include "policy/tenants_file.h"
#include "proxy/meters.h"
#include "proxy/reload_requests.h"
#include "proxy/server.h"
#include "store/bans.h"
#include "store/replica_sync.h"
#include "store/tenants.h"

/* A thread that fetches the key sets that policies name by https://, all that are due at once. */

struct jwks_fetch {
    pthread_t thread;
    void *multi; /* libcurl's handle of all fetches; owned while the thread runs */
    bool is_running;
    atomic_bool stops;
};

void jwks_fetch_init(struct jwks_fetch *fetch);

/* @policy comes into force: start the thread if it names key sets by URL and the thread does not
 * run yet. It finds what to fetch by itself. STATUS_NO_MEMORY. */
MUST_USE enum status jwks_fetch_follow(struct jwks_fetch *fetch, const struct policy *policy);

/* Stop the thread; fetches are broken off. */
void jwks_fetch_close(struct jwks_fetch *fetch);

/* The bans and the tenants of the process, and the thread that synchronizes them with Redis. */

struct replicas {
    struct bans *bans;            /* owned, as the tenants */
    struct tenants *tenants;      /* their keys are those of the policy in force */
    struct active_policy *active; /* acquired; the policy in force; NULL: none yet */
    struct store_plan *plan;      /* joined; the Redis that is asked; NULL: none yet */
    struct loop *loop;            /* owned, as all that follows; NULL: the policy names no Redis */
    struct replica_sync *bans_sync;
    struct replica_sync *tenants_sync; /* NULL: no limit looks for tenants */
    struct wakeup stop;
    pthread_t thread;
    bool is_running;
};

/* Create bans and tenants. If @active names Redis, start to synchronize them. STATUS_NO_MEMORY,
 * STATUS_IO: everything was released. */
MUST_USE enum status replicas_open(struct replicas *replicas, struct active_policy *active);

/* @active is in force: synchronize with its Redis, and look for the keys of its limits. What is
 * known is kept. Returns as replicas_open(); on failure nothing is synchronized any more. */
MUST_USE enum status replicas_follow(struct replicas *replicas, struct active_policy *active);

/* Free all; bans and tenants are no longer in use. */
void replicas_close(struct replicas *replicas);

/* The file of tenants, where the policy in force names one. It is read again when it changes. */

struct tenant_file {
    struct tenants *tenants;  /* borrowed */
    struct meters *meters;    /* borrowed */
    struct watch watch;       /* of the file of the policy in force, while that is in force */
    struct tenants_file next; /* read, and not in force yet */
    struct file_identity next_identity; /* just before it was read */
    bool is_missing;                    /* which is logged */
};

void tenant_file_init(struct tenant_file *file, struct tenants *tenants, struct meters *meters);
void tenant_file_close(struct tenant_file *file);

/* Read the file that @policy, which is to come in force, names, if it does. Errors are logged, and
 * written to @report; NULL: it is not wanted. Returns as tenants_file_read(). */
MUST_USE enum status tenant_file_prepare(struct tenant_file *file, const struct policy *policy,
                                         FILE *report);

/* @policy, which was prepared last, is in force: so are its tenants, and its file is watched. It
 * outlives the call of this function for the next policy. */
void tenant_file_follow(struct tenant_file *file, const struct policy *policy);

/* Read the file again if it has changed. @policy is in force. Call it as watch_has_changed(). */
void tenant_file_look(struct tenant_file *file, const struct policy *policy, uint64_t now_us);

/* --- the reload --- */

struct reload {
    const char *path;           /* of the policy; borrowed, as all that follows */
    struct loader_files *files; /* that it named when it was read last */
    struct stores *stores;
    struct meters *meters;
    struct server *server;
    struct reload_requests *requests;
    struct replicas replicas;       /* owned by the caller that runs the server, as is the next */
    struct tenant_file tenant_file; /* likewise */
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
 * False: the reload failed; or, if @is_seen, the files have been seen to change, but say what they
 * said before: there is none. */
MUST_USE bool reload_begin(struct reload *reload, const char *why, bool is_seen);

/* Continue the reload in progress. True: it has ended, with success or failure. */
MUST_USE bool reload_go_on(struct reload *reload);

/* Log how many warnings check gives of @policy, which comes into force, if it gives any. */
void reload_report_warnings(const char *path, const struct policy *policy);

/* Release everything; the server has stopped. */
void reload_close(struct reload *reload);

/* The differences between two policies, key by key. */

/* Compare two policies as their files say it, with the files that they include. Secrets of a file
 * are neither compared nor shown. Takes as long as loading both. STATUS_NO_MEMORY: *changes is
 * empty. */
MUST_USE enum status policy_changes_find(const struct policy *before, const struct policy *after,
                                         struct reload_changes *changes);

/* The same of their descriptions, which are modified. Items of a list are found by their `name`;
 * those without one by what precedes and follows them. */
void policy_changes_compare(json_t *before, json_t *after, struct reload_changes *changes);

#endif /* SLUICE_APP_SERVE_RELOAD_H */
