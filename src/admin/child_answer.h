/* What the child processes of requests have in common: the policies that they are given, and what
 * is answered when they have ended. */

#ifndef SLUICE_ADMIN_CHILD_ANSWER_H
#define SLUICE_ADMIN_CHILD_ANSWER_H

#include <jansson.h>
#include <stdbool.h>

#include "admin/child.h"
#include "admin/request.h"
#include "base/compiler.h"

/* The policy of @request as the loader of another process takes it, with its secrets. NULL: no
 * memory. */
MUST_USE json_t *child_policy(const struct admin_request *request);

/* A file in memory with the text of @json, which is taken over; NULL is no memory. -1: none can be
 * had. */
MUST_USE int child_file_of_json(json_t *json);

/* Whether the child printed what it was asked for; else @request is answered: 400 with the words of
 * the program, without the paths of files that only the child has; 422 where it reached a limit.
 */
MUST_USE bool child_succeeded(struct admin_request *request, const struct child_outcome *outcome);

/* Answer with what the child printed, which is JSON. */
void child_answer(struct admin_request *request, struct child_outcome *outcome);

/* Whether as many children as may be answer other requests; then @request is answered so. One fewer
 * for those who may change nothing, whose questions must not keep operators from asking. */
MUST_USE bool child_was_busy(struct admin_request *request);

/* Start a child that answers @request, which changes nothing; if none can be started, answer so. If
 * the client leaves, the child is abandoned. order->on_end gets the request, and begins with
 * child_ask_end(). */
void child_ask(struct admin_request *request, struct child_order *order);
void child_ask_end(struct admin_request *request);

/* Answer that no child can be started. */
void child_answer_not_started(struct admin_request *request);

#endif /* SLUICE_ADMIN_CHILD_ANSWER_H */
