#include "policy/loader.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "policy/link.h"
#include "policy/lint.h"
#include "policy/loader_yaml.h"
#include "policy/sections.h"
#include "policy/short_form.h"
#include "policy/whole_file.h"

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

/* What is looked for besides errors. */
enum care {
    CARE_TO_LOAD,
    CARE_TO_CHECK,
};

static enum status build(const struct node *root, uint64_t now_us, enum care care,
                         struct arena *arena, struct diags *diags, struct policy **policy)
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
    status = link_policy(spec, arena, diags, now_us, built);
    if (status == STATUS_OK && diags->n_errors > 0) {
        status = STATUS_INVALID;
    }
    if (status == STATUS_OK && care == CARE_TO_CHECK) {
        status = lint_policy(spec, built, arena, diags);
    }
    if (status != STATUS_OK) {
        policy_free(built);
        return status;
    }
    *policy = built;
    return STATUS_OK;
}

static enum status load_text(struct span yaml, environment_lookup lookup, uint64_t now_us,
                             enum care care, struct policy **policy, struct diags *diags)
{
    static const struct loader_bound BOUNDS[] = {
        {"routes", POLICY_ROUTES_MAX},
        {"limits", POLICY_LIMITS_MAX},
        {"upstreams", POLICY_UPSTREAMS_MAX},
        {NULL, 0},
    };
    const struct loader_source source = {.yaml = yaml, .noun = "a policy", .bounds = BOUNDS};
    struct arena arena;
    struct node *root = NULL;
    arena_init(&arena, NULL, 0);
    enum status status = loader_yaml_read(&source, lookup, &arena, diags, &root);
    if (status == STATUS_OK) {
        status = build(root, now_us, care, &arena, diags, policy);
    }
    if (status == STATUS_OK) {
        (*policy)->source = arena_copy(&(*policy)->arena, yaml);
        if ((*policy)->source.data == NULL) {
            policy_free(*policy);
            status = STATUS_NO_MEMORY;
        }
    }
    arena_reset(&arena);
    return status;
}

enum status loader_load_text(struct span yaml, const char *(*getenv_value)(const char *name),
                             struct policy **policy, struct diags *diags)
{
    return load_text(yaml, getenv_value != NULL ? getenv_value : lookup_in_process, clock_wall_us(),
                     CARE_TO_LOAD, policy, diags);
}

static enum status load_file(const char *path, uint64_t now_us, enum care care,
                             struct policy **policy, struct diags *diags)
{
    char *bytes;
    size_t len;
    enum status status = whole_file_read(path, &bytes, &len, diags);
    if (status == STATUS_OK) {
        status = load_text(span_of(bytes, len), lookup_in_process, now_us, care, policy, diags);
    }
    free(bytes);
    return status;
}

enum status loader_load_file(const char *path, struct policy **policy, struct diags *diags)
{
    return load_file(path, clock_wall_us(), CARE_TO_LOAD, policy, diags);
}

enum status loader_load_file_at(const char *path, uint64_t now_us, struct policy **policy,
                                struct diags *diags)
{
    return load_file(path, now_us, CARE_TO_LOAD, policy, diags);
}

enum status loader_check_file(const char *path, struct policy **policy, struct diags *diags)
{
    return load_file(path, clock_wall_us(), CARE_TO_CHECK, policy, diags);
}

enum status loader_check_text(struct span yaml, const char *(*getenv_value)(const char *name),
                              struct policy **policy, struct diags *diags)
{
    return load_text(yaml, getenv_value != NULL ? getenv_value : lookup_in_process, clock_wall_us(),
                     CARE_TO_CHECK, policy, diags);
}
