/* Child processes of the admin API: this same program with other arguments, for work that would
 * block the admin's thread or needs a bound on its memory.
 *
 * The arguments are passed as they are, never to a shell. The loop writes the input and collects
 * what the child prints, both without blocking. A child has limits on memory, processor time and
 * output, and a deadline; it is killed at a limit, when it is abandoned, and when its set is
 * closed. Each is reaped. Only for the loop's thread. */

#ifndef SLUICE_ADMIN_CHILD_H
#define SLUICE_ADMIN_CHILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/request.h"
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

/* What the child processes of requests have in common: the policies that they are given, and what
 * is answered when they have ended. */

/* The policy of @request as the loader of another process takes it, with its secrets. NULL: no
 * memory. */
MUST_USE json_t *child_policy(const struct admin_request *request);

/* A file in memory with the text of @json, which is taken over; NULL is no memory. -1: none can be
 * had. */
MUST_USE int child_file_of_json(json_t *json);

/* Whether the child printed what it was asked for; else @request is answered: 400 with the words of
 * the program, without the paths of files that only the child has; 422 where it reached a limit.
 */
MUST_USE bool child_succeeded(struct admin_request *request, const struct child_outcome *outcome);

/* Answer with what the child printed, which is JSON. */
void child_answer(struct admin_request *request, struct child_outcome *outcome);

/* Whether as many children as may be answer other requests; then @request is answered so. One fewer
 * for those who may change nothing, whose questions must not keep operators from asking. */
MUST_USE bool child_was_busy(struct admin_request *request);

/* Start a child that answers @request, which changes nothing; if none can be started, answer so. If
 * the client leaves, the child is abandoned. order->on_end gets the request, and begins with
 * child_ask_end(). */
void child_ask(struct admin_request *request, struct child_order *order);
void child_ask_end(struct admin_request *request);

/* Answer that no child can be started. */
void child_answer_not_started(struct admin_request *request);

/* The arguments of a child process, from what a request says. */

enum { CHILD_ARGUMENTS_MAX = 640 };

/* All zero: none. */
struct child_arguments {
    char *items[CHILD_ARGUMENTS_MAX + 1]; /* owned; NULL behind the last one */
    size_t n;
    const char *problem; /* static; NULL: none. Nothing is added once there is one */
    bool no_memory;
};

/* Add one argument: @prefix and @value. A byte of zero or the end of a line is a problem: a header
 * field would end there. */
void child_arguments_add(struct child_arguments *arguments, const char *prefix, struct span value);

void child_arguments_free(struct child_arguments *arguments);

/* Add those of `sluice explain` for the policy at @policy_path and the request that @json, an
 * object, describes: {method, url, headers, from, scheme, http2, claims, tenant}. No value can
 * become an option. */
void child_arguments_explain(struct child_arguments *arguments, json_t *json,
                             const char *policy_path);

#endif /* SLUICE_ADMIN_CHILD_H */
