/* sluice script FILE METHOD URL: the redis-cli call that would decide this
 * request, as lines for a shell.
 *
 * They write the script to sluice.lua and run it with --eval; with --ldb before --eval redis-cli
 * steps through it. A password is not printed: redis-cli takes it from REDISCLI_AUTH. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/command.h"
#include "app/given_request.h"
#include "app/load.h"
#include "base/arena.h"
#include "base/clock.h"
#include "limit/script_source.h"
#include "proxy/admission.h"
#include "store/redis_store.h"

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

static void print_place(const struct redis_section *redis)
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
    print_place(&store->redis);
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
        redis_store_write_key(&key, prefix, &admission->charges[i]);
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
    putchar('\n');
}

static int print_call(const struct policy *policy, const struct admission *admission)
{
    char *source;
    size_t source_bytes;
    if (script_source_new(policy->limits, policy->n_limits, &source, &source_bytes) != STATUS_OK) {
        fputs("sluice script: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    fputs("cat > sluice.lua <<'END_OF_SCRIPT'\n", stdout);
    fwrite(source, 1, source_bytes, stdout);
    fputs("\nEND_OF_SCRIPT\n", stdout);
    print_server(&policy->store);
    fputs(" --eval sluice.lua", stdout);
    print_keys(admission, policy->store.prefix);
    print_arguments(admission);
    free(source);
    return EXIT_DONE;
}

static int print_for(const struct policy *policy, const struct given_request *given)
{
    static struct admission admission;
    struct arena arena;
    int result = EXIT_FAILED;
    if (given->route == NULL) {
        fputs("sluice script: no route matches: the answer is 404, and nothing is asked\n", stderr);
        return EXIT_FAILED;
    }
    const struct admission_context context = {
        .policy = policy,
        .wall_us = clock_wall_us(),
        .first_slot = 1,
    };
    arena_init(&arena, NULL, 0);
    switch (admission_prepare(&admission, &context, given->route, &given->view, &arena)) {
    case ADMISSION_TO_DECIDE:
        result = print_call(policy, &admission);
        break;
    case ADMISSION_FREE:
        fprintf(stderr, "sluice script: no limit of route \"%.*s\" applies: nothing is asked\n",
                SPAN_ARGS(given->route->name));
        break;
    case ADMISSION_REFUSED:
        fprintf(stderr, "sluice script: the request lacks the key of limit \"%.*s\": refused\n",
                SPAN_ARGS(admission.lacked->name));
        break;
    case ADMISSION_AMBIGUOUS:
        fputs("sluice script: " KEY_AMBIGUITY ": refused\n", stderr);
        break;
    case ADMISSION_BANNED: /* nobody was asked about bans */
    case ADMISSION_FAILED:
        fputs("sluice script: out of memory\n", stderr);
        break;
    }
    arena_reset(&arena);
    return result;
}

int script_command(int argc, char **argv)
{
    static struct given_request given; /* large */
    struct policy *policy;
    if (argc < 4) {
        fputs("usage: sluice script FILE METHOD URL [-H 'NAME: VALUE']... [--from ADDRESS]\n",
              stderr);
        return EXIT_USAGE;
    }
    if (load_policy(argv[1], &policy) != STATUS_OK) {
        return EXIT_FAILED;
    }
    const char *fault = given_request_read(&given, policy, argc - 2, argv + 2);
    fault = fault != NULL ? fault : given_request_fault(&given);
    int result = EXIT_FAILED;
    if (fault != NULL) {
        fprintf(stderr, "sluice script: %s\n", fault);
    } else {
        result = print_for(policy, &given);
    }
    policy_free(policy);
    return result;
}
