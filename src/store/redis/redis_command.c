#include "store/redis/redis_command.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/status.h"
#include "base/text.h"
#include "limit/script_source.h"
#include "store/redis_options.h"

enum {
    NUMBER_BYTES_MAX = 32,   /* "$20\r\n18446744073709551615\r\n" */
    KEY_OVERHEAD_BYTES = 64, /* length, separators, digest */
    COMMAND_HEAD_BYTES = 256,
    SHA1_WORDS = 5,
    SHA1_BLOCK_BYTES = 64,
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

/* --- the name of a script: FIPS 180-4, sections 5 and 6.1 --- */

static uint32_t rotate(uint32_t word, unsigned n)
{
    return word << n | word >> (32 - n);
}

/* The function and the constant of round @t. */
static uint32_t mix(size_t t, const uint32_t v[SHA1_WORDS])
{
    if (t < 20) {
        return ((v[1] & v[2]) | (~v[1] & v[3])) + 0x5a827999;
    }
    if (t >= 40 && t < 60) {
        return ((v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])) + 0x8f1bbcdc;
    }
    return (v[1] ^ v[2] ^ v[3]) + (t < 40 ? 0x6ed9eba1 : 0xca62c1d6);
}

static void add_block(uint32_t hash[SHA1_WORDS], const unsigned char *block)
{
    uint32_t schedule[80];
    uint32_t v[SHA1_WORDS];
    memcpy(v, hash, sizeof(v));
    for (size_t t = 0; t < ARRAY_LEN(schedule); t++) {
        const unsigned char *at = block + 4 * t;
        schedule[t] =
            t < 16 ? (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]
                   : rotate(schedule[t - 3] ^ schedule[t - 8] ^ schedule[t - 14] ^ schedule[t - 16],
                            1);
        const uint32_t next = rotate(v[0], 5) + mix(t, v) + v[4] + schedule[t];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (size_t i = 0; i < SHA1_WORDS; i++) {
        hash[i] += v[i];
    }
}

void redis_command_name_script(struct span source, char sha[REDIS_SHA_BYTES])
{
    uint32_t hash[SHA1_WORDS] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const size_t rest = source.len % SHA1_BLOCK_BYTES;
    const size_t whole = source.len - rest;
    unsigned char last[2 * SHA1_BLOCK_BYTES] = {0};
    const size_t n_last = rest + 1 + sizeof(uint64_t) <= SHA1_BLOCK_BYTES ? 1 : 2;
    for (size_t at = 0; at < whole; at += SHA1_BLOCK_BYTES) {
        add_block(hash, (const unsigned char *)source.data + at);
    }
    memcpy(last, source.data + whole, rest);
    last[rest] = 0x80;
    for (unsigned i = 0; i < sizeof(uint64_t); i++) {
        last[n_last * SHA1_BLOCK_BYTES - 1 - i] =
            (unsigned char)((uint64_t)source.len * 8 >> 8 * i);
    }
    for (size_t i = 0; i < n_last; i++) {
        add_block(hash, last + i * SHA1_BLOCK_BYTES);
    }
    struct text text = text_of(sha, REDIS_SHA_BYTES);
    for (size_t i = 0; i < SHA1_WORDS; i++) {
        const uint8_t bytes[] = {(uint8_t)(hash[i] >> 24), (uint8_t)(hash[i] >> 16),
                                 (uint8_t)(hash[i] >> 8), (uint8_t)hash[i]};
        text_add_hex(&text, bytes, sizeof(bytes));
    }
}

/* --- limits and scripts --- */

static void write_constants(struct encoded_command *encoded)
{
    for (size_t i = 0; i < encoded->n_limits; i++) {
        double args[SCRIPT_CONSTANTS];
        script_source_pack(args, script_source_constants(&encoded->limits[i], args),
                           encoded->constants[i]);
    }
}

static void free_encoded(struct encoded_command *encoded)
{
    list_remove(&encoded->node);
    free(encoded->constants);
    free(encoded);
}

static struct encoded_command *add_encoded(struct redis_command *command,
                                           const struct limit *limits, size_t n_limits)
{
    struct encoded_command *encoded = calloc(1, sizeof(*encoded));
    if (encoded == NULL) {
        return NULL;
    }
    encoded->limits = limits;
    encoded->n_limits = n_limits;
    list_push_front(&command->encoded_commands, &encoded->node);
    encoded->constants = calloc(n_limits + 1, sizeof(encoded->constants[0]));
    if (encoded->constants == NULL) {
        free_encoded(encoded);
        return NULL;
    }
    write_constants(encoded);
    return encoded;
}

static struct encoded_command *encoded_of(const struct redis_command *command,
                                          const struct limit *limits)
{
    for (struct list *node = command->encoded_commands.next; node != &command->encoded_commands;
         node = node->next) {
        struct encoded_command *encoded = CONTAINER_OF(node, struct encoded_command, node);
        if (encoded->limits == limits) {
            return encoded;
        }
    }
    panic("a Redis store does not have these limits");
}

/* One script for all limits that are known. */
static enum status write_source(const struct redis_command *command, struct span *source)
{
    size_t n = 0;
    for (struct list *node = command->encoded_commands.next; node != &command->encoded_commands;
         node = node->next) {
        n += CONTAINER_OF(node, struct encoded_command, node)->n_limits;
    }
    struct limit *all = calloc(n + 1, sizeof(*all));
    if (all == NULL) {
        return STATUS_NO_MEMORY;
    }
    n = 0;
    for (struct list *node = command->encoded_commands.next; node != &command->encoded_commands;
         node = node->next) {
        const struct encoded_command *encoded = CONTAINER_OF(node, struct encoded_command, node);
        if (encoded->n_limits > 0) {
            memcpy(all + n, encoded->limits, encoded->n_limits * sizeof(*all));
        }
        n += encoded->n_limits;
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

/* Replace the script if the known limits need another one. STATUS_NO_MEMORY: it stays. */
static enum status update_source(struct redis_command *command)
{
    struct span source;
    enum status status = write_source(command, &source);
    if (status != STATUS_OK) {
        return status;
    }
    const bool is_other = !span_equals(source, command->source);
    status = is_other ? make_buffer(command, source.len) : STATUS_OK;
    if (status != STATUS_OK || !is_other) {
        free((char *)(uintptr_t)source.data);
        return status;
    }
    free((char *)(uintptr_t)command->source.data);
    command->source = source;
    command->n_scripts++;
    redis_command_name_script(source, command->sha);
    return STATUS_OK;
}

enum status redis_command_add_limits(struct redis_command *command, const struct limit *limits,
                                     size_t n_limits)
{
    struct encoded_command *encoded = add_encoded(command, limits, n_limits);
    if (encoded == NULL) {
        return STATUS_NO_MEMORY;
    }
    const enum status status = update_source(command);
    if (status != STATUS_OK) {
        free_encoded(encoded);
    }
    return status;
}

void redis_command_remove_limits(struct redis_command *command, const struct limit *limits)
{
    free_encoded(encoded_of(command, limits));
}

const struct limit *redis_command_latest(const struct redis_command *command, size_t *n_limits)
{
    const struct encoded_command *latest =
        CONTAINER_OF(command->encoded_commands.next, struct encoded_command, node);
    if (list_is_empty(&command->encoded_commands)) {
        *n_limits = 0;
        return NULL;
    }
    *n_limits = latest->n_limits;
    return latest->limits;
}

enum status redis_command_init(struct redis_command *command,
                               const struct redis_store_options *options)
{
    *command = (struct redis_command){.prefix = options->prefix};
    list_init(&command->encoded_commands);
    if (redis_command_add_limits(command, options->limits, options->n_limits) != STATUS_OK) {
        redis_command_close(command);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void redis_command_close(struct redis_command *command)
{
    while (!list_is_empty(&command->encoded_commands)) {
        free_encoded(CONTAINER_OF(command->encoded_commands.next, struct encoded_command, node));
    }
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

/* The number of arguments of all @charges. */
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
    const struct encoded_command *encoded = encoded_of(command, limit_first(charge->limit));
    add_packed(text, &cost, 1);
    if (LIKELY(charge->limit->index < encoded->n_limits)) {
        text_add(text,
                 span_of(encoded->constants[charge->limit->index], sizeof(encoded->constants[0])));
    } else { /* of numbers that a tenant has in place of a plan */
        double args[SCRIPT_CONSTANTS];
        add_packed(text, args, script_source_constants(charge->limit, args));
    }
    add_packed(text, extras, n_extras);
}

static void add_key(struct text *text, const struct redis_command *command,
                    const struct charge *charge)
{
    add_length(text, key_bytes(command->prefix, charge));
    redis_key_write(text, command->prefix, charge);
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

/* The script's act for @decision. */
static enum script_act act_of(const struct decision *decision)
{
    switch (decision->aim) {
    case DECISION_ADMIT:
        return decision->batch_size > 1 ? SCRIPT_DECIDES_IDENTICAL : SCRIPT_DECIDES;
    case DECISION_JUDGE:
        return SCRIPT_JUDGES;
    case DECISION_DENY:
        return SCRIPT_DENIES;
    }
    return SCRIPT_JUDGES;
}

/* <number of keys> <keys …> and the head of the arguments, which @n_args more follow. The time 0
 * stands for the time of Redis. */
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
    const double batch_size = (double)decision->batch_size;
    const size_t n_behind = decision->batch_size > 1;
    struct text text = text_of(command->buffer, command->buffer_bytes);
    add_head(&text, verb, script, tail_words(n));
    add_tail(&text, command, decision->charges, n, act_of(decision),
             count_args(decision->charges, n) + n_behind);
    for (size_t i = 0; i < n; i++) {
        add_charge(&text, command, &decision->charges[i]);
    }
    add_packed(&text, &batch_size, n_behind);
    text_add_literal(&text, "\r\n");
    return text.truncated ? SPAN("") : text_span(&text);
}

struct span redis_command_evalsha(struct redis_command *command, const struct decision *decision)
{
    return write(command, SPAN("EVALSHA"), span_of(command->sha, REDIS_SHA_BYTES), decision);
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
    redis_key_write(&text, command->prefix, charge);
    text_add(&text, suffix);
    text_add_literal(&text, "\r\n");
    cl_throttle_args(charge->limit, charge->cost, args);
    for (size_t i = 0; i < ARRAY_LEN(args); i++) {
        add_number(&text, args[i]);
    }
    return text.truncated ? SPAN("") : text_span(&text);
}

/* The members of the settled charge that the script needs. */
static struct charge charge_of(const struct settlement *settlement)
{
    return (struct charge){
        .limit = settlement->limit,
        .key = settlement->key,
        .slot = settlement->slot,
    };
}

struct redis_tail redis_command_settle(struct redis_command *command,
                                       const struct settlement *settlements, size_t n,
                                       uint32_t *delta_at)
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
        delta_at[i] = (uint32_t)text.len + SCRIPT_NUMBER_BYTES; /* behind the kind */
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
                                    bool with_script)
{
    struct text text = text_of(command->buffer, command->buffer_bytes);
    if (with_script) {
        add_head(&text, SPAN("EVAL"), command->source, tail.n);
    } else {
        add_head(&text, SPAN("EVALSHA"), span_of(command->sha, REDIS_SHA_BYTES), tail.n);
    }
    text_add(&text, tail.wire);
    return text.truncated ? SPAN("") : text_span(&text);
}

/* --- any commands --- */

enum status redis_wire_add(struct redis_wire *wire, const struct span *words, size_t n_words)
{
    size_t bytes = wire->len + NUMBER_BYTES_MAX;
    for (size_t i = 0; i < n_words; i++) {
        bytes += words[i].len + NUMBER_BYTES_MAX;
    }
    char *grown = realloc(wire->bytes, bytes);
    if (grown == NULL) {
        return STATUS_NO_MEMORY;
    }
    struct text text = text_of(grown, bytes);
    text.len = wire->len;
    text_add_char(&text, '*');
    text_add_u64(&text, n_words);
    text_add_literal(&text, "\r\n");
    for (size_t i = 0; i < n_words; i++) {
        add_argument(&text, words[i]);
    }
    assert(!text.truncated);
    *wire = (struct redis_wire){.bytes = grown, .len = text.len};
    return STATUS_OK;
}

enum status redis_wire_add_auth(struct redis_wire *wire, struct span user, struct span password)
{
    const struct span words[] = {SPAN("AUTH"), user, password};
    const struct span without_user[] = {SPAN("AUTH"), password};
    if (password.len == 0) {
        return STATUS_OK;
    }
    return user.len > 0 ? redis_wire_add(wire, words, ARRAY_LEN(words))
                        : redis_wire_add(wire, without_user, ARRAY_LEN(without_user));
}

void redis_wire_free(struct redis_wire *wire)
{
    free(wire->bytes);
    *wire = (struct redis_wire){0};
}
