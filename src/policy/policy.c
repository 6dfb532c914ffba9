#include "policy/policy.h"

#include <stdlib.h>

#include "limit/calendar.h"

void policy_free(struct policy *policy)
{
    if (policy != NULL) {
        for (size_t i = 0; i < policy->n_calendars; i++) {
            calendar_free(policy->calendars[i]);
        }
        arena_reset(&policy->arena);
        free(policy);
    }
}
