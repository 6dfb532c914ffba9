/* An operator's change of a table: of bans or of tenants.
 *
 * If the policy names Redis, the change is made in Redis, by its clock, and published to every
 * process. It fails while Redis is unreachable. Otherwise the change is made in this process. */

#ifndef SLUICE_STORE_TABLE_CHANGE_H
#define SLUICE_STORE_TABLE_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"
#include "base/text.h"
#include "store/operation.h"

struct table_change;
struct script;

/* What differs between tables. */
struct table_change_kind {
    /* That makes the change in Redis. Its reply: until when (ms since the epoch), or REPLY_NONE,
     * REPLY_OVER or REPLY_FULL of table_change.c; and the time now. */
    const struct script *script;
    /* Write the words of the script's call into change->operation.words, with @text as memory, and
     * return their number. */
    size_t (*write_words)(struct table_change *change, struct text *text);
    /* Make the change in this process at @now_ms, since the epoch. */
    enum status (*make_here)(struct table_change *change, uint64_t now_ms);
};

/* Borrowed members must stay valid until the answer. */
struct table_change {
    /* a stack over the shared store, in the caller's loop; NULL: no shared store */
    struct store *store;
    struct span prefix; /* of every key in Redis */
    uint64_t for_ms;    /* duration; 0: it lasts until *until_ms */
    uint64_t *until_ms; /* since the epoch */
    bool is_removal;    /* which needs no end */

    /* The answer. status: STATUS_OK, and *until_ms is set; _NOT_FOUND: there is none to remove;
     * _INVALID: it would have ended already; _FULL; others as for an admin operation. */
    enum status status;
    const char *fault; /* see struct store_operation */
    bool may_be_made;  /* for any status: the change is made in Redis, or may still be made */

    void (*on_done)(struct table_change *change); /* after STORE_PENDING: once, from the loop */
    void *context;

    /* Private to table_change.c. */
    const struct table_change_kind *kind;
    struct store_operation operation;
    char bytes[4096];
};

MUST_USE enum store_outcome table_change_start(struct table_change *change,
                                               const struct table_change_kind *kind);

/* --- words of calls --- */

/* Append @a and @b to @text as one word. */
struct span table_word(struct text *text, struct span a, struct span b);
struct span table_word_number(struct text *text, uint64_t number);
/* The word that begins at @start of @text and ends where @text does now. */
struct span table_word_from(const struct text *text, size_t start);

#endif /* SLUICE_STORE_TABLE_CHANGE_H */
