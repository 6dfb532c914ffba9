#include "policy/policy.h"

#include <stdlib.h>

void policy_free(struct policy *policy)
{
    if (policy != NULL) {
        arena_reset(&policy->arena);
        free(policy);
    }
}
