/*   quiet ─ SIGHUP, the reload requests, the file ─► wanted ─ the last one began a moment ago ─►
 * due due ─► under way ─► quiet
 *
 * A reload that is requested while one is under way is the next one; many requests share it. */

#include "app/serve/supervise.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/command.h"
#include "app/serve/service.h"
#include "app/serve/watch.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_output.h"

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

void supervise_block_signals(void)
{
    const sigset_t signals = signals_of(true);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
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

void supervise_end_at_next_signal(void)
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
    } else if (!is_wanted && watch->path != NULL) {
        watch_end(watch);
    }
}

static void begin(struct supervisor *supervisor, uint64_t now_us)
{
    const char *why = supervisor->wanted;
    supervisor->wanted = NULL;
    supervisor->not_before_us = now_us + APART_US;
    supervisor->loaded = watch_identify(supervisor->reload->path);
    service_report_reloading();
    supervisor->is_under_way = reload_begin(supervisor->reload, why);
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
    if (watch_has_changed(&supervisor->watch, now_us)) {
        supervisor->wanted = "the file has changed";
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
    const uint64_t change_us = server_change_patience_us(supervisor->reload->server, now_us);
    us = change_us < us ? change_us : us;
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
static int run(struct supervisor *supervisor)
{
    const struct reload *reload = supervisor->reload;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = supervisor->signal_fd, .events = POLLIN},
            {.fd = server_change_fd(reload->server), .events = POLLIN},
            {.fd = supervisor->wanted != NULL ? -1 : reload_requests_fd(reload->requests),
             .events = POLLIN},
            {.fd = supervisor->watch.fd, .events = POLLIN},
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
    }
}

enum status supervise(struct reload *reload, bool watches, const struct file_identity *loaded,
                      int *number)
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
    *number = run(&supervisor);
    watch_end(&supervisor.watch);
    close(supervisor.signal_fd);
    return STATUS_OK;
}
