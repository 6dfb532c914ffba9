/* sluice check FILE...: is this a policy that would run? */

#include <stdio.h>

#include "app/command.h"
#include "app/load.h"

int check_command(int argc, char **argv)
{
    int result = EXIT_DONE;
    if (argc < 2) {
        fputs("usage: sluice check FILE...\n", stderr);
        return EXIT_USAGE;
    }
    for (int i = 1; i < argc; i++) {
        struct policy *policy;
        if (load_policy(argv[i], &policy) != STATUS_OK) {
            result = EXIT_FAILED;
            continue;
        }
        printf("%s: ok: %zu routes, %zu limits, %zu upstreams\n", argv[i], policy->n_routes,
               policy->n_rules, policy->n_upstreams);
        policy_free(policy);
    }
    return result;
}
