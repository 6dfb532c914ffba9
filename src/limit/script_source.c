#include "limit/script_source.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "limit/scripts.h"

/* "if number == 1 then … end" around an algorithm ("or number == 3" where two have one script), in
 * a function that makes those alone that a call needs: the program runs anew for each, and what it
 * does not make costs nothing. */
enum { REGISTRATION_BYTES_MAX = 128 };
static const char MAKER_BEGIN[] = "\nlocal function make_algorithm(number)\n";
static const char MAKER_END[] = "end\n\n";

/* How many arguments follow those that every charge has. */
static size_t extras_of(const struct limit *limit)
{
    if (limit->algorithm->has_slots) {
        return 2;
    }
    return limit->params.is_calendar ? LIMIT_EDGES : 0;
}

static bool is_used(const struct script *script, const struct limit *limits, size_t n_limits)
{
    for (size_t i = 0; i < n_limits; i++) {
        if (limits[i].algorithm->script == script) {
            return true;
        }
    }
    return false;
}

static void add_script(struct text *text, const struct script *script)
{
    text_add(text, span_of(script->text, script->len));
}

/* The script of the @i-th, for all that have it; nothing if one before it has it too. */
static void add_algorithm(struct text *text, const struct algorithm *const *algorithms,
                          size_t n_algorithms, size_t i)
{
    const struct script *script = algorithms[i]->script;
    for (size_t j = 0; j < i; j++) {
        if (algorithms[j]->script == script) {
            return;
        }
    }
    for (size_t j = i; j < n_algorithms; j++) {
        if (algorithms[j]->script == script) {
            text_add(text, j == i ? SPAN("if number == ") : SPAN(" or number == "));
            text_add_u64(text, algorithm_number(algorithms[j]));
        }
    }
    text_add_literal(text, " then\n");
    add_script(text, script);
    text_add_literal(text, "end\n");
}

static size_t most_bytes(const struct algorithm *const *algorithms, size_t n_algorithms)
{
    size_t bytes = prelude_script.len + driver_script.len + sizeof(MAKER_BEGIN) + sizeof(MAKER_END);
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
    text_add(&text, span_of_text(MAKER_BEGIN));
    for (size_t i = 0; i < n_algorithms; i++) {
        if (is_used(algorithms[i]->script, limits, n_limits)) {
            add_algorithm(&text, algorithms, n_algorithms, i);
        }
    }
    text_add(&text, span_of_text(MAKER_END));
    add_script(&text, &driver_script);
    assert(!text.truncated);

    memory[text.len] = '\0';
    *source = memory;
    *len = text.len;
    return STATUS_OK;
}

size_t script_source_constants(const struct limit *limit, double args[SCRIPT_CONSTANTS])
{
    enum { SHADOW = 1, COUNT_DENIED = 2 };
    const bool counts_denied = limit->count_denied && !limit->algorithm->has_slots;
    uint64_t params[LIMIT_SCRIPT_PARAMS_MAX] = {0};
    limit->algorithm->script_params(&limit->params, params);
    args[0] = algorithm_number(limit->algorithm);
    args[1] = (limit->shadow ? SHADOW : 0) | (counts_denied ? COUNT_DENIED : 0);
    args[2] = limit->tick_us;
    args[3] = limit->params.rate;
    for (size_t i = 0; i < LIMIT_SCRIPT_PARAMS_MAX; i++) {
        args[4 + i] = (double)params[i];
    }
    args[SCRIPT_CONSTANTS - 1] = (double)extras_of(limit);
    return SCRIPT_CONSTANTS;
}

size_t script_source_extras(const struct script_charge *charge, double args[SCRIPT_EXTRAS_MAX])
{
    if (charge->limit->algorithm->has_slots) {
        args[0] = (double)(charge->slot >> 32);
        args[1] = (double)(charge->slot & UINT32_MAX);
    } else if (charge->limit->params.is_calendar) {
        for (size_t i = 0; i < LIMIT_EDGES; i++) {
            args[i] = charge->edges == NULL ? 0 : (double)charge->edges[i];
        }
    }
    return extras_of(charge->limit);
}

size_t script_source_args(const struct script_charge *charge, double args[SCRIPT_CHARGE_ARGS_MAX])
{
    args[0] = charge->cost;
    const size_t n = 1 + script_source_constants(charge->limit, args + 1);
    return n + script_source_extras(charge, args + n);
}

void script_source_pack(const double *args, size_t n, char *packed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &args[i], sizeof(bits));
        bits = htole64(bits);
        memcpy(packed + i * SCRIPT_NUMBER_BYTES, &bits, sizeof(bits));
    }
}

void script_source_unpack(const char *packed, size_t n, double *numbers)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, packed + i * SCRIPT_NUMBER_BYTES, sizeof(bits));
        bits = le64toh(bits);
        memcpy(&numbers[i], &bits, sizeof(bits));
    }
}

/* -1 and -2 stand for what no number of ticks is. */
static uint64_t retry_of(long long ticks)
{
    switch (ticks) {
    case -1:
        return RETRY_NEVER;
    case -2:
        return RETRY_UNKNOWN;
    default:
        return (uint64_t)ticks;
    }
}

bool script_source_read_verdict(const struct limit *limit, const long long *ints,
                                struct verdict *verdict)
{
    const uint64_t capacity = limit_capacity(limit);
    const long long retry_after = ints[0];
    const long long wait = ints[1];
    const long long remaining = ints[2];

    if (remaining < 0 || (uint64_t)remaining > capacity) {
        return false;
    }
    if (wait < 0 || (uint64_t)wait > limit->params.max_wait) {
        return false;
    }
    if (retry_after < -2 || ints[3] < 0 || ints[4] < 0) {
        return false;
    }
    *verdict = (struct verdict){
        .allowed = retry_after == 0,
        .limit = capacity,
        .remaining = (uint64_t)remaining,
        .retry_after = retry_of(retry_after),
        .next_after = (uint64_t)ints[3],
        .reset_after = (uint64_t)ints[4],
        .wait = (uint64_t)wait,
    };
    return true;
}
