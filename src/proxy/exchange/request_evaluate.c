#include "proxy/request_evaluate.h"

#include "base/limits.h"
#include "base/status.h"
#include "http/field.h"
#include "http/method.h"
#include "policy/edits.h"
#include "policy/matcher.h"
#include "proxy/client_address.h"
#include "proxy/core/via.h"
#include "tls/tls_server.h"

static enum evaluation_result end(struct evaluation *evaluation, enum evaluation_result result,
                                  uint16_t status, const char *reason)
{
    evaluation->result = result;
    evaluation->status = status;
    evaluation->reason = reason;
    return result;
}

static enum evaluation_result refuse(struct evaluation *evaluation, uint16_t status,
                                     const char *reason)
{
    return end(evaluation, EVALUATION_REFUSED, status, reason);
}

static enum evaluation_result fail(struct evaluation *evaluation)
{
    return end(evaluation, EVALUATION_FAILED, 503, status_text(STATUS_NO_MEMORY));
}

static NEVER_INLINE void find_geo(const struct evaluation_context *context,
                                  struct request_view *view)
{
    if (context->given_geo != NULL) {
        view->geo = *context->given_geo;
    } else if (context->geo_cache == NULL ||
               !geo_cache_find(context->geo_cache, &view->client, &view->geo)) {
        policy_find_geo(context->admission.policy, &view->client, &view->geo);
        if (context->geo_cache != NULL) {
            geo_cache_put(context->geo_cache, &view->client, &view->geo);
        }
    }
}

/* False: no memory. */
static bool fill_view(const struct evaluation_context *context, const struct head *head,
                      const struct address *peer, struct evaluation *evaluation)
{
    const struct policy *policy = context->admission.policy;
    struct request_view *view = &evaluation->view;
    view->head = head;
    view->tls = context->tls;
    view->identity = context->identity;
    view->host = target_normalise_host(head->host, evaluation->host);
    view->client = client_address_find(policy, peer, head);
    view->peer_is_trusted = context->trusts_peer ||
                            address_is_in(peer, policy->trusted_proxies, policy->n_trusted_proxies);
    if (UNLIKELY(policy->read_fields.has_one_that_needs_trust)) {
        view->head = policy_head_make(head, view->peer_is_trusted && policy->n_trusted_proxies > 0,
                                      evaluation->arena);
    }
    if (UNLIKELY(policy->geo.facts != 0)) {
        find_geo(context, view);
    }
    view->token = NULL;
    view->claims = NULL;
    view->is_token_refused = false;
    view->named = NULL;
    view->is_token_unread = false;
    if (UNLIKELY(context->verifier != NULL)) {
        token_check_init(&evaluation->tokens, context->verifier, evaluation->arena,
                         context->admission.wall_us, context->admission.now_us);
        view->token = &evaluation->tokens.view;
    } else if (UNLIKELY(context->takes_given_token)) {
        token_check_init_given(&evaluation->tokens, context->given_token, evaluation->arena);
        view->token = &evaluation->tokens.view;
    }
    view->path = &evaluation->path;
    view->path_buffer = arena_alloc(evaluation->arena, head->target.path.len + 1);
    return view->path_buffer != NULL && view->head != NULL;
}

/* The request passes its limits. If Max-Forwards forbids another hop, it ends here: see RFC 9110
 * section 7.6.2. */
static enum evaluation_result pass(struct evaluation *evaluation, const struct head *head,
                                   enum evaluation_result result)
{
    const struct route *route = evaluation->route;
    if (UNLIKELY(evaluation->refused_token.status != 0)) {
        return end(evaluation, result, evaluation->refused_token.status,
                   evaluation->refused_token.reason);
    }
    if (route->respond != NULL) {
        return end(evaluation, result, route->respond->status, NULL);
    }
    if (!head->has_max_forwards || head->max_forwards > 0) {
        return end(evaluation, result, 0, NULL);
    }
    if (span_equals(head->method, SPAN("OPTIONS"))) {
        return end(evaluation, result, 200, NULL);
    }
    return end(evaluation, result, 501, "TRACE ends here, by its Max-Forwards, and is not served");
}

static enum evaluation_result admit(const struct evaluation_context *context,
                                    struct evaluation *evaluation)
{
    const struct head *head = evaluation->view.head;
    const struct reply_spec *missing;
    switch (admission_prepare(evaluation->admission, &context->admission, evaluation->route,
                              &evaluation->view, evaluation->arena)) {
    case ADMISSION_FREE:
        return pass(evaluation, head, EVALUATION_FREE);
    case ADMISSION_TO_DECIDE:
        return pass(evaluation, head, EVALUATION_TO_DECIDE);
    case ADMISSION_BANNED:
        return end(evaluation, EVALUATION_BANNED, 429, NULL);
    case ADMISSION_REFUSED:
        missing = admission_missing_reply(evaluation->admission);
        return refuse(evaluation, missing != NULL ? missing->status : 403,
                      "the request lacks a value that it is counted by, such as an API key");
    case ADMISSION_AMBIGUOUS:
        return refuse(evaluation, 400, KEY_AMBIGUITY);
    case ADMISSION_FAILED:
        break;
    }
    return fail(evaluation);
}

/* The token of the request, or its absence, is a reason to refuse it: limits that read no token are
 * judged first, so that clients whose tokens are refused are limited too. */
static void refuse_token(struct evaluation *evaluation, uint16_t status, enum token_refusal kind,
                         const char *reason, const char *challenge)
{
    evaluation->refused_token = (struct refused_token){status, kind, reason};
    evaluation->challenge = challenge;
    evaluation->view.is_token_refused = true;
}

static void refuse_invalid(struct evaluation *evaluation, enum jwt_result result)
{
    const char *reason = jwt_result_text(result);
    if (result == JWT_NO_KEYS || result == JWT_NO_MEMORY) {
        refuse_token(evaluation, 503, TOKEN_NO_KEYS, reason, NULL);
    } else if (result == JWT_UNREAD) { /* the limit that denies the request answers it */
        evaluation->view.is_token_unread = true;
        evaluation->retry_after_s = 1;
        refuse_token(evaluation, 429, TOKEN_UNREAD, reason, NULL);
    } else if (result == JWT_TOO_MANY_FAILURES) {
        evaluation->retry_after_s = 1;
        refuse_token(evaluation, 429, TOKEN_TOO_MANY, reason, NULL);
    } else {
        const enum token_refusal kind =
            result == JWT_KEYS_WITHDRAWN ? TOKEN_NO_KEYS : TOKEN_INVALID;
        refuse_token(evaluation, 401, kind, reason, "Bearer error=\"invalid_token\"");
    }
}

/* What is asked before a token is verified. */
struct preview {
    const struct evaluation_context *context;
    struct evaluation *evaluation;
};

/* Whether the limits that do not depend on the token deny the request, as far as is known without a
 * call: verifying costs more than all the rest. */
static bool is_denied_already(void *of)
{
    const struct preview *preview = of;
    struct evaluation *evaluation = preview->evaluation;
    struct request_view view = evaluation->view;
    struct decision *decision = &evaluation->admission->decision;
    view.is_token_refused = true;
    view.is_token_unread = true;
    switch (admission_prepare(evaluation->admission, &preview->context->admission,
                              evaluation->route, &view, evaluation->arena)) {
    case ADMISSION_TO_DECIDE:
        decision->now_us = preview->context->admission.now_us;
        return store_denies(preview->context->store, decision);
    case ADMISSION_BANNED:
    case ADMISSION_REFUSED:
    case ADMISSION_AMBIGUOUS:
        return true;
    case ADMISSION_FREE:
    case ADMISSION_FAILED:
        break;
    }
    return false;
}

/* Read the token that counts on the route. False: no memory. */
static NEVER_INLINE bool read_token(const struct evaluation_context *context,
                                    struct evaluation *evaluation)
{
    const struct route *route = evaluation->route;
    struct request_view *view = &evaluation->view;
    struct preview preview = {context, evaluation};
    if (view->token == NULL) {
        return true;
    }
    if (context->verifier != NULL && context->store != NULL) {
        evaluation->tokens.is_denied = is_denied_already;
        evaluation->tokens.context = &preview;
    }
    const struct jwt_claims *claims = token_view_claims(view->token, view, route->jwt);
    evaluation->tokens.is_denied = NULL;
    if (token_view_is_refused(view->token)) {
        refuse_invalid(evaluation, view->token->result);
    } else if (claims == NULL && route->requires_token) {
        refuse_token(evaluation, 401, TOKEN_MISSING, "the request has no token", "Bearer");
    }
    view->claims = claims;
    if (claims != NULL && route->keeps_claims) {
        view->claims = jwt_claims_copy(claims, evaluation->arena);
    }
    return claims == NULL || view->claims != NULL;
}

static bool is_looping(const struct evaluation_context *context, const struct route *route,
                       const struct head *head)
{
    return head_has(head, FIELD_VIA) && route->upstream != NULL && context->own_name.len > 0 &&
           via_has_passed(context->own_name, head);
}

/* Whether servers answer the request with itself; IIS did so for TRACK. */
COLD static bool is_trace(const struct head *head)
{
    return head->method_id == METHOD_TRACE || span_equals_ignore_case(head->method, SPAN("TRACK"));
}

/* Apply the checks of the route, then admit the request. */
static enum evaluation_result take_route(const struct evaluation_context *context,
                                         struct evaluation *evaluation)
{
    const struct route *route = evaluation->route;
    const struct head *head = evaluation->view.head;
    if (route->edits != NULL && route->edits->prefix.len > 0) {
        struct span left;
        char *buffer = arena_alloc(evaluation->arena, head->target.path.len + 1);
        if (buffer == NULL) {
            return fail(evaluation);
        }
        const char *fault = edits_strip_prefix(route, &evaluation->view, buffer, &left);
        if (fault != NULL) {
            return refuse(evaluation, 400, fault);
        }
        evaluation->upstream_path = left;
    }
    if (route->edits != NULL && route->edits->request.n_set > 0 && is_trace(head)) {
        return refuse(evaluation, 501,
                      "TRACE is not forwarded, since its answer would show what the route sets");
    }
    if (is_looping(context, route, head)) {
        return refuse(evaluation, 508,
                      "the request has passed here before: the upstream leads back");
    }
    if (head->body == BODY_LENGTH && head->content_length > route->body_bytes_max) {
        return refuse(evaluation, 413, "the request's body is too large");
    }
    if (UNLIKELY(route->jwt != NULL)) {
        if (!read_token(context, evaluation)) {
            return fail(evaluation);
        }
        const enum evaluation_result result = admit(context, evaluation);
        if (context->verifier != NULL && !route->keeps_claims) {
            evaluation->view.claims = NULL; /* the verifier may forget them */
        }
        return result;
    }
    return admit(context, evaluation);
}

/* Whether @head is a preflight of CORS, in which a browser asks whether a page may make a request
 * with *method. */
static bool is_preflight(const struct head *head, struct span *method)
{
    if (head->method_id != METHOD_OPTIONS) {
        return false;
    }
    *method = head_find_only(head, SPAN("access-control-request-method"));
    return head_find_only(head, SPAN("origin")).len > 0 && field_is_token(*method) &&
           method->len <= METHOD_BYTES_MAX;
}

/* Whether the request is a preflight of a request whose route has cors. That route, which may not
 * match OPTIONS, becomes evaluation->route. The fields of the request are not known yet: those of
 * the preflight itself are matched. */
static bool find_preflight(const struct policy *policy, struct evaluation *evaluation)
{
    const struct head *head = evaluation->view.head;
    struct head announced;
    struct span method;
    if (!policy->has_cors || !is_preflight(head, &method)) {
        return false;
    }
    announced = *head;
    announced.method = method;
    announced.method_id = method_identify(method);
    evaluation->view.head = &announced;
    const char *fault = matcher_find_route(policy, &evaluation->view, &evaluation->route);
    evaluation->view.head = head;
    return fault == NULL && evaluation->route != NULL && evaluation->route->cors != NULL;
}

enum evaluation_result request_evaluate(const struct evaluation_context *context,
                                        const struct head *head, const struct address *peer,
                                        struct evaluation *evaluation)
{
    evaluation->route = NULL;
    evaluation->view.head = NULL;
    evaluation->is_preflight = false;
    evaluation->challenge = NULL;
    evaluation->retry_after_s = 0;
    evaluation->refused_token.status = 0;
    evaluation->upstream_path = head->target.path;
    evaluation->admission->decision.n_charges = 0;
    evaluation->admission->lacked = NULL;
    if (head->error.status != 0) {
        return refuse(evaluation, head->error.status, head->error.reason);
    }
    if (!fill_view(context, head, peer, evaluation)) {
        return fail(evaluation);
    }
    if (UNLIKELY(context->tls != NULL) &&
        !tls_server_allows_host(context->tls, evaluation->view.host)) {
        return refuse(evaluation, 421,
                      "the host asks clients for other certificates than this connection's name: "
                      "connect to it anew");
    }
    evaluation->is_preflight = find_preflight(context->admission.policy, evaluation);
    if (evaluation->is_preflight) {
        return end(evaluation, EVALUATION_FREE, 204, NULL);
    }
    const char *fault =
        matcher_find_route(context->admission.policy, &evaluation->view, &evaluation->route);
    if (fault != NULL) {
        return refuse(evaluation, 400, fault);
    }
    if (evaluation->route == NULL) {
        return refuse(evaluation, 404, "no route matches");
    }
    return take_route(context, evaluation);
}
