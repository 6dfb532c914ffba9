/* What the script's reply says of a decision. */

#ifndef SLUICE_STORE_REDIS_ANSWER_H
#define SLUICE_STORE_REDIS_ANSWER_H

#include <stdbool.h>

#include "base/compiler.h"
#include "store/redis_reply.h"
#include "store/store.h"

/* Fill @decision's answer, but for status and source, from @reply; where it stands for several
 * alike, each of theirs by on_alike. False: the reply makes no sense. */
MUST_USE bool redis_answer_read(const struct redis_reply *reply, struct decision *decision);

#endif /* SLUICE_STORE_REDIS_ANSWER_H */
