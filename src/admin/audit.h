/* The audit: one line in the program's log for each change and for each refusal, with the client,
 * the request and its outcome. */

#ifndef SLUICE_ADMIN_AUDIT_H
#define SLUICE_ADMIN_AUDIT_H

#include "admin/access.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "base/span.h"

/* Log the answer in @request to @method, as sent, with the path that gave @match and the access
 * @verdict. Keys may be secrets: a key in the path of a resource is not logged, and the outcome
 * identifies it instead. If no resource matched, nothing of the path is logged. */
void audit_report(struct admin_request *request, const struct access_peer *peer,
                  const struct access_verdict *verdict, const struct resource_match *match,
                  struct span method);

/* Write the author that is stored with a change: "socket:uid=0", "token". NUL-terminated. */
void audit_write_by(char by[ADMIN_BY_BYTES_MAX], const struct access_peer *peer,
                    const struct access_verdict *verdict);

#endif /* SLUICE_ADMIN_AUDIT_H */
