#include "support/script_client.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "limit/script_source.h"

enum {
    WORDS_MAX = 4 + LIMITS_PER_ROUTE_MAX * (1 + SCRIPT_ARGS_PER_CHARGE),
    NUMBER_BYTES = 24,
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

void script_client_send(struct script_client *client, const struct charge *charges,
                        size_t n_charges, uint64_t now_us)
{
    char numbers[2 + LIMITS_PER_ROUTE_MAX * SCRIPT_ARGS_PER_CHARGE][NUMBER_BYTES];
    const char *words[WORDS_MAX] = {"EVALSHA", client->sha, numbers[0]};
    size_t lens[WORDS_MAX] = {strlen("EVALSHA"), strlen(client->sha)};
    size_t n_words = 3;

    lens[2] = (size_t)snprintf(numbers[0], NUMBER_BYTES, "%zu", n_charges);
    for (size_t i = 0; i < n_charges; i++) {
        words[n_words] = charges[i].key.data;
        lens[n_words++] = charges[i].key.len;
    }
    words[n_words] = numbers[1];
    lens[n_words++] = (size_t)snprintf(numbers[1], NUMBER_BYTES, "%" PRIu64, now_us);
    for (size_t i = 0; i < n_charges; i++) {
        uint64_t args[SCRIPT_ARGS_PER_CHARGE];
        script_source_args(charges[i].limit, charges[i].cost, args);
        for (size_t j = 0; j < SCRIPT_ARGS_PER_CHARGE; j++) {
            char *number = numbers[2 + i * SCRIPT_ARGS_PER_CHARGE + j];
            words[n_words] = number;
            lens[n_words++] = (size_t)snprintf(number, NUMBER_BYTES, "%" PRIu64, args[j]);
        }
    }
    ck_assert_int_eq(redisAppendCommandArgv(client->connection, (int)n_words, words, lens),
                     REDIS_OK);
}

bool script_client_read(struct script_client *client, struct charge *charges, size_t n_charges)
{
    void *any = NULL;
    ck_assert_msg(redisGetReply(client->connection, &any) == REDIS_OK, "%s",
                  client->connection->errstr);
    redisReply *reply = any;
    ck_assert_msg(reply->type == REDIS_REPLY_ARRAY, "the script answers: %s",
                  reply->str == NULL ? "no array" : reply->str);
    ck_assert_uint_eq(reply->elements, 1 + n_charges * SCRIPT_INTS_PER_CHARGE);

    long long ints[1 + LIMITS_PER_ROUTE_MAX * SCRIPT_INTS_PER_CHARGE];
    for (size_t i = 0; i < reply->elements; i++) {
        ck_assert_int_eq(reply->element[i]->type, REDIS_REPLY_INTEGER);
        ints[i] = reply->element[i]->integer;
    }
    freeReplyObject(reply);
    for (size_t i = 0; i < n_charges; i++) {
        ck_assert(script_source_read_verdict(
            charges[i].limit, ints + 1 + i * SCRIPT_INTS_PER_CHARGE, &charges[i].verdict));
    }
    return ints[0] == 1;
}
