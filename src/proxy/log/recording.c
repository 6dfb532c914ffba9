#include "proxy/recording.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

atomic_bool recording_flag;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. */
static struct {
    enum recording_state state;
    char *lines; /* of RECORDING_BYTES_MAX; NULL: RECORDING_NONE */
    size_t bytes;
    uint64_t n_lines;
    uint64_t n_too_long;
    uint64_t end_us;
} recording;

static void end(enum recording_state state)
{
    recording.state = state;
    atomic_store_explicit(&recording_flag, false, memory_order_relaxed);
}

static void end_if_over(uint64_t now_us)
{
    if (recording.state == RECORDING_ON && now_us >= recording.end_us) {
        end(RECORDING_COMPLETE);
    }
}

static void forget(void)
{
    free(recording.lines);
    recording.lines = NULL;
    recording.bytes = 0;
    recording.n_lines = 0;
    recording.n_too_long = 0;
    end(RECORDING_NONE);
}

enum status recording_start(uint64_t now_us, uint64_t length_us)
{
    pthread_mutex_lock(&lock);
    forget();
    recording.lines = malloc(RECORDING_BYTES_MAX);
    const bool has_memory = recording.lines != NULL;
    if (has_memory) {
        recording.state = RECORDING_ON;
        recording.end_us = now_us + length_us;
        atomic_store_explicit(&recording_flag, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    return has_memory ? STATUS_OK : STATUS_NO_MEMORY;
}

void recording_stop(uint64_t now_us)
{
    pthread_mutex_lock(&lock);
    recording.end_us = now_us < recording.end_us ? now_us : recording.end_us;
    end_if_over(now_us);
    pthread_mutex_unlock(&lock);
}

void recording_forget(void)
{
    pthread_mutex_lock(&lock);
    forget();
    pthread_mutex_unlock(&lock);
}

void recording_add(struct span line, uint64_t now_us)
{
    pthread_mutex_lock(&lock);
    end_if_over(now_us);
    if (recording.state == RECORDING_ON && line.len > RECORDING_BYTES_MAX - recording.bytes) {
        end(RECORDING_FULL);
    }
    if (recording.state == RECORDING_ON) {
        memcpy(recording.lines + recording.bytes, line.data, line.len);
        recording.bytes += line.len;
        recording.n_lines++;
    }
    pthread_mutex_unlock(&lock);
}

void recording_leave_out(uint64_t now_us)
{
    pthread_mutex_lock(&lock);
    end_if_over(now_us);
    recording.n_too_long += recording.state == RECORDING_ON;
    pthread_mutex_unlock(&lock);
}

void recording_read(uint64_t now_us, struct recording_report *report)
{
    pthread_mutex_lock(&lock);
    end_if_over(now_us);
    *report = (struct recording_report){
        .state = recording.state,
        .bytes = recording.bytes,
        .n_lines = recording.n_lines,
        .n_too_long = recording.n_too_long,
        .left_us = recording.state == RECORDING_ON ? recording.end_us - now_us : 0,
    };
    pthread_mutex_unlock(&lock);
}

/* Lines that are there do not change, and only the caller's thread frees them: workers do not wait
 * for the copy. */
char *recording_copy(size_t *bytes)
{
    pthread_mutex_lock(&lock);
    const char *lines = recording.lines;
    *bytes = recording.bytes;
    pthread_mutex_unlock(&lock);
    char *copy = *bytes > 0 ? malloc(*bytes) : NULL;
    if (copy != NULL) {
        memcpy(copy, lines, *bytes);
    }
    return copy;
}
