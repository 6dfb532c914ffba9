/* GET /v1/bans: who is banned and exempt just now, as this process knows;
 * and the same of one key. */

#include "admin/describe.h"
#include "admin/internal.h"
#include "admin/key_resource.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "base/moment.h"

static json_t *describe_ms(uint64_t ms)
{
    char bytes[64];
    struct text text = text_of(bytes, sizeof(bytes));
    moment_write(&text, ms * 1000);
    return json_of_span(text_span(&text));
}

static void set_key(json_t **json, const struct ban *ban)
{
    char shown[4 * KEY_TEXT_BYTES_MAX];
    char hash[2 * HASH_IDENTITY_BYTES];
    struct text key = text_of(shown, sizeof(shown));
    struct text hex = text_of(hash, sizeof(hash));
    if (ban->identity.len > 0) {
        key_print(ban->identity, &key);
        describe_set(json, "key", json_of_span(text_span(&key)));
    }
    text_add_hex(&hex, ban->hash, sizeof(ban->hash));
    describe_set(json, "hash", json_of_span(text_span(&hex)));
}

static void set_terms(json_t **json, const struct ban *ban, uint64_t left_us)
{
    describe_set(json, "kind", json_string(ban->kind == BAN_REFUSES ? "ban" : "exempt"));
    describe_set(json, "until", describe_ms(ban->until_ms));
    describe_set(json, "left_ms", json_integer((json_int_t)(left_us / 1000)));
    describe_set(json, "set", describe_ms(ban->set_ms));
    describe_set(json, "by", json_of_span(ban->by));
    describe_set(json, "reason", json_of_span(ban->reason));
}

static void add_ban(void *context, const struct ban *ban, uint64_t left_us)
{
    json_t **list = context;
    json_t *json = json_object();
    describe_set(&json, "limit", json_of_span(ban->limit));
    set_key(&json, ban);
    set_terms(&json, ban, left_us);
    describe_append(list, json);
}

void bans_handle(struct admin_request *request)
{
    struct bans *bans = request->admin->options.bans;
    const struct bans_counters counters = bans_count(bans);
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
    (void)bans_find(bans, rule->name, given->hash, clock_monotonic_us(), take_terms, &json);
    return json;
}
