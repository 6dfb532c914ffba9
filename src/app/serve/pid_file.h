/* The file that holds the process id of the running proxy, for init scripts that signal it.
 *
 * Only its owner may read, write or lock it (mode 0600). The process holds a write lock on it while
 * it runs: a number without that lock was left behind by a process that has ended. */

#ifndef SLUICE_APP_SERVE_PID_FILE_H
#define SLUICE_APP_SERVE_PID_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/status.h"

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

#endif /* SLUICE_APP_SERVE_PID_FILE_H */
