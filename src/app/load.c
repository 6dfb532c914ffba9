#include "app/load.h"

#include <stdio.h>

#include "base/diag.h"
#include "policy/loader.h"

enum status load_policy(const char *path, struct policy **policy)
{
    struct diags diags;
    diags_init(&diags, path);
    const enum status status = loader_load_file(path, policy, &diags);
    diags_print(&diags, stderr);
    if (status == STATUS_NO_MEMORY) {
        fprintf(stderr, "%s: error: out of memory\n", path);
    }
    diags_close(&diags);
    return status;
}
