/* Each log has a queue of two buffers; when the thread has written one, it exchanges them:
 *
 *   append ─► queued ─► (exchange) ─► writing ─► the sink
 *               └ full: lost, counted, reported after the lines in the queue
 *
 * One lock protects all queues and counters. It is held while lines are copied, never during a
 * write.
 *
 * Failures: if the reader stalls, the thread blocks in write(2), or polls a sink that the process
 * has opened itself, and the queue fills. If the disk is full or the reader is gone, the rest of
 * `writing` is lost. A line that was written in part is ended before the next one starts. */

#include "base/log_output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"

static const uint64_t FLUSH_US = 1000 * 1000;  /* how long a flush waits for readers */
static const uint64_t REPORT_US = 1000 * 1000; /* between two reports of lost access lines */

enum {
    SLOW = 0,             /* error number for a full queue */
    POLL_MS = 100,        /* how often a thread that waits for its sink checks whether to end */
    EAGAIN_PAUSE_MS = 10, /* for a sink that polls as writable but takes nothing */
};

/* --- queues: the caller locks --- */

/* A queue that is all zero accepts no lines. */
struct log_queue {
    struct text queued;
    struct text writing;
    /* lines did not fit; none are accepted before the exchange, so that no later line precedes the
     * report of the missing ones */
    bool is_full;
};

/* @bytes: size of each buffer. No effect on an initialised queue. STATUS_NO_MEMORY. */
static enum status queue_init(struct log_queue *queue, size_t bytes)
{
    if (queue->queued.data != NULL) {
        return STATUS_OK;
    }
    char *queued = malloc(bytes);
    char *writing = malloc(bytes);
    if (queued == NULL || writing == NULL) {
        free(queued);
        free(writing);
        return STATUS_NO_MEMORY;
    }
    queue->queued = text_of(queued, bytes);
    queue->writing = text_of(writing, bytes);
    return STATUS_OK;
}

static void queue_close(struct log_queue *queue)
{
    free(queue->queued.data);
    free(queue->writing.data);
    *queue = (struct log_queue){.is_full = false};
}

/* Append as many whole lines as fit. Returns the rest of @lines. */
static struct span queue_append(struct log_queue *queue, struct span lines)
{
    const size_t room = queue->is_full ? 0 : queue->queued.capacity - queue->queued.len;
    size_t bytes = lines.len;
    if (bytes > room) {
        const char *newline = room > 0 ? memrchr(lines.data, '\n', room) : NULL;
        bytes = newline != NULL ? (size_t)(newline + 1 - lines.data) : 0;
        queue->is_full = true;
    }
    text_add(&queue->queued, span_of(lines.data, bytes));
    return span_of(lines.data + bytes, lines.len - bytes);
}

/* For the writing thread, after it has written the previous lines: the lines appended since the
 * last exchange. They stay valid until the next one. */
static struct span queue_exchange(struct log_queue *queue)
{
    struct text written = queue->writing;
    written.len = 0;
    queue->writing = queue->queued;
    queue->queued = written;
    queue->is_full = false;
    return text_span(&queue->writing);
}

static uint64_t count_lines(struct span lines)
{
    uint64_t n = 0;
    const char *end = lines.data + lines.len;
    for (const char *c = lines.data; c < end && (c = memchr(c, '\n', (size_t)(end - c))); c++) {
        n++;
    }
    return n;
}

/* --- threads and waits with monotonic deadlines --- */

/* Run @run(@context) in a detached thread. It blocks all signals, including SIGPIPE, and leaves
 * them to other threads. STATUS_NO_MEMORY. */
static enum status start_thread(void *(*run)(void *), void *context)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool has_started = pthread_create(&thread, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (has_started) {
        pthread_detach(thread);
    }
    return has_started ? STATUS_OK : STATUS_NO_MEMORY;
}

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Wait as pthread_cond_wait() does, until @until_us, monotonic. False: the deadline has passed. */
static bool wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_us)
{
    const struct timespec until = {
        .tv_sec = (time_t)(until_us / 1000000),
        .tv_nsec = (long)(until_us % 1000000 * 1000),
    };
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}

/* --- outputs --- */

struct log_output {
    struct list node;
    struct log_queue queues[N_LOG_KINDS];
    pthread_cond_t wake;
    bool is_asleep;  /* the thread waits for `wake` */
    bool is_writing; /* it has lines that are not written yet */
    bool has_next;   /* `next` is to replace `sink` */
    bool is_closing;
    struct log_sink next;
    uint64_t close_by_us; /* while closing: the time when it gives up on its reader, monotonic */

    /* For the output's thread alone. */
    struct log_sink sink;
    bool is_line_torn; /* the last write ended within a line */
};

static const size_t QUEUE_BYTES[N_LOG_KINDS] = {
    [LOG_KIND_PROGRAM] = LOG_PROGRAM_QUEUE_BYTES,
    [LOG_KIND_ACCESS] = LOG_ACCESS_QUEUE_BYTES,
};

/* --- what all share, with the lock --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle; /* a thread has nothing left to write */
static pthread_once_t idle_once = PTHREAD_ONCE_INIT;
static struct list outputs = {&outputs, &outputs};
static struct log_output *standard_output; /* NULL: not used yet */
static struct log_output *standard_error;  /* NULL: not started */
static bool is_stopped;

static struct {
    uint64_t n_lost;
    uint64_t n_unreported; /* of these */
    int error;             /* the cause of the last loss */
} losses[N_LOG_KINDS];
/* When a report of lost access lines was last tried, monotonic. */
static uint64_t reported_us;

static void init_idle(void)
{
    init_condition(&idle);
}

/* --- appending, with the lock --- */

static void wake_up(struct log_output *output)
{
    if (output->is_asleep) {
        output->is_asleep = false; /* one signal is enough */
        pthread_cond_signal(&output->wake);
    }
}

static struct span format_report(char *buffer, enum log_kind kind, uint64_t n_lines)
{
    const int error = losses[kind].error;
    return log_format_loss(buffer, kind == LOG_KIND_ACCESS ? "access" : "program", n_lines,
                           error == EAGAIN ? SLOW : error);
}

/* Lost lines of the access log are reported in the program log. Lost lines of the program log are
 * reported where they are missing: see report_unsupported(). */
static void report_access(void)
{
    char buffer[LOG_LINE_BYTES_MAX];
    const uint64_t n_lines = losses[LOG_KIND_ACCESS].n_unreported;
    if (n_lines == 0 || standard_error == NULL) {
        return;
    }
    const struct span line = format_report(buffer, LOG_KIND_ACCESS, n_lines);
    reported_us = clock_monotonic_us();
    if (queue_append(&standard_error->queues[LOG_KIND_PROGRAM], line).len == 0) {
        losses[LOG_KIND_ACCESS].n_unreported = 0;
        wake_up(standard_error);
    }
}

static bool is_report_due(void)
{
    return reported_us == 0 || clock_monotonic_us() - reported_us >= REPORT_US;
}

static void count_lost(enum log_kind kind, uint64_t n_lines, int error)
{
    losses[kind].n_lost += n_lines;
    losses[kind].n_unreported += n_lines;
    losses[kind].error = error;
    if (kind == LOG_KIND_ACCESS && is_report_due()) {
        report_access();
    }
}

/* --- the thread: writing, without the lock --- */

/* Wait until the sink is writable, at most POLL_MS. *was_ready: the last poll reported it writable,
 * but it took nothing. False: the output closes, and has waited long enough. */
static bool await_sink(struct log_output *output, bool *was_ready)
{
    struct pollfd ready = {.fd = output->sink.fd, .events = POLLOUT};
    if (*was_ready) {
        (void)!poll(NULL, 0, EAGAIN_PAUSE_MS);
    }
    *was_ready = poll(&ready, 1, POLL_MS) > 0;
    pthread_mutex_lock(&lock);
    const bool may_wait = !output->is_closing || clock_monotonic_us() < output->close_by_us;
    pthread_mutex_unlock(&lock);
    return may_wait;
}

/* Write @lines; returns the rest that cannot be written, and *error. */
static struct span write_lines(struct log_output *output, struct span lines, int *error)
{
    bool was_ready = false;
    while (lines.len > 0) {
        const ssize_t n = log_sink_write(&output->sink, lines);
        if (n > 0) {
            output->is_line_torn = lines.data[n - 1] != '\n';
            lines = span_of(lines.data + n, lines.len - (size_t)n);
            was_ready = false;
            continue;
        }
        *error = n < 0 ? errno : EIO;
        if (*error != EINTR && (*error != EAGAIN || !await_sink(output, &was_ready))) {
            break;
        }
    }
    return lines;
}

static struct span write_whole_lines(struct log_output *output, struct span lines, int *error)
{
    if (output->is_line_torn && write_lines(output, SPAN("\n"), error).len > 0) {
        return lines;
    }
    return write_lines(output, lines, error);
}

static void write_batch(struct log_output *output, enum log_kind kind, struct span lines)
{
    int error = 0;
    const struct span left = write_whole_lines(output, lines, &error);
    if (left.len > 0) {
        pthread_mutex_lock(&lock);
        count_lost(kind, count_lines(left), error);
        pthread_mutex_unlock(&lock);
    }
}

/* Report that @n_lines of the program log are missing after those just written. */
static void report_unsupported(struct log_output *output, uint64_t n_lines)
{
    char buffer[LOG_LINE_BYTES_MAX];
    int error;
    pthread_mutex_lock(&lock);
    const struct span line = format_report(buffer, LOG_KIND_PROGRAM, n_lines);
    pthread_mutex_unlock(&lock);
    if (write_whole_lines(output, line, &error).len == 0) {
        pthread_mutex_lock(&lock);
        losses[LOG_KIND_PROGRAM].n_unreported -= n_lines;
        pthread_mutex_unlock(&lock);
    }
}

/* --- the thread: taking turns, with the lock --- */

static bool has_lines(const struct log_output *output)
{
    for (int i = 0; i < N_LOG_KINDS; i++) {
        if (output->queues[i].queued.len > 0) {
            return true;
        }
    }
    return false;
}

/* False: the output closes, and all lines are written. */
static bool wait_for_lines(struct log_output *output)
{
    while (!has_lines(output) && !output->has_next) {
        if (output->is_closing) {
            return false;
        }
        pthread_cond_broadcast(&idle);
        output->is_asleep = true;
        if (losses[LOG_KIND_ACCESS].n_unreported == 0 || standard_error == NULL) {
            pthread_cond_wait(&output->wake, &lock);
        } else if (!wait_until(&output->wake, &lock, reported_us + REPORT_US)) {
            report_access();
        }
        output->is_asleep = false;
    }
    return true;
}

/* The lines that the thread writes next. */
struct batch {
    struct span lines[N_LOG_KINDS];
    uint64_t n_missing; /* lost lines of the program log after these */
};

static struct batch take_batch(struct log_output *output)
{
    struct batch batch = {.n_missing = 0};
    for (int i = 0; i < N_LOG_KINDS; i++) {
        batch.lines[i] = queue_exchange(&output->queues[i]);
    }
    if (output == standard_error) {
        batch.n_missing = losses[LOG_KIND_PROGRAM].n_unreported;
    }
    output->is_writing = true;
    return batch;
}

static void replace_sink(struct log_output *output)
{
    if (output->has_next) {
        log_sink_close(&output->sink);
        output->sink = output->next;
        output->has_next = false;
        output->is_line_torn = false;
    }
}

static void free_output(struct log_output *output)
{
    for (int i = 0; i < N_LOG_KINDS; i++) {
        queue_close(&output->queues[i]);
    }
    pthread_cond_destroy(&output->wake);
    log_sink_close(&output->sink);
    free(output);
}

static void *run(void *context)
{
    struct log_output *output = context;
    pthread_mutex_lock(&lock);
    while (wait_for_lines(output)) {
        const struct batch batch = take_batch(output);
        replace_sink(output);
        pthread_mutex_unlock(&lock);
        write_batch(output, LOG_KIND_PROGRAM, batch.lines[LOG_KIND_PROGRAM]);
        if (batch.n_missing > 0) {
            report_unsupported(output, batch.n_missing);
        }
        write_batch(output, LOG_KIND_ACCESS, batch.lines[LOG_KIND_ACCESS]);
        pthread_mutex_lock(&lock);
        output->is_writing = false;
    }
    list_remove(&output->node);
    pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&lock);
    free_output(output);
    return NULL;
}

/* --- life --- */

static enum status add_queue(struct log_output *output, enum log_kind kind)
{
    return queue_init(&output->queues[kind], QUEUE_BYTES[kind]);
}

/* Make an output with one queue. With the lock. */
static enum status make_output(const struct log_sink *sink, enum log_kind kind,
                               struct log_output **output)
{
    struct log_output *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    pthread_once(&idle_once, init_idle);
    init_condition(&made->wake);
    if (add_queue(made, kind) != STATUS_OK || start_thread(run, made) != STATUS_OK) {
        free_output(made);
        return STATUS_NO_MEMORY;
    }
    made->sink = *sink;
    list_push_back(&outputs, &made->node);
    *output = made;
    return STATUS_OK;
}

enum status log_output_new(const struct log_sink *sink, struct log_output **output)
{
    pthread_mutex_lock(&lock);
    const enum status status = make_output(sink, LOG_KIND_ACCESS, output);
    pthread_mutex_unlock(&lock);
    if (status != STATUS_OK) {
        struct log_sink unused = *sink;
        log_sink_close(&unused);
    }
    return status;
}

/* With the lock. */
static enum status find_stdout(struct log_output **output)
{
    struct log_sink sink;
    if (standard_output != NULL) {
        *output = standard_output;
        return STATUS_OK;
    }
    log_sink_of_fd(&sink, STDOUT_FILENO);
    if (standard_error == NULL || !log_sink_is_same(&sink, &standard_error->sink)) {
        const enum status status = make_output(&sink, LOG_KIND_ACCESS, &standard_output);
        *output = standard_output;
        return status;
    }
    *output = standard_error;
    return add_queue(standard_error, LOG_KIND_ACCESS);
}

enum status log_output_of_stdout(struct log_output **output)
{
    pthread_mutex_lock(&lock);
    const enum status status = find_stdout(output);
    pthread_mutex_unlock(&lock);
    return status;
}

void log_output_replace(struct log_output *output, const struct log_sink *sink)
{
    pthread_mutex_lock(&lock);
    if (output->has_next) {
        log_sink_close(&output->next);
    }
    output->next = *sink;
    output->has_next = true;
    wake_up(output);
    pthread_mutex_unlock(&lock);
}

void log_output_close(struct log_output *output)
{
    pthread_mutex_lock(&lock);
    if (output != NULL && output != standard_output && output != standard_error) {
        output->is_closing = true;
        output->close_by_us = clock_monotonic_us() + FLUSH_US;
        wake_up(output);
    }
    pthread_mutex_unlock(&lock);
}

/* --- any thread --- */

/* Called with the lock, which is released before the signal: the woken thread would otherwise wait
 * for it at once. */
static void append(struct log_output *output, enum log_kind kind, struct span lines)
{
    const struct span left = queue_append(&output->queues[kind], lines);
    const bool is_asleep = output->is_asleep;
    if (left.len > 0) {
        count_lost(kind, count_lines(left), SLOW);
    }
    output->is_asleep = false;
    pthread_mutex_unlock(&lock);
    if (is_asleep) {
        pthread_cond_signal(&output->wake);
    }
}

void log_output_append(struct log_output *output, struct span lines)
{
    pthread_mutex_lock(&lock);
    append(output, LOG_KIND_ACCESS, lines);
}

bool log_output_append_program(struct span lines)
{
    pthread_mutex_lock(&lock);
    if (standard_error == NULL || is_stopped) {
        const bool is_dropped = is_stopped;
        pthread_mutex_unlock(&lock);
        return is_dropped;
    }
    append(standard_error, LOG_KIND_PROGRAM, lines);
    return true;
}

void log_output_count_lost(uint64_t n_lines)
{
    pthread_mutex_lock(&lock);
    count_lost(LOG_KIND_ACCESS, n_lines, EMSGSIZE);
    pthread_mutex_unlock(&lock);
}

uint64_t log_output_lost(enum log_kind kind)
{
    pthread_mutex_lock(&lock);
    const uint64_t n_lost = losses[kind].n_lost;
    pthread_mutex_unlock(&lock);
    return n_lost;
}

enum status log_output_start(void)
{
    struct log_sink sink;
    log_sink_of_fd(&sink, STDERR_FILENO);
    pthread_mutex_lock(&lock);
    is_stopped = false;
    const enum status status =
        standard_error != NULL ? STATUS_OK : make_output(&sink, LOG_KIND_PROGRAM, &standard_error);
    pthread_mutex_unlock(&lock);
    return status;
}

/* With the lock. */
static bool is_all_written(void)
{
    for (struct list *node = outputs.next; node != &outputs; node = node->next) {
        const struct log_output *output = CONTAINER_OF(node, struct log_output, node);
        if (output->is_writing || has_lines(output)) {
            return false;
        }
    }
    return true;
}

static void flush(uint64_t until_us)
{
    while (!is_all_written() && wait_until(&idle, &lock, until_us)) {
    }
}

void log_output_flush(void)
{
    const uint64_t until_us = clock_monotonic_us() + FLUSH_US;
    pthread_mutex_lock(&lock);
    flush(until_us);
    pthread_mutex_unlock(&lock);
}

void log_output_stop(void)
{
    const uint64_t until_us = clock_monotonic_us() + FLUSH_US;
    pthread_mutex_lock(&lock);
    flush(until_us);
    report_access(); /* also losses whose report is not due yet */
    is_stopped = true;
    flush(until_us);
    pthread_mutex_unlock(&lock);
}
