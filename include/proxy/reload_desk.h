/* Where reloads are asked for, and where it is told what came of them. Any thread may ask and read;
 * one thread, the process's first, makes them. */

#ifndef SLUICE_PROXY_RELOAD_DESK_H
#define SLUICE_PROXY_RELOAD_DESK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

struct reload_desk;
struct wakeup;

enum { RELOAD_TEXT_BYTES = 8192 };

/* What came of the latest attempt. */
struct reload_report {
    uint64_t number;      /* of the attempt, from 1; 0: none was made yet */
    bool succeeded;       /* its policy is in force; false: the one before is */
    uint64_t ended_us;    /* us since the epoch; 0: none was made yet */
    uint64_t edition;     /* of the policy in force, from 1: how many were in force so far */
    uint64_t loaded_us;   /* when that one came into force, us since the epoch */
    uint64_t n_successes; /* attempts so far */
    uint64_t n_failures;
    char
        text[RELOAD_TEXT_BYTES]; /* errors and warnings, a line each, NUL-terminated; perhaps cut */
};

/* STATUS_NO_MEMORY. The first policy is in force now. */
MUST_USE enum status reload_desk_new(struct reload_desk **desk);
/* NULL is a no-op. */
void reload_desk_free(struct reload_desk *desk);

/* --- any thread --- */

/* Ask for a reload. Returns the number of the attempt that begins after this, and serves it: it has
 * ended when a report's number is not below. */
uint64_t reload_desk_ask(struct reload_desk *desk);

void reload_desk_read(struct reload_desk *desk, struct reload_report *report);

/* Signal @wakeup, borrowed until it is another, or NULL, when an attempt has ended. */
void reload_desk_listen(struct reload_desk *desk, struct wakeup *wakeup);

/* --- the one who makes them --- */

/* Readable when somebody has asked. */
int reload_desk_fd(const struct reload_desk *desk);

/* An attempt begins: all who have asked are served by it. */
void reload_desk_begin(struct reload_desk *desk);

/* It has ended. @text: see the report. */
void reload_desk_end(struct reload_desk *desk, bool succeeded, struct span text);

#endif /* SLUICE_PROXY_RELOAD_DESK_H */
