/* Compiles the spec of a policy file into a policy: resolves names, compiles patterns and keys, and
 * checks conditions between sections.
 *
 * Each part is compiled in its own file, in the order below. A value that an earlier stage found
 * invalid is zero in the spec and is skipped, so that one run reports each error once. */

#ifndef SLUICE_POLICY_COMPILE_COMPILE_H
#define SLUICE_POLICY_COMPILE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/status.h"
#include "limit/calendar.h"
#include "policy/compile/compile_options.h"
#include "policy/load/name_index.h"
#include "policy/load/spec.h"
#include "policy/policy.h"
#include "policy/warning.h"

/* The unit and zone of a calendar of the policy. */
struct compiled_calendar {
    enum calendar_unit unit;
    struct span zone;
};

struct compiler {
    const struct compile_options *options;
    const struct spec_policy *spec;
    struct policy *policy; /* under construction; the result is in its arena */
    struct arena *scratch; /* freed after compiling */
    struct diags *diags;
    struct ticket_secrets secrets;       /* of tls_tickets, wiped at the end; 0: none were read */
    struct name_index limits;            /* number: index of the rule */
    struct name_index upstreams;         /* number: index of the upstream */
    struct compiled_calendar *calendars; /* parallel to policy->calendars */
    bool *limit_is_used;
    bool *upstream_is_used;
    bool no_memory;
};

/* Compile all of @spec into @policy, whose arena is initialised. Errors go to @diags; after an
 * error the policy must not be used. STATUS_NO_MEMORY. */
MUST_USE enum status compile_policy(const struct spec_policy *spec, struct arena *scratch,
                                    struct diags *diags, const struct compile_options *options,
                                    struct policy *policy);

/* --- the stages, for compile.c --- */

/* Listeners, admin, workers, trusted proxies, name servers, log, max, timeouts. */
void compile_settings(struct compiler *compiler);
void compile_store(struct compiler *compiler);
void compile_upstreams(struct compiler *compiler);

/* The `buffer` at @node of an upstream or a route, read into @spec. NULL: it is not given. */
struct buffer_spec compile_buffer(struct compiler *compiler, const struct spec_buffer *spec,
                                  const struct node *node);
/* The databases of addresses; after routes what reads them, and which listeners take JA4. */
void compile_geo(struct compiler *compiler);
void compile_geo_readers(struct compiler *compiler);
void compile_fingerprints(struct compiler *compiler);
/* Whose tokens count; before what reads claims. */
void compile_jwt(struct compiler *compiler);
void compile_limits(struct compiler *compiler);
/* The bans that limits set; after them. */
void compile_bans(struct compiler *compiler);
/* The plans of all rules, behind their limits. */
void compile_plans(struct compiler *compiler);
/* Set key_number of all rules: equal for rules with the same key and `missing`. */
void compile_keys(struct compiler *compiler);
void compile_routes(struct compiler *compiler);
/* The unregistered methods that routes name. */
void compile_method_names(struct compiler *compiler);
/* Add HEAD to each route that names GET, unless a route with the same host and path names HEAD. */
void compile_implied_head(struct compiler *compiler);
/* Choose the limits that redis-cell decides, if the policy enables it; after all of the above. */
void compile_redis_cell(struct compiler *compiler);

/* After routes: which of them read whose tokens, which request fields are read, and an index of the
 * cookies and parameters that keys read. */
void compile_tokens(struct compiler *compiler);
void compile_read_fields(struct compiler *compiler);
void compile_key_names(struct compiler *compiler);

/* Check that the balance keys of upstreams can be read on the routes that lead to them; after
 * routes. */
void compile_balance(struct compiler *compiler);

/* --- parts of the stages --- */

/* The secrets of `tls_tickets`; before compile_tls(). */
void compile_tls_tickets(struct compiler *compiler);

/* The `tls` of @listener, if it is given. */
void compile_tls(struct compiler *compiler, const struct spec_tls *spec,
                 struct listener_section *listener);

/* Set what is TLS in @redis, whose endpoints are compiled. @is_tls: the URL says so. */
void compile_redis_tls(struct compiler *compiler, bool is_tls, struct redis_section *redis);

/* Set tls of @upstream, whose servers and host are compiled, if one of them is_https. */
void compile_upstream_tls(struct compiler *compiler, const struct spec_upstream *spec,
                          struct upstream_spec *upstream);

/* Report parameters of limit @spec that its algorithm does not support, alone or in combination. */
void compile_parameters(struct compiler *compiler, const struct spec_limit *spec);

/* The parameters of @spec_rate, one of the rates of @spec; spec->algorithm is set. */
struct limit_spec compile_limit_spec(const struct spec_limit *spec,
                                     const struct spec_rate *spec_rate);

/* Warn of @rate, of a limit or a plan, where a sliding_log stores very many requests of a key. */
void compile_warn_of_log(struct compiler *compiler, const struct spec_limit *spec,
                         const struct spec_rate *rate);

/* The calendar of a rate of @spec, with is_calendar. NULL: no memory, or the zone was reported. */
const struct calendar *compile_calendar(struct compiler *compiler, const struct spec_limit *spec,
                                        enum rate_calendar rate);

void compile_match(struct compiler *compiler, const struct spec_match *spec, struct route *route);

/* Set route->edits; NULL: no changes. Requires the route's compiled match and destination. */
void compile_edits(struct compiler *compiler, const struct spec_route *spec, struct route *route);
/* Then, a stage: let no route pass on, from clients, what another route sets from a claim. */
void compile_claim_fields(struct compiler *compiler);

/* The cors section of @route, or that of the defaults; NULL: there is none. */
const struct cors *compile_cors(struct compiler *compiler, const struct spec_route *route);

/* Check the cost that a route says for @rule alone. */
void compile_check_own_cost(struct compiler *compiler, const struct limit_rule *rule,
                            const struct spec_route_limit *spec);

/* The cost of @route, whose limits and upstream are compiled. */
void compile_cost(struct compiler *compiler, const struct spec_cost *spec, struct route *route);

/* Mark the limits whose charges may be corrected, by the response or because another slot of the
 * cluster denies; after routes. */
void compile_settled(struct compiler *compiler);

/* Warn of routes whose limits may lie in several slots of the Redis cluster. */
void compile_slots(struct compiler *compiler);

/* The index of the claim at @path, as a policy writes it, among those that the policy reads. An
 * error is reported at @node. */
uint16_t compile_claim(struct compiler *compiler, struct span path, const struct node *node);

/* --- helpers --- */

/* The path of the file that @text names, in @arena. NULL: no memory. folder_of is set. */
const char *compile_file_path(struct compiler *compiler, const struct spec_text *text,
                              struct arena *arena);
/* The same, as long as the compilation; the file is kept for watching it. */
const char *compile_open_path(struct compiler *compiler, const struct spec_text *text);

/* Allocate @count * @bytes zeroed bytes in the policy's arena; NULL: no_memory is set. */
void *compile_alloc(struct compiler *compiler, size_t count, size_t bytes);

/* A NUL-terminated copy of @span in the policy's arena. */
struct span compile_copy(struct compiler *compiler, struct span span);

/* Copies of the texts of a list that could be read. *n is their number. */
struct span *compile_texts(struct compiler *compiler, const struct section_items *items, size_t *n);

/* Copy the prefixes of a list, as address_is_in() searches them. *n is how many are left. */
struct address_prefix *compile_prefixes(struct compiler *compiler,
                                        const struct section_items *items, size_t *n);
/* Copy an endpoint. */
struct endpoint compile_endpoint(struct compiler *compiler, const struct endpoint *endpoint);
/* Copy one part of a key, written at @node. */
void compile_key_part(struct compiler *compiler, const struct key_part *from,
                      const struct node *node, struct key_part *to);

/* The answer to a request that a limit denies; NULL: it is not in the file. */
const struct reply_spec *compile_denial(struct compiler *compiler, const struct spec_reply *spec);

/* The answer of a route; NULL: it is not in the file. */
const struct reply_spec *compile_respond(struct compiler *compiler, const struct spec_route *route);

/* Set the fields of @reply, the answer of a denial or of a route. */
void compile_reply_set(struct compiler *compiler, const struct section_items *items, bool is_denial,
                       struct reply_spec *reply);

/* The first term of @key that names a capture which @route does not have, or NULL. */
const struct key_term *compile_lacking_capture(const struct route *route, const struct key *key);

/* Whether @name is 1 to 64 of A-Z a-z 0-9 . _ - ; reports an error at @node if not. */
bool compile_check_name(struct compiler *compiler, const char *what, struct span name,
                        const struct node *node);

/* Whether @items, if they are given, are 1 to @max; if not, reports "@before 1 to MAX @after". */
bool compile_check_count(struct compiler *compiler, const struct section_items *items, size_t max,
                         const char *before, const char *after);

/* Whether @rule contains values of environment variables, so that its values must not be shown. */
bool compile_is_expanded(const struct compiler *compiler, const struct limit_rule *rule);

#endif /* SLUICE_POLICY_COMPILE_COMPILE_H */
