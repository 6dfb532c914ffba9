#include "app/explain/given_request.h"

#include <string.h>

#include "base/text.h"

static size_t authority_len(struct span span)
{
    size_t len = 0;
    while (len < span.len && span.data[len] != '/' && span.data[len] != '?') {
        len++;
    }
    return len;
}

/* Split "http://host/path" into the host and what a client would send as the target, which lacks
 * its "/" where the URL does. */
static void split_url(struct span url, struct span *host, struct span *target)
{
    static const struct span SCHEMES[] = {{"http://", 7}, {"https://", 8}};
    *host = SPAN("localhost");
    *target = url;
    for (size_t i = 0; i < ARRAY_LEN(SCHEMES); i++) {
        if (span_starts_with(url, SCHEMES[i])) {
            struct span rest = span_of(url.data + SCHEMES[i].len, url.len - SCHEMES[i].len);
            rest.len = span_find(rest, '#');
            const size_t len = authority_len(rest);
            *host = span_of(rest.data, len);
            *target = span_of(rest.data + len, rest.len - len);
        }
    }
}

/* A Host of the caller's own takes the place of the URL's. */
static bool has_host(const struct given_options *options)
{
    for (size_t i = 0; i < options->n_fields; i++) {
        const char *field = options->fields[i];
        if (span_equals_ignore_case(span_of(field, strcspn(field, ":")), SPAN("host"))) {
            return true;
        }
    }
    return false;
}

static void begin_head(struct text *text, const char *method, const char *url, bool needs_host)
{
    struct span host;
    struct span target;
    split_url(span_of_text(url), &host, &target);
    text_add(text, span_of_text(method));
    text_add_char(text, ' ');
    if (target.data != url && !span_starts_with(target, SPAN("/"))) {
        text_add_char(text, '/');
    }
    text_add(text, target);
    text_add_literal(text, " HTTP/1.1\r\n");
    if (needs_host) {
        text_add_literal(text, "Host: ");
        text_add(text, host);
        text_add_literal(text, "\r\n");
    }
}

bool given_options_add_field(void *options, const char *field)
{
    struct given_options *given = options;
    if (given->n_fields == ARRAY_LEN(given->fields)) {
        fputs("sluice: there are too many header fields\n", stderr);
        return false;
    }
    given->fields[given->n_fields++] = field;
    return true;
}

/* Returns the fault. */
static const char *take_options(struct given_request *given, struct text *text,
                                const struct given_options *options)
{
    for (size_t i = 0; i < options->n_fields; i++) {
        text_add(text, span_of_text(options->fields[i]));
        text_add_literal(text, "\r\n");
    }
    text_add_literal(text, "\r\n");
    given->own_name = span_of_text(options->via != NULL ? options->via : "");
    const char *from = options->from != NULL ? options->from : "127.0.0.1";
    if (strcmp(from, "unix") == 0) {
        given->peer = (struct address){.family = ADDRESS_NONE};
    } else if (!address_parse(span_of_text(from), &given->peer)) {
        return "--from wants an address, or unix";
    }
    return text->truncated ? "the request is too large" : NULL;
}

/* The fields' number and bytes are bounded as the policy says. Returns what is
 * wrong with the arguments. */
static const char *parse(struct given_request *given, const struct policy *policy,
                         struct span bytes)
{
    struct head_parser parser = {
        .fields = given->fields,
        .n_fields_max = policy->max.headers,
        .head_bytes_max = policy->max.head_bytes,
    };
    size_t consumed;
    switch (head_parse_request(&parser, bytes, &given->head, &consumed)) {
    case PARSE_DONE:
        return consumed == bytes.len ? NULL : "a field holds an empty line";
    case PARSE_PARTIAL:
        return "the request is not whole";
    case PARSE_BAD:
        break;
    }
    return NULL;
}

enum evaluation_result given_request_evaluate(struct given_request *given,
                                              const struct admission_context *admission_context,
                                              struct admission *admission, struct arena *arena)
{
    const struct evaluation_context context = {
        .admission = *admission_context,
        .own_name = given->own_name,
        .tls = given->connection.listener != NULL ? &given->connection.client : NULL,
    };
    given->evaluation.admission = admission;
    given->evaluation.arena = arena;
    return request_evaluate(&context, &given->head, &given->peer, &given->evaluation);
}

const char *given_request_read(struct given_request *given, const struct policy *policy,
                               const char *method, const char *url,
                               const struct given_options *options)
{
    struct text text = text_of(given->bytes, sizeof(given->bytes));
    struct span host;
    struct span target;
    memset(&given->evaluation, 0, sizeof(given->evaluation));
    begin_head(&text, method, url, !has_host(options));
    const char *fault = take_options(given, &text, options);
    if (fault == NULL) {
        fault = parse(given, policy, text_span(&text));
    }
    if (fault != NULL) {
        return fault;
    }
    split_url(span_of_text(url), &host, &target);
    if (target.data == url) {
        host = given->head.host;
    }
    return given_connection_read(&given->connection, policy, url, host, options);
}

void given_request_close(struct given_request *given)
{
    given_connection_close(&given->connection);
}
