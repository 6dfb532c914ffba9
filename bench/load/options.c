#include "options.h"

#include <stdio.h>
#include <string.h>

#include "base/span.h"

static const char USAGE[] =
    "usage: bench_load [OPTION …] PORT[,PORT …] PATH\n"
    "  --rate N          requests a second, at times of their own (default: as fast as answered)\n"
    "  --arrivals WHICH  of that rate: poisson (default) or even\n"
    "  --seed N          of Poisson arrivals: the same again with the same number\n"
    "  --connections N   kept alive (default 64)\n"
    "  --ms N            of sending (default 5000)\n"
    "  --warm-up N       ms of it that no latency is counted of (default 0)\n"
    "  --requests N      end after so many\n"
    "  --paths N         PATH/1 to PATH/N in turn\n"
    "  --at US           begin at this time, in us since the epoch\n"
    "  --log FILE        a line a request: intended, sent, answered (us since the epoch), status\n"
    "  --redis yes       PING instead of requests\n";

static bool read_ports(struct options *options, const char *text)
{
    struct span rest = span_of_text(text);
    struct span piece;
    while (span_split(&rest, ',', &piece)) {
        uint64_t port;
        if (options->n_ports == PORTS_MAX || !span_to_u64(piece, UINT16_MAX, &port)) {
            return false;
        }
        options->ports[options->n_ports++] = (uint16_t)port;
    }
    return true;
}

static bool read_word(struct options *options, const char *name, const char *value)
{
    if (strcmp(name, "--log") == 0) {
        options->log_path = value;
        return true;
    }
    if (strcmp(name, "--arrivals") == 0) {
        options->is_poisson = strcmp(value, "poisson") == 0;
        return options->is_poisson || strcmp(value, "even") == 0;
    }
    if (strcmp(name, "--redis") == 0) {
        options->is_redis = true;
        return strcmp(value, "yes") == 0;
    }
    return false;
}

static bool read_option(struct options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint64_t *number;
        uint64_t min;
        uint64_t max;
    } numbers[] = {
        {"--rate", &options->rate, 1, RATE_MAX},
        {"--seed", &options->seed, 0, UINT32_MAX},
        {"--connections", &options->n_connections, 1, CONNECTIONS_MAX},
        {"--ms", &options->length_ms, 1, MS_MAX},
        {"--warm-up", &options->warm_up_ms, 0, MS_MAX},
        {"--requests", &options->n_requests, 1, REQUESTS_MAX},
        {"--paths", &options->n_paths, 1, UINT32_MAX},
        {"--at", &options->at_us, 0, INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (strcmp(name, numbers[i].name) == 0) {
            return span_to_u64(span_of_text(value), numbers[i].max, numbers[i].number) &&
                   *numbers[i].number >= numbers[i].min;
        }
    }
    return read_word(options, name, value);
}

static bool refuse(const char *what)
{
    fprintf(stderr, "bench_load: error: %s is not what is meant\n%s", what, USAGE);
    return false;
}

bool options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){.n_connections = 64,
                                .n_requests = REQUESTS_MAX,
                                .n_paths = 1,
                                .length_ms = 5000,
                                .is_poisson = true};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!read_option(options, argv[i], argv[i + 1])) {
            return refuse(argv[i]);
        }
    }
    if (argc - i != 2) {
        return refuse("the number of arguments");
    }
    options->path = argv[i + 1];
    if (options->path[0] != '/' || strlen(options->path) > PATH_LEN_MAX) {
        return refuse(options->path);
    }
    return read_ports(options, argv[i]) || refuse(argv[i]);
}
