#include "app/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/diag.h"
#include "base/log.h"
#include "store/tenants.h"

/* Print what @diags has, and what @status says besides. */
static enum status print(struct diags *diags, enum status status, FILE *out)
{
    diags_print(diags, out);
    if (status == STATUS_NO_MEMORY) {
        fprintf(out, "%s: error: out of memory\n", diags->file);
    }
    diags_close(diags);
    return status;
}

enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy)
{
    struct diags diags;
    diags_init(&diags, path);
    return print(&diags, loader_load_file_at(path, now_us, policy, &diags), stderr);
}

enum status load_policy(const char *path, struct policy **policy)
{
    return load_policy_at(path, clock_wall_us(), policy);
}

enum status load_policy_with_files(const char *path, struct policy **policy)
{
    struct loader_files files = {.includes = NULL};
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = loader_load_file_to_serve(path, NULL, &files, policy, &diags);
    loader_files_free(&files);
    return print(&diags, status, stderr);
}

enum status load_policy_to_serve(const char *path, struct loader_files *files,
                                 struct policy **policy)
{
    char *text = NULL;
    size_t len = 0;
    struct diags diags;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return STATUS_NO_MEMORY;
    }
    diags_init(&diags, path);
    const enum status status =
        print(&diags, loader_load_file_to_serve(path, NULL, files, policy, &diags), out);
    if (fclose(out) == 0) {
        log_write_lines(span_of(text, len));
    }
    free(text);
    return status;
}

enum status load_tenants(const struct tenants_file *file, struct tenants *tenants, uint64_t now_ms,
                         uint64_t now_us)
{
    struct tenant_row *rows = calloc(file->n > 0 ? file->n : 1, sizeof(*rows));
    enum status status = STATUS_NO_MEMORY;
    for (size_t i = 0; i < file->n && rows != NULL; i++) {
        const struct tenant_line *line = &file->lines[i];
        rows[i] = (struct tenant_row){line->key, line->is_hash, line->plan, line->until_ms};
    }
    if (rows != NULL) {
        status = tenants_replace(tenants, rows, file->n, SPAN("file"), now_ms, now_us);
    }
    free(rows);
    return status;
}

enum status load_tenants_file(const struct policy *policy, uint64_t now_ms, uint64_t now_us,
                              struct tenants **tenants)
{
    struct tenants_file file;
    struct diags diags;
    *tenants = NULL;
    diags_init(&diags, policy->tenants_path);
    enum status status = tenants_file_read(policy, &file, &diags);
    diags_close(&diags);
    if (status == STATUS_OK) {
        status = tenants_new(TENANTS_MAX, tenants);
    }
    if (status == STATUS_OK) {
        status = load_tenants(&file, *tenants, now_ms, now_us);
        if (status != STATUS_OK) {
            tenants_free(*tenants);
            *tenants = NULL;
        }
    }
    tenants_file_close(&file);
    return status;
}
