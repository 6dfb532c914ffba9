/* Quotes values of a file in messages, and finds the known word most similar to a mistyped one, for
 * "did you mean". The length is bounded, so that the reason after the quote always fits. */

#ifndef SLUICE_POLICY_LOAD_QUOTE_H
#define SLUICE_POLICY_LOAD_QUOTE_H

#include <stddef.h>

#include "base/span.h"
#include "base/text.h"

enum { QUOTE_BYTES_MAX = 64 };

/* The first QUOTE_BYTES_MAX bytes of @value. */
struct span quote_clip(struct span value);

/* Write "VALUE" with its quotes; a longer value ends with an ellipsis. Asterisks replace the user
 * and the password of a URL. */
void quote_write(struct text *text, struct span value);

/* --- suggestions --- */

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

#endif /* SLUICE_POLICY_LOAD_QUOTE_H */
