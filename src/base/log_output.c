/* Each log has a queue of two buffers; when the thread has written one, it exchanges them:
 *
 *   append ─► queued ─► (exchange) ─► writing ─► the sink
 *               └ full: lost, counted, reported behind the lines that are in the queue
 *
 * One lock protects all queues and counters. It is held while lines are copied, never during a
 * write.
 *
 * Failures: the reader stands still: the thread blocks in write(2), or waits for a sink of our own
 * to be writable; the queue fills. The disk is full, the reader is gone: what is left of `writing`
 * is lost. A line of which a part was written is ended before the next one starts. */

#include "base/log_output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log_line.h"
#include "base/log_queue.h"
#include "base/log_thread.h"

static const uint64_t FLUSH_US = 1000 * 1000;  /* how long a stop waits for readers */
static const uint64_t REPORT_US = 1000 * 1000; /* between two reports of lost access lines */

enum {
    SLOW = 0,             /* as an error number: the queue was full */
    POLL_MS = 100,        /* how often a thread that waits for its sink looks whether to end */
    EAGAIN_PAUSE_MS = 10, /* for a sink that polls writable and takes nothing */
};

struct log_output {
    struct list node;
    struct log_queue queues[N_LOG_KINDS];
    pthread_cond_t wake;
    bool is_asleep;  /* the thread waits for `wake` */
    bool is_writing; /* it has lines that are not written yet */
    bool has_next;   /* `next` is to replace `sink` */
    bool is_closing;
    struct log_sink next;
    uint64_t close_by_us; /* while it closes: when it no longer waits for its reader, monotonic */

    /* The thread's alone. */
    struct log_sink sink;
    bool is_line_torn; /* what was written last did not end a line */
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
    uint64_t n_unreported; /* of those */
    int error;             /* why the last ones were lost */
} losses[N_LOG_KINDS];
/* When a report of lost access lines was last tried, monotonic. */
static uint64_t reported_us;

static void init_idle(void)
{
    log_thread_init_condition(&idle);
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
    return log_line_format_loss(buffer, kind == LOG_KIND_ACCESS ? "access" : "program", n_lines,
                                error == EAGAIN ? SLOW : error);
}

/* Lost lines of the access log are reported in the program's log, whose own are reported where
 * they are missing: see report_gap(). */
static void report_access(void)
{
    char buffer[LOG_LINE_BYTES_MAX];
    const uint64_t n_lines = losses[LOG_KIND_ACCESS].n_unreported;
    if (n_lines == 0 || standard_error == NULL) {
        return;
    }
    const struct span line = format_report(buffer, LOG_KIND_ACCESS, n_lines);
    reported_us = clock_monotonic_us();
    if (log_queue_append(&standard_error->queues[LOG_KIND_PROGRAM], line).len == 0) {
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

/* Wait until the sink is writable, or for a moment. *was_ready: it was said to be so the last time,
 * and took nothing. False: the output closes, and has waited long enough. */
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

/* What of @lines cannot be written; then *error says why. */
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
        count_lost(kind, log_queue_count(left), error);
        pthread_mutex_unlock(&lock);
    }
}

/* @n_lines of the program's log are missing behind those that have just been written. */
static void report_gap(struct log_output *output, uint64_t n_lines)
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

/* False: the output closes, and all is written. */
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
        } else if (!log_thread_wait(&output->wake, &lock, reported_us + REPORT_US)) {
            report_access();
        }
        output->is_asleep = false;
    }
    return true;
}

/* What the thread writes next. */
struct batch {
    struct span lines[N_LOG_KINDS];
    uint64_t n_missing; /* lines of the program's log behind these */
};

static struct batch take_batch(struct log_output *output)
{
    struct batch batch = {.n_missing = 0};
    for (int i = 0; i < N_LOG_KINDS; i++) {
        batch.lines[i] = log_queue_exchange(&output->queues[i]);
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
        log_queue_close(&output->queues[i]);
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
            report_gap(output, batch.n_missing);
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
    return log_queue_init(&output->queues[kind], QUEUE_BYTES[kind]);
}

/* With the lock: an output with one queue. */
static enum status make_output(const struct log_sink *sink, enum log_kind kind,
                               struct log_output **output)
{
    struct log_output *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    pthread_once(&idle_once, init_idle);
    log_thread_init_condition(&made->wake);
    if (add_queue(made, kind) != STATUS_OK || log_thread_start(run, made) != STATUS_OK) {
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

/* The signal is sent without the lock, which the thread would wait for at once. */
static void append(struct log_output *output, enum log_kind kind, struct span lines)
{
    const struct span left = log_queue_append(&output->queues[kind], lines);
    const bool is_asleep = output->is_asleep;
    if (left.len > 0) {
        count_lost(kind, log_queue_count(left), SLOW);
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
    while (!is_all_written() && log_thread_wait(&idle, &lock, until_us)) {
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
    report_access(); /* also what no report was due for */
    is_stopped = true;
    flush(until_us);
    pthread_mutex_unlock(&lock);
}
