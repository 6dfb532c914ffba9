/* The page of the admin API, and that of a replay's report: files that are compiled in from
 * src/page and from the package of the charting library. */

#ifndef SLUICE_PAGE_PAGE_H
#define SLUICE_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

/* A file as it is sent: as it is, or compressed. */
struct page_body {
    struct span content;
    struct span etag; /* with its quotes; another for other content */
};

struct page_file {
    struct span name; /* "app.js" */
    struct span content_type;
    struct page_body plain;
    struct page_body gzip;
};

/* The page of a report up to its data, a JSON text in which each `<` is escaped; and what follows
 * it. */
extern const struct span page_report_head;
extern const struct span page_report_tail;

/* --- generated --- */

extern const struct page_file PAGE_FILES[];
extern const size_t N_PAGE_FILES;

/* The file @name; an empty name is that of the page itself. NULL: there is none. */
MUST_USE static inline const struct page_file *page_find(struct span name)
{
    const struct span wanted = name.len > 0 ? name : SPAN("index.html");
    for (size_t i = 0; i < N_PAGE_FILES; i++) {
        if (span_equals(PAGE_FILES[i].name, wanted)) {
            return &PAGE_FILES[i];
        }
    }
    return NULL;
}

#endif /* SLUICE_PAGE_PAGE_H */
