/* The program's own event_add() comes before the shared library's. */

#include "support/failing_events.h"

#include <check.h>
#include <dlfcn.h>
#include <event2/event.h>
#include <string.h>

static unsigned n_failing;

void failing_events_next(unsigned n)
{
    n_failing = n;
}

int event_add(struct event *event, const struct timeval *timeout)
{
    static int (*real)(struct event *, const struct timeval *);
    if (n_failing > 0) {
        n_failing--;
        return -1;
    }
    if (real == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "event_add");
        ck_assert_ptr_nonnull(symbol);
        memcpy(&real, &symbol, sizeof(real));
    }
    return real(event, timeout);
}
