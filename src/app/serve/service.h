/* The interface to the service manager systemd. Without systemd all functions have no effect.
 *
 * The process reports to it that it is ready, reloads or stops, and, at the interval that it
 * requests, that the workers' loops run. Sockets that it holds for the process (sluice.socket) are
 * used where the policy listens on their addresses. */

#ifndef SLUICE_APP_SERVE_SERVICE_H
#define SLUICE_APP_SERVE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/listen_socket.h"

/* @is_outdated: the latest reload failed. */
void service_report_ready(bool is_outdated);
void service_report_reloading(void); /* service_report_ready() ends it */
void service_report_stopping(void);

/* Take over the sockets that it has opened for this process into @given. */
void service_take_sockets(struct given_sockets *given);

/* Report that the workers' loops run. */
void service_report_alive(void);

/* Longest interval between calls of service_report_alive(); 0: none are expected. */
uint64_t service_watchdog_us(void);

#endif /* SLUICE_APP_SERVE_SERVICE_H */
