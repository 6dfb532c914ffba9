/* `user:password@` in front of a URL's hosts. */

#ifndef SLUICE_POLICY_LOGIN_H
#define SLUICE_POLICY_LOGIN_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/span.h"
#include "base/text.h"

struct login {
    struct span user;     /* empty: none */
    struct span password; /* empty: none */
};

/* The login of @rest, what follows "://" of a URL: all before the last "@", since a password may
 * hold any byte. Empty: there is none. */
struct span login_find(struct span rest);

/* Cut `[user]:password@` off @rest and decode its %-escapes into @arena; without one @login stays
 * as it is. False: @problem says what is wrong without quoting any of it. */
MUST_USE bool login_cut(struct span *rest, struct arena *arena, struct login *login,
                        struct text *problem);

#endif /* SLUICE_POLICY_LOGIN_H */
