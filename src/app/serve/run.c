/* sluice run FILE: serve until SIGTERM or SIGINT, then let requests end; SIGHUP reloads. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/command.h"
#include "app/load.h"
#include "app/name_servers.h"
#include "app/serve/active_policy.h"
#include "app/serve/operators.h"
#include "app/serve/pid_file.h"
#include "app/serve/reload.h"
#include "app/serve/service.h"
#include "app/serve/stores.h"
#include "app/serve/supervise.h"
#include "app/serve/watch.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/text.h"
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

/* How it is to run. */
struct run_options {
    const char *path; /* of the policy */
    const char *pid_path;
    const char *control_path;
    bool watches;
    struct file_identity loaded; /* of the policy, before it was read */
    struct loader_files *files;  /* that it names */
};

static void serve_until_end(const struct run_options *options, struct reload *reload)
{
    int number;
    if (supervise(reload, options->watches, &options->loaded, &number) == STATUS_OK) {
        log_info("app.run", "draining", "signal=%d", number);
        service_report_stopping();
        supervise_end_at_next_signal();
    }
    server_drain(reload->server);
    server_wait(reload->server);
    log_info("app.run", "stopped", "pid=%d", (int)getpid());
}

static void add_listeners(struct text *text, const struct listener_section *listeners, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        text_add(text, i > 0 ? SPAN(",") : SPAN(""));
        text_add(text, listeners[i].endpoint.text);
    }
}

/* What the counters of @policy are in: without user and password. */
static void add_store(struct text *text, const struct store_section *store)
{
    if (store->kind == STORE_MEMORY) {
        text_add_literal(text, "memory");
        return;
    }
    text_add_literal(text, "redis:");
    for (size_t i = 0; i < store->redis.n_endpoints; i++) {
        const struct endpoint *endpoint = &store->redis.endpoints[i];
        text_add(text, i > 0 ? SPAN(",") : SPAN(""));
        if (endpoint->unix_path.len > 0) {
            text_add(text, endpoint->unix_path);
        } else {
            text_add(text, endpoint->host);
            text_add_format(text, ":%u", endpoint->port);
        }
    }
}

/* Add " key=value" to @line, and empty @value. */
static void add_fact(struct text *line, const char *key, struct text *value)
{
    text_add_format(line, " %s=", key);
    text_add_logfmt(line, text_span(value));
    value->len = 0;
}

/* One line that says what runs; a long list in it is cut. */
static void log_start(const char *path, const struct policy *policy,
                      const struct listener_section *control)
{
    char value_bytes[512];
    char line_bytes[8 * sizeof(value_bytes)];
    struct text value = text_of(value_bytes, sizeof(value_bytes));
    struct text line = text_of(line_bytes, sizeof(line_bytes));
    text_add(&value, span_of_text(path));
    add_fact(&line, "policy", &value);
    add_listeners(&value, policy->listeners, policy->n_listeners);
    add_fact(&line, "listen", &value);
    add_listeners(&value, policy->admin.listeners, policy->admin.n_listeners);
    add_fact(&line, "admin", &value);
    if (control != NULL) {
        add_listeners(&value, control, 1);
        add_fact(&line, "control", &value);
    }
    add_store(&value, &policy->store);
    add_fact(&line, "store", &value);
    log_info("app.run", "started", "version=%s pid=%d%.*s routes=%zu limits=%zu upstreams=%zu",
             SLUICE_VERSION, (int)getpid(), SPAN_ARGS(text_span(&line)), policy->n_routes,
             policy->n_limits, policy->n_upstreams);
}

static enum status start(struct server *server, struct operators *operators)
{
    enum status status = server_start(server);
    if (status == STATUS_OK) {
        status = operators_start(operators);
        if (status != STATUS_OK) {
            server_drain(server);
            server_wait(server);
        }
    }
    return status;
}

/* The listener of --control, for the user of this process and root; @text is its address. */
static struct listener_section control_of(const struct run_options *options, char *text,
                                          size_t text_bytes)
{
    const char *path = options->control_path != NULL ? options->control_path : "";
    (void)snprintf(text, text_bytes, "unix:%s", path);
    return (struct listener_section){
        .endpoint = {.text = span_of_text(text), .unix_path = span_of_text(path)},
        .mode = S_IRUSR | S_IWUSR,
    };
}

/* With everything that is needed for a reload. */
static int serve(const struct run_options *options, struct reload *reload)
{
    char text[sizeof(((struct sockaddr_un *)NULL)->sun_path) + sizeof("unix:")];
    const struct listener_section control = control_of(options, text, sizeof(text));
    const struct operators_options operators_options = {
        .policy = reload->now->policy,
        .policy_path = reload->path,
        .control = options->control_path != NULL ? &control : NULL,
        .meters = reload->meters,
        .stores = reload->stores,
        .bans = reload->ban_sync.bans,
        .server = reload->server,
        .requests = reload->requests,
    };
    struct operators operators;
    int result = EXIT_FAILED;
    if (operators_open(&operators, &operators_options) == STATUS_OK &&
        start(reload->server, &operators) == STATUS_OK) {
        log_start(options->path, reload->now->policy, operators_options.control);
        reload->has_admin = operators.admin != NULL;
        reload->has_control = options->control_path != NULL;
        serve_until_end(options, reload);
        result = EXIT_DONE;
    }
    operators_close(&operators);
    return result;
}

static int serve_first(const struct run_options *options, struct reload *reload)
{
    struct given_sockets given = {.n = 0};
    const struct server_options server_options = {
        .first = active_policy_generation(reload->now),
        .meters = reload->meters,
        .resolver = reload->stores->resolver,
        .bans = reload->ban_sync.bans,
        .given = &given,
    };
    service_take_sockets(&given);
    active_policy_acquire(reload->now); /* one for the server, one for us */
    active_policy_publish(reload->now);
    if (server_new(&server_options, &reload->server) != STATUS_OK) {
        given_sockets_close(&given);
        active_policy_release(reload->now);
        return EXIT_FAILED;
    }
    given_sockets_report_unused(&given);
    const int result = serve(options, reload);
    server_free(reload->server);
    given_sockets_close(&given);
    return result;
}

static struct meters *make_meters(struct policy *policy)
{
    struct meters *meters = NULL;
    if (meters_new(clock_wall_us(), &meters) != STATUS_OK ||
        meters_enter(meters, policy) != STATUS_OK) {
        meters_free(meters);
        return NULL;
    }
    return meters;
}

static int out_of_memory(struct policy *policy)
{
    policy_free(policy);
    log_error("app.run", "out of memory", "hint=\"lower store.memory\"");
    return EXIT_FAILED;
}

/* @policy is owned from here on. */
static int serve_policy(const struct run_options *options, struct meters *meters,
                        struct stores *stores, struct policy *policy)
{
    struct reload reload = {
        .path = options->path, .files = options->files, .stores = stores, .meters = meters};
    if (reload_requests_new(&reload.requests) != STATUS_OK) {
        return out_of_memory(policy);
    }
    if (active_policy_new(stores, policy, NULL, &reload.now) != STATUS_OK) {
        reload_requests_free(reload.requests);
        return out_of_memory(policy);
    }
    int result = EXIT_FAILED;
    if (ban_sync_open(&reload.ban_sync, reload.now->plan, policy) == STATUS_OK) {
        result = serve_first(options, &reload);
        ban_sync_close(&reload.ban_sync);
    }
    reload_close(&reload);
    reload_requests_free(reload.requests);
    return result;
}

static int run(const struct run_options *options, struct policy *policy)
{
    struct name_servers name_servers;
    struct stores stores;
    struct meters *meters = make_meters(policy);
    if (meters == NULL) {
        return out_of_memory(policy);
    }
    int result;
    raise_descriptor_limit();
    name_servers_init(&name_servers, policy);
    if (stores_init(&stores, &policy->store, &name_servers.options) == STATUS_OK) {
        result = serve_policy(options, meters, &stores, policy);
        stores_close(&stores);
    } else {
        result = out_of_memory(policy);
    }
    meters_free(meters);
    return result;
}

static int run_with_pid_file(const struct run_options *options, struct policy *policy)
{
    struct pid_file pid_file;
    const enum status status = pid_file_open(&pid_file, options->pid_path);
    if (status != STATUS_OK) {
        log_error("app.run", "cannot write the pid file", "file=%s err=\"%s\"", options->pid_path,
                  status == STATUS_IN_USE ? "another process that runs has it" : strerror(errno));
        policy_free(policy);
        return EXIT_FAILED;
    }
    const int result = run(options, policy);
    pid_file_close(&pid_file);
    return result;
}

/* Whether the path of --control is also one that @admin has. */
static bool is_control_taken(const struct run_options *options, const struct admin_section *admin)
{
    const bool has_path = options->control_path != NULL && options->control_path[0] != '\0';
    for (size_t i = 0; has_path && i < admin->n_listeners; i++) {
        if (span_equals(admin->listeners[i].endpoint.unix_path,
                        span_of_text(options->control_path))) {
            return true;
        }
    }
    return false;
}

static int load_and_run(struct run_options *options)
{
    struct policy *policy;
    supervise_block_signals(); /* before the process id is published: they are kept for later */
    options->loaded = watch_identify(options->path);
    if (watch_is_mount(options->path)) {
        log_warn("app.run", "an edit that replaces the policy's file will not be seen",
                 "file=%s because=\"the file is a mount of its own\" hint=\"mount its folder\"",
                 options->path);
    }
    if (load_policy_to_serve(options->path, options->files, &policy) != STATUS_OK) {
        return EXIT_FAILED;
    }
    options->loaded.named = options->files->read;
    if (is_control_taken(options, &policy->admin)) {
        fprintf(stderr, "sluice run: --control: %s is also an address of admin\n",
                options->control_path);
        policy_free(policy);
        return EXIT_FAILED;
    }
    return run_with_pid_file(options, policy);
}

static int run_command(int argc, char **argv)
{
    struct loader_files files = {.n_includes = 0};
    struct run_options options = {.files = &files};
    const struct command_option table[] = {
        {.name = "watch", .help = "reload when the file changes", .flag = &options.watches},
        {.name = "pid-file",
         .argument = "FILE",
         .help = "write the process id there",
         .value = &options.pid_path},
        {.name = "control",
         .argument = "PATH",
         .help = "serve the admin API also at this unix socket, for the same user",
         .value = &options.control_path},
    };
    int status;
    const int first = command_read(&RUN_COMMAND, table, ARRAY_LEN(table), argc, argv, &status);
    if (first == 0) {
        return status;
    }
    options.path = argv[first];
    if (options.control_path != NULL &&
        strlen(options.control_path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        fputs("sluice run: --control: the path of a unix socket is not that long\n", stderr);
        return EXIT_USAGE;
    }
    if (log_output_start() != STATUS_OK) {
        fputs("sluice run: no memory, or no thread, for the log\n", stderr);
        return EXIT_FAILED;
    }
    const int result = load_and_run(&options);
    loader_files_free(&files);
    log_output_stop();
    return result;
}

const struct command RUN_COMMAND = {
    .name = "run",
    .arguments = "FILE",
    .summary = "start the proxy with the policy in FILE",
    .notes = "SIGTERM and SIGINT let requests end, then stop; a second one stops at once.\n"
             "SIGHUP reads the policy again, SIGUSR1 opens the file of the access log again.\n",
    .run = run_command,
};
