#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "now.h"
#include "schedule.h"

enum {
    NS_PER_US = 1000,
    NS_PER_MS = 1000 * NS_PER_US,
    OPEN_MS = 5000,  /* in which all connections have to be open */
    GRACE_MS = 2000, /* for answers, after the end of sending */
    LEAD_MS = 5,     /* before the first request: until the loop is there */
    WAIT_MAX_MS = 50,
    EVENTS = 256,
    REQUEST_BYTES = PATH_LEN_MAX + 128,
};

static uint64_t ms(uint64_t n)
{
    return n * NS_PER_MS;
}

static struct span write_request(const struct load *load, const struct shot *shot, char *buffer)
{
    const struct options *options = load->options;
    if (options->is_redis) {
        return SPAN("PING\r\n");
    }
    char number[24] = "";
    if (options->n_paths > 1) {
        snprintf(number, sizeof(number), "/%zu",
                 (size_t)(shot - load->shots) % options->n_paths + 1);
    }
    const int len = snprintf(buffer, REQUEST_BYTES, "GET %s%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                             options->path, number);
    return span_of(buffer, (size_t)len);
}

/* The next request that @connection has to send by now; NULL: none. */
static struct shot *take_shot(struct load *load, struct connection *connection)
{
    if (load->options->rate > 0) {
        if (connection->next >= load->n_due) {
            return NULL;
        }
        struct shot *shot = &load->shots[connection->next];
        connection->next += load->options->n_connections;
        return shot;
    }
    const uint64_t now = now_ns();
    if (load->n_due == load->n_shots || now < load->start_ns || now >= load->end_ns) {
        return NULL;
    }
    struct shot *shot = &load->shots[load->n_due++];
    shot->intended_ns = now;
    return shot;
}

static void lose(struct load *load, struct shot *shot)
{
    shot->done_ns = now_ns();
    load->n_done++;
}

/* Give it what it has to send, if it can. What cannot be sent is lost, so that this ends. */
static void feed(struct load *load, struct connection *connection)
{
    char buffer[REQUEST_BYTES];
    struct shot *shot;
    while (connection->state == CONNECTION_IDLE && (shot = take_shot(load, connection)) != NULL) {
        if (!connection_ask(connection, shot, write_request(load, shot, buffer))) {
            lose(load, shot);
        }
    }
    while (connection->state == CONNECTION_CLOSED) {
        load->n_connects++;
        if (connection_open(connection) || (shot = take_shot(load, connection)) == NULL) {
            return;
        }
        lose(load, shot);
    }
}

static void turn(struct load *load, struct connection *connection, uint32_t events)
{
    struct shot *shot = connection->shot;
    switch (connection_turn(connection, events)) {
    case CONNECTION_NOTHING:
        return;
    case CONNECTION_FAILED:
        if (shot != NULL) {
            connection->shot = NULL;
            lose(load, shot);
        }
        break;
    case CONNECTION_ANSWERED:
        load->n_done++;
        break;
    case CONNECTION_FREE:
        break;
    }
    feed(load, connection);
}

/* Open loop: those whose time has come go to their connections. */
static void hand_over(struct load *load, uint64_t now)
{
    while (load->options->rate > 0 && load->n_due < load->n_shots &&
           load->shots[load->n_due].intended_ns <= now) {
        const size_t number = load->n_due++;
        feed(load, &load->connections[number % load->options->n_connections]);
    }
}

static void wait_and_turn(struct load *load, uint64_t until_ns)
{
    struct epoll_event events[EVENTS];
    const uint64_t now = now_ns();
    uint64_t wait_ns = until_ns > now ? until_ns - now : 0;
    if (wait_ns > ms(WAIT_MAX_MS)) {
        wait_ns = ms(WAIT_MAX_MS);
    }
    const struct timespec timeout = {.tv_nsec = (long)wait_ns};
    const int n = epoll_pwait2(load->epoll, events, EVENTS, &timeout, NULL);
    for (int i = 0; i < n; i++) {
        turn(load, events[i].data.ptr, events[i].events);
    }
}

static bool all_are_open(const struct load *load)
{
    for (size_t i = 0; i < load->options->n_connections; i++) {
        if (load->connections[i].state != CONNECTION_IDLE) {
            return false;
        }
    }
    return true;
}

static const char *open_connections(struct load *load)
{
    const struct options *options = load->options;
    const uint64_t deadline = now_ns() + ms(OPEN_MS);
    for (size_t i = 0; i < options->n_connections; i++) {
        struct connection *connection = &load->connections[i];
        connection_init(connection, load->epoll, options->ports[i % options->n_ports],
                        options->is_redis);
        connection->next = i;
        if (!connection_open(connection)) {
            return "the server cannot be connected to";
        }
    }
    while (!all_are_open(load)) {
        if (load->n_connects > 0) {
            return "the server does not take connections";
        }
        if (now_ns() > deadline) {
            return "the server took too long to accept all connections";
        }
        wait_and_turn(load, deadline);
    }
    return NULL;
}

static void plan(struct load *load)
{
    const struct options *options = load->options;
    load->wall_ns = (int64_t)(clock_wall_us() * NS_PER_US) - (int64_t)now_ns();
    load->start_ns = now_ns() + ms(LEAD_MS);
    if (options->at_us * NS_PER_US > load->start_ns + (uint64_t)load->wall_ns) {
        load->start_ns = options->at_us * NS_PER_US - (uint64_t)load->wall_ns;
    }
    load->n_shots = options->n_requests;
    if (options->rate > 0) {
        load->n_shots = schedule_fill(options, load->start_ns, load->shots, options->n_requests);
    }
    load->end_ns = load->start_ns + ms(options->length_ms);
}

const char *load_open(struct load *load, const struct options *options)
{
    *load = (struct load){.options = options, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    load->connections = calloc(options->n_connections, sizeof(*load->connections));
    load->shots = calloc(options->n_requests, sizeof(*load->shots)); /* lazily: by the kernel */
    if (load->epoll < 0 || load->connections == NULL || load->shots == NULL) {
        return "no memory";
    }
    /* Otherwise the kernel may wake it 50 us late. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    const char *fault = open_connections(load);
    if (fault == NULL) {
        plan(load);
    }
    return fault;
}

static bool is_over(const struct load *load, uint64_t now)
{
    const bool all_are_due =
        load->n_due == load->n_shots || (load->options->rate == 0 && now >= load->end_ns);
    return (all_are_due && load->n_done == load->n_due) || now >= load->end_ns + ms(GRACE_MS);
}

static void start(struct load *load)
{
    while (now_ns() < load->start_ns) {
        wait_and_turn(load, load->start_ns);
    }
    for (size_t i = 0; i < load->options->n_connections; i++) {
        feed(load, &load->connections[i]);
    }
}

void load_run(struct load *load)
{
    start(load);
    uint64_t now;
    while (now = now_ns(), !is_over(load, now)) {
        hand_over(load, now);
        const bool has_next = load->options->rate > 0 && load->n_due < load->n_shots;
        wait_and_turn(load, has_next ? load->shots[load->n_due].intended_ns
                                     : load->end_ns + ms(GRACE_MS));
    }
    load->over_ns = now;
}

void load_free(struct load *load)
{
    for (size_t i = 0; load->connections != NULL && i < load->options->n_connections; i++) {
        if (load->connections[i].epoll == load->epoll) {
            connection_close(&load->connections[i]);
        }
    }
    if (load->epoll >= 0) {
        close(load->epoll);
    }
    free(load->connections);
    free(load->shots);
}
