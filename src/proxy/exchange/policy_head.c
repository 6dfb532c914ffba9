#include "proxy/request_evaluate.h"

#include <string.h>

#include "base/limits.h"
#include "policy/read_fields.h"
#include "proxy/client_address.h"

#define BIT(id) (UINT64_C(1) << FIELD_##id)

/* True if @id has 1 to REQUEST_ID_BYTES_MAX letters, digits and `-._~+/=:@`. UUIDs, base64 and the
 * trace ids of load balancers fit; no byte has a special meaning in a log, a shell or a page. */
static bool is_plain_id(struct span id)
{
    static const char ALPHABET[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=:@";
    if (id.len > REQUEST_ID_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        if (memchr(ALPHABET, id.data[i], sizeof(ALPHABET) - 1) == NULL) {
            return false;
        }
    }
    return id.len > 0;
}

struct span policy_head_request_id(const struct head *head)
{
    struct span id = SPAN("");
    unsigned n_ids = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id == FIELD_X_REQUEST_ID) {
            id = head->fields[i].value;
            n_ids++;
        }
    }
    /* Several count as none: a proxy may have added its id to that of a client. */
    return n_ids == 1 && is_plain_id(id) ? id : SPAN("");
}

/* The ids of the fields that sluice replaces though a trusted proxy sent them: of the two lists
 * that name clients the one that begins anew, and an id that is not passed on. */
static uint64_t replaced_of_trusted(const struct head *head)
{
    static const uint64_t LISTS = BIT(X_FORWARDED_FOR) | BIT(FORWARDED);
    uint64_t replaced = 0;
    if ((head->known & LISTS) != 0) {
        replaced |= LISTS & ~(UINT64_C(1) << client_address_field(head));
    }
    if (head_has(head, FIELD_X_REQUEST_ID) && policy_head_request_id(head).len == 0) {
        replaced |= BIT(X_REQUEST_ID);
    }
    return replaced;
}

/* @replaced: see replaced_of_trusted(); 0: the peer is not trusted. */
static bool is_absent(const struct field *field, bool peer_is_trusted, uint64_t replaced)
{
    return peer_is_trusted ? (replaced >> field->id & 1) != 0
                           : field_needs_trust(field->id, field->name);
}

/* Out of the way of policies that read no such field. */
NEVER_INLINE const struct head *policy_head_make(const struct head *head, bool peer_is_trusted,
                                                 struct arena *arena)
{
    const uint64_t replaced = peer_is_trusted ? replaced_of_trusted(head) : 0;
    size_t n_left = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        n_left += !is_absent(&head->fields[i], peer_is_trusted, replaced);
    }
    if (n_left == head->n_fields) {
        return head;
    }
    struct head *made = arena_alloc(arena, sizeof(*made));
    struct field *fields = arena_alloc(arena, (n_left + 1) * sizeof(*fields));
    if (made == NULL || fields == NULL) {
        return NULL;
    }
    *made = *head;
    made->fields = fields;
    made->n_fields = 0;
    made->known = 0;
    for (size_t i = 0; i < head->n_fields; i++) {
        if (!is_absent(&head->fields[i], peer_is_trusted, replaced)) {
            fields[made->n_fields++] = head->fields[i];
            made->known |= UINT64_C(1) << head->fields[i].id;
        }
    }
    return made;
}
