#include "policy/span_set.h"

#include <stdlib.h>
#include <string.h>

int span_compare(const void *a, const void *b)
{
    const struct span *one = a;
    const struct span *other = b;
    if (one->len != other->len) {
        return one->len < other->len ? -1 : 1;
    }
    return one->len > 0 ? memcmp(one->data, other->data, one->len) : 0;
}

size_t span_set_sort(struct span *spans, size_t n)
{
    size_t n_left = 0;
    if (n > 0) {
        qsort(spans, n, sizeof(*spans), span_compare);
    }
    for (size_t i = 0; i < n; i++) {
        if (n_left == 0 || !span_equals(spans[n_left - 1], spans[i])) {
            spans[n_left++] = spans[i];
        }
    }
    return n_left;
}

size_t span_set_find(const struct span *spans, size_t n, struct span span)
{
    const struct span *found = n > 0 ? bsearch(&span, spans, n, sizeof(span), span_compare) : NULL;
    return found != NULL ? (size_t)(found - spans) : n;
}
