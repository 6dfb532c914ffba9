/* Happy path: keys are due ─► their set is fetched and read ─► it is put in force ─► wait.
 *
 * Failures, each logged when it begins and when it ends: no connection, a certificate that does not
 * verify, another status than 200 (redirects too), more than JWT_KEY_SET_BYTES_MAX, longer than
 * FETCH_S, no key set. The keys that are in force stay so: see jwt/keys.h. A set without a key that
 * can be used is no failure: an issuer that withdraws its last key answers so. */

#include "app/serve/reload.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "jwt/keys.h"

enum {
    FETCH_S = 10,
    URL_TEXT_BYTES = 4096,
    PROBLEM_BYTES = 512,
    HTTP_OK = 200,
};

/* The body of an answer. */
struct body {
    char *bytes; /* of JWT_KEY_SET_BYTES_MAX */
    size_t len;
    bool is_too_long;
};

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
    struct body *body = context;
    if (size * n > JWT_KEY_SET_BYTES_MAX - body->len) {
        body->is_too_long = true;
        return 0;
    }
    memcpy(body->bytes + body->len, data, size * n);
    body->len += size * n;
    return size * n;
}

/* Not 0: break the fetch off. */
static int on_progress(void *context, curl_off_t down_bytes, curl_off_t downed_bytes,
                       curl_off_t up_bytes, curl_off_t upped_bytes)
{
    const struct jwks_fetch *fetch = context;
    (void)down_bytes;
    (void)downed_bytes;
    (void)up_bytes;
    (void)upped_bytes;
    return atomic_load(&fetch->stops) ? 1 : 0;
}

static bool set_options(CURL *curl, const struct jwks_fetch *fetch, const struct jwt_keys *keys,
                        struct body *body)
{
    bool is_good = curl_easy_setopt(curl, CURLOPT_URL, jwt_keys_url(keys).data) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https") == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    is_good &=
        curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    if (jwt_keys_ca(keys).len > 0) {
        is_good &= curl_easy_setopt(curl, CURLOPT_CAINFO, jwt_keys_ca(keys).data) == CURLE_OK;
    }
    is_good &= curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)FETCH_S) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A thread of libcurl waits for the system's resolver, which may wait for silent name servers
     * longer than FETCH_S: neither the next fetch nor the end of the process waits for it. */
    is_good &= curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
#endif
    is_good &= curl_easy_setopt(curl, CURLOPT_USERAGENT, "sluice") == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_WRITEDATA, body) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_XFERINFODATA, fetch) == CURLE_OK;
    return is_good;
}

/* The max-age of Cache-Control; 0: the answer does not say. One that must not be kept has 1. */
static uint64_t max_age_of(CURL *curl)
{
    struct curl_header *header;
    if (curl_easy_header(curl, "Cache-Control", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) {
        return 0;
    }
    struct span rest = span_of_text(header->value);
    struct span directive;
    uint64_t seconds = 0;
    while (span_split(&rest, ',', &directive)) {
        const struct span name = SPAN("max-age=");
        directive = span_trim(directive);
        if (span_equals_ignore_case(directive, SPAN("no-store")) ||
            span_equals_ignore_case(directive, SPAN("no-cache"))) {
            return 1;
        }
        if (directive.len > name.len &&
            span_equals_ignore_case(span_of(directive.data, name.len), name) &&
            span_to_u64(span_of(directive.data + name.len, directive.len - name.len), UINT32_MAX,
                        &seconds)) {
            seconds = seconds > 0 ? seconds : 1;
        }
    }
    return seconds;
}

/* The set at the URL of @keys. NULL: @problem says why. */
static struct jwt_key_set *fetch_set(const struct jwks_fetch *fetch, const struct jwt_keys *keys,
                                     uint64_t *max_age_s, struct text *problem)
{
    struct body body = {.bytes = malloc(JWT_KEY_SET_BYTES_MAX)};
    CURL *curl = curl_easy_init();
    struct jwt_key_set *set = NULL;
    long status = 0;
    if (body.bytes == NULL || curl == NULL || !set_options(curl, fetch, keys, &body)) {
        (void)text_refuse(problem, "out of memory");
    } else {
        const CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (body.is_too_long) {
            (void)text_refuse(problem, "the answer has more than 1 MiB");
        } else if (code != CURLE_OK) {
            (void)text_refuse(problem, "%s", curl_easy_strerror(code));
        } else if (status != HTTP_OK) {
            (void)text_refuse(problem, "the answer has the status %ld", status);
        } else {
            *max_age_s = max_age_of(curl);
            text_add_literal(problem, "the answer ");
            set = jwt_key_set_read(span_of(body.bytes, body.len), problem);
        }
    }
    curl_easy_cleanup(curl);
    free(body.bytes);
    return set;
}

static void fetch_keys(const struct jwks_fetch *fetch, struct jwt_keys *keys)
{
    char url_bytes[URL_TEXT_BYTES];
    char problem_bytes[PROBLEM_BYTES];
    char shown_bytes[2 * PROBLEM_BYTES];
    struct text url = text_of(url_bytes, sizeof(url_bytes));
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    struct text shown = text_of(shown_bytes, sizeof(shown_bytes));
    uint64_t max_age_s = 0;
    const bool was_failing = jwt_keys_is_failing(keys);
    struct jwt_key_set *set = fetch_set(fetch, keys, &max_age_s, &problem);
    const bool is_good = set != NULL;
    const size_t n_keys = is_good ? jwt_key_set_count(set) : 0;
    if (!is_good && atomic_load(&fetch->stops)) {
        return;
    }
    const bool is_changed = jwt_keys_fetched(keys, set, max_age_s, clock_monotonic_us());
    text_add_logfmt(&url, jwt_keys_url(keys));
    text_add_logfmt(&shown, text_span(&problem));
    if (!is_good && !was_failing) {
        log_warn("app.jwks", "keys cannot be fetched", "url=%.*s err=%.*s",
                 SPAN_ARGS(text_span(&url)), SPAN_ARGS(text_span(&shown)));
    } else if (!is_good && is_changed) {
        log_error("app.jwks", "keys are too old to count any more", "url=%.*s",
                  SPAN_ARGS(text_span(&url)));
    } else if (is_good && n_keys == 0 && (is_changed || was_failing)) {
        log_error("app.jwks", "the issuer has no key that can verify a token: all are refused",
                  "url=%.*s", SPAN_ARGS(text_span(&url)));
    } else if (is_good && (is_changed || was_failing)) {
        log_info("app.jwks", is_changed ? "keys were fetched" : "keys can be fetched again",
                 "url=%.*s keys=%zu", SPAN_ARGS(text_span(&url)), n_keys);
    }
}

static void *run(void *context)
{
    const struct jwks_fetch *fetch = context;
    while (!atomic_load(&fetch->stops)) {
        uint64_t wait_us;
        struct jwt_keys *keys = jwt_keys_next_due(clock_monotonic_us(), &wait_us);
        if (keys != NULL) {
            fetch_keys(fetch, keys);
            jwt_keys_release(keys);
        } else {
            jwt_keys_wait(wait_us);
        }
    }
    return NULL;
}

void jwks_fetch_init(struct jwks_fetch *fetch)
{
    fetch->is_running = false;
    atomic_init(&fetch->stops, false);
}

enum status jwks_fetch_follow(struct jwks_fetch *fetch, const struct policy *policy)
{
    bool has_url = false;
    for (size_t i = 0; i < policy->n_providers; i++) {
        const struct jwt_keys *keys = policy->providers[i].source.keys;
        has_url = has_url || (keys != NULL && jwt_keys_url(keys).len > 0);
    }
    if (!has_url || fetch->is_running) {
        return STATUS_OK;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        pthread_create(&fetch->thread, NULL, run, fetch) != 0) {
        log_error("app.jwks", "no memory for fetching keys", "%s", "");
        return STATUS_NO_MEMORY;
    }
    fetch->is_running = true;
    return STATUS_OK;
}

void jwks_fetch_close(struct jwks_fetch *fetch)
{
    if (fetch->is_running) {
        atomic_store(&fetch->stops, true);
        jwt_keys_wake();
        pthread_join(fetch->thread, NULL);
        fetch->is_running = false;
    }
}
