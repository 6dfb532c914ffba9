#include "base/log_thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum status log_thread_start(void *(*run)(void *), void *context)
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

void log_thread_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool log_thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_us)
{
    const struct timespec until = {
        .tv_sec = (time_t)(until_us / 1000000),
        .tv_nsec = (long)(until_us % 1000000 * 1000),
    };
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}
