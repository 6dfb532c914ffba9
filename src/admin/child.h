/* Child processes of the admin API: this same program with other arguments, for work that would
 * block the admin's thread or needs a bound on its memory.
 *
 * The arguments are passed as they are, never to a shell. The loop writes the input and collects
 * what the child prints, both without blocking. A child has limits on memory, processor time and
 * output, and a deadline; it is killed at a limit, when it is abandoned, and when its set is
 * closed. Each is reaped. Only for the loop's thread. */

#ifndef SLUICE_ADMIN_CHILD_H
#define SLUICE_ADMIN_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/span.h"
#include "base/status.h"
#include "net/loop.h"

enum {
    CHILD_ERRORS_BYTES_MAX = 4096, /* kept of stderr; the rest is read and dropped */
    CHILD_FILES_MAX = 4,
    CHILD_FIRST_FILE = 3, /* the child's descriptor of the first file */
};

struct child;

/* The children of one loop, those included that were abandoned and are not reaped yet. */
struct child_set {
    struct loop *loop;
    struct list children;
};

void child_set_init(struct child_set *set, struct loop *loop);

/* Kill all children and wait until they have ended. No event is reported. */
void child_set_close(struct child_set *set);

enum child_end {
    CHILD_EXITED,   /* code: its exit status */
    CHILD_KILLED,   /* by a signal that another sent, or a limit of the kernel; code: the signal */
    CHILD_LATE,     /* it was killed at its deadline */
    CHILD_TOO_LONG, /* it was killed because it printed too much */
};

struct child_outcome {
    enum child_end end;
    int code;
    char *output; /* of malloc; NULL: there is none. The receiver takes it by setting NULL */
    size_t output_bytes;
    struct span errors; /* borrowed */
};

struct child_order {
    const char *program;    /* NULL: this program */
    char *const *arguments; /* with the name in front, NULL behind */
    const int *files;       /* borrowed: in the child CHILD_FIRST_FILE and those after it */
    size_t n_files;
    bool has_input; /* child_write() and child_end_input() follow; false: its input is empty */
    size_t output_bytes_max;
    uint64_t memory_bytes; /* of address space; sanitizers need more, and have no limit */
    uint64_t cpu_s;
    uint64_t time_us;

    /* The input can be written again. NULL: not needed. */
    void (*on_room)(void *context);
    /* The child has ended, and is freed afterwards. Called once, from the loop. */
    void (*on_end)(void *context, struct child_outcome *outcome);
    void *context;
};

/* Start a child. STATUS_NO_MEMORY; STATUS_IO: no process or descriptor can be had. */
MUST_USE enum status child_start(struct child_set *set, const struct child_order *order,
                                 struct child **child);

/* Write @input, all of which is taken. False: write no more before on_room. What a child no longer
 * reads is dropped. */
MUST_USE bool child_write(struct child *child, struct span input);

/* The input is complete; what was written is still delivered. */
void child_end_input(struct child *child);

/* Kill the child, without a further event. NULL is a no-op. */
void child_abandon(struct child *child);

/* A file in memory with @contents, for the files of an order. It is close-on-exec and its number is
 * above those of a child's files. -1: none can be had. */
MUST_USE int child_file_of(struct span contents);

void child_file_close(int fd);

/* The path by which a child opens file @index of its order. */
const char *child_file_path(size_t index);

#endif /* SLUICE_ADMIN_CHILD_H */
