#include "app/given_request.h"

#include <string.h>

#include "base/text.h"
#include "policy/matcher.h"
#include "proxy/client_address.h"

/* Split "http://host/path" into the host and what a client would send as the target. */
static void split_url(struct span url, struct span *host, struct span *target)
{
    static const char SCHEME[] = "http://";
    const size_t scheme_bytes = sizeof(SCHEME) - 1;
    *host = SPAN("localhost");
    *target = url;
    if (span_starts_with(url, SPAN("http://"))) {
        const struct span rest = span_of(url.data + scheme_bytes, url.len - scheme_bytes);
        const size_t slash = span_find(rest, '/');
        *host = span_of(rest.data, slash);
        *target = slash < rest.len ? span_of(rest.data + slash, rest.len - slash) : SPAN("/");
    }
}

static void begin_head(struct text *text, const char *method, const char *url)
{
    struct span host;
    struct span target;
    split_url(span_of_text(url), &host, &target);
    text_add(text, span_of_text(method));
    text_add_char(text, ' ');
    text_add(text, target);
    text_add_literal(text, " HTTP/1.1\r\nHost: ");
    text_add(text, host);
    text_add_literal(text, "\r\n");
}

static const char *read_options(struct given_request *given, struct text *text, int argc,
                                char **argv)
{
    for (int i = 0; i < argc; i += 2) {
        if (i + 1 == argc) {
            return "an option lacks its value";
        }
        if (strcmp(argv[i], "-H") == 0) {
            text_add(text, span_of_text(argv[i + 1]));
            text_add_literal(text, "\r\n");
        } else if (strcmp(argv[i], "--from") != 0) {
            return "unknown option; -H and --from are known";
        } else if (!address_parse(span_of_text(argv[i + 1]), &given->peer)) {
            return "--from wants an address";
        }
    }
    text_add_literal(text, "\r\n");
    return text->truncated ? "the request is too large" : NULL;
}

static const char *parse(struct given_request *given, struct span bytes)
{
    struct head_parser parser = {
        .fields = given->fields,
        .n_fields_max = GIVEN_FIELDS_MAX,
        .head_bytes_max = GIVEN_HEAD_BYTES_MAX,
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
    return given->head.error.reason;
}

const char *given_request_read(struct given_request *given, const struct policy *policy, int argc,
                               char **argv)
{
    struct text text = text_of(given->bytes, sizeof(given->bytes));
    struct request_view *view = &given->view;
    if (argc < 2) {
        return "METHOD and URL are missing";
    }
    memset(view, 0, sizeof(*view));
    given->peer = (struct address){.family = ADDRESS_IPV4, .bytes = {127, 0, 0, 1}};
    begin_head(&text, argv[0], argv[1]);
    const char *fault = read_options(given, &text, argc - 2, argv + 2);
    if (fault == NULL) {
        fault = parse(given, text_span(&text));
    }
    if (fault != NULL) {
        return fault;
    }
    view->head = &given->head;
    view->host = target_normalise_host(given->head.host, given->host);
    view->client = client_address_find(policy, &given->peer, &given->head);
    view->peer_is_trusted =
        address_is_in(&given->peer, policy->trusted_proxies, policy->n_trusted_proxies);
    view->path = &given->path;
    view->path_buffer = given->path_buffer;
    return matcher_find_route(policy, view, &given->route);
}
