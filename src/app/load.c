#include "app/load.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"

/* @includes: NULL: not wanted. */
static enum status load(const char *path, uint64_t now_us, struct loader_includes *includes,
                        FILE *out, struct policy **policy)
{
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = includes != NULL
                                   ? loader_load_file_and_includes(path, includes, policy, &diags)
                                   : loader_load_file_at(path, now_us, policy, &diags);
    diags_print(&diags, out);
    if (status == STATUS_NO_MEMORY) {
        fprintf(out, "%s: error: out of memory\n", path);
    }
    diags_close(&diags);
    return status;
}

enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy)
{
    return load(path, now_us, NULL, stderr, policy);
}

enum status load_policy(const char *path, struct policy **policy)
{
    return load_policy_at(path, clock_wall_us(), policy);
}

enum status load_policy_to_serve(const char *path, struct loader_includes *includes,
                                 struct policy **policy)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = load(path, clock_wall_us(), includes, out, policy);
    if (fclose(out) == 0) {
        log_write_lines(span_of(text, len));
    }
    free(text);
    return status;
}
