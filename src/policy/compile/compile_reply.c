/* Compiles sluice's own answers: deny, missing and respond. */

#include "policy/compile/compile.h"

#include "policy/load/node.h"

static struct reply_spec *compile_reply(struct compiler *compiler, const struct spec_reply *spec,
                                        bool is_denial)
{
    struct reply_spec *reply =
        spec->position.node != NULL ? compile_alloc(compiler, 1, sizeof(*reply)) : NULL;
    if (reply != NULL) {
        reply->status = (uint16_t)spec->status;
        reply->body = compile_copy(compiler, spec->body.text);
        reply->content_type = compile_copy(compiler, spec->content_type.text);
        compile_reply_set(compiler, &spec->set, is_denial, reply);
    }
    return reply;
}

/* The number of values in @text, which is at @node; reports words that are none. */
static size_t count_values(struct compiler *compiler, struct span text, const struct node *node)
{
    struct span before;
    enum reply_value value;
    size_t n = 0;
    while (reply_next_value(&text, &before, &value)) {
        if (value == REPLY_VALUE_NONE) {
            const struct span word =
                span_of(before.data + before.len, (size_t)(text.data - before.data) - before.len);
            node_error(compiler->diags, node,
                       "unknown value %.*s: known are {limit}, {wait} and {request_id}; a space "
                       "behind \"{\" keeps it as it is",
                       SPAN_ARGS(quote_clip(word)));
        }
        n++;
    }
    return n;
}

const struct reply_spec *compile_denial(struct compiler *compiler, const struct spec_reply *spec)
{
    struct reply_spec *reply = compile_reply(compiler, spec, true);
    const struct spec_field *fields = spec->set.items;
    if (reply == NULL) {
        return NULL;
    }
    size_t n =
        spec->body.node != NULL ? count_values(compiler, spec->body.text, spec->body.node) : 0;
    for (size_t i = 0; i < spec->set.n_items; i++) {
        if (fields[i].position.node != NULL) {
            n += count_values(compiler, fields[i].value, fields[i].position.node);
        }
    }
    reply->has_values = n > 0;
    if (n > REPLY_VALUES_MAX) {
        node_error(compiler->diags, spec->position.node,
                   "an answer has at most %d values in braces", REPLY_VALUES_MAX);
    }
    return reply;
}

static void compile_redirect(struct compiler *compiler, const struct spec_route *route,
                             struct reply_spec *reply)
{
    const struct spec_redirect *spec = &route->respond.redirect;
    size_t *bytes_max = &compiler->policy->reply_set_bytes_max;
    reply->status = (uint16_t)spec->status;
    reply->to_https = span_equals(spec->to.text, SPAN("https"));
    if (!reply->to_https) {
        reply->location = compile_copy(compiler, spec->to.text);
        *bytes_max += reply->location.len;
    } else if (route->match.hosts.n_items == 0) {
        node_error(compiler->diags, spec->to.node,
                   "redirect: https needs match.host beside it: the hosts that the URL may name");
    }
    if (spec->status >= 304 && spec->status <= 306) {
        node_error(compiler->diags, spec->position.node,
                   "status of a redirect must be 301, 302, 303, 307 or 308");
    }
    if (reply->body.len == 0) {
        reply->body = SPAN("See the Location field.\n");
    }
    for (size_t i = 0; i < reply->n_set; i++) {
        if (span_equals_ignore_case(reply->set[i].name, SPAN("Location"))) {
            node_error(compiler->diags, spec->position.node,
                       "field \"Location\" cannot be set beside redirect");
        }
    }
}

const struct reply_spec *compile_respond(struct compiler *compiler, const struct spec_route *route)
{
    const struct spec_reply *spec = &route->respond;
    struct reply_spec *reply = compile_reply(compiler, spec, false);
    if (reply == NULL) {
        return NULL;
    }
    const struct node *status = node_find(spec->position.node, SPAN("status"));
    const bool redirects = node_find(spec->position.node, SPAN("redirect")) != NULL;
    if (redirects && status != NULL) {
        node_error(compiler->diags, status,
                   "the status of a redirect is written in it: redirect: {to: …, status: 301}");
    } else if (!redirects && status == NULL) {
        node_error(compiler->diags, spec->position.node,
                   "\"status\" or \"redirect\" is missing in respond");
    }
    if (redirects) {
        compile_redirect(compiler, route, reply);
    } else if ((spec->status == 204 || spec->status == 304) && spec->body.text.len > 0) {
        node_error(compiler->diags, spec->body.node, "an answer of status %u has no body",
                   (unsigned)spec->status);
    }
    return reply;
}
