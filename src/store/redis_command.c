#include "store/redis_command.h"

#include <assert.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/text.h"
#include "limit/script_source.h"

enum {
    NUMBER_BYTES_MAX = 32,   /* "$20\r\n18446744073709551615\r\n" */
    KEY_OVERHEAD_BYTES = 64, /* length, separators, digest */
    COMMAND_HEAD_BYTES = 256,
};

static void add_length(struct text *text, size_t len)
{
    text_add_char(text, '$');
    text_add_u64(text, len);
    text_add_literal(text, "\r\n");
}

static void add_argument(struct text *text, struct span argument)
{
    add_length(text, argument.len);
    text_add(text, argument);
    text_add_literal(text, "\r\n");
}

static void add_number(struct text *text, uint64_t number)
{
    char digits[NUMBER_BYTES_MAX];
    struct text digits_text = text_of(digits, sizeof(digits));
    text_add_u64(&digits_text, number);
    add_argument(text, text_span(&digits_text));
}

static size_t key_bytes(struct span prefix, const struct charge *charge)
{
    return prefix.len + 1 + charge->key.len + 1 + charge->limit->name.len + 1 +
           sizeof(charge->limit->digest);
}

void redis_store_write_key(struct text *text, struct span prefix, const struct charge *charge)
{
    text_add(text, prefix);
    text_add_char(text, ':');
    text_add(text, charge->key);
    text_add_char(text, ':');
    text_add(text, charge->limit->name);
    text_add_char(text, ':');
    text_add(text, span_of(charge->limit->digest, sizeof(charge->limit->digest)));
}

static struct redis_limit_args write_constant_args(struct arena *arena, const struct limit *limit)
{
    char buffer[SCRIPT_CONSTANTS_MAX * NUMBER_BYTES_MAX];
    struct text text = text_of(buffer, sizeof(buffer));
    uint64_t args[SCRIPT_CONSTANTS_MAX];
    const size_t n = script_source_constants(limit, args);
    for (size_t i = 0; i < n; i++) {
        add_number(&text, args[i]);
    }
    assert(!text.truncated);
    return (struct redis_limit_args){.wire = arena_copy(arena, text_span(&text)), .n = n};
}

static enum status write_source(struct redis_command *command,
                                const struct redis_store_options *options)
{
    char *source;
    size_t len;
    const enum status status = script_source_new(options->limits, options->n_limits, &source, &len);
    if (status != STATUS_OK) {
        return status;
    }
    command->source = arena_copy(&command->arena, span_of(source, len));
    free(source);
    return command->source.data == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status write_constants(struct redis_command *command,
                                   const struct redis_store_options *options)
{
    command->limit_args =
        arena_calloc(&command->arena, options->n_limits, sizeof(*command->limit_args));
    if (command->limit_args == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < options->n_limits; i++) {
        command->limit_args[i] = write_constant_args(&command->arena, &options->limits[i]);
        if (command->limit_args[i].wire.data == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    return write_source(command, options);
}

enum status redis_command_init(struct redis_command *command,
                               const struct redis_store_options *options)
{
    *command = (struct redis_command){.prefix = options->prefix, .n_limits = options->n_limits};
    arena_init(&command->arena, NULL, 0);
    if (write_constants(command, options) != STATUS_OK) {
        redis_command_close(command);
        return STATUS_NO_MEMORY;
    }
    const size_t charge_bytes =
        options->prefix.len + KEY_TEXT_BYTES_MAX + NAME_BYTES_MAX + KEY_OVERHEAD_BYTES +
        (SCRIPT_CHARGE_ARGS_MAX + SCRIPT_SETTLEMENT_ARGS) * NUMBER_BYTES_MAX;
    command->buffer_bytes =
        COMMAND_HEAD_BYTES + command->source.len + LIMITS_PER_ROUTE_MAX * charge_bytes;
    command->buffer = arena_alloc(&command->arena, command->buffer_bytes);
    if (command->buffer == NULL) {
        redis_command_close(command);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void redis_command_close(struct redis_command *command)
{
    arena_reset(&command->arena);
}

/* The slot and the edges, if any. */
static size_t extras_of(const struct charge *charge, uint64_t extras[SCRIPT_EXTRAS_MAX])
{
    const struct script_charge call = {
        .limit = charge->limit,
        .edges = charge->edges,
        .slot = charge->slot,
    };
    return script_source_extras(&call, extras);
}

static size_t count_args(const struct redis_command *command, const struct decision *decision)
{
    size_t n = 0;
    for (size_t i = 0; i < decision->n_charges; i++) {
        uint64_t extras[SCRIPT_EXTRAS_MAX];
        const struct charge *charge = &decision->charges[i];
        assert(charge->limit->index < command->n_limits);
        n += 1 + command->limit_args[charge->limit->index].n + extras_of(charge, extras);
    }
    return n;
}

static void add_charge(struct text *text, const struct redis_command *command,
                       const struct charge *charge)
{
    uint64_t extras[SCRIPT_EXTRAS_MAX];
    const size_t n_extras = extras_of(charge, extras);
    add_number(text, charge->cost);
    text_add(text, command->limit_args[charge->limit->index].wire);
    for (size_t i = 0; i < n_extras; i++) {
        add_number(text, extras[i]);
    }
}

static void add_key(struct text *text, const struct redis_command *command,
                    const struct charge *charge)
{
    add_length(text, key_bytes(command->prefix, charge));
    redis_store_write_key(text, command->prefix, charge);
    text_add_literal(text, "\r\n");
}

static void add_head(struct text *text, struct span verb, struct span script, size_t n_after)
{
    text_add_char(text, '*');
    text_add_u64(text, 2 + n_after);
    text_add_literal(text, "\r\n");
    add_argument(text, verb);
    add_argument(text, script);
}

/* What the script calls it. */
static uint64_t act_of(enum decision_aim aim)
{
    switch (aim) {
    case DECISION_ADMIT:
        return SCRIPT_DECIDES;
    case DECISION_JUDGE:
        return SCRIPT_JUDGES;
    case DECISION_DENY:
        return SCRIPT_DENIES;
    }
    return SCRIPT_JUDGES;
}

/* <verb> <script> <number of keys> <keys …> <what to do> <time, 0: that of Redis> <arguments …> */
static struct span write(struct redis_command *command, struct span verb, struct span script,
                         const struct decision *decision)
{
    const size_t n = decision->n_charges;
    struct text text = text_of(command->buffer, command->buffer_bytes);
    add_head(&text, verb, script, 1 + n + SCRIPT_HEAD_ARGS + count_args(command, decision));
    add_number(&text, n);
    for (size_t i = 0; i < n; i++) {
        add_key(&text, command, &decision->charges[i]);
    }
    add_number(&text, act_of(decision->aim));
    add_number(&text, 0);
    for (size_t i = 0; i < n; i++) {
        add_charge(&text, command, &decision->charges[i]);
    }
    return text.truncated ? SPAN("") : text_span(&text);
}

struct span redis_command_evalsha(struct redis_command *command, const struct decision *decision,
                                  const char sha[REDIS_SHA_BYTES])
{
    return write(command, SPAN("EVALSHA"), span_of(sha, REDIS_SHA_BYTES), decision);
}

struct span redis_command_eval(struct redis_command *command, const struct decision *decision)
{
    return write(command, SPAN("EVAL"), command->source, decision);
}

static void add_signed(struct text *text, int64_t number)
{
    char digits[NUMBER_BYTES_MAX];
    struct text digits_text = text_of(digits, sizeof(digits));
    text_add_i64(&digits_text, number);
    add_argument(text, text_span(&digits_text));
}

/* What the script knows the settled charge by. */
static struct charge charge_of(const struct settlement *settlement)
{
    return (struct charge){
        .limit = settlement->limit,
        .key = settlement->key,
        .slot = settlement->slot,
    };
}

struct redis_tail redis_command_settle(struct redis_command *command,
                                       const struct settlement *settlements, size_t n)
{
    struct charge charges[LIMITS_PER_ROUTE_MAX];
    for (size_t i = 0; i < n; i++) {
        charges[i] = charge_of(&settlements[i]);
    }
    const struct decision decision = {.charges = charges, .n_charges = n};
    struct text text = text_of(command->buffer, command->buffer_bytes);
    add_number(&text, n);
    for (size_t i = 0; i < n; i++) {
        add_key(&text, command, &charges[i]);
    }
    add_number(&text, SCRIPT_SETTLES);
    add_number(&text, 0);
    for (size_t i = 0; i < n; i++) {
        add_number(&text, (uint64_t)settlements[i].kind);
        add_signed(&text, settlements[i].delta);
        add_number(&text, settlements[i].charged_at_us);
        add_charge(&text, command, &charges[i]);
    }
    return (struct redis_tail){
        .wire = text.truncated ? SPAN("") : text_span(&text),
        .n = 1 + n + SCRIPT_HEAD_ARGS + n * SCRIPT_SETTLEMENT_ARGS + count_args(command, &decision),
    };
}

struct span redis_command_with_tail(struct redis_command *command, struct redis_tail tail,
                                    const char *sha)
{
    struct text text = text_of(command->buffer, command->buffer_bytes);
    if (sha != NULL) {
        add_head(&text, SPAN("EVALSHA"), span_of(sha, REDIS_SHA_BYTES), tail.n);
    } else {
        add_head(&text, SPAN("EVAL"), command->source, tail.n);
    }
    text_add(&text, tail.wire);
    return text.truncated ? SPAN("") : text_span(&text);
}

enum status redis_command_write_words(const struct span *words, size_t n_words, char **command,
                                      size_t *len)
{
    size_t bytes = NUMBER_BYTES_MAX;
    for (size_t i = 0; i < n_words; i++) {
        bytes += words[i].len + NUMBER_BYTES_MAX;
    }
    char *memory = malloc(bytes);
    if (memory == NULL) {
        return STATUS_NO_MEMORY;
    }
    struct text text = text_of(memory, bytes);
    text_add_char(&text, '*');
    text_add_u64(&text, n_words);
    text_add_literal(&text, "\r\n");
    for (size_t i = 0; i < n_words; i++) {
        add_argument(&text, words[i]);
    }
    assert(!text.truncated);
    *command = memory;
    *len = text.len;
    return STATUS_OK;
}
