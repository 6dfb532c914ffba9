#include "app/serve/reload_report.h"

#include "base/log.h"
#include "policy/compare.h"

enum { LINES_MAX = 200 }; /* of one kind; a policy may have 10,000 limits */

static const char MODULE[] = "app.reload";

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

void reload_report_limits(const struct policy *before, const struct policy *after)
{
    struct statistics statistics = {{0}};
    compare_limits(before, after, on_comparison, &statistics);
    log_info(MODULE, "limits compared", "kept=%u rescaled=%u new=%u gone=%u",
             statistics.n[LIMIT_KEPT], statistics.n[LIMIT_RESCALED], statistics.n[LIMIT_NEW],
             statistics.n[LIMIT_GONE]);
}

void reload_report_restart(const char *key)
{
    log_warn(MODULE, "a change that a restart alone brings into force", "key=%s hint=\"restart\"",
             key);
}

void reload_report_unheeded(const struct policy *before, const struct policy *after)
{
    if (before->workers != after->workers) {
        reload_report_restart("workers");
    }
    if (before->store.memory_bytes != after->store.memory_bytes) {
        reload_report_restart("store.memory");
    }
    if (!compare_resolvers(&before->resolver, &after->resolver)) {
        reload_report_restart("resolver");
    }
}
