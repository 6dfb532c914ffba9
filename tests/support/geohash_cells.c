/* Reads lines "LATITUDE LONGITUDE CHARACTERS" and writes the cell of each, or "none". */

#include <stdio.h>
#include <stdlib.h>

#include "policy/key_sources.h"

int main(void)
{
    char latitude[64];
    char longitude[64];
    char cell[GEOHASH_CHARACTERS_MAX];
    char line[160];
    unsigned n;
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "%63s %63s %u", latitude, longitude, &n) != 3 || n < 1 ||
            n > GEOHASH_CHARACTERS_MAX) {
            return EXIT_FAILURE;
        }
        const bool has_cell =
            geohash_write(span_of_text(latitude), span_of_text(longitude), n, cell);
        (void)printf("%.*s\n", has_cell ? (int)n : 4, has_cell ? cell : "none");
    }
    return EXIT_SUCCESS;
}
