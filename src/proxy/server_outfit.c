#include "base/log.h"
#include "proxy/log_place.h"
#include "proxy/server_inner.h"

/* --- the access log --- */

/* Whether @before's is the place that @log names. */
static bool has_log(const struct server_outfit *before, const struct log_section *log)
{
    if (before->log == NULL || log->format == LOG_FORMAT_OFF) {
        return false;
    }
    const struct log_section *old = &before->edition->policy->log;
    return old->target == log->target && span_equals(old->path, log->path);
}

static enum status open_or_keep_log(struct server_outfit *outfit,
                                    const struct server_outfit *before)
{
    const struct log_section *log = &outfit->edition->policy->log;
    if (has_log(before, log)) {
        outfit->log = before->log;
        return STATUS_OK;
    }
    return log_place_open(log, &outfit->log);
}

/* --- all of it --- */

enum status server_outfit_open(struct server_outfit *outfit, const struct server_edition *edition,
                               const struct server_outfit *before)
{
    *outfit = (struct server_outfit){.edition = NULL};
    enum status status = edition_new(edition, before->edition, &outfit->edition);
    if (status != STATUS_OK) {
        log_error("proxy.server", "no memory for the policy", "%s", "");
        return status;
    }
    status = listening_open(&outfit->listening, edition->policy, &before->listening);
    if (status == STATUS_OK) {
        status = open_or_keep_log(outfit, before);
    }
    if (status != STATUS_OK) {
        server_outfit_discard(outfit, before);
    }
    return status;
}

void server_outfit_discard(struct server_outfit *outfit, const struct server_outfit *before)
{
    listening_discard(&outfit->listening);
    if (outfit->log != before->log) {
        log_output_close(outfit->log);
    }
    if (outfit->edition != NULL) {
        edition_discard(outfit->edition);
    }
    *outfit = (struct server_outfit){.edition = NULL};
}

enum status server_outfit_offer(struct server_outfit *outfit, bool all, struct worker_offer *offer)
{
    const struct policy *policy = outfit->edition->policy;
    offer->log = outfit->log;
    offer->n_listeners = policy->n_listeners;
    return listening_offer(&outfit->listening, policy, all, offer->listeners);
}
