/* Happy path: keys are due ─► their set is fetched and read ─► it is put in force ─► wait.
 *
 * One thread fetches all sets that are due at the same time, each by a connection of its own and
 * within FETCH_S, so that an issuer that hangs delays no other.
 *
 * Failures, each logged when it begins and when it ends: no connection, a certificate that does not
 * verify, another status than 200 (redirects too), more than JWT_KEY_SET_BYTES_MAX, longer than
 * FETCH_S, no key set. The keys that are in force stay so: see jwt/keys.h. A set without a key that
 * can be used is no failure: an issuer that withdraws its last key answers so. */

#include "app/serve/reload.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "jwt/keys.h"

enum {
    FETCHES_MAX = JWT_PROVIDERS_MAX, /* at the same time: all keys of a policy */
    FETCH_S = 10,
    POLL_MS = 100, /* until a stop, or keys that become due during fetches, are noticed */
    US_PER_MS = 1000,
    URL_TEXT_BYTES = 4096,
    PROBLEM_BYTES = 512,
    HTTP_OK = 200,
};

/* A fetch in flight. */
struct fetch {
    struct jwt_keys *keys; /* acquired; NULL: this one is free */
    CURL *curl;            /* owned */
    char *bytes;           /* the body of the answer, of JWT_KEY_SET_BYTES_MAX; owned */
    size_t len;
    bool is_too_long;
};

/* All fetches in flight. */
struct fetches {
    CURLM *multi;
    size_t n;
    struct fetch slots[FETCHES_MAX];
};

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
    struct fetch *fetch = context;
    if (size * n > JWT_KEY_SET_BYTES_MAX - fetch->len) {
        fetch->is_too_long = true;
        return 0;
    }
    memcpy(fetch->bytes + fetch->len, data, size * n);
    fetch->len += size * n;
    return size * n;
}

static bool set_options(CURL *curl, struct fetch *fetch)
{
    const struct jwt_keys *keys = fetch->keys;
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
    /* Fetches share nothing: no connection that hangs, no address of a server that has moved. */
    is_good &= curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_SSL_SESSIONID_CACHE, 0L) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_DNS_CACHE_TIMEOUT, 0L) == CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A thread of libcurl waits for the system's resolver, which may wait for silent name servers
     * longer than FETCH_S: neither other fetches nor the end of the process wait for it. */
    is_good &= curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
#endif
    is_good &= curl_easy_setopt(curl, CURLOPT_USERAGENT, "sluice") == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_WRITEDATA, fetch) == CURLE_OK;
    is_good &= curl_easy_setopt(curl, CURLOPT_PRIVATE, fetch) == CURLE_OK;
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

/* The set of the answer to a fetch that ended with @code. NULL: @problem says why. */
static struct jwt_key_set *read_answer(const struct fetch *fetch, CURLcode code,
                                       uint64_t *max_age_s, struct text *problem)
{
    long status = 0;
    curl_easy_getinfo(fetch->curl, CURLINFO_RESPONSE_CODE, &status);
    if (fetch->is_too_long) {
        (void)text_refuse(problem, "the answer has more than 1 MiB");
    } else if (code != CURLE_OK) {
        (void)text_refuse(problem, "%s", curl_easy_strerror(code));
    } else if (status != HTTP_OK) {
        (void)text_refuse(problem, "the answer has the status %ld", status);
    } else {
        *max_age_s = max_age_of(fetch->curl);
        text_add_literal(problem, "the answer ");
        return jwt_key_set_read(span_of(fetch->bytes, fetch->len), problem);
    }
    return NULL;
}

/* Put @set, NULL for @problem, in force. */
static void report(struct jwt_keys *keys, struct jwt_key_set *set, uint64_t max_age_s,
                   struct span problem)
{
    char url_bytes[URL_TEXT_BYTES];
    char shown_bytes[2 * PROBLEM_BYTES];
    struct text url = text_of(url_bytes, sizeof(url_bytes));
    struct text shown = text_of(shown_bytes, sizeof(shown_bytes));
    const bool was_failing = jwt_keys_is_failing(keys);
    const bool is_good = set != NULL;
    const size_t n_keys = is_good ? jwt_key_set_count(set) : 0;
    const bool is_changed = jwt_keys_fetched(keys, set, max_age_s, clock_monotonic_us());
    text_add_logfmt(&url, jwt_keys_url(keys));
    text_add_logfmt(&shown, problem);
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

static void release(struct fetches *fetches, struct fetch *fetch)
{
    if (fetch->curl != NULL) {
        curl_multi_remove_handle(fetches->multi, fetch->curl);
        curl_easy_cleanup(fetch->curl);
    }
    free(fetch->bytes);
    jwt_keys_release(fetch->keys);
    *fetch = (struct fetch){.keys = NULL};
    fetches->n--;
}

static void end(struct fetches *fetches, struct fetch *fetch, CURLcode code)
{
    char problem_bytes[PROBLEM_BYTES];
    struct text problem = text_of(problem_bytes, sizeof(problem_bytes));
    uint64_t max_age_s = 0;
    struct jwt_key_set *set = read_answer(fetch, code, &max_age_s, &problem);
    report(fetch->keys, set, max_age_s, text_span(&problem));
    release(fetches, fetch);
}

/* @keys is taken over. */
static void begin(struct fetches *fetches, struct jwt_keys *keys)
{
    struct fetch *fetch = fetches->slots;
    while (fetch->keys != NULL) {
        fetch++;
    }
    *fetch = (struct fetch){
        .keys = keys, .curl = curl_easy_init(), .bytes = malloc(JWT_KEY_SET_BYTES_MAX)};
    fetches->n++;
    if (fetch->curl == NULL || fetch->bytes == NULL || !set_options(fetch->curl, fetch) ||
        curl_multi_add_handle(fetches->multi, fetch->curl) != CURLM_OK) {
        report(keys, NULL, 0, SPAN("out of memory"));
        release(fetches, fetch);
    }
}

/* Begin the fetches that are due. Returns the time until others are. */
static uint64_t begin_due(struct fetches *fetches)
{
    uint64_t wait_us = 0;
    struct jwt_keys *keys;
    while (fetches->n < FETCHES_MAX &&
           (keys = jwt_keys_next_due(clock_monotonic_us(), &wait_us)) != NULL) {
        begin(fetches, keys);
    }
    return wait_us;
}

static void go_on(struct fetches *fetches)
{
    const CURLMsg *message;
    int n;
    curl_multi_perform(fetches->multi, &n);
    while ((message = curl_multi_info_read(fetches->multi, &n)) != NULL) {
        struct fetch *fetch = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &fetch);
        end(fetches, fetch, message->data.result);
    }
}

static void *run(void *context)
{
    const struct jwks_fetch *jwks_fetch = context;
    struct fetches fetches = {.multi = jwks_fetch->multi};
    while (!atomic_load(&jwks_fetch->stops)) {
        const uint64_t wait_us = begin_due(&fetches);
        if (fetches.n == 0) {
            jwt_keys_wait(wait_us);
            continue;
        }
        go_on(&fetches);
        if (fetches.n > 0 && curl_multi_poll(fetches.multi, NULL, 0, POLL_MS, NULL) != CURLM_OK) {
            jwt_keys_wait(POLL_MS * US_PER_MS); /* no memory */
        }
    }
    for (size_t i = 0; i < FETCHES_MAX; i++) {
        if (fetches.slots[i].keys != NULL) {
            release(&fetches, &fetches.slots[i]);
        }
    }
    return NULL;
}

void jwks_fetch_init(struct jwks_fetch *fetch)
{
    fetch->is_running = false;
    fetch->multi = NULL;
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
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
        fetch->multi = curl_multi_init();
    }
    if (fetch->multi == NULL || pthread_create(&fetch->thread, NULL, run, fetch) != 0) {
        curl_multi_cleanup(fetch->multi);
        fetch->multi = NULL;
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
        curl_multi_cleanup(fetch->multi);
        fetch->is_running = false;
    }
}
