/* Sorted sets of texts. */

#ifndef SLUICE_POLICY_SPAN_SET_H
#define SLUICE_POLICY_SPAN_SET_H

#include <stddef.h>

#include "base/span.h"

/* The order of two spans, by length first; for qsort(). */
int span_compare(const void *a, const void *b);

/* Sort @spans and remove duplicates. Returns how many are left. */
size_t span_set_sort(struct span *spans, size_t n);

/* The index of @span among the @n sorted @spans, or @n. */
size_t span_set_find(const struct span *spans, size_t n, struct span span);

#endif /* SLUICE_POLICY_SPAN_SET_H */
