#include "app/serve/service.h"

#if SLUICE_SYSTEMD
#include <systemd/sd-daemon.h>
#else /* as where systemd has not started the process */
#define SD_LISTEN_FDS_START 3
#define sd_notify(unset, state) ((void)(state), 0)
#define sd_notifyf(unset, state, value) ((void)(state), (void)(value), 0)
#define sd_listen_fds(unset) 0
#define sd_watchdog_enabled(unset, us) (*(us) = 0, 0)
#endif

#include "base/clock.h"

void service_report_ready(bool is_outdated)
{
    (void)sd_notify(0, is_outdated ? "READY=1\nSTATUS=serving under the policy before: the latest "
                                     "reload failed, and the log says why"
                                   : "READY=1\nSTATUS=serving");
}

void service_report_reloading(void)
{
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reloading the policy",
                     (unsigned long long)clock_monotonic_us());
}

void service_report_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1\nSTATUS=letting requests end");
}

void service_take_sockets(struct given_sockets *given)
{
    const int n = sd_listen_fds(1);
    for (int i = 0; i < n; i++) {
        given_sockets_add(given, SD_LISTEN_FDS_START + i);
    }
}

void service_report_alive(void)
{
    (void)sd_notify(0, "WATCHDOG=1");
}

uint64_t service_watchdog_us(void)
{
    uint64_t us;
    return sd_watchdog_enabled(0, &us) > 0 ? us : 0;
}
