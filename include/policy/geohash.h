/* Cells of the geohash grid: https://en.wikipedia.org/wiki/Geohash, as the command GEOHASH of Redis
 * writes them. Longitudes of -180 to 180 degrees and latitudes of -90 to 90 are halved again and
 * again; a cell contains its southern and western border. 90 and 180 belong to the last cell. */

#ifndef SLUICE_POLICY_GEOHASH_H
#define SLUICE_POLICY_GEOHASH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/span.h"

enum {
    GEOHASH_CHARACTERS_MAX = 9,    /* a cell of 5 m by 5 m */
    GEOHASH_DEGREES_BYTES_MAX = 32 /* of a coordinate as text */
};

/* Write the @characters, 1 to GEOHASH_CHARACTERS_MAX, of the cell of a point in decimal degrees:
 * digits, one point among them or none, a sign before them or none. The result is exact for every
 * number of digits. False: a coordinate is something else, longer than GEOHASH_DEGREES_BYTES_MAX,
 * or out of range. */
MUST_USE bool geohash_write(struct span latitude, struct span longitude, size_t characters,
                            char cell[GEOHASH_CHARACTERS_MAX]);

/* Whether @text is a cell of so many @characters, in lower case. */
bool geohash_is_cell(struct span text, size_t characters);

#endif /* SLUICE_POLICY_GEOHASH_H */
