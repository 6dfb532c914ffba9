/* Detects changes of a policy's file and of the files that it names: a write in place, a
 * replacement by rename, or a change of a symbolic link in its path, as in mounted configuration
 * directories. */

#ifndef SLUICE_APP_SERVE_WATCH_H
#define SLUICE_APP_SERVE_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/compiler.h"
#include "base/status.h"
#include "policy/loader.h"

/* Metadata that identifies a version of the file. All zero: there is no file. */
struct file_identity {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec modified;
    struct timespec changed;
    struct loader_versions named; /* of the files that it names */
};

struct watch {
    const char *path;                 /* borrowed; NULL: nothing is watched */
    const struct loader_files *files; /* borrowed; that it named when it was read last */
    int fd;                           /* of inotify; -1: there is none, and the file is polled */
    struct file_identity loaded;      /* the version reported last */
    struct file_identity seen;        /* at the latest check */
    uint64_t seen_us;                 /* since when that is so, monotonic */
    uint64_t differs_us;              /* since when it is not the one loaded; 0: it is */
    uint64_t look_us;                 /* time of the next check, likewise */
};

/* All zero but for the fd of -1: nothing is watched. */
void watch_init(struct watch *watch);

/* The identity of the file at @path now, without the files that it names. */
MUST_USE struct file_identity watch_identify(const char *path);

/* Whether the file at @path is the root of a mount, as where a container gets a single file: then a
 * replacement by rename happens elsewhere and is not seen here. False also if the system cannot
 * tell. */
MUST_USE bool watch_is_mount(const char *path);

/* Watch @path and what @files names at any time; both are borrowed. @loaded is their identity just
 * before they were read; changes since then are reported. */
void watch_begin(struct watch *watch, const char *path, const struct loader_files *files,
                 const struct file_identity *loaded);
void watch_end(struct watch *watch);

/* The file was read: its identity @loaded, of just before, is not reported. */
void watch_note(struct watch *watch, const struct file_identity *loaded);

/* Whether the file has changed and has then been stable for a moment, or has been changing for some
 * seconds; reported once per change. Call it when the fd is readable and when watch_patience_us()
 * has passed. @now_us is monotonic. */
MUST_USE bool watch_has_changed(struct watch *watch, uint64_t now_us);

/* Longest wait for the fd, us; UINT64_MAX: unlimited. */
uint64_t watch_patience_us(const struct watch *watch, uint64_t now_us);

#endif /* SLUICE_APP_SERVE_WATCH_H */
