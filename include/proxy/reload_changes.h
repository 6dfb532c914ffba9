/* What a reload has changed: a bounded list in a form for people. */

#ifndef SLUICE_PROXY_RELOAD_CHANGES_H
#define SLUICE_PROXY_RELOAD_CHANGES_H

#include <stddef.h>

enum {
    RELOAD_CHANGES_MAX = 32, /* that are listed; a policy may have 10,000 limits */
    RELOAD_CHANGE_KEY_BYTES = 160,
    RELOAD_CHANGE_VALUE_BYTES = 96,
};

enum reload_change_kind {
    RELOAD_ADDED,
    RELOAD_REMOVED,
    RELOAD_CHANGED,
    RELOAD_REORDERED, /* the same items in another order */
};

/* All texts are NUL-terminated UTF-8; one that was longer ends with "…". */
struct reload_change {
    enum reload_change_kind kind;
    char key[RELOAD_CHANGE_KEY_BYTES];    /* as in the policy: limits.per-client.rate */
    char from[RELOAD_CHANGE_VALUE_BYTES]; /* the value before; empty: RELOAD_ADDED */
    char to[RELOAD_CHANGE_VALUE_BYTES];   /* the value now; empty: RELOAD_REMOVED */
};

struct reload_changes {
    size_t n; /* all of them, of which the first RELOAD_CHANGES_MAX are listed */
    struct reload_change items[RELOAD_CHANGES_MAX];
};

#endif /* SLUICE_PROXY_RELOAD_CHANGES_H */
