/* Any bytes as a line of the combined format: what is read lies within it. */

#include "fuzz/fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct log_clock clock = {.len = 0};
    struct log_line read;
    char *line = log_copy(data, size);
    if (log_combined_read(line, size, &clock, &read)) {
        check_line(&read, line, size);
    }
    free(line);
    return 0;
}
