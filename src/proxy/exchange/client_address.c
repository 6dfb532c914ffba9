#include "proxy/client_address.h"

#include "base/limits.h"
#include "http/field.h"

/* The last members of the field; the nearest hop is the last one. Any number of members that a
 * client puts before them, malformed or not, cannot hide them. */
struct hops {
    struct span
        items[FORWARDED_HOPS_MAX]; /* member number i, from 0, is at i % FORWARDED_HOPS_MAX */
    size_t n_items;                /* of the whole field */
};

static void add_hop(struct hops *hops, struct span hop)
{
    hop = span_trim(hop);
    if (hop.len > 0) {
        hops->items[hops->n_items++ % FORWARDED_HOPS_MAX] = hop;
    }
}

/* --- Forwarded (RFC 7239 section 4) --- */

/* Bytes up to the first @separator outside quotes. Within quotes, a backslash escapes the next
 * byte. *is_open: @text ends within quotes. */
static size_t piece_len(struct span text, char separator, bool *is_open)
{
    bool is_quoted = false;
    size_t i = 0;
    while (i < text.len && (is_quoted || text.data[i] != separator)) {
        if (text.data[i] == '"') {
            is_quoted = !is_quoted;
        } else if (is_quoted && text.data[i] == '\\' && i + 1 < text.len) {
            i++;
        }
        i++;
    }
    *is_open = is_quoted;
    return i;
}

/* Cut the first piece off @rest; false: there is none left. */
static bool next_piece(struct span *rest, char separator, struct span *piece)
{
    bool is_open;
    if (rest->data == NULL) {
        return false;
    }
    const size_t len = piece_len(*rest, separator, &is_open);
    *piece = span_of(rest->data, len);
    *rest = len < rest->len ? span_of(rest->data + len + 1, rest->len - len - 1) : span_of(NULL, 0);
    return true;
}

/* A client could open quotes that swallow the elements that proxies append. So quotes have no
 * meaning in a line where they do not match. Honest proxies write matching quotes, so a quote that
 * a client opened stays open to the end. */
static void gather_elements(struct hops *hops, struct span line)
{
    struct span element;
    bool is_open;
    (void)piece_len(line, '\0', &is_open);
    while (is_open ? span_split(&line, ',', &element) : next_piece(&line, ',', &element)) {
        add_hop(hops, element);
    }
}

static struct span unquote(struct span span)
{
    if (span.len >= 2 && span.data[0] == '"' && span.data[span.len - 1] == '"') {
        return span_of(span.data + 1, span.len - 2);
    }
    return span;
}

/* @node without an obfuscated port, `:_` and letters, digits, `.`, `_`, `-` (section 6.3). */
static struct span without_hidden_port(struct span node)
{
    size_t len = node.len;
    while (len > 0 && (field_is_token(span_of(node.data + len - 1, 1)))) {
        len--;
    }
    const bool is_redacted =
        len > 0 && len < node.len && node.data[len - 1] == ':' && node.data[len] == '_';
    return is_redacted ? span_of(node.data, len - 1) : node;
}

/* The value of `for` in one element; empty if there is none, or more than one. */
static struct span forwarded_for(struct span element)
{
    struct span pair;
    struct span found = span_of("", 0);
    unsigned n_found = 0;
    while (next_piece(&element, ';', &pair)) {
        pair = span_trim(pair);
        const size_t equals = span_find(pair, '=');
        if (equals < pair.len && span_equals_ignore_case(span_of(pair.data, equals), SPAN("for"))) {
            found = unquote(span_of(pair.data + equals + 1, pair.len - equals - 1));
            n_found++;
        }
    }
    return n_found == 1 ? without_hidden_port(found) : span_of("", 0);
}

/* --- either field --- */

/* All lines of one field are one list, in their order (RFC 9110 section 5.3). */
static void gather_hops(struct hops *hops, const struct head *request, enum field_id id)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        struct span line = request->fields[i].value;
        struct span member;
        if (request->fields[i].id != id) {
            continue;
        }
        if (id == FIELD_FORWARDED) {
            gather_elements(hops, line);
            continue;
        }
        while (span_split(&line, ',', &member)) { /* has no quotes: it is a list of addresses */
            add_hop(hops, member);
        }
    }
}

static bool is_trusted(const struct policy *policy, const struct address *address)
{
    return address_is_in(address, policy->trusted_proxies, policy->n_trusted_proxies);
}

/* Add a hop to @walk; NULL is a no-op. */
static void note(struct client_walk *walk, enum client_hop_kind kind, struct span text,
                 const struct address *address)
{
    if (walk != NULL) {
        walk->hops[walk->n_hops++] =
            (struct client_hop){.kind = kind, .text = text, .address = *address};
    }
}

/* Find the client among @hops, from the nearest on; *n_left of them are not examined. */
static struct address find_among(const struct policy *policy, const struct address *peer,
                                 const struct hops *hops, bool is_forwarded,
                                 struct client_walk *walk, size_t *n_left)
{
    struct address client = *peer;
    for (size_t i = hops->n_items; i-- > 0;) {
        const struct span item = hops->items[i % FORWARDED_HOPS_MAX];
        *n_left = i;
        if (hops->n_items - i > FORWARDED_HOPS_MAX) {
            note(walk, CLIENT_HOP_TOO_FAR, SPAN(""), peer);
            return *peer;
        }
        if (!address_parse(is_forwarded ? forwarded_for(item) : item, &client)) {
            note(walk, CLIENT_HOP_NO_ADDRESS, item, peer);
            return *peer;
        }
        const bool is_hop = is_trusted(policy, &client);
        note(walk, is_hop ? CLIENT_HOP_TRUSTED : CLIENT_HOP_FOUND, item, &client);
        if (!is_hop) {
            return client;
        }
    }
    return client; /* all are trusted: the farthest one */
}

/* Find the client behind the trusted proxy @peer. @walk: as in find_among(). */
static struct address find_behind(const struct policy *policy, const struct address *peer,
                                  const struct head *request, struct client_walk *walk)
{
    struct hops hops = {.n_items = 0};
    enum field_id field = FIELD_X_FORWARDED_FOR;
    size_t n_left = 0;
    gather_hops(&hops, request, field);
    if (hops.n_items == 0) {
        field = FIELD_FORWARDED;
        gather_hops(&hops, request, field);
    }
    const struct address client =
        find_among(policy, peer, &hops, field == FIELD_FORWARDED, walk, &n_left);
    if (walk != NULL) {
        walk->field = field;
        walk->n_left = n_left;
    }
    return client;
}

struct address client_address_find(const struct policy *policy, const struct address *peer,
                                   const struct head *request)
{
    return policy->n_trusted_proxies > 0 && is_trusted(policy, peer)
               ? find_behind(policy, peer, request, NULL)
               : *peer;
}

bool client_address_is_own(const struct policy *policy, const struct address *client)
{
    return client->family != ADDRESS_NONE && !is_trusted(policy, client);
}

enum field_id client_address_field(const struct head *request)
{
    struct hops hops = {.n_items = 0};
    gather_hops(&hops, request, FIELD_X_FORWARDED_FOR);
    return hops.n_items > 0 ? FIELD_X_FORWARDED_FOR : FIELD_FORWARDED;
}

struct address client_address_walk(const struct policy *policy, const struct address *peer,
                                   const struct head *request, struct client_walk *walk)
{
    *walk = (struct client_walk){.peer_is_trusted = is_trusted(policy, peer)};
    return walk->peer_is_trusted ? find_behind(policy, peer, request, walk) : *peer;
}
