/* The values of a request's cookies and parameters under all names by which a route counts: read in
 * one pass when the first key asks for one, so that the cost does not grow with their number. */

#ifndef SLUICE_POLICY_NAMED_READINGS_H
#define SLUICE_POLICY_NAMED_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/limits.h"
#include "base/span.h"
#include "policy/key_parts.h"

struct key_names;

enum { ROUTE_NAMES_MAX = 32 }; /* those of a route beyond it are read one by one */

/* Storage for values that are not substrings of the request. */
struct key_scratch {
    char address[ADDRESS_TEXT_MAX];
    size_t used;
    char bytes[4 * TARGET_BYTES_MAX];
};

/* The values that servers may see under one name. */
struct named_values {
    struct span items[KEY_IDENTITIES_MAX]; /* not empty, and all different */
    size_t n;
    bool has_empty;  /* it is also there with an empty value, or missing to some servers */
    bool is_refused; /* too many, or not to be normalised: the rest does not count */
};

struct route_name {
    bool is_cookie;
    uint32_t number; /* key_term.name_number */
};

/* The names of a route whose keys read cookies, or parameters, more than once. */
struct route_names {
    const struct key_names *all; /* of the policy */
    size_t n;
    struct route_name items[];
};

/* Valid for one request. Set by named_readings_init(); the rest is private. */
struct named_readings {
    const struct route_names *names;
    bool has_cookies; /* they are read, else their values are not set */
    bool has_parameters;
    struct named_values values[ROUTE_NAMES_MAX]; /* by index of the name */
    struct key_scratch scratch;
};

/* Begin: nothing is read. */
static inline void named_readings_init(struct named_readings *readings,
                                       const struct route_names *names)
{
    readings->names = names;
    readings->has_cookies = false;
    readings->has_parameters = false;
    readings->scratch.used = 0;
}

#endif /* SLUICE_POLICY_NAMED_READINGS_H */
