/* bench_load [OPTION …] PORT[,PORT …] PATH: sends requests to 127.0.0.1, at times of their own
 * or as fast as they are answered, and prints one line of JSON of what became of them.
 * options.c tells all options. */

#include <stdio.h>
#include <stdlib.h>

#include "load.h"
#include "options.h"
#include "report.h"

static int fail(const char *why)
{
    fprintf(stderr, "bench_load: error: %s\n", why);
    return EXIT_FAILURE;
}

static int report(const struct load *load)
{
    const char *log_path = load->options->log_path;
    if (log_path != NULL && !report_write_log(load, log_path)) {
        return fail("the log cannot be written");
    }
    return report_print(load) ? EXIT_SUCCESS : fail("no memory");
}

int main(int argc, char **argv)
{
    struct options options;
    if (!options_read(&options, argc, argv)) {
        return 2;
    }
    struct load load;
    const char *fault = load_open(&load, &options);
    int result;
    if (fault == NULL) {
        load_run(&load);
        result = report(&load);
    } else {
        result = fail(fault);
    }
    load_free(&load);
    return result;
}
