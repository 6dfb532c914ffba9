/* The audit: one line of the program's log for each change, and for what was refused, saying who, what, and what came
 * of it. */

#ifndef SLUICE_ADMIN_AUDIT_H
#define SLUICE_ADMIN_AUDIT_H

#include "admin/access.h"
#include "admin/request.h"
#include "base/span.h"

/* @method (as sent) of @target, which would have @effect, was answered as @request says. */
void audit_tell(struct admin_request *request, const struct access_peer *peer,
                const struct access_verdict *verdict, enum admin_effect effect, struct span method,
                struct span target);

#endif /* SLUICE_ADMIN_AUDIT_H */
