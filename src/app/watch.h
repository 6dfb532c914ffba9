/* Sees when a file is another: written in place, replaced by a rename, or reached by way of a
 * symbolic link that was changed, as where a directory of files is mounted. */

#ifndef SLUICE_APP_WATCH_H
#define SLUICE_APP_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/compiler.h"
#include "base/status.h"

/* What tells one content from another, but for its bytes. All zero: there is no file. */
struct file_identity {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec modified;
    struct timespec changed;
};

struct watch {
    const char *path; /* borrowed; NULL: nothing is watched */
    int fd;           /* of inotify; -1: there is none, and the file is looked at now and then */
    struct file_identity loaded; /* what was told of last */
    struct file_identity seen;   /* at the latest look */
    uint64_t look_us;            /* when to look next, monotonic */
};

/* All zero but for the fd of -1: nothing is watched. */
void watch_init(struct watch *watch);

/* What is at @path now. */
MUST_USE struct file_identity watch_identify(const char *path);

/* Watch @path, which is borrowed. @loaded: what it was just before it was read; what it
 * has become since is told. */
void watch_begin(struct watch *watch, const char *path, const struct file_identity *loaded);
void watch_end(struct watch *watch);

/* It is about to be read: @loaded, which it is now, need not be told of. */
void watch_note(struct watch *watch, const struct file_identity *loaded);

/* Whether the file is another, and has been for a moment without changing again; told once. To be
 * asked when the fd is readable, and when its patience ends. @now_us is monotonic. */
MUST_USE bool watch_has_changed(struct watch *watch, uint64_t now_us);

/* How long it may wait for the fd, us; UINT64_MAX: for ever. */
uint64_t watch_patience_us(const struct watch *watch, uint64_t now_us);

#endif /* SLUICE_APP_WATCH_H */
