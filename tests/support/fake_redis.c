#include "support/fake_redis.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void talk(const struct fake_redis *fake, int fd)
{
    char heard[64 * 1024];
    for (size_t i = 0; i < fake->n_replies; i++) {
        if (read(fd, heard, sizeof(heard)) <= 0) {
            return;
        }
        const size_t len = strlen(fake->replies[i]);
        if (len == 0 || send(fd, fake->replies[i], len, MSG_NOSIGNAL) != (ssize_t)len) {
            return;
        }
    }
}

static void *run(void *context)
{
    const struct fake_redis *fake = context;
    for (;;) {
        const int fd = accept(fake->listen_fd, NULL, NULL);
        if (fd < 0) {
            return NULL; /* stopped */
        }
        talk(fake, fd);
        close(fd);
    }
}

static void listen_at(struct fake_redis *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(fake->folder, sizeof(fake->folder), "/tmp/sluice-fake-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fake->folder));
    snprintf(fake->path, sizeof(fake->path), "%s/socket", fake->folder);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->path);

    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fake->listen_fd, 0);
    ck_assert_int_eq(bind(fake->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fake->listen_fd, 16), 0);
}

void fake_redis_start_silent(struct fake_redis *fake)
{
    *fake = (struct fake_redis){0};
    listen_at(fake);
}

void fake_redis_start(struct fake_redis *fake, const char *const *replies, size_t n_replies)
{
    *fake = (struct fake_redis){.replies = replies, .n_replies = n_replies};
    listen_at(fake);
    ck_assert_int_eq(pthread_create(&fake->thread, NULL, run, fake), 0);
}

void fake_redis_stop(struct fake_redis *fake)
{
    shutdown(fake->listen_fd, SHUT_RDWR);
    if (fake->replies != NULL) {
        pthread_join(fake->thread, NULL);
    }
    close(fake->listen_fd);
    unlink(fake->path);
    rmdir(fake->folder);
}
