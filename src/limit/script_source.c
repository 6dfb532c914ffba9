#include "limit/script_source.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "limit/algorithms.h"
#include "limit/inner.h"

/* Around the algorithms that are functions: one that makes only those that are asked for, as the
 * program runs anew for each call. */
static const char MAKER_BEGIN[] = "\nlocal function make_algorithm(number)\n";
static const char MAKER_END[] = "end\n\n";

/* Begins a line of the driver, and of an algorithm that is in place: see prelude.lua. */
static const char MARK[] = "--@ ";

/* A section stands in a program twice at most, in one of six places, each in a condition: "elseif
 * number == 1 or number == 3 then". */
enum { TIMES_MAX = 2, PLACES_MAX = 6, CONDITION_BYTES_MAX = 128 };

/* The algorithms that a program is of. */
struct used {
    const struct algorithm *const *all;
    size_t n_all;
    const struct limit *limits;
    size_t n_limits;
};

/* How many arguments follow those that every charge has. */
static size_t extras_of(const struct limit *limit)
{
    if (limit->algorithm->has_slots) {
        return 2;
    }
    return limit->params.is_calendar ? LIMIT_EDGES : 0;
}

static bool is_used(const struct used *used, const struct script *script)
{
    for (size_t i = 0; i < used->n_limits; i++) {
        if (used->limits[i].algorithm->script == script) {
            return true;
        }
    }
    return false;
}

/* The script of the @i-th, if it is used and none before has it; else NULL. */
static const struct script *script_at(const struct used *used, size_t i)
{
    const struct script *script = used->all[i]->script;
    for (size_t j = 0; j < i; j++) {
        if (used->all[j]->script == script) {
            return NULL;
        }
    }
    return is_used(used, script) ? script : NULL;
}

/* Split @rest at its next line of a mark: @before is what stands above it, @name what it says.
 * False if there is none: then @before is all of it. */
static bool next_mark(struct span *rest, struct span *before, struct span *name)
{
    const struct span whole = *rest;
    struct span line;
    while (span_split(rest, '\n', &line)) {
        const struct span trimmed = span_trim(line);
        if (span_starts_with(trimmed, span_of_text(MARK))) {
            *before = span_of(whole.data, (size_t)(line.data - whole.data));
            *name = span_of(trimmed.data + strlen(MARK), trimmed.len - strlen(MARK));
            return true;
        }
    }
    *before = whole;
    return false;
}

/* The section of @script that is called @name; data is NULL if there is none. */
static struct span section_of(const struct script *script, struct span name)
{
    struct span rest = span_of(script->text, script->len);
    struct span section;
    struct span found;
    while (next_mark(&rest, &section, &found)) {
        if (span_equals(found, name)) {
            (void)next_mark(&rest, &section, &found);
            return section;
        }
    }
    return span_of(NULL, 0);
}

static bool is_in_place(const struct script *script)
{
    return section_of(script, SPAN("judge")).data != NULL;
}

/* "if number == 1 or number == 3 then", for all algorithms that have @script. */
static void add_condition(struct text *text, const struct used *used, const struct script *script)
{
    text_add_literal(text, "if ");
    bool is_first = true;
    for (size_t i = 0; i < used->n_all; i++) {
        if (used->all[i]->script == script) {
            text_add(text, is_first ? SPAN("number == ") : SPAN(" or number == "));
            text_add_u64(text, algorithm_number(used->all[i]));
            is_first = false;
        }
    }
    text_add_literal(text, " then\n");
}

/* The maker, if there is something to make; without it, to ask for such is an error in Redis. */
static void add_maker(struct text *text, const struct used *used)
{
    bool is_first = true;
    for (size_t i = 0; i < used->n_all; i++) {
        const struct script *script = script_at(used, i);
        if (script != NULL && !is_in_place(script)) {
            if (is_first) {
                text_add(text, span_of_text(MAKER_BEGIN));
            }
            add_condition(text, used, script);
            text_add(text, span_of(script->text, script->len));
            text_add_literal(text, "end\n");
            is_first = false;
        }
    }
    if (!is_first) {
        text_add(text, span_of_text(MAKER_END));
    }
}

/* What is done at the place @name: by the algorithms that are in place, else @by_functions. */
static void add_place(struct text *text, const struct used *used, struct span name,
                      struct span by_functions)
{
    bool is_first = true;
    for (size_t i = 0; i < used->n_all; i++) {
        const struct script *script = script_at(used, i);
        if (script != NULL && is_in_place(script)) {
            if (!is_first) {
                text_add_literal(text, "else");
            }
            add_condition(text, used, script);
            const struct span section = section_of(script, name);
            assert(section.data != NULL);
            text_add(text, section);
            is_first = false;
        }
    }
    text_add(text, is_first ? SPAN("do\n") : SPAN("else\n"));
    text_add(text, by_functions);
    text_add_literal(text, "end\n");
}

static void add_driver(struct text *text, const struct used *used)
{
    struct span rest = span_of(driver_script.text, driver_script.len);
    struct span before;
    struct span name;
    while (next_mark(&rest, &before, &name)) {
        text_add(text, before);
        struct span by_functions;
        struct span end;
        const bool ends = next_mark(&rest, &by_functions, &end);
        assert(ends && span_equals(end, SPAN("end")));
        (void)ends;
        add_place(text, used, name, by_functions);
    }
    text_add(text, before);
}

static size_t most_bytes(const struct used *used)
{
    size_t bytes = prelude_script.len + driver_script.len + sizeof(MAKER_BEGIN) + sizeof(MAKER_END);
    for (size_t i = 0; i < used->n_all; i++) {
        const struct script *script = script_at(used, i);
        if (script != NULL) {
            bytes += TIMES_MAX * script->len + PLACES_MAX * CONDITION_BYTES_MAX;
        }
    }
    return bytes + PLACES_MAX * CONDITION_BYTES_MAX;
}

enum status script_source_new(const struct limit *limits, size_t n_limits, char **source,
                              size_t *len)
{
    struct used used = {.limits = limits, .n_limits = n_limits};
    used.all = algorithm_all(&used.n_all);
    const size_t bytes = most_bytes(&used);
    char *memory = malloc(bytes + 1);
    if (memory == NULL) {
        return STATUS_NO_MEMORY;
    }

    struct text text = text_of(memory, bytes);
    text_add(&text, span_of(prelude_script.text, prelude_script.len));
    add_maker(&text, &used);
    add_driver(&text, &used);
    assert(!text.truncated);

    memory[text.len] = '\0';
    *source = memory;
    *len = text.len;
    return STATUS_OK;
}

size_t script_source_constants(const struct limit *limit, double args[SCRIPT_CONSTANTS])
{
    enum { SHADOW = 1, COUNT_DENIED = 2, SETTLES = 4 };
    const bool settles = limit->params.settles && limit->algorithm->has_burst;
    const bool counts_denied = limit->charge_denied && !limit->algorithm->has_slots;
    uint64_t params[LIMIT_SCRIPT_PARAMS_MAX] = {0};
    limit->algorithm->script_params(&limit->params, params);
    args[0] = algorithm_number(limit->algorithm);
    args[1] =
        (limit->shadow ? SHADOW : 0) | (counts_denied ? COUNT_DENIED : 0) | (settles ? SETTLES : 0);
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

bool script_source_read_time(const struct limit *limit, uint64_t now_us, long long ticks,
                             uint64_t *charged_at_us)
{
    const uint64_t now = limit_ticks(limit, now_us);
    if (ticks < 0 || (uint64_t)ticks > now + limit->params.ticks_per_s) {
        return false;
    }
    *charged_at_us = limit_charged_at_us(limit, now_us, (uint64_t)ticks);
    return true;
}
