#include "page/page.h"

const struct page_file *page_find(struct span name)
{
    const struct span wanted = name.len > 0 ? name : SPAN("index.html");
    for (size_t i = 0; i < N_PAGE_FILES; i++) {
        if (span_equals(PAGE_FILES[i].name, wanted)) {
            return &PAGE_FILES[i];
        }
    }
    return NULL;
}
