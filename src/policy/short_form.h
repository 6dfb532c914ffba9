/* The short form, `upstream: URL` and `limit: RATE`, told as what it stands for: an upstream
 * "default", a limit "per-client" by client.ip, and one route "all". */

#ifndef SLUICE_POLICY_SHORT_FORM_H
#define SLUICE_POLICY_SHORT_FORM_H

#include "policy/section.h"
#include "policy/spec.h"

/* Replace the short form in @spec, if it is used, by the sections it stands for. Errors of its use
 * go to the reader's diags. */
void short_form_expand(struct section_reader *reader, struct spec_policy *spec);

#endif /* SLUICE_POLICY_SHORT_FORM_H */
