#include "app/serve/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

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

/* --- the file with the process id --- */

enum { PID_BYTES = 32 };

/* The lock of the whole file, for the process. Unlike flock(), it needs a descriptor open for
 * writing, and the kernel says which process holds it. */
static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static enum status write_pid(int fd)
{
    char text[PID_BYTES];
    const int len = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    return ftruncate(fd, 0) == 0 && write(fd, text, (size_t)len) == len ? STATUS_OK : STATUS_IO;
}

/* True if @fd is a regular file of our user with no other name. Its content is about to be
 * replaced, and another owner could lock it or write another number into it. */
static bool is_our_file(int fd)
{
    struct stat file;
    if (fstat(fd, &file) != 0) {
        return false;
    }
    if (S_ISREG(file.st_mode) && file.st_uid == geteuid() && file.st_nlink == 1) {
        return true;
    }
    errno = EPERM;
    return false;
}

/* A file of an earlier run may have been readable by others: it becomes private as a new one is. */
static enum status take_file(int fd)
{
    struct flock lock = whole_file();
    if (!is_our_file(fd) || fchmod(fd, S_IRUSR | S_IWUSR) != 0) {
        return STATUS_IO;
    }
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        return errno == EAGAIN || errno == EACCES ? STATUS_IN_USE : STATUS_IO;
    }
    return write_pid(fd);
}

enum status pid_file_open(struct pid_file *file, const char *path)
{
    *file = (struct pid_file){.fd = -1};
    if (path == NULL) {
        return STATUS_OK;
    }
    const int fd =
        open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return STATUS_IO;
    }
    const enum status status = take_file(fd);
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
