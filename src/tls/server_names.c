#include "tls/certificate.h"

#include <stdlib.h>

#include "base/name_directory.h"

struct server_names {
    struct name_directory *directory; /* wildcards begin with "*." */
    size_t *entries;                  /* by number in the directory */
    size_t n_max;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether @name, in lower case, is a run of labels. A last label of digits alone is that of an
 * IPv4 address (RFC 1123 section 2.1). */
static bool is_host_name(struct span name)
{
    enum { LABEL_BYTES_MAX = 63 };
    struct span label;
    bool is_number = true;
    while (span_split(&name, '.', &label)) {
        is_number = true;
        for (size_t i = 0; i < label.len; i++) {
            const char c = label.data[i];
            if ((c < 'a' || c > 'z') && !is_digit(c) && c != '-' && c != '_') {
                return false;
            }
            is_number = is_number && is_digit(c);
        }
        if (label.len == 0 || label.len > LABEL_BYTES_MAX) {
            return false;
        }
    }
    return !is_number;
}

/* @name in lower case and without a dot at its end, in @buffer. Empty if it is too long. */
static struct span in_lower_case(struct span name, char buffer[HOST_BYTES_MAX])
{
    if (name.len == 0 || name.len > HOST_BYTES_MAX) {
        return SPAN("");
    }
    for (size_t i = 0; i < name.len; i++) {
        buffer[i] = ascii_lower(name.data[i]);
    }
    return span_of(buffer, name.len - (name.data[name.len - 1] == '.'));
}

bool server_names_normalise(struct span name, char buffer[HOST_BYTES_MAX], struct span *normal)
{
    const struct span lower = in_lower_case(name, buffer);
    if (!is_host_name(lower)) {
        return false;
    }
    *normal = lower;
    return true;
}

enum status server_names_new(size_t n_max, struct server_names **names)
{
    struct server_names *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->n_max = n_max;
    made->entries = calloc(n_max + 1, sizeof(made->entries[0]));
    made->directory = malloc(sizeof(*made->directory));
    if (made->entries == NULL || made->directory == NULL ||
        name_directory_init(made->directory, n_max) != STATUS_OK) {
        free(made->directory);
        free(made->entries);
        free(made);
        return STATUS_NO_MEMORY;
    }
    *names = made;
    return STATUS_OK;
}

void server_names_free(struct server_names *names)
{
    if (names != NULL) {
        name_directory_close(names->directory);
        free(names->directory);
        free(names->entries);
        free(names);
    }
}

static size_t entry_of(const struct server_names *names, struct span name)
{
    const uint32_t number = name_directory_find(names->directory, name);
    return number == 0 ? SERVER_NAMES_NONE : names->entries[number];
}

enum status server_names_add(struct server_names *names, struct span name, size_t entry,
                             size_t *other)
{
    const size_t wildcard = span_starts_with(name, SPAN("*.")) ? 2 : 0;
    char buffer[HOST_BYTES_MAX];
    struct span normal;
    const struct span host = span_of(name.data + wildcard, name.len - wildcard);
    if (name.len > HOST_BYTES_MAX || !server_names_normalise(host, buffer, &normal) ||
        !span_equals(normal, host)) {
        return STATUS_INVALID;
    }
    *other = entry_of(names, name);
    if (*other != SERVER_NAMES_NONE) {
        return STATUS_IN_USE;
    }
    const uint32_t number = name_directory_enter(names->directory, name);
    if (number == 0) {
        return STATUS_NO_MEMORY;
    }
    names->entries[number] = entry;
    return STATUS_OK;
}

size_t server_names_find(const struct server_names *names, struct span name)
{
    char buffer[HOST_BYTES_MAX];
    const struct span lower = in_lower_case(name, buffer);
    const size_t exact = entry_of(names, lower);
    const size_t dot = span_find(lower, '.');
    if (exact != SERVER_NAMES_NONE || dot == 0 || dot == lower.len) {
        return exact;
    }
    buffer[dot - 1] = '*';
    return entry_of(names, span_of(buffer + dot - 1, lower.len - dot + 1));
}
