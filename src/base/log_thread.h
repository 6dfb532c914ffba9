/* Threads of the logs: they take no signals, and their conditions have monotonic deadlines. */

#ifndef SLUICE_BASE_LOG_THREAD_H
#define SLUICE_BASE_LOG_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/status.h"

/* Run @run(@context) in a detached thread. All signals are blocked in it, SIGPIPE too: they are for
 * other threads. STATUS_NO_MEMORY. */
MUST_USE enum status log_thread_start(void *(*run)(void *), void *context);

void log_thread_init_condition(pthread_cond_t *condition);

/* Wait as pthread_cond_wait() does, until @until_us, monotonic. False: it has come. */
bool log_thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_us);

#endif /* SLUICE_BASE_LOG_THREAD_H */
