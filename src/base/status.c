#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

const char *status_text(enum status status)
{
    switch (status) {
#define STATUS_CASE(name, text)                                                                    \
    case STATUS_##name:                                                                            \
        return text;
        STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

void panic(const char *message)
{
    (void)fprintf(stderr, "sluice: panic: %s\n", message);
    abort();
}
