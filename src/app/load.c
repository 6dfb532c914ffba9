#include "app/load.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/diag.h"
#include "policy/loader.h"

enum status load_policy(const char *path, struct policy **policy)
{
    return load_policy_at(path, clock_wall_us(), policy);
}

enum status load_policy_at(const char *path, uint64_t now_us, struct policy **policy)
{
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = loader_load_file_at(path, now_us, policy, &diags);
    diags_print(&diags, stderr);
    if (status == STATUS_NO_MEMORY) {
        fprintf(stderr, "%s: error: out of memory\n", path);
    }
    diags_close(&diags);
    return status;
}
