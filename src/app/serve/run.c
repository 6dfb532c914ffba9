/* sluice run FILE: serve until SIGTERM or SIGINT, then let requests end; SIGHUP reloads. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/admin.h"
#include "app/command.h"
#include "app/serve/active_policy.h"
#include "app/serve/memory_return.h"
#include "app/serve/reload.h"
#include "app/serve/service.h"
#include "app/serve/stores.h"
#include "app/serve/watch.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/text.h"
#include "proxy/meters.h"
#include "proxy/server.h"

/* --- the supervisor: it waits for signals, reload requests and changes of the policy file --- */

/* A reload that is requested while one is under way is the next one; many requests share it. It
 * begins when the latest one began some time ago. */

enum {
    APART_US = 100 * 1000, /* from the beginning of a reload to that of the next, at least */
    WATCHDOG_PARTS = 3,    /* signs of life in the time in which one is expected */
};

struct supervisor {
    struct reload *reload;
    struct watch watch;
    struct file_identity loaded; /* of the policy, before it was read last */
    bool watches;                /* whatever the policy says */
    int signal_fd;
    const char *wanted; /* source of a reload request; NULL: none */
    bool is_under_way;
    uint64_t not_before_us; /* when the next may begin, monotonic */
    uint64_t watchdog_us;   /* how long the service manager waits for a sign; 0: for ever */
    uint64_t alive_at_us;   /* when the next is due, monotonic */
    struct memory_return memory_return;
};

/* --- signals --- */

static sigset_t signals_of(bool all)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    if (all) { /* also those that do not end it */
        sigaddset(&signals, SIGHUP);
        sigaddset(&signals, SIGUSR1);
    }
    return signals;
}

/* Block the signals that this thread waits for, here and in all threads created later. */
static void block_signals(void)
{
    const sigset_t signals = signals_of(true);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* a child could not be reaped while it is ignored */
}

static void *second_signal(void *context)
{
    const sigset_t signals = signals_of(true);
    int number;
    (void)context;
    while (sigwait(&signals, &number) == 0 && (number == SIGHUP || number == SIGUSR1)) {
        log_warn("app.run", "not heeded: the process is about to end", "signal=%s",
                 number == SIGHUP ? "SIGHUP" : "SIGUSR1");
    }
    log_warn("app.run", "stopped at once", "signal=%d", number);
    log_output_flush();
    _exit(EXIT_FAILED);
}

/* From now on a SIGTERM or SIGINT ends the process at once. */
static void end_at_next_signal(void)
{
    pthread_t waiter;
    if (pthread_create(&waiter, NULL, second_signal, NULL) == 0) {
        pthread_detach(waiter);
    }
}

/* 0: none that ends the process. */
static int take_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;
    while (read(supervisor->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
            supervisor->wanted = "SIGHUP";
        } else if (info.ssi_signo == SIGUSR1) {
            server_reopen_log(supervisor->reload->server);
        } else {
            return (int)info.ssi_signo;
        }
    }
    return 0;
}

/* --- reloads --- */

static void heed_watch(struct supervisor *supervisor)
{
    struct watch *watch = &supervisor->watch;
    const bool is_wanted = supervisor->watches || supervisor->reload->now->policy->watch;
    if (is_wanted && watch->path == NULL) {
        watch_begin(watch, supervisor->reload->path, supervisor->reload->files,
                    &supervisor->loaded);
        log_info("app.watch", "watching the policy", "file=%s", watch->path);
    } else if (!is_wanted && watch->path != NULL) {
        watch_end(watch);
    }
}

static const char FILE_HAS_CHANGED[] = "the file has changed";

static void begin(struct supervisor *supervisor, uint64_t now_us)
{
    const char *why = supervisor->wanted;
    supervisor->wanted = NULL;
    supervisor->not_before_us = now_us + APART_US;
    supervisor->loaded = watch_identify(supervisor->reload->path);
    service_report_reloading();
    supervisor->is_under_way = reload_begin(supervisor->reload, why, why == FILE_HAS_CHANGED);
    supervisor->loaded.named = supervisor->reload->files->read;
    watch_note(&supervisor->watch, &supervisor->loaded);
    if (!supervisor->is_under_way) {
        service_report_ready(supervisor->reload->has_failed);
    }
}

static void go_on(struct supervisor *supervisor)
{
    const uint64_t now_us = clock_monotonic_us();
    if (reload_go_on(supervisor->reload)) { /* also of a worker's word that came late */
        supervisor->is_under_way = false;
        service_report_ready(supervisor->reload->has_failed);
        heed_watch(supervisor);
    }
    if (!supervisor->is_under_way) { /* one that is under way has read the file itself */
        tenant_file_look(&supervisor->reload->tenant_file, supervisor->reload->now->policy, now_us);
    }
    if (watch_has_changed(&supervisor->watch, now_us) && supervisor->wanted == NULL) {
        supervisor->wanted = FILE_HAS_CHANGED;
    }
    if (supervisor->wanted != NULL && !supervisor->is_under_way &&
        now_us >= supervisor->not_before_us) {
        begin(supervisor, now_us);
    }
}

/* --- the watchdog --- */

/* All loops run: reported well before the watchdog expires. */
static void report_alive(struct supervisor *supervisor)
{
    const uint64_t now_us = clock_monotonic_us();
    struct server_pulse pulse;
    if (supervisor->watchdog_us == 0 || now_us < supervisor->alive_at_us) {
        return;
    }
    supervisor->alive_at_us = now_us + supervisor->watchdog_us / WATCHDOG_PARTS;
    server_read_pulse(supervisor->reload->server, now_us, &pulse);
    if (pulse.silence_us < supervisor->watchdog_us) {
        service_report_alive();
    } else {
        log_error("app.run", "a loop does not run", "worker=%u silence_ms=%llu", pulse.slowest,
                  (unsigned long long)(pulse.silence_us / 1000));
    }
}

/* --- waiting --- */

static uint64_t patience_us(const struct supervisor *supervisor)
{
    const uint64_t now_us = clock_monotonic_us();
    uint64_t us = watch_patience_us(&supervisor->watch, now_us);
    const uint64_t file_us = watch_patience_us(&supervisor->reload->tenant_file.watch, now_us);
    us = !supervisor->is_under_way && file_us < us ? file_us : us;
    const uint64_t change_us = server_change_patience_us(supervisor->reload->server, now_us);
    us = change_us < us ? change_us : us;
    const uint64_t memory_us = memory_return_patience_us(&supervisor->memory_return, now_us);
    us = memory_us < us ? memory_us : us;
    if (supervisor->watchdog_us > 0) {
        const uint64_t alive_us =
            supervisor->alive_at_us > now_us ? supervisor->alive_at_us - now_us : 0;
        us = alive_us < us ? alive_us : us;
    }
    if (supervisor->wanted != NULL && !supervisor->is_under_way) {
        const uint64_t due_us =
            supervisor->not_before_us > now_us ? supervisor->not_before_us - now_us : 0;
        us = due_us < us ? due_us : us;
    }
    return us;
}

static int poll_ms(uint64_t us)
{
    return us == UINT64_MAX ? -1 : us > 60 * 1000 * 1000 ? 60 * 1000 : (int)((us + 999) / 1000);
}

/* Until a signal ends it: its number. */
static int wait_for_end(struct supervisor *supervisor)
{
    const struct reload *reload = supervisor->reload;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = supervisor->signal_fd, .events = POLLIN},
            {.fd = server_change_fd(reload->server), .events = POLLIN},
            {.fd = supervisor->wanted != NULL ? -1 : reload_requests_fd(reload->requests),
             .events = POLLIN},
            {.fd = supervisor->watch.fd, .events = POLLIN},
            {.fd = supervisor->is_under_way ? -1 : reload->tenant_file.watch.fd, .events = POLLIN},
        };
        (void)!poll(fds, ARRAY_LEN(fds), poll_ms(patience_us(supervisor)));
        const int number = take_signals(supervisor);
        if (number != 0) {
            return number;
        }
        if (fds[2].revents != 0 && supervisor->wanted == NULL) {
            supervisor->wanted = "it was asked for";
        }
        go_on(supervisor);
        report_alive(supervisor);
        memory_return_check(&supervisor->memory_return, clock_monotonic_us());
    }
}

/* Reload on request until SIGTERM or SIGINT, whose number is stored in *number. @watches: reload
 * also when the file has changed, whatever the policy says. @loaded: the file's identity just
 * before it was read. STATUS_IO: no signalfd could be created. */
static enum status supervise(struct reload *reload, bool watches,
                             const struct file_identity *loaded, int *number)
{
    const sigset_t signals = signals_of(true);
    struct supervisor supervisor = {
        .reload = reload,
        .loaded = *loaded,
        .watches = watches,
        .watchdog_us = service_watchdog_us(),
    };
    watch_init(&supervisor.watch);
    supervisor.signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (supervisor.signal_fd < 0) {
        log_error("app.run", "no signalfd", "hint=\"raise ulimit -n\"");
        return STATUS_IO;
    }
    heed_watch(&supervisor);
    service_report_ready(false);
    *number = wait_for_end(&supervisor);
    watch_end(&supervisor.watch);
    close(supervisor.signal_fd);
    return STATUS_OK;
}

/* Raise the soft limit to the hard limit. The proxy warns if that is too low. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The command line of `sluice run`. */
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
        end_at_next_signal();
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
    reload_report_warnings(path, policy);
}

/* --- the admin API: made if the policy or the command line names a listener --- */

static const struct policy *take_policy(void *stores)
{
    return active_policy_borrow(stores);
}

static void give_policy(void *stores, const struct policy *policy)
{
    active_policy_return(stores, policy);
}

static enum status make_store(void *stores, const struct policy *policy, struct loop *loop,
                              struct store **store)
{
    return active_policy_make_store(stores, policy, loop, store);
}

static void free_store(void *stores, const struct policy *policy, struct store *store)
{
    active_policy_free_store(stores, policy, store);
}

/* Open the admin listeners without serving yet. Failures are logged. *admin stays NULL if no
 * listener is named. @control is as in struct admin_options. Returns as admin_new(). */
static enum status open_admin(const struct reload *reload, const struct listener_section *control,
                              struct admin **admin)
{
    const struct admin_options options = {
        .version = SLUICE_VERSION,
        .policy_path = reload->path,
        .control = control,
        .server = reload->server,
        .take_policy = take_policy,
        .give_policy = give_policy,
        .make_store = make_store,
        .free_store = free_store,
        .context = reload->stores,
        .bans = reload->replicas.bans,
        .tenants = reload->replicas.tenants,
        .requests = reload->requests,
        .meters = reload->meters,
        .memory = reload->stores->memory,
        .redis = &reload->stores->redis,
    };
    return reload->now->policy->admin.n_listeners > 0 || control != NULL
               ? admin_new(&options, admin)
               : STATUS_OK;
}

static enum status start(struct server *server, struct admin *admin)
{
    enum status status = server_start(server);
    if (status == STATUS_OK && admin != NULL) {
        status = admin_start(admin);
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
    const struct listener_section *wanted = options->control_path != NULL ? &control : NULL;
    struct admin *admin = NULL;
    int result = EXIT_FAILED;
    if (open_admin(reload, wanted, &admin) == STATUS_OK &&
        start(reload->server, admin) == STATUS_OK) {
        log_start(options->path, reload->now->policy, wanted);
        reload->has_admin = admin != NULL;
        reload->has_control = options->control_path != NULL;
        serve_until_end(options, reload);
        result = EXIT_DONE;
    }
    if (admin != NULL) {
        admin_stop(admin);
    }
    admin_free(admin);
    return result;
}

static int serve_first(const struct run_options *options, struct reload *reload)
{
    struct given_sockets given = {.n = 0};
    const struct server_options server_options = {
        .first = active_policy_generation(reload->now),
        .meters = reload->meters,
        .resolver = reload->stores->resolver,
        .bans = reload->replicas.bans,
        .tenants = reload->replicas.tenants,
        .given = &given,
    };
    service_take_sockets(&given);
    active_policy_acquire(reload->now); /* one for the server, one for us */
    active_policy_publish(reload->now);
    (void)!jwks_fetch_follow(&reload->jwks_fetch, reload->now->policy); /* logs a failure */
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
    jwks_fetch_init(&reload.jwks_fetch);
    if (replicas_open(&reload.replicas, reload.now) == STATUS_OK) {
        tenant_file_init(&reload.tenant_file, reload.replicas.tenants, meters);
        if (tenant_file_prepare(&reload.tenant_file, reload.now->policy, NULL) == STATUS_OK) {
            tenant_file_follow(&reload.tenant_file, reload.now->policy);
            result = serve_first(options, &reload);
        }
        jwks_fetch_close(&reload.jwks_fetch);
        tenant_file_close(&reload.tenant_file);
        replicas_close(&reload.replicas);
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
    block_signals(); /* before the process id is published: they are kept for later */
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
