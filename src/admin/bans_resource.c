/* GET /v1/bans: the bans and exemptions that this process knows.
 *
 * POST and DELETE /v1/limits/{limit}/keys/{key}/ban and …/exempt: an operator has a limit refuse a
 * key until a time, or pass over it, and takes that back.
 *
 * Happy path: what is wanted is read, the change is made where the bans are, and answered with what
 * holds from then on. Failures: a body that says nothing, too much or nonsense (400), nothing to
 * take back (404), too many (409), no shared store (503). A change cannot be called back: where the
 * request is gone meanwhile, it is made all the same. */

#include <stdlib.h>
#include <string.h>

#include "admin/internal.h"
#include "admin/key_resource.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "policy/units.h"
#include "store/ban_change.h"

/* --- the list --- */

static void set_terms(json_t **json, const struct ban *ban, uint64_t left_us)
{
    describe_set(json, "kind", json_string(ban->kind == BAN_REFUSES ? "ban" : "exempt"));
    describe_set(json, "until", describe_timestamp(ban->until_ms * 1000));
    describe_set(json, "left_ms", json_integer((json_int_t)(left_us / 1000)));
    describe_set(json, "set", describe_timestamp(ban->set_ms * 1000));
    describe_set(json, "by", json_of_span(ban->by));
    describe_set(json, "reason", json_of_span(ban->reason));
}

static void add_ban(void *context, const struct ban *ban, uint64_t left_us)
{
    json_t **list = context;
    json_t *json = json_object();
    describe_set(&json, "limit", json_of_span(ban->limit));
    describe_identity(&json, ban->identity, ban->hash);
    set_terms(&json, ban, left_us);
    describe_append(list, json);
}

void bans_handle(struct admin_request *request)
{
    struct bans *bans = request->admin->options.bans;
    const struct replica_counters counters = bans_count(bans);
    json_t *list = json_array();
    json_t *json = json_object();
    bans_list(bans, clock_monotonic_us(), add_ban, &list);
    describe_set(&json, "n", json_integer((json_int_t)json_array_size(list)));
    describe_set(&json, "max", json_integer((json_int_t)counters.n_max));
    describe_set(&json, "unobeyed", json_integer((json_int_t)counters.n_unobeyed));
    describe_set(&json, "bans", list);
    answer_json(request, 200, json);
}

static void take_terms(void *context, const struct ban *ban, uint64_t left_us)
{
    json_t **json = context;
    *json = json_object();
    set_terms(json, ban, left_us);
}

json_t *key_resource_describe_ban(struct bans *bans, const struct limit_rule *rule,
                                  const struct key_given *given)
{
    json_t *json = NULL;
    (void)bans_find(bans, rule->name, given->hash, key_given_identity(given), clock_monotonic_us(),
                    take_terms, &json);
    return json;
}

/* --- what is wanted --- */

struct change {
    struct key_change of_key; /* the first member: key_change_run() frees it */
    char reason[BAN_REASON_BYTES_MAX];
    struct ban_change ban;
};

static bool refuse(struct change *change, const char *problem)
{
    answer_problem(change->of_key.request, 400, "%s", problem);
    return false;
}

static bool is_known(const char *name)
{
    return strcmp(name, "for") == 0 || strcmp(name, "until") == 0 || strcmp(name, "reason") == 0;
}

/* A string, or nothing. */
static bool read_text(struct change *change, const json_t *json, const char *name,
                      struct span *text)
{
    const json_t *value = json_object_get(json, name);
    if (value == NULL) {
        *text = span_of(NULL, 0);
        return true;
    }
    if (!json_is_string(value)) {
        answer_problem(change->of_key.request, 400, "%s must be a string", name);
        return false;
    }
    *text = span_of(json_string_value(value), json_string_length(value));
    return true;
}

static bool read_reason(struct change *change, struct span reason)
{
    if (reason.len > sizeof(change->reason)) {
        return refuse(change, "reason is longer than 256 bytes");
    }
    for (size_t i = 0; i < reason.len; i++) {
        if ((unsigned char)reason.data[i] < ' ' || reason.data[i] == 0x7f) {
            return refuse(change, "reason is one line of text");
        }
    }
    if (reason.len > 0) {
        memcpy(change->reason, reason.data, reason.len);
    }
    change->ban.ban.reason = span_of(change->reason, reason.len);
    return true;
}

static bool read_length(struct admin_request *request, struct span length, uint64_t *for_ms)
{
    char buffer[ADMIN_DETAIL_BYTES_MAX];
    struct text problem = text_of(buffer, sizeof(buffer));
    uint64_t us;
    if (!units_parse_duration(length, &us, &problem)) {
        answer_problem(request, 400, "for: %.*s", SPAN_ARGS(text_span(&problem)));
        return false;
    }
    *for_ms = us / 1000;
    if (*for_ms == 0) {
        answer_problem(request, 400, "for is a millisecond at least");
    }
    return *for_ms > 0;
}

static const uint64_t UNTIL_US_MAX = UINT64_C(3653) * 24 * 3600 * 1000 * 1000; /* ten years */

static bool read_end(struct admin_request *request, struct span timestamp, uint64_t *until_ms)
{
    uint64_t us;
    if (!timestamp_parse(timestamp, &us)) {
        answer_problem(request, 400, "until is a moment such as 2026-03-29T01:59:00Z");
        return false;
    }
    if (us > clock_wall_us() && us - clock_wall_us() > UNTIL_US_MAX) {
        answer_problem(request, 400, "until is ten years ahead at most");
        return false;
    }
    *until_ms = us / 1000;
    return true;
}

bool request_read_term(struct admin_request *request, struct span length, struct span end,
                       uint64_t *for_ms, uint64_t *until_ms)
{
    return length.data != NULL ? read_length(request, length, for_ms)
                               : read_end(request, end, until_ms);
}

static bool read_members(struct change *change, const json_t *json)
{
    struct span length;
    struct span end;
    struct span reason;
    if (!read_text(change, json, "for", &length) || !read_text(change, json, "until", &end) ||
        !read_text(change, json, "reason", &reason) || !read_reason(change, reason)) {
        return false;
    }
    if ((length.data == NULL) == (end.data == NULL)) {
        return refuse(change, "say for how long, {\"for\": \"10m\"}, or until when, "
                              "{\"until\": \"2026-03-29T01:59:00Z\"}");
    }
    return request_read_term(change->of_key.request, length, end, &change->ban.change.for_ms,
                             &change->ban.ban.until_ms);
}

static bool read_body(struct change *change)
{
    const char *name;
    json_t *value;
    json_t *json = request_read_object(change->of_key.request);
    if (json == NULL) {
        return false;
    }
    json_object_foreach(json, name, value)
    {
        if (!is_known(name)) {
            answer_problem(change->of_key.request, 400,
                           "unknown member \"%.64s\"; there are for, until, reason", name);
            json_decref(json);
            return false;
        }
    }
    const bool is_good = read_members(change, json);
    json_decref(json);
    return is_good;
}

/* --- the answer --- */

static const char *word_of(const struct change *change)
{
    return change->ban.ban.kind == BAN_REFUSES ? "ban" : "exempt";
}

static struct change *change_of(struct key_change *of_key)
{
    return CONTAINER_OF(of_key, struct change, of_key);
}

static void answer_done(struct key_change *of_key)
{
    struct change *change = change_of(of_key);
    char shown[KEY_SHOWN_BYTES];
    const struct span key = key_resource_show(&of_key->given, shown);
    json_t *json = key_resource_describe(of_key->rule, &of_key->given);
    describe_set(&json, "kind", json_string(word_of(change)));
    if (change->ban.change.is_removal) {
        describe_set(&json, "lifted", json_true());
        answer_note(of_key->request, "lifted %s of %.*s", word_of(change), SPAN_ARGS(key));
    } else {
        describe_set(&json, "until", describe_timestamp(change->ban.ban.until_ms * 1000));
        describe_set(&json, "reason", json_of_span(change->ban.ban.reason));
        describe_set(&json, "enforced", json_boolean(!of_key->rule->limits[0].shadow));
        answer_note(of_key->request, "%s of %.*s until %llu ms: %.*s", word_of(change),
                    SPAN_ARGS(key), (unsigned long long)change->ban.ban.until_ms,
                    SPAN_ARGS(change->ban.ban.reason));
    }
    answer_json(of_key->request, 200, json);
}

static void answer_refused(struct key_change *of_key)
{
    const struct change *change = change_of(of_key);
    if (change->ban.change.status == STATUS_NOT_FOUND) {
        answer_problem(of_key->request, 404, "the key has no %s", word_of(change));
    } else {
        answer_problem(of_key->request, 409,
                       "there are as many bans and exemptions as max.bans says: lift some");
    }
}

/* --- the change --- */

static enum store_outcome start(struct key_change *of_key)
{
    struct ban_change *ban = &change_of(of_key)->ban;
    ban->bans = of_key->admin->options.bans;
    ban->ban.limit = of_key->rule->name;
    ban->ban.identity = key_given_identity(&of_key->given);
    memcpy(ban->ban.hash, of_key->given.hash, sizeof(ban->ban.hash));
    ban->ban.by = span_of_text(of_key->by);
    return ban_change_start(ban);
}

static void handle(struct admin_request *request, enum ban_kind kind, bool is_lift)
{
    struct change *change = calloc(1, sizeof(*change));
    if (change == NULL) {
        answer_problem(request, 503, "out of memory");
        return;
    }
    change->ban.ban.kind = kind;
    change->ban.change.is_removal = is_lift;
    if (!key_change_begin(&change->of_key, request) || (!is_lift && !read_body(change)) ||
        !key_change_may_wait(&change->of_key)) {
        free(change);
        return;
    }
    change->of_key.table = &change->ban.change;
    change->of_key.answer_done = answer_done;
    change->of_key.answer_refused = answer_refused;
    change->of_key.list = "/v1/bans";
    key_change_run(&change->of_key, start);
}

void ban_handle(struct admin_request *request)
{
    handle(request, BAN_REFUSES, false);
}

void unban_handle(struct admin_request *request)
{
    handle(request, BAN_REFUSES, true);
}

void exempt_handle(struct admin_request *request)
{
    handle(request, BAN_EXEMPTS, false);
}

void unexempt_handle(struct admin_request *request)
{
    handle(request, BAN_EXEMPTS, true);
}
