/* field_list_next() on any value: members are trimmed parts of it, none is empty, and joined again
 * they are the same list. */

#include <stdint.h>
#include <stdlib.h>

#include "base/text.h"
#include "fuzz/must_hold.h"
#include "http/field.h"

static void check_member(struct span value, struct span member)
{
    MUST_HOLD(member.len > 0 && span_equals(member, span_trim(member)));
    MUST_HOLD(member.data >= value.data && member.data + member.len <= value.data + value.len);
    if (memchr(member.data, '"', member.len) == NULL) {
        MUST_HOLD(memchr(member.data, ',', member.len) == NULL);
        MUST_HOLD(field_list_has(value, member));
    }
}

/* The members of @value into @joined, as one would write them. */
static size_t join(struct span value, struct text *joined)
{
    struct span rest = value;
    struct span member;
    size_t n = 0;
    while (field_list_next(&rest, &member)) {
        check_member(value, member);
        text_add(joined, n == 0 ? SPAN("") : SPAN(", "));
        text_add(joined, member);
        n++;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct span value = span_of((const char *)data, size);
    char *once_bytes = malloc(2 * size + 2);
    char *twice_bytes = malloc(2 * size + 2);
    MUST_HOLD(once_bytes != NULL && twice_bytes != NULL);
    struct text once = text_of(once_bytes, 2 * size + 2);
    struct text twice = text_of(twice_bytes, 2 * size + 2);

    const size_t n = join(value, &once);
    MUST_HOLD(!once.truncated);
    MUST_HOLD(join(text_span(&once), &twice) == n);
    MUST_HOLD(span_equals(text_span(&once), text_span(&twice)));
    free(once_bytes);
    free(twice_bytes);
    return 0;
}
