/* Happy path: an event in the directory of the file or of its link's target ─► after a moment the
 * file is checked ─► it differs, and is equal at a check a moment later ─► it has changed. Files of
 * certificates have a longer moment: a certificate and its key are written one by one.
 *
 * Failures: without inotify, on a file system without events, or with a link in the middle of the
 * path, the file is still checked every two seconds. A missing file is waited for. */

#include "app/serve/watch.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    QUIET_US = 100 * 1000, /* editors write, rename and set rights one after another */
    FILES_QUIET_US = 1000 * 1000,
    LOOK_US = 2 * 1000 * 1000,     /* checked at this interval even without an event */
    CHANGING_US = 5 * 1000 * 1000, /* a file that is written all the time is read then as it is */
};

struct file_identity watch_identify(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0) {
        return (struct file_identity){.inode = 0};
    }
    return (struct file_identity){
        .device = file.st_dev,
        .inode = file.st_ino,
        .bytes = file.st_size,
        .modified = file.st_mtim,
        .changed = file.st_ctim,
    };
}

bool watch_is_mount(const char *path)
{
    struct statx file;
    return statx(AT_FDCWD, path, 0, 0, &file) == 0 &&
           (file.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->named.includes == b->named.includes &&
           a->named.certificates == b->named.certificates &&
           is_same_time(&a->modified, &b->modified) && is_same_time(&a->changed, &b->changed);
}

static void watch_directory_of(const struct watch *watch, const char *path)
{
    static const uint32_t EVENTS =
        IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE | IN_ONLYDIR;
    char buffer[PATH_MAX];
    const size_t len = strlen(path);
    if (len < sizeof(buffer)) {
        memcpy(buffer, path, len + 1);
        /* May be repeated: an existing watch stays. */
        (void)inotify_add_watch(watch->fd, dirname(buffer), EVENTS);
    }
}

static void watch_directories_of(const struct watch *watch, const char *path)
{
    char target[PATH_MAX];
    watch_directory_of(watch, path);
    if (realpath(path, target) != NULL) {
        watch_directory_of(watch, target);
    }
}

/* Directories may be others than before. */
static void watch_directories(const struct watch *watch)
{
    if (watch->fd < 0) {
        return;
    }
    watch_directories_of(watch, watch->path);
    for (size_t i = 0; i < watch->files->n_certificates; i++) {
        watch_directories_of(watch, watch->files->certificates[i]);
    }
    for (size_t i = 0; i < watch->files->n_includes; i++) {
        watch_directory_of(watch, watch->files->includes[i]);
    }
}

void watch_init(struct watch *watch)
{
    *watch = (struct watch){.fd = -1};
}

void watch_begin(struct watch *watch, const char *path, const struct loader_files *files,
                 const struct file_identity *loaded)
{
    watch->path = path;
    watch->files = files;
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    watch->loaded = *loaded;
    watch->seen = *loaded;
    watch->look_us = clock_monotonic_us(); /* it may have changed since */
    watch_directories(watch);
}

void watch_end(struct watch *watch)
{
    if (watch->fd >= 0) {
        close(watch->fd);
    }
    watch_init(watch);
}

void watch_note(struct watch *watch, const struct file_identity *loaded)
{
    if (watch->path != NULL) {
        watch->loaded = *loaded;
        watch->seen = *loaded;
        watch->differs_us = 0;
    }
}

static bool take_events(const struct watch *watch)
{
    char events[4096];
    bool is_any = false;
    while (watch->fd >= 0 && read(watch->fd, events, sizeof(events)) > 0) {
        is_any = true;
    }
    return is_any;
}

bool watch_has_changed(struct watch *watch, uint64_t now_us)
{
    if (watch->path == NULL) {
        return false;
    }
    if (take_events(watch) && watch->look_us > now_us + QUIET_US) {
        watch->look_us = now_us + QUIET_US;
    }
    if (now_us < watch->look_us) {
        return false;
    }
    struct file_identity found = watch_identify(watch->path);
    found.named = loader_files_look(watch->files);
    if (!is_same(&found, &watch->seen)) {
        watch->seen = found;
        watch->seen_us = now_us;
    }
    const uint64_t quiet_us =
        found.named.certificates != watch->loaded.named.certificates ? FILES_QUIET_US : QUIET_US;
    const bool is_other = found.inode != 0 && !is_same(&found, &watch->loaded);
    if (!is_other) {
        watch->differs_us = 0;
    } else if (watch->differs_us == 0) {
        watch->differs_us = now_us;
    }
    const bool is_settled =
        now_us >= watch->seen_us + quiet_us || now_us >= watch->differs_us + CHANGING_US;
    watch->look_us = is_other && !is_settled ? watch->seen_us + quiet_us : now_us + LOOK_US;
    watch_directories(watch);
    if (is_other && is_settled) {
        watch->differs_us = 0;
        watch->loaded = found;
        return true;
    }
    return false;
}

uint64_t watch_patience_us(const struct watch *watch, uint64_t now_us)
{
    if (watch->path == NULL) {
        return UINT64_MAX;
    }
    return watch->look_us > now_us ? watch->look_us - now_us : 0;
}
