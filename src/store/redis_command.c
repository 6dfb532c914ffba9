#include "store/redis_command.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

/* --- what is known --- */

static void write_constants(struct redis_wording *wording)
{
    for (size_t i = 0; i < wording->n_limits; i++) {
        double args[SCRIPT_CONSTANTS];
        script_source_pack(args, script_source_constants(&wording->limits[i], args),
                           wording->constants[i]);
    }
}

static void free_wording(struct redis_wording *wording)
{
    list_remove(&wording->node);
    free(wording->constants);
    free(wording);
}

static struct redis_wording *add_wording(struct redis_command *command, const struct limit *limits,
                                         size_t n_limits)
{
    struct redis_wording *wording = calloc(1, sizeof(*wording));
    if (wording == NULL) {
        return NULL;
    }
    wording->limits = limits;
    wording->n_limits = n_limits;
    list_push_front(&command->wordings, &wording->node);
    wording->constants = calloc(n_limits + 1, sizeof(wording->constants[0]));
    if (wording->constants == NULL) {
        free_wording(wording);
        return NULL;
    }
    write_constants(wording);
    return wording;
}

static struct redis_wording *wording_of(const struct redis_command *command,
                                        const struct limit *limits)
{
    struct list *node = command->wordings.next;
    while (CONTAINER_OF(node, struct redis_wording, node)->limits != limits) {
        node = node->next;
        assert(node != &command->wordings);
    }
    return CONTAINER_OF(node, struct redis_wording, node);
}

/* One script for all limits that are known. */
static enum status write_source(const struct redis_command *command, struct span *source)
{
    size_t n = 0;
    for (struct list *node = command->wordings.next; node != &command->wordings;
         node = node->next) {
        n += CONTAINER_OF(node, struct redis_wording, node)->n_limits;
    }
    struct limit *all = calloc(n + 1, sizeof(*all));
    if (all == NULL) {
        return STATUS_NO_MEMORY;
    }
    n = 0;
    for (struct list *node = command->wordings.next; node != &command->wordings;
         node = node->next) {
        const struct redis_wording *wording = CONTAINER_OF(node, struct redis_wording, node);
        if (wording->n_limits > 0) {
            memcpy(all + n, wording->limits, wording->n_limits * sizeof(*all));
        }
        n += wording->n_limits;
    }
    char *text;
    size_t len;
    const enum status status = script_source_new(all, n, &text, &len);
    free(all);
    if (status == STATUS_OK) {
        *source = span_of(text, len);
    }
    return status;
}

static enum status make_buffer(struct redis_command *command, size_t source_bytes)
{
    const size_t charge_bytes =
        command->prefix.len + KEY_TEXT_BYTES_MAX + NAME_BYTES_MAX + KEY_OVERHEAD_BYTES +
        (SCRIPT_CHARGE_ARGS_MAX + SCRIPT_SETTLEMENT_ARGS) * SCRIPT_NUMBER_BYTES;
    const size_t bytes = COMMAND_HEAD_BYTES + source_bytes + LIMITS_PER_ROUTE_MAX * charge_bytes;
    if (bytes <= command->buffer_bytes) {
        return STATUS_OK;
    }
    char *buffer = realloc(command->buffer, bytes);
    if (buffer == NULL) {
        return STATUS_NO_MEMORY;
    }
    command->buffer = buffer;
    command->buffer_bytes = bytes;
    return STATUS_OK;
}

static void drop_next(struct redis_command *command)
{
    free((char *)(uintptr_t)command->next.data);
    command->next = span_of(NULL, 0);
}

static enum status write_next(struct redis_command *command)
{
    struct span source;
    enum status status = write_source(command, &source);
    if (status != STATUS_OK) {
        return status;
    }
    drop_next(command);
    if (span_equals(source, command->source)) {
        free((char *)(uintptr_t)source.data);
        return STATUS_OK;
    }
    command->next = source;
    command->next_number++;
    return make_buffer(command, source.len);
}

enum status redis_command_learn(struct redis_command *command, const struct limit *limits,
                                size_t n_limits)
{
    struct redis_wording *wording = add_wording(command, limits, n_limits);
    if (wording == NULL) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = write_next(command);
    if (status != STATUS_OK) {
        drop_next(command);
        free_wording(wording);
    }
    return status;
}

void redis_command_forget(struct redis_command *command, const struct limit *limits)
{
    free_wording(wording_of(command, limits));
}

const struct limit *redis_command_latest(const struct redis_command *command, size_t *n_limits)
{
    const struct redis_wording *latest =
        CONTAINER_OF(command->wordings.next, struct redis_wording, node);
    if (list_is_empty(&command->wordings)) {
        *n_limits = 0;
        return NULL;
    }
    *n_limits = latest->n_limits;
    return latest->limits;
}

bool redis_command_is_latest(const struct redis_command *command, const struct limit *limit)
{
    size_t n_limits;
    return redis_command_latest(command, &n_limits) == limit_first(limit);
}

void redis_command_turn(struct redis_command *command)
{
    free((char *)(uintptr_t)command->source.data);
    command->source = command->next;
    command->source_number = command->next_number;
    command->next = span_of(NULL, 0);
}

enum status redis_command_init(struct redis_command *command,
                               const struct redis_store_options *options)
{
    *command = (struct redis_command){.prefix = options->prefix};
    list_init(&command->wordings);
    if (redis_command_learn(command, options->limits, options->n_limits) != STATUS_OK) {
        redis_command_close(command);
        return STATUS_NO_MEMORY;
    }
    redis_command_turn(command);
    return STATUS_OK;
}

void redis_command_close(struct redis_command *command)
{
    while (!list_is_empty(&command->wordings)) {
        free_wording(CONTAINER_OF(command->wordings.next, struct redis_wording, node));
    }
    drop_next(command);
    free((char *)(uintptr_t)command->source.data);
    free(command->buffer);
}

/* --- one call --- */

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
    const struct redis_wording *wording = wording_of(command, limit_first(charge->limit));
    assert(charge->limit->index < wording->n_limits);
    add_packed(text, &cost, 1);
    text_add(text,
             span_of(wording->constants[charge->limit->index], sizeof(wording->constants[0])));
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
