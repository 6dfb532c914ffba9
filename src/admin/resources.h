/* What there is to ask: one row a method and path, one file a resource.
 *
 * To add one: its handler in a file of its own, declared here, and its row in resources.c. */

#ifndef SLUICE_ADMIN_RESOURCES_H
#define SLUICE_ADMIN_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/access.h"
#include "admin/request.h"
#include "base/compiler.h"
#include "base/span.h"

struct admin_resource {
    const char *method; /* GET answers HEAD, too */
    const char *path;   /* "/v1/limits/{limit}": a {name} is one segment, captured */
    enum admin_effect effect;
    void (*handle)(struct admin_request *request);
    const char *doc; /* one line for people */
};

/* --- the handlers --- */

void index_handle(struct admin_request *request);
void health_handle(struct admin_request *request);
void ready_handle(struct admin_request *request);
void metrics_handle(struct admin_request *request);
void top_handle(struct admin_request *request);
void limits_handle(struct admin_request *request);
void limit_handle(struct admin_request *request);
void key_handle(struct admin_request *request);
void reset_handle(struct admin_request *request);
void routes_handle(struct admin_request *request);
void policy_handle(struct admin_request *request);
void upstreams_handle(struct admin_request *request);
void reload_handle(struct admin_request *request);
void reload_state_handle(struct admin_request *request);

void bans_handle(struct admin_request *request);
void ban_handle(struct admin_request *request);
void unban_handle(struct admin_request *request);
void exempt_handle(struct admin_request *request);
void unexempt_handle(struct admin_request *request);

/* --- the table --- */

extern const struct admin_resource ADMIN_RESOURCES[];
extern const size_t N_ADMIN_RESOURCES;

/* What a method and a path come to. */
struct resource_match {
    const struct admin_resource *resource; /* NULL: status says why */
    const char
        *path; /* of the resource, or with 405 of those with other methods; NULL: there is none */
    enum admin_effect effect; /* also of what is not there: what such a request is after */
    uint16_t status;          /* 0, 400, 404 or 405 */
    const char *reason;       /* with 400; static */
    struct span allow;        /* with 405: the methods that there are, in @buffer */
    struct span captures[ADMIN_CAPTURES_MAX];
};

enum { RESOURCE_ALLOW_BYTES = 64 };

/* Find what @method (as sent) and @path (as sent, from its first slash) ask for. Segments are
 * decoded once into @decoded, of at least path.len bytes, which captures point to. */
void resource_find(struct span method, struct span path, char *decoded,
                   char allow[RESOURCE_ALLOW_BYTES], struct resource_match *match);

#endif /* SLUICE_ADMIN_RESOURCES_H */
