/* Any bytes as a line of json: what is read lies within it. */

#include "fuzz/fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct log_fields fields;
    struct log_clock clock = {.len = 0};
    struct log_line read;
    char *line = log_copy(data, size);
    if (fields.n_names == 0) {
        log_fields_init(&fields);
        MUST_HOLD(log_fields_add(&fields, SPAN("header.x-key"), SPAN("a.b.key")) == NULL);
    }
    if (log_json_read(line, size, &fields, &clock, &read)) {
        check_line(&read, line, size);
    }
    free(line);
    return 0;
}
