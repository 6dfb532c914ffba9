/* Happy path: the destination is found, libcurl sends the request and hands over the body of the
 * answer, which is collected. Failures: a sentence that names the destination says what failed. */

#include "app/ctl/ctl_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/status.h"
#include "base/text.h"
#include "policy/loader.h"
#include "policy/units.h"

enum {
    BODY_BYTES_MAX = 256 * 1024 * 1024,
    URL_BYTES_MAX = 16 * 1024,
    TIMEOUT_S = 60, /* unless it is given: more than the proxy takes for anything */
    RETRY_NS = 10 * 1000 * 1000,
};

static const char DEFAULT_POLICY[] = "/etc/sluice/policy.yaml";

#define report(why, ...) ((void)snprintf((why), CTL_WHY_BYTES_MAX, __VA_ARGS__), false)

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

static bool read_token(const char *path, struct ctl_destination *destination, char *why)
{
    char line[CTL_TOKEN_BYTES_MAX + 3];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return report(why, "--token-file %.200s: %s", path, strerror(errno));
    }
    const bool is_read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    const struct span token = span_of(line, is_read ? strcspn(line, "\r\n") : 0);
    if (token.len == 0 || !copy(destination->token, sizeof(destination->token), token)) {
        return report(why, "--token-file %.200s: its first line is no token", path);
    }
    return true;
}

static bool use_socket(const char *path, struct ctl_destination *destination, char *why)
{
    const struct span prefix = SPAN("unix:");
    struct span span = span_of_text(path);
    if (span_starts_with(span, prefix)) {
        span = span_of(span.data + prefix.len, span.len - prefix.len);
    }
    return copy(destination->unix_path, sizeof(destination->unix_path), span) ||
           report(why, "the path of the socket is too long");
}

/* host:port, or [v6]:port; the port may be left out. */
static bool use_authority(struct span text, struct ctl_destination *destination)
{
    const bool has_bracket = text.len > 0 && text.data[0] == '[';
    const size_t host_end = has_bracket ? span_find(text, ']') : span_find(text, ':');
    const struct span host =
        has_bracket ? span_of(text.data + 1, host_end - 1) : span_of(text.data, host_end);
    const size_t skipped = host_end + (has_bracket ? 1 : 0);
    uint64_t port = destination->is_tls ? 443 : 80;
    if (skipped > text.len || host.len == 0 ||
        !copy(destination->host, sizeof(destination->host), host) ||
        strpbrk(destination->host, " @?#\\") != NULL) {
        return false;
    }
    const struct span rest = span_of(text.data + skipped, text.len - skipped);
    if (rest.len > 0 && (rest.data[0] != ':' ||
                         !span_to_u64(span_of(rest.data + 1, rest.len - 1), UINT16_MAX, &port))) {
        return false;
    }
    destination->port = (uint16_t)port;
    return true;
}

static bool use_url(const char *url, struct ctl_destination *destination, char *why)
{
    const struct span scheme = SPAN("http://");
    const struct span secure = SPAN("https://");
    struct span rest = span_of_text(url);
    if (span_starts_with(rest, SPAN("unix:"))) {
        return use_socket(url, destination, why);
    }
    destination->is_tls = span_starts_with(rest, secure);
    if (!destination->is_tls && !span_starts_with(rest, scheme)) {
        return report(why, "%.200s: must be a URL such as http://127.0.0.1:9900", url);
    }
    const size_t skipped = destination->is_tls ? secure.len : scheme.len;
    rest = span_of(rest.data + skipped, rest.len - skipped);
    const size_t end = span_find(rest, '/');
    if (end + 1 < rest.len || !use_authority(span_of(rest.data, end), destination)) {
        return report(why, "%.200s: must be a URL such as http://127.0.0.1:9900", url);
    }
    return true;
}

/* --- the policy --- */

/* The one that this machine reaches best. */
static const struct listener_section *choose(const struct admin_section *admin)
{
    const struct listener_section *chosen = NULL;
    for (size_t i = 0; i < admin->n_listeners; i++) {
        const struct listener_section *listener = &admin->listeners[i];
        const bool is_better = chosen == NULL || (listener->endpoint.unix_path.len > 0 &&
                                                  chosen->endpoint.unix_path.len == 0);
        chosen = is_better ? listener : chosen;
    }
    return chosen;
}

static void use_endpoint(const struct endpoint *endpoint, struct ctl_destination *destination)
{
    struct address address;
    const bool is_any =
        address_parse(endpoint->host, &address) &&
        (span_equals(endpoint->host, SPAN("0.0.0.0")) || span_equals(endpoint->host, SPAN("::")));
    const struct span loopback =
        span_equals(endpoint->host, SPAN("::")) ? SPAN("::1") : SPAN("127.0.0.1");
    (void)!copy(destination->unix_path, sizeof(destination->unix_path), endpoint->unix_path);
    (void)!copy(destination->host, sizeof(destination->host), is_any ? loopback : endpoint->host);
    destination->port = endpoint->port;
}

static bool use_policy(const char *path, struct ctl_destination *destination, char *why)
{
    struct policy *policy;
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = loader_load_file(path, &policy, &diags);
    const char *first = diags.n_items > 0 ? diags.items[0].text : status_text(status);
    if (status != STATUS_OK) {
        (void)report(why, "%.150s: %.200s\nsay --socket PATH or --url URL", path, first);
        diags_close(&diags);
        return false;
    }
    diags_close(&diags);
    const struct listener_section *listener = choose(&policy->admin);
    const bool is_found = listener != NULL;
    if (is_found) {
        use_endpoint(&listener->endpoint, destination);
        destination->is_tls = listener->tls != NULL;
        if (policy->admin.token.path.len > 0 && destination->token[0] == '\0' &&
            !read_token(policy->admin.token.path.data, destination, why)) {
            destination->token[0] = '\0'; /* without the right to read it: ask without a token */
        }
    }
    policy_free(policy);
    return is_found ||
           report(why,
                  "%.150s: the policy has no admin API; add the line \"admin: 127.0.0.1:9900\", or "
                  "\"admin: unix:/run/sluice/admin.sock\", and restart the proxy",
                  path);
}

/* --- all of it --- */

static bool find_token(const struct ctl_options *options, struct ctl_destination *destination,
                       char *why)
{
    const char *token = getenv("SLUICE_TOKEN");
    if (options->token_file != NULL) {
        return read_token(options->token_file, destination, why);
    }
    return token == NULL ||
           copy(destination->token, sizeof(destination->token), span_of_text(token)) ||
           report(why, "SLUICE_TOKEN is too long");
}

static bool find_timeout(const struct ctl_options *options, struct ctl_destination *destination,
                         char *why)
{
    char bytes[CTL_WHY_BYTES_MAX];
    struct text problem = text_of(bytes, sizeof(bytes));
    uint64_t us = TIMEOUT_S * UINT64_C(1000000);
    if (options->timeout != NULL &&
        !units_parse_duration(span_of_text(options->timeout), &us, &problem)) {
        return report(why, "--timeout %.100s: %.*s", options->timeout,
                      SPAN_ARGS(text_span(&problem)));
    }
    destination->timeout_s = (us + 999999) / 1000000;
    return destination->timeout_s > 0 || report(why, "--timeout must be at least 1s");
}

bool ctl_destination_find(const struct ctl_options *options, struct ctl_destination *destination,
                          char why[CTL_WHY_BYTES_MAX])
{
    const bool is_reported =
        options->socket != NULL || options->url != NULL || options->policy != NULL;
    const char *socket = is_reported ? options->socket : getenv("SLUICE_SOCKET");
    const char *url = is_reported ? options->url : getenv("SLUICE_URL");
    *destination = (struct ctl_destination){.port = 0};
    if (!find_timeout(options, destination, why) || !find_token(options, destination, why)) {
        return false;
    }
    if (options->ca != NULL &&
        !copy(destination->ca, sizeof(destination->ca), span_of_text(options->ca))) {
        return report(why, "--ca: the path is too long");
    }
    if (socket != NULL) {
        return use_socket(socket, destination, why);
    }
    if (url != NULL) {
        return use_url(url, destination, why);
    }
    return use_policy(options->policy != NULL ? options->policy : DEFAULT_POLICY, destination, why);
}

const char *ctl_destination_unauthorized(const struct ctl_destination *destination)
{
    return destination->token[0] == '\0'
               ? "no token was sent, and this address needs one: give --token-file FILE or set "
                 "SLUICE_TOKEN, or ask with --socket PATH over a unix socket, which admin may have "
                 "too "
                 "(admin: [127.0.0.1:9900, unix:/run/sluice/admin.sock])"
               : "the proxy does not accept the token that was sent; it must be one of the "
                 "policy's `admin` section";
}

/* --- the request --- */

/* One request; the members are owned. */
struct request {
    CURL *curl;
    struct curl_slist *fields;
    FILE *body; /* writes the body of the answer to memory */
};

static bool write_url(const struct ctl_destination *destination, struct span target,
                      char url[URL_BYTES_MAX])
{
    struct text text = text_of(url, URL_BYTES_MAX);
    if (destination->unix_path[0] != '\0') {
        text_add(&text, destination->is_tls ? SPAN("https://localhost") : SPAN("http://localhost"));
    } else {
        const bool is_ipv6 = strchr(destination->host, ':') != NULL;
        text_add_format(&text, is_ipv6 ? "%s://[%s]:%u" : "%s://%s:%u",
                        destination->is_tls ? "https" : "http", destination->host,
                        destination->port);
    }
    text_add(&text, target);
    text_add_char(&text, '\0');
    return !text.truncated;
}

static bool add_field(struct request *request, const char *field)
{
    struct curl_slist *longer = curl_slist_append(request->fields, field);
    request->fields = longer != NULL ? longer : request->fields;
    return longer != NULL;
}

static bool add_fields(struct request *request, const struct ctl_destination *destination,
                       bool has_body)
{
    char token[sizeof("Authorization: Bearer ") + CTL_TOKEN_BYTES_MAX];
    (void)snprintf(token, sizeof(token), "Authorization: Bearer %s", destination->token);
    return add_field(request, "Accept: application/json") &&
           add_field(request, "Connection: close") &&
           (!has_body || add_field(request, "Content-Type: application/json")) &&
           (destination->token[0] == '\0' || add_field(request, token));
}

void ctl_add_escaped(struct text *target, struct span span)
{
    char *escaped = curl_easy_escape(NULL, span.len > 0 ? span.data : "", (int)span.len);
    text_add(target, span_of_text(escaped != NULL ? escaped : ""));
    target->truncated = target->truncated || escaped == NULL;
    curl_free(escaped);
}

/* A callback of libcurl: less than @n is a failure. */
static size_t on_body(char *data, size_t size, size_t n, void *context)
{
    FILE *body = context;
    const bool has_room = ftell(body) + (long)n <= BODY_BYTES_MAX;
    return has_room ? fwrite(data, size, n, body) : 0;
}

/* True: all options were taken. */
static bool set_options(struct request *request, const struct ctl_destination *destination,
                        const char *method, const char *url, const char *body)
{
    CURL *curl = request->curl;
    const char *unix_path = destination->unix_path[0] != '\0' ? destination->unix_path : NULL;
    bool is_good = true;
    is_good &= curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, unix_path) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
    if (destination->ca[0] != '\0') {
        is_good &= curl_easy_setopt(curl, CURLOPT_CAINFO, destination->ca) == CURLE_OK;
    }
    is_good &= curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    is_good &=
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)destination->timeout_s) == CURLE_OK;
    is_good &=
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)destination->timeout_s) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK;
    if (body != NULL) {
        is_good &= curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body) == CURLE_OK;
    }
    is_good &= curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_HTTPHEADER, request->fields) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_WRITEDATA, request->body) == CURLE_OK;
    return is_good;
}

/* The full queue of a unix socket refuses a connection at once, which libcurl reports without an
 * error number: it is tried again. */
static CURLcode perform(CURL *curl, uint64_t timeout_s, long *error)
{
    const uint64_t ends_us = clock_monotonic_us() + timeout_s * 1000000;
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    for (;;) {
        const CURLcode code = curl_easy_perform(curl);
        *error = 0;
        (void)curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, error);
        if (code != CURLE_COULDNT_CONNECT || (*error != 0 && *error != EAGAIN)) {
            return code;
        }
        if (clock_monotonic_us() >= ends_us) {
            return CURLE_OPERATION_TIMEDOUT;
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* --- the answer --- */

static const char *text_of_failure(CURLcode code, long error)
{
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        return "no answer in time; whether it was heeded is not known";
    case CURLE_GOT_NOTHING:
        return "the connection was closed without an answer; whether it was heeded is not known";
    case CURLE_WRITE_ERROR:
        return status_text(STATUS_TOO_LARGE);
    case CURLE_OUT_OF_MEMORY:
        return status_text(STATUS_NO_MEMORY);
    case CURLE_COULDNT_RESOLVE_HOST:
        return "no address is known of this name, or no name server answers";
    case CURLE_PEER_FAILED_VERIFICATION:
        return "its certificate is not trusted, or is not for this host: see --ca";
    case CURLE_SSL_CACERT_BADFILE:
        return "the file of --ca cannot be read, or has no certificate in PEM";
    case CURLE_SSL_CONNECT_ERROR:
        return "the TLS handshake failed: does it speak https?";
    case CURLE_COULDNT_CONNECT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        if (error != 0) {
            return strerror((int)error);
        }
        break;
    default:
        break;
    }
    return "what was answered is no HTTP: is sluice's admin there?";
}

static void read_answer(CURL *curl, struct ctl_answer *answer)
{
    const char *type = NULL;
    long status = 0;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    answer->status = (uint16_t)status;
    answer->is_json =
        type != NULL && (span_starts_with(span_of_text(type), SPAN("application/json")) ||
                         span_starts_with(span_of_text(type), SPAN("application/problem+json")));
}

/* NULL: @answer is filled; else what has failed. */
static const char *ask(struct request *request, const struct ctl_destination *destination,
                       const char *method, struct span target, const char *body,
                       struct ctl_answer *answer)
{
    char url[URL_BYTES_MAX];
    long error;
    if (strlen(destination->unix_path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        return "the path of a unix socket is not that long";
    }
    if (!write_url(destination, target, url)) {
        return "the request is too long";
    }
    request->curl = curl_easy_init();
    request->body = open_memstream(&answer->body, &answer->body_bytes);
    if (request->curl == NULL || request->body == NULL ||
        !add_fields(request, destination, body != NULL) ||
        !set_options(request, destination, method, url, body)) {
        return status_text(STATUS_NO_MEMORY);
    }
    const CURLcode code = perform(request->curl, destination->timeout_s, &error);
    if (fflush(request->body) != 0) {
        return status_text(STATUS_NO_MEMORY);
    }
    read_answer(request->curl, answer);
    return code == CURLE_OK ? NULL : text_of_failure(code, error);
}

bool ctl_ask(const struct ctl_destination *destination, const char *method, struct span target,
             const char *body, struct ctl_answer *answer, char why[CTL_WHY_BYTES_MAX])
{
    struct request request = {.curl = NULL};
    *answer = (struct ctl_answer){.body = NULL};
    (void)curl_global_init(CURL_GLOBAL_NOTHING);
    const char *failure = ask(&request, destination, method, target, body, answer);
    if (request.body != NULL) {
        fclose(request.body);
    }
    curl_slist_free_all(request.fields);
    curl_easy_cleanup(request.curl);
    curl_global_cleanup();
    if (failure == NULL) {
        return true;
    }
    ctl_answer_close(answer);
    return destination->unix_path[0] != '\0'
               ? report(why, "unix:%.200s: %s", destination->unix_path, failure)
               : report(why, "%.200s port %u: %s", destination->host, destination->port, failure);
}

void ctl_answer_close(struct ctl_answer *answer)
{
    free(answer->body);
    *answer = (struct ctl_answer){.body = NULL};
}
