/* The interface to the service manager: systemd, and the file with the process id. Without systemd
 * the functions service_… have no effect.
 *
 * The process reports to it that it is ready, reloads or stops, and, at the interval that it
 * requests, that the workers' loops run. Sockets that it holds for the process (sluice.socket) are
 * used where the policy listens on their addresses. */

#ifndef SLUICE_APP_SERVE_SERVICE_H
#define SLUICE_APP_SERVE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/status.h"
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

/* --- the file that holds the process id, for init scripts that signal the process --- */

/* Only its owner may read, write or lock it (mode 0600). The process holds a write lock on it while
 * it runs: a number without that lock was left behind by a process that has ended. */
struct pid_file {
    const char *path; /* borrowed; NULL: none */
    /* open and locked while the process runs; the process may not open the file a second time,
     * since closing any descriptor of it releases the lock */
    int fd;
};

/* Write our process id into the file at @path; NULL: no file is written. STATUS_IN_USE: a running
 * process holds it; STATUS_IO: errno says why (EPERM: not a regular file of our own user, or a file
 * with a second name; ELOOP: a symbolic link). */
MUST_USE enum status pid_file_open(struct pid_file *file, const char *path);

/* Remove the file. No-op if it is not open. */
void pid_file_close(struct pid_file *file);

#endif /* SLUICE_APP_SERVE_SERVICE_H */
