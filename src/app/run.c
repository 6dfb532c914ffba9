/* sluice run FILE: serve until SIGTERM or SIGINT, then let requests end. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/ban_keeper.h"
#include "app/command.h"
#include "app/load.h"
#include "app/name_servers.h"
#include "app/operators.h"
#include "app/stores.h"
#include "base/clock.h"
#include "base/log.h"
#include "proxy/meters.h"
#include "proxy/server.h"

/* As far as it may be raised; the proxy warns where that is not enough. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Threads inherit the mask, so signals come to wait_for_end() alone. */
static void block_signals(sigset_t *wanted)
{
    sigemptyset(wanted);
    sigaddset(wanted, SIGTERM);
    sigaddset(wanted, SIGINT);
    pthread_sigmask(SIG_BLOCK, wanted, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static void *second_signal(void *context)
{
    int number;
    sigwait(context, &number);
    log_warn("app.run", "stopped at once", "signal=%d", number);
    _exit(EXIT_FAILED);
}

static void wait_for_end(struct server *server, const sigset_t *wanted)
{
    /* Outlives this function: the thread ends with the process. */
    static sigset_t again;
    int number;
    pthread_t watcher;
    sigwait(wanted, &number);
    log_info("app.run", "draining", "signal=%d", number);
    again = *wanted;
    if (pthread_create(&watcher, NULL, second_signal, &again) == 0) {
        pthread_detach(watcher);
    }
    server_drain(server);
    server_wait(server);
}

static int serve_until_end(struct server *server, struct operators *operators,
                           const sigset_t *wanted)
{
    if (server_start(server) != STATUS_OK) {
        return EXIT_FAILED;
    }
    if (operators_start(operators) != STATUS_OK) {
        server_drain(server);
        server_wait(server);
        return EXIT_FAILED;
    }
    wait_for_end(server, wanted);
    log_info("app.run", "stopped", "pid=%d", (int)getpid());
    return EXIT_DONE;
}

static int serve(const struct policy *policy, struct meters *meters, struct stores *stores,
                 struct bans *bans, const sigset_t *wanted)
{
    struct server *server;
    const struct server_options options = {
        .policy = policy,
        .meters = meters,
        .resolver = stores->resolver,
        .make_store = stores_make,
        .context = stores,
        .bans = bans,
    };
    if (server_new(&options, &server) != STATUS_OK) {
        return EXIT_FAILED;
    }
    int result = EXIT_FAILED;
    struct operators operators;
    if (operators_open(&operators, policy, meters, stores, bans, server) == STATUS_OK) {
        result = serve_until_end(server, &operators, wanted);
    }
    operators_close(&operators);
    server_free(server);
    return result;
}

static int serve_with_bans(const struct policy *policy, struct meters *meters,
                           struct stores *stores, const sigset_t *wanted)
{
    struct ban_keeper keeper;
    if (ban_keeper_open(&keeper, stores) != STATUS_OK) {
        return EXIT_FAILED;
    }
    const int result = serve(policy, meters, stores, keeper.bans, wanted);
    ban_keeper_close(&keeper);
    return result;
}

static struct meters *make_meters(struct policy *policy)
{
    struct meters *meters = NULL;
    if (meters_new(clock_wall_us(), &meters) != STATUS_OK ||
        meters_enter(meters, policy) != STATUS_OK) {
        meters_free(meters);
        log_error("app.run", "no memory for the metrics", "%s", "");
        return NULL;
    }
    return meters;
}

int run_command(int argc, char **argv)
{
    struct policy *policy;
    if (argc != 2) {
        fputs("usage: sluice run FILE\n", stderr);
        return EXIT_USAGE;
    }
    if (load_policy(argv[1], &policy) != STATUS_OK) {
        return EXIT_FAILED;
    }
    struct meters *meters = make_meters(policy);
    if (meters == NULL) {
        policy_free(policy);
        return EXIT_FAILED;
    }
    sigset_t wanted;
    struct stores stores;
    struct name_servers name_servers;
    int result = EXIT_FAILED;
    block_signals(&wanted);
    raise_descriptor_limit();
    name_servers_init(&name_servers, policy);
    if (stores_init(&stores, policy, &name_servers.options) == STATUS_OK) {
        result = serve_with_bans(policy, meters, &stores, &wanted);
        stores_close(&stores);
    } else {
        log_error("app.run", "no memory for the embedded store", "hint=\"lower store.memory\"");
    }
    meters_free(meters);
    policy_free(policy);
    return result;
}
