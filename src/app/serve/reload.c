/* Happy path: read ─► valid ─► the server switches to it ─► the changes of each limit are logged.
 *
 * A file that was touched, and says what it said ─► nothing.
 *
 * Failures: a file that cannot be read, or has errors; an address that cannot be listened on; no
 * memory. The fault and its location are logged, and the former policy stays in force. */

#include "app/serve/reload.h"

#include <stdio.h>
#include <stdlib.h>

#include "admin/admin.h"
#include "app/command.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "policy/compare.h"

enum {
    BECAUSE_BYTES = 512,
    LINES_MAX = 200, /* of one kind of change; a policy may have 10,000 limits */
};

static const char MODULE[] = "app.reload";

/* --- the changes of a reload --- */

struct statistics {
    unsigned n[LIMIT_GONE + 1];
};

static void log_numbers(const struct limit_comparison *comparison)
{
    const struct limit_params *before = &comparison->before->params;
    const struct limit_params *after = &comparison->after->params;
    log_info(MODULE, "limit rescaled: what was taken counts",
             "limit=%.*s rate=%u rate_before=%u burst=%u burst_before=%u",
             SPAN_ARGS(comparison->after->name), after->rate, before->rate, after->burst,
             before->burst);
}

static void log_change(const struct limit_comparison *comparison)
{
    const struct limit *limit = comparison->after != NULL ? comparison->after : comparison->before;
    switch (comparison->change) {
    case LIMIT_KEPT:
        log_info(MODULE, "limit kept", "limit=%.*s", SPAN_ARGS(limit->name));
        return;
    case LIMIT_RESCALED:
        log_numbers(comparison);
        return;
    case LIMIT_NEW:
        log_info(MODULE, "limit new: nothing is taken", "limit=%.*s because=\"%s\"",
                 SPAN_ARGS(limit->name),
                 comparison->why[0] != '\0' ? comparison->why : "there was none of this name");
        return;
    case LIMIT_GONE:
        log_info(MODULE, "limit gone", "limit=%.*s", SPAN_ARGS(limit->name));
        return;
    }
}

static void on_comparison(void *context, const struct limit_comparison *comparison)
{
    struct statistics *statistics = context;
    if (statistics->n[comparison->change]++ < LINES_MAX) {
        log_change(comparison);
    }
}

static void log_limits(const struct policy *before, const struct policy *after)
{
    struct statistics statistics = {{0}};
    compare_limits(before, after, on_comparison, &statistics);
    log_info(MODULE, "limits compared", "kept=%u rescaled=%u new=%u gone=%u",
             statistics.n[LIMIT_KEPT], statistics.n[LIMIT_RESCALED], statistics.n[LIMIT_NEW],
             statistics.n[LIMIT_GONE]);
}

static void warn_of_restart(const char *key)
{
    log_warn(MODULE, "a change that a restart alone brings into force", "key=%s hint=\"restart\"",
             key);
}

/* Settings that a running process cannot change. */
static void warn_of_unheeded(const struct policy *before, const struct policy *after)
{
    if (before->workers != after->workers) {
        warn_of_restart("workers");
    }
    if (before->store.memory_bytes != after->store.memory_bytes) {
        warn_of_restart("store.memory");
    }
    if (!compare_resolvers(&before->resolver, &after->resolver)) {
        warn_of_restart("resolver");
    }
}

/* --- the end --- */

/* @changes: NULL: the attempt has failed, or they are not known. */
static void end(struct reload *reload, bool succeeded, const struct reload_changes *changes)
{
    const struct reload_outcome outcome = {
        .succeeded = succeeded,
        .text = span_of(reload->text, reload->text_bytes),
        .because = reload->why,
        .changes = changes,
    };
    reload->has_failed = !succeeded;
    meters_note_reload(reload->meters, succeeded, clock_wall_us());
    reload_requests_end(reload->requests, &outcome);
    free(reload->text);
    reload->text = NULL;
    reload->text_bytes = 0;
}

static void fail(struct reload *reload, const char *because)
{
    log_error(MODULE, "not reloaded: the policy stays as it is", "file=%s because=\"%s\"",
              reload->path, because);
    end(reload, false, NULL);
}

/* Also add @because to the text for the requester: the loader has not reported it. */
static void fail_and_report(struct reload *reload, const char *because)
{
    char *text;
    const int len = asprintf(&text, "%.*s%s: error: %s\n", (int)reload->text_bytes,
                             reload->text != NULL ? reload->text : "", reload->path, because);
    if (len >= 0) {
        free(reload->text);
        reload->text = text;
        reload->text_bytes = (size_t)len;
    }
    fail(reload, because);
}

/* --- reading --- */

static void log_diags(const struct diags *diags)
{
    for (size_t i = 0; i < diags->n_items; i++) {
        const struct diag *diag = &diags->items[i];
        char buffer[1024];
        struct text text = text_of(buffer, sizeof(buffer));
        text_add_logfmt(&text, span_of_text(diag->text));
        log_at(diag->severity == DIAG_ERROR ? LOG_ERROR : LOG_WARN, MODULE,
               diag->severity == DIAG_ERROR ? "error in the policy" : "warning of the policy",
               "file=%s line=%u column=%u err=%.*s", diags_file(diags, diag->file), diag->line,
               diag->column, SPAN_ARGS(text_span(&text)));
    }
}

/* For the requester: in the format of the checker. */
static void keep_text(struct reload *reload, const struct diags *diags)
{
    FILE *out = open_memstream(&reload->text, &reload->text_bytes);
    if (out != NULL) {
        diags_print(diags, out);
        fclose(out);
    }
}

static bool is_same_text(const struct policy *one, const struct policy *other)
{
    bool is_same = one->n_sources == other->n_sources;
    for (size_t i = 0; is_same && i < one->n_sources; i++) {
        is_same = span_equals(one->sources[i], other->sources[i]);
    }
    return is_same;
}

/* Whether a reload with @policy, just read, would change nothing. The files of tokens are read
 * later, and nothing else watches them. */
static bool is_in_force(const struct reload *reload, const struct policy *policy,
                        const struct loader_versions *before)
{
    const struct admin_section *admin = &policy->admin;
    return !reload->has_failed && admin->token.path.len == 0 && admin->read_token.path.len == 0 &&
           reload->files->read.certificates == before->certificates &&
           is_same_text(policy, reload->now->policy);
}

void reload_report_warnings(const char *path, const struct policy *policy)
{
    if (policy->n_warnings > 0) {
        log_info(MODULE, "the policy has warnings", "file=%s warnings=%zu hint=\"sluice check %s\"",
                 path, policy->n_warnings, path);
    }
}

/* NULL: the reload has failed; or, if @is_seen, there is nothing to change. */
static struct policy *read_policy(struct reload *reload, bool is_seen)
{
    const struct loader_versions before = reload->files->read;
    struct policy *policy = NULL;
    struct diags diags;
    diags_init(&diags, reload->path);
    const enum status status = loader_load_file_to_serve(reload->path, reload->now->policy,
                                                         reload->files, &policy, &diags);
    if (status == STATUS_OK && is_seen && is_in_force(reload, policy, &before) &&
        reload_requests_withdraw(reload->requests)) {
        policy_free(policy);
        diags_close(&diags);
        return NULL;
    }
    log_diags(&diags);
    keep_text(reload, &diags);
    if (status != STATUS_OK) {
        fail(reload, diags.n_errors > 0 ? "it has errors" : status_text(status));
        policy = NULL;
    }
    diags_close(&diags);
    return policy;
}

/* --- turning to it --- */

/* False: told. */
static bool can_serve_operators(struct reload *reload, const struct policy *policy)
{
    char because[BECAUSE_BYTES];
    struct span destination;
    if (!reload->has_admin || admin_probe(reload->now->policy, policy, &destination) == STATUS_OK) {
        return true;
    }
    snprintf(because, sizeof(because), "admin: %.*s cannot be opened: the log says why",
             SPAN_ARGS(destination));
    fail_and_report(reload, because);
    return false;
}

/* Read its file of tenants. False: told. */
static bool read_tenants(struct reload *reload, const struct policy *policy)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    const enum status status = tenant_file_prepare(&reload->tenant_file, policy, out);
    if (out != NULL) {
        fclose(out);
    }
    char *both = NULL;
    if (status != STATUS_OK && text != NULL &&
        asprintf(&both, "%.*s%s", (int)reload->text_bytes, reload->text != NULL ? reload->text : "",
                 text) >= 0) {
        free(reload->text);
        reload->text_bytes = strlen(both);
        reload->text = both;
    }
    free(text);
    if (status != STATUS_OK) {
        fail(reload,
             status == STATUS_NO_MEMORY ? status_text(status) : "its file of tenants has errors");
    }
    return status == STATUS_OK;
}

static bool serve(struct reload *reload, struct policy *policy)
{
    struct active_policy *next;
    if (!read_tenants(reload, policy)) {
        policy_free(policy);
        return false;
    }
    if (!can_serve_operators(reload, policy)) {
        policy_free(policy);
        return false;
    }
    if (meters_enter(reload->meters, policy) != STATUS_OK ||
        active_policy_new(reload->stores, policy, reload->now, &next) != STATUS_OK) {
        policy_free(policy);
        fail_and_report(reload, "out of memory");
        return false;
    }
    const struct server_generation generation = active_policy_generation(next);
    active_policy_acquire(next); /* one for the server, one for us */
    const enum status status = server_change_begin(reload->server, &generation);
    if (status != STATUS_OK) {
        active_policy_release(next);
        active_policy_release(next);
        fail_and_report(reload, status == STATUS_NO_MEMORY
                                    ? "out of memory"
                                    : "what it names cannot be opened: the log says why");
        return false;
    }
    reload->next = next;
    return true;
}

bool reload_begin(struct reload *reload, const char *why, bool is_seen)
{
    reload->why = why;
    reload->begun_us = clock_monotonic_us();
    reload_requests_begin(reload->requests);
    struct policy *policy = read_policy(reload, is_seen);
    return policy != NULL && serve(reload, policy);
}

static void succeed(struct reload *reload)
{
    static struct reload_changes changes; /* large; of this thread alone */
    const struct policy *before = reload->now->policy;
    const struct policy *after = reload->next->policy;
    active_policy_publish(reload->next);
    stores_obey(reload->stores, &after->store);
    if (replicas_follow(&reload->replicas, reload->next) != STATUS_OK) {
        log_error(MODULE,
                  "bans and tenants are not synchronized any more: those that are known hold", "%s",
                  "");
    }
    tenant_file_follow(&reload->tenant_file, after);
    (void)!jwks_fetch_follow(&reload->jwks_fetch, after); /* logs a failure */
    log_limits(before, after);
    warn_of_unheeded(before, after);
    if (!reload->has_admin && after->admin.n_listeners > 0) {
        warn_of_restart("admin");
    }
    if (reload->has_admin && !reload->has_control && before->admin.n_listeners > 0 &&
        after->admin.n_listeners == 0) {
        log_warn(MODULE, "no operator is served any more",
                 "hint=\"the policy has no admin any more: add admin: 127.0.0.1:9900 and reload\"");
    }
    log_info(MODULE, "the policy is in force",
             "file=%s because=\"%s\" routes=%zu limits=%zu upstreams=%zu ms=%llu", reload->path,
             reload->why, after->n_routes, after->n_limits, after->n_upstreams,
             (unsigned long long)((clock_monotonic_us() - reload->begun_us) / 1000));
    reload_report_warnings(reload->path, after);
    const bool is_known = policy_changes_find(before, after, &changes) == STATUS_OK;
    active_policy_release(reload->now);
    reload->now = reload->next;
    reload->next = NULL;
    end(reload, true, is_known ? &changes : NULL);
}

bool reload_go_on(struct reload *reload)
{
    switch (server_change_go_on(reload->server, clock_monotonic_us())) {
    case CHANGE_IS_NONE:
    case CHANGE_IS_PENDING:
        return false;
    case CHANGE_IS_DONE:
        succeed(reload);
        return true;
    case CHANGE_IS_FAILED:
        active_policy_release(reload->next);
        reload->next = NULL;
        fail_and_report(reload, "out of memory");
        return true;
    }
    return false;
}

void reload_close(struct reload *reload)
{
    if (reload->next != NULL) {
        active_policy_release(reload->next);
    }
    active_policy_release(reload->now);
    free(reload->text);
}
