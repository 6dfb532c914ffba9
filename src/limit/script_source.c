#include "limit/script_source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "limit/scripts.h"

/* "algorithms['1'] = token_bucket" and a newline: the driver finds an algorithm by its number, which
 * reaches it as text. */
enum { REGISTRATION_BYTES_MAX = 128 };

static bool is_used(const struct algorithm *algorithm, const struct limit *limits, size_t n_limits)
{
    for (size_t i = 0; i < n_limits; i++) {
        if (limits[i].algorithm == algorithm) {
            return true;
        }
    }
    return false;
}

static void add_script(struct text *text, const struct script *script)
{
    text_add(text, span_of(script->text, script->len));
}

static void add_algorithm(struct text *text, const struct algorithm *algorithm)
{
    add_script(text, algorithm->script);
    text_add_literal(text, "algorithms['");
    text_add_u64(text, algorithm_number(algorithm));
    text_add_literal(text, "'] = ");
    text_add(text, span_of_text(algorithm->name));
    text_add_char(text, '\n');
}

static size_t most_bytes(const struct algorithm *const *algorithms, size_t n_algorithms)
{
    size_t bytes = prelude_script.len + driver_script.len;
    for (size_t i = 0; i < n_algorithms; i++) {
        bytes += algorithms[i]->script->len + REGISTRATION_BYTES_MAX;
    }
    return bytes;
}

enum status script_source_new(const struct limit *limits, size_t n_limits, char **source,
                              size_t *len)
{
    size_t n_algorithms;
    const struct algorithm *const *algorithms = algorithm_all(&n_algorithms);
    const size_t bytes = most_bytes(algorithms, n_algorithms);
    char *memory = malloc(bytes + 1);
    if (memory == NULL) {
        return STATUS_NO_MEMORY;
    }

    struct text text = text_of(memory, bytes);
    add_script(&text, &prelude_script);
    for (size_t i = 0; i < n_algorithms; i++) {
        if (is_used(algorithms[i], limits, n_limits)) {
            add_algorithm(&text, algorithms[i]);
        }
    }
    add_script(&text, &driver_script);
    assert(!text.truncated);

    memory[text.len] = '\0';
    *source = memory;
    *len = text.len;
    return STATUS_OK;
}

void script_source_args(const struct limit *limit, uint32_t cost,
                        uint64_t args[SCRIPT_ARGS_PER_CHARGE])
{
    const uint64_t values[SCRIPT_ARGS_PER_CHARGE] = {
        cost,
        algorithm_number(limit->algorithm),
        limit->tick_us,
        limit->params.rate,
        limit->params.burst,
        limit->params.period,
        limit->params.offset,
    };
    memcpy(args, values, sizeof(values));
}

bool script_source_read_verdict(const struct limit *limit, const long long *ints,
                                struct verdict *verdict)
{
    const uint64_t capacity = limit_capacity(limit);
    const long long allowed = ints[0];
    const long long remaining = ints[1];
    const long long retry_after = ints[2];

    if ((allowed != 0 && allowed != 1) || (allowed == 1) != (retry_after == 0)) {
        return false;
    }
    if (remaining < 0 || (uint64_t)remaining > capacity) {
        return false;
    }
    if (retry_after < -1 || ints[3] < 0 || ints[4] < 0) {
        return false;
    }
    *verdict = (struct verdict){
        .allowed = allowed == 1,
        .limit = capacity,
        .remaining = (uint64_t)remaining,
        .retry_after = retry_after == -1 ? RETRY_NEVER : (uint64_t)retry_after,
        .next_after = (uint64_t)ints[3],
        .reset_after = (uint64_t)ints[4],
    };
    return true;
}
