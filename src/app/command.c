#include "app/command.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>

enum {
    OPTIONS_MAX = 8,
    FIRST_VALUE = 256, /* what getopt_long() calls the first option: no letter */
};

/* What getopt_long() has stopped at, where it found no option of ours. */
static void report_unknown(char **argv)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const bool is_letter = optopt > 0 && optopt < FIRST_VALUE;
    fprintf(stderr, "sluice %s: %s: no such option, or its value is missing\n", argv[0],
            is_letter ? letter : argv[optind - 1]);
}

static bool take_option(const struct command_option *option)
{
    if (option->flag != NULL) {
        *option->flag = true;
    } else if (option->value != NULL) {
        *option->value = optarg;
    } else {
        return option->take(option->context, optarg);
    }
    return true;
}

int command_read_options(const struct command_option *options, size_t n, int argc, char **argv)
{
    struct option table[OPTIONS_MAX + 1] = {{.name = NULL}};
    int found;
    assert(n <= OPTIONS_MAX);
    for (size_t i = 0; i < n; i++) {
        table[i] = (struct option){
            .name = options[i].name,
            .has_arg = options[i].flag != NULL ? no_argument : required_argument,
            .val = FIRST_VALUE + (int)i,
        };
    }
    opterr = 0;
    while ((found = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (found < FIRST_VALUE) {
            report_unknown(argv);
            return -1;
        }
        if (!take_option(&options[found - FIRST_VALUE])) {
            return -1;
        }
    }
    return optind;
}
