/* sluice script POLICY METHOD URL: the redis-cli call that would decide this request, for a shell.
 *
 * redis-cli reads the Lua from its standard input, or from the file of -o: with --ldb before --eval
 * it steps through that. A password is not printed: redis-cli takes it from REDISCLI_AUTH. */

#include "app/explain/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "base/clock.h"
#include "base/memory.h"
#include "limit/script_source.h"
#include "store/redis_options.h"

/* In single quotes for a shell. */
static void print_quoted(struct span span)
{
    putchar('\'');
    for (size_t i = 0; i < span.len; i++) {
        if (span.data[i] == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(span.data[i]);
        }
    }
    putchar('\'');
}

static void print_host(const struct endpoint *endpoint)
{
    fputs(" -h ", stdout);
    print_quoted(endpoint->host);
    printf(" -p %u", endpoint->port);
}

/* The master is where the first sentinel says. */
static void print_master(const struct redis_section *redis)
{
    fputs("set -- $(redis-cli", stdout);
    print_host(&redis->endpoints[0]);
    fputs(" SENTINEL GET-MASTER-ADDR-BY-NAME ", stdout);
    print_quoted(redis->master);
    fputs(")\nredis-cli -h \"$1\" -p \"$2\"", stdout);
}

static void print_position(const struct redis_section *redis)
{
    const struct endpoint *endpoint = &redis->endpoints[0];
    if (redis->kind == REDIS_SENTINEL) {
        print_master(redis);
    } else if (endpoint->unix_path.len > 0) {
        fputs("redis-cli -s ", stdout);
        print_quoted(endpoint->unix_path);
    } else {
        fputs(redis->kind == REDIS_CLUSTER ? "redis-cli -c" : "redis-cli", stdout);
        print_host(endpoint);
    }
    if (redis->tls) {
        fputs(" --tls", stdout);
    }
}

static void print_server(const struct store_section *store)
{
    if (store->kind != STORE_REDIS) {
        fputs("redis-cli", stdout); /* the embedded store is meant: any server will do */
        return;
    }
    print_position(&store->redis);
    if (store->database > 0) {
        printf(" -n %" PRIu32, store->database);
    }
    if (store->user.len > 0) {
        fputs(" --user ", stdout);
        print_quoted(store->user);
    }
}

static void print_keys(const struct admission *admission, struct span prefix)
{
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        char buffer[KEY_TEXT_BYTES_MAX + 4 * NAME_BYTES_MAX];
        struct text key = text_of(buffer, sizeof(buffer));
        redis_key_write(&key, prefix, &admission->charges[i]);
        putchar(' ');
        print_quoted(text_span(&key));
    }
}

static void print_arguments(const struct admission *admission)
{
    fputs(" , 0 0", stdout);
    for (size_t i = 0; i < admission->decision.n_charges; i++) {
        const struct charge *charge = &admission->charges[i];
        const struct script_charge call = {
            .limit = charge->limit,
            .cost = charge->cost,
            .edges = charge->edges,
            .slot = charge->slot,
        };
        double args[SCRIPT_CHARGE_ARGS_MAX];
        const size_t n_args = script_source_args(&call, args);
        for (size_t j = 0; j < n_args; j++) {
            printf(" %.0f", args[j]);
        }
    }
}

/* The Lua goes to the file @lua, or, if that is NULL, behind the call. */
static bool write_lua(const char *source, size_t source_bytes, const char *lua)
{
    FILE *out = lua != NULL ? fopen(lua, "we") : stdout;
    if (out == NULL) {
        return false;
    }
    const bool is_written = fwrite(source, 1, source_bytes, out) == source_bytes;
    fputc('\n', out);
    return (lua == NULL || fclose(out) == 0) && is_written;
}

static int print_call(const struct policy *policy, const struct admission *admission,
                      const char *lua)
{
    char *source;
    size_t source_bytes;
    if (script_source_new(policy->limits, policy->n_limits, &source, &source_bytes) != STATUS_OK) {
        fputs("sluice script: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    print_server(&policy->store);
    fputs(" --eval ", stdout);
    print_quoted(span_of_text(lua != NULL ? lua : "/dev/stdin"));
    print_keys(admission, policy->store.prefix);
    print_arguments(admission);
    fputs(lua != NULL ? "\n" : " <<'END_OF_SCRIPT'\n", stdout);
    const bool is_written = write_lua(source, source_bytes, lua);
    free(source);
    if (!is_written) {
        fprintf(stderr, "sluice script: %s: %s\n", lua != NULL ? lua : "standard output",
                strerror(errno));
        return EXIT_FAILED;
    }
    if (lua == NULL) {
        fputs("END_OF_SCRIPT\n", stdout);
    }
    return EXIT_DONE;
}

/* No call is made for this request: say why. */
static void report_why(const struct evaluation *evaluation, const struct admission *admission)
{
    switch (evaluation->result) {
    case EVALUATION_FREE:
        fprintf(stderr, "sluice script: no limit of route \"%.*s\" applies: nothing is asked\n",
                SPAN_ARGS(evaluation->route->name));
        return;
    case EVALUATION_REFUSED:
        fprintf(stderr, "sluice script: the answer is %u: %s\n", evaluation->status,
                evaluation->reason);
        if (admission->lacked != NULL) {
            fprintf(stderr, "sluice script: limit \"%.*s\" counts by it\n",
                    SPAN_ARGS(admission->lacked->name));
        }
        return;
    case EVALUATION_TO_DECIDE:
    case EVALUATION_BANNED: /* bans are not looked up */
    case EVALUATION_FAILED:
        fputs("sluice script: out of memory\n", stderr);
        return;
    }
}

int script_print(const struct policy *policy, struct given_request *given, const char *lua)
{
    static struct admission admission;
    struct arena arena;
    int result = EXIT_FAILED;
    const struct admission_context context = {
        .policy = policy,
        .wall_us = clock_wall_us(),
        .first_slot = 1,
    };
    arena_init(&arena, NULL, 0);
    if (given_request_evaluate(given, &context, &admission, &arena) == EVALUATION_TO_DECIDE) {
        result = print_call(policy, &admission, lua);
    } else {
        report_why(&given->evaluation, &admission);
    }
    arena_reset(&arena);
    return result;
}

static int script_command(int argc, char **argv)
{
    static struct given_request request; /* large */
    struct given_options given = {.n_fields = 0};
    const char *lua = NULL;
    const struct command_option table[] = {
        GIVEN_OPTIONS(&given),
        {.name = "o",
         .argument = "FILE",
         .help = "write the Lua there, not behind the call",
         .value = &lua},
    };
    struct policy *policy;
    const char *what;
    int result;
    const int first = command_read(&SCRIPT_COMMAND, table, ARRAY_LEN(table), argc, argv, &result);
    if (first == 0) {
        return result;
    }
    if (given_connection_load_policy(argv[first], argv[first + 2], &given, &policy) != STATUS_OK) {
        return EXIT_FAILED;
    }
    const char *fault =
        given_request_read(&request, policy, argv[first + 1], argv[first + 2], &given);
    if (fault != NULL) {
        fprintf(stderr, "sluice script: %s\n", fault);
        result = EXIT_USAGE;
    } else if ((fault = given_request_fault(&request, &what)) != NULL) {
        fprintf(stderr, "sluice script: %s: %s\n", what, fault);
        result = EXIT_FAILED;
    } else {
        result = script_print(policy, &request, lua);
    }
    given_request_close(&request);
    policy_free(policy);
    return result;
}

const struct command SCRIPT_COMMAND = {
    .name = "script",
    .arguments = "POLICY METHOD URL",
    .summary = "print the redis-cli call that would decide a request",
    .run = script_command,
};
