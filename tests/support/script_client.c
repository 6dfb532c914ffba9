#include "support/script_client.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "limit/script_source.h"

enum {
    WORDS_MAX = 3 + LIMITS_PER_ROUTE_MAX + 1,
    ARGS_MAX = SCRIPT_HEAD_ARGS +
               LIMITS_PER_ROUTE_MAX * (SCRIPT_SETTLEMENT_ARGS + SCRIPT_CHARGE_ARGS_MAX) + 1,
};

void script_client_open(struct script_client *client, const struct redis_server *server,
                        const struct limit *limits, size_t n_limits)
{
    char *source;
    size_t len;
    ck_assert_int_eq(script_source_new(limits, n_limits, &source, &len), STATUS_OK);

    client->connection = redis_server_connect(server);
    redisReply *reply = redisCommand(client->connection, "SCRIPT LOAD %b", source, len);
    ck_assert_msg(reply != NULL && reply->type == REDIS_REPLY_STRING, "SCRIPT LOAD: %s",
                  reply == NULL ? client->connection->errstr : reply->str);
    snprintf(client->sha, sizeof(client->sha), "%s", reply->str);
    freeReplyObject(reply);
    free(source);
}

void script_client_close(struct script_client *client)
{
    redisFree(client->connection);
}

/* The words of one call, and its arguments, which are the last word. */
struct call {
    const char *words[WORDS_MAX];
    size_t lens[WORDS_MAX];
    size_t n_words;
    char n_keys[8];
    double args[ARGS_MAX];
    size_t n_args;
    char packed[ARGS_MAX * SCRIPT_NUMBER_BYTES];
};

static void add(struct call *call, struct span word)
{
    call->words[call->n_words] = word.data;
    call->lens[call->n_words++] = word.len;
}

static void add_number(struct call *call, double number)
{
    call->args[call->n_args++] = number;
}

static struct script_charge script_charge_of(const struct charge *charge)
{
    return (struct script_charge){
        .limit = charge->limit,
        .cost = charge->cost,
        .edges = charge->edges,
        .slot = charge->slot,
    };
}

static void add_charge(struct call *call, const struct charge *charge)
{
    const struct script_charge script_charge = script_charge_of(charge);
    call->n_args += script_source_args(&script_charge, call->args + call->n_args);
}

static void begin(struct call *call, const struct script_client *client, size_t n_keys)
{
    add(call, SPAN("EVALSHA"));
    add(call, span_of_text(client->sha));
    snprintf(call->n_keys, sizeof(call->n_keys), "%zu", n_keys);
    add(call, span_of_text(call->n_keys));
}

static void send(struct script_client *client, struct call *call)
{
    script_source_pack(call->args, call->n_args, call->packed);
    add(call, span_of(call->packed, call->n_args * SCRIPT_NUMBER_BYTES));
    const int n_words = (int)call->n_words;
    ck_assert_int_eq(redisAppendCommandArgv(client->connection, n_words,
                                            (const char **)(uintptr_t)call->words, call->lens),
                     REDIS_OK);
}

static void send_decision(struct script_client *client, enum script_act act,
                          const struct charge *charges, size_t n_charges, size_t n_requests,
                          uint64_t now_us)
{
    struct call call = {0};
    begin(&call, client, n_charges);
    for (size_t i = 0; i < n_charges; i++) {
        add(&call, charges[i].key);
    }
    add_number(&call, act);
    add_number(&call, (double)now_us);
    for (size_t i = 0; i < n_charges; i++) {
        add_charge(&call, &charges[i]);
    }
    if (act == SCRIPT_DECIDES_IDENTICAL) {
        add_number(&call, (double)n_requests);
    }
    send(client, &call);
}

void script_client_send(struct script_client *client, const struct charge *charges,
                        size_t n_charges, uint64_t now_us)
{
    send_decision(client, SCRIPT_DECIDES, charges, n_charges, 1, now_us);
}

void script_client_send_as(struct script_client *client, enum decision_aim aim,
                           const struct charge *charges, size_t n_charges, uint64_t now_us)
{
    static const enum script_act ACTS[] = {
        [DECISION_ADMIT] = SCRIPT_DECIDES,
        [DECISION_JUDGE] = SCRIPT_JUDGES,
        [DECISION_DENY] = SCRIPT_DENIES,
    };
    send_decision(client, ACTS[aim], charges, n_charges, 1, now_us);
}

void script_client_send_identical(struct script_client *client, const struct charge *charges,
                                  size_t n_charges, size_t n_requests, uint64_t now_us)
{
    send_decision(client, SCRIPT_DECIDES_IDENTICAL, charges, n_charges, n_requests, now_us);
}

void script_client_send_settlements(struct script_client *client,
                                    const struct settlement *settlements, size_t n, uint64_t now_us)
{
    struct call call = {0};
    begin(&call, client, n);
    for (size_t i = 0; i < n; i++) {
        add(&call, settlements[i].key);
    }
    add_number(&call, SCRIPT_SETTLES);
    add_number(&call, (double)now_us);
    for (size_t i = 0; i < n; i++) {
        const struct charge charge = {.limit = settlements[i].limit, .slot = settlements[i].slot};
        add_number(&call, settlements[i].kind);
        add_number(&call, (double)settlements[i].delta);
        add_number(&call, (double)settlements[i].charged_at_us);
        add_charge(&call, &charge);
    }
    send(client, &call);
}

size_t script_client_read_settled(struct script_client *client)
{
    void *any = NULL;
    ck_assert_msg(redisGetReply(client->connection, &any) == REDIS_OK, "%s",
                  client->connection->errstr);
    redisReply *reply = any;
    ck_assert_msg(reply->type == REDIS_REPLY_ARRAY && reply->elements >= SCRIPT_HEAD_INTS,
                  "the script answers: %s", reply->str == NULL ? "no array" : reply->str);
    const size_t n_gone = reply->elements - SCRIPT_HEAD_INTS;
    freeReplyObject(reply);
    return n_gone;
}

static size_t unpack(const redisReply *reply, long long *ints, size_t n_max)
{
    double numbers[IDENTICAL_INTS_MAX];
    const size_t n = (reply->len - 1) / SCRIPT_NUMBER_BYTES;
    ck_assert_uint_le(n, n_max);
    ck_assert_uint_eq(reply->len, 1 + n * SCRIPT_NUMBER_BYTES);
    script_source_unpack(reply->str + 1, n, numbers);
    for (size_t i = 0; i < n; i++) {
        ints[i] = (long long)numbers[i];
        ck_assert((double)ints[i] == numbers[i]);
    }
    return n;
}

/* The reply's integers; returns how many, at most @n_max. */
static size_t read_ints(struct script_client *client, long long *ints, size_t n_max)
{
    void *any = NULL;
    ck_assert_msg(redisGetReply(client->connection, &any) == REDIS_OK, "%s",
                  client->connection->errstr);
    redisReply *reply = any;
    if (reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->str[0] == '\0') {
        const size_t n_packed = unpack(reply, ints, n_max);
        freeReplyObject(reply);
        return n_packed;
    }
    ck_assert_msg(reply->type == REDIS_REPLY_ARRAY, "the script answers: %s",
                  reply->str == NULL ? "no array" : reply->str);
    const size_t n = reply->elements;
    ck_assert_uint_le(n, n_max);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(reply->element[i]->type, REDIS_REPLY_INTEGER);
        ints[i] = reply->element[i]->integer;
    }
    freeReplyObject(reply);
    return n;
}

bool script_client_read(struct script_client *client, struct charge *charges, size_t n_charges)
{
    long long ints[SCRIPT_HEAD_INTS + LIMITS_PER_ROUTE_MAX * (SCRIPT_INTS_PER_CHARGE + 1)];
    const size_t n_ints = read_ints(client, ints, ARRAY_LEN(ints));
    const size_t n_verdict_ints = SCRIPT_HEAD_INTS + n_charges * SCRIPT_INTS_PER_CHARGE;
    const bool has_times = n_ints > n_verdict_ints;
    ck_assert_uint_eq(n_ints, n_verdict_ints + (has_times ? n_charges : 0));
    for (size_t i = 0; i < n_charges; i++) {
        ck_assert(script_source_read_verdict(charges[i].limit,
                                             ints + SCRIPT_HEAD_INTS + i * SCRIPT_INTS_PER_CHARGE,
                                             &charges[i].verdict));
        ck_assert(script_source_read_time(charges[i].limit, (uint64_t)llabs(ints[0]),
                                          has_times ? ints[n_verdict_ints + i] : 0,
                                          &charges[i].charged_at_us));
    }
    return ints[0] > 0;
}

void script_client_read_identical(struct script_client *client, const struct charge *charges,
                                  size_t n_charges, size_t n_requests, struct identical *identical)
{
    struct script_charge script_charges[LIMITS_PER_ROUTE_MAX];
    long long ints[IDENTICAL_INTS_MAX];
    const size_t n_ints = read_ints(client, ints, IDENTICAL_INTS_MAX);
    for (size_t i = 0; i < n_charges; i++) {
        script_charges[i] = script_charge_of(&charges[i]);
    }
    ck_assert(identical_begin(identical, n_requests, script_charges, n_charges, ints, n_ints));
}
