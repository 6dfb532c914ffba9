/* The history as the text of GET /v1/history. */

#ifndef SLUICE_ADMIN_HISTORY_TEXT_H
#define SLUICE_ADMIN_HISTORY_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "admin/history.h"
#include "base/compiler.h"
#include "base/span.h"

struct name_directory;

struct history_text_sources {
    const struct history *history;
    const struct name_directory *routes; /* names by number */
    const struct name_directory *limits;
    struct span now;      /* JSON: a line of /v1/live */
    uint64_t now_us;      /* monotonic */
    uint64_t now_wall_us; /* since the epoch */
};

/* JSON with its line end, of malloc. Where all lines have counted for an hour it has 125,000
 * numbers, which take a millisecond. NULL: no memory. */
MUST_USE char *history_text_write(const struct history_text_sources *sources, size_t *bytes);

#endif /* SLUICE_ADMIN_HISTORY_TEXT_H */
