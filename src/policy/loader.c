#include "policy/loader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "policy/link.h"
#include "policy/loader_yaml.h"
#include "policy/sections.h"
#include "policy/short_form.h"

enum { FIRST_BYTES = 64 * 1024 };

static const char *lookup_in_process(const char *name)
{
    return getenv(name);
}

/* From the tree to the spec, the short form told in full. */
static enum status read_spec(const struct node *root, struct arena *arena, struct diags *diags,
                             struct spec_policy **spec)
{
    struct section_reader reader = {.arena = arena, .diags = diags};
    *spec = arena_calloc(arena, 1, sizeof(**spec));
    if (*spec == NULL) {
        return STATUS_NO_MEMORY;
    }
    section_read(&reader, &SECTIONS_POLICY, root, *spec);
    if (!reader.no_memory) {
        short_form_expand(&reader, *spec);
    }
    return reader.no_memory ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status build(const struct node *root, struct arena *arena, struct diags *diags,
                         struct policy **policy)
{
    struct spec_policy *spec = NULL;
    enum status status = read_spec(root, arena, diags, &spec);
    if (status != STATUS_OK) {
        return status;
    }
    struct policy *built = calloc(1, sizeof(*built));
    if (built == NULL) {
        return STATUS_NO_MEMORY;
    }
    arena_init(&built->arena, NULL, 0);
    status = link_policy(spec, arena, diags, built);
    if (status == STATUS_OK && diags->n_errors > 0) {
        status = STATUS_INVALID;
    }
    if (status != STATUS_OK) {
        policy_free(built);
        return status;
    }
    *policy = built;
    return STATUS_OK;
}

enum status loader_load_text(struct span yaml, const char *(*getenv_value)(const char *name),
                             struct policy **policy, struct diags *diags)
{
    const environment_lookup lookup = getenv_value != NULL ? getenv_value : lookup_in_process;
    struct arena arena;
    struct node *root = NULL;
    if (yaml.len > POLICY_FILE_BYTES_MAX) {
        diags_add(diags, DIAG_ERROR, 0, 0, "the file is larger than %d bytes",
                  POLICY_FILE_BYTES_MAX);
        return STATUS_INVALID;
    }
    arena_init(&arena, NULL, 0);
    enum status status = loader_yaml_read(yaml, lookup, &arena, diags, &root);
    if (status == STATUS_OK) {
        status = build(root, &arena, diags, policy);
    }
    arena_reset(&arena);
    return status;
}

/* All of @file, at most one byte more than a policy may have. STATUS_IO: errno says why. */
static enum status read_all(FILE *file, char **bytes, size_t *len)
{
    size_t capacity = 0;
    *bytes = NULL;
    *len = 0;
    do {
        capacity = capacity == 0 ? FIRST_BYTES : 2 * capacity;
        char *larger = realloc(*bytes, capacity);
        if (larger == NULL) {
            return STATUS_NO_MEMORY;
        }
        *bytes = larger;
        *len += fread(*bytes + *len, 1, capacity - *len, file);
    } while (*len == capacity && capacity <= POLICY_FILE_BYTES_MAX);
    return ferror(file) ? STATUS_IO : STATUS_OK;
}

enum status loader_load_file(const char *path, struct policy **policy, struct diags *diags)
{
    char *bytes = NULL;
    size_t len = 0;
    FILE *file = fopen(path, "rb");
    enum status status = file != NULL ? read_all(file, &bytes, &len) : STATUS_IO;
    if (status == STATUS_IO) {
        diags_add(diags, DIAG_ERROR, 0, 0, "cannot be read: %s", strerror(errno));
    } else if (status == STATUS_OK) {
        status = loader_load_text(span_of(bytes, len), NULL, policy, diags);
    }
    if (file != NULL) {
        fclose(file);
    }
    free(bytes);
    return status;
}
