/* The known word nearest to a mistyped one, for "did you mean". */

#ifndef SLUICE_POLICY_SUGGEST_H
#define SLUICE_POLICY_SUGGEST_H

#include <stddef.h>

#include "base/span.h"
#include "base/text.h"

/* One search: init, offer each known word, ask. */
struct suggest {
    struct span wanted;
    struct span best; /* borrowed from an offer; empty: none was near */
    size_t score;     /* to beat; private */
};

/* Search for what is near to @wanted. */
void suggest_init(struct suggest *suggest, struct span wanted);

/* Consider @word: it is kept if it is nearer than those before, and near at all: one edit for three
 * letters (an edit inserts, drops or changes a letter, or swaps two). Case is ignored. */
void suggest_offer(struct suggest *suggest, struct span word);

/* Write `; did you mean "WORD"?`, or nothing. */
void suggest_write(const struct suggest *suggest, struct text *text);

#endif /* SLUICE_POLICY_SUGGEST_H */
