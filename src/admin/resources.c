#include "admin/resources.h"

#include <jansson.h>

#include "admin/internal.h"
#include "admin/request.h"
#include "base/limits.h"
#include "base/text.h"
#include "http/octet.h"
#include "page/page.h"

const struct admin_resource ADMIN_RESOURCES[] = {
    {"GET", "/", ADMIN_READS, index_handle, "this list"},
    {"GET", "/healthz", ADMIN_READS, health_handle, "whether the workers' loops run"},
    {"GET", "/readyz", ADMIN_READS, ready_handle, "whether clients are served, and the store"},
    {"GET", "/v1/status", ADMIN_READS, status_handle,
     "version, policy, listeners, store and counters at a glance"},
    {"GET", "/metrics", ADMIN_READS, metrics_handle, "what is counted, for Prometheus"},
    {"GET", "/v1/history", ADMIN_READS, history_handle,
     "requests, errors, times and connections of the last hour"},
    {"GET", "/v1/live", ADMIN_READS, live_handle, "what is counted now, a line a second"},
    {"GET", "/v1/access", ADMIN_READS, access_handle, "who you are, and whether you may change"},
    {"GET", "/ui/", ADMIN_SHOWS_PAGE, page_handle, "a page for people to look at"},
    {"GET", "/ui/{file}", ADMIN_SHOWS_PAGE, page_handle, "its files"},
    {"GET", "/v1/limits", ADMIN_READS, limits_handle, "what each limit means"},
    {"GET", "/v1/limits/{limit}", ADMIN_READS, limit_handle, "what one limit means"},
    {"GET", "/v1/limits/{limit}/keys", ADMIN_READS, keys_handle,
     "its keys that are denied most: ?n=20&within=1h"},
    {"GET", "/v1/limits/{limit}/keys/{key}", ADMIN_READS, key_handle,
     "how one key stands, without charging it: ?plan=gold"},
    {"DELETE", "/v1/limits/{limit}/keys/{key}", ADMIN_CHANGES, reset_handle,
     "forget what was counted of one key"},
    {"GET", "/v1/bans", ADMIN_READS, bans_handle, "bans and exemptions"},
    {"POST", "/v1/limits/{limit}/keys/{key}/ban", ADMIN_CHANGES, ban_handle,
     "refuse a key for a time"},
    {"DELETE", "/v1/limits/{limit}/keys/{key}/ban", ADMIN_CHANGES, unban_handle,
     "refuse it no longer"},
    {"POST", "/v1/limits/{limit}/keys/{key}/exempt", ADMIN_CHANGES, exempt_handle,
     "let a key pass for a time"},
    {"DELETE", "/v1/limits/{limit}/keys/{key}/exempt", ADMIN_CHANGES, unexempt_handle,
     "let it pass no longer"},
    {"GET", "/v1/tenants", ADMIN_READS, tenants_handle, "keys that have a plan"},
    {"GET", "/v1/tenants/{key}", ADMIN_READS, tenant_handle, "the plan of a key, and its hash"},
    {"POST", "/v1/tenants", ADMIN_CHANGES, tenant_set_handle, "give a key a plan"},
    {"DELETE", "/v1/tenants/{key}", ADMIN_CHANGES, tenant_unset_handle, "take its plan from a key"},
    {"GET", "/v1/routes", ADMIN_READS, routes_handle, "which requests meet which limits"},
    {"GET", "/v1/upstreams", ADMIN_READS, upstreams_handle, "the servers, and how they are doing"},
    {"GET", "/v1/certificates", ADMIN_READS, certificates_handle,
     "what is shown to clients of TLS, and until when it is good"},
    {"GET", "/v1/reload", ADMIN_READS, reload_state_handle, "what came of the latest reload"},
    {"POST", "/v1/reload", ADMIN_CHANGES, reload_handle, "read the policy's file anew"},
    {"GET", "/v1/policy", ADMIN_READS, policy_handle,
     "the policy in force, without its secrets: ?with=defaults"},
    {"GET", "/v1/policy/check", ADMIN_READS, check_handle,
     "what is wrong with the policy's file as it is now, and in what it differs from that in "
     "force"},
    {"POST", "/v1/explain", ADMIN_READS, explain_handle,
     "what becomes of a request under the policy in force: {method, url, headers, from, scheme, "
     "http2, claims}"},
    {"GET", "/v1/recording", ADMIN_READS, recording_state_handle,
     "how the recording of this process's requests stands"},
    {"POST", "/v1/recording", ADMIN_CHANGES, recording_start_handle,
     "record requests for a replay: {seconds}"},
    {"POST", "/v1/recording/stop", ADMIN_CHANGES, recording_stop_handle,
     "end the recording before its time, and keep it"},
    {"DELETE", "/v1/recording", ADMIN_CHANGES, recording_forget_handle, "forget the recording"},
    {"POST", "/v1/replay", ADMIN_RECEIVES, replay_handle,
     "what the policy in force would have said to an access log: ?set=LIMIT.rate=20/minute"},
    {"GET", "/v1/top", ADMIN_READS, top_handle, "who is denied most: ?limit=NAME&n=20&within=1h"},
};
const size_t N_ADMIN_RESOURCES = ARRAY_LEN(ADMIN_RESOURCES);

enum { SEGMENTS_MAX = 8 };

/* A path, split and decoded. */
struct segments {
    struct span items[SEGMENTS_MAX];
    size_t n;
};

/* Decode @raw, once, to *out, which moves on. False: it holds what is no escape, or NUL. */
static bool decode(struct span raw, char **out, struct span *decoded)
{
    char *start = *out;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.data[i];
        if (c == '%') {
            const int octet = octet_escape(raw, i);
            if (octet <= 0) {
                return false;
            }
            c = (char)octet;
            i += 2;
        }
        *(*out)++ = c;
    }
    *decoded = span_of(start, (size_t)(*out - start));
    return true;
}

/* False: match->status says why not. */
static bool split(struct span path, char *decoded, struct segments *segments,
                  struct resource_match *match)
{
    struct span rest = span_from(path, 1);
    struct span raw;
    segments->n = 0;
    while (span_split(&rest, '/', &raw)) {
        if (segments->n == SEGMENTS_MAX) {
            match->status = 404;
            return false;
        }
        if (!decode(raw, &decoded, &segments->items[segments->n++])) {
            match->status = 400;
            match->reason = "the path holds an escape that is none, or NUL";
            return false;
        }
    }
    return true;
}

/* Whether @segments are of @resource's path; then captures are filled. */
static bool fits(const struct admin_resource *resource, const struct segments *segments,
                 struct span *captures)
{
    struct span rest = span_of_text(resource->path + 1);
    struct span wanted;
    size_t n_captures = 0;
    size_t i = 0;
    for (; span_split(&rest, '/', &wanted); i++) {
        if (i == segments->n) {
            return false;
        }
        if (wanted.len > 0 && wanted.data[0] == '{') {
            if (segments->items[i].len == 0) {
                return false;
            }
            captures[n_captures++] = segments->items[i];
        } else if (!span_equals(wanted, segments->items[i])) {
            return false;
        }
    }
    return i == segments->n;
}

static bool is_method(const struct admin_resource *resource, struct span method)
{
    const struct span own = span_of_text(resource->method);
    return span_equals(own, method) ||
           (span_equals(own, SPAN("GET")) && span_equals(method, SPAN("HEAD")));
}

static void add_method(struct text *allow, const char *method)
{
    if (allow->len > 0) {
        text_add_literal(allow, ", ");
    }
    text_add(allow, span_of_text(method));
    if (span_equals(span_of_text(method), SPAN("GET"))) {
        text_add_literal(allow, ", HEAD");
    }
}

void resource_find(struct span method, struct span path, char *decoded,
                   char allow[RESOURCE_ALLOW_BYTES], struct resource_match *match)
{
    const bool is_safe = span_equals(method, SPAN("GET")) || span_equals(method, SPAN("HEAD"));
    struct text methods = text_of(allow, RESOURCE_ALLOW_BYTES);
    struct segments segments;
    *match = (struct resource_match){.effect = is_safe ? ADMIN_READS : ADMIN_CHANGES};
    if (path.len == 0 || path.data[0] != '/') {
        match->status = 404;
        return;
    }
    if (!split(path, decoded, &segments, match)) {
        return;
    }
    for (size_t i = 0; i < N_ADMIN_RESOURCES; i++) {
        const struct admin_resource *resource = &ADMIN_RESOURCES[i];
        if (!fits(resource, &segments, match->captures)) {
            continue;
        }
        match->path = resource->path;
        if (is_method(resource, method)) {
            match->resource = resource;
            match->effect = resource->effect;
            return;
        }
        add_method(&methods, resource->method);
    }
    match->status = methods.len > 0 ? 405 : 404;
    match->allow = text_span(&methods);
}

void index_handle(struct admin_request *request)
{
    json_t *list = json_array();
    for (size_t i = 0; i < N_ADMIN_RESOURCES && list != NULL; i++) {
        const struct admin_resource *resource = &ADMIN_RESOURCES[i];
        json_array_append_new(list, json_pack("{ss, ss, ss}", "method", resource->method, "path",
                                              resource->path, "about", resource->doc));
    }
    answer_json(request, 200,
                json_pack("{ss, ss, so}", "name", "sluice", "version",
                          request->admin->options.version, "resources", list));
}

/* The files of the page hold nothing secret, so they need no token; what they show does. */
void page_handle(struct admin_request *request)
{
    const struct page_file *file = page_find(request->captures[0]);
    if (file == NULL) {
        answer_problem(request, 404, "the page has no such file");
    } else {
        answer_page(request, file);
    }
}

void access_handle(struct admin_request *request)
{
    answer_json(request, 200,
                json_pack("{ss, sb}", "by", request->by, "may_change", (int)request->may_change));
}
