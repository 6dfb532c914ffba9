/* Charts of the page of a replay, as SVG. Nothing of it needs a script, a font or another file. */

#ifndef SLUICE_APP_REPLAY_PAGE_H
#define SLUICE_APP_REPLAY_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trial/tally.h"

/* One colour of a chart: a number of each span of time. Those of a chart are
 * stacked in their order. */
struct page_series {
    const char *name;
    const char *colour; /* a class of the page's style */
    uint64_t (*value)(const struct tally_span *span);
};

/* Columns over time, with scales, a legend, and what each column is where the pointer rests. */
void page_print_chart(FILE *out, const struct tally *tally, const char *title,
                      const struct page_series *series, size_t n_series);

#endif /* SLUICE_APP_REPLAY_PAGE_H */
