/* Finds the known word most similar to a mistyped one, for "did you mean". */

#ifndef SLUICE_BASE_SUGGEST_H
#define SLUICE_BASE_SUGGEST_H

#include <stddef.h>

#include "base/span.h"
#include "base/text.h"

/* One search: init, offer each known word, write. */
struct suggest {
    struct span wanted;
    struct span best; /* borrowed from an offer; empty: no offer is similar enough */
    size_t score;     /* score of best; private */
};

/* Start a search for a word similar to @wanted. */
void suggest_init(struct suggest *suggest, struct span wanted);

/* Consider @word. It becomes best if it is more similar than the words before and has at most one
 * edit per three letters, rounded up. An edit inserts, drops or changes a letter, or swaps two.
 * Case is ignored. */
void suggest_offer(struct suggest *suggest, struct span word);

/* Write `; did you mean "WORD"?` if there is a best word. */
void suggest_write(const struct suggest *suggest, struct text *text);

#endif /* SLUICE_BASE_SUGGEST_H */
