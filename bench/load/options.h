/* What a load is: read from the command line. */

#ifndef SLUICE_BENCH_LOAD_OPTIONS_H
#define SLUICE_BENCH_LOAD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    PORTS_MAX = 8,
    PATH_LEN_MAX = 512,
    CONNECTIONS_MAX = 4096,
    REQUESTS_MAX = 4 * 1000 * 1000, /* what became of each is kept */
    RATE_MAX = 1000 * 1000,
    MS_MAX = 600 * 1000,
};

struct options {
    uint16_t ports[PORTS_MAX]; /* of 127.0.0.1; the connections are dealt to them in turn */
    size_t n_ports;
    const char *path;
    uint64_t n_paths;       /* above 1: PATH/1, PATH/2 … in turn */
    uint64_t n_connections; /* kept alive */
    uint64_t rate;        /* requests a second; 0: each connection asks as soon as it is answered */
    uint64_t n_requests;  /* at most */
    uint64_t length_ms;   /* of sending, at most */
    uint64_t warm_up_ms;  /* of it, that no latency is counted of */
    uint64_t at_us;       /* wall clock: when to begin; 0: at once */
    uint64_t seed;        /* of Poisson arrivals */
    const char *log_path; /* NULL: none */
    bool is_poisson;      /* arrivals: or evenly spaced */
    bool is_redis;        /* PING instead of HTTP */
};

/* Says on stderr what is wrong with @argv, and how it is meant; false then. */
bool MUST_USE options_read(struct options *options, int argc, char **argv);

#endif /* SLUICE_BENCH_LOAD_OPTIONS_H */
