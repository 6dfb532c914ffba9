/* Happy path: three socket pairs are the child's stdin, stdout and stderr; both outputs end; the
 * child is reaped; on_end is called.
 *
 * Failures: a child that has to end before is killed, its outputs end by that, and the rest is the
 * same. Reaping polls, a few times as a rule: the outputs end with the process, and a signal
 * handler for SIGCHLD would be the whole program's. */

#include "admin/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/stream.h"

extern char **environ;

static const char OOM_SCORE[] = "500";

enum {
    OUTPUT_BYTES_FIRST = 16 * 1024,
    REAP_AFTER_US = 1000,
    NICENESS = 10,
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_MEMORY_LIMIT = 0 };
#else
enum { HAS_MEMORY_LIMIT = 1 };
#endif

struct child {
    struct list node; /* of the set */
    struct child_order order;
    pid_t pid;
    struct stream input;
    void *kept; /* the part of the input that the kernel has not taken; NULL: none */
    bool is_input_ended;
    struct stream output;
    struct stream errors;
    struct timer deadline;
    struct timer reaping;
    char *content; /* of the output */
    size_t content_bytes;
    size_t content_capacity;
    char errors_text[CHILD_ERRORS_BYTES_MAX];
    size_t errors_bytes;
    enum child_end end; /* CHILD_LATE, CHILD_TOO_LONG: it was killed for that */
    bool is_abandoned;
};

void child_set_init(struct child_set *set, struct loop *loop)
{
    set->loop = loop;
    list_init(&set->children);
}

static void child_free(struct child *child)
{
    list_remove(&child->node);
    stream_close(&child->input);
    stream_close(&child->output);
    stream_close(&child->errors);
    timer_close(&child->deadline);
    timer_close(&child->reaping);
    free(child->kept);
    free(child->content);
    free(child);
}

void child_set_close(struct child_set *set)
{
    while (set->loop != NULL && !list_is_empty(&set->children)) {
        struct child *child = CONTAINER_OF(set->children.next, struct child, node);
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        child_free(child);
    }
}

/* --- the end --- */

static void report(struct child *child, int status)
{
    struct child_outcome outcome = {
        .end = child->end,
        .output = child->content,
        .output_bytes = child->content_bytes,
        .errors = span_of(child->errors_text, child->errors_bytes),
    };
    if (outcome.end == CHILD_EXITED && WIFSIGNALED(status)) {
        outcome.end = CHILD_KILLED;
        outcome.code = WTERMSIG(status);
    } else if (outcome.end == CHILD_EXITED) {
        outcome.code = WEXITSTATUS(status);
    }
    child->order.on_end(child->order.context, &outcome);
    child->content = outcome.output;
}

/* The child is about to end, or has. */
static void reap(struct child *child)
{
    int status = 0;
    const pid_t pid = waitpid(child->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        timer_arm(&child->reaping, REAP_AFTER_US);
        return;
    }
    if (!child->is_abandoned) {
        report(child, pid == child->pid ? status : SIGKILL);
    }
    child_free(child);
}

static void on_reaping(void *context)
{
    reap(context);
}

static void kill_for(struct child *child, enum child_end end)
{
    child->end = end;
    (void)kill(child->pid, SIGKILL);
}

static void on_deadline(void *context)
{
    kill_for(context, CHILD_LATE);
}

void child_abandon(struct child *child)
{
    if (child == NULL) {
        return;
    }
    child->is_abandoned = true;
    (void)kill(child->pid, SIGKILL);
    stream_close(&child->output);
    stream_close(&child->errors);
    stream_close(&child->input);
    timer_disarm(&child->deadline);
    reap(child);
}

/* --- what it prints --- */

static bool is_open(const struct stream *stream)
{
    return stream->fd >= 0;
}

/* An output has ended. The child may be freed. */
static void end_output(struct child *child, struct stream *stream)
{
    stream_close(stream);
    if (!is_open(&child->output) && !is_open(&child->errors)) {
        reap(child);
    }
}

/* False: it is too long, or there is no memory. */
static bool make_room(struct child *child)
{
    if (child->content_bytes < child->content_capacity) {
        return true;
    }
    size_t capacity =
        child->content_capacity == 0 ? OUTPUT_BYTES_FIRST : 2 * child->content_capacity;
    capacity = capacity < child->order.output_bytes_max ? capacity : child->order.output_bytes_max;
    char *content = capacity > child->content_capacity ? realloc(child->content, capacity) : NULL;
    if (content == NULL) {
        return false;
    }
    child->content = content;
    child->content_capacity = capacity;
    return true;
}

static void on_output(void *owner)
{
    struct child *child = owner;
    size_t n_read;
    char rest[1];
    const bool has_room = make_room(child);
    char *into = has_room ? child->content + child->content_bytes : rest;
    const size_t room = has_room ? child->content_capacity - child->content_bytes : sizeof(rest);
    switch (stream_read(&child->output, into, room, &n_read)) {
    case STREAM_DONE:
        if (has_room) {
            child->content_bytes += n_read;
        } else if (child->end == CHILD_EXITED) {
            kill_for(child, CHILD_TOO_LONG);
        }
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    end_output(child, &child->output);
}

static void on_errors(void *owner)
{
    struct child *child = owner;
    char buffer[CHILD_ERRORS_BYTES_MAX];
    size_t n_read;
    switch (stream_read(&child->errors, buffer, sizeof(buffer), &n_read)) {
    case STREAM_DONE:
        if (n_read > sizeof(child->errors_text) - child->errors_bytes) {
            n_read = sizeof(child->errors_text) - child->errors_bytes;
        }
        memcpy(child->errors_text + child->errors_bytes, buffer, n_read);
        child->errors_bytes += n_read;
        return;
    case STREAM_BLOCKED:
        return;
    case STREAM_EOF:
    case STREAM_BROKEN:
        break;
    }
    end_output(child, &child->errors);
}

/* --- its input --- */

/* A child writes nothing there: it has closed it. The next write reports that. */
static void on_input_readable(void *owner)
{
    struct child *child = owner;
    stream_want_read(&child->input, false);
}

static void on_input_drained(void *owner)
{
    struct child *child = owner;
    free(child->kept);
    child->kept = NULL;
    if (child->is_input_ended) {
        stream_close(&child->input);
    } else if (child->order.on_room != NULL) {
        child->order.on_room(child->order.context);
    }
}

bool child_write(struct child *child, struct span input)
{
    struct iovec slice = {.iov_base = (void *)(uintptr_t)input.data, .iov_len = input.len};
    if (input.len == 0 || stream_write(&child->input, &slice, 1) != STREAM_BLOCKED) {
        return true; /* written, or dropped: its end will say why it reads no more */
    }
    child->kept = stream_copy_kept(&child->input);
    if (child->kept == NULL) {
        stream_give_up_writing(&child->input);
        child_end_input(child);
        kill_for(child, CHILD_LATE);
        return true;
    }
    return false;
}

void child_end_input(struct child *child)
{
    child->is_input_ended = true;
    if (!stream_is_blocked(&child->input)) {
        stream_close(&child->input);
    }
}

/* --- the start --- */

static const struct stream_handler INPUT_HANDLER = {.on_readable = on_input_readable,
                                                    .on_drained = on_input_drained};
static const struct stream_handler OUTPUT_HANDLER = {.on_readable = on_output};
static const struct stream_handler ERRORS_HANDLER = {.on_readable = on_errors};

/* Close a descriptor that began as a copy or in memory. ThreadSanitizer does not see such a
 * descriptor begin, and takes its close() for a race with the last use of the number. */
void child_file_close(int fd)
{
    if (close_range((unsigned)fd, (unsigned)fd, 0) != 0) {
        close(fd);
    }
}

enum { N_PAIRS = 3 };

/* [0] of each is ours, [1] the child's. */
struct pairs {
    int fds[N_PAIRS][2];
};

static void close_pairs(const struct pairs *pairs)
{
    for (size_t i = 0; i < N_PAIRS; i++) {
        if (pairs->fds[i][0] >= 0) {
            close(pairs->fds[i][0]);
        }
        if (pairs->fds[i][1] >= 0) {
            child_file_close(pairs->fds[i][1]);
        }
    }
}

/* Ours does not block. All have numbers above those of a child, so that none is overwritten while
 * they are put in their places. */
static bool open_pairs(struct pairs *pairs)
{
    memset(pairs, -1, sizeof(*pairs));
    for (size_t i = 0; i < N_PAIRS; i++) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
            return false;
        }
        pairs->fds[i][0] = fds[0];
        pairs->fds[i][1] = fcntl(fds[1], F_DUPFD_CLOEXEC, CHILD_FIRST_FILE + CHILD_FILES_MAX);
        close(fds[1]);
        if (pairs->fds[i][1] < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) {
            return false;
        }
    }
    return true;
}

/* 0, or an error number. */
static int add_files(posix_spawn_file_actions_t *actions, const struct child_order *order,
                     const struct pairs *pairs)
{
    int error = 0;
    for (int i = 0; i < N_PAIRS && error == 0; i++) {
        error = posix_spawn_file_actions_adddup2(actions, pairs->fds[i][1], i);
    }
    for (size_t i = 0; i < order->n_files && error == 0; i++) {
        error =
            posix_spawn_file_actions_adddup2(actions, order->files[i], CHILD_FIRST_FILE + (int)i);
    }
    return error != 0 ? error
                      : posix_spawn_file_actions_addclosefrom_np(actions, CHILD_FIRST_FILE +
                                                                              (int)order->n_files);
}

/* The signals of a new process: none is blocked, and those that this program ignores are not
 * ignored. */
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGCHLD);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    error = error != 0 ? error : posix_spawnattr_setsigdefault(attributes, &ignored);
    return error != 0 ? error
                      : posix_spawnattr_setflags(attributes,
                                                 POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* No fork: the process may be large, and has threads. 0, or an error number. */
static int spawn(struct child *child, const struct pairs *pairs)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const struct child_order *order = &child->order;
    const char *program = order->program != NULL ? order->program : "/proc/self/exe";
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_signals(&attributes);
        error = error != 0 ? error : add_files(&actions, order, pairs);
        error = error != 0 ? error
                           : posix_spawn(&child->pid, program, &actions, &attributes,
                                         order->arguments, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void set_limit(pid_t pid, __rlimit_resource_t which, uint64_t most, uint64_t hard)
{
    const struct rlimit limit = {.rlim_cur = most, .rlim_max = hard};
    (void)prlimit(pid, which, &limit, NULL);
}

/* Where memory is short for all, the child ends before the proxy does. */
static void offer_to_oom_killer(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, OOM_SCORE, sizeof(OOM_SCORE) - 1);
        close(fd);
    }
}

/* Where a sandbox refuses a smaller priority, the child has that of the process. */
static void restrain(const struct child *child)
{
    set_limit(child->pid, RLIMIT_CORE, 0, 0);
    /* SIGXCPU comes at the first of the two, SIGKILL at the second. */
    set_limit(child->pid, RLIMIT_CPU, child->order.cpu_s, child->order.cpu_s + 1);
    if (HAS_MEMORY_LIMIT) {
        set_limit(child->pid, RLIMIT_AS, child->order.memory_bytes, child->order.memory_bytes);
    }
    (void)setpriority(PRIO_PROCESS, (id_t)child->pid, NICENESS);
    offer_to_oom_killer(child->pid);
}

/* @fd is the stream's afterwards, whatever comes of it. */
static enum status open_stream(struct child *child, struct loop *loop, int *fd,
                               struct stream *stream, const struct stream_handler *handler)
{
    const int taken = *fd;
    *fd = -1;
    return stream_open(stream, loop, taken, handler, child);
}

static enum status open_streams(struct child *child, struct loop *loop, struct pairs *pairs)
{
    enum status status = open_stream(child, loop, &pairs->fds[0][0], &child->input, &INPUT_HANDLER);
    if (status == STATUS_OK) {
        status = open_stream(child, loop, &pairs->fds[1][0], &child->output, &OUTPUT_HANDLER);
    }
    if (status == STATUS_OK) {
        status = open_stream(child, loop, &pairs->fds[2][0], &child->errors, &ERRORS_HANDLER);
    }
    return status;
}

static enum status start(struct child *child, struct loop *loop, struct pairs *pairs)
{
    enum status status = open_pairs(pairs) ? open_streams(child, loop, pairs) : STATUS_IO;
    if (status == STATUS_OK && spawn(child, pairs) != 0) {
        status = STATUS_IO;
    }
    return status;
}

enum status child_start(struct child_set *set, const struct child_order *order,
                        struct child **child)
{
    struct pairs pairs;
    struct child *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->order = *order;
    made->input.fd = -1;
    made->output.fd = -1;
    made->errors.fd = -1;
    timer_init(&made->deadline, set->loop, on_deadline, made);
    timer_init(&made->reaping, set->loop, on_reaping, made);
    list_push_back(&set->children, &made->node);
    const enum status status = start(made, set->loop, &pairs);
    made->order.arguments = NULL; /* borrowed until now, as are the files */
    made->order.files = NULL;
    close_pairs(&pairs);
    if (status != STATUS_OK) {
        child_free(made);
        return status;
    }
    restrain(made);
    timer_arm(&made->deadline, order->time_us);
    if (!order->has_input) {
        child_end_input(made);
    }
    *child = made;
    return STATUS_OK;
}

/* --- files in memory --- */

static bool write_all(int fd, struct span contents)
{
    while (contents.len > 0) {
        const ssize_t n = write(fd, contents.data, contents.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        contents = span_of(contents.data + n, contents.len - (size_t)n);
    }
    return true;
}

int child_file_of(struct span contents)
{
    const int made = memfd_create("policy", MFD_CLOEXEC);
    if (made < 0) {
        return -1;
    }
    const int fd = fcntl(made, F_DUPFD_CLOEXEC, CHILD_FIRST_FILE + CHILD_FILES_MAX);
    child_file_close(made);
    if (fd >= 0 && !write_all(fd, contents)) {
        child_file_close(fd);
        return -1;
    }
    return fd;
}

const char *child_file_path(size_t index)
{
    static const char *const PATHS[CHILD_FILES_MAX] = {"/proc/self/fd/3", "/proc/self/fd/4",
                                                       "/proc/self/fd/5", "/proc/self/fd/6"};
    return PATHS[index];
}
