#include "app/ctl_words.h"

#include "base/compiler.h"

const struct ctl_word CTL_WORDS[] = {
    {"health", "", "GET", "/healthz", NULL, ctl_show_health,
     "whether the workers' loops turn; exits 1 if not"},
    {"ready", "", "GET", "/readyz", NULL, ctl_show_ready,
     "whether clients are served; exits 1 if not"},
    {"limits", "", "GET", "/v1/limits", NULL, ctl_show_limits, "what each limit means"},
    {"routes", "", "GET", "/v1/routes", NULL, ctl_show_routes, "which requests meet which limits"},
    {"upstreams", "", "GET", "/v1/upstreams", NULL, ctl_show_upstreams,
     "the servers, and how they are doing"},
    {"reload", "", "POST", "/v1/reload", NULL, ctl_show_reload,
     "read the policy's file anew; exits 1 if the one before stays in force"},
    {"policy", "", "GET", "/v1/policy", NULL, NULL,
     "the policy in force, defaults filled in, secrets masked"},
    {"key", "LIMIT KEY", "GET", "/v1/limits/%/keys/%", NULL, ctl_show_key,
     "how one key stands; exits 3 if it would be denied"},
    {"reset", "LIMIT KEY", "DELETE", "/v1/limits/%/keys/%", NULL, ctl_show_reset,
     "forget what was counted of one key"},
    {"bans", "", "GET", "/v1/bans", NULL, ctl_show_bans, "who is banned and exempt"},
    {"ban", "LIMIT KEY TIME [REASON]", "POST", "/v1/limits/%/keys/%/ban", ctl_make_ban,
     ctl_show_ban, "refuse a key: for 10m, or until 2026-03-29T01:59:00Z"},
    {"unban", "LIMIT KEY", "DELETE", "/v1/limits/%/keys/%/ban", NULL, ctl_show_ban,
     "refuse it no longer"},
    {"exempt", "LIMIT KEY TIME [REASON]", "POST", "/v1/limits/%/keys/%/exempt", ctl_make_ban,
     ctl_show_ban, "let a key pass, whatever is counted, likewise"},
    {"unexempt", "LIMIT KEY", "DELETE", "/v1/limits/%/keys/%/exempt", NULL, ctl_show_ban,
     "let it pass no longer"},
    {"top", "[LIMIT] [N]", "GET", "/v1/top?limit=%&n=%", NULL, ctl_show_top,
     "who is denied most, of a limit or of all"},
};
const size_t N_CTL_WORDS = ARRAY_LEN(CTL_WORDS);
