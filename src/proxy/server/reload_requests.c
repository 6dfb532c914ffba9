#include "proxy/reload_requests.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/loop.h"

struct reload_requests {
    pthread_mutex_t lock;                           /* guards what follows, but the fd */
    uint64_t n_begun;                               /* attempts */
    uint64_t asked;                                 /* the attempt that was asked for last */
    struct reload_report report;                    /* of the latest attempt that has ended */
    struct reload_record records[RELOADS_KEPT_MAX]; /* a ring: that of @number at number % size */
    struct wakeup *listener;
    int fd; /* an eventfd */
};

enum status reload_requests_new(struct reload_requests **requests)
{
    struct reload_requests *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    made->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made->fd < 0) {
        free(made);
        return STATUS_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL); /* a plain mutex: cannot fail on Linux */
    made->report.generation = 1;
    made->report.loaded_us = clock_wall_us();
    *requests = made;
    return STATUS_OK;
}

void reload_requests_free(struct reload_requests *requests)
{
    if (requests != NULL) {
        pthread_mutex_destroy(&requests->lock);
        close(requests->fd);
        free(requests);
    }
}

uint64_t reload_requests_ask(struct reload_requests *requests)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&requests->lock);
    const uint64_t number = requests->n_begun + 1;
    requests->asked = number;
    pthread_mutex_unlock(&requests->lock);
    (void)!write(requests->fd, &one, sizeof(one)); /* full: the fd is readable all the same */
    return number;
}

void reload_requests_read(struct reload_requests *requests, struct reload_report *report)
{
    pthread_mutex_lock(&requests->lock);
    *report = requests->report;
    pthread_mutex_unlock(&requests->lock);
}

size_t reload_requests_read_records(struct reload_requests *requests, struct reload_record *records)
{
    pthread_mutex_lock(&requests->lock);
    const uint64_t last = requests->report.number;
    const size_t n = last < RELOADS_KEPT_MAX ? (size_t)last : RELOADS_KEPT_MAX;
    for (size_t i = 0; i < n; i++) {
        records[i] = requests->records[(last - i) % RELOADS_KEPT_MAX];
    }
    pthread_mutex_unlock(&requests->lock);
    return n;
}

void reload_requests_listen(struct reload_requests *requests, struct wakeup *wakeup)
{
    pthread_mutex_lock(&requests->lock);
    requests->listener = wakeup;
    pthread_mutex_unlock(&requests->lock);
}

int reload_requests_fd(const struct reload_requests *requests)
{
    return requests->fd;
}

void reload_requests_begin(struct reload_requests *requests)
{
    uint64_t n;
    pthread_mutex_lock(&requests->lock);
    requests->n_begun++;
    (void)!read(requests->fd, &n, sizeof(n)); /* later requests get the next attempt */
    pthread_mutex_unlock(&requests->lock);
}

bool reload_requests_withdraw(struct reload_requests *requests)
{
    pthread_mutex_lock(&requests->lock);
    const bool is_free = requests->asked < requests->n_begun;
    requests->n_begun -= is_free;
    pthread_mutex_unlock(&requests->lock);
    return is_free;
}

static void keep_record(struct reload_requests *requests, const struct reload_outcome *outcome)
{
    const struct reload_report *report = &requests->report;
    struct reload_record *record = &requests->records[report->number % RELOADS_KEPT_MAX];
    record->number = report->number;
    record->succeeded = report->succeeded;
    record->ended_us = report->ended_us;
    record->generation = report->generation;
    record->because = outcome->because;
    record->changes.n = 0;
    if (outcome->changes != NULL) {
        record->changes = *outcome->changes;
    }
}

void reload_requests_end(struct reload_requests *requests, const struct reload_outcome *outcome)
{
    const struct span text = outcome->text;
    const bool succeeded = outcome->succeeded;
    pthread_mutex_lock(&requests->lock);
    struct reload_report *report = &requests->report;
    const size_t len = text.len < sizeof(report->text) ? text.len : sizeof(report->text) - 1;
    report->number = requests->n_begun;
    report->succeeded = succeeded;
    report->ended_us = clock_wall_us();
    report->n_successes += succeeded;
    report->n_failures += !succeeded;
    if (succeeded) {
        report->generation++;
        report->loaded_us = report->ended_us;
    }
    memcpy(report->text, len > 0 ? text.data : "", len);
    report->text[len] = '\0';
    keep_record(requests, outcome);
    if (requests->listener != NULL) {
        wakeup_signal(requests->listener);
    }
    pthread_mutex_unlock(&requests->lock);
}
