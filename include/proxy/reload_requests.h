/* Requests for reloads, and the report on the latest one. Any thread may request a reload and read
 * the report. The main thread of the process performs the reloads. */

#ifndef SLUICE_PROXY_RELOAD_REQUESTS_H
#define SLUICE_PROXY_RELOAD_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/span.h"
#include "base/status.h"

struct reload_requests;
struct wakeup;

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

/* What a reload has changed: a bounded list in a form for people. */
struct reload_changes {
    size_t n; /* all of them, of which the first RELOAD_CHANGES_MAX are listed */
    struct reload_change items[RELOAD_CHANGES_MAX];
};

enum {
    RELOAD_TEXT_BYTES = 8192,
    RELOADS_KEPT_MAX = 16, /* the latest, with what each has changed */
};

/* The result of the latest attempt that has ended. */
struct reload_report {
    uint64_t number;   /* of the attempt, from 1; 0: there was none yet */
    bool succeeded;    /* true: its policy is in force; false: the previous one is */
    uint64_t ended_us; /* us since the epoch; 0: there was none yet */
    /* of the policy in force: 1 for the first policy, 1 more with each success */
    uint64_t generation;
    uint64_t loaded_us;   /* when that policy came into force, us since the epoch */
    uint64_t n_successes; /* attempts so far */
    uint64_t n_failures;
    /* errors and warnings, one per line, NUL-terminated; may be truncated */
    char text[RELOAD_TEXT_BYTES];
};

/* An attempt that has ended. */
struct reload_record {
    uint64_t number;
    bool succeeded;
    uint64_t ended_us;             /* us since the epoch */
    uint64_t generation;           /* in force after it */
    const char *because;           /* what asked for it; static */
    struct reload_changes changes; /* none unless it succeeded */
};

/* The result of an attempt, to be reported. */
struct reload_outcome {
    bool succeeded;
    struct span text;                     /* see struct reload_report */
    const char *because;                  /* what asked for it; static */
    const struct reload_changes *changes; /* NULL: none are known */
};

/* Call this when the first policy comes into force: its loaded_us is now. STATUS_NO_MEMORY. */
MUST_USE enum status reload_requests_new(struct reload_requests **requests);
/* NULL is a no-op. */
void reload_requests_free(struct reload_requests *requests);

/* --- any thread --- */

/* Request a reload. Returns the number of the next attempt to begin, which serves this request. The
 * attempt has ended when the report's number is at least this number. */
uint64_t reload_requests_ask(struct reload_requests *requests);

void reload_requests_read(struct reload_requests *requests, struct reload_report *report);

/* Copy the latest attempts that have ended to @records, of RELOADS_KEPT_MAX, the latest first.
 * Returns how many there are. */
size_t reload_requests_read_records(struct reload_requests *requests,
                                    struct reload_record *records);

/* Signal @wakeup whenever an attempt ends. It replaces the previous one and is borrowed until the
 * next call. NULL: signal none. */
void reload_requests_listen(struct reload_requests *requests, struct wakeup *wakeup);

/* --- the main thread --- */

/* Readable when a reload is requested. */
int reload_requests_fd(const struct reload_requests *requests);

/* An attempt begins. It serves all requests made so far. */
void reload_requests_begin(struct reload_requests *requests);

/* As if the attempt that has begun had not. False: a request was made for it or since, and it must
 * end. */
MUST_USE bool reload_requests_withdraw(struct reload_requests *requests);

/* The attempt has ended. */
void reload_requests_end(struct reload_requests *requests, const struct reload_outcome *outcome);

#endif /* SLUICE_PROXY_RELOAD_REQUESTS_H */
