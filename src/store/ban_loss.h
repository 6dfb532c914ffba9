/* Whether Redis has lost the bans, as one does that starts anew without what it had.
 *
 * Each life of the hash has an id, a field that is never deleted: where another is read, or none,
 * than the one that what is held here is of, what was not read is not lifted but lost. Those that
 * were lifted leave a word in the hash, so that nobody sets them again. */

#ifndef SLUICE_STORE_BAN_LOSS_H
#define SLUICE_STORE_BAN_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"
#include "store/ban_page.h"
#include "store/bans.h"

struct ban_life {
    char id[BAN_LIFE_BYTES_MAX];
    size_t len; /* 0: none */
};

struct ban_loss {
    struct ban_life known; /* what is held is of it */
    struct ban_life seen;  /* by the reading of all that is under way, or was */
    bool is_mending;       /* what is lost is being set again */
};

/* All is going to be read. */
void ban_loss_begin(struct ban_loss *loss);

/* A part of all was read. */
void ban_loss_take(struct ban_loss *loss, const struct ban_page *page);

/* All was read: what is lost is kept, and told to the log; what is lifted goes. */
void ban_loss_end(struct ban_loss *loss, struct bans *bans);

/* One field was read. False: it is of another life; all is to be read. */
MUST_USE bool ban_loss_check(struct ban_loss *loss, const struct ban_page *page);

/* The next that is to be set again goes to @again. False: there is none. */
MUST_USE bool ban_loss_next(struct ban_loss *loss, struct bans *bans, struct ban_again *again);

#endif /* SLUICE_STORE_BAN_LOSS_H */
