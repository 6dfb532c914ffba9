/* GET /v1/certificates: what is shown to clients and operators that speak TLS, and until when it is
 * good; and the same as a metric. */

#include "admin/metrics.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "base/clock.h"
#include "tls/tls_server.h"

enum { DAY_S = 24 * 3600, FINGERPRINT_CHARACTERS = 8 };

/* A certificate in force. */
struct shown {
    const struct listener_section *listener;
    const struct tls_entry_config *entry;
    const struct certificate *certificate;
    struct span file;
};

typedef void (*on_shown)(void *context, const struct shown *shown);

static void show_listeners(const struct listener_section *listeners, size_t n_listeners,
                           on_shown on_each, void *context)
{
    for (size_t i = 0; i < n_listeners; i++) {
        const struct tls_server_config *config = listeners[i].tls_config;
        for (size_t j = 0; config != NULL && j < config->n_entries; j++) {
            const struct tls_entry_config *entry = &config->entries[j];
            for (size_t k = 0; k < entry->n_certificates; k++) {
                const struct shown shown = {&listeners[i], entry, entry->certificates[k],
                                            listeners[i].tls->entries[j].certs[k]};
                on_each(context, &shown);
            }
        }
    }
}

static void show_all(const struct policy *policy, on_shown on_each, void *context)
{
    show_listeners(policy->listeners, policy->n_listeners, on_each, context);
    show_listeners(policy->admin.listeners, policy->admin.n_listeners, on_each, context);
}

/* Whole days, rounded down. */
static json_int_t days_left(const struct certificate *certificate)
{
    const int64_t left_s = certificate->not_after_s - (int64_t)(clock_wall_us() / 1000000);
    return left_s >= 0 ? left_s / DAY_S : -((DAY_S - 1 - left_s) / DAY_S);
}

static void describe(void *context, const struct shown *shown)
{
    const struct certificate *certificate = shown->certificate;
    const int64_t end_s = certificate->not_after_s > 0 ? certificate->not_after_s : 0;
    json_t *json = json_object();
    describe_set(&json, "listener", json_of_span(shown->listener->endpoint.text));
    describe_set(&json, "names", describe_spans(shown->entry->names, shown->entry->n_names));
    describe_set(&json, "not_after", describe_timestamp((uint64_t)end_s * 1000000));
    describe_set(&json, "days_left", json_integer(days_left(certificate)));
    describe_set(&json, "file", json_of_span(shown->file));
    describe_set(&json, "fingerprint", json_string(certificate->fingerprint));
    describe_set(&json, "issuer", json_of_span(span_of_text(certificate->issuer)));
    describe_append(context, json);
}

void certificates_handle(struct admin_request *request)
{
    json_t *list = json_array();
    show_all(request->policy, describe, &list);
    answer_json(request, 200, json_pack("{so}", "certificates", list));
}

static void add_sample(void *context, const struct shown *shown)
{
    const struct certificate *certificate = shown->certificate;
    const struct page_label labels[] = {
        {"listener", shown->listener->endpoint.text},
        {"name", shown->entry->n_names > 0 ? shown->entry->names[0] : SPAN("")},
        {"fingerprint", span_of(certificate->fingerprint, FINGERPRINT_CHARACTERS)},
    };
    metrics_add(context, labels, ARRAY_LEN(labels),
                certificate->not_after_s > 0 ? (uint64_t)certificate->not_after_s : 0);
}

void metrics_write_certificates(struct metrics *metrics)
{
    show_all(metrics->policy, add_sample, metrics);
}
