/* A request to the admin API: whatever is sent, what it asks for is found or told why not, nobody
 * is let in who may not be, and a body is read or refused with a reason. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "admin/access.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "base/compiler.h"
#include "base/hash.h"
#include "fuzz/must_hold.h"
#include "http/head.h"

#define TOKEN "0123456789abcdef"

enum { FIELDS_MAX = 64 };

static struct access_rules rules;

static void set_up(void)
{
    static const struct span HOSTS[] = {{"sluice.example", 14}};
    MUST_HOLD(hash_setup() == STATUS_OK);
    rules.token.is_set = true;
    secret_init(&rules.token.secret, SPAN(TOKEN));
    rules.hosts = HOSTS;
    rules.n_hosts = ARRAY_LEN(HOSTS);
}

static void on_answer(struct admin_request *request)
{
    (void)request;
}

static void check_captures(const struct resource_match *match, const char *decoded, size_t len)
{
    for (size_t i = 0; i < ADMIN_CAPTURES_MAX; i++) {
        const struct span capture = match->captures[i];
        MUST_HOLD(capture.len == 0 ||
                  (capture.data >= decoded && capture.data + capture.len <= decoded + len));
    }
}

static void check_body(struct span body)
{
    struct admin_request request = {.body = body, .on_answer = on_answer};
    json_t *json = request_read_object(&request);
    MUST_HOLD((json == NULL) == request.is_answered);
    MUST_HOLD(json != NULL || (request.status == 400 && request.content_bytes > 0));
    json_decref(json);
    free(request.content);
    json_t *text = json_of_span(body);
    MUST_HOLD(text == NULL || json_is_string(text));
    json_decref(text);
}

/* Nobody changes anything without a socket or the token; nobody is let in from
 * elsewhere without the token. */
static void check_access(const struct head *head, enum admin_effect effect)
{
    struct access_peer peer = {.is_unix = false};
    const struct field *field = head_find_name(head, SPAN("Authorization"));
    const bool shows_token =
        field != NULL && field->value.len >= strlen(TOKEN) &&
        span_equals(span_of(field->value.data + field->value.len - strlen(TOKEN), strlen(TOKEN)),
                    SPAN(TOKEN));
    MUST_HOLD(address_parse(SPAN("192.0.2.1"), &peer.address));
    MUST_HOLD(access_judge(&rules, &peer, head, effect).status != 0 || shows_token);
    MUST_HOLD(address_parse(SPAN("127.0.0.1"), &peer.address));
    MUST_HOLD(access_judge(&rules, &peer, head, ADMIN_CHANGES).status != 0 || shows_token);
    const struct access_verdict verdict = access_judge(&rules, &peer, head, effect);
    MUST_HOLD(verdict.status == 0 || verdict.status == 401 || verdict.reason != NULL);
    peer.is_unix = true;
    (void)access_judge(&rules, &peer, head, effect);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct field fields[FIELDS_MAX];
    struct head_parser parser = {
        .fields = fields, .n_fields_max = FIELDS_MAX, .head_bytes_max = 16 * 1024};
    struct head head;
    size_t consumed;
    if (!rules.token.is_set) {
        set_up();
    }
    const struct span input = span_of((const char *)data, size);
    if (head_parse_request(&parser, input, &head, &consumed) != PARSE_DONE ||
        head.target.path.len > ADMIN_PATH_BYTES_MAX) {
        return 0;
    }
    char allow[RESOURCE_ALLOW_BYTES];
    char *decoded = malloc(head.target.path.len + 1); /* so that a byte too far is seen */
    struct resource_match match;
    MUST_HOLD(decoded != NULL);
    resource_find(head.method, head.target.path, decoded, allow, &match);
    MUST_HOLD((match.resource == NULL) == (match.status != 0));
    check_captures(&match, decoded, head.target.path.len);
    check_access(&head, match.effect);
    check_body(span_of(input.data + consumed, input.len - consumed));
    free(decoded);
    return 0;
}
