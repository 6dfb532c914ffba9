#include "policy/plans.h"

#include "jwt/token.h"

struct span plan_source_read(const struct plan_source *source, const struct request_view *request)
{
    if (KEY_SOURCE_ROWS[source->term.source].origin == KEY_FROM_TOKEN) {
        return request->claims != NULL
                   ? jwt_claim_text(&request->claims->claims[source->term.claim])
                   : SPAN("");
    }
    return request->peer_is_trusted ? head_find_only(request->head, source->term.name) : SPAN("");
}
