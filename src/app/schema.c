/* sluice schema: the JSON Schema of policies, for editors. */

#include <jansson.h>
#include <stdio.h>

#include "app/command.h"
#include "base/compiler.h"
#include "policy/description.h"

int schema_command(int argc, char **argv)
{
    bool is_tests = false;
    const struct command_option options[] = {{.name = "tests", .flag = &is_tests}};
    if (command_read_options(options, ARRAY_LEN(options), argc, argv) != argc) {
        return command_usage(argv[0]);
    }
    json_t *schema = description_of_language(is_tests ? DESCRIPTION_TESTS : DESCRIPTION_POLICY);
    const bool is_written = schema != NULL && json_dumpf(schema, stdout, JSON_INDENT(2)) == 0;
    json_decref(schema);
    putchar('\n');
    return is_written ? EXIT_DONE : EXIT_FAILED;
}
