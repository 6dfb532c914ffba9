/* Keys as the policy writes them: `header.x-api-key | client.ip`. */

#ifndef SLUICE_POLICY_KEY_PARSER_H
#define SLUICE_POLICY_KEY_PARSER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/key.h"

/* Read one part: alternatives with "|" between them. Names are copied to @arena. False: @problem
 * says what is wrong, fit to follow `key "VALUE": `. */
MUST_USE bool key_parser_parse_part(struct span span, struct arena *arena, struct key_part *part,
                                    struct text *problem);

#endif /* SLUICE_POLICY_KEY_PARSER_H */
