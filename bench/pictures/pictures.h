/* Which limits are drawn: one for each algorithm at least, and one for each
 * way of it that differs. */

#ifndef PICTURES_PICTURES_H
#define PICTURES_PICTURES_H

#include <stddef.h>

#include "limit/limit.h"

struct picture {
    const char *file; /* name without ".svg" */
    const char *algorithm;
    const char *words;      /* of the policy, beside the algorithm */
    struct limit_spec spec; /* all but the algorithm */
};

/* All of them; @n is how many. */
const struct picture *pictures_all(size_t *n);

#endif /* PICTURES_PICTURES_H */
