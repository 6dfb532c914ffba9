/* The audit: one line of the program's log for each change, and for what was refused, saying who,
 * what, and what came of it. */

#ifndef SLUICE_ADMIN_AUDIT_H
#define SLUICE_ADMIN_AUDIT_H

#include "admin/access.h"
#include "admin/request.h"
#include "admin/resources.h"
#include "base/span.h"

/* @method, as sent, with a path that came to @match, and @verdict, were answered as @request says.
 * Keys may be secrets: of a resource that has one in its path, what stands there is not told, its
 * outcome says which it was; and where there is no such resource, nothing of the path is. */
void audit_tell(struct admin_request *request, const struct access_peer *peer,
                const struct access_verdict *verdict, const struct resource_match *match,
                struct span method);

/* Who asks, for what is kept of a change: "socket:uid=0", "token". NUL-terminated. */
void audit_write_by(char by[ADMIN_BY_BYTES_MAX], const struct access_peer *peer,
                    const struct access_verdict *verdict);

#endif /* SLUICE_ADMIN_AUDIT_H */
