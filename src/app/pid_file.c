#include "app/pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { PID_BYTES = 32 };

static enum status write_pid(int fd)
{
    char text[PID_BYTES];
    const int len = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    return ftruncate(fd, 0) == 0 && write(fd, text, (size_t)len) == len ? STATUS_OK : STATUS_IO;
}

enum status pid_file_open(struct pid_file *file, const char *path)
{
    *file = (struct pid_file){.fd = -1};
    if (path == NULL) {
        return STATUS_OK;
    }
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        return STATUS_IO;
    }
    enum status status = STATUS_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK ? STATUS_IN_USE : STATUS_IO;
    } else {
        status = write_pid(fd);
    }
    if (status != STATUS_OK) {
        const int error = errno;
        close(fd);
        errno = error;
        return status;
    }
    *file = (struct pid_file){.path = path, .fd = fd};
    return STATUS_OK;
}

void pid_file_close(struct pid_file *file)
{
    if (file->fd >= 0) {
        (void)unlink(file->path);
        close(file->fd);
        file->fd = -1;
    }
}

enum status pid_file_read(const char *path, pid_t *pid)
{
    char text[PID_BYTES] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return STATUS_IO;
    }
    /* Whoever has it holds the lock: a number left behind may be anybody's by now. */
    const bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    char *end;
    const long number = strtol(text, &end, 10);
    if (!is_held || n <= 0 || end == text || number <= 1) {
        return STATUS_UNREACHABLE;
    }
    *pid = (pid_t)number;
    return STATUS_OK;
}
