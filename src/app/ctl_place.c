#include "app/ctl_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/diag.h"
#include "policy/loader.h"

static const char DEFAULT_POLICY[] = "/etc/sluice/policy.yaml";

#define tell(why, ...) ((void)snprintf((why), CTL_WHY_BYTES_MAX, __VA_ARGS__), false)

/* @span with a NUL behind it; false: there is no room. */
static bool copy(char *to, size_t capacity, struct span span)
{
    if (span.len >= capacity) {
        return false;
    }
    memcpy(to, span.data, span.len);
    to[span.len] = '\0';
    return true;
}

static bool read_token(const char *path, struct ctl_place *place, char *why)
{
    char line[CTL_TOKEN_BYTES_MAX + 3];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return tell(why, "%.200s: %s", path, strerror(errno));
    }
    const bool is_read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    const struct span token = span_of(line, is_read ? strcspn(line, "\r\n") : 0);
    if (token.len == 0 || !copy(place->token, sizeof(place->token), token)) {
        return tell(why, "%.200s: its first line is no token", path);
    }
    return true;
}

static bool use_socket(const char *path, struct ctl_place *place, char *why)
{
    const struct span prefix = SPAN("unix:");
    struct span span = span_of_text(path);
    if (span_starts_with(span, prefix)) {
        span = span_of(span.data + prefix.len, span.len - prefix.len);
    }
    return copy(place->unix_path, sizeof(place->unix_path), span) ||
           tell(why, "the path of the socket is too long");
}

/* host:port, or [v6]:port; the port may be left out. */
static bool use_authority(struct span text, struct ctl_place *place)
{
    const bool has_bracket = text.len > 0 && text.data[0] == '[';
    const size_t host_end = has_bracket ? span_find(text, ']') : span_find(text, ':');
    const struct span host =
        has_bracket ? span_of(text.data + 1, host_end - 1) : span_of(text.data, host_end);
    const size_t skipped = host_end + (has_bracket ? 1 : 0);
    uint64_t port = 80;
    if (skipped > text.len || host.len == 0 || !copy(place->host, sizeof(place->host), host)) {
        return false;
    }
    const struct span rest = span_of(text.data + skipped, text.len - skipped);
    if (rest.len > 0 && (rest.data[0] != ':' ||
                         !span_to_u64(span_of(rest.data + 1, rest.len - 1), UINT16_MAX, &port))) {
        return false;
    }
    place->port = (uint16_t)port;
    return true;
}

static bool use_url(const char *url, struct ctl_place *place, char *why)
{
    const struct span scheme = SPAN("http://");
    struct span rest = span_of_text(url);
    if (span_starts_with(rest, SPAN("unix:"))) {
        return use_socket(url, place, why);
    }
    if (!span_starts_with(rest, scheme)) {
        return tell(why, "%.200s: must be a URL such as http://127.0.0.1:9900", url);
    }
    rest = span_of(rest.data + scheme.len, rest.len - scheme.len);
    const size_t end = span_find(rest, '/');
    if (end + 1 < rest.len || !use_authority(span_of(rest.data, end), place)) {
        return tell(why, "%.200s: must be a URL such as http://127.0.0.1:9900", url);
    }
    return true;
}

/* --- the policy --- */

/* The one that this machine reaches best. */
static const struct endpoint *choose(const struct admin_section *admin)
{
    const struct endpoint *chosen = NULL;
    for (size_t i = 0; i < admin->n_listeners; i++) {
        const struct endpoint *endpoint = &admin->listeners[i].endpoint;
        const bool is_better =
            chosen == NULL || (endpoint->unix_path.len > 0 && chosen->unix_path.len == 0);
        chosen = is_better ? endpoint : chosen;
    }
    return chosen;
}

static void use_endpoint(const struct endpoint *endpoint, struct ctl_place *place)
{
    struct address address;
    const bool is_any =
        address_parse(endpoint->host, &address) &&
        (span_equals(endpoint->host, SPAN("0.0.0.0")) || span_equals(endpoint->host, SPAN("::")));
    const struct span loopback =
        span_equals(endpoint->host, SPAN("::")) ? SPAN("::1") : SPAN("127.0.0.1");
    (void)!copy(place->unix_path, sizeof(place->unix_path), endpoint->unix_path);
    (void)!copy(place->host, sizeof(place->host), is_any ? loopback : endpoint->host);
    place->port = endpoint->port;
}

static bool use_policy(const char *path, struct ctl_place *place, char *why)
{
    struct policy *policy;
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = loader_load_file(path, &policy, &diags);
    const char *first = diags.n_items > 0 ? diags.items[0].text : status_text(status);
    if (status != STATUS_OK) {
        (void)tell(why, "%.150s: %.200s\nsay --socket PATH or --url URL", path, first);
        diags_close(&diags);
        return false;
    }
    diags_close(&diags);
    const struct endpoint *endpoint = choose(&policy->admin);
    if (endpoint != NULL) {
        use_endpoint(endpoint, place);
        if (policy->admin.token.path.len > 0 && place->token[0] == '\0' &&
            !read_token(policy->admin.token.path.data, place, why)) {
            place->token[0] = '\0'; /* who may not read it asks without */
        }
    }
    policy_free(policy);
    return endpoint != NULL || tell(why, "%.200s: the policy has no \"admin\"", path);
}

/* --- all of it --- */

static bool find_token(const struct ctl_options *options, struct ctl_place *place, char *why)
{
    const char *token = getenv("SLUICE_TOKEN");
    if (options->token_file != NULL) {
        return read_token(options->token_file, place, why);
    }
    return token == NULL || copy(place->token, sizeof(place->token), span_of_text(token)) ||
           tell(why, "SLUICE_TOKEN is too long");
}

bool ctl_place_find(const struct ctl_options *options, struct ctl_place *place,
                    char why[CTL_WHY_BYTES_MAX])
{
    const bool is_told = options->socket != NULL || options->url != NULL || options->policy != NULL;
    const char *socket = is_told ? options->socket : getenv("SLUICE_SOCKET");
    const char *url = is_told ? options->url : getenv("SLUICE_URL");
    *place = (struct ctl_place){.port = 0};
    if (!find_token(options, place, why)) {
        return false;
    }
    if (socket != NULL) {
        return use_socket(socket, place, why);
    }
    if (url != NULL) {
        return use_url(url, place, why);
    }
    return use_policy(options->policy != NULL ? options->policy : DEFAULT_POLICY, place, why);
}

const char *ctl_place_unauthorized(const struct ctl_place *place)
{
    return place->token[0] == '\0'
               ? "no token was sent, and this address needs one: give --token-file FILE or set "
                 "SLUICE_TOKEN, or ask over the unix socket with --socket PATH"
               : "the proxy does not accept the token that was sent; it must be one of the "
                 "policy's `admin` section";
}
