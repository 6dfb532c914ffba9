#include "store/redis_command.h"

#include <assert.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/text.h"
#include "limit/cl_throttle.h"
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

static struct span write_constants_of(struct arena *arena, const struct limit *limit)
{
    double args[SCRIPT_CONSTANTS];
    char packed[SCRIPT_CONSTANTS * SCRIPT_NUMBER_BYTES];
    script_source_pack(args, script_source_constants(limit, args), packed);
    return arena_copy(arena, span_of(packed, sizeof(packed)));
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
    command->constants =
        arena_calloc(&command->arena, options->n_limits, sizeof(*command->constants));
    if (command->constants == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < options->n_limits; i++) {
        command->constants[i] = write_constants_of(&command->arena, &options->limits[i]);
        if (command->constants[i].data == NULL) {
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
        (SCRIPT_CHARGE_ARGS_MAX + SCRIPT_SETTLEMENT_ARGS) * SCRIPT_NUMBER_BYTES;
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
static size_t extras_of(const struct charge *charge, double extras[SCRIPT_EXTRAS_MAX])
{
    const struct script_charge call = {
        .limit = charge->limit,
        .edges = charge->edges,
        .slot = charge->slot,
    };
    return script_source_extras(&call, extras);
}

/* Arguments of all @charges. */
static size_t count_args(const struct charge *charges, size_t n)
{
    size_t n_args = 0;
    for (size_t i = 0; i < n; i++) {
        double extras[SCRIPT_EXTRAS_MAX];
        n_args += 1 + SCRIPT_CONSTANTS + extras_of(&charges[i], extras);
    }
    return n_args;
}

static void add_packed(struct text *text, const double *args, size_t n)
{
    char packed[SCRIPT_CHARGE_ARGS_MAX * SCRIPT_NUMBER_BYTES];
    script_source_pack(args, n, packed);
    text_add(text, span_of(packed, n * SCRIPT_NUMBER_BYTES));
}

static void add_charge(struct text *text, const struct redis_command *command,
                       const struct charge *charge)
{
    const double cost = charge->cost;
    double extras[SCRIPT_EXTRAS_MAX];
    const size_t n_extras = extras_of(charge, extras);
    assert(charge->limit->index < command->n_limits);
    add_packed(text, &cost, 1);
    text_add(text, command->constants[charge->limit->index]);
    add_packed(text, extras, n_extras);
}

static void add_key(struct text *text, const struct redis_command *command,
                    const struct charge *charge)
{
    add_length(text, key_bytes(command->prefix, charge));
    redis_store_write_key(text, command->prefix, charge);
    text_add_literal(text, "\r\n");
}

/* The number of keys, the keys and the arguments. */
static size_t tail_words(size_t n_keys)
{
    return 1 + n_keys + 1;
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
static enum script_act act_of(const struct decision *decision)
{
    switch (decision->aim) {
    case DECISION_ADMIT:
        return decision->n_alike > 1 ? SCRIPT_DECIDES_ALIKE : SCRIPT_DECIDES;
    case DECISION_JUDGE:
        return SCRIPT_JUDGES;
    case DECISION_DENY:
        return SCRIPT_DENIES;
    }
    return SCRIPT_JUDGES;
}

/* <number of keys> <keys …> and the begin of the arguments, of which there are @n_args. The time is
 * that of Redis. */
static void add_tail(struct text *text, const struct redis_command *command,
                     const struct charge *charges, size_t n, enum script_act act, size_t n_args)
{
    const double head[SCRIPT_HEAD_ARGS] = {act, 0};
    add_number(text, n);
    for (size_t i = 0; i < n; i++) {
        add_key(text, command, &charges[i]);
    }
    add_length(text, (SCRIPT_HEAD_ARGS + n_args) * SCRIPT_NUMBER_BYTES);
    add_packed(text, head, SCRIPT_HEAD_ARGS);
}

/* <verb> <script> <number of keys> <keys …> <arguments> */
static struct span write(struct redis_command *command, struct span verb, struct span script,
                         const struct decision *decision)
{
    const size_t n = decision->n_charges;
    const double n_alike = (double)decision->n_alike;
    const size_t n_behind = decision->n_alike > 1;
    struct text text = text_of(command->buffer, command->buffer_bytes);
    add_head(&text, verb, script, tail_words(n));
    add_tail(&text, command, decision->charges, n, act_of(decision),
             count_args(decision->charges, n) + n_behind);
    for (size_t i = 0; i < n; i++) {
        add_charge(&text, command, &decision->charges[i]);
    }
    add_packed(&text, &n_alike, n_behind);
    text_add_literal(&text, "\r\n");
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

struct span redis_command_throttle(struct redis_command *command, const struct charge *charge)
{
    const struct span suffix = SPAN(REDIS_CELL_KEY_SUFFIX);
    uint64_t args[CL_THROTTLE_ARGS];
    struct text text = text_of(command->buffer, command->buffer_bytes);
    text_add_literal(&text, "*6\r\n");
    add_argument(&text, SPAN("CL.THROTTLE"));
    add_length(&text, key_bytes(command->prefix, charge) + suffix.len);
    redis_store_write_key(&text, command->prefix, charge);
    text_add(&text, suffix);
    text_add_literal(&text, "\r\n");
    cl_throttle_args(charge->limit, charge->cost, args);
    for (size_t i = 0; i < ARRAY_LEN(args); i++) {
        add_number(&text, args[i]);
    }
    return text.truncated ? SPAN("") : text_span(&text);
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
    struct text text = text_of(command->buffer, command->buffer_bytes);
    add_tail(&text, command, charges, n, SCRIPT_SETTLES,
             n * SCRIPT_SETTLEMENT_ARGS + count_args(charges, n));
    for (size_t i = 0; i < n; i++) {
        const double args[SCRIPT_SETTLEMENT_ARGS] = {settlements[i].kind,
                                                     (double)settlements[i].delta,
                                                     (double)settlements[i].charged_at_us};
        add_packed(&text, args, SCRIPT_SETTLEMENT_ARGS);
        add_charge(&text, command, &charges[i]);
    }
    text_add_literal(&text, "\r\n");
    return (struct redis_tail){
        .wire = text.truncated ? SPAN("") : text_span(&text),
        .n = tail_words(n),
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
