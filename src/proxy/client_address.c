#include "proxy/client_address.h"

#include "base/limits.h"
#include "http/field.h"

/* The members of the field, the nearest hop last. */
struct hops {
    struct span items[FORWARDED_HOPS_MAX];
    size_t n_items;
    bool too_many;
};

/* All lines of one field are one list, in their order (RFC 9110 section 5.3). */
static void gather_hops(struct hops *hops, const struct head *request, enum field_id id)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        if (request->fields[i].id != id) {
            continue;
        }
        struct span rest = request->fields[i].value;
        struct span member;
        while (field_list_next(&rest, &member)) {
            if (hops->n_items == FORWARDED_HOPS_MAX) {
                hops->too_many = true;
                return;
            }
            hops->items[hops->n_items++] = member;
        }
    }
}

static struct span unquote(struct span span)
{
    if (span.len >= 2 && span.data[0] == '"' && span.data[span.len - 1] == '"') {
        return span_of(span.data + 1, span.len - 2);
    }
    return span;
}

/* The value of `for` in one element of Forwarded (RFC 7239 section 4); empty when there is none. */
static struct span forwarded_for(struct span element)
{
    struct span pair;
    while (span_split(&element, ';', &pair)) {
        pair = span_trim(pair);
        const size_t equals = span_find(pair, '=');
        if (equals < pair.len && span_equals_ignore_case(span_of(pair.data, equals), SPAN("for"))) {
            return unquote(span_of(pair.data + equals + 1, pair.len - equals - 1));
        }
    }
    return span_of("", 0);
}

static bool is_trusted(const struct policy *policy, const struct address *address)
{
    return address_is_in(address, policy->trusted_proxies, policy->n_trusted_proxies);
}

struct address client_address_find(const struct policy *policy, const struct address *peer,
                                   const struct head *request)
{
    if (policy->n_trusted_proxies == 0 || !is_trusted(policy, peer)) {
        return *peer;
    }
    struct hops hops = {.n_items = 0};
    bool is_forwarded = false;
    gather_hops(&hops, request, FIELD_X_FORWARDED_FOR);
    if (hops.n_items == 0) {
        gather_hops(&hops, request, FIELD_FORWARDED);
        is_forwarded = true;
    }
    if (hops.too_many) {
        return *peer;
    }
    struct address client = *peer;
    for (size_t i = hops.n_items; i-- > 0;) {
        const struct span hop = is_forwarded ? forwarded_for(hops.items[i]) : hops.items[i];
        if (!address_parse(hop, &client)) {
            return *peer;
        }
        if (!is_trusted(policy, &client)) {
            return client;
        }
    }
    return client; /* all are trusted: the one farthest away */
}
