/* The service manager that has started us: systemd, or nobody, and then all of this is nothing.
 *
 * It is told when we are ready, reload and stop, and that the workers' loops turn, as often
 * as it asks for. Sockets that it holds for us (sluice.socket) are used where the policy
 * listens on their addresses. */

#ifndef SLUICE_APP_SERVICE_H
#define SLUICE_APP_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/given_sockets.h"

/* @is_outdated: the latest reload failed. */
void service_tell_ready(bool is_outdated);
void service_tell_reloading(void); /* service_tell_ready() ends it */
void service_tell_stopping(void);

/* The sockets that it has opened for us are @given from now on. */
void service_take_sockets(struct given_sockets *given);

/* All is well. */
void service_tell_alive(void);

/* How often, at least, service_tell_alive() is expected; 0: never. */
uint64_t service_watchdog_us(void);

#endif /* SLUICE_APP_SERVICE_H */
