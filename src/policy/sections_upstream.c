/* What a policy may say of an upstream. */

#include "policy/section_tables.h"
#include "policy/sections.h"
#include "policy/spec.h"
#include "policy/value_types.h"

static const struct value_type TIMEOUT = VALUE_DURATION_TYPE(MS(1), MS(DAY_MS));

static const struct section_field UPSTREAM_TIMEOUT_FIELDS[] = {
    {"connect", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, connect_us), "1s",
     KEY_OPTIONAL, "to connect to a server"},
    {"response", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, response_us), "30s",
     KEY_OPTIONAL, "from the request's end to the response's head, and between its pieces"},
    {"idle", SHAPE_ONE, &TIMEOUT, offsetof(struct spec_upstream_timeout, idle_us), "60s",
     KEY_OPTIONAL, "how long an unused connection is kept"},
};
static const struct section UPSTREAM_TIMEOUT = SECTION_OF(UPSTREAM_TIMEOUT_FIELDS);
static const struct value_type UPSTREAM_TIMEOUT_TYPE =
    SECTION_TYPE(UPSTREAM_TIMEOUT, struct spec_upstream_timeout);

static const struct section_field UPSTREAM_FIELDS[] = {
    {"servers", SHAPE_LIST, &VALUE_SERVER, offsetof(struct spec_upstream, servers), NULL,
     KEY_REQUIRED, "http://host[:port], one or more"},
    {"balance", SHAPE_ONE, &VALUE_BALANCE, offsetof(struct spec_upstream, balance), "round_robin",
     KEY_OPTIONAL, "round_robin: how requests are spread over the servers"},
    {"host", SHAPE_ONE, &VALUE_HOST_RULE, offsetof(struct spec_upstream, host), "preserve",
     KEY_OPTIONAL, "preserve, server or a name: the Host that the servers see"},
    {"timeout", SHAPE_ONE, &UPSTREAM_TIMEOUT_TYPE, offsetof(struct spec_upstream, timeout), NULL,
     KEY_OPTIONAL, "how long to wait for the servers"},
    NOT_YET("health", "active health checks"),
    NOT_YET("max_connections", "most connections to a server"),
};
const struct section SECTIONS_UPSTREAM = SECTION_OF(UPSTREAM_FIELDS);
