/* The file that says under which number the process runs, and so whom to tell to reload. */

#ifndef SLUICE_APP_PID_FILE_H
#define SLUICE_APP_PID_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/status.h"

struct pid_file {
    const char *path; /* borrowed; NULL: none */
    int fd;           /* open and locked while the process runs: so it is known to be its own */
};

/* Write our number into the file at @path; NULL: there is to be none. STATUS_IN_USE: a process that
 * runs has it; STATUS_IO: errno says why. */
MUST_USE enum status pid_file_open(struct pid_file *file, const char *path);

/* Remove it. One that is not open stays so. */
void pid_file_close(struct pid_file *file);

/* The number of the process that has the file at @path. STATUS_UNREACHABLE: it has ended, or there
 * is no number in it; STATUS_IO: errno says why. */
MUST_USE enum status pid_file_read(const char *path, pid_t *pid);

#endif /* SLUICE_APP_PID_FILE_H */
