#include "app/ctl/ctl_print.h"

#include <string.h>

#include "app/command.h"
#include "base/compiler.h"

enum { LINE_BYTES = 4096 };

static long long number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static bool is_true_at(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* --- health --- */

static int print_health(const json_t *answer, FILE *out)
{
    ctl_print_line(out, "%s: %lld workers, the slowest loop ran %lld ms ago",
                   ctl_text_at(answer, "status"), number_at(answer, "workers"),
                   number_at(answer, "silence_ms"));
    return EXIT_DONE;
}

/* "ready; store: redis, ok", or "degraded: " and the reasons. */
static int print_ready(const json_t *answer, FILE *out)
{
    const char *status = ctl_text_at(answer, "status");
    const json_t *store = json_object_get(answer, "store");
    const json_t *reasons = json_object_get(answer, "reasons");
    char buffer[LINE_BYTES];
    struct text text = text_of(buffer, sizeof(buffer));
    size_t i;
    const json_t *reason;
    json_array_foreach(reasons, i, reason)
    {
        text_add(&text, i == 0 ? SPAN("") : SPAN("; "));
        ctl_write_text(reason, &text);
    }
    if (text.len > 0) {
        ctl_print_line(out, "%s: %.*s", status, SPAN_ARGS(text_span(&text)));
    } else {
        ctl_print_line(out, "%s; store: %s, %s", status, ctl_text_at(store, "kind"),
                       ctl_text_at(store, "state"));
    }
    return strcmp(status, "ready") == 0 || strcmp(status, "degraded") == 0 ? EXIT_DONE
                                                                           : EXIT_FAILED;
}

static int print_reload(const json_t *answer, FILE *out)
{
    const bool is_done = is_true_at(answer, "succeeded");
    ctl_print_messages(answer, out);
    fprintf(out,
            is_done ? "reloaded: generation %lld is in force\n"
                    : "not reloaded: generation %lld stays in force\n",
            number_at(answer, "generation"));
    return is_done ? EXIT_DONE : EXIT_FAILED;
}

/* 459ms, 12s, 3m20s, 1d4h; "-" where there is no number. */
static void write_wait(const json_t *ms, struct text *cell)
{
    const long long value = json_integer_value(ms);
    const long long s = (value + 999) / 1000;
    if (!json_is_integer(ms)) {
        text_add_char(cell, '-');
    } else if (value < 1000) {
        text_add_format(cell, "%lldms", value);
    } else if (s < 60) {
        text_add_format(cell, "%llds", s);
    } else if (s < 3600) {
        text_add_format(cell, "%lldm%llds", s / 60, s % 60);
    } else if (s < 86400) {
        text_add_format(cell, "%lldh%lldm", s / 3600, s % 3600 / 60);
    } else {
        text_add_format(cell, "%lldd%lldh", s / 86400, s % 86400 / 3600);
    }
}

static void print_listeners(const json_t *answer, const char *member, FILE *out)
{
    char bytes[LINE_BYTES];
    struct text text = text_of(bytes, sizeof(bytes));
    ctl_write_list(json_object_get(answer, member), &text);
    if (text.len > 0) {
        ctl_print_line(out, "%-12s %.*s", member, SPAN_ARGS(text_span(&text)));
    }
}

static void print_requests(const json_t *answer, FILE *out)
{
    const json_t *requests = json_object_get(answer, "requests");
    const json_t *servers = json_object_get(answer, "servers");
    ctl_print_line(out, "%-12s %lld of %lld are up", "servers", number_at(servers, "up"),
                   number_at(servers, "all"));
    ctl_print_line(out, "%-12s %lld open", "connections", number_at(answer, "connections"));
    ctl_print_line(out,
                   "%-12s %lld: %lld allowed, %lld denied, %lld undecided, %lld without limits",
                   "requests", number_at(requests, "all"), number_at(requests, "allowed"),
                   number_at(requests, "denied"), number_at(requests, "undecided"),
                   number_at(requests, "unlimited"));
}

static int print_status(const json_t *answer, FILE *out)
{
    char bytes[LINE_BYTES];
    struct text uptime = text_of(bytes, sizeof(bytes));
    json_t *uptime_ms = json_integer(number_at(answer, "uptime_s") * 1000);
    write_wait(uptime_ms, &uptime);
    json_decref(uptime_ms);
    ctl_print_line(out, "sluice %s, pid %lld, up for %.*s", ctl_text_at(answer, "version"),
                   number_at(answer, "pid"), SPAN_ARGS(text_span(&uptime)));
    ctl_print_line(out, "%-12s %s, generation %lld, loaded %s%s", "policy",
                   ctl_text_at(answer, "policy"), number_at(answer, "generation"),
                   ctl_text_at(answer, "loaded"),
                   is_true_at(answer, "last_reload_failed") ? "; the latest reload failed" : "");
    print_listeners(answer, "listen", out);
    print_listeners(answer, "admin", out);
    if (json_object_get(answer, "control") != NULL) {
        ctl_print_line(out, "%-12s %s", "control", ctl_text_at(answer, "control"));
    }
    fprintf(out, "%-12s ", "state");
    const int result = print_ready(answer, out);
    print_requests(answer, out);
    return result;
}

/* The page's addresses, a line each. */
static int print_pages(const json_t *answer, FILE *out)
{
    const json_t *pages = json_object_get(answer, "pages");
    for (size_t i = 0; i < json_array_size(pages); i++) {
        ctl_print_line(out, "%s", json_string_value(json_array_get(pages, i)));
    }
    if (json_array_size(pages) == 0) {
        fputs("sluice ctl: the page needs a TCP address in admin.listen, such as 127.0.0.1:9900\n",
              stderr);
    }
    return json_array_size(pages) > 0 ? EXIT_DONE : EXIT_FAILED;
}

/* --- limits and routes --- */

/* 10/s, 5/2h, or 3 at once. */
static void write_rate(const json_t *rate, struct text *cell)
{
    const char *period = ctl_text_at(rate, "period");
    const bool is_one = period[0] == '1' && ascii_lower(period[1]) >= 'a';
    text_add_i64(cell, number_at(rate, "units"));
    text_add_format(cell, period[0] != '\0' ? "/%s" : " at once%s", period + (is_one ? 1 : 0));
}

static void write_on_failure(const json_t *limit, struct text *cell)
{
    const bool is_shadow = is_true_at(limit, "shadow");
    text_add(cell, span_of_text(is_shadow ? "shadow" : ctl_text_at(limit, "on_failure")));
}

static const struct ctl_table LIMITS = {
    .rows = "limits",
    .parts = "rates",
    .columns =
        {
            {"LIMIT", "name", ctl_write_text, CTL_ROW_ONCE},
            {"KEY", "key", ctl_write_list, CTL_ROW_ONCE},
            {"ALGORITHM", "algorithm", ctl_write_text, CTL_ROW_ONCE},
            {"RATE", NULL, write_rate, CTL_PART},
            {"BURST", "burst", ctl_write_number, CTL_PART},
            {"ON_FAILURE", NULL, write_on_failure, CTL_ROW},
            {"ROUTES", "routes", ctl_write_list, CTL_ROW_ONCE},
        },
};

/* "POST,PUT example.com /v1/login client header https" */
static void write_match(const json_t *match, struct text *cell)
{
    static const char *const MEMBERS[] = {"method", "host", "path",   "client",     "header",
                                          "query",  "jwt",  "scheme", "client_cert"};
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        const json_t *member = json_object_get(match, MEMBERS[i]);
        const size_t n = json_string_length(member) > 0 ? 1 : json_array_size(member);
        for (size_t j = 0; j < n; j++) {
            text_add(cell, j > 0 ? SPAN(",") : cell->len > 0 ? SPAN(" ") : SPAN(""));
            ctl_write_text(json_is_string(member) ? member : json_array_get(member, j), cell);
        }
        if (json_is_object(member)) { /* client_cert */
            text_add_format(cell, "%s%s", cell->len > 0 ? " " : "", MEMBERS[i]);
        }
    }
    if (cell->len == 0) {
        text_add_literal(cell, "everything");
    }
}

static void write_limits(const json_t *limits, struct text *cell)
{
    ctl_write_list(limits, cell);
    if (json_array_size(limits) == 0) {
        text_add_literal(cell, "none");
    }
}

static void write_destination(const json_t *route, struct text *cell)
{
    const json_t *respond = json_object_get(route, "respond");
    if (respond != NULL) {
        text_add_format(cell, "responds %lld", number_at(respond, "status"));
    } else {
        text_add(cell, span_of_text(ctl_text_at(route, "upstream")));
    }
}

static const struct ctl_table ROUTES = {
    .rows = "routes",
    .columns =
        {
            {"ROUTE", "name", ctl_write_text, CTL_ROW},
            {"MATCH", "match", write_match, CTL_ROW},
            {"LIMITS", "limits", write_limits, CTL_ROW},
            {"TO", NULL, write_destination, CTL_ROW},
        },
};

static void write_state(const json_t *server, struct text *cell)
{
    text_add_format(cell, "%s%s", ctl_text_at(server, "state"),
                    is_true_at(server, "in_use") ? ", in use" : "");
}

static const struct ctl_table UPSTREAMS = {
    .rows = "upstreams",
    .parts = "servers",
    .columns =
        {
            {"UPSTREAM", "name", ctl_write_text, CTL_ROW_ONCE},
            {"SERVER", "url", ctl_write_text, CTL_PART},
            {"HTTP", "protocol", ctl_write_text, CTL_PART},
            {"STATE", NULL, write_state, CTL_PART},
            {"WEIGHT", "weight", ctl_write_number, CTL_PART},
            {"REQUESTS", "requests", ctl_write_number, CTL_PART},
            {"CONNECTIONS", "connections", ctl_write_number, CTL_PART},
            {"WAITING", "waiting", ctl_write_number, CTL_ROW_ONCE},
        },
};

/* --- certificates --- */

static const struct ctl_table CERTIFICATES = {
    .rows = "certificates",
    .columns =
        {
            {"LISTENER", "listener", ctl_write_text, CTL_ROW},
            {"NAMES", "names", ctl_write_list, CTL_ROW},
            {"DAYS LEFT", "days_left", ctl_write_number, CTL_ROW},
            {"NOT AFTER", "not_after", ctl_write_text, CTL_ROW},
            {"FILE", "file", ctl_write_text, CTL_ROW},
            {"FINGERPRINT", "fingerprint", ctl_write_text, CTL_ROW},
            {"ISSUER", "issuer", ctl_write_text, CTL_ROW},
        },
};

/* --- keys --- */

static int print_key(const json_t *answer, FILE *out)
{
    const bool is_allowed = is_true_at(answer, "allowed");
    const json_t *ban = json_object_get(answer, "ban");
    ctl_print_line(out, "%s of %s (%s): the next request would be %s", ctl_text_at(answer, "key"),
                   ctl_text_at(answer, "limit"), ctl_text_at(answer, "source"),
                   is_allowed ? "allowed" : "denied");
    if (ban != NULL) {
        ctl_print_line(out, "%s until %s, by %s: %s",
                       strcmp(ctl_text_at(ban, "kind"), "ban") == 0 ? "banned" : "exempt",
                       ctl_text_at(ban, "until"), ctl_text_at(ban, "by"),
                       ctl_text_at(ban, "reason"));
    }
    return is_allowed ? EXIT_DONE : EXIT_REFUSED;
}

static void write_allowed(const json_t *value, struct text *cell)
{
    text_add(cell, json_is_true(value) ? SPAN("allowed") : SPAN("denied"));
}

static const struct ctl_table RATES = {
    .rows = "rates",
    .columns =
        {
            {"RATE", "name", ctl_write_text, CTL_ROW},
            {"NOW", "allowed", write_allowed, CTL_ROW},
            {"LIMIT", "limit", ctl_write_number, CTL_ROW},
            {"REMAINING", "remaining", ctl_write_number, CTL_ROW},
            {"RETRY IN", "retry_after_ms", write_wait, CTL_ROW},
            {"NEXT IN", "next_after_ms", write_wait, CTL_ROW},
            {"RESET IN", "reset_after_ms", write_wait, CTL_ROW},
        },
};

static int print_reset(const json_t *answer, FILE *out)
{
    ctl_print_line(out, "%s of %s: what was counted is forgotten", ctl_text_at(answer, "key"),
                   ctl_text_at(answer, "limit"));
    return EXIT_DONE;
}

/* 4711, or 4711-4730 where it is not known exactly. */
static void write_denied(const json_t *line, struct text *cell)
{
    const long long least = number_at(line, "denied");
    const long long most = number_at(line, "denied_at_most");
    text_add_format(cell, most > least ? "%lld-%lld" : "%lld", least, most);
}

static void write_top_key(const json_t *line, struct text *cell)
{
    ctl_write_text(json_object_get(line, "key"), cell);
    text_add(cell, is_true_at(line, "key_is_cut") ? SPAN(" ...") : SPAN(""));
}

static int print_keys(const json_t *answer, FILE *out)
{
    const bool is_any = json_array_size(json_object_get(answer, "keys")) > 0;
    ctl_print_line(out, is_any
                            ? "keys that were denied within the last hour, the most denied first:"
                            : "no key of it was denied within the last hour");
    return EXIT_DONE;
}

static const struct ctl_table KEYS = {
    .rows = "keys",
    .columns =
        {
            {"DENIED", NULL, write_denied, CTL_ROW},
            {"ALLOWED", "allowed", ctl_write_number, CTL_ROW},
            {"LAST DENIED", "last_denied", ctl_write_text, CTL_ROW},
            {"KEY", NULL, write_top_key, CTL_ROW},
        },
};

static const struct ctl_table TOP = {
    .rows = "top",
    .columns =
        {
            {"DENIED", NULL, write_denied, CTL_ROW},
            {"ALLOWED", "allowed", ctl_write_number, CTL_ROW},
            {"LAST DENIED", "last_denied", ctl_write_text, CTL_ROW},
            {"LIMIT", "limit", ctl_write_text, CTL_ROW},
            {"KEY", NULL, write_top_key, CTL_ROW},
        },
};

/* --- bans and exemptions --- */

/* TIME [REASON]. TIME is a duration or a timestamp; only a timestamp contains "-". */
static json_t *make_ban(int n_arguments, char **arguments, const char **why)
{
    const char *name = strchr(arguments[0], '-') != NULL ? "until" : "for";
    json_t *json = json_pack("{s:s, s:s*}", name, arguments[0], "reason",
                             n_arguments > 1 ? arguments[1] : NULL);
    *why = "the time and the reason must be UTF-8";
    return json;
}

/* The key, or its hash if the proxy does not know the key. */
static const char *key_at(const json_t *json)
{
    const char *key = ctl_text_at(json, "key");
    return key[0] != '\0' ? key : ctl_text_at(json, "hash");
}

static int print_ban(const json_t *answer, FILE *out)
{
    const bool is_ban = strcmp(ctl_text_at(answer, "kind"), "ban") == 0;
    const bool is_enforced = !json_is_false(json_object_get(answer, "enforced"));
    const bool is_lifted = is_true_at(answer, "lifted");
    ctl_print_line(out, "%s of %s: %s%s%s%s", key_at(answer), ctl_text_at(answer, "limit"),
                   is_ban ? "banned" : "exempt", is_lifted ? " no longer" : " until ",
                   is_lifted ? "" : ctl_text_at(answer, "until"),
                   is_lifted || is_enforced ? ""
                                            : "; the limit is a shadow and refuses no request");
    return EXIT_DONE;
}

static void write_ban_key(const json_t *ban, struct text *cell)
{
    text_add(cell, span_of_text(key_at(ban)));
}

/* Write the time in the largest unit of which at least two are left, rounded down: "90m", "2h". */
static void write_left(const json_t *ms, struct text *cell)
{
    static const struct {
        int seconds;
        char unit;
    } UNITS[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    const long long s = json_integer_value(ms) / 1000;
    size_t i = 0;
    while (UNITS[i].seconds > 1 && s < 2 * UNITS[i].seconds) {
        i++;
    }
    text_add_format(cell, "%lld%c", s / UNITS[i].seconds, UNITS[i].unit);
}

static const struct ctl_table BANS = {
    .rows = "bans",
    .columns =
        {
            {"KIND", "kind", ctl_write_text, CTL_ROW},
            {"LIMIT", "limit", ctl_write_text, CTL_ROW},
            {"KEY", NULL, write_ban_key, CTL_ROW},
            {"LEFT", "left_ms", write_left, CTL_ROW},
            {"BY", "by", ctl_write_text, CTL_ROW},
            {"REASON", "reason", ctl_write_text, CTL_ROW},
        },
};

/* --- tenants --- */

/* KEY PLAN [TIME] */
static json_t *make_tenant(int n_arguments, char **arguments, const char **why)
{
    const char *time = n_arguments > 2 ? arguments[2] : NULL;
    const char *name = time != NULL && strchr(time, '-') != NULL ? "until" : "for";
    *why = "the key, the plan and the time must be UTF-8";
    return json_pack("{s:s, s:s, s:s*}", "key", arguments[0], "plan", arguments[1], name, time);
}

static int print_tenant(const json_t *answer, FILE *out)
{
    const char *until = ctl_text_at(answer, "until");
    const char *plan = ctl_text_at(answer, "plan");
    if (plan[0] == '\0') {
        ctl_print_line(out, "%s: no plan", key_at(answer));
    } else {
        ctl_print_line(out, "%s: %s%s%s", key_at(answer), plan, until[0] != '\0' ? " until " : "",
                       until);
    }
    return EXIT_DONE;
}

static int print_hash(const json_t *answer, FILE *out)
{
    ctl_print_line(out, "%s", ctl_text_at(answer, "hash"));
    return EXIT_DONE;
}

static const struct ctl_table TENANTS = {
    .rows = "tenants",
    .columns =
        {
            {"KEY", NULL, write_ban_key, CTL_ROW},
            {"PLAN", "plan", ctl_write_text, CTL_ROW},
            {"UNTIL", "until", ctl_write_text, CTL_ROW},
            {"BY", "by", ctl_write_text, CTL_ROW},
        },
};

/* --- all of them --- */

const struct ctl_word CTL_WORDS[] = {
    {"status", "", "GET", "/v1/status", NULL, print_status, NULL,
     "version, policy, listeners, store and counters at a glance; exits 1 if it drains"},
    {"ui", "", "GET", "/v1/status", NULL, print_pages, NULL,
     "the address of the page that shows it in a browser; exits 1 if there is none"},
    {"health", "", "GET", "/healthz", NULL, print_health, NULL,
     "whether the workers' loops run; exits 1 if not"},
    {"ready", "", "GET", "/readyz", NULL, print_ready, NULL,
     "whether clients are served; exits 1 if not"},
    {"limits", "", "GET", "/v1/limits", NULL, NULL, &LIMITS, "what each limit means"},
    {"routes", "", "GET", "/v1/routes", NULL, NULL, &ROUTES, "which requests meet which limits"},
    {"upstreams", "", "GET", "/v1/upstreams", NULL, NULL, &UPSTREAMS,
     "the servers, and how they are doing"},
    {"certificates", "", "GET", "/v1/certificates", NULL, NULL, &CERTIFICATES,
     "what is shown to clients of TLS, and until when it is good"},
    {"reload", "", "POST", "/v1/reload", NULL, print_reload, NULL,
     "read the policy's file anew; exits 1 if the one before stays in force"},
    {"policy", "[defaults]", "GET", "/v1/policy?with=%", NULL, NULL, NULL,
     "the policy in force, as YAML that loads; with what it leaves out"},
    {"keys", "LIMIT [N]", "GET", "/v1/limits/%/keys?n=%", NULL, print_keys, &KEYS,
     "the keys of a limit that are denied most; key shows one of them"},
    {"key", "LIMIT KEY", "GET", "/v1/limits/%/keys/%", NULL, print_key, &RATES,
     "how one key stands; exits 3 if it would be denied"},
    {"reset", "LIMIT KEY", "DELETE", "/v1/limits/%/keys/%", NULL, print_reset, NULL,
     "forget what was counted of one key"},
    {"bans", "", "GET", "/v1/bans", NULL, NULL, &BANS, "bans and exemptions"},
    {"ban", "LIMIT KEY TIME [REASON]", "POST", "/v1/limits/%/keys/%/ban", make_ban, print_ban, NULL,
     "refuse a key: for 10m, or until 2026-03-29T01:59:00Z"},
    {"unban", "LIMIT KEY", "DELETE", "/v1/limits/%/keys/%/ban", NULL, print_ban, NULL,
     "refuse it no longer"},
    {"exempt", "LIMIT KEY TIME [REASON]", "POST", "/v1/limits/%/keys/%/exempt", make_ban, print_ban,
     NULL, "let a key pass, whatever is counted, likewise"},
    {"unexempt", "LIMIT KEY", "DELETE", "/v1/limits/%/keys/%/exempt", NULL, print_ban, NULL,
     "let it pass no longer"},
    {"tenant list", "", "GET", "/v1/tenants", NULL, NULL, &TENANTS, "keys that have a plan"},
    {"tenant set", "KEY PLAN [TIME]", "POST", "/v1/tenants", make_tenant, print_tenant, NULL,
     "give a key a plan: for ever, for 30d, or until 2026-03-29T01:59:00Z"},
    {"tenant unset", "KEY", "DELETE", "/v1/tenants/%", NULL, print_tenant, NULL,
     "take its plan from a key"},
    {"tenant show", "KEY", "GET", "/v1/tenants/%", NULL, print_tenant, NULL, "the plan of a key"},
    {"tenant hash", "KEY", "GET", "/v1/tenants/%", NULL, print_hash, NULL,
     "the hash of a key, as a field of the table in Redis"},
    {"top", "[LIMIT] [N]", "GET", "/v1/top?limit=%&n=%", NULL, NULL, &TOP,
     "who is denied most, of a limit or of all"},
};
const size_t N_CTL_WORDS = ARRAY_LEN(CTL_WORDS);
