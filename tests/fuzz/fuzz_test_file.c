/* Any bytes as a file of tests of a policy: read, or refused with reasons; never a crash. */

#include <stdint.h>

#include "fuzz/must_hold.h"
#include "policy/test_file.h"

static const char *lookup(const char *name)
{
    (void)name;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct test_file file;
    struct diags diags;
    diags_init(&diags, "tests.yaml");
    const enum status status =
        test_file_load_text(span_of((const char *)data, size), lookup, &file, &diags);
    MUST_HOLD((status == STATUS_OK) == (diags.n_errors == 0));
    if (status == STATUS_OK) {
        uint64_t last_us = 0;
        for (size_t i = 0; i < file.n_tests; i++) {
            for (size_t j = 0; j < file.tests[i].n_steps; j++) {
                const struct test_step *step = &file.tests[i].steps[j];
                MUST_HOLD(step->repeat >= 1 && step->method.len > 0 && step->position.line > 0);
                MUST_HOLD(j == 0 || step->at_us >= last_us);
                last_us = step->at_us;
            }
        }
        test_file_close(&file);
    }
    diags_close(&diags);
    return 0;
}
