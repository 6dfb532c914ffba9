/* Happy path: the file is read with the policy ─► it is in force with it ─► it changes ─► it is
 * read again, and its tenants take the place of the former ones at once.
 *
 * Failures: with the policy, an error of the policy. Later, a file with errors, or none: each error
 * is logged, and the tenants that there are stay. */

#include "app/serve/reload.h"

#include "app/command.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

static const char MODULE[] = "app.tenants";

void tenant_file_init(struct tenant_file *file, struct tenants *tenants, struct meters *meters)
{
    *file = (struct tenant_file){.tenants = tenants, .meters = meters};
    watch_init(&file->watch);
}

void tenant_file_close(struct tenant_file *file)
{
    watch_end(&file->watch);
    tenants_file_close(&file->next);
}

/* --- reading --- */

static enum status read_file(struct tenant_file *file, const struct policy *policy,
                             struct diags *diags)
{
    tenants_file_close(&file->next);
    file->next_identity = watch_identify(policy->tenants_path); /* later changes are seen */
    const enum status status = tenants_file_read(policy, &file->next, diags);
    if (status != STATUS_OK) {
        tenants_file_close(&file->next);
    }
    return status;
}

static void log_errors(const struct diags *diags)
{
    for (size_t i = 0; i < diags->n_items; i++) {
        const struct diag *diag = &diags->items[i];
        char buffer[1024];
        struct text text = text_of(buffer, sizeof(buffer));
        text_add_logfmt(&text, span_of_text(diag->text));
        log_error(MODULE, "error in the file of tenants", "file=%s line=%u column=%u err=%.*s",
                  diags->file, diag->line, diag->column, SPAN_ARGS(text_span(&text)));
    }
}

enum status tenant_file_prepare(struct tenant_file *file, const struct policy *policy, FILE *report)
{
    struct diags diags;
    if (policy->tenants_path == NULL) {
        tenants_file_close(&file->next);
        return STATUS_OK;
    }
    diags_init(&diags, policy->tenants_path);
    const enum status status = read_file(file, policy, &diags);
    log_errors(&diags);
    if (report != NULL) {
        diags_print(&diags, report);
    }
    diags_close(&diags);
    return status;
}

/* --- in force --- */

static void note(struct tenant_file *file, bool is_done)
{
    meters_note_tenants_file(file->meters, is_done, clock_wall_us());
}

/* Puts what was read in force; without memory that is logged. */
static void publish(struct tenant_file *file, const char *path)
{
    const size_t n = file->next.n;
    const enum status status =
        load_tenants(&file->next, file->tenants, clock_wall_us() / 1000, clock_monotonic_us());
    tenants_file_close(&file->next);
    note(file, status == STATUS_OK);
    if (status != STATUS_OK) {
        log_error(MODULE, "no memory: the former tenants stay", "file=%s", path);
        return;
    }
    log_info(MODULE, "the tenants of the file are in force", "file=%s lines=%zu", path, n);
}

void tenant_file_follow(struct tenant_file *file, const struct policy *policy)
{
    static const struct loader_files NONE = {.n_includes = 0};
    const bool had_file = file->watch.path != NULL;
    watch_end(&file->watch);
    file->is_missing = false;
    if (policy->tenants_path != NULL) {
        watch_begin(&file->watch, policy->tenants_path, &NONE, &file->next_identity);
        publish(file, policy->tenants_path);
    } else if (had_file && policy->store.kind != STORE_REDIS) {
        (void)!tenants_replace(file->tenants, NULL, 0, SPAN("file"), 0, 0); /* needs no memory */
    }
}

void tenant_file_look(struct tenant_file *file, const struct policy *policy, uint64_t now_us)
{
    const bool has_changed = watch_has_changed(&file->watch, now_us);
    if (file->watch.path == NULL) {
        return;
    }
    const bool is_missing = file->watch.seen.inode == 0;
    if (is_missing && !file->is_missing) {
        note(file, false);
        log_error(MODULE, "the file of tenants is gone: its tenants stay until there is another",
                  "file=%s", file->watch.path);
    }
    file->is_missing = is_missing;
    if (!has_changed) {
        return;
    }
    if (tenant_file_prepare(file, policy, NULL) == STATUS_OK) {
        publish(file, file->watch.path);
    } else {
        note(file, false);
        log_error(MODULE, "the file of tenants is not taken: the former tenants stay", "file=%s",
                  file->watch.path);
    }
}
