#include "admin/known_key.h"

#include <stdlib.h>
#include <string.h>

#include "admin/top.h"

enum { LINES_MAX = 1024 };

static bool is_meant(const struct heavy_line *line, struct span secret,
                     const struct key_given *given)
{
    uint8_t hash[HASH_IDENTITY_BYTES];
    if (line->is_cut || line->text_len > sizeof(given->identity)) {
        return false;
    }
    key_hash(span_of(line->text, line->text_len), secret, hash);
    return memcmp(hash, given->hash, sizeof(hash)) == 0;
}

static bool find_in(const struct top_line *lines, size_t n_lines, struct span secret,
                    struct key_given *given)
{
    for (size_t i = 0; i < n_lines; i++) {
        const struct heavy_line *line = &lines[i].line;
        if (is_meant(line, secret, given)) {
            memcpy(given->identity, line->text, line->text_len);
            given->len = line->text_len;
            return true;
        }
    }
    return false;
}

static bool is_rate_of(const struct limit_rule *rule, struct span name)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        if (span_equals(rule->limits[i].name, name)) {
            return true;
        }
    }
    return false;
}

bool known_key_find(const struct meters *meters, const struct limit_rule *rule, struct span secret,
                    struct key_given *given)
{
    struct top_line *lines = calloc(LINES_MAX, sizeof(lines[0]));
    size_t n_lines = 0;
    for (size_t i = 1; i < name_directory_count(&meters->limits) && lines != NULL; i++) {
        if (is_rate_of(rule, name_directory_name(&meters->limits, i)) &&
            top_read(meters, i, 0, lines, LINES_MAX, &n_lines) != STATUS_OK) {
            break;
        }
    }
    const bool is_found = find_in(lines, n_lines, secret, given);
    free(lines);
    return is_found;
}
